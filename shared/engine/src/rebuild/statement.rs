//! The statement of a phase: recorded, then submitted under its token, then waited for by long poll.
//!
//! After a crash the same request goes out under the same token, which finds the execution it made. A new try begins only
//! after a terminal failure was *seen*. Questions ([`Worker::ask`]) change nothing, so they need no record.

use jiff::SignedDuration;
use tidemark_domain::failure::{
    ApiCall, ApiRefusal, Failure, FailureKind, SubStatementError, api_refusal, culprit, statement_failure,
};
use tidemark_domain::sql::rows::{self, Field};
use tidemark_domain::sql::{Batch as Sql, SubStatement, lookup};
use tidemark_domain::step::{self, Submit};
use tidemark_domain::writes;

use super::{Next, Worker};
use crate::error::Error;
use crate::ports::{Execution, ExecutionStatus, Submission, WarehouseError};

/// The longest wait of one call.
const LONG_POLL_SECONDS: i64 = 30;

/// How a statement, or a question, ended for this worker.
#[expect(clippy::large_enum_variant, reason = "one short-lived value a statement")]
pub(crate) enum Ran {
    /// It ended; its status says how.
    Ended(Execution),
    /// It didn't end well or can't be waited for: this comes next.
    Leave(Next),
}

/// Rows of a result.
pub(crate) type Rows = Vec<Vec<Field>>;

/// The answer to a question.
#[expect(clippy::large_enum_variant, reason = "one short-lived value a statement")]
pub(crate) enum Answered {
    /// Its rows.
    Rows(Rows),
    /// This comes next.
    Leave(Next),
}

/// Who holds the lock that a statement waits for.
#[derive(Debug)]
enum Blockers {
    /// It waits for nobody.
    Nobody,
    /// These, in words.
    These(String),
    /// It couldn't be asked for that reason. A failed question is no sign that nobody is in the way: what it is about counts as
    /// waiting, which people are told of, and never parks.
    Unknown(String),
}

impl Blockers {
    /// In words; `None`: nobody.
    fn who(self) -> Option<String> {
        match self {
            Self::Nobody => None,
            Self::These(who) => Some(who),
            Self::Unknown(why) => Some(format!("nobody knows whom: {why}")),
        }
    }
}

impl Worker<'_> {
    /// Runs the statement of the phase to its end, or until time is up.
    pub(crate) async fn run_statement(&mut self, sql: &Sql) -> Result<Ran, Error> {
        let token = self.batch.token(sql.statements());
        let resumed = self.batch.statement.is_some();
        let recorded = match step::submit(&self.batch, self.permission, &token, self.now()) {
            Submit::Denied => return Ok(Ran::Leave(Next::Denied)),
            Submit::Record(batch) => {
                let update = writes::record(&self.seen.id, &self.taken, &batch);
                if !self.record(update, batch).await? {
                    return Ok(Ran::Leave(Next::Overtaken));
                }
                None
            }
            Submit::Describe(id) => Some(id),
            Submit::Lost => return Ok(Ran::Leave(self.lost("its request can't be sent again"))),
            Submit::Again => None,
        };
        let execution = match recorded {
            Some(id) => self.describe(&id, 0).await?,
            None if resumed => {
                // Sent again without waiting, and asked at once: what is over now was over before, and no work of ours.
                let again = self.submit(sql, &token, 0).await?;
                self.describe(&again.id, 0).await?
            }
            None => Some(self.submit(sql, &token, self.wait_seconds()).await?),
        };
        let Some(mut execution) = execution else {
            return Ok(Ran::Leave(self.lost("its statement isn't known any more")));
        };
        self.was_over = resumed && execution.status == ExecutionStatus::Finished;
        let mut cancelled = false;
        while execution.status == ExecutionStatus::Running {
            if self.time_left().is_zero() {
                return Ok(Ran::Leave(Next::HandOff { statement: Some(execution.id) }));
            }
            if !cancelled && self.in_statements() > self.load_window() {
                self.blocked_by = self.blockers(execution.pid).await.who();
                tracing::warn!(
                    statement = execution.id,
                    blocked_by = self.blocked_by,
                    "the load window is over; cancelling"
                );
                self.cancel(&execution.id).await?;
                cancelled = true;
            }
            match self.describe(&execution.id, self.wait_seconds()).await? {
                Some(now) => execution = now,
                None => return Ok(Ran::Leave(self.lost("its statement isn't known any more"))),
            }
        }
        self.batch.spent_seconds = u64::try_from(self.in_statements().as_secs()).unwrap_or(0);
        self.watched_since = self.now();
        if execution.status != ExecutionStatus::Finished && execution.statements.is_empty() {
            execution = self.describe(&execution.id, 0).await?.unwrap_or(execution);
        }
        self.told_by_redshift(&execution).await?;
        Ok(Ran::Ended(execution))
    }

    /// Why a statement failed: the first of its statements that failed by itself.
    pub(crate) fn why(&self, sql: &Sql, execution: &Execution) -> Failure {
        let errors: Vec<SubStatementError<'_>> = execution
            .statements
            .iter()
            .enumerate()
            .filter_map(|(index, statement)| {
                let error = statement.error.as_deref()?;
                Some(SubStatementError { number: index + 1, sql: sql.statements().get(index)?, error })
            })
            .collect();
        let mut failure = statement_failure(culprit(&errors), execution.error.as_deref().unwrap_or_default());
        if failure.kind == FailureKind::TooSlow {
            let waited = self.blocked_by.as_ref().map_or_else(String::new, |who| format!(", waiting for {who}"));
            failure.message = format!(
                "{} s in statements{waited}, where the load window is {} s; the last was in phase {}: {}",
                self.batch.spent_seconds,
                self.load_window().as_secs(),
                self.batch.phase.as_str(),
                failure.message
            );
            if self.blocked_by.is_some() {
                // Waiting for somebody else's lock is no overrun.
                failure.kind = FailureKind::Contended;
            }
        }
        failure
    }

    /// The rows of one statement of a finished batch; `None`: they aren't kept any more.
    pub(crate) async fn rows(&self, execution: &Execution, of: SubStatement) -> Result<Option<Rows>, Error> {
        match self.engine.ports.warehouse.result(&of.id(&execution.id)).await {
            Ok(rows) => Ok(Some(rows)),
            Err(error) => match api_refusal(ApiCall::Result, &error.code, &error.message) {
                ApiRefusal::NoResult | ApiRefusal::NoSuchStatement => Ok(None),
                _ => Err(refused(ApiCall::Result, &error)),
            },
        }
    }

    /// Asks something that changes nothing, and waits for the answer.
    pub(crate) async fn ask(&self, sql: &Sql) -> Result<Answered, Error> {
        if self.time_left().is_zero() {
            return Ok(Answered::Leave(self.hand_off()));
        }
        let token = self.engine.ports.clock.id().to_string();
        let mut execution = self.submit(sql, &token, self.wait_seconds()).await?;
        while execution.status == ExecutionStatus::Running {
            if self.time_left().is_zero() {
                self.cancel(&execution.id).await?;
                return Ok(Answered::Leave(self.hand_off()));
            }
            let described = self.describe(&execution.id, self.wait_seconds()).await?;
            execution = described.ok_or_else(|| Error::Warehouse {
                kind: FailureKind::Unavailable,
                message: format!("{}: its statement isn't known any more", sql.name()),
            })?;
        }
        if execution.status != ExecutionStatus::Finished {
            let described = self.describe(&execution.id, 0).await?.unwrap_or(execution);
            let failure = self.why(sql, &described);
            return Err(Error::Warehouse { kind: failure.kind, message: failure.message });
        }
        let rows = self.engine.ports.warehouse.result(&sql.last().id(&execution.id)).await;
        rows.map(Answered::Rows).map_err(|error| refused(ApiCall::Result, &error))
    }

    fn hand_off(&self) -> Next {
        Next::HandOff { statement: self.batch.statement.as_ref().and_then(|statement| statement.id.clone()) }
    }

    async fn submit(&self, sql: &Sql, token: &str, wait_seconds: u32) -> Result<Execution, Error> {
        let submission = Submission { statements: sql.statements(), name: sql.name(), token, wait_seconds };
        let submitted = self.engine.ports.warehouse.submit(submission).await;
        submitted.map_err(|error| refused(ApiCall::Submit, &error))
    }

    async fn describe(&self, id: &str, wait_seconds: u32) -> Result<Option<Execution>, Error> {
        let described = self.engine.ports.warehouse.describe(id, wait_seconds).await;
        described.map_err(|error| refused(ApiCall::Describe, &error))
    }

    /// Who holds the lock that a session waits for.
    async fn blockers(&self, pid: i64) -> Blockers {
        let Ok(question) = lookup::blockers(&self.request(), pid) else { return Blockers::Nobody };
        let found = match self.ask_for_blockers(&question).await {
            Ok(Some(found)) => found,
            Ok(None) => return Blockers::Unknown("no time is left".to_owned()),
            Err(error) => {
                tracing::warn!(%error, "nobody knows who is in the way");
                return Blockers::Unknown(error.to_string());
            }
        };
        let others = found.iter().map(|b| format!("pid {} of user {} ({})", b.pid, b.user, b.lock_mode));
        let others = others.collect::<Vec<_>>().join(", ");
        if others.is_empty() { Blockers::Nobody } else { Blockers::These(others) }
    }

    async fn ask_for_blockers(&self, question: &Sql) -> Result<Option<Vec<rows::Blocker>>, Error> {
        Ok(match self.ask(question).await? {
            Answered::Rows(found) => Some(rows::blockers(&found)?),
            Answered::Leave(_) => None,
        })
    }

    async fn cancel(&self, id: &str) -> Result<(), Error> {
        match self.engine.ports.warehouse.cancel(id).await {
            Ok(()) => Ok(()),
            Err(error) => match api_refusal(ApiCall::Cancel, &error.code, &error.message) {
                ApiRefusal::AlreadyOver | ApiRefusal::NoSuchStatement => Ok(()),
                _ => Err(refused(ApiCall::Cancel, &error)),
            },
        }
    }

    fn wait_seconds(&self) -> u32 {
        u32::try_from(self.time_left().as_secs().clamp(0, LONG_POLL_SECONDS)).unwrap_or(0)
    }

    fn load_window(&self) -> SignedDuration {
        SignedDuration::try_from(self.definition.load_window).unwrap_or(SignedDuration::MAX)
    }

    /// How long the batch has been in statements, as far as its workers watched: an outage counts for nothing, and Redshift's
    /// own time-out of a statement needs nobody who watches.
    pub(crate) fn in_statements(&self) -> SignedDuration {
        let before = SignedDuration::from_secs(i64::try_from(self.batch.spent_seconds).unwrap_or(i64::MAX));
        let out =
            self.batch.statement.as_ref().map(|s| self.now().duration_since(s.submitted_at.max(self.watched_since)));
        before.saturating_add(out.unwrap_or_default().max(SignedDuration::ZERO))
    }

    /// The outcome of its statement can't be determined any more: give it up; fence and look find what came of it.
    fn lost(&self, why: &str) -> Next {
        self.settle(FailureKind::SourceChanged, &format!("batch {} is given up: {why}", self.batch.id))
    }

    /// The probe of a halted dataset ended in Redshift: anything but a misconfiguration or an outage resumes it.
    async fn told_by_redshift(&self, execution: &Execution) -> Result<(), Error> {
        if !self.probe {
            return Ok(());
        }
        let failure = statement_failure(None, execution.first_error().unwrap_or_default());
        let still_broken = matches!(failure.kind, FailureKind::Misconfigured | FailureKind::Unavailable);
        if execution.status == ExecutionStatus::Finished || !still_broken {
            self.engine.resume(&self.seen.id.dataset).await?;
        }
        Ok(())
    }
}

/// What a refused call means to whoever made it.
pub(crate) fn refused(call: ApiCall, error: &WarehouseError) -> Error {
    let (kind, message) = match api_refusal(call, &error.code, &error.message) {
        ApiRefusal::Failed(failure) => (failure.kind, failure.message),
        _ => (FailureKind::Unavailable, error.to_string()),
    };
    Error::Warehouse { kind, message: format!("{}: {message}", error.operation) }
}
