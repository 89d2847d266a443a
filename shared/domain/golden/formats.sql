---- tidemark/orders/dt=2026-11-01/01936000-0000-7000-8000-000000000002/stage
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
CREATE TABLE tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f" (
    "order_id" bigint,
    "customer" varchar(64),
    "amount" decimal(12,2),
    "ordered_at" timestamp,
    "more" super
);
-- 4
COPY tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f"
FROM 's3://control/manifests/01936000.json'
IAM_ROLE 'arn:aws:iam::123456789012:role/copy' MANIFEST
FORMAT AS ORC STATUPDATE OFF SERIALIZETOJSON
FILLRECORD
ACCEPTINVCHARS AS '?';
-- 5
SELECT max(query_id) AS copy_query_id, count(DISTINCT file_name) AS distinct_files, count(*) AS listed_files, 0 AS rejected_rows
FROM sys_load_detail WHERE query_id = pg_last_copy_id();
-- 6
SELECT s.staged_rows, s.other_partition_rows, d.duplicate_rows, t.target_rows, t.foreign_rows, s.v0, s.v1
FROM (SELECT count(*) AS staged_rows, 0 AS other_partition_rows, count("order_id") AS v0, count("amount") AS v1 FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS s
CROSS JOIN (SELECT CAST(COALESCE(sum(k.key_rows - 1), 0) AS bigint) AS duplicate_rows FROM (SELECT count(*) AS key_rows FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f" GROUP BY "order_id" HAVING count(*) > 1) AS k) AS d
CROSS JOIN (SELECT count(*) AS target_rows, count(*) AS foreign_rows FROM "sales"."orders" WHERE "dt" = DATE '2026-11-01') AS t;

---- tidemark/orders/dt=2026-11-01/01936000-0000-7000-8000-000000000002/stage
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
CREATE TABLE tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f" (
    "order_id" bigint,
    "customer" varchar(64),
    "amount" decimal(12,2),
    "ordered_at" timestamp,
    "more" super
);
-- 4
COPY tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f"
FROM 's3://control/manifests/01936000.json'
IAM_ROLE 'arn:aws:iam::123456789012:role/copy' MANIFEST
FORMAT AS JSON 'auto'
ZSTD
ENCODING AS UTF16
TIMEFORMAT AS 'epochmillisecs'
COMPUPDATE OFF STATUPDATE OFF;
-- 5
SELECT max(query_id) AS copy_query_id, count(DISTINCT file_name) AS distinct_files, count(*) AS listed_files, 0 AS rejected_rows
FROM sys_load_detail WHERE query_id = pg_last_copy_id();
-- 6
SELECT s.staged_rows, s.other_partition_rows, d.duplicate_rows, t.target_rows, t.foreign_rows, s.v0, s.v1
FROM (SELECT count(*) AS staged_rows, 0 AS other_partition_rows, count("order_id") AS v0, count("amount") AS v1 FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS s
CROSS JOIN (SELECT CAST(COALESCE(sum(k.key_rows - 1), 0) AS bigint) AS duplicate_rows FROM (SELECT count(*) AS key_rows FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f" GROUP BY "order_id" HAVING count(*) > 1) AS k) AS d
CROSS JOIN (SELECT count(*) AS target_rows, count(*) AS foreign_rows FROM "sales"."orders" WHERE "dt" = DATE '2026-11-01') AS t;

---- tidemark/orders/dt=2026-11-01/01936000-0000-7000-8000-000000000002/stage
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
CREATE TABLE tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f" (
    "order_id" bigint,
    "customer" varchar(64),
    "amount" decimal(12,2),
    "ordered_at" timestamp,
    "more" super
);
-- 4
COPY tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f"
FROM 's3://control/manifests/01936000.json'
IAM_ROLE 'arn:aws:iam::123456789012:role/copy' MANIFEST
FORMAT AS AVRO 's3://lake-config/paths''\\.json'
ROUNDEC
COMPUPDATE OFF STATUPDATE OFF;
-- 5
SELECT max(query_id) AS copy_query_id, count(DISTINCT file_name) AS distinct_files, count(*) AS listed_files, 0 AS rejected_rows
FROM sys_load_detail WHERE query_id = pg_last_copy_id();
-- 6
SELECT s.staged_rows, s.other_partition_rows, d.duplicate_rows, t.target_rows, t.foreign_rows, s.v0, s.v1
FROM (SELECT count(*) AS staged_rows, 0 AS other_partition_rows, count("order_id") AS v0, count("amount") AS v1 FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS s
CROSS JOIN (SELECT CAST(COALESCE(sum(k.key_rows - 1), 0) AS bigint) AS duplicate_rows FROM (SELECT count(*) AS key_rows FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f" GROUP BY "order_id" HAVING count(*) > 1) AS k) AS d
CROSS JOIN (SELECT count(*) AS target_rows, count(*) AS foreign_rows FROM "sales"."orders" WHERE "dt" = DATE '2026-11-01') AS t;
