//! The life of a statement: submit, wait, describe, fetch, cancel, replay.

use aws_sdk_redshiftdata::error::ProvideErrorMetadata as _;
use aws_sdk_redshiftdata::types::{Field, SqlParameter, StatusString};

use crate::world::{World, texts};

#[tokio::test]
async fn a_query_is_typed_as_the_api_types_it() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (a bigint NOT NULL, b varchar(20), c decimal(12,2), d timestamp, e boolean, f double precision)"]).await;
    world.must(&["INSERT INTO t VALUES (1, 'é\\\\', 1.5, TIMESTAMP '2026-11-01 10:00:00', true, 0.25)"]).await;
    let id = world.execute("SELECT a, b, c, d, e, f, NULL::int, 1 FROM t").await;
    let result = world.result(&id).await;
    assert_eq!(
        result.records()[0],
        [
            Field::LongValue(1),
            Field::StringValue("é\\".into()),
            Field::StringValue("1.50".into()),
            Field::StringValue("2026-11-01 10:00:00.0".into()),
            Field::BooleanValue(true),
            Field::DoubleValue(0.25),
            Field::IsNull(true),
            Field::LongValue(1),
        ]
    );
    let columns = result.column_metadata();
    assert_eq!((columns[0].name(), columns[0].type_name(), columns[0].nullable()), (Some("a"), Some("int8"), 0));
    assert_eq!(
        (columns[1].type_name(), columns[1].precision(), columns[1].table_name()),
        (Some("varchar"), 20, Some("t"))
    );
    assert_eq!((columns[2].precision(), columns[2].scale()), (12, 2));
    assert_eq!(columns[7].table_name(), Some(""));
    let told = world.end(&id).await;
    assert_eq!((told.result_rows(), told.has_result_set()), (1, Some(true)));
    assert!(told.redshift_query_id() > 0 && told.redshift_pid() > 0 && told.duration() > 0);
    let leader = world.execute("SELECT 1").await;
    assert_eq!(world.end(&leader).await.redshift_query_id(), -1);
}

#[tokio::test]
async fn a_batch_is_one_transaction_and_says_which_statement_failed() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (a int NOT NULL)"]).await;
    let told =
        world.run(&["INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (NULL)", "INSERT INTO t VALUES (3)"]).await;
    assert_eq!(told.status(), Some(&StatusString::Failed));
    let error = "ERROR: Cannot insert a NULL value into column a";
    assert_eq!(told.error(), Some(error));
    let subs: Vec<_> = told
        .sub_statements()
        .iter()
        .map(|sub| (sub.id(), sub.status().unwrap().as_str(), sub.error(), sub.result_rows()))
        .collect();
    let id = told.id();
    let ids: Vec<String> = (1..=3).map(|number| format!("{id}:{number}")).collect();
    assert_eq!(
        subs,
        [
            (ids[0].as_str(), "FINISHED", None, 1),
            (ids[1].as_str(), "FAILED", Some(error), -1),
            (ids[2].as_str(), "ABORTED", Some("Connection or an prior query failed."), -1),
        ]
    );
    assert_eq!(world.rows("SELECT count(*) FROM t").await, [["0"]]);
}

#[tokio::test]
async fn auto_commit_goes_on_after_a_failure() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (a int NOT NULL)"]).await;
    let id = world
        .client
        .batch_execute_statement()
        .workgroup_name("local")
        .database(&world.database)
        .execution_mode("AUTO_COMMIT".into())
        .set_sqls(Some(
            ["INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (NULL)", "INSERT INTO t VALUES (3)"]
                .map(str::to_owned)
                .into(),
        ))
        .send()
        .await
        .unwrap()
        .id
        .unwrap();
    let told = world.end(&id).await;
    assert_eq!(told.status(), Some(&StatusString::Failed));
    assert_eq!(told.sub_statements()[2].status().unwrap().as_str(), "FINISHED");
    assert_eq!(world.rows("SELECT a FROM t ORDER BY a").await, [["1"], ["3"]]);
}

#[tokio::test]
async fn the_same_token_is_the_same_statement_until_it_expires() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (a int)"]).await;
    let submit = |sql: &'static str, client: aws_sdk_redshiftdata::Client| {
        let call = client.execute_statement().workgroup_name("local").database(&world.database);
        async move { call.client_token("token-1").sql(sql).send().await }
    };
    let mine = || world.client.clone();
    let (a, b) = tokio::join!(submit("INSERT INTO t VALUES (1)", mine()), submit("INSERT INTO t VALUES (1)", mine()));
    let (a, b) = (a.unwrap().id.unwrap(), b.unwrap().id.unwrap());
    assert_eq!(a, b);
    world.end(&a).await;
    assert_eq!(world.rows("SELECT count(*) FROM t").await, [["1"]]);
    let other = submit("INSERT INTO t VALUES (2)", mine()).await.unwrap_err().into_service_error();
    assert_eq!(other.code(), Some("ValidationException"));
    assert_ne!(submit("INSERT INTO t VALUES (1)", world.stranger()).await.unwrap().id.unwrap(), a);

    world.control("clock", serde_json::json!({ "advance_seconds": 8 * 3600 + 1 })).await;
    assert_ne!(submit("INSERT INTO t VALUES (1)", mine()).await.unwrap().id.unwrap(), a);
    world.control("clock", serde_json::json!({ "advance_seconds": 16 * 3600 })).await;
    let gone = world.client.describe_statement().id(&a).send().await.unwrap_err().into_service_error();
    assert_eq!((gone.code(), gone.message()), (Some("ResourceNotFoundException"), Some("Query does not exist.")));
}

#[tokio::test]
async fn a_statement_goes_on_when_its_caller_is_gone() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (a int)"]).await;
    let guard = world.postgres().await;
    guard.batch_execute("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let call = world.client.batch_execute_statement().workgroup_name("local").database(&world.database);
    let call = call.sqls("INSERT INTO t VALUES (1)").client_token("c").wait_time_seconds(30).send();
    // The caller waits on its open connection, and dies.
    tokio::time::timeout(std::time::Duration::from_millis(300), call).await.unwrap_err();
    guard.batch_execute("COMMIT").await.unwrap();
    let call = world.client.batch_execute_statement().workgroup_name("local").database(&world.database);
    let id = call.sqls("INSERT INTO t VALUES (1)").client_token("c").send().await.unwrap().id.unwrap();
    assert_eq!(world.end(&id).await.status(), Some(&StatusString::Finished));
    assert_eq!(world.rows("SELECT count(*) FROM t").await, [["1"]]);
}

#[tokio::test]
async fn cancel_ends_a_waiting_statement_and_nothing_is_left() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (a int)"]).await;
    let guard = world.postgres().await;
    guard.batch_execute("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let id = world.submit(&["CREATE TABLE u (a int)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"]).await;
    world.waiting(1).await;
    assert_eq!(world.client.cancel_statement().id(&id).send().await.unwrap().status(), Some(true));
    let told = world.end(&id).await;
    guard.batch_execute("COMMIT").await.unwrap();
    assert_eq!(told.status(), Some(&StatusString::Aborted));
    assert!(told.sub_statements()[1].error().unwrap().contains("canceled on user's request"));
    assert_eq!(told.sub_statements()[2].error(), Some("Connection or an prior query failed."));
    assert!(world.error("SELECT * FROM u").await.contains("relation \"u\" does not exist"));
    let again = world.client.cancel_statement().id(&id).send().await.unwrap_err().into_service_error();
    let text = format!("Could not cancel a query that is already in ABORTED state with ID: {id}");
    assert_eq!(again.message(), Some(text.as_str()));
}

#[tokio::test]
async fn waiting_answers_at_the_end_or_at_the_time_out() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (a int)"]).await;
    let guard = world.postgres().await;
    guard.batch_execute("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let id = world.submit(&["SELECT 1", "SELECT count(*) FROM t"]).await;
    // The first part has ended, the second waits for the lock.
    let first = world.client.describe_statement().id(format!("{id}:1")).wait_time_seconds(30).send().await.unwrap();
    assert_eq!(first.status(), Some(&StatusString::Finished));
    let whole = world.client.describe_statement().id(&id).wait_time_seconds(1).send().await.unwrap();
    assert_eq!(whole.status(), Some(&StatusString::Started));
    let none = world.client.get_statement_result().id(format!("{id}:2")).send().await.unwrap_err().into_service_error();
    assert_eq!(none.message(), Some("Query does not have result. Please check query status with DescribeStatement."));
    guard.batch_execute("COMMIT").await.unwrap();
    assert_eq!(texts(&world.result(&format!("{id}:2")).await), [["0"]]);
    assert_eq!(world.end(&id).await.status(), Some(&StatusString::Finished));
}

#[tokio::test]
async fn results_come_in_pages() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (a int)"]).await;
    world.postgres().await.batch_execute("INSERT INTO t SELECT * FROM generate_series(1, 2500)").await.unwrap();
    let id = world.execute("SELECT a FROM t ORDER BY a").await;
    world.end(&id).await;
    let pages = world.client.get_statement_result().id(&id).into_paginator().send();
    let pages: Vec<_> = pages.collect::<Result<Vec<_>, _>>().await.unwrap();
    assert_eq!(pages.iter().map(|page| page.records().len()).collect::<Vec<_>>(), [1000, 1000, 500]);
    assert_eq!(texts(&pages[2])[499], ["2500"]);
}

#[tokio::test]
async fn parameters_stand_for_values() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (a date, b varchar(50))"]).await;
    let parameter = |name: &str, value: &str| SqlParameter::builder().name(name).value(value).build().unwrap();
    let run = |sql: &str, parameters: Vec<SqlParameter>| {
        let call = world.client.execute_statement().workgroup_name("local").database(&world.database).sql(sql);
        call.set_parameters(Some(parameters)).send()
    };
    let sql = "INSERT INTO t VALUES (:day::date, :text)";
    let id = run(sql, vec![parameter("day", "2026-11-01"), parameter("text", "'; DROP \\")]).await.unwrap().id.unwrap();
    let told = world.end(&id).await;
    assert_eq!((told.status(), told.query_string()), (Some(&StatusString::Finished), Some(sql)), "{:?}", told.error());
    assert_eq!(told.query_parameters().len(), 2);
    assert_eq!(world.rows("SELECT b FROM t WHERE a = '2026-11-01'").await, [["'; DROP \\"]]);
    let unused = run("SELECT 1", vec![parameter("x", "1")]).await.unwrap_err().into_service_error();
    assert!(unused.message().unwrap().contains("Unused parameter: x"));
}

#[tokio::test]
async fn requests_beyond_the_limits_are_refused() {
    let world = World::new().await;
    let batch = |sqls: Vec<String>| {
        let call = world.client.batch_execute_statement().workgroup_name("local").database(&world.database);
        let call = call.set_sqls(Some(sqls)).send();
        async move { call.await.unwrap_err().into_service_error().message().unwrap().to_owned() }
    };
    assert!(batch(vec!["SELECT 1".to_owned(); 41]).await.contains("41 members"));
    assert!(batch(vec![format!("SELECT '{}'", "x".repeat(110 * 1024))]).await.contains("100 KB"));
    let call = world.client.execute_statement().database(&world.database).sql("SELECT 1");
    let error = call.send().await.unwrap_err().into_service_error();
    assert_eq!(error.message(), Some("Either ClusterIdentifier or WorkgroupName needs to be specified."));
    let call = world.client.execute_statement().workgroup_name("local").database(&world.database).sql("SELECT 1");
    let error = call.session_keep_alive_seconds(60).send().await.unwrap_err().into_service_error();
    assert!(error.message().unwrap().contains("SessionKeepAliveSeconds is not imitated"));
    let call = world.client.execute_statement().workgroup_name("local").database("nowhere").sql("SELECT 1");
    let told = world.end(&call.send().await.unwrap().id.unwrap()).await;
    assert_eq!(told.error(), Some("FATAL: database \"nowhere\" does not exist"));
}

#[tokio::test]
async fn statements_are_listed_by_the_beginning_of_their_name() {
    let world = World::new().await;
    let submit = |name: &str, sql: &str| {
        let call = world.client.execute_statement().workgroup_name("local").database(&world.database);
        call.statement_name(name).sql(sql).send()
    };
    let a = submit("tidemark/orders/a", "SELECT 1").await.unwrap().id.unwrap();
    let b = submit("tidemark/orders/b", "SELECT nothing").await.unwrap().id.unwrap();
    submit("other", "SELECT 1").await.unwrap();
    world.end(&a).await;
    world.end(&b).await;
    let list = world.client.list_statements().statement_name("tidemark/orders/").send().await.unwrap();
    let ids: Vec<&str> = list.statements().iter().map(aws_sdk_redshiftdata::types::StatementData::id).collect();
    assert_eq!(ids, [b.as_str(), a.as_str()]);
    let list = world.client.list_statements().status(StatusString::Failed).send().await.unwrap();
    assert_eq!(
        list.statements().iter().map(aws_sdk_redshiftdata::types::StatementData::id).collect::<Vec<_>>(),
        [b.as_str()]
    );
    assert!(world.stranger().list_statements().send().await.unwrap().statements().is_empty());
}

#[tokio::test]
async fn the_catalogue_names_a_super_column_so() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (id bigint, payload super)"]).await;
    let sql = "SELECT CAST(data_type AS varchar(128)) FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position";
    assert_eq!(world.rows(sql).await, [["bigint"], ["super"]]);
}
