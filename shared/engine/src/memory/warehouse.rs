//! The Redshift Data API over a small Redshift (`redshift`, beside this): executions that go on whatever becomes of their
//! caller, tokens remembered for 8 hours, executions and results for 24.
//!
//! When an execution ends is the test's choice, by statement name: at once, after a while on the clock, or when the test says so.
//! Its statements take effect at that moment, all or none, and are judged on what is committed then.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use tidemark_domain::definition::TableName;
use tidemark_domain::id::{DatasetName, Epoch, StackName};
use tidemark_domain::sql::rows::Field;
use tidemark_domain::sql::{Batch, identifier, install};

use super::redshift::{Database, FileReader, Rows, Transaction, Views, lines};
use super::{ManualClock, MemoryObjects, lock};
use crate::ports::{
    Clock as _, Effect, Execution, ExecutionStatus, StatementResult, SubStatement, Submission, Warehouse,
    WarehouseError,
};

/// How long a token is remembered.
const TOKEN_KEPT: SignedDuration = SignedDuration::from_hours(8);
/// How long an execution and its results are.
const EXECUTION_KEPT: SignedDuration = SignedDuration::from_hours(24);
/// The Data API's words for statements that were swept along.
const SWEPT_ALONG: &str = "Connection or an prior query failed.";

/// When an execution ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As soon as it is submitted.
    AtOnce,
    /// This long after it was submitted.
    After(Duration),
    /// When the test ends it.
    ByHand,
}

/// How the test ends an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It is carried out, and FINISHED or FAILED as its statements are.
    Run,
    /// It is FAILED with this error, without effect.
    Fail(String),
    /// It is carried out, but is told as FAILED with this error: the answer to its commit was lost.
    RunButFail(String),
}

/// An execution that hasn't ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Its id.
    pub id: String,
    /// Its statement name.
    pub name: String,
}

/// How an execution came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Its statement name.
    pub name: String,
    /// How the test let it end.
    pub end: End,
    /// How long it ran.
    pub took: SignedDuration,
    /// What its caller is told, if it failed.
    pub error: Option<String>,
}

/// Everything that is committed, to be restored later as a cluster is from a backup.
#[derive(Debug, Clone)]
pub struct Backup(Database);

/// Redshift and its Data API. Clones are the same cluster.
#[derive(Debug, Clone)]
pub struct MemoryWarehouse {
    clock: ManualClock,
    objects: MemoryObjects,
    read: FileReader,
    cluster: Arc<Mutex<Cluster>>,
}

#[derive(Debug, Default)]
struct Cluster {
    database: Database,
    views: Views,
    runs: BTreeMap<String, Run>,
    tokens: BTreeMap<String, Token>,
    paces: Vec<(String, Pace)>,
    ends: Vec<(String, End)>,
    submitted: Vec<String>,
    endings: Vec<Ending>,
    /// Up to when everything that is due has ended, if nothing was submitted since.
    settled: Option<Timestamp>,
}

#[derive(Debug)]
struct Token {
    at: Timestamp,
    id: String,
    statements: Vec<String>,
}

#[derive(Debug)]
struct Run {
    name: String,
    statements: Vec<String>,
    submitted: Timestamp,
    /// When it ends by itself.
    due: Option<Timestamp>,
    outcome: Option<Outcome>,
}

#[derive(Debug)]
struct Outcome {
    at: Timestamp,
    status: ExecutionStatus,
    error: Option<String>,
    statements: Vec<(ExecutionStatus, Option<String>, i64)>,
    results: Vec<Option<Rows>>,
}

impl MemoryWarehouse {
    /// An empty cluster that loads from `objects`; files are lines, see [`lines`].
    pub fn new(clock: ManualClock, objects: MemoryObjects) -> Self {
        Self { clock, objects, read: lines, cluster: Arc::default() }
    }

    /// The same cluster with another way to read files.
    #[must_use]
    pub fn reading_with(mut self, read: FileReader) -> Self {
        self.read = read;
        self
    }

    /// Creates a target and all that has to stand before a rebuild, by the product's own statements.
    pub fn prepare(
        &self,
        target: &TableName,
        stack: &StackName,
        dataset: &DatasetName,
        epoch: Epoch,
    ) -> Result<(), String> {
        let mut cluster = lock(&self.cluster);
        cluster.database.create_table(table(target)?);
        let batches =
            [install::install(), install::install_target(target), install::own(target, stack, dataset, epoch, false)];
        for batch in batches {
            let batch = batch.map_err(|e| e.to_string())?;
            self.carry_out(&mut cluster, &batch)?;
        }
        Ok(())
    }

    /// Runs statements past the Data API.
    pub fn run_batch(&self, batch: &Batch) -> Result<(), String> {
        self.carry_out(&mut lock(&self.cluster), batch)
    }

    fn carry_out(&self, cluster: &mut Cluster, batch: &Batch) -> Result<(), String> {
        let outcome = cluster.run(batch.statements(), self);
        let guilty = outcome.statements.into_iter().find(|(status, ..)| *status == ExecutionStatus::Failed);
        guilty.map_or(Ok(()), |(_, error, _)| Err(error.unwrap_or_default()))
    }

    /// Lets executions whose statement name ends with `suffix`, such as `/stage`, end at this pace. The last word counts.
    pub fn set_pace(&self, suffix: &str, pace: Pace) {
        lock(&self.cluster).paces.push((suffix.to_owned(), pace));
    }

    /// Ends the next execution whose statement name ends with `suffix` like this, when its time comes.
    pub fn end_next(&self, suffix: &str, end: End) {
        lock(&self.cluster).ends.push((suffix.to_owned(), end));
    }

    /// Forgets how executions were to end that didn't end yet.
    pub fn forget_ends(&self) {
        lock(&self.cluster).ends.clear();
    }

    /// Lets the system views tell that this session holds the lock that others wait for.
    pub fn set_blocker(&self, pid: i64, user: &str) {
        let mode = Field::Text("AccessExclusiveLock".to_owned());
        lock(&self.cluster).views.blockers = vec![vec![Field::Long(pid), Field::Text(user.to_owned()), mode]];
    }

    /// Nobody holds a lock that others wait for any more.
    pub fn forget_blocker(&self) {
        lock(&self.cluster).views.blockers.clear();
    }

    /// What hasn't ended, oldest first.
    pub fn running(&self) -> Vec<Running> {
        let cluster = self.settled();
        let mut running: Vec<_> = cluster.runs.iter().filter(|(_, run)| run.outcome.is_none()).collect();
        running.sort_by_key(|(id, run)| (run.submitted, *id));
        running.into_iter().map(|(id, run)| Running { id: id.clone(), name: run.name.clone() }).collect()
    }

    /// Ends an execution now; `false` where it isn't known or has ended.
    pub fn end(&self, id: &str, end: &End) -> bool {
        let mut cluster = self.settled();
        let known = cluster.runs.get(id).is_some_and(|run| run.outcome.is_none());
        if known {
            cluster.end(id, end, self.clock.now(), self);
        }
        known
    }

    /// The statement names of all executions, in the order they were submitted; one that a token found again counts once.
    pub fn submitted(&self) -> Vec<String> {
        lock(&self.cluster).submitted.clone()
    }

    /// How executions ended, after the first `n`, in the order they did.
    pub fn endings_after(&self, n: usize) -> Vec<Ending> {
        self.settled().endings.get(n..).unwrap_or_default().to_vec()
    }

    /// A target's rows: their keys in order, by the condition of their partition, such as `"dt" = DATE '2026-11-01'`.
    pub fn rows(&self, target: &TableName) -> BTreeMap<String, Vec<String>> {
        table(target).map(|table| self.settled().database.rows(&table)).unwrap_or_default()
    }

    /// Puts rows into a target that no batch wrote.
    pub fn put_rows(&self, target: &TableName, condition: &str, keys: &[&str]) -> Result<(), String> {
        self.settled().database.put_rows(&table(target)?, condition, keys);
        Ok(())
    }

    /// Takes a row out of a target, as somebody's own DELETE.
    pub fn take_row(&self, target: &TableName, condition: &str, key: &str) -> Result<(), String> {
        self.settled().database.take_row(&table(target)?, condition, key);
        Ok(())
    }

    /// A partition's stored fence.
    pub fn fence(&self, target: &TableName, partition: &str) -> Option<i64> {
        let name = identifier::per_target_name(identifier::PerTarget::Fence, target);
        self.settled().database.fence(name.strip_prefix("fence_")?, partition)
    }

    /// The names of all staging tables.
    pub fn staging_tables(&self) -> Vec<String> {
        self.settled().database.staging_tables()
    }

    /// The rows of `tidemark.files`: batch, key, `ETag`, size, milliseconds.
    pub fn files(&self) -> Vec<(String, String, String, i64, i64)> {
        self.settled().database.files().to_vec()
    }

    /// Lets every load of `tidemark.files` that holds this key fail.
    pub fn refuse_file(&self, key: &str) {
        lock(&self.cluster).views.refused_files.insert(key.to_owned());
    }

    /// Lets COPY's role read nothing below this URL, or, with `None`, all again.
    pub fn deny_role(&self, url: Option<&str>) {
        lock(&self.cluster).views.denied_to_role = url.into_iter().map(str::to_owned).collect();
    }

    /// Drops a target, or makes one of that name, empty.
    pub fn set_target(&self, target: &TableName, there: bool) -> Result<(), String> {
        let (mut cluster, table) = (self.settled(), table(target)?);
        if there {
            cluster.database.create_table(table);
        } else {
            cluster.database.drop_table(&table);
        }
        Ok(())
    }

    /// Puts a ledger row that no batch here wrote.
    pub fn put_ledger(&self, row: BTreeMap<String, Field>) {
        self.settled().database.put_ledger(row);
    }

    /// Puts an empty staging table, as a batch that died left it.
    pub fn put_staging(&self, name: &str) {
        self.settled().database.put_staging(name.to_owned());
    }

    /// The ledger: column name to value, a map for each row, in the order they were written.
    pub fn ledger(&self) -> Vec<BTreeMap<String, Field>> {
        self.ledger_after(0)
    }

    /// The ledger's rows after the first `n`.
    pub fn ledger_after(&self, n: usize) -> Vec<BTreeMap<String, Field>> {
        let cluster = self.settled();
        let rows = cluster.database.ledger().get(n..).unwrap_or_default();
        rows.iter().map(|row| (**row).clone()).collect()
    }

    /// Everything that is committed now.
    pub fn backup(&self) -> Backup {
        Backup(self.settled().database.clone())
    }

    /// Makes everything as it was at a backup; executions go on.
    pub fn restore(&self, backup: &Backup) {
        self.settled().database = backup.0.clone();
    }

    /// The cluster, after everything that is due by now has ended and what is too old is forgotten.
    fn settled(&self) -> std::sync::MutexGuard<'_, Cluster> {
        let mut cluster = lock(&self.cluster);
        cluster.settle(self.clock.now(), self);
        cluster
    }

    /// Waits for the end of an execution, at most so long: the clock moves to whichever comes first.
    fn wait(&self, id: &str, seconds: u32) {
        let until = self.clock.now() + SignedDuration::from_secs(i64::from(seconds));
        let due = match lock(&self.cluster).runs.get(id) {
            Some(run) if run.outcome.is_none() => run.due.unwrap_or(until),
            _ => return,
        };
        self.clock.advance_to(due.min(until));
    }
}

fn table(target: &TableName) -> Result<String, String> {
    identifier::table(target).map_err(|e| e.to_string())
}

impl Cluster {
    fn settle(&mut self, now: Timestamp, warehouse: &MemoryWarehouse) {
        if self.settled.replace(now) == Some(now) {
            return;
        }
        let mut due: Vec<(Timestamp, String)> = self
            .runs
            .iter()
            .filter(|(_, run)| run.outcome.is_none())
            .filter_map(|(id, run)| Some((run.due.filter(|due| *due <= now)?, id.clone())))
            .collect();
        due.sort();
        for (at, id) in due {
            let name = self.runs.get(&id).map(|run| run.name.clone()).unwrap_or_default();
            let told = self.ends.iter().position(|(suffix, _)| name.ends_with(suffix.as_str()));
            let end = told.map_or(End::Run, |at| self.ends.remove(at).1);
            self.end(&id, &end, at, warehouse);
        }
        self.tokens.retain(|_, token| now.duration_since(token.at) < TOKEN_KEPT);
        self.runs.retain(|_, run| run.outcome.is_none() || now.duration_since(run.submitted) < EXECUTION_KEPT);
    }

    fn end(&mut self, id: &str, end: &End, at: Timestamp, warehouse: &MemoryWarehouse) {
        let Some(statements) = self.runs.get(id).map(|run| run.statements.clone()) else { return };
        let count = statements.len();
        let mut outcome = match end {
            End::Run => self.run(&statements, warehouse),
            End::Fail(error) => Outcome::failed(error, count),
            End::RunButFail(error) => {
                self.run(&statements, warehouse);
                Outcome::failed(error, count)
            }
        };
        outcome.at = at;
        if let Some(run) = self.runs.get_mut(id) {
            let (name, took) = (run.name.clone(), at.duration_since(run.submitted));
            self.endings.push(Ending { name, end: end.clone(), took, error: outcome.error.clone() });
            run.outcome = Some(outcome);
        }
    }

    /// Runs statements in one transaction, and keeps it if all of them succeed.
    fn run(&mut self, statements: &[String], warehouse: &MemoryWarehouse) -> Outcome {
        let now = warehouse.clock.now();
        let mut transaction =
            Transaction::begin(&self.database, &mut self.views, &warehouse.objects, warehouse.read, now);
        let mut outcome = Outcome::swept_along(statements.len());
        outcome.at = now;
        outcome.status = ExecutionStatus::Finished;
        for (index, sql) in statements.iter().enumerate() {
            match transaction.execute(sql) {
                Ok(result) => {
                    let id = transaction.query_id();
                    outcome.statements[index] = (ExecutionStatus::Finished, None, id);
                    outcome.results[index] = result;
                }
                Err(error) => {
                    let id = transaction.query_id();
                    outcome.statements[index] = (ExecutionStatus::Failed, Some(error.clone()), id);
                    outcome.status = ExecutionStatus::Failed;
                    outcome.error = Some(format!("Query #{} failed with {error}", index + 1));
                    outcome.results.fill(None);
                    return outcome;
                }
            }
        }
        self.database = transaction.database;
        outcome
    }
}

impl Outcome {
    /// No statement ran.
    fn swept_along(statements: usize) -> Self {
        Self {
            at: Timestamp::UNIX_EPOCH,
            status: ExecutionStatus::Aborted,
            error: None,
            statements: vec![(ExecutionStatus::Aborted, Some(SWEPT_ALONG.to_owned()), 0); statements],
            results: vec![None; statements],
        }
    }

    /// The whole request failed; none of its statements is to blame.
    fn failed(error: &str, statements: usize) -> Self {
        let error = Some(error.to_owned());
        Self { status: ExecutionStatus::Failed, error, ..Self::swept_along(statements) }
    }
}

impl Run {
    fn execution(&self, id: &str) -> Execution {
        let id = id.to_owned();
        let Some(outcome) = &self.outcome else {
            let running = |n| SubStatement {
                id: format!("{id}:{n}"),
                status: ExecutionStatus::Running,
                error: None,
                query_id: 0,
            };
            let statements = (1..=self.statements.len()).map(running).collect();
            return Execution { id, status: ExecutionStatus::Running, error: None, statements, pid: 0 };
        };
        let sub = |(index, (status, error, query_id)): (usize, &(ExecutionStatus, Option<String>, i64))| SubStatement {
            id: format!("{id}:{}", index + 1),
            status: *status,
            error: error.clone(),
            query_id: *query_id,
        };
        let statements = outcome.statements.iter().enumerate().map(sub).collect();
        Execution { id: id.clone(), status: outcome.status, error: outcome.error.clone(), statements, pid: 0 }
    }
}

fn refused(operation: &'static str, code: &str, message: String) -> WarehouseError {
    WarehouseError { operation, code: code.to_owned(), message, effect: Effect::NotApplied }
}

#[async_trait]
impl Warehouse for MemoryWarehouse {
    async fn submit(&self, submission: Submission<'_>) -> Result<Execution, WarehouseError> {
        let invalid = |message: &str| Err(refused("BatchExecuteStatement", "ValidationException", message.to_owned()));
        if !(1..=40).contains(&submission.statements.len()) {
            return invalid("1 to 40 statements are possible");
        }
        if !(1..=64).contains(&submission.token.len()) {
            return invalid("a client token has 1 to 64 characters");
        }
        let now = self.clock.now();
        let id = {
            let mut cluster = self.settled();
            if let Some(token) = cluster.tokens.get(submission.token) {
                if token.statements != submission.statements {
                    return invalid("the client token was used for another request");
                }
                token.id.clone()
            } else {
                let id = uuid_of(cluster.submitted.len());
                let statements = submission.statements.to_vec();
                let token = Token { at: now, id: id.clone(), statements: statements.clone() };
                let pace = cluster.paces.iter().rev().find(|(suffix, _)| submission.name.ends_with(suffix.as_str()));
                let due = match pace.map_or(Pace::AtOnce, |(_, pace)| *pace) {
                    Pace::AtOnce => Some(now),
                    Pace::After(duration) => Some(now + duration),
                    Pace::ByHand => None,
                };
                let run = Run { name: submission.name.to_owned(), statements, submitted: now, due, outcome: None };
                cluster.tokens.insert(submission.token.to_owned(), token);
                cluster.submitted.push(run.name.clone());
                cluster.runs.insert(id.clone(), run);
                cluster.settled = None;
                id
            }
        };
        match self.describe(&id, submission.wait_seconds).await? {
            Some(execution) => Ok(execution),
            None => invalid("the token's execution is forgotten"),
        }
    }

    async fn describe(&self, id: &str, wait_seconds: u32) -> Result<Option<Execution>, WarehouseError> {
        self.wait(id, wait_seconds.min(30));
        Ok(self.settled().runs.get(id).map(|run| run.execution(id)))
    }

    async fn result(&self, id: &str) -> Result<StatementResult, WarehouseError> {
        let cluster = self.settled();
        let (run_id, statement) = id.split_once(':').map_or((id, None), |(id, n)| (id, n.parse::<usize>().ok()));
        let not_found = |message: &str| refused("GetStatementResult", "ResourceNotFoundException", message.to_owned());
        let run = cluster.runs.get(run_id).ok_or_else(|| not_found("Query does not exist."))?;
        // A request of several statements has no result of its own.
        let index = statement.or(Some(1).filter(|_| run.statements.len() == 1)).and_then(|n| n.checked_sub(1));
        let results = run.outcome.as_ref().map(|outcome| &outcome.results);
        let rows = results.zip(index).and_then(|(results, index)| results.get(index)).and_then(Clone::clone);
        rows.ok_or_else(|| not_found("Query does not have result. Please check query status with DescribeStatement."))
    }

    async fn cancel(&self, id: &str) -> Result<(), WarehouseError> {
        let mut cluster = self.settled();
        let now = self.clock.now();
        let not_found = || refused("CancelStatement", "ResourceNotFoundException", "Query does not exist.".to_owned());
        let run = cluster.runs.get_mut(id).ok_or_else(not_found)?;
        if run.outcome.is_none() {
            let mut outcome = Outcome::swept_along(run.statements.len());
            outcome.at = now;
            run.outcome = Some(outcome);
        }
        Ok(())
    }
}

fn uuid_of(n: usize) -> String {
    uuid::Uuid::from_u128(0x7000_0000_0000_0000_0000 + n as u128).to_string()
}
