-- Late files: which files of the partition came after it was over (its range, hour or day), and did lookback still reach it then?
-- Each file once, with the batch that first loaded it.
-- {day_over}, {lookback_over}: moments in UTC, as literals; the others are names, as literals.
SELECT f.key, f.etag, min(f.last_modified) AS came_at, min(b.swapped_at) AS first_loaded_at,
       CASE WHEN min(f.last_modified) < {lookback_over} THEN 'within lookback' ELSE 'outside lookback' END AS arrival
FROM tidemark.files AS f
JOIN tidemark.batches AS b ON b.batch_id = f.batch_id
WHERE b.stack = {stack} AND b.dataset = {dataset} AND b.partition_name = {partition} AND f.last_modified >= {day_over}
GROUP BY f.key, f.etag
ORDER BY came_at
