//! `ExecuteStatement` and `BatchExecuteStatement`: a request held against the API's limits, then begun.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::dialect::lex::Lexed;
use crate::dialect::rewrite::{self, Parameter};
use crate::operations::{Api, describe_target, read, wait};
use crate::run;
use crate::statements::{Accepted, Request};
use crate::wire::{ApiError, epoch};

/// The most statements a batch has.
const BATCH_LIMIT: usize = 40;
/// Bytes of one statement.
const TEXT_LIMIT: usize = 100 * 1024;
/// Statements that have not ended.
const ACTIVE_LIMIT: usize = 500;
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Submit {
    sql: Option<String>,
    sqls: Option<Vec<String>>,
    cluster_identifier: Option<String>,
    workgroup_name: Option<String>,
    database: Option<String>,
    db_user: Option<String>,
    secret_arn: Option<String>,
    parameters: Option<Vec<SqlParameter>>,
    statement_name: Option<String>,
    with_event: Option<bool>,
    client_token: Option<String>,
    result_format: Option<String>,
    execution_mode: Option<String>,
    session_keep_alive_seconds: Option<u32>,
    session_id: Option<String>,
    wait_time_seconds: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct SqlParameter {
    name: String,
    value: String,
}

/// Takes a request in and, unless its token did so before, begins to run it.
pub(crate) async fn submit(
    api: &Arc<Api>,
    account: &str,
    operation: &'static str,
    request: Value,
) -> Result<Value, ApiError> {
    let digest = digest(&request);
    let submit: Submit = read(request)?;
    let token = submit.client_token.clone();
    let waits = wait(submit.wait_time_seconds)?;
    let request = checked(submit, account, operation == "BatchExecuteStatement")?;
    if token.as_ref().is_some_and(|token| token.is_empty() || token.len() > 64) {
        return Err(ApiError::validation("ClientToken must have 1 to 64 characters"));
    }
    if api.statements.active() >= ACTIVE_LIMIT {
        return Err(ApiError::coded(
            "ActiveStatementsExceededException",
            "Active statements exceeded the allowed limit.",
        ));
    }
    let submission = match api.statements.accept(operation, token, digest, request) {
        Accepted::New(submission) => {
            // On its own: it goes on when the caller's connection is gone.
            tokio::spawn(run::run(Arc::clone(&api.engine), Arc::clone(&submission)));
            submission
        }
        Accepted::Replayed(submission) => submission,
        Accepted::OtherRequest => {
            return Err(ApiError::validation("ClientToken was already used for a different request."));
        }
    };
    let request = &submission.request;
    let mut answer = json!({
        "Id": submission.id.to_string(),
        "CreatedAt": epoch(submission.created),
        "Database": request.database,
    });
    describe_target(request, &mut answer);
    if waits > Duration::ZERO {
        let progress = submission.wait(None, waits).await;
        answer["Status"] = json!(progress.status.name());
        answer["RedshiftPid"] = json!(progress.pid);
        answer["HasResultSet"] = json!(progress.parts.iter().any(|part| part.result.is_some()));
    }
    Ok(answer)
}

/// The request without what a repeat may change.
fn digest(request: &Value) -> String {
    let mut request = request.clone();
    if let Some(map) = request.as_object_mut() {
        map.shift_remove("ClientToken");
        map.shift_remove("WaitTimeSeconds");
    }
    hex::encode(Sha256::digest(request.to_string().as_bytes()))
}

/// Holds a request against the API's limits and against what is imitated.
fn checked(submit: Submit, account: &str, batch: bool) -> Result<Request, ApiError> {
    for (name, given) in [
        ("SessionId", submit.session_id.is_some()),
        ("SessionKeepAliveSeconds", submit.session_keep_alive_seconds.is_some_and(|seconds| seconds > 0)),
        ("WithEvent", submit.with_event == Some(true)),
        ("ResultFormat CSV", submit.result_format.as_deref().is_some_and(|format| format != "JSON")),
    ] {
        if given {
            return Err(ApiError::validation(format!("{name} is not imitated by the local Redshift Data API")));
        }
    }
    let sqls = match (submit.sql, submit.sqls, batch) {
        (Some(sql), None, false) => vec![sql],
        (None, Some(sqls), true) if (1..=BATCH_LIMIT).contains(&sqls.len()) => sqls,
        (None, Some(sqls), true) => {
            return Err(ApiError::validation(format!(
                "Sqls has {} members; it must have 1 to {BATCH_LIMIT}",
                sqls.len()
            )));
        }
        (_, _, true) => return Err(ApiError::validation("Sqls is required")),
        (_, _, false) => return Err(ApiError::validation("Sql is required")),
    };
    if sqls.iter().any(|sql| sql.trim().is_empty()) {
        return Err(ApiError::validation("a SQL statement is empty"));
    }
    if let Some(long) = sqls.iter().map(String::len).find(|length| *length > TEXT_LIMIT) {
        return Err(ApiError::validation(format!("Query string is {long} bytes; it must not exceed 100 KB")));
    }
    match (&submit.cluster_identifier, &submit.workgroup_name) {
        (None, None) => {
            return Err(ApiError::validation("Either ClusterIdentifier or WorkgroupName needs to be specified."));
        }
        (Some(_), Some(_)) => {
            return Err(ApiError::validation("Only one of ClusterIdentifier and WorkgroupName can be specified."));
        }
        _ => {}
    }
    if submit.statement_name.as_ref().is_some_and(|name| name.len() > 2_048) {
        return Err(ApiError::validation("StatementName must have 0 to 2048 characters"));
    }
    let transaction = match submit.execution_mode.as_deref() {
        Some(_) if !batch => return Err(ApiError::validation("ExecutionMode goes with BatchExecuteStatement only")),
        None | Some("TRANSACTION") => batch,
        Some("AUTO_COMMIT") => false,
        Some(other) => return Err(ApiError::validation(format!("ExecutionMode {other} is unknown"))),
    };
    let parameters = parameters(submit.parameters, &sqls)?;
    Ok(Request {
        account: account.to_owned(),
        sqls,
        parameters,
        batch,
        transaction,
        name: submit.statement_name,
        database: submit.database.ok_or_else(|| ApiError::validation("Database is required"))?,
        cluster: submit.cluster_identifier,
        workgroup: submit.workgroup_name,
        db_user: submit.db_user,
        secret: submit.secret_arn,
    })
}

/// Every parameter has a value and a place.
fn parameters(given: Option<Vec<SqlParameter>>, sqls: &[String]) -> Result<Vec<Parameter>, ApiError> {
    let Some(given) = given else { return Ok(Vec::new()) };
    if given.is_empty() {
        return Err(ApiError::validation("Parameters must have at least one member"));
    }
    let texts: Vec<Lexed> = sqls.iter().filter_map(|sql| Lexed::new(sql).ok()).collect();
    given
        .into_iter()
        .map(|SqlParameter { name, value }| {
            let parameter = Parameter { name, value };
            let name = &parameter.name;
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                Err(ApiError::validation(format!("Parameter name {name:?} must match [0-9a-zA-Z_]+")))
            } else if parameter.value.is_empty() {
                Err(ApiError::validation(format!("Parameter {name} has a value of zero length")))
            } else if texts.iter().any(|text| rewrite::uses(text, &parameter)) {
                Ok(parameter)
            } else {
                Err(ApiError::validation(format!(
                    "Parameters list contains unused parameter. Unused parameter: {name}"
                )))
            }
        })
        .collect()
}
