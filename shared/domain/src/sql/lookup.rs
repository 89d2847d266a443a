//! What is asked of Redshift outside a batch's transactions. Each result is that of the batch's last statement.

use super::rebuild::{Request, name};
use super::{Batch, SqlError};

/// After fencing: the stored fence, and the partition's newest ledger row by fence. One row: `rows::Look`.
pub fn look(request: &Request<'_>) -> Result<Batch, SqlError> {
    Batch::new(name(request, "look"), vec![])
}

/// After a swap that didn't end FINISHED: the stored fence, and the batch's own ledger row. One row: `rows::Look`.
pub fn ledger_row(request: &Request<'_>) -> Result<Batch, SqlError> {
    Batch::new(name(request, "ledger"), vec![])
}

/// Counts a staging table that is there already. One row: `verify::StageCounts`.
pub fn recount(request: &Request<'_>) -> Result<Batch, SqlError> {
    Batch::new(name(request, "recount"), vec![])
}

/// What the system views say of a COPY. One row: `verify::LoadCounts`.
pub fn loaded_files(request: &Request<'_>, copy_query_id: i64) -> Result<Batch, SqlError> {
    let _ = copy_query_id;
    Batch::new(name(request, "loaded-files"), vec![])
}

/// The first ten errors of a COPY: rows of `rows::LoadError`. Only to be asked once its transaction has ended.
pub fn load_errors(request: &Request<'_>, copy_query_id: i64) -> Result<Batch, SqlError> {
    let _ = copy_query_id;
    Batch::new(name(request, "load-errors"), vec![])
}

/// Who holds locks on target and fence table: rows of `rows::Blocker`.
pub fn blockers(request: &Request<'_>) -> Result<Batch, SqlError> {
    Batch::new(name(request, "blockers"), vec![])
}

/// Drops the batch's staging table, if it is there.
pub fn drop_staging(request: &Request<'_>) -> Result<Batch, SqlError> {
    Batch::new(name(request, "drop-staging"), vec![])
}
