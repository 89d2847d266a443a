//! What becomes of a message, and the replays and unreadable bodies that are answered without a take.

use std::time::Duration;

use tidemark_domain::id::Generation;
use tidemark_domain::measure;
use tidemark_domain::message::{PartitionMessage, Replay};
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::update::Item;
use tidemark_domain::writes;

use super::{Seen, Work};
use crate::Engine;
use crate::error::Error;
use crate::ports::Written;

/// What becomes of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is acknowledged: all it asked for is done or on record. Why, for the log.
    Done(&'static str),
    /// It is reported failed and comes back; when was set on the queue.
    Back,
}

impl Engine {
    /// The message comes back in `after`.
    pub(crate) async fn back(&self, work: Work<'_>, after: Duration) -> Answer {
        if let Some(receipt) = work.receipt
            && let Err(error) = self.ports.queue.give_back(receipt, after).await
        {
            tracing::warn!(%error, "the message stays invisible until its time-out");
        }
        Answer::Back
    }

    /// A body nobody can read goes to the dead-letter queue as it is, with the reason.
    pub(crate) async fn unreadable(&self, work: Work<'_>, reason: &str) -> Answer {
        tracing::error!(reason, body = work.body, "message put on the dead-letter queue");
        match self.ports.queue.dead_letter(work.body, reason).await {
            Ok(()) => Answer::Done("put on the dead-letter queue"),
            Err(error) => {
                tracing::error!(%error, "could not be put on the dead-letter queue; it goes back");
                self.back(work, Duration::from_mins(1)).await
            }
        }
    }

    /// A replay is a mark: REPLAY, an ordinary message, acknowledge.
    pub(crate) async fn replay(
        &self,
        work: Work<'_>,
        message: &PartitionMessage,
        replay: &Replay,
        seen: &Seen,
    ) -> Result<Answer, Error> {
        if seen.partition.is_none() {
            return Ok(self.unreadable(work, "the dataset's layout doesn't yield this partition").await);
        }
        let mut read = seen.item.as_ref().map(|item| item.marked);
        for _ in 0..super::TAKES_AT_ONCE {
            let now = self.ports.clock.now();
            let update = writes::replay(&message.id, read, replay, now);
            match self.write(std::slice::from_ref(&update)).await? {
                Written::Applied { .. } => {
                    let generation = read.unwrap_or_default().next();
                    let (reason, by) = (replay.reason.as_deref(), replay.by.as_deref());
                    tracing::info!(%generation, reason, by, force = replay.force, "replay");
                    self.telemetry.measured(Some(&message.id.dataset), &[measure::MANUAL_REPLAYS.count(1)]);
                    self.nudge(seen, generation).await;
                    return Ok(Answer::Done("replay marked"));
                }
                Written::Refused(found) => read = found.into_iter().flatten().next().as_ref().and_then(marked),
            }
        }
        Ok(self.back(work, Duration::from_secs(5)).await)
    }
}

fn marked(item: &Item) -> Option<Generation> {
    PartitionItem::from_item(item).ok().map(|item| item.marked)
}
