---- tidemark/init
-- 1
CREATE SCHEMA IF NOT EXISTS tidemark;
-- 2
CREATE SCHEMA IF NOT EXISTS tidemark_staging;
-- 3
CREATE TABLE IF NOT EXISTS tidemark.version (
    version integer NOT NULL,
    installed_at timestamp NOT NULL
);
-- 4
CREATE TABLE IF NOT EXISTS tidemark.batches (
    batch_id varchar(36) NOT NULL,
    stack varchar(128) NOT NULL,
    dataset varchar(63) NOT NULL,
    partition_name varchar(1000) NOT NULL,
    target varchar(255) NOT NULL,
    generation bigint NOT NULL,
    fence bigint NOT NULL,
    epoch bigint NOT NULL,
    digest varchar(64) NOT NULL,
    definition_hash varchar(64) NOT NULL,
    inventory_key varchar(1024) NOT NULL,
    source_objects bigint NOT NULL,
    source_bytes bigint NOT NULL,
    source_rows bigint,
    staged_rows bigint NOT NULL,
    rejected_rows bigint NOT NULL,
    duplicate_rows bigint NOT NULL,
    deleted_rows bigint NOT NULL,
    inserted_rows bigint NOT NULL,
    target_rows bigint NOT NULL,
    staged_at timestamp NOT NULL,
    swapped_at timestamp NOT NULL
) SORTKEY (dataset, partition_name);
-- 5
CREATE TABLE IF NOT EXISTS tidemark.files (
    batch_id varchar(36) NOT NULL,
    key varchar(1024) NOT NULL,
    etag varchar(128) NOT NULL,
    size bigint NOT NULL,
    last_modified timestamp NOT NULL
) SORTKEY (batch_id);
-- 6
CREATE TABLE IF NOT EXISTS tidemark.booking (booked_at timestamp NOT NULL);
-- 7
CREATE OR REPLACE PROCEDURE tidemark.guard(p_staged_rows bigint, p_accept_foreign_rows boolean)
AS $$
DECLARE
    v_staged_rows bigint;
    v_target_rows bigint;
    v_foreign_rows bigint;
BEGIN
    SELECT INTO v_staged_rows, v_target_rows, v_foreign_rows
        max(staged_rows), max(target_rows), max(foreign_rows)
    FROM tidemark_counts WHERE moment = 'before';
    IF v_staged_rows IS NULL OR v_staged_rows <> p_staged_rows THEN
        RAISE EXCEPTION 'TIDEMARK-STAGED: staging holds % rows, but % were verified', v_staged_rows, p_staged_rows;
    END IF;
    IF v_foreign_rows > 0 AND NOT p_accept_foreign_rows THEN
        RAISE EXCEPTION 'TIDEMARK-FOREIGN-ROWS: % of the % rows to be deleted were written by no batch of ours; replay with accept foreign_rows to delete them',
            v_foreign_rows, v_target_rows;
    END IF;
END;
$$ LANGUAGE plpgsql;
-- 8
CREATE OR REPLACE PROCEDURE tidemark.seal()
AS $$
DECLARE
    v_staged_rows bigint;
    v_target_rows bigint;
BEGIN
    SELECT INTO v_staged_rows
        coalesce(max(CASE WHEN moment = 'after' THEN staged_rows END), max(CASE WHEN moment = 'before' THEN staged_rows END))
    FROM tidemark_counts;
    SELECT INTO v_target_rows max(target_rows) FROM tidemark_counts WHERE moment = 'after';
    IF v_staged_rows IS NULL OR v_target_rows IS NULL OR v_staged_rows <> v_target_rows THEN
        RAISE EXCEPTION 'TIDEMARK-SEAL: the target holds % rows after the swap, but % were staged',
            v_target_rows, v_staged_rows;
    END IF;
END;
$$ LANGUAGE plpgsql;
-- 9
DELETE FROM tidemark.version WHERE version = 1;
-- 10
INSERT INTO tidemark.version (version, installed_at) VALUES (1, GETDATE());

---- tidemark/version
-- 1
SELECT max(version) AS version FROM tidemark.version;

---- tidemark/init/sales.orders
-- 1
CREATE TABLE IF NOT EXISTS tidemark."fence_sales_orders_9070a83f92" (
    partition_name varchar(1000) NOT NULL,
    fence bigint NOT NULL,
    stack varchar(128),
    dataset varchar(63),
    epoch bigint
);
-- 2
CREATE OR REPLACE PROCEDURE tidemark."own_sales_orders_9070a83f92"(p_stack varchar(128), p_dataset varchar(63), p_epoch bigint, p_take_over boolean)
AS $$
DECLARE
    v_stack varchar(128);
    v_dataset varchar(63);
    v_epoch bigint;
BEGIN
    SELECT INTO v_stack, v_dataset, v_epoch max(stack), max(dataset), max(epoch)
    FROM tidemark."fence_sales_orders_9070a83f92" WHERE partition_name = '';
    IF v_epoch IS NULL THEN
        INSERT INTO tidemark."fence_sales_orders_9070a83f92" (partition_name, fence, stack, dataset, epoch)
        VALUES ('', 0, p_stack, p_dataset, p_epoch);
        RETURN;
    END IF;
    IF (v_stack <> p_stack OR v_dataset <> p_dataset) AND NOT p_take_over THEN
        RAISE EXCEPTION 'TIDEMARK-OWNER: the target belongs to dataset % of stack %; apply --take-over takes it',
            v_dataset, v_stack;
    END IF;
    IF v_stack = p_stack AND v_dataset = p_dataset AND v_epoch > p_epoch THEN
        RAISE EXCEPTION 'TIDEMARK-EPOCH: the target is at epoch %, newer than %', v_epoch, p_epoch;
    END IF;
    UPDATE tidemark."fence_sales_orders_9070a83f92" SET stack = p_stack, dataset = p_dataset, epoch = p_epoch WHERE partition_name = '';
END;
$$ LANGUAGE plpgsql;
-- 3
CREATE OR REPLACE PROCEDURE tidemark."claim_sales_orders_9070a83f92"(p_partition varchar(1000), p_fence bigint, p_stack varchar(128), p_dataset varchar(63), p_epoch bigint)
AS $$
DECLARE
    v_rows integer;
    v_stack varchar(128);
    v_dataset varchar(63);
    v_epoch bigint;
    v_fence bigint;
BEGIN
    UPDATE tidemark."fence_sales_orders_9070a83f92" SET epoch = p_epoch
    WHERE partition_name = '' AND stack = p_stack AND dataset = p_dataset AND epoch = p_epoch;
    GET DIAGNOSTICS v_rows := ROW_COUNT;
    IF v_rows <> 1 THEN
        SELECT INTO v_stack, v_dataset, v_epoch max(stack), max(dataset), max(epoch)
        FROM tidemark."fence_sales_orders_9070a83f92" WHERE partition_name = '';
        IF v_rows > 1 OR v_epoch IS NULL OR v_stack <> p_stack OR v_dataset <> p_dataset THEN
            RAISE EXCEPTION 'TIDEMARK-OWNER: the target belongs to dataset % of stack % (% guard rows match); apply --take-over takes it',
                v_dataset, v_stack, v_rows;
        END IF;
        IF v_epoch < p_epoch THEN
            RAISE EXCEPTION 'TIDEMARK-REWOUND: the target is at epoch %, older than %; was it restored? apply again',
                v_epoch, p_epoch;
        END IF;
        RAISE EXCEPTION 'TIDEMARK-EPOCH: the target is at epoch %, newer than %', v_epoch, p_epoch;
    END IF;
    UPDATE tidemark."fence_sales_orders_9070a83f92" SET fence = p_fence WHERE partition_name = p_partition AND fence < p_fence;
    GET DIAGNOSTICS v_rows := ROW_COUNT;
    IF v_rows = 0 THEN
        SELECT INTO v_fence max(fence) FROM tidemark."fence_sales_orders_9070a83f92" WHERE partition_name = p_partition;
        IF v_fence IS NOT NULL THEN
            RAISE EXCEPTION 'TIDEMARK-SUPERSEDED: partition % is at fence %, not older than %',
                p_partition, v_fence, p_fence;
        END IF;
        INSERT INTO tidemark."fence_sales_orders_9070a83f92" (partition_name, fence) VALUES (p_partition, p_fence);
    END IF;
END;
$$ LANGUAGE plpgsql;
-- 4
CREATE OR REPLACE PROCEDURE tidemark."fence_off_sales_orders_9070a83f92"(p_partition varchar(1000), p_fence bigint, p_stack varchar(128), p_dataset varchar(63), p_epoch bigint)
AS $$
DECLARE
    v_rows integer;
    v_stack varchar(128);
    v_dataset varchar(63);
    v_epoch bigint;
    v_fence bigint;
BEGIN
    UPDATE tidemark."fence_sales_orders_9070a83f92" SET epoch = p_epoch
    WHERE partition_name = '' AND stack = p_stack AND dataset = p_dataset AND epoch = p_epoch;
    GET DIAGNOSTICS v_rows := ROW_COUNT;
    IF v_rows <> 1 THEN
        SELECT INTO v_stack, v_dataset, v_epoch max(stack), max(dataset), max(epoch)
        FROM tidemark."fence_sales_orders_9070a83f92" WHERE partition_name = '';
        IF v_rows > 1 OR v_epoch IS NULL OR v_stack <> p_stack OR v_dataset <> p_dataset THEN
            RAISE EXCEPTION 'TIDEMARK-OWNER: the target belongs to dataset % of stack % (% guard rows match); apply --take-over takes it',
                v_dataset, v_stack, v_rows;
        END IF;
        IF v_epoch < p_epoch THEN
            RAISE EXCEPTION 'TIDEMARK-REWOUND: the target is at epoch %, older than %; was it restored? apply again',
                v_epoch, p_epoch;
        END IF;
        RAISE EXCEPTION 'TIDEMARK-EPOCH: the target is at epoch %, newer than %', v_epoch, p_epoch;
    END IF;
    SELECT INTO v_fence max(fence) FROM tidemark."fence_sales_orders_9070a83f92" WHERE partition_name = p_partition;
    IF v_fence IS NULL THEN
        INSERT INTO tidemark."fence_sales_orders_9070a83f92" (partition_name, fence) VALUES (p_partition, p_fence);
    ELSE
        UPDATE tidemark."fence_sales_orders_9070a83f92" SET fence = p_fence WHERE partition_name = p_partition AND fence < p_fence;
    END IF;
END;
$$ LANGUAGE plpgsql;

---- tidemark/own/sales.orders
-- 1
SET timezone TO 'UTC';
-- 2
LOCK TABLE tidemark."fence_sales_orders_9070a83f92";
-- 3
CALL tidemark."own_sales_orders_9070a83f92"('tidemark-prod', 'orders', 3, false);
