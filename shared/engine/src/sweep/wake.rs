//! wake: what is due gets a message, oldest first, few of a dataset at a time. Gauges and watermark are written on the way.
//!
//! What waits stands in two sparse indexes, and each is read whole, for all datasets at once: where nothing waits that is two
//! reads that find nothing, however many datasets there are. Only where more than twenty thousand partitions wait each dataset
//! is asked for; then one of more than a thousand is counted to the end each ten minutes only.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
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

/// Entries of an index that are read of a dataset each minute, where all datasets' are too many.
const READ_EACH_MINUTE: usize = 1_000;
/// Entries that are read of an index at once, and that gauges and watermark know; more are told as this many. Twice the dirty
/// partitions that may be.
const COUNTED_AT_MOST: usize = 20_000;
/// Where more wait than are read each minute, they are counted in every tenth one.
const MINUTES_BETWEEN_COUNTS: i64 = 10;
/// Items read for the age of the oldest: the longest due are among the oldest.
const AGES_READ: usize = 25;
/// Partitions claimed at once.
const AT_ONCE: usize = 16;

/// What stands in the sparse indexes, by dataset; `None`: more than are read at once.
pub(super) struct Standing {
    due: Option<BTreeMap<DatasetName, Vec<DueEntry>>>,
    parked: Option<BTreeMap<DatasetName, Vec<DueEntry>>>,
}

/// A dataset's entries of an index, the oldest first, and whether these are all.
struct Entries {
    first: Vec<DueEntry>,
    whole: bool,
}

impl Engine {
    /// Everything that waits, of all datasets.
    pub(super) async fn standing(&self) -> Standing {
        Standing { due: self.whole(Index::Due).await, parked: self.whole(Index::Parked).await }
    }

    async fn whole(&self, index: Index) -> Option<BTreeMap<DatasetName, Vec<DueEntry>>> {
        let ever = Timestamp::UNIX_EPOCH..=Timestamp::MAX;
        let entries = match self.ports.state.query(index, None, ever, COUNTED_AT_MOST).await {
            Ok(entries) => entries,
            Err(error) => {
                tracing::error!(%error, ?index, "it can't be read as a whole; each dataset is asked for");
                return None;
            }
        };
        if entries.len() >= COUNTED_AT_MOST {
            tracing::info!(
                ?index,
                entries = entries.len(),
                "more wait than are read at once; each dataset is asked for"
            );
            return None;
        }
        let mut of: BTreeMap<DatasetName, Vec<DueEntry>> = BTreeMap::new();
        for entry in entries {
            of.entry(entry.id.dataset.clone()).or_default().push(entry);
        }
        Some(of)
    }

    async fn entries_of(
        &self,
        known: Option<&BTreeMap<DatasetName, Vec<DueEntry>>>,
        index: Index,
        dataset: &DatasetName,
    ) -> Result<Entries, Error> {
        if let Some(known) = known {
            return Ok(Entries { first: known.get(dataset).cloned().unwrap_or_default(), whole: true });
        }
        let first = self.entries(index, dataset, READ_EACH_MINUTE).await?;
        let whole = first.len() < READ_EACH_MINUTE;
        Ok(Entries { first, whole })
    }

    pub(super) async fn wake(&self, hand: &Hand, standing: &Standing) -> Result<Swept, Error> {
        let Hand { dataset, head } = hand;
        let now = self.ports.clock.now();
        let all = self.entries_of(standing.due.as_ref(), Index::Due, dataset).await?;
        let parked = self.entries_of(standing.parked.as_ref(), Index::Parked, dataset).await?;
        let (due, later): (Vec<_>, Vec<_>) = all.first.iter().partition(|entry| entry.at <= now);
        let soon = now + WAKE_AFTER;
        let outstanding = match later.last() {
            // All of the next five minutes was read, or all there is.
            Some(last) if last.at > soon || all.whole => later.iter().filter(|entry| entry.at <= soon).count(),
            None if all.whole => 0,
            _ => {
                let next_five = now.saturating_add(jiff::SignedDuration::from_millis(1)).unwrap_or(now)..=soon;
                self.ports.state.query(Index::Due, Some(dataset), next_five, READ_EACH_MINUTE).await?.len()
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
        // Of a retired dataset nobody is to look at them.
        let set_aside = if head.mode == Mode::Retired { 0 } else { set_aside };
        Ok(Swept {
            dataset: dataset.clone(),
            dirty,
            parked: set_aside,
            counted,
            woken,
            halted: head.mode == Mode::Halted,
            by_jobs: 0,
            found: 0,
            missed: 0,
            oldest_dirty_seconds: self.oldest(&due, now).await?,
        })
    }

    /// How many of the dataset's partitions are on their way, and how many are due whose message was lost.
    pub(super) async fn outstanding(&self, dataset: &DatasetName, now: Timestamp) -> Result<(usize, usize), Error> {
        let soon = Timestamp::UNIX_EPOCH..=now + WAKE_AFTER;
        let entries = self.ports.state.query(Index::Due, Some(dataset), soon, READ_EACH_MINUTE).await?;
        let due = entries.iter().filter(|entry| entry.at <= now).count();
        Ok((entries.len() - due, due))
    }

    async fn entries(&self, index: Index, dataset: &DatasetName, limit: usize) -> Result<Vec<DueEntry>, Error> {
        Ok(self.ports.state.query(index, Some(dataset), Timestamp::UNIX_EPOCH..=Timestamp::MAX, limit).await?)
    }

    /// Sends messages for these; of several sweeps that try, one claims each.
    async fn send_for(&self, hand: &Hand, due: &[&DueEntry], now: Timestamp) -> Result<u64, Error> {
        let claims = stream::iter(due).map(async |entry| {
            let claimed = self.write(&[writes::wake(&entry.id, entry.at, now)]).await?;
            let Written::Applied { before: Some(item) } = claimed else { return Ok::<_, Error>(None) };
            let item = match PartitionItem::from_item(&item) {
                Ok(item) => item,
                Err(error) => {
                    tracing::error!(partition = %entry.id, %error, "its item can't be read; passed over");
                    return Ok(None);
                }
            };
            let message = PartitionMessage::look(entry.id.clone(), item.marked);
            Ok(Some(Outgoing { message, scope: Scope::of(&entry.id, hand.head.concurrency) }))
        });
        let claimed: Vec<Option<Outgoing>> = claims.buffered(AT_ONCE).try_collect().await?;
        self.send_all(&claimed.into_iter().flatten().collect::<Vec<_>>()).await
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
        all: &Entries,
        parked: &Entries,
        now: Timestamp,
    ) -> Result<(u64, u64, bool), Error> {
        let names = |entries: &[DueEntry]| -> Vec<PartitionName> {
            entries.iter().map(|entry| entry.id.partition.clone()).collect()
        };
        let mut unbuilt = (names(&all.first), names(&parked.first));
        let mut counted = all.whole && parked.whole;
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
        // A definition that can't be read has no watermark; gauges are told all the same.
        if let Err(error) = self.write_watermark(hand, unbuilt.0.iter().chain(&unbuilt.1)).await {
            tracing::error!(dataset = %hand.dataset, %error, "its watermark is not written");
        }
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
