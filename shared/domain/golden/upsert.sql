---- tidemark/orders/dt=2026-11-01/01936000-0000-7000-8000-000000000002/recount
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
SELECT s.staged_rows, s.other_partition_rows, d.duplicate_rows, t.target_rows, t.foreign_rows, s.v0, s.v1
FROM (SELECT count(*) AS staged_rows, 0 AS other_partition_rows, count("order_id") AS v0, count("amount") AS v1 FROM (SELECT "order_id", (lower(trim(customer))) AS "customer", "amount", "ordered_at" FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS shaped) AS s
CROSS JOIN (SELECT CAST(COALESCE(sum(k.key_rows - 1), 0) AS bigint) AS duplicate_rows FROM (SELECT count(*) AS key_rows FROM (SELECT DISTINCT "order_id", "customer", "amount", "ordered_at" FROM (SELECT "order_id", "customer", "amount", "ordered_at", rank() OVER (PARTITION BY "order_id", "amount" ORDER BY "ordered_at" DESC NULLS LAST) AS tidemark_place FROM (SELECT "order_id", (lower(trim(customer))) AS "customer", "amount", "ordered_at" FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS shaped) AS p WHERE tidemark_place = 1) AS g GROUP BY "order_id", "amount" HAVING count(*) > 1) AS k) AS d
CROSS JOIN (SELECT count(*) AS target_rows, CASE WHEN count(*) > 900 THEN count(*) - 900 ELSE 0 END AS foreign_rows FROM "sales"."orders" WHERE "dt" = DATE '2026-11-01') AS t;

---- tidemark/orders/dt=2026-11-01/01936000-0000-7000-8000-000000000002/swap
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
LOCK TABLE tidemark."fence_sales_orders_9070a83f92";
-- 4
CALL tidemark."claim_sales_orders_9070a83f92"('dt=2026-11-01', 7, 'tidemark-prod', 'orders', 3);
-- 5
CREATE TEMP TABLE tidemark_counts (
    moment varchar(6) NOT NULL,
    target_rows bigint NOT NULL,
    foreign_rows bigint,
    staged_rows bigint
);
-- 6
CREATE TEMP TABLE tidemark_winners AS SELECT w."order_id", w."customer", w."amount", w."ordered_at" FROM (SELECT "order_id", "customer", "amount", "ordered_at", row_number() OVER (PARTITION BY "order_id", "amount" ORDER BY "ordered_at" DESC NULLS LAST) AS tidemark_place FROM (SELECT "order_id", (lower(trim(customer))) AS "customer", "amount", "ordered_at" FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS shaped) AS w
LEFT JOIN "sales"."orders" AS t ON w."order_id" = t."order_id" AND w."amount" = t."amount" AND (t."ordered_at" > w."ordered_at" OR (w."ordered_at" IS NULL AND t."ordered_at" IS NOT NULL))
WHERE w.tidemark_place = 1 AND t."order_id" IS NULL;
-- 7
INSERT INTO tidemark_counts (moment, target_rows, foreign_rows, staged_rows)
SELECT 'before', t.target_rows, e.elsewhere_rows, s.staged_rows
FROM (SELECT count(*) AS target_rows FROM "sales"."orders" AS o JOIN tidemark_winners AS w ON o."order_id" = w."order_id" AND o."amount" = w."amount") AS t
CROSS JOIN (SELECT 0 AS elsewhere_rows) AS e
CROSS JOIN (SELECT count(*) AS staged_rows FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS s;
-- 8
CALL tidemark.guard(1000, false);
-- 9
DELETE FROM "sales"."orders" USING tidemark_winners AS w WHERE "sales"."orders"."order_id" = w."order_id" AND "sales"."orders"."amount" = w."amount";
-- 10
INSERT INTO "sales"."orders" ("order_id", "customer", "amount", "ordered_at", "dt")
SELECT "order_id", "customer", "amount", "ordered_at", DATE '2026-11-01'
FROM tidemark_winners;
-- 11
INSERT INTO tidemark_counts (moment, target_rows, staged_rows)
SELECT 'after', t.target_rows, s.staged_keys
FROM (SELECT count(*) AS target_rows FROM "sales"."orders" AS o JOIN (SELECT "order_id", "amount" FROM (SELECT "order_id", (lower(trim(customer))) AS "customer", "amount", "ordered_at" FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS shaped GROUP BY "order_id", "amount") AS k ON o."order_id" = k."order_id" AND o."amount" = k."amount") AS t
CROSS JOIN (SELECT count(*) AS staged_keys FROM (SELECT "order_id", "amount" FROM (SELECT "order_id", (lower(trim(customer))) AS "customer", "amount", "ordered_at" FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS shaped GROUP BY "order_id", "amount") AS k) AS s;
-- 12
CALL tidemark.seal();
-- 13
SELECT b.staged_rows AS staged_rows, b.target_rows AS deleted_rows, w.inserted_rows AS inserted_rows, a.target_rows AS target_rows
FROM tidemark_counts AS b CROSS JOIN tidemark_counts AS a CROSS JOIN (SELECT count(*) AS inserted_rows FROM tidemark_winners) AS w
WHERE b.moment = 'before' AND a.moment = 'after';
-- 14
INSERT INTO tidemark.batches (batch_id, stack, dataset, partition_name, target, generation, fence, epoch, digest, definition_hash, inventory_key, source_objects, source_bytes, source_rows, staged_rows, rejected_rows, duplicate_rows, deleted_rows, inserted_rows, target_rows, staged_at, swapped_at)
SELECT '01936000-0000-7000-8000-000000000002', 'tidemark-prod', 'orders', 'dt=2026-11-01', 'sales.orders', 12, 7, 3, '7656a1feda6f5609103287f6b81290304ce1cedd37e7023c7c7361561946be8d', 'ee074f4d81eaafb680f68860bbf54dcc25a0bdf2683c367f91fbafaeda68366c', 'inventories/orders/01936000.json', 3, 12345, 1000, b.staged_rows, 0, 0, b.target_rows, (SELECT count(*) FROM tidemark_winners), a.target_rows, TIMESTAMP '2026-11-02 03:04:05.678000', GETDATE()
FROM tidemark_counts AS b CROSS JOIN tidemark_counts AS a WHERE b.moment = 'before' AND a.moment = 'after';

---- tidemark/orders/dt=2026-11-01/01936000-0000-7000-8000-000000000002/recount
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
SELECT s.staged_rows, s.other_partition_rows, d.duplicate_rows, t.target_rows, t.foreign_rows, s.v0, s.v1, e.elsewhere_rows
FROM (SELECT count(*) AS staged_rows, 0 AS other_partition_rows, count("order_id") AS v0, count("amount") AS v1 FROM (SELECT "order_id", (lower(trim(customer))) AS "customer", "amount", "ordered_at" FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS shaped) AS s
CROSS JOIN (SELECT CAST(COALESCE(sum(k.key_rows - 1), 0) AS bigint) AS duplicate_rows FROM (SELECT count(*) AS key_rows FROM (SELECT "order_id", (lower(trim(customer))) AS "customer", "amount", "ordered_at" FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS shaped GROUP BY "order_id" HAVING count(*) > 1) AS k) AS d
CROSS JOIN (SELECT count(*) AS target_rows, CASE WHEN count(*) > 900 THEN count(*) - 900 ELSE 0 END AS foreign_rows FROM "sales"."orders" WHERE "dt" = DATE '2026-11-01') AS t
CROSS JOIN (SELECT count(*) AS elsewhere_rows FROM (SELECT "order_id" FROM (SELECT "order_id", (lower(trim(customer))) AS "customer", "amount", "ordered_at" FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS shaped GROUP BY "order_id") AS k JOIN (SELECT "order_id" FROM "sales"."orders" WHERE CASE WHEN "dt" = DATE '2026-11-01' THEN false ELSE true END) AS o ON k."order_id" = o."order_id") AS e;

---- tidemark/orders/dt=2026-11-01/01936000-0000-7000-8000-000000000002/swap
-- 1
SET statement_timeout TO 1800000;
-- 2
SET timezone TO 'UTC';
-- 3
LOCK TABLE tidemark."fence_sales_orders_9070a83f92";
-- 4
CALL tidemark."claim_sales_orders_9070a83f92"('dt=2026-11-01', 7, 'tidemark-prod', 'orders', 3);
-- 5
CREATE TEMP TABLE tidemark_counts (
    moment varchar(6) NOT NULL,
    target_rows bigint NOT NULL,
    foreign_rows bigint,
    staged_rows bigint
);
-- 6
CREATE TEMP TABLE tidemark_winners AS SELECT "order_id", "customer", "amount", "ordered_at" FROM (SELECT "order_id", (lower(trim(customer))) AS "customer", "amount", "ordered_at" FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS shaped;
-- 7
INSERT INTO tidemark_counts (moment, target_rows, foreign_rows, staged_rows)
SELECT 'before', t.target_rows, e.elsewhere_rows, s.staged_rows
FROM (SELECT count(*) AS target_rows FROM "sales"."orders" AS o JOIN tidemark_winners AS w ON o."order_id" = w."order_id") AS t
CROSS JOIN (SELECT count(*) AS elsewhere_rows FROM (SELECT "order_id" FROM tidemark_winners GROUP BY "order_id") AS k JOIN (SELECT "order_id" FROM "sales"."orders" WHERE CASE WHEN "dt" = DATE '2026-11-01' THEN false ELSE true END) AS o ON k."order_id" = o."order_id") AS e
CROSS JOIN (SELECT count(*) AS staged_rows FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS s;
-- 8
CALL tidemark.guard(1000, false);
-- 9
DELETE FROM "sales"."orders" USING tidemark_winners AS w WHERE "sales"."orders"."order_id" = w."order_id";
-- 10
INSERT INTO "sales"."orders" ("order_id", "customer", "amount", "ordered_at", "dt")
SELECT "order_id", "customer", "amount", "ordered_at", DATE '2026-11-01'
FROM tidemark_winners;
-- 11
INSERT INTO tidemark_counts (moment, target_rows, staged_rows)
SELECT 'after', t.target_rows, s.staged_keys
FROM (SELECT count(*) AS target_rows FROM "sales"."orders" AS o JOIN (SELECT "order_id" FROM (SELECT "order_id", (lower(trim(customer))) AS "customer", "amount", "ordered_at" FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS shaped GROUP BY "order_id") AS k ON o."order_id" = k."order_id") AS t
CROSS JOIN (SELECT count(*) AS staged_keys FROM (SELECT "order_id" FROM (SELECT "order_id", (lower(trim(customer))) AS "customer", "amount", "ordered_at" FROM tidemark_staging."batch_01936000-0000-7000-8000-000000000002_7656a1feda6f") AS shaped GROUP BY "order_id") AS k) AS s;
-- 12
CALL tidemark.seal();
-- 13
SELECT b.staged_rows AS staged_rows, b.target_rows AS deleted_rows, w.inserted_rows AS inserted_rows, a.target_rows AS target_rows
FROM tidemark_counts AS b CROSS JOIN tidemark_counts AS a CROSS JOIN (SELECT count(*) AS inserted_rows FROM tidemark_winners) AS w
WHERE b.moment = 'before' AND a.moment = 'after';
-- 14
INSERT INTO tidemark.batches (batch_id, stack, dataset, partition_name, target, generation, fence, epoch, digest, definition_hash, inventory_key, source_objects, source_bytes, source_rows, staged_rows, rejected_rows, duplicate_rows, deleted_rows, inserted_rows, target_rows, staged_at, swapped_at)
SELECT '01936000-0000-7000-8000-000000000002', 'tidemark-prod', 'orders', 'dt=2026-11-01', 'sales.orders', 12, 7, 3, '7656a1feda6f5609103287f6b81290304ce1cedd37e7023c7c7361561946be8d', 'ee074f4d81eaafb680f68860bbf54dcc25a0bdf2683c367f91fbafaeda68366c', 'inventories/orders/01936000.json', 3, 12345, 1000, b.staged_rows, 0, 0, b.target_rows, (SELECT count(*) FROM tidemark_winners), a.target_rows, TIMESTAMP '2026-11-02 03:04:05.678000', GETDATE()
FROM tidemark_counts AS b CROSS JOIN tidemark_counts AS a WHERE b.moment = 'before' AND a.moment = 'after';
