//! Which partitions an operator means: in S3, in state, or both.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tidemark_domain::definition::Definition;
use tidemark_domain::id::{PartitionId, PartitionName};
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::partition_value::Partition;
use tidemark_domain::selection::Range;
use tidemark_domain::update::Item;

use crate::Ports;
use crate::error::Error;
use crate::inventory::with_data;
use crate::ports::Index;

/// Partition items read in a page.
const PAGE: usize = 500;
/// Items read in one snapshot.
const ITEMS_AT_ONCE: usize = 100;
/// Parked partitions looked at: twice the dirty ones that may be.
const PARKED_AT_MOST: usize = 20_000;

/// A partition that is meant.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// Which.
    pub partition: Partition,
    /// What is stored of it; `None`: it has files, and was never marked.
    pub item: Option<PartitionItem>,
}

/// The partitions that are meant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// Each of them, in the order of their values.
    pub chosen: Vec<Chosen>,
    /// So many are stored that the layout no longer yields: they are left alone.
    pub not_yielded: usize,
}

/// All partitions in the range that have files, or of which anything is stored.
pub async fn all(ports: &Ports, definition: &Definition, range: &Range) -> Result<Selection, Error> {
    let mut found = Found::new(definition, range);
    let mut after: Option<PartitionName> = None;
    loop {
        let page = ports.state.partitions(&definition.name, after.as_ref(), PAGE).await?;
        after = page.last().map(|(name, _)| name.clone());
        let more = page.len() == PAGE;
        for (name, item) in page {
            found.stored(&name, &item)?;
        }
        if !more {
            break;
        }
    }
    let unmarked = |partition: &Partition| range.contains(partition) && !found.chosen.contains_key(&partition.name);
    for name in with_data(ports.objects.as_ref(), definition, unmarked).await? {
        if let Ok(partition) = definition.partition(&name) {
            found.chosen.insert(name, Chosen { partition, item: None });
        }
    }
    Ok(found.selection())
}

/// The parked partitions in the range.
pub async fn parked(ports: &Ports, definition: &Definition, range: &Range) -> Result<Selection, Error> {
    let since = Timestamp::UNIX_EPOCH..=Timestamp::MAX;
    let entries = ports.state.query(Index::Parked, Some(&definition.name), since, PARKED_AT_MOST).await?;
    let ids: Vec<PartitionId> = entries.into_iter().map(|entry| entry.id).collect();
    let mut found = Found::new(definition, range);
    for ids in ids.chunks(ITEMS_AT_ONCE) {
        let keys: Vec<_> = ids.iter().map(PartitionItem::key).collect();
        for (id, item) in ids.iter().zip(ports.state.read(&keys).await?) {
            if let Some(item) = item {
                found.stored(&id.partition, &item)?;
            }
        }
    }
    // The index lags: the item says whether it is parked.
    found.chosen.retain(|_, chosen| chosen.item.as_ref().is_some_and(PartitionItem::rests_parked));
    Ok(found.selection())
}

struct Found<'a> {
    definition: &'a Definition,
    range: &'a Range,
    chosen: BTreeMap<PartitionName, Chosen>,
    not_yielded: usize,
}

impl<'a> Found<'a> {
    fn new(definition: &'a Definition, range: &'a Range) -> Self {
        Self { definition, range, chosen: BTreeMap::new(), not_yielded: 0 }
    }

    fn stored(&mut self, name: &PartitionName, item: &Item) -> Result<(), Error> {
        let Ok(partition) = self.definition.partition(name) else {
            self.not_yielded += 1;
            return Ok(());
        };
        if self.range.contains(&partition) {
            let item = PartitionItem::from_item(item);
            let item =
                item.map_err(|error| Error::Stored { what: format!("partition {name}"), why: error.to_string() })?;
            self.chosen.insert(name.clone(), Chosen { partition, item: Some(item) });
        }
        Ok(())
    }

    fn selection(self) -> Selection {
        let mut chosen: Vec<Chosen> = self.chosen.into_values().collect();
        chosen.sort_by(|a, b| a.partition.values.cmp(&b.partition.values));
        Selection { chosen, not_yielded: self.not_yielded }
    }
}
