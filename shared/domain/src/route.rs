//! Which dataset and partition an object belongs to, by bucket and key: what mark asks for every event.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::definition::{Concurrency, Definition, Part, Root};
use crate::id::{DatasetName, DefinitionHash, PartitionId};
use crate::layout::{Layout, Unroutable};
use crate::partition_value::Partition;

/// Where all datasets keep their objects: one small item (about 250 bytes a dataset) that mark reads whole.
///
/// Stored as JSON: `{"datasets":[{"name":"orders","root":{"bucket":"lake-raw","prefix":"orders/"},"layout":"dt={dt}/",
/// "parts":[{"name":"dt","kind":"date","column":"dt","in_files":false}],"concurrency":"table","hash":"…"}]}`. Unknown fields are passed over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalog {
    /// In the order of their names.
    pub datasets: Vec<Place>,
    /// Those that are gone from the file: mark passes over them, sweep lets go of what is left of them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub retired: BTreeSet<DatasetName>,
}

/// Where one dataset keeps its objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The dataset.
    pub name: DatasetName,
    /// Where its objects are.
    pub root: Root,
    /// How the keys below the root tell the partition.
    pub layout: Layout,
    /// The parts of the partition.
    pub parts: Vec<Part>,
    /// The scope of its locks, which is the group its messages go to.
    pub concurrency: Concurrency,
    /// The definition that says so.
    pub hash: DefinitionHash,
}

/// What an object is to the datasets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// Data of a partition.
    Partition(PartitionId, Partition),
    /// Below a dataset's root, but never data: no fault.
    Hidden(DatasetName),
    /// Below a dataset's root, but of no partition: counted and told.
    Unroutable(DatasetName, Unroutable),
    /// Below no dataset's root: counted.
    Unclaimed,
}

impl Claim {
    /// A stable word for metrics and logs.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Partition(..) => "partition",
            Self::Hidden(_) => "hidden",
            Self::Unroutable(_, reason) => reason.label(),
            Self::Unclaimed => "unclaimed",
        }
    }
}

impl Catalog {
    /// The catalog of these definitions.
    pub fn of<'d>(definitions: impl IntoIterator<Item = &'d Definition>) -> Self {
        let place = |definition: &Definition| Place {
            name: definition.name.clone(),
            root: definition.source.clone(),
            layout: definition.layout.clone(),
            parts: definition.parts.clone(),
            concurrency: definition.concurrency,
            hash: definition.hash(),
        };
        let mut datasets: Vec<Place> = definitions.into_iter().map(place).collect();
        datasets.sort_by(|a, b| a.name.cmp(&b.name));
        Self { datasets, retired: BTreeSet::new() }
    }

    /// The same, after `before`: what was there and isn't any more is retired.
    #[must_use]
    pub fn after(self, before: &Self) -> Self {
        let known = before.datasets.iter().map(|place| &place.name).chain(&before.retired);
        let gone = known.filter(|name| self.datasets.iter().all(|place| place.name != **name));
        Self { retired: gone.cloned().collect(), ..self }
    }

    /// What the object is to the datasets; `key` is decoded.
    pub fn claim(&self, bucket: &str, key: &str) -> Claim {
        let Some((place, below)) = self.place_of(bucket, key) else {
            return Claim::Unclaimed;
        };
        let dataset = place.name.clone();
        match place.layout.partition_of(&place.parts, below) {
            Ok(partition) => Claim::Partition(PartitionId { dataset, partition: partition.name.clone() }, partition),
            Err(Unroutable::Hidden) => Claim::Hidden(dataset),
            Err(reason) => Claim::Unroutable(dataset, reason),
        }
    }

    /// The dataset below whose root the object lies, and its key from there. Of several roots (there are none, since
    /// overlapping ones are refused) the longest.
    pub fn place_of<'k>(&self, bucket: &str, key: &'k str) -> Option<(&Place, &'k str)> {
        let below = self.datasets.iter().filter_map(|place| Some((place, place.root.below(bucket, key)?)));
        below.min_by_key(|(_, below)| below.len())
    }
}

#[cfg(test)]
mod tests;
