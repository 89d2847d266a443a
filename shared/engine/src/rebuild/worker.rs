//! A worker: one take of one partition, driven from phase to phase until it leaves.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tidemark_domain::definition::Definition;
use tidemark_domain::failure::FailureKind;
use tidemark_domain::id::BatchId;
use tidemark_domain::lock::Scope;
use tidemark_domain::measure::{self, Observed};
use tidemark_domain::partition::{Batch, PartitionItem, Phase};
use tidemark_domain::partition_value::Partition;
use tidemark_domain::settle::Settlement;
use tidemark_domain::sql::rebuild::{LastBatch, Request};
use tidemark_domain::step::{self, Next};
use tidemark_domain::take::{Permission, Take};
use tidemark_domain::update::{Item, Update};
use tidemark_domain::verify::GuardKind;
use tidemark_domain::writes::{self, Taken};

use super::leave::OVERTAKEN;
use super::{Answer, HAND_OFF_MARGIN, Seen, Work};
use crate::Engine;
use crate::error::Error;
use crate::ports::Written;

/// One take of a partition.
pub(crate) struct Worker<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) work: Work<'a>,
    pub(crate) seen: &'a Seen,
    /// The item as it was when it was taken.
    pub(crate) item: PartitionItem,
    pub(crate) batch: Batch,
    /// What it holds of the item, for its writes. The batch there is the one in hand, or the one before, where that isn't
    /// recorded yet.
    pub(crate) taken: Taken,
    /// The batch of a RECORD whose answer was lost: what it holds of the item may be one write behind.
    in_doubt: Option<BatchId>,
    /// Since when it watches its statement: `batch.spent_seconds` are those before.
    pub(crate) watched_since: Timestamp,
    pub(crate) permission: Permission,
    pub(crate) probe: bool,
    /// Who held locks when the load window was over.
    pub(crate) blocked_by: Option<String>,
    /// Whether the statement was found FINISHED when it was taken up again.
    pub(crate) was_over: bool,
    /// What is told of it once it has left.
    pub(crate) observed: Observed,
    stuck: bool,
    /// The definition the batch began with.
    pub(crate) definition: Arc<Definition>,
    pub(crate) partition: Partition,
    pub(crate) holder: String,
    pub(crate) scope: Scope,
}

impl<'a> Worker<'a> {
    /// A worker for what was just taken.
    pub(crate) async fn new(
        engine: &'a Engine,
        work: Work<'a>,
        seen: &'a Seen,
        item: &PartitionItem,
        take: Take,
        holder: String,
        scope: Scope,
    ) -> Result<Self, Error> {
        let dataset = &seen.id.dataset;
        let definition = engine.definitions.get(engine.ports.state.as_ref(), dataset, &take.batch.definition).await?;
        let partition = match definition.yields(&seen.id.partition) {
            Some(partition) => partition,
            // What fences it asks for its name alone.
            None if take.permission == Permission::Retire => {
                Partition { name: seen.id.partition.clone(), values: Vec::new() }
            }
            None => {
                return Err(Error::Stored {
                    what: format!("partition {} under the definition its batch began with", seen.id),
                    why: "its layout doesn't yield it".to_owned(),
                });
            }
        };
        let span = tracing::Span::current();
        span.record("batch", tracing::field::display(take.batch.id));
        span.record("generation", take.batch.covers.0);
        span.record("fence", item.fence.next().0);
        span.record("phase", take.batch.phase.as_str());
        tracing::info!(born = %take.batch.fence, found = ?take.found, unresolved = take.unresolved, "taken");
        Ok(Self {
            engine,
            work,
            seen,
            item: PartitionItem { unresolved: take.unresolved, ..item.clone() },
            taken: Taken { fence: item.fence.next(), batch: take.batch.clone() },
            in_doubt: None,
            batch: take.batch,
            watched_since: engine.ports.clock.now(),
            permission: take.permission,
            probe: take.probe,
            blocked_by: None,
            was_over: false,
            observed: Observed::at_take(take.found, item.batch.as_ref()),
            stuck: take.stuck,
            definition,
            partition,
            holder,
            scope,
        })
    }

    /// Goes from phase to phase until the partition is left; says what becomes of the message.
    pub(crate) async fn run(mut self) -> Answer {
        let answer = self.work_through().await;
        if answer == OVERTAKEN {
            self.observed.status = measure::status(&Next::Overtaken);
        }
        self.observed.in_statements = self.in_statements();
        let (summary, measures) =
            measure::take(&self.seen.id, &self.batch, &self.definition, &self.observed, self.now());
        self.engine.telemetry.taken(&summary, &measures);
        answer
    }

    async fn work_through(&mut self) -> Answer {
        if self.stuck {
            let message = format!("{} takes in a row died in phase {}", self.item.tries, self.batch.phase.as_str());
            let next = step::failed(&self.item, &self.batch, FailureKind::Stuck, &message, self.now(), 0);
            return self.left(next).await;
        }
        loop {
            let next = match self.phase().await {
                Ok(next) => next,
                Err(error) => self.failed(&error),
            };
            match self.advance(next).await {
                Ok(None) => {}
                Ok(Some(leaving)) => return self.left(leaving).await,
                Err(error) => {
                    let leaving = self.failed(&error);
                    return self.left(leaving).await;
                }
            }
        }
    }

    async fn phase(&mut self) -> Result<Next, Error> {
        tracing::Span::current().record("phase", self.batch.phase.as_str());
        tracing::debug!(attempt = self.batch.attempt, "enters");
        match self.batch.phase {
            Phase::Fencing => self.fencing().await,
            Phase::Listing => self.listing().await,
            Phase::Staging => self.staging().await,
            Phase::Swapping => self.swapping().await,
        }
    }

    /// Goes on, or gives back what leaves.
    ///
    /// The next phase is recorded together with its statement, before that is submitted: nothing happens in between.
    async fn advance(&mut self, next: Next) -> Result<Option<Next>, Error> {
        match next {
            Next::Enter(batch) => self.batch = batch,
            Next::Looked { batch, newest } => {
                let update = writes::record_look(&self.seen.id, &self.taken, &batch, newest.as_deref());
                if !self.record(update, batch).await? {
                    return Ok(Some(Next::Overtaken));
                }
                self.item.last = newest.map(|newest| *newest).or(self.item.last.take());
                self.item.unresolved = false;
            }
            leaving => return Ok(Some(leaving)),
        }
        Ok(None)
    }

    /// Writes a RECORD of a batch, which is in hand then; `false`: somebody else has the partition.
    pub(crate) async fn record(&mut self, update: Update, batch: Batch) -> Result<bool, Error> {
        self.in_doubt = Some(batch.id);
        let written = self.engine.write(&[update]).await?;
        self.in_doubt = None;
        if let Written::Refused(found) = written {
            let ours = |found: Item| self.taken.wrote(&batch, &found);
            if !found.into_iter().flatten().next().is_some_and(ours) {
                return Ok(false);
            }
            tracing::info!("recorded: the answer was lost");
        }
        self.taken.batch = batch.clone();
        self.batch = batch;
        Ok(true)
    }

    /// After a lost answer, reads what it holds of the item: under its fence nobody else writes the batch.
    pub(crate) async fn clear_doubt(&mut self) {
        if self.in_doubt.take().is_none() {
            return;
        }
        match self.engine.look(&self.seen.id).await {
            Ok(seen) => {
                let item = seen.and_then(|seen| seen.item).filter(|item| item.fence == self.taken.fence);
                self.taken.batch = item.and_then(|item| item.batch).unwrap_or(self.taken.batch.clone());
            }
            Err(error) => tracing::info!(%error, "whether its last record was written stays unknown"),
        }
    }

    /// A failure of a port, or of something stored: settled by its kind; the batch goes on as it is.
    pub(crate) fn failed(&self, error: &Error) -> Next {
        tracing::warn!(%error, kind = error.kind().name(), phase = self.batch.phase.as_str(), "failed");
        step::failed(&self.item, &self.batch, error.kind(), &error.to_string(), self.now(), self.chance())
    }

    /// A terminal failure of the phase's statement, seen: the batch goes on, if at all, with its next try.
    pub(crate) fn settle(&self, kind: FailureKind, message: &str) -> Next {
        tracing::warn!(why = message, kind = kind.name(), phase = self.batch.phase.as_str(), "statement failed");
        let mut next = step::statement_failed(&self.item, &self.batch, kind, message, self.now(), self.chance());
        if let Next::Settle { settlement: Settlement::Hold { alert, .. }, .. } = &mut next {
            *alert |= self.blocked_by.is_some();
        }
        next
    }

    /// The batch's request, for its SQL: nothing in it but what the batch was born with.
    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            definition: &self.definition,
            definition_hash: &self.batch.definition,
            partition: &self.partition,
            stack: &self.engine.settings.stack,
            batch: self.batch.id,
            fence: self.batch.fence,
            generation: self.batch.covers,
            epoch: self.batch.epoch,
            statement_timeout: std::time::Duration::from_secs(self.batch.statement_timeout_seconds),
            last: self.batch.before.as_ref().map(|before| LastBatch { batch: before.batch, rows: before.rows }),
            accept_foreign_rows: self.batch.accept.as_ref().is_some_and(|a| a.kinds.contains(&GuardKind::ForeignRows)),
            listed: self.batch.listed.as_ref().map(|listed| &listed.digest),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.engine.ports.clock.now()
    }

    /// A random number of thousandths, for jitter.
    pub(crate) fn chance(&self) -> u32 {
        u32::try_from(self.engine.ports.clock.jitter(std::time::Duration::from_secs(1)).as_millis()).unwrap_or(0)
    }

    /// The time left before the worker has to hand off; zero when it has to.
    pub(crate) fn time_left(&self) -> SignedDuration {
        (self.work.deadline - HAND_OFF_MARGIN).duration_since(self.now()).max(SignedDuration::ZERO)
    }

    /// The patience of guards.
    pub(crate) fn patience(&self) -> SignedDuration {
        SignedDuration::try_from(self.definition.tolerance.patience).unwrap_or(SignedDuration::MAX)
    }
}
