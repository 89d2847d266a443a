//! rebuild: one partition message, from take to confirm.
//!
//! ```text
//! message ▸ take ▸ (fencing) ▸ listing ▸ staging ▸ swapping ▸ confirm
//!             │         └ each phase is recorded before it acts; a crash anywhere re-enters it
//!             └ nothing to do, not ready, busy, paused: the message is answered without a take
//! ```
//! A phase tells what comes next as a `Next`; the worker writes it. Every write asks for the take's fence, so a worker that
//! was overtaken ends at its next write ([`Next::Overtaken`]).

mod answer;
mod confirm;
mod fencing;
mod leave;
pub(crate) mod listing;
pub(crate) mod staging;
pub(crate) mod statement;
mod swapping;
mod worker;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidemark_domain::dataset::Head;
use tidemark_domain::definition::Definition;
use tidemark_domain::id::{BatchId, PartitionId};
use tidemark_domain::lock::Scope;
use tidemark_domain::measure;
use tidemark_domain::message::{PartitionMessage, Wish};
use tidemark_domain::partition::{Batch, FailureState, PartitionItem};
use tidemark_domain::take::{self, Decision, Take, View};
use tidemark_domain::{story, writes};

use crate::error::Error;
use crate::ports::{Outgoing, Written};
use crate::{Engine, assertion};

pub use answer::Answer;
pub(crate) use fencing::committed;
pub(crate) use tidemark_domain::step::Next;
pub(crate) use worker::Worker;

/// A message in hand, and until when its worker may work.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    /// The message's body.
    pub body: &'a str,
    /// Its receipt handle; none where it came by another way than the queue.
    pub receipt: Option<&'a str>,
    /// When the invocation is killed.
    pub deadline: Timestamp,
}

/// Time kept before the deadline for handing off.
pub(crate) const HAND_OFF_MARGIN: SignedDuration = SignedDuration::from_secs(3);
/// How often a take is tried again at once, after somebody else wrote the item.
const TAKES_AT_ONCE: u32 = 5;
/// Why a take doesn't go on with an unfinished batch.
const STALE: &str = "its definition or epoch changed, or its outcome can't be asked for any more";

impl Engine {
    /// Handles one partition message. The answer says what becomes of the message; it is never lost.
    pub async fn rebuild(&self, work: Work<'_>) -> Answer {
        let message = match PartitionMessage::parse(work.body) {
            Ok(message) => message,
            Err(error) => return self.unreadable(work, &error.to_string()).await,
        };
        let (dataset, partition) = (&message.id.dataset, &message.id.partition);
        // The rest is known once a batch is taken.
        let span = tracing::info_span!(
            "rebuild", %dataset, %partition,
            batch = tracing::field::Empty, generation = tracing::field::Empty, fence = tracing::field::Empty,
            phase = tracing::field::Empty
        );
        let handled = Box::pin(tracing::Instrument::instrument(self.handle(work, &message), span)).await;
        match handled {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(dataset = %message.id.dataset, partition = %message.id.partition, %error, "the message goes back");
                self.back(work, Duration::from_secs(5) + self.ports.clock.jitter(Duration::from_secs(15))).await
            }
        }
    }

    async fn handle(&self, work: Work<'_>, message: &PartitionMessage) -> Result<Answer, Error> {
        let mut message = message.clone();
        for _ in 0..TAKES_AT_ONCE {
            let Some(mut seen) = self.look(&message.id).await? else {
                return Ok(self.unreadable(work, &format!("no dataset is named {}", message.id.dataset)).await);
            };
            let canonical = seen.partition.as_ref().map_or(&message.id.partition, |partition| &partition.name);
            if *canonical != message.id.partition {
                if seen.item.is_none() || matches!(message.wish, Wish::Replay(_)) {
                    // Written by hand, in another spelling of the same values.
                    message.id.partition = canonical.clone();
                    continue;
                }
                // Named so by a layout before: this one yields it by another name.
                seen.partition = None;
            }
            if let Wish::Replay(replay) = &message.wish {
                return self.replay(work, &message, replay, &seen).await;
            }
            let Some(item) = &seen.item else { return Ok(Answer::Done("never marked")) };
            let view = View {
                item,
                head: &seen.head,
                definition: seen.definition.as_deref().filter(|_| seen.partition.is_some()),
                settle: self.settings.settle,
                now: self.ports.clock.now(),
            };
            let decision = take::decide(&view, BatchId(self.ports.clock.id()));
            if let Some(answer) = self.act(work, &seen, item, decision).await? {
                return Ok(answer);
            }
        }
        Ok(self.back(work, self.ports.clock.jitter(Duration::from_secs(5))).await)
    }

    /// Does what was decided; `None`: somebody else wrote the item meanwhile, look again.
    async fn act(
        &self,
        work: Work<'_>,
        seen: &Seen,
        item: &PartitionItem,
        decision: Decision,
    ) -> Result<Option<Answer>, Error> {
        let id = &seen.id;
        match decision {
            Decision::Nothing(reason) => Ok(Some(Answer::Done(reason.as_str()))),
            Decision::SendAgain => {
                self.send_look(seen, item.marked).await?;
                Ok(Some(Answer::Done("ready within a minute; sent again")))
            }
            Decision::PutOff(until) => {
                let written = self.write(&[writes::put_off(id, item.fence, until)]).await?;
                Ok(matches!(written, Written::Applied { .. }).then_some(Answer::Done("put off until it is ready")))
            }
            Decision::Leave => {
                let written = self.write(&[writes::leave(id, item)]).await?;
                Ok(matches!(written, Written::Applied { .. }).then_some(Answer::Done("left the index")))
            }
            Decision::Take(take) => Box::pin(self.take(work, seen, item, *take)).await,
        }
    }

    async fn take(
        &self,
        work: Work<'_>,
        seen: &Seen,
        item: &PartitionItem,
        take: Take,
    ) -> Result<Option<Answer>, Error> {
        let (id, now) = (&seen.id, self.ports.clock.now());
        if take.probe {
            let claimed = self.write(&[seen.head.claim_probe(&id.dataset, now)]).await?;
            if !matches!(claimed, Written::Applied { .. }) {
                return Ok(None);
            }
        }
        let holder = self.ports.clock.id().to_string();
        let scope = Scope::of(id, seen.head.concurrency);
        let lease = work.deadline + self.settings.lease_margin;
        let mut updates =
            vec![writes::take(id, item, &take.batch, take.unresolved, now), scope.acquire(&holder, now, lease)];
        let given_up = item.batch.as_ref().filter(|before| before.id != take.batch.id);
        if let Some(before) = given_up {
            let ending = story::Ending { outcome: story::Outcome::GivenUp, rows: None, why: Some(STALE), seen: None };
            updates.push(story::close(id, before, ending, now));
        }
        match self.write(&updates).await? {
            Written::Applied { .. } => {
                if let Some(before) = given_up {
                    self.tell_given_up(id, before, take.found).await;
                }
            }
            Written::Refused(found) if found.first().is_some_and(Option::is_some) => return Ok(None),
            Written::Refused(_) => {
                tracing::info!(scope = scope.as_str(), "busy");
                self.telemetry.measured(Some(&id.dataset), &[measure::LOCK_CONTENTION.count(1)]);
                let pause = Duration::from_secs(2) + self.ports.clock.jitter(Duration::from_secs(8));
                return Ok(Some(self.back(work, pause).await));
            }
        }
        if let Some(receipt) = work.receipt
            && let Err(error) = self.ports.queue.give_back(receipt, lease.duration_since(now).unsigned_abs()).await
        {
            tracing::warn!(%error, "if this worker dies, its message comes back by the queue's own time-out");
        }
        let worker = match Worker::new(self, work, seen, item, take, holder.clone(), scope.clone()).await {
            Ok(worker) => worker,
            Err(error) => {
                self.write(&[scope.release(&holder)]).await?;
                return Err(error);
            }
        };
        Ok(Some(worker.run().await))
    }

    /// Tells of a batch that isn't gone on with. Told after it was written, unlike other ends: a lock that is busy would have
    /// it told again and again.
    async fn tell_given_up(&self, id: &PartitionId, batch: &Batch, found: Option<FailureState>) {
        let definition = self.definitions.get(self.ports.state.as_ref(), &id.dataset, &batch.definition).await.ok();
        self.telemetry.taken(&measure::given_up(id, batch, definition.as_deref(), found), &[]);
    }
}

/// One consistent look at a partition and its dataset.
pub(crate) struct Seen {
    pub(crate) id: PartitionId,
    pub(crate) head: Head,
    /// The definition in force.
    pub(crate) definition: Option<std::sync::Arc<Definition>>,
    /// The partition's values, where that definition yields it.
    pub(crate) partition: Option<tidemark_domain::partition_value::Partition>,
    pub(crate) item: Option<PartitionItem>,
}

impl Engine {
    /// Reads partition and head in one snapshot; `None`: no such dataset.
    pub(crate) async fn look(&self, id: &PartitionId) -> Result<Option<Seen>, Error> {
        let keys = [PartitionItem::key(id), Head::key(&id.dataset)];
        let mut items = self.ports.state.read(&keys).await?.into_iter();
        let (item, head) = (items.next().flatten(), items.next().flatten());
        let unreadable = |what: &str, error: serde_json::Error| Error::Stored {
            what: format!("{what} of {id}"),
            why: error.to_string(),
        };
        let Some(head) = head else { return Ok(None) };
        let head = Head::from_item(&head).map_err(|error| unreadable("the dataset", error))?;
        let item = item.map(|item| PartitionItem::from_item(&item)).transpose();
        let item = item.map_err(|error| unreadable("the partition item", error))?;
        if let Some(item) = &item {
            assertion::read(&keys[0], item);
        }
        let definition = self.definitions.get(self.ports.state.as_ref(), &id.dataset, &head.hash).await?;
        let partition = definition.partition(&id.partition).ok();
        Ok(Some(Seen { id: id.clone(), head, definition: Some(definition), partition, item }))
    }

    /// Writes updates under a fresh idempotency token.
    pub(crate) async fn write(&self, updates: &[tidemark_domain::update::Update]) -> Result<Written, Error> {
        let token = self.ports.clock.id().to_string();
        let written = self.ports.state.write(updates, &token).await?;
        assertion::written(updates, &written);
        Ok(written)
    }

    /// Sends a message for a partition that stands in the index: if it can't be sent, sweep wakes it.
    pub(crate) async fn nudge(&self, seen: &Seen, generation: tidemark_domain::id::Generation) {
        if let Err(error) = self.send_look(seen, generation).await {
            tracing::warn!(partition = %seen.id, %error, "not sent; wake sends it");
        }
    }

    /// Sends a message that asks for a look.
    pub(crate) async fn send_look(
        &self,
        seen: &Seen,
        generation: tidemark_domain::id::Generation,
    ) -> Result<(), Error> {
        let message = PartitionMessage::look(seen.id.clone(), generation);
        let scope = Scope::of(&seen.id, seen.head.concurrency);
        self.send_one(Outgoing { message, scope }).await
    }

    pub(crate) async fn send_one(&self, outgoing: Outgoing) -> Result<(), Error> {
        match self.ports.queue.send(&[outgoing]).await?.into_iter().next() {
            None => Ok(()),
            Some((_, message)) => {
                Err(crate::ports::QueueError::Unavailable { message, effect: crate::ports::Effect::NotApplied }.into())
            }
        }
    }
}
