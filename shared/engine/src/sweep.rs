//! sweep: what messages missed. *wake* sends a message for every partition that is due, a few of each dataset at a time.
//!
//! One bad dataset never stops the others. Watermark and gauges are written on the way.

use jiff::{SignedDuration, Timestamp};
use tidemark_domain::dataset::{Head, Mode};
use tidemark_domain::definition::Concurrency;
use tidemark_domain::id::DatasetName;
use tidemark_domain::lock::Scope;
use tidemark_domain::message::PartitionMessage;
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::update::{Change, Condition, Update};
use tidemark_domain::writes::{self, WAKE_AFTER};

use crate::Engine;
use crate::error::Error;
use crate::mark::CatalogCache;
use crate::ports::{DueEntry, Index, Outgoing, Written};

/// Entries of an index that gauges and watermark know; more are told as this many. Twice the dirty partitions that may be.
const COUNTED_AT_MOST: usize = 20_000;
/// Items read for the age of the oldest: the longest due are among the oldest.
const AGES_READ: usize = 25;

/// What sweep found and did of one dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    /// Which.
    pub dataset: DatasetName,
    /// Partitions with anything to do; 20,000 stands for more.
    pub dirty: u64,
    /// Partitions set aside; 20,000 stands for more.
    pub parked: u64,
    /// Messages sent.
    pub woken: u64,
    /// Whether the dataset waits for a repair.
    pub halted: bool,
    /// Seconds since the oldest of what is longest due became dirty.
    pub oldest_dirty_seconds: i64,
}

impl Engine {
    /// One minute's work. The error of a dataset is logged and doesn't stop the others; `Err` means that the catalog can't be read.
    pub async fn sweep(&self, deadline: Timestamp) -> Result<Vec<Swept>, Error> {
        let catalog = self.catalog(&CatalogCache::default(), SignedDuration::ZERO).await?;
        let mut swept = Vec::new();
        for dataset in catalog.datasets.iter().map(|place| &place.name).chain(&catalog.retired) {
            if self.ports.clock.now() >= deadline {
                tracing::warn!(%dataset, "no time left; the next sweep goes on");
                break;
            }
            match self.sweep_dataset(dataset).await {
                Ok(of_dataset) => swept.push(of_dataset),
                Err(error) => tracing::error!(%dataset, %error, "not swept"),
            }
        }
        Ok(swept)
    }

    async fn sweep_dataset(&self, dataset: &DatasetName) -> Result<Swept, Error> {
        let now = self.ports.clock.now();
        let head = self.ports.state.read(&[Head::key(dataset)]).await?.pop().flatten().unwrap_or_default();
        let head = Head::from_item(&head)
            .map_err(|error| Error::Stored { what: format!("the head of {dataset}"), why: error.to_string() })?;
        let state = &self.ports.state;
        let all = state.query(Index::Due, dataset, Timestamp::MAX, COUNTED_AT_MOST).await?;
        let parked = state.query(Index::Parked, dataset, Timestamp::MAX, COUNTED_AT_MOST).await?;
        let (due, later): (Vec<_>, Vec<_>) = all.iter().partition(|entry| entry.at <= now);
        let outstanding = later.iter().filter(|entry| entry.at <= now + WAKE_AFTER).count();
        let woken = self.wake(&head, &due, outstanding, now).await?;
        self.write_watermark(dataset, &head, all.iter().chain(&parked)).await?;
        Ok(Swept {
            dataset: dataset.clone(),
            dirty: all.len() as u64,
            parked: parked.len() as u64,
            woken,
            halted: head.mode == Mode::Halted,
            oldest_dirty_seconds: self.oldest(&due, now).await?,
        })
    }

    /// Sends messages for what is due, the longest due first, within the dataset's budget; always for at least one.
    async fn wake(&self, head: &Head, due: &[&DueEntry], outstanding: usize, now: Timestamp) -> Result<u64, Error> {
        let budget = match (head.mode, head.concurrency) {
            (Mode::Active, Concurrency::Table) | (Mode::Retired, _) => 10,
            (Mode::Active, Concurrency::Partition) => 100,
            (Mode::Halted, _) if head.probe_at.is_none_or(|at| at <= now) => 1,
            (Mode::Halted | Mode::Paused, _) => return Ok(0),
        };
        let many = budget_left(budget, outstanding).min(due.len());
        let mut messages = Vec::new();
        for entry in &due[..many] {
            let claimed = self.write(&[writes::wake(&entry.id, entry.at, now)]).await?;
            if let Written::Applied { before: Some(item) } = claimed
                && let Ok(item) = PartitionItem::from_item(&item)
            {
                let message = PartitionMessage::look(entry.id.clone(), item.marked);
                messages.push(Outgoing { message, scope: Scope::of(&entry.id, head.concurrency) });
            }
        }
        if messages.is_empty() {
            return Ok(0);
        }
        let failed = self.ports.queue.send(&messages).await?;
        for (index, reason) in &failed {
            tracing::warn!(partition = %messages[*index].message.id, reason, "not sent; it is due again in five minutes");
        }
        Ok((messages.len() - failed.len()) as u64)
    }

    /// The watermark is the first partition, by its values, that isn't built; every known one before it is. None: all are.
    async fn write_watermark(
        &self,
        dataset: &DatasetName,
        head: &Head,
        unbuilt: impl Iterator<Item = &DueEntry>,
    ) -> Result<(), Error> {
        let definition = self.definitions.get(self.ports.state.as_ref(), dataset, &head.hash).await?;
        let valued = unbuilt.filter_map(|entry| definition.partition(&entry.id.partition).ok());
        let first = valued.min_by(|a, b| a.values.cmp(&b.values)).map(|partition| partition.name.to_string());
        if first == head.watermark {
            return Ok(());
        }
        let change = first.map_or(Change::Remove("watermark"), |first| Change::Set("watermark", first.into()));
        let update =
            Update { key: Head::key(dataset), conditions: vec![Condition::Exists("hash")], changes: vec![change] };
        self.write(&[update]).await?;
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

/// How many more may be outstanding; never none, so that nothing waits for ever.
fn budget_left(budget: usize, outstanding: usize) -> usize {
    budget.saturating_sub(outstanding).max(1)
}
