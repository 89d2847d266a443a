//! The state table: items changed by conditional writes.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use jiff::Timestamp;
use tidemark_domain::id::{DatasetName, PartitionId, PartitionName};
use tidemark_domain::update::{Item, Key, Update};

use super::Effect;

/// What became of a conditional write.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// All updates were applied. `before` is the item as it was, for a single update; `None` where it didn't exist or
    /// where there were several.
    Applied {
        /// The item before.
        before: Option<Item>,
    },
    /// A condition failed and nothing was applied: for each update the item as it was found where *its* condition failed.
    Refused(Vec<Option<Refusal>>),
}

/// The item that failed an update's condition; empty where none was there.
pub type Refusal = Item;

/// A call that failed otherwise.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StateError {
    /// Throttled, unreachable, a conflict with another transaction that lasts: try again later.
    #[error("the state table is unavailable: {message}")]
    Unavailable {
        /// The service's words.
        message: String,
        /// Whether the write may have been applied.
        effect: Effect,
    },
    /// No permission, no such table, a malformed request.
    #[error("the state table can't be used: {0}")]
    Misconfigured(String),
}

/// One of the sparse indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// Partitions with anything to do, by the time they are next due (`work`, `due_at`).
    Due,
    /// Parked partitions, by since when (`parked_work`, `parked_since`).
    Parked,
}

/// An entry of a sparse index. Indexes lag: the item says what holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueEntry {
    /// The partition.
    pub id: PartitionId,
    /// `due_at` or `parked_since`.
    pub at: Timestamp,
}

/// The state table.
///
/// Guarantees: `read` returns one consistent snapshot of all keys, with every write acknowledged before. A `write` is
/// all or nothing, and its conditions are judged on the newest state, one writer at a time. Conflicts and throttling are
/// tried again inside, for a short while. A `write` of several updates with the same `token` within ten minutes is
/// applied once.
#[async_trait]
pub trait StateStore: Send + Sync {
    /// Reads up to 100 items in one snapshot, in the order of `keys`.
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StateError>;

    /// Carries out the updates (of different items, 100 at most), all or none.
    async fn write(&self, updates: &[Update], token: &str) -> Result<Written, StateError>;

    /// Up to `limit` entries of an index whose time lies `within`: those of a dataset, or all, which come dataset by dataset in
    /// no order of these. Each dataset's come oldest first. Fewer than `limit` are all there are.
    async fn query(
        &self,
        index: Index,
        dataset: Option<&DatasetName>,
        within: RangeInclusive<Timestamp>,
        limit: usize,
    ) -> Result<Vec<DueEntry>, StateError>;

    /// Up to `limit` partition items of a dataset (at rest too), in the order of their names' bytes, from the first after
    /// `after` on. Fewer than `limit` are the last. Strongly consistent item by item, not a snapshot.
    async fn partitions(
        &self,
        dataset: &DatasetName,
        after: Option<&PartitionName>,
        limit: usize,
    ) -> Result<Vec<(PartitionName, Item)>, StateError>;

    /// Up to `limit` items of the partition key `pk` whose sort key begins with `prefix`, in the order of its bytes, from the
    /// first after `after` on. Fewer than `limit` are the last. Strongly consistent item by item, not a snapshot.
    async fn items(
        &self,
        pk: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Item)>, StateError>;
}
