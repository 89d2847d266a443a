//! tidy: holds what is stored of partitions against the ledger, both ways, and drops staging tables that are left over.
//!
//! A warehouse that was restored from a snapshot lacks batches that items know; a state table that was restored from a backup
//! doesn't know batches that the ledger has. Either way the ledger is believed, and the partition fenced, looked at and rebuilt
//! for real. People are told once a round, whatever it finds.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tidemark_domain::cursor::{Cursor, Task};
use tidemark_domain::failure::FailureKind;
use tidemark_domain::id::{BatchId, DatasetName, PartitionId, PartitionName};
use tidemark_domain::job::{Kind, Line};
use tidemark_domain::partition::{Committed, PartitionItem};
use tidemark_domain::sql::ledger::{self, DROPPED_AT_ONCE};
use tidemark_domain::sql::rows::LedgerRow;
use tidemark_domain::sweep::tidy::{Older, compare, may_be_dropped};
use tidemark_domain::update::Item;

use super::Hand;
use super::statements::failed;
use crate::Engine;
use crate::error::Error;
use crate::ports::{ExecutionStatus, Index};
use crate::rebuild::committed;

/// Partition items compared at once.
const PAGE: usize = 500;
/// Items read at once.
const ITEMS_AT_ONCE: usize = 100;
/// Partitions of a finding that are named in the mail.
const NAMED_AT_MOST: usize = 10;
/// Partitions with anything to do that are asked for their batches. Where there are more, no staging table is dropped.
const DIRTY_AT_MOST: usize = 50_000;

type Compared = (Older, Line);

impl Engine {
    /// One slice of a round over a dataset: until then, or to its end. The cursor stands behind what was compared, and counts what
    /// the round has found.
    pub(super) async fn tidy(&self, hand: &Hand, cursor: &mut Cursor, until: Timestamp) -> Result<(), Error> {
        let began_after = cursor.after.clone();
        loop {
            let page = match self.tidy_page(hand, cursor, until).await {
                // The slice ended amid a question: the next one begins with it, and has its whole time for it.
                Err(Error::Warehouse { kind: FailureKind::Unavailable, .. })
                    if cursor.after != began_after && self.ports.clock.now() >= until =>
                {
                    return Ok(());
                }
                page => page?,
            };
            let now = self.ports.clock.now();
            let Some(last) = page else {
                *cursor = cursor.finished(Task::Tidy, now);
                return Ok(());
            };
            *cursor = cursor.advanced(last.as_str(), cursor.found, now);
            if now >= until {
                return Ok(());
            }
        }
    }

    /// Compares the next partitions; gives the last of them, or `None` at the end.
    async fn tidy_page(
        &self,
        hand: &Hand,
        cursor: &mut Cursor,
        until: Timestamp,
    ) -> Result<Option<PartitionName>, Error> {
        let (stack, dataset) = (&self.settings.stack, &hand.dataset);
        let after = cursor.after.as_deref().and_then(|name| PartitionName::new(name).ok());
        // Items first: what landed since is newer in the ledger than in the item, and its fence has moved on.
        let page = self.ports.state.partitions(dataset, after.as_ref(), PAGE).await?;
        let last = page.last().filter(|_| page.len() == PAGE).map(|(name, _)| name.clone());
        let mut items: BTreeMap<PartitionName, Option<PartitionItem>> = BTreeMap::new();
        for (name, item) in page {
            let read = PartitionItem::from_item(&item);
            items.insert(name.clone(), read.inspect_err(|error| unreadable(dataset, &name, error)).ok());
        }
        let question = ledger::newest_between(stack, dataset, after.as_ref(), last.as_ref())?;
        let newest = by_name(ledger::read_newest(&self.ask_within(&question, until).await?)?);
        let names: BTreeSet<&PartitionName> = items.keys().chain(newest.keys()).collect();
        let differ = |name: &&PartitionName| match items.get(*name) {
            Some(None) => false,
            item => compare(name, item.and_then(Option::as_ref), newest.get(*name)).is_some(),
        };
        let differing: Vec<PartitionName> = names.into_iter().filter(differ).cloned().collect();
        let lines = self.differing(dataset, &differing, until).await?;
        if !lines.is_empty() {
            self.heal(hand, lines, &mut cursor.found).await?;
        }
        Ok(last)
    }

    /// Those of them that differ by a second look: at each item, then at the ledger by its very name.
    async fn differing(
        &self,
        dataset: &DatasetName,
        names: &[PartitionName],
        until: Timestamp,
    ) -> Result<Vec<Compared>, Error> {
        let (mut differing, mut names) = (Vec::new(), names);
        while !names.is_empty() {
            let (question, named) =
                ledger::newest_of(&self.settings.stack, dataset, &names[..names.len().min(ITEMS_AT_ONCE)])?;
            let (these, rest) = names.split_at(named);
            names = rest;
            let id = |partition: &PartitionName| PartitionId { dataset: dataset.clone(), partition: partition.clone() };
            let keys: Vec<_> = these.iter().map(|name| PartitionItem::key(&id(name))).collect();
            let items = self.ports.state.read(&keys).await?;
            let newest = by_name(ledger::read_newest(&self.ask_within(&question, until).await?)?);
            for (name, item) in these.iter().zip(items) {
                match item.map(|item| PartitionItem::from_item(&item)).transpose() {
                    Ok(item) => differing.extend(compare(name, item.as_ref(), newest.get(name))),
                    Err(error) => unreadable(dataset, name, &error),
                }
            }
        }
        Ok(differing)
    }

    /// Tells people, once a round, and has them rebuilt.
    async fn heal(&self, hand: &Hand, found: Vec<Compared>, so_far: &mut u64) -> Result<(), Error> {
        let definition = hand.definition(self).await?;
        let before = *so_far;
        if let (0, Some((older, first))) = (before, found.first()) {
            let id = PartitionId { dataset: hand.dataset.clone(), partition: first.partition.clone() };
            let what = match older {
                Older::Warehouse => "the warehouse is older than the state table: it was restored from a snapshot",
                Older::State => "the state table is older than the ledger: it was restored from a backup",
            };
            let mut names: Vec<&str> =
                found.iter().map(|(_, line)| line.partition.as_str()).take(NAMED_AT_MOST).collect();
            if found.len() > NAMED_AT_MOST {
                names.push("and more");
            }
            let body = format!(
                "Dataset {}: {what}.\nThey differ in {} partitions so far: {}.\nEach is fenced and rebuilt from its files; nothing \
                 has to be done. `tidemark status` shows how far it is.",
                hand.dataset,
                found.len(),
                names.join(", ")
            );
            self.tell(&id, "restored", &format!("restored: {} is rebuilt", hand.dataset), &body).await?;
        }
        for (older, line) in &found {
            tracing::error!(dataset = %hand.dataset, partition = %line.partition, ?older, "item and ledger differ; rebuilt");
        }
        *so_far += found.len() as u64;
        let lines = found.into_iter().map(|(_, line)| line).collect();
        self.mark_found(&definition, Kind::Restored, lines, before).await
    }

    /// Drops the staging tables that are left over: a week old, of no batch that goes on.
    pub(super) async fn drop_staging(&self, cursor: &mut Cursor, until: Timestamp) -> Result<(), Error> {
        let now = self.ports.clock.now();
        let tables = ledger::read_staging_tables(&self.ask_within(&ledger::staging_tables()?, until).await?)?;
        let mut old: Vec<(BatchId, String)> =
            tables.into_iter().filter(|(batch, _)| may_be_dropped(*batch, now)).collect();
        if !old.is_empty() {
            if let Some(open) = self.open_batches().await? {
                old.retain(|(batch, _)| !open.contains(batch));
            } else {
                let tables = old.len();
                tracing::warn!(
                    tables,
                    "too many partitions are dirty to tell which are over; no staging table is dropped"
                );
                old.clear();
            }
        }
        for tables in old.chunks(DROPPED_AT_ONCE) {
            let drop = ledger::drop_staging(tables.iter().map(|(_, name)| name.as_str()))?;
            let id = self.submit_within(&drop, until).await?.id;
            let told = self.followed(&id, until).await?;
            if told.as_ref().is_none_or(|told| told.status != ExecutionStatus::Finished) {
                return Err(failed(drop.name(), told.as_ref()));
            }
            tracing::info!(tables = tables.len(), "staging tables dropped");
        }
        *cursor = cursor.finished(Task::Staging, self.ports.clock.now());
        Ok(())
    }

    /// The batches that go on, of whatever dataset: each stands in a partition that has anything to do. `None`: there are too many
    /// of those.
    async fn open_batches(&self) -> Result<Option<BTreeSet<BatchId>>, Error> {
        let mut open = BTreeSet::new();
        let every = Timestamp::UNIX_EPOCH..=Timestamp::MAX;
        let dirty = self.ports.state.query(Index::Due, None, every, DIRTY_AT_MOST).await?;
        if dirty.len() == DIRTY_AT_MOST {
            return Ok(None);
        }
        // As it is stored: of an item that can't be read as a whole, too.
        let batch = |item: &Item| item.get("batch")?.get("id")?.as_str()?.parse().ok().map(BatchId);
        for entries in dirty.chunks(ITEMS_AT_ONCE) {
            let keys: Vec<_> = entries.iter().map(|entry| PartitionItem::key(&entry.id)).collect();
            open.extend(self.ports.state.read(&keys).await?.iter().flatten().filter_map(batch));
        }
        Ok(Some(open))
    }
}

fn by_name(rows: Vec<(PartitionName, LedgerRow)>) -> BTreeMap<PartitionName, Committed> {
    rows.into_iter().map(|(name, row)| (name, committed(&row))).collect()
}

fn unreadable(dataset: &DatasetName, partition: &PartitionName, error: &serde_json::Error) {
    tracing::error!(%dataset, %partition, %error, "its item can't be read; passed over");
}
