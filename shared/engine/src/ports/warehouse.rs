//! Redshift, through its Data API.

use async_trait::async_trait;

use super::Effect;

/// One request: one statement, or several in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission<'a> {
    /// The statements; several are one transaction, committed after the last, rolled back if any fails.
    pub statements: &'a [String],
    /// The statement name, for people who look at Redshift.
    pub name: &'a str,
    /// The client token; the same request under the same token within 8 hours is the same execution.
    pub token: &'a str,
    /// Wait for the end at most this long, 0 to 30 seconds.
    pub wait_seconds: u32,
}

/// How a request stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// Its id, a UUID.
    pub id: String,
    /// Its status. Only the whole request's `Finished` means committed.
    pub status: ExecutionStatus,
    /// The error of the whole request, where it has one.
    pub error: Option<String>,
    /// The statements of a batch, in order; empty where not described.
    pub statements: Vec<SubStatement>,
    /// The process id of its session, as the system views know it; 0 where unknown.
    pub pid: i64,
}

/// One statement of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct SubStatement {
    /// `uuid:n`.
    pub id: String,
    /// Its status.
    pub status: ExecutionStatus,
    /// Its error.
    pub error: Option<String>,
    /// Its query id in the system views; -1 or 0 where it has none.
    pub query_id: i64,
}

/// The life of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionStatus {
    /// SUBMITTED, PICKED or STARTED.
    Running,
    /// FINISHED.
    Finished,
    /// FAILED.
    Failed,
    /// ABORTED.
    Aborted,
}

impl Execution {
    /// The error of the first statement that failed by itself; else the request's.
    ///
    /// The statements after it say only that an earlier one failed.
    pub fn first_error(&self) -> Option<&str> {
        let guilty = self.statements.iter().find(|s| s.status == ExecutionStatus::Failed && s.error.is_some());
        guilty.and_then(|s| s.error.as_deref()).or(self.error.as_deref())
    }
}

/// The rows of a result, all pages.
pub type StatementResult = Vec<Vec<tidemark_domain::sql::rows::Field>>;

/// A call that the Data API refused or that failed on the way. What the *statement* did is told by [`Execution`].
#[derive(Debug, Clone, thiserror::Error)]
#[error("redshift data api {operation}: {code}: {message}")]
pub struct WarehouseError {
    /// The operation, such as `BatchExecuteStatement`.
    pub operation: &'static str,
    /// The exception's name, or `Transport` where no answer came.
    pub code: String,
    /// The service's words.
    pub message: String,
    /// Whether a submitted statement may run all the same.
    pub effect: Effect,
}

/// Redshift.
///
/// Guarantees: a request goes on to its end whatever becomes of its caller; a token is remembered for 8 hours, an
/// execution and its results for 24.
#[async_trait]
pub trait Warehouse: Send + Sync {
    /// Submits a request, or finds the execution that its token already made.
    async fn submit(&self, submission: Submission<'_>) -> Result<Execution, WarehouseError>;
    /// How an execution stands, waiting for its end at most `wait_seconds` (0 to 30). `None`: no such execution is known.
    async fn describe(&self, id: &str, wait_seconds: u32) -> Result<Option<Execution>, WarehouseError>;
    /// The result of a statement (`uuid`, or `uuid:n`), all pages.
    async fn result(&self, id: &str) -> Result<StatementResult, WarehouseError>;
    /// Asks for an execution to be cancelled. Whether it was is told by its status; one that ended already is no error.
    async fn cancel(&self, id: &str) -> Result<(), WarehouseError>;
}
