//! The state table: a map behind one lock, so that every write is judged on the newest state and is all or nothing.
//!
//! Conditions and changes mean what [`Update::apply`] says. Indexes are derived from attributes, as `DynamoDB` derives a sparse
//! index: an item stands in one exactly while it has both of its keys.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tidemark_domain::id::{DatasetName, PartitionId, PartitionName};
use tidemark_domain::update::{Item, Key, Update};

use super::{ManualClock, lock};
use crate::ports::{Clock as _, DueEntry, Index, StateError, StateStore, Written};

/// `TransactWriteItems` remembers a token this long.
const TOKEN_KEPT: SignedDuration = SignedDuration::from_mins(10);
/// The most items of one transaction.
const MAX_ITEMS: usize = 100;

/// The state table. Clones are the same table.
#[derive(Debug, Clone)]
pub struct MemoryState {
    clock: ManualClock,
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    items: BTreeMap<Key, Item>,
    tokens: BTreeMap<String, (Timestamp, Vec<Update>)>,
}

impl MemoryState {
    /// An empty table.
    pub fn new(clock: ManualClock) -> Self {
        Self { clock, table: Arc::default() }
    }

    /// An item as it is now.
    pub fn item(&self, key: &Key) -> Option<Item> {
        lock(&self.table).items.get(key).cloned()
    }

    /// Puts an item as it is, past all conditions: for what stood there before the test.
    pub fn put(&self, key: Key, item: Item) {
        lock(&self.table).items.insert(key, item);
    }

    /// Takes an item away, past all conditions.
    pub fn remove(&self, key: &Key) {
        lock(&self.table).items.remove(key);
    }

    /// Everything that is stored.
    pub fn items(&self) -> BTreeMap<Key, Item> {
        lock(&self.table).items.clone()
    }
}

impl Table {
    fn write(&mut self, updates: &[Update], token: &str, now: Timestamp) -> Result<Written, StateError> {
        let several = updates.len() > 1;
        self.tokens.retain(|_, (at, _)| now.duration_since(*at) < TOKEN_KEPT);
        if several && let Some((_, first)) = self.tokens.get(token) {
            return if first == updates {
                Ok(Written::Applied { before: None })
            } else {
                Err(StateError::Misconfigured(format!("token {token:?} was used for another request")))
            };
        }
        let after: Vec<Option<Item>> = updates.iter().map(|u| u.apply(self.items.get(&u.key))).collect();
        if after.iter().any(Option::is_none) {
            let found = |update: &Update| self.items.get(&update.key).cloned().unwrap_or_default();
            let refusals =
                updates.iter().zip(&after).map(|(update, after)| after.is_none().then(|| found(update))).collect();
            return Ok(Written::Refused(refusals));
        }
        let mut before = None;
        for (update, after) in updates.iter().zip(after) {
            before = self.items.insert(update.key.clone(), after.unwrap_or_default());
        }
        if several {
            self.tokens.insert(token.to_owned(), (now, updates.to_vec()));
            before = None;
        }
        Ok(Written::Applied { before })
    }
}

/// What `DynamoDB` refuses whatever the items hold.
fn check(updates: &[Update], token: &str) -> Result<(), StateError> {
    let malformed = |why: String| Err(StateError::Misconfigured(why));
    if updates.is_empty() || updates.len() > MAX_ITEMS {
        return malformed(format!("{} updates in one write; 1 to {MAX_ITEMS} are possible", updates.len()));
    }
    if updates.len() > 1 && !(1..=36).contains(&token.len()) {
        return malformed(format!("token {token:?} must have 1 to 36 characters"));
    }
    for (n, update) in updates.iter().enumerate() {
        if updates[..n].iter().any(|other| other.key == update.key) {
            return malformed(format!("two updates of one item, {:?}", update.key));
        }
        if update.key.pk.len() > 2_048 || update.key.sk.len() > 1_024 {
            return malformed(format!("a key is too long: {:?}", update.key));
        }
    }
    Ok(())
}

fn entry(key: &Key, item: &Item, index: Index, dataset: Option<&DatasetName>) -> Option<DueEntry> {
    let (hash, range) = match index {
        Index::Due => ("work", "due_at"),
        Index::Parked => ("parked_work", "parked_since"),
    };
    let stands = DatasetName::new(item.get(hash).and_then(Value::as_str)?).ok()?;
    if dataset.is_some_and(|dataset| *dataset != stands) {
        return None;
    }
    let at = Timestamp::from_millisecond(item.get(range)?.as_i64()?).ok()?;
    let partition = PartitionName::new(key.sk.strip_prefix("PARTITION#")?).ok()?;
    Some(DueEntry { id: PartitionId { dataset: stands, partition }, at })
}

#[async_trait]
impl StateStore for MemoryState {
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StateError> {
        if keys.len() > MAX_ITEMS {
            return Err(StateError::Misconfigured(format!(
                "{} keys in one read; {MAX_ITEMS} are possible",
                keys.len()
            )));
        }
        let table = lock(&self.table);
        Ok(keys.iter().map(|key| table.items.get(key).cloned()).collect())
    }

    async fn write(&self, updates: &[Update], token: &str) -> Result<Written, StateError> {
        check(updates, token)?;
        lock(&self.table).write(updates, token, self.clock.now())
    }

    async fn query(
        &self,
        index: Index,
        dataset: Option<&DatasetName>,
        within: RangeInclusive<Timestamp>,
        limit: usize,
    ) -> Result<Vec<DueEntry>, StateError> {
        let table = lock(&self.table);
        let mut entries: Vec<DueEntry> =
            table.items.iter().filter_map(|(key, item)| entry(key, item, index, dataset)).collect();
        entries.retain(|entry| within.contains(&entry.at));
        entries.sort_by(|a, b| (&a.id.dataset, a.at, &a.id).cmp(&(&b.id.dataset, b.at, &b.id)));
        entries.truncate(limit);
        Ok(entries)
    }

    async fn partitions(
        &self,
        dataset: &DatasetName,
        after: Option<&PartitionName>,
        limit: usize,
    ) -> Result<Vec<(PartitionName, Item)>, StateError> {
        let pk = format!("DATASET#{dataset}");
        let table = lock(&self.table);
        let partition = |key: &Key| PartitionName::new(key.sk.strip_prefix("PARTITION#")?).ok();
        let of_dataset = table.items.iter().filter(|(key, _)| key.pk == pk);
        let partitions = of_dataset.filter_map(|(key, item)| Some((partition(key)?, item.clone())));
        Ok(partitions.filter(|(name, _)| after.is_none_or(|after| name > after)).take(limit).collect())
    }

    async fn items(
        &self,
        pk: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Item)>, StateError> {
        let table = lock(&self.table);
        let of_key = table.items.iter().filter(|(key, _)| key.pk == pk && key.sk.starts_with(prefix));
        let later = of_key.filter(|(key, _)| after.is_none_or(|after| key.sk.as_str() > after));
        Ok(later.take(limit).map(|(key, item)| (key.sk.clone(), item.clone())).collect())
    }
}
