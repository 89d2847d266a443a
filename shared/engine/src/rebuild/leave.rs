//! Leaving: hand-off, hold, park, halt, and the ways out of a worker that was overtaken or may do nothing.

use std::time::Duration;

use tidemark_domain::dataset::{Head, Mode};
use tidemark_domain::id::DatasetName;
use tidemark_domain::partition::Batch;
use tidemark_domain::settle::Settlement;
use tidemark_domain::step::{self, SOON};
use tidemark_domain::story::Outcome;
use tidemark_domain::take::Permission;
use tidemark_domain::writes::{self, Keep};

use super::{Answer, Next, Worker};
use crate::Engine;
use crate::error::Error;
use crate::ports::Written;

/// The answer of a worker whose partition somebody else has.
pub(crate) const OVERTAKEN: Answer = Answer::Done("overtaken");

impl Worker<'_> {
    /// Leaves the partition as `next` says. If even that fails, the message comes back and the lease runs out.
    pub(crate) async fn left(&mut self, next: Next) -> Answer {
        self.observed.leaves(&next);
        self.clear_doubt().await;
        let mut left = self.leave(next).await;
        if let Err(error @ Error::Announce(_)) = &left
            && let Next::Settle { settlement, keep } = self.failed(error)
        {
            // Nobody could be told of it, so nothing was written yet: put off, not tried again and again.
            self.observed.status = "held";
            left = self.settled(settlement, keep).await;
        }
        match left {
            Ok(answer) => answer,
            Err(error) => {
                self.observed.status = "failed";
                tracing::warn!(%error, "could not leave in order; the message comes back");
                self.release().await;
                let pause = Duration::from_secs(5) + self.engine.ports.clock.jitter(Duration::from_secs(10));
                self.engine.back(self.work, pause).await
            }
        }
    }

    async fn leave(&mut self, next: Next) -> Result<Answer, Error> {
        match next {
            Next::Confirm { last } => self.confirm(last.map(|last| *last)).await,
            Next::Settle { settlement, keep } => self.settled(settlement, keep).await,
            Next::HandOff { statement } => self.hand_off_now(statement).await,
            Next::Denied => self.denied().await,
            Next::Restored { ledger, stored } => self.restored(ledger, stored).await,
            Next::Overtaken | Next::Enter(_) | Next::Looked { .. } => Ok(self.overtaken().await),
        }
    }

    async fn settled(&mut self, settlement: Settlement, keep: Batch) -> Result<Answer, Error> {
        match &settlement {
            Settlement::Hold { .. } => self.hold(&settlement, &keep).await,
            Settlement::Park { kind, message } => self.park(kind, message, &keep, &settlement).await,
            Settlement::Halt(why) => self.halt(why, &keep).await,
            Settlement::Superseded => Ok(self.overtaken().await),
        }
    }

    async fn hold(&mut self, settlement: &Settlement, batch: &Batch) -> Result<Answer, Error> {
        let Settlement::Hold { kind, until, keep, alert, message } = settlement else {
            return Ok(Answer::Back);
        };
        let mut alerted = self.item.alerted.clone();
        if *alert && !alerted.contains(kind) {
            match self.alert(kind, &format!("{kind}: {} is held back", self.seen.id), message).await {
                Ok(()) => _ = alerted.insert(kind.clone()),
                Err(error) => tracing::warn!(%error, "held all the same; the next hold tells"),
            }
        }
        tracing::info!(kind, %until, kept = keep, why = message, "held");
        let kept = if *keep { Keep::As(batch) } else { Keep::End(batch) };
        let update = step::hold(&self.seen.id, &self.taken, &self.item, kind, *until, kept, &alerted);
        let story = self.ended_story(settlement, batch);
        if self.finish(update, story.as_ref()).await?.is_some() {
            return Ok(self.overtaken().await);
        }
        if until.duration_since(self.now()) <= SOON {
            self.engine.nudge(self.seen, self.item.marked).await;
        }
        Ok(Answer::Done("held"))
    }

    async fn park(
        &mut self,
        kind: &str,
        message: &str,
        batch: &Batch,
        settlement: &Settlement,
    ) -> Result<Answer, Error> {
        let mut alerted = self.item.alerted.clone();
        if alerted.insert(kind.to_owned()) {
            self.alert(kind, &format!("{kind}: {} is parked", self.seen.id), message).await?;
        }
        let parked = step::parked(batch, kind, message);
        self.engine.publish_parked(self.seen, batch, &parked).await?;
        tracing::error!(kind, why = message, "parked");
        let now = self.now();
        let update = writes::park(&self.seen.id, &self.taken, batch, &parked, &alerted, now);
        let story = self.ended_story(settlement, batch);
        let Some(found) = self.finish(update, story.as_ref()).await? else { return Ok(Answer::Done("parked")) };
        if !self.taken.holds(&found) {
            return Ok(self.overtaken().await);
        }
        // PARK B: marked again since, so what was tried may be mended already.
        let (update, until) = step::park_again(&self.seen.id, &self.taken, &self.item, batch, kind, &alerted, now);
        if self.finish(update, story.as_ref()).await?.is_some() {
            return Ok(self.overtaken().await);
        }
        if until.duration_since(now) <= SOON {
            self.engine.nudge(self.seen, found.marked).await;
        }
        Ok(Answer::Done("would be parked, but was marked again; held"))
    }

    async fn halt(&mut self, why: &str, keep: &Batch) -> Result<Answer, Error> {
        if self.seen.head.mode == Mode::Active {
            let subject = format!("dataset {} is halted", self.seen.id.dataset);
            let body = format!("{why}\n`tidemark doctor` finds it; it goes on by itself once mended.");
            self.alert("halted", &subject, &body).await?;
        }
        let halted = self.engine.write(&[self.seen.head.halt(&self.seen.id.dataset, why, self.now())]).await?;
        tracing::error!(why, halted = matches!(halted, Written::Applied { .. }), "the dataset is halted");
        let update = writes::record(&self.seen.id, &self.taken, &keep.left_in_order());
        if self.finish(update, None).await?.is_some() {
            return Ok(self.overtaken().await);
        }
        Ok(Answer::Done("the dataset is halted"))
    }

    /// Time is up: record where the statement is, give the lock back, and come straight back.
    async fn hand_off_now(&mut self, statement: Option<String>) -> Result<Answer, Error> {
        let spent_seconds = u64::try_from(self.in_statements().as_secs()).unwrap_or(0);
        let batch = Batch { spent_seconds, ..step::handed_off(&self.batch, statement) };
        tracing::info!(phase = batch.phase.as_str(), statement = ?batch.statement.as_ref().map(|s| &s.id), "handed off");
        let update = writes::record(&self.seen.id, &self.taken, &batch);
        if self.finish(update, None).await?.is_some() {
            return Ok(self.overtaken().await);
        }
        Ok(self.engine.back(self.work, Duration::ZERO).await)
    }

    /// What was submitted has ended, and nothing new may be.
    async fn denied(&mut self) -> Result<Answer, Error> {
        if self.permission == Permission::Follow {
            let update = writes::record(&self.seen.id, &self.taken, &self.batch.left_in_order());
            self.finish(update, None).await?;
            return Ok(Answer::Done("the dataset is paused; what was submitted is followed to its end"));
        }
        // Retired, or not yielded any more: the batch ends; the next look leaves the index, or fences first.
        let (now, keep) = (self.now(), Keep::End(&self.batch));
        let update = step::hold(&self.seen.id, &self.taken, &self.item, "retired", now, keep, &self.item.alerted);
        let story = self.close_story(&self.batch, Outcome::GivenUp, "its dataset is retired, or its layout changed");
        if self.finish(update, Some(&story)).await?.is_none() {
            self.engine.nudge(self.seen, self.item.marked).await;
        }
        Ok(Answer::Done("its batch ended; it leaves the index"))
    }

    async fn restored(
        &mut self,
        ledger: tidemark_domain::id::Generation,
        stored: tidemark_domain::id::Fence,
    ) -> Result<Answer, Error> {
        let message = format!(
            "Redshift knows generation {ledger} and fence {stored}, which the state table doesn't: it was restored from a \
             backup. The partition is rebuilt."
        );
        self.alert("restored", &format!("restored: {}", self.seen.id), &message).await?;
        let story = self.close_story(&self.batch, Outcome::GivenUp, "the state table was restored from a backup");
        let mut marked = self.item.marked;
        for _ in 0..super::TAKES_AT_ONCE {
            let update = writes::restored(&self.seen.id, &self.taken, marked, ledger, stored, self.now());
            match self.finish(update, Some(&story)).await? {
                None => {
                    self.engine.nudge(self.seen, marked.max(ledger).next()).await;
                    return Ok(Answer::Done("the state table was restored; fencing comes next"));
                }
                Some(found) if self.taken.holds(&found) => marked = found.marked,
                Some(_) => return Ok(self.overtaken().await),
            }
        }
        Ok(self.engine.back(self.work, Duration::from_secs(5)).await)
    }

    /// Somebody else has the partition; whoever it is goes on with it. Our lock, if it is still ours, is given back.
    pub(crate) async fn overtaken(&self) -> Answer {
        tracing::info!(fence = %self.taken.fence, "overtaken");
        self.release().await;
        OVERTAKEN
    }

    async fn release(&self) {
        if let Err(error) = self.engine.write(&[self.scope.release(&self.holder)]).await {
            tracing::info!(%error, "the lock stays until its lease is over");
        }
    }

    async fn alert(&self, kind: &str, subject: &str, body: &str) -> Result<(), Error> {
        self.engine.tell(&self.seen.id, kind, subject, body).await
    }
}

impl Engine {
    /// Resumes a dataset that was halted, after its probe ended well enough.
    pub(crate) async fn resume(&self, dataset: &DatasetName) -> Result<(), Error> {
        let resumed = self.write(&[Head::resume(dataset, "rebuild", self.ports.clock.now())]).await?;
        tracing::info!(%dataset, resumed = matches!(resumed, Written::Applied { .. }), "the probe ended; the dataset goes on");
        Ok(())
    }
}
