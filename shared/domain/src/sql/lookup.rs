//! What is asked of Redshift outside a batch's transactions. Each result is that of the batch's last statement.

use super::identifier::{PerTarget, per_target};
use super::rebuild::{Request, name, settings};
use super::{Batch, SqlError, count, literal, rows};

/// After fencing: the stored fence, and the partition's newest ledger row by fence. One row: `rows::Look`.
pub fn look(request: &Request<'_>) -> Result<Batch, SqlError> {
    let newest = format!(
        "stack = {} AND dataset = {} AND partition_name = {} ORDER BY fence DESC LIMIT 1",
        literal::text(request.stack.as_str())?,
        literal::text(request.definition.name.as_str())?,
        literal::text(request.partition.name.as_str())?
    );
    ask(request, "look", fence_and_ledger(request, &newest)?)
}

/// After a swap that didn't end FINISHED: the stored fence, and the batch's own ledger row. One row: `rows::Look`.
pub fn ledger_row(request: &Request<'_>) -> Result<Batch, SqlError> {
    let own = format!("batch_id = {}", literal::text(&request.batch.to_string())?);
    ask(request, "ledger", fence_and_ledger(request, &own)?)
}

/// Counts a staging table that is there already. One row: `verify::StageCounts`.
pub fn recount(request: &Request<'_>) -> Result<Batch, SqlError> {
    ask(request, "recount", count::staged(request)?)
}

/// What the system views say of a COPY, by its query id. One row: `verify::LoadCounts`.
pub fn loaded_files(request: &Request<'_>, copy_query_id: i64) -> Result<Batch, SqlError> {
    ask(request, "loaded-files", count::loads(request.definition, &literal::integer(copy_query_id)))
}

/// The first ten errors of a COPY: rows of `rows::LoadError`. Only to be asked once its transaction has ended.
pub fn load_errors(request: &Request<'_>, copy_query_id: i64) -> Result<Batch, SqlError> {
    let sql = format!(
        "SELECT TRIM(file_name), line_number, TRIM(column_name), error_code, TRIM(error_message), TRIM(column_type), \
         TRIM(column_length), position\n\
         FROM sys_load_error_detail WHERE query_id = {} ORDER BY file_name, line_number LIMIT 10",
        literal::integer(copy_query_id)
    );
    ask(request, "load-errors", sql)
}

/// Who holds a lock that the session `pid` waits for: rows of `rows::Blocker`. None where it doesn't wait.
pub fn blockers(request: &Request<'_>, pid: i64) -> Result<Batch, SqlError> {
    let sql = format!(
        "SELECT DISTINCT holder.pid, TRIM(holder.txn_owner), TRIM(holder.lock_mode)\n\
         FROM svv_transactions AS waiter JOIN svv_transactions AS holder ON holder.relation = waiter.relation\n\
         WHERE waiter.pid = {} AND NOT waiter.granted AND holder.granted AND holder.pid <> waiter.pid",
        literal::integer(pid)
    );
    ask(request, "blockers", sql)
}

/// Drops the batch's staging table, if it is there.
pub fn drop_staging(request: &Request<'_>) -> Result<Batch, SqlError> {
    let sql = format!("DROP TABLE IF EXISTS {}", request.staging()?);
    ask(request, "drop-staging", sql)
}

fn ask(request: &Request<'_>, what: &str, sql: String) -> Result<Batch, SqlError> {
    let mut statements = settings(request);
    statements.push(sql);
    Batch::new(name(request, what), statements)
}

/// One row always: nulls where there is no fence, or no ledger row that meets the condition.
fn fence_and_ledger(request: &Request<'_>, condition: &str) -> Result<String, SqlError> {
    let columns = rows::LEDGER_COLUMNS;
    Ok(format!(
        "SELECT f.stored_fence, {of_ledger}\n\
         FROM (SELECT max(fence) AS stored_fence FROM {fence} WHERE partition_name = {partition}) AS f\n\
         LEFT JOIN (SELECT {columns} FROM tidemark.batches WHERE {condition}) AS b ON 1 = 1",
        of_ledger = columns.map(|column| format!("b.{column}")).join(", "),
        columns = columns.join(", "),
        fence = per_target(PerTarget::Fence, &request.definition.target)?,
        partition = literal::text(request.partition.name.as_str())?,
    ))
}
