//! The guarantees of [`Warehouse`]: of the Data API, whatever SQL goes through it.

use std::sync::Arc;

use tidemark_domain::sql::SubStatement;
use tidemark_domain::sql::rows::Field;
use uuid::Uuid;

use super::fresh;
use crate::ports::{Execution, ExecutionStatus, Submission, Warehouse};

/// What the suite needs of a database.
#[derive(Debug, Clone)]
pub struct Setup {
    /// What the names of the suite's tables begin with, such as `public.contract_`.
    pub tables: String,
    /// A statement without effect that takes some 5 seconds; it is submitted under names that end in `/slow`.
    pub slow: String,
}

/// Every guarantee. Makes tables with fresh names, which stay.
pub async fn all(warehouse: Arc<dyn Warehouse>, setup: &Setup) {
    a_request_is_one_transaction(&*warehouse, setup).await;
    a_failure_takes_everything_back(&*warehouse, setup).await;
    one_statement_answers_as_the_first(&*warehouse, setup).await;
    a_token_is_one_execution(&*warehouse, setup).await;
    a_token_is_one_execution_in_a_race(warehouse.clone(), setup).await;
    an_unknown_execution_is_none(&*warehouse).await;
    a_statement_without_a_result_says_so(&*warehouse, setup).await;
    a_request_goes_on_without_its_caller(&*warehouse, setup).await;
    a_cancelled_request_has_no_effect(&*warehouse, setup).await;
}

impl Setup {
    fn table(&self) -> String {
        format!("{}{}", self.tables, fresh())
    }
}

fn create(table: &str) -> String {
    format!("CREATE TABLE {table} (n bigint)")
}

fn insert(table: &str, n: i64) -> String {
    format!("INSERT INTO {table} VALUES ({n})")
}

fn count(table: &str) -> String {
    format!("SELECT count(*), max(n) FROM {table}")
}

async fn submit(warehouse: &dyn Warehouse, statements: &[String], token: &str, wait_seconds: u32) -> Execution {
    let submission = Submission { statements, name: "tidemark/contract", token, wait_seconds };
    warehouse.submit(submission).await.unwrap()
}

/// Submits and waits for the end; the answer has every sub-statement.
async fn run(warehouse: &dyn Warehouse, statements: &[String]) -> Execution {
    let submitted = submit(warehouse, statements, &fresh(), 30).await;
    ended(warehouse, &submitted.id).await
}

async fn ended(warehouse: &dyn Warehouse, id: &str) -> Execution {
    for _ in 0..10 {
        let described = warehouse.describe(id, 30).await.unwrap();
        let execution = described.unwrap_or_else(|| panic!("execution {id} was submitted and isn't known"));
        assert_eq!(execution.id, id, "the execution that was asked for");
        if execution.status != ExecutionStatus::Running {
            return execution;
        }
    }
    panic!("execution {id} doesn't end");
}

async fn finished(warehouse: &dyn Warehouse, statements: &[String]) -> Execution {
    let execution = run(warehouse, statements).await;
    assert_eq!(execution.status, ExecutionStatus::Finished, "{statements:?}: {execution:?}");
    execution
}

async fn counted(warehouse: &dyn Warehouse, table: &str) -> (i64, Option<i64>) {
    let execution = finished(warehouse, &[count(table)]).await;
    let rows = warehouse.result(&SubStatement(1).id(&execution.id)).await.unwrap();
    match rows[0].as_slice() {
        [Field::Long(count), Field::Long(max)] => (*count, Some(*max)),
        [Field::Long(count), Field::Null] => (*count, None),
        other => panic!("two whole numbers were asked for: {other:?}"),
    }
}

/// Several statements see one another's effects, are told one by one, and are there once the request is FINISHED.
pub async fn a_request_is_one_transaction(warehouse: &dyn Warehouse, setup: &Setup) {
    let table = setup.table();
    let statements = [create(&table), count(&table), insert(&table, 7), insert(&table, 9), count(&table)];
    let execution = finished(warehouse, &statements).await;
    assert_eq!(execution.statements.len(), statements.len(), "every statement is told: {execution:?}");
    for (n, statement) in execution.statements.iter().enumerate() {
        assert_eq!(statement.id, SubStatement(n + 1).id(&execution.id), "sub-statements are numbered from 1");
        assert_eq!((statement.status, &statement.error), (ExecutionStatus::Finished, &None));
    }
    assert_eq!(execution.error, None);
    let empty = warehouse.result(&execution.statements[1].id).await.unwrap();
    assert_eq!(empty, [[Field::Long(0), Field::Null]], "as it was before the inserts");
    let two = warehouse.result(&execution.statements[4].id).await.unwrap();
    assert_eq!(two, [[Field::Long(2), Field::Long(9)]], "as it was after them");
    assert_eq!(counted(warehouse, &table).await, (2, Some(9)), "committed");
}

/// Where a statement fails, nothing of the request stays; the guilty one is FAILED with its error, the rest isn't to blame.
pub async fn a_failure_takes_everything_back(warehouse: &dyn Warehouse, setup: &Setup) {
    let (table, missing) = (setup.table(), setup.table());
    finished(warehouse, &[create(&table), insert(&table, 1)]).await;
    let created = setup.table();
    let statements = [create(&created), insert(&table, 2), count(&missing), insert(&table, 3)];
    let execution = run(warehouse, &statements).await;
    assert_eq!(execution.status, ExecutionStatus::Failed, "{execution:?}");
    let statuses: Vec<_> = execution.statements.iter().map(|statement| statement.status).collect();
    let expected =
        [ExecutionStatus::Finished, ExecutionStatus::Finished, ExecutionStatus::Failed, ExecutionStatus::Aborted];
    assert_eq!(statuses, expected, "{execution:?}");
    let name = missing.rsplit('.').next().unwrap_or_default();
    let error = execution.first_error().unwrap_or_default();
    assert!(error.contains(name), "the first error names the missing table {name}: {error}");
    assert_eq!(counted(warehouse, &table).await, (1, Some(1)), "nothing of a failed request stays");
    finished(warehouse, &[create(&created)]).await;
}

/// A request of a single statement is told and answers like any other: as `uuid:1`.
pub async fn one_statement_answers_as_the_first(warehouse: &dyn Warehouse, setup: &Setup) {
    let table = setup.table();
    finished(warehouse, &[create(&table)]).await;
    assert_eq!(counted(warehouse, &table).await, (0, None), "asked by uuid:1");
    let failed = run(warehouse, &[count(&setup.table())]).await;
    assert_eq!(failed.status, ExecutionStatus::Failed);
    assert!(failed.first_error().is_some_and(|error| !error.is_empty()), "an error is told: {failed:?}");
}

/// The same request under the same token is the same execution, applied once, also after it ended.
pub async fn a_token_is_one_execution(warehouse: &dyn Warehouse, setup: &Setup) {
    let table = setup.table();
    finished(warehouse, &[create(&table)]).await;
    let (statements, token) = ([insert(&table, 1), count(&table)], fresh());
    let first = submit(warehouse, &statements, &token, 0).await;
    ended(warehouse, &first.id).await;
    for wait_seconds in [0, 1] {
        let again = submit(warehouse, &statements, &token, wait_seconds).await;
        assert_eq!(again.id, first.id, "the execution that the token made");
    }
    assert_eq!(counted(warehouse, &table).await, (1, Some(1)), "applied once");
    let other = submit(warehouse, &statements, &fresh(), 0).await;
    assert_ne!(other.id, first.id, "another token, another execution");
    ended(warehouse, &other.id).await;
    assert_eq!(counted(warehouse, &table).await, (2, Some(1)));
}

/// The same holds for requests that are sent at once.
pub async fn a_token_is_one_execution_in_a_race(warehouse: Arc<dyn Warehouse>, setup: &Setup) {
    let table = setup.table();
    finished(&*warehouse, &[create(&table)]).await;
    let token = fresh();
    let racers: Vec<_> = (0..8)
        .map(|_| {
            let (warehouse, statements, token) = (warehouse.clone(), [insert(&table, 1)], token.clone());
            tokio::spawn(async move { submit(&*warehouse, &statements, &token, 0).await.id })
        })
        .collect();
    let mut ids = vec![];
    for racer in racers {
        ids.push(racer.await.unwrap());
    }
    ids.dedup();
    let [id] = ids.as_slice() else { panic!("one token, one execution: {ids:?}") };
    ended(&*warehouse, id).await;
    assert_eq!(counted(&*warehouse, &table).await, (1, Some(1)), "applied once");
}

/// An execution that nobody submitted (or that is forgotten) is `None`, not an error.
pub async fn an_unknown_execution_is_none(warehouse: &dyn Warehouse) {
    let unknown = Uuid::now_v7().to_string();
    for wait_seconds in [0, 1] {
        assert_eq!(warehouse.describe(&unknown, wait_seconds).await.unwrap(), None);
    }
    assert!(warehouse.result(&SubStatement(1).id(&unknown)).await.is_err(), "it has no result either");
}

/// A statement that gives no rows has no result; one that failed hasn't either.
pub async fn a_statement_without_a_result_says_so(warehouse: &dyn Warehouse, setup: &Setup) {
    let table = setup.table();
    let execution = finished(warehouse, &[create(&table), insert(&table, 1)]).await;
    for statement in &execution.statements {
        let error = warehouse.result(&statement.id).await.unwrap_err();
        assert_eq!(error.code, "ResourceNotFoundException", "{error}");
    }
    let failed = run(warehouse, &[count(&setup.table())]).await;
    assert!(warehouse.result(&SubStatement(1).id(&failed.id)).await.is_err());
}

/// A request is running at first, ends without anybody asking, and is waited for by long poll.
pub async fn a_request_goes_on_without_its_caller(warehouse: &dyn Warehouse, setup: &Setup) {
    let table = setup.table();
    finished(warehouse, &[create(&table)]).await;
    let (token, statements) = (fresh(), [setup.slow.clone(), insert(&table, 1)]);
    let slow = Submission { statements: &statements, name: "tidemark/contract/slow", token: &token, wait_seconds: 1 };
    let submitted = warehouse.submit(slow.clone()).await.unwrap();
    assert_eq!(submitted.status, ExecutionStatus::Running, "it takes longer than it was waited for");
    assert!(warehouse.result(&SubStatement(1).id(&submitted.id)).await.is_err(), "no result yet");
    assert_eq!(counted(warehouse, &table).await, (0, None), "nothing shows before the end");
    let again = warehouse.submit(Submission { wait_seconds: 0, ..slow }).await.unwrap();
    assert_eq!(again.id, submitted.id, "its token finds it while it runs");
    let execution = ended(warehouse, &submitted.id).await;
    assert_eq!(execution.status, ExecutionStatus::Finished, "{execution:?}");
    assert_eq!(counted(warehouse, &table).await, (1, Some(1)));
}

/// A cancelled request is ABORTED or FAILED and took nothing with it; to cancel one that ended changes nothing.
pub async fn a_cancelled_request_has_no_effect(warehouse: &dyn Warehouse, setup: &Setup) {
    let table = setup.table();
    finished(warehouse, &[create(&table)]).await;
    let (token, statements) = (fresh(), [insert(&table, 1), setup.slow.clone(), insert(&table, 2)]);
    let slow = Submission { statements: &statements, name: "tidemark/contract/slow", token: &token, wait_seconds: 1 };
    let submitted = warehouse.submit(slow).await.unwrap();
    warehouse.cancel(&submitted.id).await.unwrap();
    let execution = ended(warehouse, &submitted.id).await;
    assert!(matches!(execution.status, ExecutionStatus::Aborted | ExecutionStatus::Failed), "{execution:?}");
    assert_eq!(counted(warehouse, &table).await, (0, None), "a cancelled request has no effect");
    let done = finished(warehouse, &[insert(&table, 1)]).await;
    warehouse.cancel(&done.id).await.unwrap();
    assert_eq!(ended(warehouse, &done.id).await.status, ExecutionStatus::Finished, "what has ended stays as it ended");
    assert_eq!(counted(warehouse, &table).await, (1, Some(1)));
}
