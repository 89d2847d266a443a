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
