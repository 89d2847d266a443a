//! Invariants as debug assertions: each partition item that is read or written holds by itself. A debug build panics with the
//! id of what doesn't; a release build doesn't look.

use tidemark_domain::invariants;
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::update::{Item, Key, Update};

use crate::ports::Written;

/// An item that was read.
pub(crate) fn read(key: &Key, item: &PartitionItem) {
    if !cfg!(debug_assertions) {
        return;
    }
    if let Err(broken) = invariants::item_alone(item) {
        debug_assert!(false, "{broken} is broken: {} {}: {item:?}", key.pk, key.sk);
    }
}

/// What updates wrote, or why they were refused, as far as the answer tells: of several in one transaction only a refusal does.
pub(crate) fn written(updates: &[Update], written: &Written) {
    if !cfg!(debug_assertions) {
        return;
    }
    match (updates, written) {
        ([update], Written::Applied { before }) => {
            update.apply(before.as_ref()).iter().for_each(|after| stored(&update.key, after));
        }
        (_, Written::Applied { .. }) => {}
        (updates, Written::Refused(found)) => {
            let found = updates.iter().zip(found).filter_map(|(update, found)| Some((update, found.as_ref()?)));
            found.for_each(|(update, found)| stored(&update.key, found));
        }
    }
}

/// A stored item, if it is one of a partition; what can't be read is told by whoever reads it.
fn stored(key: &Key, item: &Item) {
    if key.sk.starts_with("PARTITION#")
        && let Ok(item) = PartitionItem::from_item(item)
    {
        read(key, &item);
    }
}

#[cfg(test)]
#[cfg(debug_assertions)]
mod tests {
    use jiff::Timestamp;
    use tidemark_domain::id::{DatasetName, PartitionId, PartitionName};
    use tidemark_domain::update::Change;
    use tidemark_domain::writes;

    use super::*;

    fn mark() -> Update {
        let (dataset, partition) = (DatasetName::new("orders"), PartitionName::new("dt=2026-11-01"));
        let id = PartitionId { dataset: dataset.unwrap(), partition: partition.unwrap() };
        writes::mark(&id, 0, Timestamp::UNIX_EPOCH)
    }

    fn mark_without(attribute: &str) -> Update {
        let mut update = mark();
        update.changes.retain(|change| !matches!(change, Change::SetIfAbsent(name, _) if *name == attribute));
        update
    }

    #[test]
    fn what_the_shipped_mark_writes_holds() {
        written(&[mark()], &Written::Applied { before: None });
    }

    #[test]
    #[should_panic(expected = "I6 is broken: DATASET#orders PARTITION#dt=2026-11-01")]
    fn a_write_that_leaves_half_an_index_entry_panics() {
        written(&[mark_without("due_at")], &Written::Applied { before: None });
    }

    #[test]
    #[should_panic(expected = "I6 is broken")]
    fn so_does_what_a_refusal_shows() {
        let found = mark_without("work").apply(None);
        written(&[mark()], &Written::Refused(vec![found]));
    }
}
