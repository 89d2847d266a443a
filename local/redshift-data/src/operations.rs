//! The API's operations: which there are, and those that look at statements or end them.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::run::Engine;
use crate::statements::{Part, Progress, Request, Statements, Submission};
use crate::submit::submit;
use crate::wire::{ApiError, epoch};

/// Rows a page of results holds.
const PAGE_ROWS: usize = 1_000;
const NO_RESULT: &str = "Query does not have result. Please check query status with DescribeStatement.";

/// What all calls share.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) engine: Arc<Engine>,
    pub(crate) statements: Statements,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Ask {
    id: String,
    next_token: Option<String>,
    wait_time_seconds: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ListAsk {
    next_token: Option<String>,
    max_results: Option<usize>,
    statement_name: Option<String>,
    status: Option<String>,
    database: Option<String>,
    cluster_identifier: Option<String>,
    workgroup_name: Option<String>,
}

/// Does one operation for the account of this access key.
pub(crate) async fn call(api: &Arc<Api>, account: &str, operation: &str, request: Value) -> Result<Value, ApiError> {
    match operation {
        "ExecuteStatement" => submit(api, account, "ExecuteStatement", request).await,
        "BatchExecuteStatement" => submit(api, account, "BatchExecuteStatement", request).await,
        "DescribeStatement" => describe(api, account, read(request)?).await,
        "GetStatementResult" => result(api, account, read(request)?).await,
        "CancelStatement" => cancel(api, account, &read::<Ask>(request)?),
        "ListStatements" => list(api, account, &read(request)?),
        "GetStatementResultV2" | "ListDatabases" | "ListSchemas" | "ListTables" | "DescribeTable" | "ListSessions" => {
            Err(ApiError::validation(format!("{operation} is not imitated by the local Redshift Data API")))
        }
        _ => Err(ApiError::coded("UnknownOperationException", format!("unknown operation {operation}"))),
    }
}

/// The request as the operation's members.
pub(crate) fn read<T: serde::de::DeserializeOwned>(request: Value) -> Result<T, ApiError> {
    serde_json::from_value(request).map_err(|error| ApiError::validation(error.to_string()))
}

/// `WaitTimeSeconds`, zero if not given.
pub(crate) fn wait(seconds: Option<u64>) -> Result<Duration, ApiError> {
    match seconds {
        None => Ok(Duration::ZERO),
        Some(seconds @ 1..=30) => Ok(Duration::from_secs(seconds)),
        Some(other) => Err(ApiError::validation(format!("WaitTimeSeconds is {other}; it must be from 1 to 30"))),
    }
}

/// Adds what the request was addressed to.
pub(crate) fn describe_target(request: &Request, answer: &mut Value) {
    for (name, value) in [
        ("ClusterIdentifier", &request.cluster),
        ("WorkgroupName", &request.workgroup),
        ("DbUser", &request.db_user),
        ("SecretArn", &request.secret),
    ] {
        if let Some(value) = value {
            answer[name] = json!(value);
        }
    }
}

/// The submission an id names, and the index of the sub-statement if it names one.
fn find(api: &Api, account: &str, id: &str) -> Result<(Arc<Submission>, Option<usize>), ApiError> {
    let invalid =
        || ApiError::validation("id must satisfy regex pattern: ^[a-z0-9]{8}(-[a-z0-9]{4}){3}-[a-z0-9]{12}(:\\d+)?$");
    let (uuid, number) = match id.split_once(':') {
        Some((uuid, number)) => (uuid, Some(number.parse::<usize>().map_err(|_| invalid())?)),
        None => (id, None),
    };
    if uuid.len() != 36 {
        return Err(invalid());
    }
    let uuid = Uuid::try_parse(uuid).map_err(|_| invalid())?;
    let gone = || ApiError::not_found("Query does not exist.", id);
    let submission = api.statements.get(&uuid).filter(|found| found.request.account == account).ok_or_else(gone)?;
    match number {
        None => Ok((submission, None)),
        Some(number) if submission.request.batch && (1..=submission.request.sqls.len()).contains(&number) => {
            Ok((submission, Some(number - 1)))
        }
        Some(_) => Err(gone()),
    }
}

async fn describe(api: &Api, account: &str, ask: Ask) -> Result<Value, ApiError> {
    let waits = wait(ask.wait_time_seconds)?;
    let (submission, part) = find(api, account, &ask.id)?;
    let progress = submission.wait(part, waits).await;
    let request = &submission.request;
    let mut answer = match part {
        Some(index) => part_body(&submission, index, &progress.parts[index]),
        None => whole_body(&submission, &progress),
    };
    answer["Id"] = json!(ask.id);
    answer["Database"] = json!(request.database);
    answer["RedshiftPid"] = json!(progress.pid);
    answer["ResultFormat"] = json!("JSON");
    describe_target(request, &mut answer);
    if !request.parameters.is_empty() {
        answer["QueryParameters"] = request_parameters(request);
    }
    Ok(answer)
}

fn request_parameters(request: &Request) -> Value {
    request.parameters.iter().map(|p| json!({ "name": p.name, "value": p.value })).collect()
}

/// A submission as a whole: for a batch the sums of its parts.
fn whole_body(submission: &Submission, progress: &Progress) -> Value {
    let request = &submission.request;
    let parts = &progress.parts;
    if !request.batch {
        let mut body = part_body(submission, 0, &parts[0]);
        body["Status"] = json!(progress.status.name());
        body["CreatedAt"] = epoch(submission.created);
        body["UpdatedAt"] = epoch(progress.updated);
        if let Some(error) = &progress.error {
            body["Error"] = json!(error);
        }
        return body;
    }
    let subs: Vec<Value> = parts.iter().enumerate().map(|(index, part)| part_body(submission, index, part)).collect();
    let mut body = json!({
        "Status": progress.status.name(),
        "CreatedAt": epoch(submission.created),
        "UpdatedAt": epoch(progress.updated),
        "Duration": nanoseconds(parts.iter().map(|part| part.duration).sum()),
        "ResultRows": parts.iter().map(|part| part.rows).sum::<i64>(),
        "ResultSize": parts.iter().map(|part| part.size).sum::<i64>(),
        "RedshiftQueryId": 0,
        "HasResultSet": parts.iter().any(|part| part.result.is_some()),
        "ExecutionMode": if request.transaction { "TRANSACTION" } else { "AUTO_COMMIT" },
        "SubStatements": subs,
    });
    if let Some(error) = &progress.error {
        body["Error"] = json!(error);
    }
    body
}

fn part_body(submission: &Submission, index: usize, part: &Part) -> Value {
    let mut body = json!({
        "Id": format!("{}:{}", submission.id, index + 1),
        "Status": part.status.name(),
        "CreatedAt": epoch(part.created),
        "UpdatedAt": epoch(part.updated),
        "Duration": nanoseconds(part.duration),
        "QueryString": submission.request.sqls[index],
        "ResultRows": part.rows,
        "ResultSize": part.size,
        "RedshiftQueryId": part.query_id,
        "HasResultSet": part.result.is_some(),
    });
    if let Some(error) = &part.error {
        body["Error"] = json!(error);
    }
    body
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

async fn result(api: &Api, account: &str, ask: Ask) -> Result<Value, ApiError> {
    let waits = wait(ask.wait_time_seconds)?;
    let (submission, part) = find(api, account, &ask.id)?;
    let none = || ApiError::not_found(NO_RESULT, &ask.id);
    let index = match part {
        Some(index) => index,
        None if submission.request.batch => return Err(none()),
        None => 0,
    };
    let progress = submission.wait(part, waits).await;
    let ended = match part {
        Some(index) => progress.parts[index].status.is_terminal(),
        None => progress.status.is_terminal(),
    };
    let set = progress.parts[index].result.clone().filter(|_| ended).ok_or_else(none)?;
    let from = page_start(ask.next_token.as_deref())?;
    let to = (from + PAGE_ROWS).min(set.rows.len());
    let mut answer = json!({
        "Records": set.records(from, to),
        "ColumnMetadata": set.columns.iter().map(crate::results::Column::metadata).collect::<Vec<_>>(),
        "TotalNumRows": set.rows.len(),
    });
    if to < set.rows.len() {
        answer["NextToken"] = json!(to.to_string());
    }
    Ok(answer)
}

fn page_start(token: Option<&str>) -> Result<usize, ApiError> {
    token.map_or(Ok(0), |token| {
        token.parse().map_err(|_| ApiError::validation(format!("NextToken {token:?} is invalid")))
    })
}

fn cancel(api: &Api, account: &str, ask: &Ask) -> Result<Value, ApiError> {
    let (submission, part) = find(api, account, &ask.id)?;
    if part.is_some() {
        return Err(ApiError::validation("Cannot cancel a sub-statement of a batch; cancel the batch."));
    }
    let status = submission.progress().status;
    if status.is_terminal() {
        return Err(ApiError::validation(format!(
            "Could not cancel a query that is already in {} state with ID: {}",
            status.name(),
            ask.id
        )));
    }
    submission.cancel();
    Ok(json!({ "Status": true }))
}

fn list(api: &Api, account: &str, ask: &ListAsk) -> Result<Value, ApiError> {
    let from = page_start(ask.next_token.as_deref())?;
    let at_most = match ask.max_results {
        None | Some(0) => 100,
        Some(number @ 1..=100) => number,
        Some(other) => return Err(ApiError::validation(format!("MaxResults is {other}; it must be from 0 to 100"))),
    };
    let wanted = |asked: &Option<String>, found: Option<&String>| asked.is_none() || asked.as_ref() == found;
    let all: Vec<_> = api
        .statements
        .list()
        .into_iter()
        .map(|submission| (submission.progress(), submission))
        .filter(|(progress, submission)| {
            let request = &submission.request;
            let name = request.name.as_deref().unwrap_or_default();
            request.account == account
                && ask.statement_name.as_ref().is_none_or(|prefix| name.starts_with(prefix.as_str()))
                && ask.status.as_ref().is_none_or(|status| status == "ALL" || status == progress.status.name())
                && wanted(&ask.database, Some(&request.database))
                && wanted(&ask.cluster_identifier, request.cluster.as_ref())
                && wanted(&ask.workgroup_name, request.workgroup.as_ref())
        })
        .collect();
    let page: Vec<Value> = all.iter().skip(from).take(at_most).map(|(progress, one)| listed(one, progress)).collect();
    let mut answer = json!({ "Statements": page });
    if from + at_most < all.len() {
        answer["NextToken"] = json!((from + at_most).to_string());
    }
    Ok(answer)
}

fn listed(submission: &Submission, progress: &Progress) -> Value {
    let request = &submission.request;
    let mut body = Map::new();
    body.insert("Id".to_owned(), json!(submission.id.to_string()));
    body.insert("Status".to_owned(), json!(progress.status.name()));
    body.insert("CreatedAt".to_owned(), epoch(submission.created));
    body.insert("UpdatedAt".to_owned(), epoch(progress.updated));
    body.insert("IsBatchStatement".to_owned(), json!(request.batch));
    body.insert("ResultFormat".to_owned(), json!("JSON"));
    if request.batch {
        body.insert("QueryStrings".to_owned(), json!(request.sqls));
    } else {
        body.insert("QueryString".to_owned(), json!(request.sqls[0]));
    }
    if let Some(name) = &request.name {
        body.insert("StatementName".to_owned(), json!(name));
    }
    if !request.parameters.is_empty() {
        body.insert("QueryParameters".to_owned(), request_parameters(request));
    }
    Value::Object(body)
}
