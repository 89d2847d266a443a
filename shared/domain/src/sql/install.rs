//! What has to stand in Redshift before a rebuild: schemas, ledger, procedures; per target the fence.
//!
//! Procedures are static SQL with the rights of the caller (Redshift's default), run in the caller's transaction, and have
//! no EXCEPTION block: entering one would roll back and commit behind the caller's back. What they raise begins with a token
//! that [`crate::failure`] knows. Their variables are named `p_…` and `v_…`, since PL/pgSQL would take a bare column name for
//! a variable of that name. Tables are left to `DISTSTYLE AUTO`, which keeps tables as small as a fence table on every node.

use super::identifier::{PerTarget, per_target};
use super::{Batch, SqlError, literal};
use crate::definition::TableName;
use crate::id::{DatasetName, Epoch, StackName};

/// The version of everything `install` makes, as the newest row of `tidemark.version` tells it.
pub const VERSION: u32 = 1;

/// The version that is installed: a batch whose last statement gives one row of one number.
///
/// Fails with "does not exist" where nothing is installed.
pub fn installed_version() -> Result<Batch, SqlError> {
    Batch::new("tidemark/version", vec!["SELECT max(version) AS version FROM tidemark.version".to_owned()])
}

/// Schemas, ledger tables and the procedures that all targets share. Idempotent.
pub fn install() -> Result<Batch, SqlError> {
    let mut statements: Vec<String> =
        [SCHEMA, STAGING_SCHEMA, VERSIONS, BATCHES, FILES, BOOKING, GUARD, SEAL].map(str::to_owned).into();
    statements.push(format!("DELETE FROM tidemark.version WHERE version = {VERSION}"));
    statements.push(format!("INSERT INTO tidemark.version (version, installed_at) VALUES ({VERSION}, GETDATE())"));
    Batch::new("tidemark/init", statements)
}

/// The target's fence table and procedures. Idempotent; needs [`install`].
pub fn install_target(target: &TableName) -> Result<Batch, SqlError> {
    let fence = per_target(PerTarget::Fence, target)?;
    let statements = vec![
        fence_table(&fence),
        own_procedure(&per_target(PerTarget::Own, target)?, &fence),
        claim_procedure(&per_target(PerTarget::Claim, target)?, &fence),
        fence_off_procedure(&per_target(PerTarget::FenceOff, target)?, &fence),
    ];
    Batch::new(format!("tidemark/init/{target}"), statements)
}

/// Writes the target's guard row: who may swap into it, under which epoch. Needs [`install_target`].
///
/// Raises the epoch of the owner who stands there already; fails with `TIDEMARK-EPOCH` where a newer epoch stands, with
/// `TIDEMARK-OWNER` where another stack or dataset stands and `take_over` isn't set.
pub fn own(
    target: &TableName,
    stack: &StackName,
    dataset: &DatasetName,
    epoch: Epoch,
    take_over: bool,
) -> Result<Batch, SqlError> {
    let own = per_target(PerTarget::Own, target)?;
    let (stack, dataset) = (literal::text(stack.as_str())?, literal::text(dataset.as_str())?);
    let statements = vec![
        "SET timezone TO 'UTC'".to_owned(),
        format!("LOCK TABLE {}", per_target(PerTarget::Fence, target)?),
        format!("CALL {own}({stack}, {dataset}, {epoch}, {take_over})"),
    ];
    Batch::new(format!("tidemark/own/{target}"), statements)
}

const SCHEMA: &str = "CREATE SCHEMA IF NOT EXISTS tidemark";
const STAGING_SCHEMA: &str = "CREATE SCHEMA IF NOT EXISTS tidemark_staging";

const VERSIONS: &str = "\
CREATE TABLE IF NOT EXISTS tidemark.version (
    version integer NOT NULL,
    installed_at timestamp NOT NULL
)";

/// One row per committed batch. Insert-only, and read by none of the transactions that write it, so that datasets never
/// conflict under SERIALIZABLE.
const BATCHES: &str = "\
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
) SORTKEY (dataset, partition_name)";

/// One row per object of a committed batch, written within the hour after it.
const FILES: &str = "\
CREATE TABLE IF NOT EXISTS tidemark.files (
    batch_id varchar(36) NOT NULL,
    key varchar(1024) NOT NULL,
    etag varchar(128) NOT NULL,
    size bigint NOT NULL,
    last_modified timestamp NOT NULL
) SORTKEY (batch_id)";

/// Locked by whoever writes `files`, so that two wait for each other; it stays empty, and nobody reads it.
const BOOKING: &str = "CREATE TABLE IF NOT EXISTS tidemark.booking (booked_at timestamp NOT NULL)";

/// Raises by what the first row of `tidemark_counts` says: before anything is deleted.
const GUARD: &str = "\
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
$$ LANGUAGE plpgsql";

/// Raises unless the partition holds just what was staged; of an upsert, each staged key once.
const SEAL: &str = "\
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
$$ LANGUAGE plpgsql";

/// One row per partition, and the guard row: the one whose partition has the empty name, which no partition has.
fn fence_table(fence: &str) -> String {
    format!(
        "\
CREATE TABLE IF NOT EXISTS {fence} (
    partition_name varchar(1000) NOT NULL,
    fence bigint NOT NULL,
    stack varchar(128),
    dataset varchar(63),
    epoch bigint
)"
    )
}

fn own_procedure(own: &str, fence: &str) -> String {
    format!(
        "\
CREATE OR REPLACE PROCEDURE {own}(p_stack varchar(128), p_dataset varchar(63), p_epoch bigint, p_take_over boolean)
AS $$
DECLARE
    v_stack varchar(128);
    v_dataset varchar(63);
    v_epoch bigint;
BEGIN
    SELECT INTO v_stack, v_dataset, v_epoch max(stack), max(dataset), max(epoch)
    FROM {fence} WHERE partition_name = '';
    IF v_epoch IS NULL THEN
        INSERT INTO {fence} (partition_name, fence, stack, dataset, epoch)
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
    UPDATE {fence} SET stack = p_stack, dataset = p_dataset, epoch = p_epoch WHERE partition_name = '';
END;
$$ LANGUAGE plpgsql"
    )
}

/// The guard row, checked by writing it, so that two swaps into one target conflict by data whatever LOCK does.
fn guard_row(fence: &str) -> String {
    format!(
        "    UPDATE {fence} SET epoch = p_epoch
    WHERE partition_name = '' AND stack = p_stack AND dataset = p_dataset AND epoch = p_epoch;
    GET DIAGNOSTICS v_rows := ROW_COUNT;
    IF v_rows <> 1 THEN
        SELECT INTO v_stack, v_dataset, v_epoch max(stack), max(dataset), max(epoch)
        FROM {fence} WHERE partition_name = '';
        IF v_rows > 1 OR v_epoch IS NULL OR v_stack <> p_stack OR v_dataset <> p_dataset THEN
            RAISE EXCEPTION 'TIDEMARK-OWNER: the target belongs to dataset % of stack % (% guard rows match); apply --take-over takes it',
                v_dataset, v_stack, v_rows;
        END IF;
        IF v_epoch < p_epoch THEN
            RAISE EXCEPTION 'TIDEMARK-REWOUND: the target is at epoch %, older than %; was it restored? apply again',
                v_epoch, p_epoch;
        END IF;
        RAISE EXCEPTION 'TIDEMARK-EPOCH: the target is at epoch %, newer than %', v_epoch, p_epoch;
    END IF;"
    )
}

const OWNER_PARAMETERS: &str =
    "p_partition varchar(1000), p_fence bigint, p_stack varchar(128), p_dataset varchar(63), p_epoch bigint";
const OWNER_VARIABLES: &str = "    v_rows integer;
    v_stack varchar(128);
    v_dataset varchar(63);
    v_epoch bigint;";

/// Takes the partition for a fence, if the one that stands there is older; a partition without a fence is the oldest.
fn claim_procedure(claim: &str, fence: &str) -> String {
    let guard_row = guard_row(fence);
    format!(
        "\
CREATE OR REPLACE PROCEDURE {claim}({OWNER_PARAMETERS})
AS $$
DECLARE
{OWNER_VARIABLES}
    v_fence bigint;
BEGIN
{guard_row}
    UPDATE {fence} SET fence = p_fence WHERE partition_name = p_partition AND fence < p_fence;
    GET DIAGNOSTICS v_rows := ROW_COUNT;
    IF v_rows = 0 THEN
        SELECT INTO v_fence max(fence) FROM {fence} WHERE partition_name = p_partition;
        IF v_fence IS NOT NULL THEN
            RAISE EXCEPTION 'TIDEMARK-SUPERSEDED: partition % is at fence %, not older than %',
                p_partition, v_fence, p_fence;
        END IF;
        INSERT INTO {fence} (partition_name, fence) VALUES (p_partition, p_fence);
    END IF;
END;
$$ LANGUAGE plpgsql"
    )
}

/// Raises the partition's fence to at least the one given: swaps of that and of older fences fail from now on.
fn fence_off_procedure(fence_off: &str, fence: &str) -> String {
    let guard_row = guard_row(fence);
    format!(
        "\
CREATE OR REPLACE PROCEDURE {fence_off}({OWNER_PARAMETERS})
AS $$
DECLARE
{OWNER_VARIABLES}
    v_fence bigint;
BEGIN
{guard_row}
    SELECT INTO v_fence max(fence) FROM {fence} WHERE partition_name = p_partition;
    IF v_fence IS NULL THEN
        INSERT INTO {fence} (partition_name, fence) VALUES (p_partition, p_fence);
    ELSE
        UPDATE {fence} SET fence = p_fence WHERE partition_name = p_partition AND fence < p_fence;
    END IF;
END;
$$ LANGUAGE plpgsql"
    )
}
