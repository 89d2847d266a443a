---- tidemark/events/region=O'Brien\'; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00/01936000-0000-7000-8000-000000000002/fence
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
LOCK TABLE tidemark."fence_web_events_621eca1235";
-- 4
CALL tidemark."fence_off_web_events_621eca1235"('region=O''Brien\\''; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00', 6, 'tidemark-prod', 'events', 3);

---- tidemark/events/region=O'Brien\'; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00/01936000-0000-7000-8000-000000000002/look
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
SELECT f.stored_fence, b.batch_id, b.generation, b.fence, b.epoch, b.digest, b.definition_hash, b.inventory_key, b.source_objects, b.source_bytes, b.source_rows, b.rejected_rows, b.duplicate_rows, b.staged_rows, b.deleted_rows, b.inserted_rows, b.target_rows, b.staged_at, b.swapped_at
FROM (SELECT max(fence) AS stored_fence FROM tidemark."fence_web_events_621eca1235" WHERE partition_name = 'region=O''Brien\\''; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00') AS f
LEFT JOIN (SELECT batch_id, generation, fence, epoch, digest, definition_hash, inventory_key, source_objects, source_bytes, source_rows, rejected_rows, duplicate_rows, staged_rows, deleted_rows, inserted_rows, target_rows, staged_at, swapped_at FROM tidemark.batches WHERE stack = 'tidemark-prod' AND dataset = 'events' AND partition_name = 'region=O''Brien\\''; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00' ORDER BY fence DESC LIMIT 1) AS b ON 1 = 1;

---- tidemark/events/region=O'Brien\'; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00/01936000-0000-7000-8000-000000000002/stage
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
CREATE TABLE tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f" (
    "id" integer,
    "hour" timestamp,
    "user" char(8),
    "seen_at" timestamptz,
    "share" double precision,
    "weight" real,
    "tiny" smallint,
    "fresh" boolean,
    "on_day" date
);
-- 4
COPY tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f"
FROM 's3://control/manifests/01936000.json'
IAM_ROLE default MANIFEST
REGION AS 'eu-west-1'
FORMAT AS CSV QUOTE AS '''' DELIMITER AS ';'
IGNOREHEADER AS 1
NULL AS 'none'
GZIP
COMPUPDATE OFF STATUPDATE OFF
MAXERROR AS 6;
-- 5
SELECT max(query_id) AS copy_query_id, count(DISTINCT file_name) AS distinct_files, count(*) AS listed_files, (SELECT count(*) FROM sys_load_error_detail WHERE query_id = pg_last_copy_id()) AS rejected_rows
FROM sys_load_detail WHERE query_id = pg_last_copy_id();
-- 6
SELECT s.staged_rows, s.other_partition_rows, d.duplicate_rows, t.target_rows, t.foreign_rows
FROM (SELECT count(*) AS staged_rows, count(CASE WHEN "hour" = TIMESTAMP '2026-11-01 07:00:00' THEN NULL ELSE 1 END) AS other_partition_rows FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS s
CROSS JOIN (SELECT CAST(COALESCE(sum(k.key_rows - 1), 0) AS bigint) AS duplicate_rows FROM (SELECT count(*) AS key_rows FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f" GROUP BY "id", "hour" HAVING count(*) > 1) AS k) AS d
CROSS JOIN (SELECT count(*) AS target_rows, count(CASE WHEN "_batch_id" = '01936000-0000-7000-8000-000000000001' THEN NULL ELSE 1 END) AS foreign_rows FROM "web"."events" WHERE "region" = 'O''Brien\\''; DROP TABLE x;--
/"$$é' AND "hour" = TIMESTAMP '2026-11-01 07:00:00') AS t;

---- tidemark/events/region=O'Brien\'; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00/01936000-0000-7000-8000-000000000002/recount
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
SELECT s.staged_rows, s.other_partition_rows, d.duplicate_rows, t.target_rows, t.foreign_rows
FROM (SELECT count(*) AS staged_rows, count(CASE WHEN "hour" = TIMESTAMP '2026-11-01 07:00:00' THEN NULL ELSE 1 END) AS other_partition_rows FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS s
CROSS JOIN (SELECT CAST(COALESCE(sum(k.key_rows - 1), 0) AS bigint) AS duplicate_rows FROM (SELECT count(*) AS key_rows FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f" GROUP BY "id", "hour" HAVING count(*) > 1) AS k) AS d
CROSS JOIN (SELECT count(*) AS target_rows, count(CASE WHEN "_batch_id" = '01936000-0000-7000-8000-000000000001' THEN NULL ELSE 1 END) AS foreign_rows FROM "web"."events" WHERE "region" = 'O''Brien\\''; DROP TABLE x;--
/"$$é' AND "hour" = TIMESTAMP '2026-11-01 07:00:00') AS t;

---- tidemark/events/region=O'Brien\'; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00/01936000-0000-7000-8000-000000000002/loaded-files
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
SELECT max(query_id) AS copy_query_id, count(DISTINCT file_name) AS distinct_files, count(*) AS listed_files, (SELECT count(*) FROM sys_load_error_detail WHERE query_id = 4711) AS rejected_rows
FROM sys_load_detail WHERE query_id = 4711;

---- tidemark/events/region=O'Brien\'; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00/01936000-0000-7000-8000-000000000002/load-errors
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
SELECT TRIM(file_name), line_number, TRIM(column_name), error_code, TRIM(error_message), TRIM(column_type), TRIM(column_length), position
FROM sys_load_error_detail WHERE query_id = 4711 ORDER BY file_name, line_number LIMIT 10;

---- tidemark/events/region=O'Brien\'; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00/01936000-0000-7000-8000-000000000002/swap
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
LOCK TABLE tidemark."fence_web_events_621eca1235";
-- 4
CALL tidemark."claim_web_events_621eca1235"('region=O''Brien\\''; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00', 7, 'tidemark-prod', 'events', 3);
-- 5
CREATE TEMP TABLE tidemark_counts (
    moment varchar(6) NOT NULL,
    target_rows bigint NOT NULL,
    foreign_rows bigint,
    staged_rows bigint
);
-- 6
INSERT INTO tidemark_counts (moment, target_rows, foreign_rows, staged_rows)
SELECT 'before', t.target_rows, t.foreign_rows, s.staged_rows
FROM (SELECT count(*) AS target_rows, count(CASE WHEN "_batch_id" = '01936000-0000-7000-8000-000000000001' THEN NULL ELSE 1 END) AS foreign_rows FROM "web"."events" WHERE "region" = 'O''Brien\\''; DROP TABLE x;--
/"$$é' AND "hour" = TIMESTAMP '2026-11-01 07:00:00') AS t
CROSS JOIN (SELECT count(*) AS staged_rows FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS s;
-- 7
CALL tidemark.guard(1000, false);
-- 8
DELETE FROM "web"."events" WHERE "region" = 'O''Brien\\''; DROP TABLE x;--
/"$$é' AND "hour" = TIMESTAMP '2026-11-01 07:00:00';
-- 9
INSERT INTO "web"."events" ("id", "hour", "user", "seen_at", "share", "weight", "tiny", "fresh", "on_day", "region", "_batch_id", "_loaded_at")
SELECT "id", "hour", "user", "seen_at", "share", "weight", "tiny", "fresh", "on_day", 'O''Brien\\''; DROP TABLE x;--
/"$$é', '01936000-0000-7000-8000-000000000002', GETDATE()
FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f";
-- 10
INSERT INTO tidemark_counts (moment, target_rows)
SELECT 'after', count(*) FROM "web"."events" WHERE "region" = 'O''Brien\\''; DROP TABLE x;--
/"$$é' AND "hour" = TIMESTAMP '2026-11-01 07:00:00';
-- 11
CALL tidemark.seal();
-- 12
SELECT b.staged_rows AS staged_rows, b.target_rows AS deleted_rows, a.target_rows AS inserted_rows, a.target_rows AS target_rows
FROM tidemark_counts AS b CROSS JOIN tidemark_counts AS a WHERE b.moment = 'before' AND a.moment = 'after';
-- 13
INSERT INTO tidemark.batches (batch_id, stack, dataset, partition_name, target, generation, fence, epoch, digest, definition_hash, inventory_key, source_objects, source_bytes, source_rows, staged_rows, rejected_rows, duplicate_rows, deleted_rows, inserted_rows, target_rows, staged_at, swapped_at)
SELECT '01936000-0000-7000-8000-000000000002', 'tidemark-prod', 'events', 'region=O''Brien\\''; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00', 'web.events', 12, 7, 3, '7656a1feda6f5609103287f6b81290304ce1cedd37e7023c7c7361561946be8d', '6b688758bab67eb85753baed1f05ea77c36f3e580e96c091ea1190e7bc0b8b20', 'inventories/orders/01936000.json', 3, 12345, 1000, b.staged_rows, 0, 0, b.target_rows, a.target_rows, a.target_rows, TIMESTAMP '2026-11-02 03:04:05.678000', GETDATE()
FROM tidemark_counts AS b CROSS JOIN tidemark_counts AS a WHERE b.moment = 'before' AND a.moment = 'after';

---- tidemark/events/region=O'Brien\'; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00/01936000-0000-7000-8000-000000000002/ledger
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
SELECT f.stored_fence, b.batch_id, b.generation, b.fence, b.epoch, b.digest, b.definition_hash, b.inventory_key, b.source_objects, b.source_bytes, b.source_rows, b.rejected_rows, b.duplicate_rows, b.staged_rows, b.deleted_rows, b.inserted_rows, b.target_rows, b.staged_at, b.swapped_at
FROM (SELECT max(fence) AS stored_fence FROM tidemark."fence_web_events_621eca1235" WHERE partition_name = 'region=O''Brien\\''; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00') AS f
LEFT JOIN (SELECT batch_id, generation, fence, epoch, digest, definition_hash, inventory_key, source_objects, source_bytes, source_rows, rejected_rows, duplicate_rows, staged_rows, deleted_rows, inserted_rows, target_rows, staged_at, swapped_at FROM tidemark.batches WHERE batch_id = '01936000-0000-7000-8000-000000000002') AS b ON 1 = 1;

---- tidemark/events/region=O'Brien\'; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00/01936000-0000-7000-8000-000000000002/blockers
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
SELECT DISTINCT holder.pid, TRIM(holder.txn_owner), TRIM(holder.lock_mode)
FROM svv_transactions AS waiter JOIN svv_transactions AS holder ON holder.relation = waiter.relation
WHERE waiter.pid = 42 AND NOT waiter.granted AND holder.granted AND holder.pid <> waiter.pid;

---- tidemark/events/region=O'Brien\'; DROP TABLE x;--%0A%2F"$$é/hour=2026-11-01T07:00:00/01936000-0000-7000-8000-000000000002/drop-staging
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
DROP TABLE IF EXISTS tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f";
