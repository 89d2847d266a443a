//! The eye: holds the invariants against every write and every commit, as they happen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use tidemark_domain::definition::TableName;
use tidemark_domain::id::{BatchId, Digest, Fence, Generation};
use tidemark_domain::invariants::{self, Broken};
use tidemark_domain::partition::{Committed, PartitionItem};
use tidemark_domain::sql::rows::Field;
use tidemark_domain::update::{Item, Key};
use tidemark_engine::memory::{End, Ending, ManualClock, MemoryState, MemoryWarehouse};
use tidemark_engine::ports::{Clock as _, Execution, ExecutionStatus};

use crate::chaos::Scene;
use crate::reached::Kind;

/// The Data API forgets a token after this long.
const TOKEN_KEPT: SignedDuration = SignedDuration::from_hours(8);

const A_MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// A row of the ledger.
pub type Row = BTreeMap<String, Field>;

/// Sees everything, touches nothing. Clones are the same eye.
#[derive(Clone)]
pub struct Eye {
    clock: ManualClock,
    state: MemoryState,
    warehouse: MemoryWarehouse,
    target: TableName,
    scene: Scene,
    /// Rows of the target are compared at every look; otherwise only when the ledger grew.
    closely: bool,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    broken: Option<String>,
    ledger: BTreeMap<String, Vec<Committed>>,
    rows: usize,
    endings: usize,
    target: BTreeMap<String, Vec<String>>,
    sent: BTreeMap<String, Sent>,
    /// The items as they were last seen.
    items: BTreeMap<String, PartitionItem>,
    /// Partitions let go with anything to do, since their dataset is retired; a mark has them again.
    let_go: BTreeSet<String>,
    /// Partitions that may differ from the ledger since something was restored, until they are seen to agree at rest.
    differ: BTreeSet<String>,
    /// The newest generation of each that was to be rebuilt for real.
    forced: BTreeMap<String, Generation>,
    /// The same when something was restored, where that was built: what had built it may be gone, and nobody asks again.
    forced_before: BTreeMap<String, Generation>,
}

/// The newest request of a batch and phase.
struct Sent {
    token: String,
    at: Timestamp,
    id: Option<String>,
    /// A worker was told that it ended.
    over: bool,
    /// Tokens before it.
    earlier: Vec<String>,
}

impl Eye {
    /// An eye on these.
    pub fn new(
        clock: &ManualClock,
        state: &MemoryState,
        warehouse: &MemoryWarehouse,
        target: &TableName,
        scene: &Scene,
        closely: bool,
    ) -> Self {
        let (clock, state, warehouse) = (clock.clone(), state.clone(), warehouse.clone());
        let (target, scene) = (target.clone(), scene.clone());
        Self { clock, state, warehouse, target, scene, closely, seen: Arc::default() }
    }

    /// What doesn't hold, if anything: the first that was seen.
    pub fn broken(&self) -> Option<String> {
        self.lock().broken.clone()
    }

    /// Looks at what was committed since the last look: I1, I2, I5, I10, and I4 of the partitions it concerns.
    pub fn look(&self) {
        let mut seen = self.lock();
        let endings = self.warehouse.endings_after(seen.endings);
        seen.endings += endings.len();
        endings.iter().flat_map(reached_by).for_each(|kind| self.scene.reach(kind));
        let fresh = self.warehouse.ledger_after(seen.rows);
        if fresh.is_empty() && !self.closely {
            return;
        }
        seen.rows += fresh.len();
        let target = self.warehouse.rows(&self.target);
        let mut of: BTreeMap<String, i64> = BTreeMap::new();
        for row in &fresh {
            let (partition, committed) = (text(row, "partition_name"), committed(row));
            let ledger = seen.ledger.entry(partition.clone()).or_default();
            let ordered = invariants::commits_in_order(ledger.iter().map(|row| row.fence), committed.fence);
            ledger.push(committed);
            seen.hold(ordered, || format!("{partition} commits"));
            of.insert(partition, number(row, "inserted_rows"));
        }
        let conditions: BTreeSet<&String> = seen.target.keys().chain(target.keys()).collect();
        let changed = |condition: &&&String| seen.target.get(**condition) != target.get(**condition);
        let strays = conditions.iter().filter(changed).filter(|condition| !of.contains_key(&partition_of(condition)));
        let strays: Vec<String> = strays.map(|condition| (*condition).clone()).collect();
        if !strays.is_empty() {
            seen.say(format!("I10, I5: rows of {strays:?} changed, and no batch of theirs is in the ledger"));
        }
        for (condition, rows) in &target {
            if let Some(told) = of.get(&partition_of(condition))
                && usize::try_from(*told).ok() != Some(rows.len())
            {
                seen.say(format!("I5: {condition} holds {} rows, its ledger row says {told}", rows.len()));
            }
        }
        seen.target = target;
        for partition in of.keys() {
            self.hold_item(&mut seen, partition);
        }
    }

    /// Looks at the items that a write touched: I4 to I8.
    pub fn written<'a>(&self, keys: impl Iterator<Item = &'a Key>) {
        self.look();
        let mut seen = self.lock();
        for partition in keys.filter_map(|key| key.sk.strip_prefix("PARTITION#")) {
            self.hold_item(&mut seen, partition);
        }
    }

    /// Something was restored: what was committed is what is there, items may say otherwise, and nothing runs.
    pub fn restored(&self) {
        let mut seen = self.lock();
        let rows = self.warehouse.ledger();
        seen.rows = rows.len();
        seen.target = self.warehouse.rows(&self.target);
        seen.forced.clear();
        seen.sent.clear();
        let built = |item: &PartitionItem| item.forced.filter(|forced| *forced <= item.built);
        seen.forced_before = seen.items.iter().filter_map(|(name, item)| Some((name.clone(), built(item)?))).collect();
        let mut differ: BTreeSet<String> = seen.ledger.keys().chain(seen.items.keys()).cloned().collect();
        seen.differ.append(&mut differ);
        seen.ledger.clear();
        for row in &rows {
            seen.ledger.entry(text(row, "partition_name")).or_default().push(committed(row));
        }
    }

    /// Whether the dataset is retired, or back without its marks: whoever read it as retired may still let a partition go.
    fn retired(&self) -> bool {
        let head = Key { pk: "DATASET#orders".to_owned(), sk: "DEFINITION".to_owned() };
        let retired = |head: &Item| head.get("mode").and_then(|mode| mode.as_str()) == Some("retired");
        self.state.item(&head).is_some_and(|head| retired(&head) || head.contains_key("owes_marks"))
    }

    fn hold_item(&self, seen: &mut Seen, partition: &str) {
        let key = Key { pk: "DATASET#orders".to_owned(), sk: format!("PARTITION#{partition}") };
        let Some(item) = self.state.item(&key) else { return };
        let item = match PartitionItem::from_item(&item) {
            Ok(item) => item,
            Err(error) => return seen.say(format!("{partition} can't be read: {error}")),
        };
        let ledger = seen.ledger.get(partition).cloned().unwrap_or_default();
        let newest = ledger.iter().max_by_key(|row| row.fence).map(|row| row.batch);
        let told = || format!("{partition}: {item:?}");
        if self.retired() {
            seen.let_go.insert(partition.to_owned());
        } else if item.due_at.is_some() {
            seen.let_go.remove(partition);
        }
        if !seen.let_go.contains(partition) {
            seen.hold(invariants::due_if_work(&item), told);
            seen.hold(invariants::mark_wakes(&item), told);
        }
        let as_in_ledger = invariants::last_is_newest(&item, newest)
            .and_then(|()| item.last.as_ref().map_or(Ok(()), |last| invariants::committed_once(last, &ledger)));
        if as_in_ledger.is_ok() && (item.at_rest() || item.rests_parked()) {
            seen.differ.remove(partition);
        }
        let differs = seen.differ.contains(partition);
        if !differs {
            seen.hold(as_in_ledger, told);
        }
        if let Some(batch) = &item.batch {
            seen.hold(invariants::lists_after_mark(batch.covers, item.marked), told);
        }
        let before = seen.forced_before.get(partition).copied();
        let forced = seen.forced.entry(partition.to_owned()).or_default();
        *forced = item.forced.filter(|forced| Some(*forced) > before).unwrap_or_default().max(*forced);
        let (forced, built) = (*forced, ledger.iter().map(|row| row.generation).max().unwrap_or_default());
        if !differs {
            seen.hold(invariants::forced_is_real(&item, forced, built), told);
        }
        if let Some(before) = seen.items.insert(partition.to_owned(), item.clone()) {
            for kind in reached_between(&before, &item) {
                self.scene.reach(kind);
            }
        }
    }

    /// A request goes out: I9, and I11 for a COPY. A zombie may send an earlier one again, however late: under the token that it had.
    pub fn sends(&self, name: &str, token: &str) {
        if !["/fence", "/stage", "/swap"].iter().any(|suffix| name.ends_with(suffix)) {
            return;
        }
        let now = self.clock.now();
        let mut seen = self.lock();
        if let Some(sent) = seen.sent.get(name) {
            if sent.token == token || sent.earlier.iter().any(|earlier| earlier == token) {
                return;
            }
            let unknown = !sent.over && now.duration_since(sent.at) < TOKEN_KEPT;
            let holds = invariants::token_is_due(unknown).and(invariants::copied_once(if unknown { 2 } else { 1 }));
            let told = if name.ends_with("/stage") { "I11, " } else { "" };
            seen.hold(holds, || format!("{told}{name} goes out again under another token"));
        }
        let mut earlier = vec![];
        if let Some(sent) = seen.sent.remove(name) {
            earlier = sent.earlier;
            earlier.push(sent.token);
        }
        let sent = Sent { token: token.to_owned(), at: now, id: None, over: false, earlier };
        seen.sent.insert(name.to_owned(), sent);
    }

    /// A worker is told how its request stands; as it was sent, its name and token.
    pub fn told(&self, request: Option<(&str, &str)>, execution: &Execution) {
        let mut seen = self.lock();
        if let Some((name, token)) = request
            && let Some(sent) = seen.sent.get_mut(name).filter(|sent| sent.token == token)
        {
            sent.id = Some(execution.id.clone());
        }
        if execution.status != ExecutionStatus::Running {
            let this = |sent: &&mut Sent| sent.id.as_ref() == Some(&execution.id);
            seen.sent.values_mut().filter(this).for_each(|sent| sent.over = true);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn hold(&mut self, holds: invariants::Holds, told: impl FnOnce() -> String) {
        if let Err(broken) = holds {
            self.say(format!("{}: {}", Broken::id(broken), told()));
        }
    }

    fn say(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }
}

/// What an execution's end is counted as.
fn reached_by(ending: &Ending) -> Vec<Kind> {
    let mut kinds = vec![];
    if ending.took > A_MINUTE {
        kinds.push(Kind::StatementLong);
    }
    kinds.extend(match &ending.end {
        End::Fail(_) => Some(Kind::StatementFailed),
        End::RunButFail(_) => Some(Kind::StatementLied),
        End::Run => None,
    });
    if ending.name.ends_with("/swap") {
        let says = |word: &str| ending.error.as_ref().is_some_and(|error| error.contains(word));
        kinds.extend(says("TIDEMARK-SUPERSEDED").then_some(Kind::ShutOutByFence));
        kinds.extend(says("TIDEMARK-EPOCH").then_some(Kind::ShutOutByEpoch));
    }
    kinds
}

/// What a change of an item is counted as.
fn reached_between(before: &PartitionItem, after: &PartitionItem) -> Vec<Kind> {
    let (was, is) = (before.batch.as_ref(), after.batch.as_ref());
    let last = |item: &PartitionItem| item.last.as_ref().map(|last| last.batch);
    let taken = after.fence > before.fence;
    let looked = before.unresolved && !after.unresolved;
    [
        (!before.unresolved && after.unresolved, Kind::SwapOut),
        (looked && last(before) != last(after), Kind::FoundByLook),
        (looked && last(before) == last(after), Kind::NotFoundByLook),
        (taken && was.zip(is).is_some_and(|(was, is)| was.id == is.id), Kind::Continued),
        (before.parked.is_none() && after.parked.is_some(), Kind::Parked),
        (before.due_at.is_some() && after.due_at.is_none() && !after.at_rest() && !after.rests_parked(), Kind::LetGo),
    ]
    .into_iter()
    .filter_map(|(reached, kind)| reached.then_some(kind))
    .collect()
}

/// A target's condition as the partition's name.
pub fn partition_of(condition: &str) -> String {
    condition.replace("\"dt\" = DATE '", "dt=").replace('\'', "")
}

/// A column of text.
pub fn text(row: &Row, column: &str) -> String {
    match row.get(column) {
        Some(Field::Text(text)) => text.clone(),
        other => format!("{other:?}"),
    }
}

/// A column of numbers.
pub fn number(row: &Row, column: &str) -> i64 {
    match row.get(column) {
        Some(Field::Long(number)) => *number,
        _ => -1,
    }
}

fn committed(row: &Row) -> Committed {
    let unsigned = |column: &str| u64::try_from(number(row, column)).unwrap_or(u64::MAX);
    Committed {
        batch: BatchId(text(row, "batch_id").parse().unwrap_or_default()),
        generation: Generation(unsigned("generation")),
        fence: Fence(unsigned("fence")),
        digest: Digest::stored(text(row, "digest")),
        inventory: text(row, "inventory_key"),
        rows: unsigned("target_rows"),
        took_seconds: 0,
        committed_at: Timestamp::UNIX_EPOCH,
    }
}
