//! Tests: what is sent to the Data API, and what becomes of its odd answers.

use serde_json::{Value, json};
use tidemark_domain::sql::rows::Field;
use tidemark_engine::ports::{Effect, ExecutionStatus, Submission, Warehouse as _};

use super::RedshiftWarehouse;
use crate::config::{RedshiftConfig, RedshiftEndpoint};
use crate::stub::{Stub, refusal};

const ID: &str = "d9b6c0c9-0747-4bf4-b142-e8883122f766";

fn warehouse(stub: &Stub) -> RedshiftWarehouse {
    let config = RedshiftConfig {
        endpoint: RedshiftEndpoint::Workgroup("wg".into()),
        database: "dev".into(),
        db_user: None,
        secret_arn: Some("arn:secret".into()),
    };
    RedshiftWarehouse::new(aws_sdk_redshiftdata::Client::new(&stub.sdk), config)
}

fn submission(statements: &[String], wait_seconds: u32) -> Submission<'_> {
    Submission { statements, name: "tidemark orders", token: "token-1", wait_seconds }
}

fn sql(n: usize) -> Vec<String> {
    (1..=n).map(|n| format!("SELECT {n}")).collect()
}

#[tokio::test]
async fn c172_several_statements_are_one_transaction_under_our_token() {
    let stub = Stub::answering([(200, json!({"Id": ID}))]).await;
    let execution = warehouse(&stub).submit(submission(&sql(2), 30)).await.unwrap();
    assert_eq!((execution.id.as_str(), execution.status), (ID, ExecutionStatus::Running));
    let expected = json!({
        "Sqls": ["SELECT 1", "SELECT 2"], "ExecutionMode": "TRANSACTION", "ClientToken": "token-1",
        "StatementName": "tidemark orders", "WorkgroupName": "wg", "Database": "dev", "SecretArn": "arn:secret",
        "WaitTimeSeconds": 30,
    });
    assert_eq!(stub.asked()[0].body, expected);
}

#[tokio::test]
async fn one_statement_is_a_batch_too_and_tells_its_status_if_it_waited() {
    let stub = Stub::answering([(200, json!({"Id": ID, "Status": "FINISHED"}))]).await;
    let execution = warehouse(&stub).submit(submission(&sql(1), 0)).await.unwrap();
    assert_eq!(execution.status, ExecutionStatus::Finished);
    let asked = &stub.asked()[0];
    assert_eq!(asked.operation, "BatchExecuteStatement");
    assert_eq!((&asked.body["Sqls"], asked.body.get("WaitTimeSeconds")), (&json!(["SELECT 1"]), None));
}

#[tokio::test]
async fn c171_more_statements_than_one_transaction_takes_are_not_split() {
    let stub = Stub::answering([]).await;
    for n in [0, 41] {
        let error = warehouse(&stub).submit(submission(&sql(n), 0)).await.unwrap_err();
        assert_eq!((error.code.as_str(), error.effect), ("Client", Effect::NotApplied));
    }
    assert_eq!(stub.operations(), [""; 0]);
}

#[tokio::test]
async fn c167_a_submission_is_repeated_under_the_same_token() {
    let stub = Stub::answering([refusal(500, "InternalServerException", "m"), (200, json!({"Id": ID}))]).await;
    warehouse(&stub).submit(submission(&sql(2), 0)).await.unwrap();
    let asked = stub.asked();
    assert_eq!((asked.len(), &asked[0].body), (2, &asked[1].body));
}

#[tokio::test]
async fn u12_a_connection_that_froze_with_the_function_is_replaced() {
    let stub = Stub::answering_after_a_broken_connection([(200, json!({"Id": ID}))]).await;
    let execution = warehouse(&stub).submit(submission(&sql(2), 0)).await.unwrap();
    assert_eq!(execution.id, ID);
    assert_eq!(stub.asked()[0].body["ClientToken"], "token-1");
}

#[tokio::test]
async fn c166_a_refused_submission_is_told_by_its_code() {
    let stub = Stub::answering([refusal(400, "ActiveStatementsExceededException", "too many")]).await;
    let error = warehouse(&stub).submit(submission(&sql(2), 0)).await.unwrap_err();
    assert_eq!((error.operation, error.code.as_str()), ("BatchExecuteStatement", "ActiveStatementsExceededException"));
}

#[tokio::test]
async fn an_answer_that_never_comes_has_an_unknown_effect() {
    let stub = Stub::answering((0..3).map(|_| (503, Value::from("unavailable")))).await;
    let error = warehouse(&stub).submit(submission(&sql(1), 0)).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.effect), ("Http503", Effect::Unknown));
}

#[tokio::test]
async fn c169_a_description_has_every_statement() {
    let described = json!({
        "Id": ID, "Status": "FAILED", "Error": "batch failed", "RedshiftPid": 12, "RedshiftQueryId": 0,
        "SubStatements": [
            {"Id": format!("{ID}:1"), "Status": "FINISHED", "RedshiftQueryId": 77},
            {"Id": format!("{ID}:2"), "Status": "FAILED", "Error": "ERROR: boom", "RedshiftQueryId": -1},
        ],
    });
    let stub = Stub::answering([(200, described)]).await;
    let execution = warehouse(&stub).describe(ID, 20).await.unwrap().unwrap();
    assert_eq!((execution.status, execution.pid), (ExecutionStatus::Failed, 12));
    assert_eq!(execution.first_error(), Some("ERROR: boom"));
    assert_eq!(
        (execution.statements[0].query_id, execution.statements[1].id.as_str()),
        (77, format!("{ID}:2").as_str())
    );
    assert_eq!(stub.asked()[0].body["WaitTimeSeconds"], 20);
}

#[tokio::test]
async fn c181_with_too_many_waiters_it_is_asked_without_waiting() {
    let answers = [
        refusal(400, "ActiveWaitingRequestsExceededException", "too many waiting requests"),
        (200, json!({"Id": ID, "Status": "STARTED"})),
    ];
    let stub = Stub::answering(answers).await;
    let execution = warehouse(&stub).describe(ID, 30).await.unwrap().unwrap();
    assert_eq!(execution.status, ExecutionStatus::Running);
    assert_eq!(stub.asked()[1].body, json!({"Id": ID}));
}

#[tokio::test]
async fn a_statement_nobody_knows_is_none() {
    let stub = Stub::answering([refusal(404, "ResourceNotFoundException", "Query does not exist.")]).await;
    assert_eq!(warehouse(&stub).describe(ID, 0).await.unwrap(), None);
}

#[tokio::test]
async fn c177_a_refused_description_is_an_error_and_no_status() {
    let stub = Stub::answering([refusal(400, "AccessDeniedException", "not yours")]).await;
    assert_eq!(warehouse(&stub).describe(ID, 0).await.unwrap_err().code, "AccessDeniedException");
}

#[tokio::test]
async fn c184_all_pages_of_a_result_are_read() {
    let page = |n: i64, next: Value| {
        let row = json!([{"longValue": n}, {"stringValue": "1.50"}, {"isNull": true}, {"booleanValue": true}]);
        (200, json!({"Records": [row], "NextToken": next}))
    };
    let stub = Stub::answering([page(1, "a".into()), page(2, "b".into()), page(3, Value::Null)]).await;
    let rows = warehouse(&stub).result(ID).await.unwrap();
    let row = |n| vec![Field::Long(n), Field::Text("1.50".into()), Field::Null, Field::Bool(true)];
    assert_eq!(rows, [row(1), row(2), row(3)]);
    assert_eq!(stub.asked()[2].body["NextToken"], "b");
}

#[tokio::test]
async fn to_cancel_what_is_over_is_no_error() {
    let over = format!("Could not cancel a query that is already in FINISHED state with ID: {ID}");
    let stub = Stub::answering([
        (200, json!({"Status": true})),
        refusal(400, "ValidationException", &over),
        refusal(404, "ResourceNotFoundException", "Query does not exist."),
        refusal(400, "AccessDeniedException", "not yours"),
    ])
    .await;
    let warehouse = warehouse(&stub);
    for _ in 0..3 {
        warehouse.cancel(ID).await.unwrap();
    }
    assert_eq!(warehouse.cancel(ID).await.unwrap_err().code, "AccessDeniedException");
}
