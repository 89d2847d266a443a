//! How much of a dataset waits, is worked on or is set aside: counted from the sparse indexes, never from all partitions.
//!
//! Costs two index queries a dataset; where anything waits, two reads of at most a hundred items each, and one more where
//! anything is parked. Indexes lag by moments.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tidemark_domain::cursor::{self, Cursor, Failing, Task};
use tidemark_domain::definition::Definition;
use tidemark_domain::id::{DatasetName, PartitionName};
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::partition_value::Partition;
use tidemark_domain::sweep::wake::watermark;

use super::{datasets, unreadable};
use crate::Ports;
use crate::error::Error;
use crate::ports::{DueEntry, Index};

/// Entries of an index that are counted; beyond, it is "more than".
pub const COUNTED_AT_MOST: usize = 10_000;
/// Items read of what is due, of what is put off, and of what is parked.
const READ_AT_MOST: usize = 100;
/// Cursors read: two a dataset.
const CURSORS_AT_MOST: usize = 2_000;

/// A number that was counted up to a bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// So many.
    pub found: usize,
    /// Or more.
    pub more: bool,
}

/// A dataset's partitions by what is to be done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gauges {
    /// Partitions with anything to do.
    pub dirty: Count,
    /// Of them, those with a batch in progress that isn't put off.
    pub building: Count,
    /// Of them, those put off after a failure or a guard, by kind.
    pub held: BTreeMap<String, usize>,
    /// Partitions set aside until a new mark.
    pub parked: Count,
    /// Kinds of the longest parked ones.
    pub parked_kinds: BTreeMap<String, usize>,
    /// The longest parked ones, the longest first: name and kind.
    pub parked_first: Vec<(PartitionName, String)>,
    /// The partition that is dirty longest, and since when.
    pub oldest: Option<(PartitionName, Timestamp)>,
    /// Everything with anything to do or parked, as far as it was counted.
    pub unbuilt: Vec<PartitionName>,
}

impl Gauges {
    /// Whether all that isn't built was counted.
    pub fn is_whole(&self) -> bool {
        !self.dirty.more && !self.parked.more
    }

    /// The first partition by its values that isn't built; `None` where all known ones are. Holds where all were counted.
    pub fn watermark(&self, definition: &Definition) -> Option<Partition> {
        watermark(definition, self.unbuilt.iter())
    }
}

/// The gauges of a dataset.
pub async fn of(ports: &Ports, dataset: &DatasetName) -> Result<Gauges, Error> {
    let now = ports.clock.now();
    let (due, dirty) = entries(ports, Index::Due, dataset).await?;
    let (set_aside, parked) = entries(ports, Index::Parked, dataset).await?;
    let (ready, later): (Vec<_>, Vec<_>) = due.iter().partition(|entry| entry.at <= now);
    let mut items = read(ports, &ready).await?;
    items.extend(read(ports, &later).await?);
    let parked_items = read(ports, &set_aside.iter().collect::<Vec<_>>()).await?;
    let mut held = BTreeMap::new();
    let mut building = Count { found: 0, more: ready.len().max(later.len()) > READ_AT_MOST };
    for (_, item) in &items {
        match &item.holds {
            Some(holds) if item.not_before.is_some_and(|at| at > now) => {
                *held.entry(holds.kind.clone()).or_default() += 1;
            }
            _ => building.found += usize::from(item.batch.is_some()),
        }
    }
    let since = items.iter().filter_map(|(name, item)| Some((item.dirty_since?, name)));
    let oldest = since.min().map(|(since, name)| (name.clone(), since));
    let (mut parked_kinds, mut parked_first) = (BTreeMap::new(), Vec::new());
    for (name, item) in parked_items {
        if let Some(parked) = item.parked {
            *parked_kinds.entry(parked.kind.clone()).or_default() += 1;
            parked_first.push((name, parked.kind));
        }
    }
    let unbuilt = due.into_iter().chain(set_aside).map(|entry| entry.id.partition).collect();
    Ok(Gauges { dirty, building, held, parked, parked_kinds, parked_first, oldest, unbuilt })
}

/// What sweep's cursors tell of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    /// Whether it comes.
    pub comes: Comes,
    /// Its tasks that have failed for long, each with its dataset where it is of one.
    pub failing: Vec<(Task, Option<DatasetName>, Failing)>,
}

/// Whether sweep comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comes {
    /// It has never been there.
    Never,
    /// Nothing of it is due.
    InTime,
    /// The task that waits longest has been due since then.
    WaitsSince(Timestamp),
}

/// Whether sweep comes, and whether its tasks come to their ends: those of the stack, and of datasets that aren't retired.
pub async fn sweep(ports: &Ports) -> Result<Sweep, Error> {
    let now = ports.clock.now();
    let cursors = ports.state.items(cursor::CURSORS, cursor::PREFIX, None, CURSORS_AT_MOST).await?;
    let catalog = datasets::catalog(ports).await?;
    let in_use: BTreeSet<DatasetName> = catalog.datasets.into_iter().map(|place| place.name).collect();
    let mut standing = Vec::new();
    for (sk, item) in cursors {
        let (Some((task, dataset)), Ok(cursor)) = (Cursor::of(&sk), Cursor::from_item(&item)) else { continue };
        if dataset.as_ref().is_none_or(|dataset| in_use.contains(dataset)) {
            standing.push((task, dataset, cursor));
        }
    }
    let comes = match standing.iter().map(|(.., cursor)| cursor.next_at).min() {
        None => Comes::Never,
        Some(at) if at <= now => Comes::WaitsSince(at),
        Some(_) => Comes::InTime,
    };
    let failing = standing.into_iter().filter_map(|(task, dataset, cursor)| {
        let failing = cursor.fails_for_long(now)?.clone();
        Some((task, dataset, failing))
    });
    Ok(Sweep { comes, failing: failing.collect() })
}

async fn entries(ports: &Ports, index: Index, dataset: &DatasetName) -> Result<(Vec<DueEntry>, Count), Error> {
    let all = Timestamp::UNIX_EPOCH..=Timestamp::MAX;
    let mut found = ports.state.query(index, Some(dataset), all, COUNTED_AT_MOST + 1).await?;
    let more = found.len() > COUNTED_AT_MOST;
    found.truncate(COUNTED_AT_MOST);
    let count = Count { found: found.len(), more };
    Ok((found, count))
}

async fn read(ports: &Ports, entries: &[&DueEntry]) -> Result<Vec<(PartitionName, PartitionItem)>, Error> {
    let entries = &entries[..entries.len().min(READ_AT_MOST)];
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<_> = entries.iter().map(|entry| PartitionItem::key(&entry.id)).collect();
    let items = ports.state.read(&keys).await?;
    let found = entries.iter().zip(items).filter_map(|(entry, item)| Some((entry, item?)));
    let items = found.map(|(entry, item)| match PartitionItem::from_item(&item) {
        Ok(item) => Ok((entry.id.partition.clone(), item)),
        Err(why) => Err(unreadable(entry.id.to_string(), &why)),
    });
    items.collect()
}
