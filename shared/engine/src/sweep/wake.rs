//! wake: what is due gets a message, oldest first, few of a dataset at a time. Gauges and watermark are written on the way.
//!
//! A dataset with nothing to do costs two queries that find nothing. Where more than a thousand partitions wait, they are
//! counted to the end each ten minutes only.

use jiff::Timestamp;
use tidemark_domain::dataset::{Head, Mode};
use tidemark_domain::id::{DatasetName, PartitionName};
use tidemark_domain::lock::Scope;
use tidemark_domain::message::PartitionMessage;
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::sweep::wake::{budget, to_wake, watermark};
use tidemark_domain::update::{Change, Condition, Update};
use tidemark_domain::writes::{self, WAKE_AFTER};

use super::{Hand, Swept};
use crate::Engine;
use crate::error::Error;
use crate::ports::{DueEntry, Index, Outgoing, Written};

/// Entries of an index that are read each minute.
const READ_EACH_MINUTE: usize = 1_000;
/// Entries that gauges and watermark know; more are told as this many. Twice the dirty partitions that may be.
const COUNTED_AT_MOST: usize = 20_000;
/// Where more wait than are read each minute, they are counted in every tenth one.
const MINUTES_BETWEEN_COUNTS: i64 = 10;
/// Items read for the age of the oldest: the longest due are among the oldest.
const AGES_READ: usize = 25;

impl Engine {
    pub(super) async fn wake(&self, hand: &Hand) -> Result<Swept, Error> {
        let Hand { dataset, head } = hand;
        let now = self.ports.clock.now();
        let all = self.entries(Index::Due, dataset, READ_EACH_MINUTE).await?;
        let parked = self.entries(Index::Parked, dataset, READ_EACH_MINUTE).await?;
        let (due, later): (Vec<_>, Vec<_>) = all.iter().partition(|entry| entry.at <= now);
        let soon = now + WAKE_AFTER;
        let outstanding = match later.last() {
            // All of the next five minutes was read, or all there is.
            Some(last) if last.at > soon || all.len() < READ_EACH_MINUTE => {
                later.iter().filter(|entry| entry.at <= soon).count()
            }
            None if all.len() < READ_EACH_MINUTE => 0,
            _ => {
                let next_five = now.saturating_add(jiff::SignedDuration::from_millis(1)).unwrap_or(now)..=soon;
                self.ports.state.query(Index::Due, dataset, next_five, READ_EACH_MINUTE).await?.len()
            }
        };
        let woken = match budget(head, now) {
            None => 0,
            Some(budget) => {
                let many = to_wake(budget, outstanding, due.len());
                self.send_for(hand, &due[..many], now).await?
            }
        };
        let (dirty, set_aside, counted) = self.count(hand, &all, &parked, now).await?;
        Ok(Swept {
            dataset: dataset.clone(),
            dirty,
            parked: set_aside,
            counted,
            woken,
            halted: head.mode == Mode::Halted,
            by_jobs: 0,
            found: 0,
            oldest_dirty_seconds: self.oldest(&due, now).await?,
        })
    }

    /// How many of the dataset's partitions are on their way, and how many are due whose message was lost.
    pub(super) async fn outstanding(&self, dataset: &DatasetName, now: Timestamp) -> Result<(usize, usize), Error> {
        let soon = Timestamp::UNIX_EPOCH..=now + WAKE_AFTER;
        let entries = self.ports.state.query(Index::Due, dataset, soon, READ_EACH_MINUTE).await?;
        let due = entries.iter().filter(|entry| entry.at <= now).count();
        Ok((entries.len() - due, due))
    }

    async fn entries(&self, index: Index, dataset: &DatasetName, limit: usize) -> Result<Vec<DueEntry>, Error> {
        Ok(self.ports.state.query(index, dataset, Timestamp::UNIX_EPOCH..=Timestamp::MAX, limit).await?)
    }

    /// Sends messages for these; of several sweeps that try, one claims each.
    async fn send_for(&self, hand: &Hand, due: &[&DueEntry], now: Timestamp) -> Result<u64, Error> {
        let mut messages = Vec::new();
        for entry in due {
            let claimed = self.write(&[writes::wake(&entry.id, entry.at, now)]).await?;
            if let Written::Applied { before: Some(item) } = claimed
                && let Ok(item) = PartitionItem::from_item(&item)
            {
                let message = PartitionMessage::look(entry.id.clone(), item.marked);
                messages.push(Outgoing { message, scope: Scope::of(&entry.id, hand.head.concurrency) });
            }
        }
        self.send_all(&messages).await
    }

    /// Sends messages for partitions that stand in the index: what can't be sent is woken in five minutes.
    pub(super) async fn send_all(&self, messages: &[Outgoing]) -> Result<u64, Error> {
        if messages.is_empty() {
            return Ok(0);
        }
        let failed = self.ports.queue.send(messages).await?;
        for (index, reason) in &failed {
            tracing::warn!(partition = %messages[*index].message.id, reason, "not sent; it is due again in five minutes");
        }
        Ok((messages.len() - failed.len()) as u64)
    }

    /// How many are dirty and parked, and whether that is all of them; writes the watermark.
    async fn count(
        &self,
        hand: &Hand,
        all: &[DueEntry],
        parked: &[DueEntry],
        now: Timestamp,
    ) -> Result<(u64, u64, bool), Error> {
        let names = |entries: &[DueEntry]| -> Vec<PartitionName> {
            entries.iter().map(|entry| entry.id.partition.clone()).collect()
        };
        let mut unbuilt = (names(all), names(parked));
        let mut counted = all.len().max(parked.len()) < READ_EACH_MINUTE;
        let minute = now.as_second() / 60;
        if !counted && (minute % MINUTES_BETWEEN_COUNTS == 0 || hand.head.watermark.is_none()) {
            unbuilt.0 = names(&self.entries(Index::Due, &hand.dataset, COUNTED_AT_MOST).await?);
            unbuilt.1 = names(&self.entries(Index::Parked, &hand.dataset, COUNTED_AT_MOST).await?);
            counted = true;
        }
        if !counted {
            // It may fall for what was read, and doesn't rise before all of it is.
            unbuilt.0.extend(hand.head.watermark.as_ref().and_then(|name| PartitionName::new(name).ok()));
        }
        self.write_watermark(hand, unbuilt.0.iter().chain(&unbuilt.1)).await?;
        let known = usize::from(!counted && hand.head.watermark.is_some());
        Ok(((unbuilt.0.len() - known) as u64, unbuilt.1.len() as u64, counted))
    }

    async fn write_watermark(&self, hand: &Hand, unbuilt: impl Iterator<Item = &PartitionName>) -> Result<(), Error> {
        let mut unbuilt = unbuilt.peekable();
        let first = match unbuilt.peek() {
            None => None,
            Some(_) => watermark(hand.definition(self).await?.as_ref(), unbuilt).map(|first| first.name.to_string()),
        };
        if first == hand.head.watermark {
            return Ok(());
        }
        let change = first.map_or(Change::Remove("watermark"), |first| Change::Set("watermark", first.into()));
        let conditions = vec![Condition::Exists("hash")];
        self.write(&[Update { key: Head::key(&hand.dataset), conditions, changes: vec![change] }]).await?;
        Ok(())
    }

    async fn oldest(&self, due: &[&DueEntry], now: Timestamp) -> Result<i64, Error> {
        let keys: Vec<_> = due.iter().take(AGES_READ).map(|entry| PartitionItem::key(&entry.id)).collect();
        if keys.is_empty() {
            return Ok(0);
        }
        let items = self.ports.state.read(&keys).await?;
        let since = items.iter().flatten().filter_map(|item| PartitionItem::from_item(item).ok()?.dirty_since).min();
        Ok(since.map_or(0, |since| now.duration_since(since).as_secs()))
    }
}
