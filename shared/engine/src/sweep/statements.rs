//! Statements of sweep, within the time of a slice. Unlike a rebuild's they leave no record before they are sent: asking twice
//! is harmless, and so is booking twice.

use jiff::{SignedDuration, Timestamp};
use tidemark_domain::failure::{ApiCall, FailureKind, statement_failure};
use tidemark_domain::sql::Batch;

use crate::Engine;
use crate::error::Error;
use crate::ports::{Execution, ExecutionStatus, StatementResult, Submission};
use crate::rebuild::statement::refused;

/// The longest wait of one call.
const LONG_POLL: SignedDuration = SignedDuration::from_secs(30);

impl Engine {
    /// The rows of a batch's last statement. What isn't answered in time is cancelled.
    pub(super) async fn ask_within(&self, sql: &Batch, until: Timestamp) -> Result<StatementResult, Error> {
        let id = self.submit_within(sql, until).await?.id;
        let told = self.followed(&id, until).await?;
        match told.as_ref().map(|told| told.status) {
            Some(ExecutionStatus::Finished) => {
                let rows = self.ports.warehouse.result(&sql.last().id(&id)).await;
                rows.map_err(|error| refused(ApiCall::Result, &error))
            }
            Some(ExecutionStatus::Running) => {
                if let Err(error) = self.ports.warehouse.cancel(&id).await {
                    tracing::info!(%error, "not cancelled; nobody waits for it");
                }
                let message = format!("{}: not answered in the time of a slice", sql.name());
                Err(Error::Warehouse { kind: FailureKind::Unavailable, message })
            }
            _ => Err(failed(sql.name(), told.as_ref())),
        }
    }

    /// Submits, and waits for the end while there is time.
    pub(super) async fn submit_within(&self, sql: &Batch, until: Timestamp) -> Result<Execution, Error> {
        let token = self.ports.clock.id().to_string();
        let wait_seconds = self.wait_seconds(until);
        let submission = Submission { statements: sql.statements(), name: sql.name(), token: &token, wait_seconds };
        self.ports.warehouse.submit(submission).await.map_err(|error| refused(ApiCall::Submit, &error))
    }

    /// How an execution stands once it has ended, or once there is no time left. `None`: it isn't known any more.
    pub(super) async fn followed(&self, id: &str, until: Timestamp) -> Result<Option<Execution>, Error> {
        loop {
            let described = self.ports.warehouse.describe(id, self.wait_seconds(until)).await;
            let described = described.map_err(|error| refused(ApiCall::Describe, &error))?;
            match described {
                Some(told) if told.status == ExecutionStatus::Running && self.ports.clock.now() < until => {}
                told => return Ok(told),
            }
        }
    }

    fn wait_seconds(&self, until: Timestamp) -> u32 {
        let left = until.duration_since(self.ports.clock.now()).clamp(SignedDuration::ZERO, LONG_POLL);
        u32::try_from(left.as_secs()).unwrap_or(0)
    }
}

/// What an execution that ended otherwise than well comes to; `None`: it isn't known any more.
pub(super) fn failed(name: &str, told: Option<&Execution>) -> Error {
    let Some(told) = told else {
        return Error::Warehouse {
            kind: FailureKind::Unavailable,
            message: format!("{name}: it isn't known any more"),
        };
    };
    let failure = statement_failure(None, told.first_error().unwrap_or_default());
    Error::Warehouse { kind: failure.kind, message: format!("{name}: {}", failure.message) }
}
