//! Runs a submission to its end, whoever still waits for it.
//!
//! One connection each. A batch in `TRANSACTION` mode is one transaction; else every statement commits by itself, unless
//! the batch opened a block. PostgreSQL fixes a transaction's snapshot at its first query, before that query waits for
//! anybody's row; Redshift waits first. So the lock on a written table is taken by a `LOCK TABLE` before the statement:
//! that waits without taking a snapshot.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::NoTls;

use crate::control::Control;
use crate::copy;
use crate::dialect::lex::Lexed;
use crate::dialect::{self, Action, rewrite};
use crate::failure::Failure;
use crate::results::ResultSet;
use crate::session::{Database, Databases, Session};
use crate::statements::{Status, Submission};

/// The most bytes a result may have here; Redshift's own limit is 500 MB, compressed.
const RESULT_LIMIT: usize = 200 * 1024 * 1024;
/// The most bytes a row of a result may have.
const ROW_LIMIT: usize = 64 * 1024;
/// How often a cancel is repeated while PostgreSQL doesn't answer it, and how many times.
const CANCEL_EVERY: Duration = Duration::from_millis(200);
const CANCEL_TIMES: usize = 50;

/// The isolation level of the database, as `CREATE DATABASE … ISOLATION LEVEL` would set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Isolation {
    /// Redshift's default of today: PostgreSQL's REPEATABLE READ.
    #[default]
    Snapshot,
    /// Redshift's older default.
    Serializable,
}

impl Isolation {
    fn begin(self) -> &'static str {
        match self {
            Self::Snapshot => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            Self::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        }
    }

    /// The lock a writer takes: who adds rows shares under snapshot isolation, all else excludes other writers.
    pub(crate) fn lock(self, table: &str, exclusive: bool) -> String {
        let mode = match (self, exclusive) {
            (_, true) => "EXCLUSIVE",
            (Self::Snapshot, false) => "ROW EXCLUSIVE",
            (Self::Serializable, false) => "SHARE ROW EXCLUSIVE",
        };
        format!("LOCK TABLE {table} IN {mode} MODE")
    }
}

/// What every submission runs with.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) databases: Databases,
    pub(crate) s3: copy::source::S3,
    pub(crate) isolation: Isolation,
    pub(crate) control: Control,
}

/// What a statement that worked gave.
struct Done {
    rows: i64,
    result: Option<ResultSet>,
    query_id: i64,
}

/// Runs the submission; its state tells how it went.
pub(crate) async fn run(engine: Arc<Engine>, submission: Arc<Submission>) {
    submission.update(|progress| progress.status = Status::Picked);
    let outcome = match open(&engine, &submission).await {
        Ok((database, session)) => {
            submission.update(|progress| {
                progress.status = Status::Started;
                progress.pid = session.pid;
            });
            let runner = Runner {
                engine: &engine,
                submission: &submission,
                database,
                session,
                isolation: engine.isolation,
                block: false,
            };
            runner.all().await
        }
        Err(failure) => Err(failure),
    };
    submission.end(outcome.err().as_ref());
}

async fn open(engine: &Engine, submission: &Submission) -> Result<(Arc<Database>, Session), Failure> {
    let database = engine.databases.get(&submission.request.database).await?;
    let session = Session::open(&database.config).await?;
    Ok((database, session))
}

struct Runner<'a> {
    engine: &'a Engine,
    submission: &'a Submission,
    database: Arc<Database>,
    session: Session,
    isolation: Isolation,
    /// A transaction block is open.
    block: bool,
}

impl Runner<'_> {
    async fn all(mut self) -> Result<(), Failure> {
        let count = self.submission.request.sqls.len();
        if self.submission.request.transaction {
            self.command(self.isolation.begin()).await?;
            self.block = true;
            for index in 0..count {
                self.breaks(index).await;
                if let Err(failure) = self.part(index).await {
                    self.rollback().await;
                    return Err(failure);
                }
            }
            self.breaks(count).await;
            self.commit().await?;
            if self.engine.control.breaks(&self.submission.request, count + 1) {
                return Err(Failure::connection_lost("An I/O error occurred while sending to the backend."));
            }
            return Ok(());
        }
        let mut first = None;
        for index in 0..count {
            if let Err(failure) = self.part(index).await {
                if failure.connection_lost || failure.cancelled {
                    return Err(failure);
                }
                first.get_or_insert(failure);
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Ends the backend here, if a test asked for it; what comes next finds its connection gone.
    async fn breaks(&self, after: usize) {
        if self.engine.control.breaks(&self.submission.request, after) {
            let ended =
                self.database.journal.query("SELECT pg_terminate_backend($1, 5000)", &[&self.session.pid]).await;
            if let Err(failure) = ended {
                tracing::error!(%failure, "a connection that a test asked to break didn't");
            }
        }
    }

    /// Runs one statement and writes down how it went.
    async fn part(&mut self, index: usize) -> Result<(), Failure> {
        let started = Instant::now();
        self.submission.update_part(index, |part| part.status = Status::Started);
        let query_id = self.database.journal.next_query_id().await?;
        let outcome = if self.submission.is_cancelled() {
            Err(Failure::cancelled(query_id, true))
        } else {
            self.statement(index, query_id).await
        };
        let took = started.elapsed();
        self.remember(index, query_id, took, &outcome).await;
        let failure = outcome.as_ref().err().cloned();
        self.submission.update_part(index, |part| {
            part.duration = took;
            match outcome {
                Ok(done) => {
                    part.status = Status::Finished;
                    part.rows = done.rows;
                    part.query_id = done.query_id;
                    part.size = done.result.as_ref().map_or(0, |result| count(result.size));
                    part.result = done.result.map(Arc::new);
                }
                Err(failure) => {
                    part.status = if failure.cancelled { Status::Aborted } else { Status::Failed };
                    part.error = Some(failure.to_string());
                    part.query_id = query_id;
                }
            }
        });
        failure.map_or(Ok(()), Err)
    }

    /// A row of `sys_query_history`; a statement is not failed for it.
    async fn remember(&self, index: usize, query_id: i64, took: Duration, outcome: &Result<Done, Failure>) {
        let text: String = self.submission.request.sqls[index].chars().take(4_000).collect();
        let kind = text.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        let (status, rows, error) = match outcome {
            Ok(done) => ("success", done.rows, String::new()),
            Err(failure) if failure.cancelled => ("canceled", -1, failure.to_string()),
            Err(failure) => ("failed", -1, failure.to_string()),
        };
        let written = self
            .database
            .journal
            .query(
                "INSERT INTO redshift_local.query_history VALUES ($1, $2, $3, $4, \
                 clock_timestamp()::timestamp - make_interval(secs => $5), clock_timestamp()::timestamp, $6, \
                 left($7, 512), $8)",
                &[&query_id, &self.session.pid, &kind, &status, &took.as_secs_f64(), &rows, &error, &text],
            )
            .await;
        if let Err(failure) = written {
            tracing::debug!(%failure, "sys_query_history got no row");
        }
    }

    /// Reads a statement, then runs it in the transaction there is, or in one of its own.
    async fn statement(&mut self, index: usize, query_id: i64) -> Result<Done, Failure> {
        let request = &self.submission.request;
        let lexed = Lexed::new(&rewrite::bind(&Lexed::new(&request.sqls[index])?, &request.parameters))?;
        let action = dialect::read(&lexed)?;
        let plain = |rows| Done { rows, result: None, query_id: -1 };
        match action {
            Action::Begin | Action::Commit | Action::Rollback if request.transaction => Err(Failure::new(
                "BEGIN, COMMIT and ROLLBACK have no place in a batch that is one transaction (refused here; Redshift \
                 would end the batch's transaction early)",
            )),
            Action::Begin => {
                self.command(self.isolation.begin()).await?;
                self.block = true;
                Ok(plain(0))
            }
            Action::Commit => {
                self.commit().await?;
                Ok(plain(0))
            }
            Action::Rollback => {
                self.rollback().await;
                Ok(plain(0))
            }
            Action::Nothing { outside_transactions: Some(word) } if self.block => {
                Err(Failure::new(format!("{word} cannot run inside a transaction block")))
            }
            Action::Nothing { .. } => Ok(plain(0)),
            action if self.block => self.action(&action, query_id).await,
            action => {
                self.command(self.isolation.begin()).await?;
                self.block = true;
                match self.action(&action, query_id).await {
                    Ok(done) => {
                        self.commit().await?;
                        Ok(done)
                    }
                    Err(failure) => {
                        self.rollback().await;
                        Err(failure)
                    }
                }
            }
        }
    }

    /// Runs what stands in a transaction; a request to cancel ends it.
    async fn action(&self, action: &Action, query_id: i64) -> Result<Done, Failure> {
        let work = self.uncancelled(action, query_id);
        tokio::pin!(work);
        let mut cancelled = self.submission.cancelled();
        tokio::select! {
            outcome = &mut work => return outcome,
            _ = cancelled.wait_for(|asked| *asked) => {}
        }
        let token = self.session.client.cancel_token();
        for _ in 0..CANCEL_TIMES {
            if let Err(error) = token.cancel_query(NoTls).await {
                tracing::debug!(%error, "a cancel didn't reach PostgreSQL");
            }
            match tokio::time::timeout(CANCEL_EVERY, &mut work).await {
                Ok(Err(failure)) if !failure.connection_lost => return Err(Failure::cancelled(query_id, true)),
                Ok(outcome) => return outcome,
                Err(_) => {}
            }
        }
        Err(Failure::cancelled(query_id, true))
    }

    async fn uncancelled(&self, action: &Action, query_id: i64) -> Result<Done, Failure> {
        let failed = |error: tokio_postgres::Error| Failure::from_postgres(&error, query_id, self.session.pid, 0);
        match action {
            Action::Query { sql, reads_tables } => {
                let result = self.session.query(sql).await.map_err(failed)?;
                if result.size > RESULT_LIMIT {
                    return Err(Failure::new("The result of the query is larger than 200 MB"));
                }
                if result.widest > ROW_LIMIT {
                    return Err(Failure::new("Packet for query is too large: a row has more than 64 KB"));
                }
                let query_id = if *reads_tables { query_id } else { -1 };
                Ok(Done { rows: count(result.rows.len()), result: Some(result), query_id })
            }
            Action::Write { sql, table, exclusive } => {
                self.session.execute(&self.isolation.lock(table, *exclusive)).await.map_err(failed)?;
                match self.session.execute(sql).await {
                    Ok(rows) => Ok(Done { rows: i64::try_from(rows).unwrap_or(i64::MAX), result: None, query_id }),
                    Err(error) => {
                        let oid = self.database.journal.table_oid(table).await.unwrap_or(0);
                        Err(Failure::from_postgres(&error, query_id, self.session.pid, oid))
                    }
                }
            }
            Action::Call { sql, procedure } => {
                for (table, exclusive) in self.database.journal.written_by(procedure).await? {
                    self.session.execute(&self.isolation.lock(&table, exclusive)).await.map_err(failed)?;
                }
                self.session.execute(sql).await.map_err(failed)?;
                Ok(Done { rows: 0, result: None, query_id })
            }
            Action::Truncate { sql } => {
                self.session.execute(sql).await.map_err(failed)?;
                self.session.execute("COMMIT").await.map_err(failed)?;
                self.session.execute(self.isolation.begin()).await.map_err(failed)?;
                Ok(Done { rows: 0, result: None, query_id })
            }
            Action::Copy(command) => {
                let account = &self.submission.request.account;
                if self.engine.control.role_is_detached(account) {
                    return Err(Failure::new(format!(
                        "User arn:aws:redshift:us-east-1:{account}:dbuser:local/{} is not authorized to assume IAM Role {}",
                        self.submission.request.database, command.role
                    )));
                }
                self.session.execute(&self.isolation.lock(&command.table, false)).await.map_err(failed)?;
                let means = copy::Means {
                    s3: self.engine.s3.of_account(account),
                    journal: &self.database.journal,
                    session: &self.session,
                    takes_at_least: self.engine.control.copy_delay(account),
                };
                copy::load(means, command, query_id).await?;
                // The API answers 0 for COPY, whatever it loaded.
                Ok(Done { rows: 0, result: None, query_id })
            }
            Action::Run { sql } => {
                self.session.execute(sql).await.map_err(failed)?;
                Ok(Done { rows: 0, result: None, query_id })
            }
            Action::Begin | Action::Commit | Action::Rollback | Action::Nothing { .. } => {
                Ok(Done { rows: 0, result: None, query_id: -1 })
            }
        }
    }

    /// Commits, unless a cancel came first. A block that failed before is rolled back by the same command.
    async fn commit(&mut self) -> Result<(), Failure> {
        self.block = false;
        if self.submission.is_cancelled() {
            self.rollback().await;
            return Err(Failure::cancelled(-1, true));
        }
        self.command("COMMIT").await
    }

    /// Rolls back. A connection that is gone was rolled back already.
    async fn rollback(&mut self) {
        self.block = false;
        if let Err(error) = self.session.execute("ROLLBACK").await {
            tracing::debug!(%error, "a rollback found its connection gone");
        }
    }

    async fn command(&self, sql: &str) -> Result<(), Failure> {
        match self.session.execute(sql).await {
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::from_postgres(&error, -1, self.session.pid, 0)),
        }
    }
}

fn count(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}
