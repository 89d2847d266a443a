-- Batch state: which batches of the partition landed, the newest first? One that isn't here changed nothing.
-- {stack}, {dataset}, {partition}: names, as literals.
SELECT batch_id, generation, fence, source_objects, source_rows, staged_rows, rejected_rows, duplicate_rows,
       deleted_rows, inserted_rows, target_rows, staged_at, swapped_at, inventory_key
FROM tidemark.batches
WHERE stack = {stack} AND dataset = {dataset} AND partition_name = {partition}
ORDER BY fence DESC
LIMIT 10
