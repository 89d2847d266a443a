//! Results of statements, typed. A row is what `GetStatementResult` gives: a list of fields.

use jiff::civil::DateTime;

use crate::definition::{ColumnName, Definition};
use crate::id::{BatchId, DefinitionHash, Digest, Epoch, Fence, Generation};
use crate::verify::{LoadCounts, SourceCounts, StageCounts};

/// One value of a result, as the Data API types it (decimals and times come as text).
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// NULL.
    Null,
    /// Whole numbers up to 64 bits.
    Long(i64),
    /// Floating point.
    Double(f64),
    /// Boolean.
    Bool(bool),
    /// Everything else.
    Text(String),
}

/// A result that isn't what the statement asked for.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RowError {
    /// Another number of rows.
    #[error("{what}: expected one row, got {rows}")]
    Rows {
        /// What was asked.
        what: &'static str,
        /// How many came.
        rows: usize,
    },
    /// Too few columns.
    #[error("{what}: column {column} is not in the result")]
    Missing {
        /// What was asked.
        what: &'static str,
        /// The column.
        column: String,
    },
    /// A value of another kind.
    #[error("{what}: column {column} should be {expected}, but is {found:?}")]
    Type {
        /// What was asked.
        what: &'static str,
        /// The column.
        column: String,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: Field,
    },
}

/// What the look found: one row, always.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// The partition's fence in the fence table; `None` counts as oldest.
    pub stored_fence: Option<Fence>,
    /// The ledger row that was looked for.
    pub ledger: Option<LedgerRow>,
}

/// A committed batch.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerRow {
    /// The batch.
    pub batch: BatchId,
    /// The generation it covered.
    pub generation: Generation,
    /// Its fence.
    pub fence: Fence,
    /// The target's epoch at that time.
    pub epoch: Epoch,
    /// The digest of inventory and definition.
    pub digest: Digest,
    /// The definition's hash.
    pub definition_hash: DefinitionHash,
    /// Where the inventory is.
    pub inventory_key: String,
    /// The source, counted.
    pub source: SourceCounts,
    /// Rows that COPY refused.
    pub rejected_rows: u64,
    /// Rows beyond the first of each key.
    pub duplicate_rows: u64,
    /// The rows moved.
    pub counts: SwapCounts,
    /// When the staged rows were verified, in UTC.
    pub staged_at: DateTime,
    /// When the swap wrote the row, in UTC.
    pub swapped_at: DateTime,
}

/// The rows a swap moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwapCounts {
    /// Rows staged.
    pub staged_rows: u64,
    /// Rows of the partition deleted.
    pub deleted_rows: u64,
    /// Rows inserted.
    pub inserted_rows: u64,
    /// Rows of the partition when the batch had landed.
    pub target_rows: u64,
}

/// A row that COPY refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// The file, cut at 256 bytes by Redshift.
    pub file: String,
    /// Its line, from 1, where there are lines.
    pub line: Option<i64>,
    /// The column.
    pub column: String,
    /// Redshift's code.
    pub code: i64,
    /// Redshift's words.
    pub message: String,
}

/// Somebody who holds a lock on target or fence table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// The session's process id.
    pub pid: i64,
    /// The database user.
    pub user: String,
    /// The lock's mode, in Redshift's words.
    pub lock_mode: String,
}

/// Reads the one row of [`StageCounts`].
pub fn stage_counts(definition: &Definition, rows: &[Vec<Field>]) -> Result<StageCounts, RowError> {
    let _ = (definition, ColumnName(String::new()));
    Err(RowError::Rows { what: "stage counts", rows: rows.len() })
}

/// Reads the one row of [`LoadCounts`].
pub fn load_counts(rows: &[Vec<Field>]) -> Result<LoadCounts, RowError> {
    Err(RowError::Rows { what: "load counts", rows: rows.len() })
}

/// Reads the one row of [`Look`].
pub fn look(rows: &[Vec<Field>]) -> Result<Look, RowError> {
    Err(RowError::Rows { what: "look", rows: rows.len() })
}

/// Reads the one row of [`SwapCounts`].
pub fn swap_counts(rows: &[Vec<Field>]) -> Result<SwapCounts, RowError> {
    Err(RowError::Rows { what: "swap counts", rows: rows.len() })
}

/// Reads the rows of [`LoadError`]; there may be none.
pub fn load_errors(rows: &[Vec<Field>]) -> Result<Vec<LoadError>, RowError> {
    Err(RowError::Rows { what: "load errors", rows: rows.len() })
}

/// Reads the rows of [`Blocker`]; there may be none.
pub fn blockers(rows: &[Vec<Field>]) -> Result<Vec<Blocker>, RowError> {
    Err(RowError::Rows { what: "blockers", rows: rows.len() })
}
