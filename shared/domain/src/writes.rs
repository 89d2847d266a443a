//! The writes of the partition item: all of them, each with its condition and its reason.
//!
//! A write by a batch is conditional on what its worker holds ([`Taken`]): the fence of its take, so that a worker that was
//! overtaken stops at its next write; and the batch as it wrote it last, so that a copy of an earlier write of its own, however
//! late it arrives, changes nothing. Marks don't ask for either; so whatever takes a partition out of the index *due*, or parks
//! it, asks for `marked` as well.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::id::{Fence, Generation, PartitionId};
use crate::job::Heal;
use crate::message::Replay;
use crate::partition::{Asked, Batch, Committed, Holds, Parked, PartitionItem};
use crate::update::{Change, Condition, Item, Update};

/// A message that was sent, or a take, gets this long before sweep wakes the partition.
pub const WAKE_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// The attributes that keep a partition in the index *due*; they live and die together.
const DUE: [&str; 3] = ["work", "due_at", "dirty_since"];

fn stored<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn ms(time: Timestamp) -> Value {
    Value::from(time.as_millisecond())
}

fn fence_is(fence: Fence) -> Condition {
    Condition::Equals("fence", fence.0.into())
}

/// What a worker holds of the item it took: as long as both are so, nobody wrote it but its worker, and marks.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    /// The fence of the take; the batch's own may be older.
    pub fence: Fence,
    /// The batch as the take, or the worker since, last wrote it.
    pub batch: Batch,
}

impl Taken {
    /// Whether the item is still as its worker left it. Else somebody else has the partition.
    ///
    /// Compared as they are stored: there times have milliseconds, in hand nanoseconds.
    pub fn holds(&self, found: &PartitionItem) -> bool {
        found.fence == self.fence && found.batch.as_ref().map(stored) == Some(stored(&self.batch))
    }

    /// Whether a RECORD of `batch` that was refused had been applied: its answer was lost, and what was refused is its copy.
    pub fn wrote(&self, batch: &Batch, found: &Item) -> bool {
        fence_is(self.fence).holds(found) && batch_is(batch).holds(found)
    }

    fn conditions(&self) -> Vec<Condition> {
        vec![fence_is(self.fence), batch_is(&self.batch)]
    }

    fn conditions_and(&self, more: Condition) -> Vec<Condition> {
        let mut conditions = self.conditions();
        conditions.push(more);
        conditions
    }
}

fn batch_is(batch: &Batch) -> Condition {
    Condition::Equals("batch", stored(batch))
}

fn batch_as_read(read: &PartitionItem) -> Condition {
    read.batch.as_ref().map_or(Condition::Absent("batch"), batch_is)
}

fn update(id: &PartitionId, conditions: Vec<Condition>, changes: Vec<Change>) -> Update {
    Update { key: PartitionItem::key(id), conditions, changes }
}

fn set_or_remove<T: Serialize>(name: &'static str, value: Option<&T>) -> Change {
    value.map_or(Change::Remove(name), |value| Change::Set(name, stored(value)))
}

/// MARK: the partition's source changed; `removed` objects surely went.
///
/// Unconditional. Where `due_at` was absent before, the caller sends the message; a crash before that is repaired by wake.
pub fn mark(id: &PartitionId, removed: u64, now: Timestamp) -> Update {
    update(id, vec![], mark_changes(id, removed, now))
}

/// The new generation, where a mark turned the partition dirty: the caller owes a message. `before` is the item before the mark.
pub fn turned_dirty(before: Option<&Item>) -> Option<Generation> {
    let was_due = before.is_some_and(|item| item.contains_key("due_at"));
    let marked = before.and_then(|item| item.get("marked")?.as_u64()).unwrap_or(0);
    (!was_due).then_some(Generation(marked).next())
}

fn mark_changes(id: &PartitionId, removed: u64, now: Timestamp) -> Vec<Change> {
    vec![
        Change::Add("marked", 1),
        Change::Set("marked_at", ms(now)),
        Change::SetIfAbsent("built", 0.into()),
        Change::SetIfAbsent("fence", 0.into()),
        Change::SetIfAbsent("work", id.dataset.as_str().into()),
        Change::SetIfAbsent("due_at", ms(now + WAKE_AFTER)),
        Change::SetIfAbsent("dirty_since", ms(now)),
        Change::Add("removed", i64::try_from(removed).unwrap_or(i64::MAX)),
        Change::Remove("parked_work"),
        Change::Remove("parked_since"),
    ]
}

/// REPLAY: a mark by an operator; with `force` the partition is rebuilt up to it whatever the digest says.
///
/// Conditional on `marked` as read, since `forced` is the new generation. A later replay's `accept` and reason replace the
/// earlier's.
pub fn replay(id: &PartitionId, read: Option<Generation>, replay: &Replay, now: Timestamp) -> Update {
    let as_read = read.map_or(Condition::Absent("marked"), |g| Condition::Equals("marked", g.0.into()));
    let mut changes = mark_changes(id, 0, now);
    let generation = read.unwrap_or_default().next();
    if replay.force {
        changes.push(Change::Set("forced", generation.0.into()));
        changes.push(set_or_remove("accept", replay.accept.as_ref()));
    }
    let asked = Asked::of(generation, now, replay.reason.as_deref(), replay.by.as_deref());
    changes.push(set_or_remove("asked", Some(&asked)));
    changes.extend([Change::Remove("not_before"), Change::Remove("tries")]);
    update(id, vec![as_read], changes)
}

/// TAKE: the partition is ours, with the batch as decided. In one transaction with the lock.
///
/// Conditional on fence *and* batch as read: the holder before may have recorded a swap since, which a stale view would
/// forget.
pub fn take(id: &PartitionId, read: &PartitionItem, batch: &Batch, unresolved: bool, now: Timestamp) -> Update {
    update(
        id,
        vec![fence_is(read.fence), batch_as_read(read), Condition::Exists("due_at")],
        vec![
            Change::Set("fence", read.fence.next().0.into()),
            Change::Add("tries", 1),
            Change::Set("due_at", ms(now + WAKE_AFTER)),
            Change::Set("batch", stored(batch)),
            set_or_remove("unresolved", unresolved.then_some(&true)),
        ],
    )
}

/// PUT OFF: not ready yet; sweep wakes it when it is.
pub fn put_off(id: &PartitionId, read: Fence, due_at: Timestamp) -> Update {
    update(id, vec![fence_is(read), Condition::Exists("due_at")], vec![Change::Set("due_at", ms(due_at))])
}

/// RECORD: the batch as it now is. It shows that the take lives, so the count of dead takes begins anew.
pub fn record(id: &PartitionId, taken: &Taken, batch: &Batch) -> Update {
    update(id, taken.conditions(), vec![Change::Set("batch", stored(batch)), Change::Remove("tries")])
}

/// RECORD of what the look found after fencing: the newest ledger row becomes `last`, and nothing is unresolved any more.
pub fn record_look(id: &PartitionId, taken: &Taken, batch: &Batch, newest: Option<&Committed>) -> Update {
    let mut changes = vec![Change::Set("batch", stored(batch)), Change::Remove("tries"), Change::Remove("unresolved")];
    changes.extend(newest.map(|last| Change::Set("last", stored(last))));
    update(id, taken.conditions(), changes)
}

/// What becomes of the batch in a hold or a park.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Keep<'a> {
    /// It is kept, as it now is, to be continued.
    As(&'a Batch),
    /// It ends. If its swap was recorded, the partition is unresolved from then on, whatever was seen of its statements.
    End(&'a Batch),
}

impl Keep<'_> {
    fn changes(self) -> Vec<Change> {
        match self {
            Self::As(batch) => vec![Change::Set("batch", stored(&batch.left_in_order()))],
            Self::End(batch) if batch.swap_recorded() => {
                vec![Change::Remove("batch"), Change::Set("unresolved", true.into())]
            }
            Self::End(_) => vec![Change::Remove("batch")],
        }
    }
}

/// HOLD: put off until a time. Never removes `due_at`.
pub fn hold(
    id: &PartitionId,
    taken: &Taken,
    holds: &Holds,
    until: Timestamp,
    keep: Keep<'_>,
    alerted: &BTreeSet<String>,
) -> Update {
    let mut changes = keep.changes();
    changes.extend([
        Change::Set("not_before", ms(until)),
        Change::Set("due_at", ms(until)),
        Change::Set("holds", stored(holds)),
        Change::Remove("tries"),
    ]);
    if !alerted.is_empty() {
        changes.push(Change::Set("alerted", stored(alerted)));
    }
    update(id, taken.conditions(), changes)
}

/// CONFIRM A: built, and no mark came since: the partition rests. In one transaction with the lock's release.
pub fn confirm_rest(id: &PartitionId, taken: &Taken, batch: &Batch, last: Option<&Committed>) -> Update {
    let mut changes = confirmed(batch, last);
    changes.extend(DUE.into_iter().map(Change::Remove));
    changes.extend(["forced", "accept", "asked"].map(Change::Remove));
    update(id, taken.conditions_and(Condition::Equals("marked", batch.covers.0.into())), changes)
}

/// CONFIRM B: built, and marked again since: it stays in the index, and the caller sends a message.
pub fn confirm_again(
    id: &PartitionId,
    taken: &Taken,
    batch: &Batch,
    last: Option<&Committed>,
    due_at: Timestamp,
    now: Timestamp,
) -> Update {
    let mut changes = confirmed(batch, last);
    changes.extend([Change::Set("dirty_since", ms(now)), Change::Set("due_at", ms(due_at))]);
    update(id, taken.conditions_and(marked_since(batch.covers)), changes)
}

fn confirmed(batch: &Batch, last: Option<&Committed>) -> Vec<Change> {
    let mut changes = vec![Change::Set("built", batch.covers.0.into()), Change::Add("removed", -batch.removed)];
    changes.extend(last.map(|last| Change::Set("last", stored(last))));
    let over = ["batch", "parked", "parked_work", "parked_since", "alerted", "not_before", "tries", "holds"];
    changes.extend(over.into_iter().map(Change::Remove));
    changes
}

fn marked_since(covers: Generation) -> Condition {
    Condition::Greater("marked", i64::try_from(covers.0).unwrap_or(i64::MAX))
}

/// PARK A: set aside until a new mark.
///
/// Conditional on `marked` being what was tried: a mark that came since must not be slept over.
pub fn park(
    id: &PartitionId,
    taken: &Taken,
    batch: &Batch,
    parked: &Parked,
    alerted: &BTreeSet<String>,
    now: Timestamp,
) -> Update {
    let mut changes = Keep::End(batch).changes();
    changes.extend(DUE.into_iter().map(Change::Remove));
    changes.extend([
        Change::Set("parked", stored(parked)),
        Change::Set("parked_work", id.dataset.as_str().into()),
        Change::Set("parked_since", ms(now)),
        Change::Set("alerted", stored(alerted)),
        Change::Remove("not_before"),
        Change::Remove("tries"),
        Change::Remove("holds"),
    ]);
    update(id, taken.conditions_and(Condition::Equals("marked", batch.covers.0.into())), changes)
}

/// LEAVE: a retired partition, or one the layout no longer yields, leaves the index.
pub fn leave(id: &PartitionId, read: &PartitionItem) -> Update {
    let mut changes: Vec<_> = DUE.into_iter().map(Change::Remove).collect();
    // What an operator accepted was of the dataset as it was.
    changes.extend(["batch", "accept"].map(Change::Remove));
    update(
        id,
        vec![
            fence_is(read.fence),
            batch_as_read(read),
            Condition::Equals("marked", read.marked.0.into()),
            Condition::Absent("unresolved"),
        ],
        changes,
    )
}

/// RESTORED: Redshift is ahead of the item, so the table was restored from a backup: fence, look and rebuild for real.
///
/// Conditional on `marked` as read too, since the new one is computed from it.
pub fn restored(
    id: &PartitionId,
    taken: &Taken,
    marked: Generation,
    ledger: Generation,
    stored_fence: Fence,
    now: Timestamp,
) -> Update {
    let generation = marked.max(ledger).next();
    update(
        id,
        taken.conditions_and(Condition::Equals("marked", marked.0.into())),
        vec![
            Change::Set("marked", generation.0.into()),
            Change::Set("marked_at", ms(now)),
            Change::Set("forced", generation.0.into()),
            Change::Set("fence", taken.fence.max(stored_fence).next().0.into()),
            Change::Remove("batch"),
            Change::Set("unresolved", true.into()),
            Change::SetIfAbsent("work", id.dataset.as_str().into()),
            Change::Set("due_at", ms(now)),
            Change::SetIfAbsent("dirty_since", ms(now)),
            Change::Remove("parked_work"),
            Change::Remove("parked_since"),
            Change::Remove("tries"),
        ],
    )
}

/// HEAL: item and ledger were found to differ, at rest: one of them was restored from a backup. The ledger is believed, the
/// partition is fenced, looked at and rebuilt for real.
///
/// Conditional on the fence as it was compared (or on there being no item), so that no batch ran since, and on `marked` as read,
/// since `forced` is the new generation. Both are raised to what the ledger knows, so that the next take isn't behind it.
pub fn heal(id: &PartitionId, read: Option<&PartitionItem>, heal: &Heal, now: Timestamp) -> Update {
    let as_read = |name, read: Option<u64>| read.map_or(Condition::Absent(name), |n| Condition::Equals(name, n.into()));
    let marked = read.map(|item| item.marked).unwrap_or_default();
    let in_ledger = heal.last.as_ref();
    let generation = marked.max(in_ledger.map(|last| last.generation).unwrap_or_default()).next();
    let fence = heal.fence.max(in_ledger.map(|last| last.fence)).unwrap_or_default();
    let raised = i64::try_from(generation.0 - marked.0).unwrap_or(1);
    let mut changes: Vec<Change> = mark_changes(id, 0, now)
        .into_iter()
        .filter(|change| !matches!(change, Change::Add("marked", _) | Change::SetIfAbsent("fence", _)))
        .collect();
    changes.extend([
        Change::Add("marked", raised),
        Change::Set("forced", generation.0.into()),
        Change::Set("fence", fence.0.into()),
        Change::Set("unresolved", true.into()),
        set_or_remove("last", in_ledger),
        Change::Remove("accept"),
        Change::Remove("not_before"),
        Change::Remove("tries"),
    ]);
    let conditions = vec![
        as_read("fence", heal.fence.map(|fence| fence.0)),
        as_read("marked", read.map(|item| item.marked.0)),
        Condition::Absent("batch"),
    ];
    update(id, conditions, changes)
}

/// WAKE: sweep claims a due partition and sends its message; of several sweeps one gets it.
pub fn wake(id: &PartitionId, due_at: Timestamp, now: Timestamp) -> Update {
    update(id, vec![Condition::Equals("due_at", ms(due_at))], vec![Change::Set("due_at", ms(now + WAKE_AFTER))])
}
