//! The guarantees of [`StateStore`].

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidemark_domain::definition::Concurrency;
use tidemark_domain::id::{DatasetName, PartitionId, PartitionName};
use tidemark_domain::lock::Scope;
use tidemark_domain::message::Replay;
use tidemark_domain::partition::{Batch, PartitionItem};
use tidemark_domain::update::{Change, Condition, Item, Key, Update};
use tidemark_domain::writes::{self, Taken};

use super::fresh;
use crate::ports::{DueEntry, Index, StateStore, Written};

/// Rounds of the race for a lock.
const ROUNDS: usize = 20;
/// Workers that race.
const RACERS: usize = 16;

/// Every guarantee. Items of earlier runs may stand in the table.
pub async fn all(store: Arc<dyn StateStore>) {
    reads_in_the_order_of_keys(&*store).await;
    values_come_back_as_they_were(&*store).await;
    a_single_write_gives_the_item_before(&*store).await;
    a_refusal_gives_the_item_and_changes_nothing(&*store).await;
    several_updates_are_all_or_nothing(&*store).await;
    several_updates_under_one_token_are_applied_once(&*store).await;
    conditions_mean_what_the_domain_says(&*store).await;
    an_item_stands_in_an_index_exactly_while_it_has_both_keys(&*store).await;
    a_query_is_oldest_first_and_bounded(&*store).await;
    a_query_of_all_datasets_gives_each_ones_entries_oldest_first(&*store).await;
    items_come_whole_where_no_prefix_is_asked_for(&*store).await;
    partitions_come_in_the_order_of_their_names(&*store).await;
    items_come_in_the_order_of_their_sort_keys(&*store).await;
    any_sequence_of_writes_gives_the_items_of_the_domain(&*store).await;
    of_many_takers_one_gets_the_lock(store.clone()).await;
    marks_are_never_lost(store).await;
}

fn key(pk: &str, sk: &str) -> Key {
    Key { pk: pk.to_owned(), sk: sk.to_owned() }
}

fn set(key: &Key, name: &'static str, value: Value) -> Update {
    Update { key: key.clone(), conditions: vec![], changes: vec![Change::Set(name, value)] }
}

fn partition(n: usize) -> PartitionId {
    let dataset = DatasetName::new(format!("t{}", fresh())).unwrap();
    PartitionId { dataset, partition: PartitionName::new(format!("dt=2026-11-{n:02}")).unwrap() }
}

fn moment(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

async fn write(store: &dyn StateStore, updates: &[Update]) -> Written {
    store.write(updates, &fresh()).await.unwrap()
}

async fn item(store: &dyn StateStore, key: &Key) -> Option<Item> {
    store.read(std::slice::from_ref(key)).await.unwrap().remove(0)
}

async fn applied(store: &dyn StateStore, updates: &[Update]) -> Option<Item> {
    match write(store, updates).await {
        Written::Applied { before } => before,
        Written::Refused(refusals) => panic!("{updates:?} was refused: {refusals:?}"),
    }
}

/// `read` answers in the order of its keys, with every write acknowledged before it, and `None` for an absent item.
pub async fn reads_in_the_order_of_keys(store: &dyn StateStore) {
    let pk = fresh();
    let keys: Vec<Key> = (0..100).rev().map(|n| key(&pk, &format!("S{n:03}"))).collect();
    for key in keys.iter().step_by(2) {
        applied(store, &[set(key, "name", key.sk.clone().into())]).await;
    }
    let read = store.read(&keys).await.unwrap();
    assert_eq!(read.len(), keys.len(), "one answer per key");
    for (n, (key, item)) in keys.iter().zip(read).enumerate() {
        let expected = n.is_multiple_of(2).then(|| Item::from([("name".to_owned(), Value::from(key.sk.clone()))]));
        assert_eq!(item, expected, "the answer for {key:?}, number {n} of 100");
    }
    assert_eq!(store.read(&[]).await.unwrap(), vec![], "no keys, no items");
}

/// Values of every kind come back as they were written; `pk` and `sk` are no attributes.
pub async fn values_come_back_as_they_were(store: &dyn StateStore) {
    let key = key(&fresh(), "values");
    let values = [
        ("text", json!("quotes \" ' and \\, a newline \n, ü and 🦀")),
        ("empty", json!("")),
        ("zero", json!(0)),
        ("greatest", json!(i64::MAX)),
        ("least", json!(i64::MIN)),
        ("yes", json!(true)),
        ("no", json!(false)),
        ("list", json!(["a", 1, false, [], {}])),
        ("object", json!({"id": "x", "deep": {"list": [1, 2], "empty": {}}, "text": ""})),
    ];
    let changes = values.iter().map(|(name, value)| Change::Set(name, value.clone())).collect();
    applied(store, &[Update { key: key.clone(), conditions: vec![], changes }]).await;
    let expected: Item = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    assert_eq!(item(store, &key).await, Some(expected));
}

/// A single update tells the item as it was; `None` where it didn't exist.
pub async fn a_single_write_gives_the_item_before(store: &dyn StateStore) {
    let key = key(&fresh(), "before");
    assert_eq!(applied(store, &[set(&key, "n", 1.into())]).await, None, "an item that didn't exist has no before");
    let before = applied(store, &[set(&key, "n", 2.into())]).await;
    assert_eq!(before, Some(Item::from([("n".to_owned(), 1.into())])), "the item before the second write");
}

/// Where a condition fails, the item that failed it is told, nothing is written, and an absent item is told as empty.
pub async fn a_refusal_gives_the_item_and_changes_nothing(store: &dyn StateStore) {
    let key = key(&fresh(), "refused");
    let mut update = set(&key, "n", 2.into());
    update.conditions = vec![Condition::Equals("n", 1.into())];
    assert_eq!(write(store, std::slice::from_ref(&update)).await, Written::Refused(vec![Some(Item::new())]));
    assert_eq!(item(store, &key).await, None, "a refused write makes no item");
    applied(store, &[set(&key, "n", 7.into())]).await;
    let found = Item::from([("n".to_owned(), 7.into())]);
    assert_eq!(write(store, &[update]).await, Written::Refused(vec![Some(found.clone())]));
    assert_eq!(item(store, &key).await, Some(found), "a refused write changes nothing");
}

/// Several updates are applied together or not at all, and a refusal says which of them failed.
pub async fn several_updates_are_all_or_nothing(store: &dyn StateStore) {
    let (a, b) = (key(&fresh(), "a"), key(&fresh(), "b"));
    let before = applied(store, &[set(&a, "n", 1.into()), set(&b, "n", 1.into())]).await;
    assert_eq!(before, None, "several updates tell no item before");
    let mut refused = set(&b, "n", 2.into());
    refused.conditions = vec![Condition::Absent("n")];
    let one = Item::from([("n".to_owned(), 1.into())]);
    let written = write(store, &[set(&a, "n", 2.into()), refused]).await;
    assert_eq!(written, Written::Refused(vec![None, Some(one.clone())]), "only the update whose condition failed");
    assert_eq!(item(store, &a).await, Some(one.clone()), "the other update wasn't applied");
    assert_eq!(item(store, &b).await, Some(one));
}

/// Several updates sent again under their token are applied once, and the answer is again that they were.
pub async fn several_updates_under_one_token_are_applied_once(store: &dyn StateStore) {
    let (a, b) = (key(&fresh(), "a"), key(&fresh(), "b"));
    let add = |key: &Key| Update { key: key.clone(), conditions: vec![], changes: vec![Change::Add("n", 1)] };
    let token = fresh();
    for _ in 0..3 {
        let written = store.write(&[add(&a), add(&b)], &token).await.unwrap();
        assert!(matches!(written, Written::Applied { .. }), "sent again under its token: {written:?}");
    }
    let once = Some(Item::from([("n".to_owned(), 1.into())]));
    assert_eq!(item(store, &a).await, once, "applied once under one token");
    applied(store, &[add(&a), add(&b)]).await;
    let twice = Some(Item::from([("n".to_owned(), 2.into())]));
    assert_eq!(item(store, &b).await, twice, "another token is another write");
}

/// Each condition holds exactly where [`Condition::holds`] says so.
pub async fn conditions_mean_what_the_domain_says(store: &dyn StateStore) {
    let (present, absent) = (key(&fresh(), "present"), key(&fresh(), "absent"));
    let changes = vec![
        Change::Set("n", 5.into()),
        Change::Set("text", "x".into()),
        Change::Set("object", json!({"a": [1], "b": "c"})),
    ];
    applied(store, &[Update { key: present.clone(), conditions: vec![], changes }]).await;
    let conditions = [
        Condition::Equals("n", 5.into()),
        Condition::Equals("n", "5".into()),
        Condition::Equals("object", json!({"b": "c", "a": [1]})),
        Condition::Equals("object", json!({"b": "c"})),
        Condition::Equals("none", 5.into()),
        Condition::Exists("text"),
        Condition::Exists("none"),
        Condition::Absent("text"),
        Condition::Absent("none"),
        Condition::Less("n", 5),
        Condition::Less("n", 6),
        Condition::Less("none", 6),
        Condition::Less("text", 6),
        Condition::Greater("n", 5),
        Condition::Greater("n", 4),
        Condition::Greater("none", -1),
        Condition::Any(vec![Condition::Absent("n"), Condition::Less("n", 6)]),
        Condition::Any(vec![Condition::Absent("n"), Condition::Less("n", 5)]),
        Condition::Any(vec![Condition::Exists("n")]),
    ];
    for key in [&present, &absent] {
        let now = item(store, key).await;
        for condition in &conditions {
            let never = Condition::Equals("never", fresh().into());
            let holds = condition.holds(&now.clone().unwrap_or_default());
            // Never applied, so that the item stays: the second update is refused, the first exactly where it doesn't hold.
            let guard =
                Update { key: Key { sk: "guard".into(), ..key.clone() }, conditions: vec![never], changes: vec![] };
            let asks = Update {
                key: key.clone(),
                conditions: vec![condition.clone()],
                changes: vec![Change::Set("written", true.into())],
            };
            let guard = Update { changes: vec![Change::Set("written", true.into())], ..guard };
            match write(store, &[asks, guard]).await {
                Written::Refused(refusals) => {
                    assert_eq!(refusals[0].is_none(), holds, "{condition:?} on {now:?}");
                }
                Written::Applied { .. } => panic!("applied although a condition fails"),
            }
        }
    }
}

/// A sparse index holds an item exactly while it has hash and range key, at the time of its range key.
pub async fn an_item_stands_in_an_index_exactly_while_it_has_both_keys(store: &dyn StateStore) {
    let id = partition(1);
    let marked = moment(0);
    let entry = |at: Timestamp| vec![DueEntry { id: id.clone(), at }];
    assert_index(store, Index::Due, &id.dataset, vec![]).await;
    applied(store, &[writes::mark(&id, 0, marked)]).await;
    assert_index(store, Index::Due, &id.dataset, entry(marked + writes::WAKE_AFTER)).await;
    applied(store, &[writes::wake(&id, marked + writes::WAKE_AFTER, moment(600))]).await;
    assert_index(store, Index::Due, &id.dataset, entry(moment(600) + writes::WAKE_AFTER)).await;
    let key = PartitionItem::key(&id);
    let changes = vec![
        Change::Remove("work"),
        Change::Remove("due_at"),
        Change::Set("parked_work", id.dataset.as_str().into()),
        Change::Set("parked_since", moment(700).as_millisecond().into()),
    ];
    applied(store, &[Update { key, conditions: vec![], changes }]).await;
    assert_index(store, Index::Due, &id.dataset, vec![]).await;
    assert_index(store, Index::Parked, &id.dataset, entry(moment(700))).await;
    applied(store, &[writes::mark(&id, 0, moment(800))]).await;
    assert_index(store, Index::Parked, &id.dataset, vec![]).await;
    assert_index(store, Index::Due, &id.dataset, entry(moment(800) + writes::WAKE_AFTER)).await;
}

/// Indexes may lag, so the answer is asked for a few times.
async fn assert_index(store: &dyn StateStore, index: Index, dataset: &DatasetName, expected: Vec<DueEntry>) {
    let mut found = vec![];
    for _ in 0..1_000 {
        found = store.query(index, Some(dataset), moment(0)..=moment(1_000_000), 10).await.unwrap();
        if found == expected {
            return;
        }
    }
    assert_eq!(found, expected, "entries of {index:?}");
}

/// A query gives a dataset's own entries, oldest first, not later than asked, at most as many as asked.
pub async fn a_query_is_oldest_first_and_bounded(store: &dyn StateStore) {
    let dataset = partition(1).dataset;
    let other = partition(1);
    let at = [50, 10, 40, 20, 30];
    for (n, seconds) in at.iter().enumerate() {
        let partition = PartitionName::new(format!("dt=2026-11-{:02}/hour=0{n}", n + 1)).unwrap();
        let id = PartitionId { dataset: dataset.clone(), partition };
        applied(store, &[writes::mark(&id, 0, moment(*seconds) - writes::WAKE_AFTER)]).await;
    }
    applied(store, &[writes::mark(&other, 0, moment(0))]).await;
    let between = async |from, until, limit| -> Vec<i64> {
        let entries = store.query(Index::Due, Some(&dataset), from..=until, limit).await.unwrap();
        entries.iter().map(|entry| entry.at.duration_since(moment(0)).as_secs()).collect()
    };
    let times = async |until, limit| between(Timestamp::UNIX_EPOCH, until, limit).await;
    let mut settled = times(moment(1_000), 10).await;
    for _ in 0..1_000 {
        if settled.len() < at.len() {
            settled = times(moment(1_000), 10).await;
        }
    }
    assert_eq!(settled, [10, 20, 30, 40, 50], "oldest first, and nothing of another dataset");
    assert_eq!(times(moment(30), 10).await, [10, 20, 30], "not later than `until`, which is included");
    assert_eq!(times(moment(1_000), 2).await, [10, 20], "at most `limit`");
    assert_eq!(times(moment(9), 10).await, [0_i64; 0], "nothing is due yet");
    assert_eq!(between(moment(20), moment(40), 10).await, [20, 30, 40], "both ends are included");
}

/// A query of no dataset gives the entries of all, each dataset's oldest first; where there are more than `limit`, just as many.
pub async fn a_query_of_all_datasets_gives_each_ones_entries_oldest_first(store: &dyn StateStore) {
    let datasets = [partition(1).dataset, partition(1).dataset];
    for dataset in &datasets {
        for (n, seconds) in [50, 10, 40].into_iter().enumerate() {
            let name = PartitionName::new(format!("dt=2026-11-0{}", n + 1)).unwrap();
            let id = PartitionId { dataset: dataset.clone(), partition: name };
            applied(store, &[writes::mark(&id, 0, moment(seconds) - writes::WAKE_AFTER)]).await;
        }
    }
    let ever = || Timestamp::UNIX_EPOCH..=Timestamp::MAX;
    for dataset in &datasets {
        let of_dataset = async |within| -> Vec<i64> {
            let all = store.query(Index::Due, None, within, 100_000).await.unwrap();
            let ours = all.iter().filter(|entry| entry.id.dataset == *dataset);
            ours.map(|entry| entry.at.duration_since(moment(0)).as_secs()).collect()
        };
        let mut found = vec![];
        for _ in 0..1_000 {
            found = of_dataset(ever()).await;
            if found.len() == 3 {
                break;
            }
        }
        assert_eq!(found, [10, 40, 50]);
        assert_eq!(of_dataset(moment(10)..=moment(40)).await, [10, 40], "both ends are included");
    }
    assert_eq!(store.query(Index::Due, None, ever(), 4).await.unwrap().len(), 4, "at most `limit`");
}

/// `items` gives what has this key and prefix and nothing else, in the order of sort keys, page by page.
pub async fn items_come_in_the_order_of_their_sort_keys(store: &dyn StateStore) {
    let pk = format!("SWEEP-{}", fresh());
    let names = ["CURSOR#a", "CURSOR#b", "CURSOR#b#c", "CURSOR#é"];
    for sk in names.iter().rev().chain(&["CURSOR", "CURSOR$", "OTHER#a"]) {
        applied(store, &[set(&key(&pk, sk), "n", 1.into())]).await;
    }
    for limit in [1, 3, 10] {
        let (mut found, mut after) = (vec![], None);
        loop {
            let page = store.items(&pk, "CURSOR#", after.as_deref(), limit).await.unwrap();
            assert!(page.iter().all(|(_, item)| item.get("n") == Some(&1.into())));
            found.extend(page.iter().map(|(sk, _)| sk.clone()));
            after = page.last().map(|(sk, _)| sk.clone());
            if page.len() < limit {
                break;
            }
        }
        assert_eq!(found, names, "{limit} a page");
    }
}

/// `items` without a prefix gives all of a partition key, page by page.
pub async fn items_come_whole_where_no_prefix_is_asked_for(store: &dyn StateStore) {
    let pk = format!("JOBS-{}", fresh());
    let names = ["!", "CURSOR#a", "orders#1", "z", "é", "\u{10000}"];
    for name in names.iter().rev() {
        applied(store, &[set(&key(&pk, name), "n", 1.into())]).await;
    }
    for limit in [1, 4, 100] {
        let (mut found, mut after) = (vec![], None);
        loop {
            let page = store.items(&pk, "", after.as_deref(), limit).await.unwrap();
            found.extend(page.iter().map(|(sk, _)| sk.clone()));
            after = page.last().map(|(sk, _)| sk.clone());
            if page.len() < limit {
                break;
            }
        }
        assert_eq!(found, names, "{limit} a page");
    }
}

/// `partitions` gives a dataset's partition items and nothing else of it, in the order of names, page by page.
pub async fn partitions_come_in_the_order_of_their_names(store: &dyn StateStore) {
    let dataset = partition(1).dataset;
    let names = ["Z", "a", "dt=2026-11-01", "dt=2026-11-02", "dt=2026-11-02/hour=7", "z", "é", "\u{fffd}", "\u{10000}"];
    for name in names.iter().rev() {
        let id = PartitionId { dataset: dataset.clone(), partition: PartitionName::new(*name).unwrap() };
        applied(store, &[writes::mark(&id, 0, moment(0))]).await;
    }
    for sk in ["DEFINITION", "BATCH#1", "PARTITIONS", "Q"] {
        applied(store, &[set(&key(&format!("DATASET#{dataset}"), sk), "n", 1.into())]).await;
    }
    for limit in [1, 2, names.len(), 100] {
        let (mut found, mut after) = (vec![], None);
        loop {
            let page = store.partitions(&dataset, after.as_ref(), limit).await.unwrap();
            assert!(page.len() <= limit, "at most {limit} a page");
            for (name, item) in &page {
                assert_eq!(item.get("marked"), Some(&1.into()), "the item of {name}");
            }
            found.extend(page.iter().map(|(name, _)| name.to_string()));
            after = page.last().map(|(name, _)| name.clone());
            if page.len() < limit {
                break;
            }
        }
        assert_eq!(found, names, "all partitions in the order of their names' bytes, {limit} a page");
    }
}

/// Whatever the protocol writes, in whatever order, the store holds what [`Update::apply`] makes of it.
pub async fn any_sequence_of_writes_gives_the_items_of_the_domain(store: &dyn StateStore) {
    for seed in 1..=10 {
        let ids = [partition(1), partition(2)];
        let mut model: BTreeMap<Key, Item> = BTreeMap::new();
        let mut chance = Chance(seed);
        let mut told = vec![];
        for step in 0..30 {
            let id = &ids[chance.below(2)];
            let key = PartitionItem::key(id);
            let update = any_write(&mut chance, id, model.get(&key), moment(step));
            told.push(update.clone());
            let expected = update.apply(model.get(&key));
            match (write(store, std::slice::from_ref(&update)).await, &expected) {
                (Written::Applied { before }, Some(_)) => {
                    assert_eq!(before.as_ref(), model.get(&key), "seed {seed}: the item before, after {told:#?}");
                }
                (Written::Refused(refusals), None) => {
                    let found = model.get(&key).cloned().unwrap_or_default();
                    assert_eq!(refusals, vec![Some(found)], "seed {seed}: the refusal, after {told:#?}");
                }
                (written, _) => panic!("seed {seed}: the store says {written:?}, the domain {expected:?}: {told:#?}"),
            }
            if let Some(after) = expected {
                model.insert(key.clone(), after);
            }
            assert_eq!(item(store, &key).await, model.get(&key).cloned(), "seed {seed}: the item, after {told:#?}");
        }
    }
}

/// A write of the protocol that may or may not apply to the item as it is.
fn any_write(chance: &mut Chance, id: &PartitionId, item: Option<&Item>, now: Timestamp) -> Update {
    let read = item.and_then(|item| PartitionItem::from_item(item).ok());
    // Now and then as seen by a worker that was overtaken.
    let fence = |item: &PartitionItem, stale: bool| if stale { tidemark_domain::id::Fence(9_999) } else { item.fence };
    let stale = chance.below(4) == 0;
    let Some(read) = read.filter(|_| chance.below(5) > 0) else {
        return writes::mark(id, chance.below(3) as u64, now);
    };
    let (choice, other) = (chance.below(7), chance.below(9));
    match (choice, &read.batch) {
        (0, _) => writes::replay(id, Some(read.marked), &Replay { force: other < 5, ..Replay::default() }, now),
        (1, _) => writes::put_off(id, fence(&read, stale), now + SignedDuration::from_mins(1)),
        (2, _) => writes::wake(id, read.due_at.filter(|_| !stale).unwrap_or(now), now),
        (3, _) => writes::leave(id, &read),
        (_, None) => writes::take(id, &read, &batch(other), false, now),
        (4, Some(held)) => {
            let taken = Taken { fence: fence(&read, stale), batch: held.clone() };
            writes::restored(id, &taken, read.marked, read.marked, read.fence, now)
        }
        // Now and then a copy of an earlier write, which knows another batch.
        (_, Some(held)) => {
            let held = if stale { batch(other + 1) } else { held.clone() };
            writes::record(id, &Taken { fence: read.fence, batch: held }, &batch(other))
        }
    }
}

/// One of several batches, with all that a stored map may nest.
fn batch(n: usize) -> Batch {
    let statement = json!({"token": "t", "submitted_at": 1_790_000_000_000_i64});
    let mut stored = json!({
        "id": uuid::Uuid::from_u128(7), "fence": 1, "covers": 1, "phase": "staging", "definition": "d", "epoch": 0,
        "began_at": 1_790_000_000_000_i64, "statement_timeout_seconds": 1_800, "removed": -1, "spent_seconds": n, "attempt": 1,
    });
    if n.is_multiple_of(2) {
        stored["statement"] = statement;
        stored["accept"] = json!({"kinds": ["row_drop"], "digest": "ä"});
    }
    serde_json::from_value(stored).unwrap_or_else(|error| panic!("a stored batch: {error}"))
}

/// A small generator of numbers that a seed repeats.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap_or(0) % bound
    }
}

/// Of many who take a free lock at once, one gets it; after its release, one again. A lease that is over gives it to one.
pub async fn of_many_takers_one_gets_the_lock(store: Arc<dyn StateStore>) {
    let id = partition(1);
    let scope = Scope::of(&id, Concurrency::Partition);
    for round in 0..ROUNDS {
        let now = moment(i64::try_from(round).unwrap() * 100);
        let racers: Vec<_> = (0..RACERS)
            .map(|racer| {
                let (store, scope) = (store.clone(), scope.clone());
                tokio::spawn(async move {
                    let holder = format!("{racer}-{}", fresh());
                    let update = scope.acquire(&holder, now, now + SignedDuration::from_secs(60));
                    // Half of them as a take does: the lock and another item in one transaction.
                    let other = set(&key(&fresh(), "taken"), "by", holder.clone().into());
                    let updates = if racer % 2 == 0 { vec![update] } else { vec![update, other] };
                    matches!(write(&*store, &updates).await, Written::Applied { .. }).then_some(holder)
                })
            })
            .collect();
        let mut winners = vec![];
        for racer in racers {
            winners.extend(racer.await.unwrap());
        }
        assert_eq!(winners.len(), 1, "round {round}: who got the lock: {winners:?}");
        let stored = item(&*store, &scope.key()).await.unwrap();
        assert_eq!(stored["holder"], json!(winners[0]), "round {round}: the winner holds the lock");
        // In even rounds it is given back; in odd ones its lease is over before the next.
        if round % 2 == 0 {
            applied(&*store, &[scope.release(&winners[0])]).await;
        }
    }
}

/// Marks that come at once all count, and exactly one of them finds the partition at rest.
pub async fn marks_are_never_lost(store: Arc<dyn StateStore>) {
    let id = partition(1);
    let marks: Vec<_> = (0..RACERS)
        .map(|_| {
            let (store, id) = (store.clone(), id.clone());
            tokio::spawn(async move { applied(&*store, &[writes::mark(&id, 1, moment(0))]).await })
        })
        .collect();
    let mut first = 0;
    for mark in marks {
        let before = mark.await.unwrap();
        first += usize::from(!before.is_some_and(|before| before.contains_key("due_at")));
    }
    let stored = PartitionItem::from_item(&item(&*store, &PartitionItem::key(&id)).await.unwrap()).unwrap();
    assert_eq!((stored.marked.0, stored.removed), (16, 16), "every mark counts");
    assert_eq!(first, 1, "one mark turned the partition dirty");
}
