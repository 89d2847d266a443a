//! Stored values as the model carries them: shared, compared and hashed by their stored text, and without what no decision of the
//! model hangs on.
//!
//! An item is changed by [`Update::apply`] on its stored attributes and by nothing else. Then the times in it are set to
//! [`MARKED`]: every hold, interval and settling is over by the time somebody looks, at a time long after it; a look that comes too early is a
//! fault. Counts that only make alerts or waits longer are dropped as well.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use jiff::Timestamp;
use tidemark_domain::partition::{Batch, Committed, Parked, PartitionItem, Statement, attributes};
use tidemark_domain::sql::rebuild::Verified;
use tidemark_domain::update::{Item, Update};

/// When everything that is stored was stored.
pub const MARKED: Timestamp = Timestamp::UNIX_EPOCH;

/// The clock of whoever works: an hour later.
pub fn now() -> Timestamp {
    after_hours(1)
}

/// So many hours after everything was stored.
pub fn after_hours(hours: i64) -> Timestamp {
    Timestamp::from_second(hours * 3600).unwrap_or(Timestamp::MAX)
}

/// A value with the hash of its stored text, by which it is compared.
pub struct Kept<T> {
    value: Arc<T>,
    print: u64,
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value), print: self.print }
    }
}
impl<T> std::ops::Deref for Kept<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}
impl<T> PartialEq for Kept<T> {
    fn eq(&self, other: &Self) -> bool {
        self.print == other.print
    }
}
impl<T> Eq for Kept<T> {}
impl<T> PartialOrd for Kept<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Kept<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.print.cmp(&other.print)
    }
}
impl<T> Hash for Kept<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.print.hash(state);
    }
}
impl<T: fmt::Debug> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl Kept<Update> {
    /// Carries a write.
    pub fn update(update: Update) -> Self {
        let print = print(&format!("{update:?}"));
        Self { value: Arc::new(update), print }
    }
}

/// A batch as a worker has it in hand.
pub type InHand = Kept<Batch>;

impl InHand {
    /// Carries a batch.
    pub fn batch(batch: Batch) -> Self {
        let batch = plain_batch(batch);
        let print = print(&serde_json::to_string(&batch).unwrap_or_default());
        Self { value: Arc::new(batch), print }
    }
}

/// The partition item: as it is stored, and as it reads.
pub struct Stored {
    attributes: Item,
    item: PartitionItem,
}

impl std::ops::Deref for Stored {
    type Target = PartitionItem;
    fn deref(&self) -> &PartitionItem {
        &self.item
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.attributes).unwrap_or_default())
    }
}

impl Kept<Stored> {
    /// Carries an item.
    pub fn item(item: PartitionItem) -> Self {
        let item = plain(item);
        let attributes = attributes(&item).unwrap_or_default();
        let print = print(&serde_json::to_string(&attributes).unwrap_or_default());
        Self { value: Arc::new(Stored { attributes, item }), print }
    }

    /// The stored attributes.
    pub fn attributes(&self) -> &Item {
        &self.attributes
    }

    /// The item after an update, or `None` where a condition doesn't hold.
    ///
    /// # Panics
    /// Where the update leaves an item that can't be read: the writes are wrong then.
    pub fn apply(&self, update: &Update) -> Option<Self> {
        let after = update.apply(Some(&self.attributes))?;
        match PartitionItem::from_item(&after) {
            Ok(item) => Some(Self::item(item)),
            Err(error) => unreachable!("an item that can't be read: {error}: {after:?}"),
        }
    }
}

fn print(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn plain(item: PartitionItem) -> PartitionItem {
    let too_slow = |holds: &tidemark_domain::partition::Holds| holds.kind == "too_slow";
    PartitionItem {
        marked_at: MARKED,
        batch: item.batch.map(plain_batch),
        last: item.last.map(plain_committed),
        parked: item.parked.map(|parked| Parked { message: String::new(), ..parked }),
        alerted: std::collections::BTreeSet::new(),
        not_before: None,
        tries: 0,
        holds: item.holds.filter(too_slow),
        due_at: item.due_at.map(|_| MARKED),
        dirty_since: item.dirty_since.map(|_| MARKED),
        parked_since: item.parked_since.map(|_| MARKED),
        ..item
    }
}

fn plain_committed(last: Committed) -> Committed {
    Committed { took_seconds: 0, committed_at: MARKED, ..last }
}

fn plain_batch(batch: Batch) -> Batch {
    Batch {
        began_at: MARKED,
        spent_seconds: 0,
        left: false,
        recovered: None,
        failed_at: None,
        statement: batch.statement.map(|statement| Statement { submitted_at: MARKED, ..statement }),
        verified: batch.verified.map(|verified| Verified { staged_at: MARKED, ..verified }),
        ..batch
    }
}
