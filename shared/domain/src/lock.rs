//! The lock: one item per scope, `LOCK#<scope>` / `LOCK`, taken by conditional write, with a holder and a lease.
//!
//! It keeps order; safety rests on the fence. A lease that is over may be taken from its holder; the holder's own writes
//! then fail at the fence.

use jiff::{SignedDuration, Timestamp};

use crate::definition::Concurrency;
use crate::id::PartitionId;
use crate::update::{Change, Condition, Key, Update};

/// An item of a lock is dropped by time to live this long after its lease.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(24);

/// What a lock covers: a whole dataset, or one of its partitions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(String);

impl Scope {
    /// The scope of a rebuild of `id`.
    pub fn of(id: &PartitionId, concurrency: Concurrency) -> Self {
        match concurrency {
            Concurrency::Table => Self(id.dataset.to_string()),
            Concurrency::Partition => Self(format!("{}#{}", id.dataset, id.partition)),
        }
    }

    /// The scope as text: `orders`, or `orders#dt=2026-11-01`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where its lock stands.
    pub fn key(&self) -> Key {
        Key { pk: format!("LOCK#{}", self.0), sk: "LOCK".to_owned() }
    }

    /// Takes the lock where it is free or its lease is over.
    pub fn acquire(&self, holder: &str, now: Timestamp, lease: Timestamp) -> Update {
        Update {
            key: self.key(),
            conditions: vec![Condition::Any(vec![
                Condition::Absent("holder"),
                Condition::Less("lease", now.as_millisecond()),
                Condition::Equals("holder", holder.into()),
            ])],
            changes: vec![
                Change::Set("holder", holder.into()),
                Change::Set("lease", lease.as_millisecond().into()),
                Change::Set("expires_at", (lease + KEPT_FOR).as_second().into()),
            ],
        }
    }

    /// Gives the lock back if it is still `holder`'s; nobody else's is touched.
    pub fn release(&self, holder: &str) -> Update {
        Update {
            key: self.key(),
            conditions: vec![Condition::Equals("holder", holder.into())],
            changes: vec![Change::Remove("holder"), Change::Remove("lease")],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{DatasetName, PartitionName};
    use crate::update::Item;
    use crate::writes;

    fn id() -> PartitionId {
        let partition = PartitionName::new("dt=2026-11-01").unwrap();
        PartitionId { dataset: DatasetName::new("orders").unwrap(), partition }
    }

    fn scope() -> Scope {
        Scope::of(&id(), Concurrency::Table)
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    /// Held by `a` until second 960.
    fn held() -> Item {
        scope().acquire("a", at(0), at(960)).apply(None).unwrap()
    }

    #[test]
    fn c101_a_lease_that_is_over_is_taken_at_once() {
        assert!(scope().acquire("b", at(959), at(2_000)).apply(Some(&held())).is_none());
        assert!(scope().acquire("b", at(960), at(2_000)).apply(Some(&held())).is_none(), "to the last moment");
        let taken = scope().acquire("b", at(961), at(2_000)).apply(Some(&held())).unwrap();
        assert_eq!((&taken["holder"], &taken["lease"]), (&"b".into(), &at(2_000).as_millisecond().into()));
        let again = scope().acquire("a", at(1), at(970)).apply(Some(&held()));
        assert!(again.is_some(), "the holder's own write, made twice, is no stranger's");
    }

    #[test]
    fn c106_a_lock_outlives_its_lease_by_a_day_and_a_partition_has_no_end() {
        let expires = held()["expires_at"].as_i64().unwrap();
        assert!(expires >= at(960).as_second() + 24 * 3600);
        let marked = writes::mark(&id(), 0, at(0)).apply(None).unwrap();
        assert!(!marked.contains_key("expires_at"), "{marked:?}");
    }

    #[test]
    fn c107_a_release_after_the_lock_was_lost_touches_nobody() {
        let taken = scope().acquire("b", at(1_000), at(2_000)).apply(Some(&held())).unwrap();
        assert!(scope().release("a").apply(Some(&taken)).is_none());
        let free = scope().release("b").apply(Some(&taken)).unwrap();
        assert!(scope().release("b").apply(Some(&free)).is_none(), "given back already");
        assert!(scope().acquire("c", at(1_001), at(2_000)).apply(Some(&free)).is_some());
    }
}
