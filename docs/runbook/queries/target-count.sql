-- Target count: how many rows does the partition hold, and how many did its newest batch leave there?
-- A difference means that somebody else wrote the target, or that a batch landed between the two counts.
-- {target}: the target table; {of_partition}: the condition for its rows of the partition; the others are names, as literals.
SELECT t.target_rows, b.ledger_rows, t.target_rows - b.ledger_rows AS difference, b.batch_id
FROM (SELECT count(*) AS target_rows FROM {target} WHERE {of_partition}) AS t
LEFT JOIN (
    SELECT batch_id, target_rows AS ledger_rows
    FROM tidemark.batches
    WHERE stack = {stack} AND dataset = {dataset} AND partition_name = {partition}
    ORDER BY fence DESC
    LIMIT 1
) AS b ON 1 = 1
