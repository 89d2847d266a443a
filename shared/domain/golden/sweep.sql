---- tidemark/unbooked
-- 1
SET statement_timeout TO 900000;
-- 2
SET timezone TO 'UTC';
-- 3
SELECT b.batch_id, b.inventory_key, b.source_objects
FROM tidemark.batches AS b
WHERE b.stack = 'tidemark-prod' AND b.source_objects > 0
AND NOT EXISTS (SELECT 1 FROM tidemark.files AS f WHERE f.batch_id = b.batch_id)
ORDER BY b.batch_id LIMIT 500;

---- tidemark/unbooked
-- 1
SET statement_timeout TO 900000;
-- 2
SET timezone TO 'UTC';
-- 3
SELECT b.batch_id, b.inventory_key, b.source_objects
FROM tidemark.batches AS b
WHERE b.stack = 'tidemark-prod' AND b.source_objects > 0 AND b.swapped_at >= TIMESTAMP '2026-11-01 07:00:00' AND b.batch_id > '01936000-0000-7000-8000-000000000001'
AND NOT EXISTS (SELECT 1 FROM tidemark.files AS f WHERE f.batch_id = b.batch_id)
ORDER BY b.batch_id LIMIT 1;

---- tidemark/book
-- 1
SET statement_timeout TO 900000;
-- 2
SET timezone TO 'UTC';
-- 3
LOCK TABLE tidemark.booking;
-- 4
DELETE FROM tidemark.files WHERE batch_id IN ('01936000-0000-7000-8000-000000000001', '01936000-0000-7000-8000-000000000002');
-- 5
COPY tidemark.files (batch_id, key, etag, size, last_modified)
FROM 's3://control/manifest/book/x/manifest.json'
IAM_ROLE 'arn:aws:iam::123456789012:role/copy' MANIFEST
FORMAT AS JSON 'auto'
TIMEFORMAT AS 'epochmillisecs'
COMPUPDATE OFF STATUPDATE OFF;

---- tidemark/newest
-- 1
SET statement_timeout TO 900000;
-- 2
SET timezone TO 'UTC';
-- 3
SELECT n.partition_name, n.batch_id, n.generation, n.fence, n.epoch, n.digest, n.definition_hash, n.inventory_key, n.source_objects, n.source_bytes, n.source_rows, n.rejected_rows, n.duplicate_rows, n.staged_rows, n.deleted_rows, n.inserted_rows, n.target_rows, n.staged_at, n.swapped_at
FROM (SELECT b.*, ROW_NUMBER() OVER (PARTITION BY b.partition_name ORDER BY b.fence DESC) AS place
FROM tidemark.batches AS b WHERE b.stack = 'tidemark-prod' AND b.dataset = 'orders') AS n
WHERE n.place = 1;

---- tidemark/newest
-- 1
SET statement_timeout TO 900000;
-- 2
SET timezone TO 'UTC';
-- 3
SELECT n.partition_name, n.batch_id, n.generation, n.fence, n.epoch, n.digest, n.definition_hash, n.inventory_key, n.source_objects, n.source_bytes, n.source_rows, n.rejected_rows, n.duplicate_rows, n.staged_rows, n.deleted_rows, n.inserted_rows, n.target_rows, n.staged_at, n.swapped_at
FROM (SELECT b.*, ROW_NUMBER() OVER (PARTITION BY b.partition_name ORDER BY b.fence DESC) AS place
FROM tidemark.batches AS b WHERE b.stack = 'tidemark-prod' AND b.dataset = 'orders' AND b.partition_name > 'dt=2026-11-01' AND b.partition_name <= 'region=O''Brien\\''; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00') AS n
WHERE n.place = 1;

---- tidemark/newest
-- 1
SET statement_timeout TO 900000;
-- 2
SET timezone TO 'UTC';
-- 3
SELECT n.partition_name, n.batch_id, n.generation, n.fence, n.epoch, n.digest, n.definition_hash, n.inventory_key, n.source_objects, n.source_bytes, n.source_rows, n.rejected_rows, n.duplicate_rows, n.staged_rows, n.deleted_rows, n.inserted_rows, n.target_rows, n.staged_at, n.swapped_at
FROM (SELECT b.*, ROW_NUMBER() OVER (PARTITION BY b.partition_name ORDER BY b.fence DESC) AS place
FROM tidemark.batches AS b WHERE b.stack = 'tidemark-prod' AND b.dataset = 'orders' AND b.partition_name IN ('dt=2026-11-01', 'region=O''Brien\\''; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00')) AS n
WHERE n.place = 1;

---- tidemark/staging-tables
-- 1
SET statement_timeout TO 900000;
-- 2
SET timezone TO 'UTC';
-- 3
SELECT CAST(table_name AS varchar(128)) FROM information_schema.tables WHERE table_schema = 'tidemark_staging' ORDER BY 1;

---- tidemark/drop-left-over
-- 1
SET statement_timeout TO 900000;
-- 2
SET timezone TO 'UTC';
-- 3
DROP TABLE IF EXISTS tidemark_staging."batch_01936000-0000-7000-8000-000000000001_7656a1feda6f";
-- 4
DROP TABLE IF EXISTS tidemark_staging."batch_of_""somebody";
