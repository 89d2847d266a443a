//! Runs a batch of statements to its end and waits for it: for an operator's command, not for a rebuild, whose statements
//! outlive their caller.

use tidemark_domain::sql::Batch;

use crate::Ports;
use crate::ports::{Effect, Execution, ExecutionStatus, StatementResult, Submission, WarehouseError};

/// The longest one call waits.
const WAIT_SECONDS: u32 = 30;
/// So many waits, then it is cancelled: 30 minutes.
const WAITS_AT_MOST: u32 = 60;
/// A submission whose answer was lost is sent again under its token, so often in all.
const SUBMISSIONS_AT_MOST: u32 = 3;

/// A batch that didn't come to a good end.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] WarehouseError),
    /// Redshift refused a statement, and nothing of the batch is done.
    #[error("{name}: {message}")]
    Failed {
        /// The batch.
        name: String,
        /// Redshift's words.
        message: String,
    },
    /// It took too long, and was cancelled.
    #[error("{name}: took longer than {} minutes and was cancelled", WAITS_AT_MOST * WAIT_SECONDS / 60)]
    TooSlow {
        /// The batch.
        name: String,
    },
    /// Its outcome can't be asked for any more.
    #[error("{name}: redshift doesn't know the statement any more; look at it there and try again")]
    Forgotten {
        /// The batch.
        name: String,
    },
}

/// Runs a batch; it is committed when this comes back well.
pub async fn run(ports: &Ports, batch: &Batch) -> Result<Execution, RunError> {
    let execution = to_its_end(ports, batch).await?;
    if execution.status == ExecutionStatus::Finished {
        return Ok(execution);
    }
    let message = execution.first_error().unwrap_or("it was cancelled").to_owned();
    Err(RunError::Failed { name: batch.name().to_owned(), message })
}

/// Runs a batch until it ended, well or not: its status says how. One that failed is described with its statements.
pub(crate) async fn to_its_end(ports: &Ports, batch: &Batch) -> Result<Execution, RunError> {
    let name = || batch.name().to_owned();
    let mut execution = submit(ports, batch).await?;
    for _ in 0..WAITS_AT_MOST {
        match execution.status {
            ExecutionStatus::Finished => return Ok(execution),
            ExecutionStatus::Failed | ExecutionStatus::Aborted => {
                return Ok(ports.warehouse.describe(&execution.id, 0).await?.unwrap_or(execution));
            }
            ExecutionStatus::Running => {
                let told = ports.warehouse.describe(&execution.id, WAIT_SECONDS).await?;
                execution = told.ok_or_else(|| RunError::Forgotten { name: name() })?;
            }
        }
    }
    ports.warehouse.cancel(&execution.id).await?;
    Err(RunError::TooSlow { name: name() })
}

/// Runs a batch and gives the rows of its last statement.
pub async fn ask(ports: &Ports, batch: &Batch) -> Result<StatementResult, RunError> {
    let execution = run(ports, batch).await?;
    Ok(ports.warehouse.result(&batch.last().id(&execution.id)).await?)
}

async fn submit(ports: &Ports, batch: &Batch) -> Result<Execution, RunError> {
    let token = ports.clock.id().to_string();
    let submission =
        Submission { statements: batch.statements(), name: batch.name(), token: &token, wait_seconds: WAIT_SECONDS };
    let mut submitted = 1;
    loop {
        match ports.warehouse.submit(submission.clone()).await {
            Err(error) if error.effect == Effect::Unknown && submitted < SUBMISSIONS_AT_MOST => submitted += 1,
            answer => return Ok(answer?),
        }
    }
}
