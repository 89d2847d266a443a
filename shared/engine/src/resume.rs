//! An operator resumes a dataset: what gathered meanwhile is woken, few at a time.
//!
//! Nothing has to be marked for it: what gathered stands in the index *due*, so that sweep wakes it each minute within the
//! dataset's budget, oldest first, and live marks never wait behind more than that. The first of them are woken here, so that
//! nobody waits for sweep's next minute.

use jiff::Timestamp;
use tidemark_domain::dataset::{Head, Mode};
use tidemark_domain::id::DatasetName;
use tidemark_domain::lock::Scope;
use tidemark_domain::message::PartitionMessage;
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::sweep::wake::budget;
use tidemark_domain::writes;

use crate::Engine;
use crate::error::Error;
use crate::ports::{Index, Outgoing, Written};

/// Gathered partitions counted; more are told as this many. Twice the dirty partitions that may be.
const COUNTED_AT_MOST: usize = 20_000;

/// What was resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumed {
    /// Partitions that wait to be rebuilt.
    pub gathered: usize,
    /// Those that were sent a message at once; sweep wakes the others.
    pub woken: usize,
}

impl Engine {
    /// How many partitions of a dataset wait to be rebuilt.
    pub async fn gathered(&self, dataset: &DatasetName) -> Result<usize, Error> {
        let ever = Timestamp::UNIX_EPOCH..=Timestamp::MAX;
        Ok(self.ports.state.query(Index::Due, Some(dataset), ever, COUNTED_AT_MOST).await?.len())
    }

    /// Goes on with a paused or halted dataset; `None`: somebody else did, or it is neither any more.
    pub async fn go_on(&self, dataset: &DatasetName, head: &Head, by: &str) -> Result<Option<Resumed>, Error> {
        let resumed = self.write(&[Head::go_on(dataset, by, self.ports.clock.now())]).await?;
        if !matches!(resumed, Written::Applied { .. }) {
            return Ok(None);
        }
        let ever = Timestamp::UNIX_EPOCH..=Timestamp::MAX;
        let entries = self.ports.state.query(Index::Due, Some(dataset), ever, COUNTED_AT_MOST).await?;
        let now = self.ports.clock.now();
        let at_once = budget(&Head { mode: Mode::Active, ..head.clone() }, now).unwrap_or_default();
        let mut messages = Vec::new();
        for entry in entries.iter().take(at_once) {
            let claimed = self.write(&[writes::wake(&entry.id, entry.at, now)]).await?;
            let Written::Applied { before: Some(item) } = claimed else { continue };
            if let Ok(item) = PartitionItem::from_item(&item) {
                let message = PartitionMessage::look(entry.id.clone(), item.marked);
                messages.push(Outgoing { message, scope: Scope::of(&entry.id, head.concurrency) });
            }
        }
        let unsent = if messages.is_empty() { Vec::new() } else { self.ports.queue.send(&messages).await? };
        Ok(Some(Resumed { gathered: entries.len(), woken: messages.len() - unsent.len() }))
    }
}
