//! Redshift through its Data API.
//!
//! Every request is a batch, also one of a single statement: so its statements always have ids of their own (`uuid:1`).
//! The client token is always the caller's own, so a request repeated by the SDK, by the next invocation or by nobody knows
//! whom is one execution. The API's long poll is used for waiting; when too many wait for one statement already, it is
//! asked without waiting.

#[cfg(test)]
mod answers;

use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_redshiftdata::Client;
use aws_sdk_redshiftdata::config::Builder;
use aws_sdk_redshiftdata::config::timeout::TimeoutConfig;
use aws_sdk_redshiftdata::types::{ExecutionMode, Field as ApiField, StatementStatusString, StatusString};
use tidemark_domain::failure::{ApiCall, ApiRefusal, api_refusal};
use tidemark_domain::sql::rows::Field;
use tidemark_engine::ports::{
    Effect, Execution, ExecutionStatus, StatementResult, SubStatement, Submission, Warehouse, WarehouseError,
};

use crate::config::{RedshiftConfig, RedshiftEndpoint};
use crate::error::Fault;

/// The longest wait the API takes.
const LONGEST_WAIT_SECONDS: u32 = 30;

/// What an attempt may take beyond the wait it asks for, before the client gives it up.
const MARGIN: Duration = Duration::from_secs(15);

/// What the API takes in one batch.
const STATEMENTS_AT_MOST: usize = 40;

/// A database in Redshift.
#[derive(Debug, Clone)]
pub struct RedshiftWarehouse {
    client: Client,
    config: RedshiftConfig,
}

impl RedshiftWarehouse {
    /// The database that `config` names.
    pub fn new(client: Client, config: RedshiftConfig) -> Self {
        Self { client, config }
    }

    async fn execute(&self, submission: &Submission<'_>, wait: u32) -> Result<Execution, Fault> {
        let operation = "BatchExecuteStatement";
        let (workgroup, cluster) = self.endpoint();
        let request = self
            .client
            .batch_execute_statement()
            .set_workgroup_name(workgroup)
            .set_cluster_identifier(cluster)
            .database(&self.config.database)
            .set_db_user(self.config.db_user.clone())
            .set_secret_arn(self.config.secret_arn.clone())
            .set_sqls(Some(submission.statements.to_vec()))
            // All or nothing, said aloud: in the other mode a swap could delete without inserting.
            .execution_mode(ExecutionMode::Transaction)
            .statement_name(submission.name)
            .client_token(submission.token)
            .set_wait_time_seconds(wait_seconds(wait));
        let answer = request.customize().config_override(patience(wait)).send().await;
        let answer = answer.map_err(|e| Fault::of(operation, &e))?;
        submitted(operation, answer.id(), answer.status())
    }

    async fn describe_once(&self, id: &str, wait: u32) -> Result<Execution, Fault> {
        let operation = "DescribeStatement";
        let request = self.client.describe_statement().id(id).set_wait_time_seconds(wait_seconds(wait));
        let answer = request.customize().config_override(patience(wait)).send().await;
        let answer = answer.map_err(|e| Fault::of(operation, &e))?;
        let mut statements = Vec::with_capacity(answer.sub_statements().len());
        for sub in answer.sub_statements() {
            statements.push(SubStatement {
                id: sub.id().to_owned(),
                status: known(operation, sub.status().map(StatementStatusString::as_str))?,
                error: sub.error().map(ToOwned::to_owned),
                query_id: sub.redshift_query_id(),
            });
        }
        Ok(Execution {
            id: answer.id().to_owned(),
            status: known(operation, answer.status().map(StatusString::as_str))?,
            error: answer.error().map(ToOwned::to_owned),
            statements,
            pid: answer.redshift_pid(),
        })
    }

    fn endpoint(&self) -> (Option<String>, Option<String>) {
        match &self.config.endpoint {
            RedshiftEndpoint::Workgroup(name) => (Some(name.clone()), None),
            RedshiftEndpoint::Cluster(name) => (None, Some(name.clone())),
        }
    }
}

#[async_trait]
impl Warehouse for RedshiftWarehouse {
    async fn submit(&self, submission: Submission<'_>) -> Result<Execution, WarehouseError> {
        match submission.statements.len() {
            1..=STATEMENTS_AT_MOST => waiting(submission.wait_seconds, |wait| self.execute(&submission, wait)).await,
            n => Err(WarehouseError {
                operation: "BatchExecuteStatement",
                code: "Client".to_owned(),
                message: format!("{n} statements in one request; 1 to {STATEMENTS_AT_MOST} can be sent"),
                effect: Effect::NotApplied,
            }),
        }
    }

    async fn describe(&self, id: &str, wait_seconds: u32) -> Result<Option<Execution>, WarehouseError> {
        match waiting(wait_seconds, |wait| self.describe_once(id, wait)).await {
            Ok(execution) => Ok(Some(execution)),
            Err(error) if refusal(ApiCall::Describe, &error) == ApiRefusal::NoSuchStatement => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn result(&self, id: &str) -> Result<StatementResult, WarehouseError> {
        let operation = "GetStatementResult";
        let mut rows = StatementResult::new();
        let mut next = None;
        loop {
            let request = self.client.get_statement_result().id(id).set_next_token(next);
            let answer = request.customize().config_override(patience(0)).send().await;
            let answer = answer.map_err(|e| Fault::of(operation, &e))?;
            for record in answer.records() {
                rows.push(record.iter().map(|f| field(operation, f)).collect::<Result<_, _>>()?);
            }
            next = answer.next_token().filter(|token| !token.is_empty()).map(ToOwned::to_owned);
            if next.is_none() {
                return Ok(rows);
            }
        }
    }

    async fn cancel(&self, id: &str) -> Result<(), WarehouseError> {
        let request = self.client.cancel_statement().id(id);
        let answer = request.customize().config_override(patience(0)).send().await;
        let Err(error) = answer else { return Ok(()) };
        let error = WarehouseError::from(Fault::of("CancelStatement", &error));
        match refusal(ApiCall::Cancel, &error) {
            // Ended, or forgotten with its outcome: nothing runs that could be cancelled.
            ApiRefusal::AlreadyOver | ApiRefusal::NoSuchStatement => Ok(()),
            _ => Err(error),
        }
    }
}

/// Makes a call that waits; the same again without waiting where too many wait for the statement already.
async fn waiting<T, F>(wait: u32, make: impl Fn(u32) -> F) -> Result<T, WarehouseError>
where
    F: Future<Output = Result<T, Fault>>,
{
    match make(wait).await.map_err(WarehouseError::from) {
        Err(error) if wait > 0 && error.code == "ActiveWaitingRequestsExceededException" => Ok(make(0).await?),
        done => done,
    }
}

fn refusal(call: ApiCall, error: &WarehouseError) -> ApiRefusal {
    api_refusal(call, &error.code, &error.message)
}

fn wait_seconds(wait: u32) -> Option<i32> {
    i32::try_from(wait.min(LONGEST_WAIT_SECONDS)).ok().filter(|seconds| *seconds > 0)
}

/// A client that gives up before the service answers would turn every wait into an unknown outcome.
fn patience(wait: u32) -> Builder {
    let attempt = Duration::from_secs(u64::from(wait.min(LONGEST_WAIT_SECONDS))) + MARGIN;
    let timeouts = TimeoutConfig::builder().operation_attempt_timeout(attempt).read_timeout(attempt);
    Builder::new().timeout_config(timeouts.build())
}

fn submitted(
    operation: &'static str,
    id: Option<&str>,
    status: Option<&StatementStatusString>,
) -> Result<Execution, Fault> {
    let id = id.ok_or_else(|| Fault::unknown(operation, "Unreadable", "the answer has no statement id"))?;
    // Only a submission that waited tells its status.
    let status = match status {
        Some(status) => known(operation, Some(status.as_str()))?,
        None => ExecutionStatus::Running,
    };
    Ok(Execution { id: id.to_owned(), status, error: None, statements: Vec::new(), pid: 0 })
}

/// A status nobody knows is an error: never guess.
fn known(operation: &'static str, status: Option<&str>) -> Result<ExecutionStatus, Fault> {
    match status {
        Some("SUBMITTED" | "PICKED" | "STARTED") => Ok(ExecutionStatus::Running),
        Some("FINISHED") => Ok(ExecutionStatus::Finished),
        Some("FAILED") => Ok(ExecutionStatus::Failed),
        Some("ABORTED") => Ok(ExecutionStatus::Aborted),
        other => Err(Fault::unknown(operation, "UnknownStatus", format!("status {other:?} of a statement"))),
    }
}

fn field(operation: &'static str, field: &ApiField) -> Result<Field, Fault> {
    match field {
        ApiField::IsNull(_) => Ok(Field::Null),
        ApiField::LongValue(n) => Ok(Field::Long(*n)),
        ApiField::DoubleValue(n) => Ok(Field::Double(*n)),
        ApiField::BooleanValue(b) => Ok(Field::Bool(*b)),
        ApiField::StringValue(text) => Ok(Field::Text(text.clone())),
        other => Err(Fault::unknown(operation, "UnknownField", format!("a field that isn't known: {other:?}"))),
    }
}

impl From<Fault> for WarehouseError {
    fn from(fault: Fault) -> Self {
        Self { operation: fault.operation, code: fault.code, message: fault.message, effect: fault.effect }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c181_an_attempt_outlasts_its_wait() {
        for wait in [0, 1, 30] {
            let config = patience(wait).behavior_version_latest().build();
            let timeouts = config.timeout_config().unwrap();
            let least = Duration::from_secs(u64::from(wait)) + Duration::from_secs(10);
            assert!(timeouts.operation_attempt_timeout().unwrap() > least);
            assert!(timeouts.read_timeout().unwrap() > least);
        }
    }

    #[test]
    fn a_status_nobody_knows_is_an_error() {
        assert_eq!(known("X", Some("PICKED")), Ok(ExecutionStatus::Running));
        for odd in [None, Some("ALL"), Some("PAUSED")] {
            assert_eq!(known("X", odd).unwrap_err().code, "UnknownStatus");
        }
    }

    #[test]
    fn a_wait_stays_within_what_the_api_takes() {
        assert_eq!((wait_seconds(0), wait_seconds(7), wait_seconds(99)), (None, Some(7), Some(30)));
    }
}
