//! Faults on request.

use aws_sdk_redshiftdata::error::ProvideErrorMetadata as _;
use aws_sdk_redshiftdata::types::StatusString;
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn an_error_before_and_an_error_after_the_effect() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (a int)"]).await;
    let submit = |token: &'static str| {
        let call = world.client.batch_execute_statement().workgroup_name("local").database(&world.database);
        call.client_token(token).sqls("INSERT INTO t VALUES (1)").send()
    };
    let fault = json!({ "operation": "BatchExecuteStatement", "code": "ThrottlingException" });
    world.control("faults", fault).await;
    let error = submit("a").await.unwrap_err().into_service_error();
    assert_eq!(error.code(), Some("ThrottlingException"));
    assert!(world.client.list_statements().statement_name("").send().await.unwrap().statements().len() == 1);

    let fault =
        json!({ "operation": "BatchExecuteStatement", "code": "InternalServerException", "after_effect": true });
    world.control("faults", fault).await;
    let error = submit("b").await.unwrap_err().into_service_error();
    assert_eq!(error.code(), Some("InternalServerException"));
    let id = submit("b").await.unwrap().id.unwrap();
    world.end(&id).await;
    assert_eq!(world.rows("SELECT count(*) FROM t").await, [["1"]]);
    assert_eq!(world.calls().await["BatchExecuteStatement"], 4);
}

#[tokio::test]
async fn down_and_up_again() {
    let world = World::new().await;
    world.control("down", json!({ "seconds": 60, "account": "444455556666" })).await;
    world.client.list_statements().send().await.unwrap();
    assert!(world.stranger().list_statements().send().await.is_err());
    world.control("down", json!({ "seconds": 60 })).await;
    let error = world.client.list_statements().send().await.unwrap_err();
    assert_eq!(error.raw_response().unwrap().status().as_u16(), 503);
    world.control("down", json!({ "seconds": 0 })).await;
    world.client.list_statements().send().await.unwrap();
}

#[tokio::test]
async fn a_broken_connection_fails_the_statement_and_rolls_back() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (a int)", "CREATE TABLE u (a int)"]).await;
    let guard = world.postgres().await;
    guard.batch_execute("BEGIN; LOCK TABLE u IN EXCLUSIVE MODE").await.unwrap();
    let id = world.submit(&["INSERT INTO t VALUES (1)", "DELETE FROM u"]).await;
    world.waiting(1).await;
    assert_eq!(
        world.control("break_connection", json!({ "statement_like": "delete from u" })).await,
        json!({ "broken": 1 })
    );
    let told = world.end(&id).await;
    guard.batch_execute("COMMIT").await.unwrap();
    assert_eq!(told.status(), Some(&StatusString::Failed));
    assert_eq!(told.error(), Some("FATAL: terminating connection due to administrator command"));
    assert_eq!(world.rows("SELECT count(*) FROM t").await, [["0"]]);
}

#[tokio::test]
async fn a_connection_broken_in_a_copy_leaves_its_story_and_no_rows() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (a int)"]).await;
    world.put("s3://lake/a.csv", "1\n");
    world.manifest("s3://control/m.json", &["s3://lake/a.csv"]);
    world.control("copy_delay", json!({ "seconds": 600 })).await;
    let id = world.submit(&["COPY t FROM 's3://control/m.json' IAM_ROLE default MANIFEST FORMAT CSV"]).await;
    world.sleeping().await;
    assert_eq!(world.control("break_connection", json!({ "statement_like": "COPY t" })).await, json!({ "broken": 1 }));
    assert_eq!(world.end(&id).await.error(), Some("FATAL: terminating connection due to administrator command"));
    assert_eq!(world.rows("SELECT TRIM(status), loaded_rows FROM sys_load_history").await, [["aborted", "0"]]);
    assert_eq!(world.rows("SELECT count(*) FROM t").await, [["0"]]);
}
