//! Quoted identifiers: the only door by which a name enters SQL.

use sha2::{Digest as _, Sha256};

use crate::definition::{ColumnName, TableName};
use crate::id::BatchId;

/// Redshift's limit, in bytes.
pub const MAX_BYTES: usize = 127;
/// The schema of ledger, fence tables and procedures.
pub const SCHEMA: &str = "tidemark";
/// The schema of staging tables.
pub const STAGING_SCHEMA: &str = "tidemark_staging";

/// Why a name is no identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidIdentifier {
    /// Redshift cuts longer names silently.
    #[error("name {0:?} must have 1 to {MAX_BYTES} bytes")]
    Length(String),
    /// No identifier holds U+0000.
    #[error("name {0:?} holds a NUL byte")]
    Nul(String),
}

/// `"…"`, with quotes doubled. Always quoted, so that no name is ever a keyword.
pub fn quoted(name: &str) -> Result<String, InvalidIdentifier> {
    if !(1..=MAX_BYTES).contains(&name.len()) {
        return Err(InvalidIdentifier::Length(name.to_owned()));
    }
    if name.contains('\0') {
        return Err(InvalidIdentifier::Nul(name.to_owned()));
    }
    Ok(format!("\"{}\"", name.replace('"', "\"\"")))
}

/// A column.
pub fn column(name: &ColumnName) -> Result<String, InvalidIdentifier> {
    quoted(&name.0)
}

/// `"schema"."table"`.
pub fn table(name: &TableName) -> Result<String, InvalidIdentifier> {
    Ok(format!("{}.{}", quoted(&name.schema)?, quoted(&name.table)?))
}

/// The bare name of a batch's staging table: `batch_` and the batch's id.
pub fn staging_name(batch: BatchId) -> String {
    format!("batch_{batch}")
}

/// The batch whose staging table has this name, if it is one.
pub fn batch_of_staging(name: &str) -> Option<BatchId> {
    name.strip_prefix("batch_")?.parse().ok().map(BatchId)
}

/// `tidemark_staging."batch_…"`.
pub fn staging(batch: BatchId) -> Result<String, InvalidIdentifier> {
    Ok(format!("{STAGING_SCHEMA}.{}", quoted(&staging_name(batch))?))
}

/// What Tidemark keeps per target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerTarget {
    /// The fence table.
    Fence,
    /// The procedure at the head of a swap.
    Claim,
    /// The procedure that shuts older swaps out.
    FenceOff,
    /// The procedure that writes the guard row.
    Own,
}

/// `tidemark."fence_sales_orders_…"`.
pub fn per_target(what: PerTarget, target: &TableName) -> Result<String, InvalidIdentifier> {
    Ok(format!("{SCHEMA}.{}", quoted(&per_target_name(what, target))?))
}

/// The bare name: readable, at most 63 bytes (PostgreSQL's limit too), and told apart by a hash, since `a_b.c` and `a.b_c`
/// would otherwise share a name. Should two targets share it all the same, the guard row refuses the second.
pub fn per_target_name(what: PerTarget, target: &TableName) -> String {
    let prefix = match what {
        PerTarget::Fence => "fence",
        PerTarget::Claim => "claim",
        PerTarget::FenceOff => "fence_off",
        PerTarget::Own => "own",
    };
    let hash = hex::encode(Sha256::digest(target.to_string()));
    let readable: String = format!("{}_{}", target.schema, target.table)
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '_' })
        .take(40)
        .collect();
    format!("{prefix}_{readable}_{}", &hash[..10])
}
