//! Holds what is stored of a partition against its newest ledger row.
//!
//! Only a partition at rest can be compared: nothing of it is on its way, so its `last` is its newest ledger row (I4). If it
//! isn't, one of the two was restored from a backup. The item has to be read *before* the ledger, and what heals it asks for
//! the fence as it was read: so no batch ran in between.

use jiff::{SignedDuration, Timestamp};

use crate::id::{BatchId, PartitionName};
use crate::job::{Heal, Line};
use crate::partition::{Committed, PartitionItem};

/// A staging table is kept this long: whoever has to find out why a batch parked looks into it.
const STAGING_KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Which of the two is older than the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Older {
    /// The warehouse: a batch that the item knows isn't in the ledger.
    Warehouse,
    /// The state table: the ledger knows a batch that the item doesn't.
    State,
}

/// What heals the partition, where item and ledger differ.
pub fn compare(
    partition: &PartitionName,
    item: Option<&PartitionItem>,
    ledger: Option<&Committed>,
) -> Option<(Older, Line)> {
    let fence = match item {
        None => None,
        Some(item) if item.at_rest() || (item.rests_parked() && !item.unresolved) => Some(item.fence),
        Some(_) => return None,
    };
    let last = item.and_then(|item| item.last.as_ref());
    let older = match (last, ledger) {
        (Some(last), Some(row)) if last.batch == row.batch => return None,
        (None, None) => return None,
        (Some(last), Some(row)) if last.fence < row.fence => Older::State,
        (None, Some(_)) => Older::State,
        (Some(_), _) => Older::Warehouse,
    };
    let heal = Heal { fence, last: ledger.cloned() };
    Some((older, Line { heal: Some(heal), ..Line::of(partition.clone()) }))
}

/// Whether a staging table of this batch is old enough to be dropped, if its batch is over: by the time in its id.
pub fn may_be_dropped(batch: BatchId, now: Timestamp) -> bool {
    let born =
        batch.0.get_timestamp().and_then(|time| Timestamp::from_second(i64::try_from(time.to_unix().0).ok()?).ok());
    born.is_some_and(|born| now.duration_since(born) > STAGING_KEPT)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::id::Fence;

    fn row(n: u64) -> Committed {
        serde_json::from_value(row_json(n)).unwrap()
    }

    fn row_json(n: u64) -> Value {
        json!({ "batch": format!("01936000-0000-7000-8000-00000000000{n}"), "generation": n, "fence": n, "digest": "d",
            "inventory": "i/", "rows": 1, "took_seconds": 1, "committed_at": 0 })
    }

    fn item(last: Option<u64>, marked: u64) -> PartitionItem {
        let mut item = json!({ "marked": marked, "built": 3, "marked_at": 0, "fence": 7 });
        if let Some(last) = last {
            item["last"] = row_json(last);
        }
        serde_json::from_value(item).unwrap()
    }

    fn compared(item: Option<&PartitionItem>, ledger: Option<u64>) -> Option<(Older, Heal)> {
        let name = PartitionName::new("dt=2026-11-01").unwrap();
        let found = compare(&name, item, ledger.map(row).as_ref());
        found.map(|(older, line)| (older, line.heal.unwrap()))
    }

    #[test]
    fn what_agrees_or_is_on_its_way_is_left_alone() {
        assert_eq!(compared(Some(&item(Some(3), 3)), Some(3)), None);
        assert_eq!(compared(Some(&item(None, 3)), None), None, "nothing was ever committed");
        assert_eq!(compared(Some(&item(Some(3), 4)), Some(2)), None, "it is dirty");
    }

    #[test]
    fn a_warehouse_that_was_restored_lacks_the_last_batch() {
        for ledger in [Some(2), None] {
            let (older, heal) = compared(Some(&item(Some(3), 3)), ledger).unwrap();
            assert_eq!((older, heal.fence, heal.last), (Older::Warehouse, Some(Fence(7)), ledger.map(row)));
        }
    }

    #[test]
    fn a_state_table_that_was_restored_lacks_the_newest_ledger_row() {
        let (older, heal) = compared(Some(&item(Some(3), 3)), Some(5)).unwrap();
        assert_eq!((older, heal.fence, heal.last), (Older::State, Some(Fence(7)), Some(row(5))));
        let (older, heal) = compared(None, Some(5)).unwrap();
        assert_eq!((older, heal.fence), (Older::State, None));
    }

    #[test]
    fn staging_tables_are_kept_for_a_week() {
        let batch = BatchId("01936000-0000-7000-8000-000000000002".parse().unwrap());
        let born = Timestamp::from_millisecond(0x0193_6000_0000).unwrap();
        assert!(!may_be_dropped(batch, born + STAGING_KEPT - SignedDuration::from_secs(2)));
        assert!(may_be_dropped(batch, born + STAGING_KEPT + SignedDuration::from_secs(2)));
        assert!(!may_be_dropped(BatchId(uuid::Uuid::nil()), born), "no id of ours: nobody knows how old it is");
    }
}
