//! The world of a night: a lake, a warehouse, the stack's queue and table, a dataset; and what must hold once all is at rest.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use jiff::civil::date;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use tidemark_domain::apply::{Hand, retire, store_catalog, store_head, store_version};
use tidemark_domain::dataset::{Head, Mode, catalog_key};
use tidemark_domain::definition::{Definition, parse};
use tidemark_domain::id::{DatasetName, DefinitionHash, Epoch, StackName};
use tidemark_domain::job::{JOBS, Job};
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::route::Catalog;
use tidemark_domain::sql::rebuild::CopyRole;
use tidemark_domain::update::Item;
use tidemark_engine::definitions::Definitions;
use tidemark_engine::inventory::Parts;
use tidemark_engine::memory::{
    ManualClock, MemoryAnnouncer, MemoryObjects, MemoryQueue, MemoryState, MemoryWarehouse, ObjectChange,
};
use tidemark_engine::ports::{Clock as _, Index, Objects as _, StateStore as _};
use tidemark_engine::{Engine, Ports, Settings};

use crate::chaos::Scene;
use crate::eye::{Eye, number, partition_of, text};
use crate::flaw::Flaw;
use crate::ports::{Chaotic, SkewedClock};
use crate::reached::Kind;
use crate::watched::{WatchedState, WatchedWarehouse};
use crate::workers::Worker;

/// The dataset, with the width of its amounts (which shapes rows) and its lock scope (which doesn't).
pub fn definition(width: u32, scope: &str) -> Definition {
    let toml = format!(
        r#"
[orders]
source = "s3://lake/orders/"
layout = "dt={{dt}}/"
format = "csv"
target = "sales.orders"
columns = ["order_id bigint", "amount decimal({width},2)"]
key = ["order_id"]
required = ["order_id", "amount"]
interval = "0s"
lookback = "2000d"
concurrency = "{scope}"

[orders.partition.dt]
type = "date"
column = "dt"
in_files = false

[orders.tolerance]
row_drop = "accept"
missing_objects = "accept"
empty_source = "delete"
"#
    );
    parse(&toml).unwrap().remove(0)
}

/// Waits for something that needs nobody else.
pub fn finish<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}

/// Everything there is.
pub struct World {
    /// Time.
    pub clock: ManualClock,
    /// The state table.
    pub state: MemoryState,
    /// S3.
    pub objects: MemoryObjects,
    /// Redshift.
    pub warehouse: MemoryWarehouse,
    /// The partitions queue.
    pub queue: MemoryQueue,
    /// Events and alerts.
    pub announcer: MemoryAnnouncer,
    /// The definition in force.
    pub definition: Definition,
    /// Every definition that was ever in force.
    pub definitions: BTreeMap<DefinitionHash, Definition>,
    /// The names of its partitions.
    pub partitions: Vec<String>,
    /// The events queue.
    pub events: VecDeque<String>,
    /// Whether a state table or warehouse was restored.
    pub restored: bool,
    /// Batches that a restore of the warehouse took away, though they had been told.
    pub lost: BTreeSet<String>,
    /// Batches that were committed and not told when the state table was restored: items may know nothing of them any more, so
    /// that one which another has followed is never told.
    forgotten: BTreeSet<String>,
    /// The newest epoch that the guard row ever had.
    pub epoch: Epoch,
    /// What workers share.
    pub scene: Scene,
    /// Who watches.
    pub eye: Eye,
    /// What warm workers have read of definitions.
    warm: Arc<Definitions>,
    watched_state: WatchedState,
    watched_warehouse: WatchedWarehouse,
}

impl World {
    /// A world of this many partitions.
    pub fn new(partitions: u32, definition: Definition, seed: u64, flaw: Option<Flaw>) -> Self {
        let clock = ManualClock::new(Timestamp::new(1_793_000_000, 987_654_321).unwrap(), seed);
        let objects = MemoryObjects::new(clock.clone(), &["lake", "control"]);
        let (state, warehouse) =
            (MemoryState::new(clock.clone()), MemoryWarehouse::new(clock.clone(), objects.clone()));
        let scene = Scene::default();
        let eye = Eye::new(&clock, &state, &warehouse, &definition.target, &scene, partitions <= 8);
        let first = date(2026, 1, 1);
        let mut world = Self {
            queue: MemoryQueue::new(clock.clone(), Duration::from_secs(30), Duration::from_mins(5)),
            announcer: MemoryAnnouncer::default(),
            definitions: BTreeMap::from([(definition.hash(), definition.clone())]),
            partitions: (0..partitions).map(|n| format!("dt={}", first + i64::from(n).days())).collect(),
            events: VecDeque::new(),
            restored: false,
            lost: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            epoch: Epoch(1),
            scene,
            warm: Arc::default(),
            watched_state: WatchedState { state: state.clone(), eye: eye.clone(), flaw, heads: Arc::default() },
            watched_warehouse: WatchedWarehouse {
                warehouse: warehouse.clone(),
                eye: eye.clone(),
                flaw,
                requests: Arc::default(),
            },
            eye,
            clock,
            state,
            objects,
            warehouse,
            definition,
        };
        world.own(Epoch(1));
        world.put_in_force(&world.definition, Epoch(1));
        world
    }

    /// Writes the guard row.
    pub fn own(&mut self, epoch: Epoch) {
        self.epoch = self.epoch.max(epoch);
        self.warehouse.prepare(&self.definition.target, &stack(), &self.definition.name, epoch).unwrap();
    }

    /// The dataset's head, if it has one.
    pub fn head(&self) -> Option<Head> {
        self.state.item(&Head::key(&self.definition.name)).map(|item| Head::from_item(&item).unwrap())
    }

    /// Stores a definition and puts it in force: version, head and catalog, as apply does.
    pub fn put_in_force(&self, definition: &Definition, epoch: Epoch) {
        let hand = Hand { by: "sim", now: self.clock.now() };
        let read = self.state.item(&catalog_key()).and_then(|item| Some(item.get("catalog")?.as_str()?.to_owned()));
        let catalog = serde_json::to_string(&Catalog::of([definition])).unwrap();
        let read_head = self.head();
        let returns = read_head.as_ref().is_some_and(|head| head.mode == Mode::Retired);
        let updates = [
            store_version(definition, &definition.hash()),
            store_head(definition, read_head.as_ref(), epoch, returns, hand),
            store_catalog(read.as_deref(), &catalog),
        ];
        finish(self.state.write(&updates, &self.clock.id().to_string())).unwrap();
    }

    /// The dataset is taken out of the file, as apply does it.
    pub fn retire(&self) {
        let Some(head) = self.head() else { return };
        let read = self.state.item(&catalog_key()).and_then(|item| Some(item.get("catalog")?.as_str()?.to_owned()));
        let gone = Catalog::default().after(&Catalog::of([&self.definition]));
        let gone = serde_json::to_string(&gone).unwrap();
        let hand = Hand { by: "sim", now: self.clock.now() };
        let updates = [retire(&self.definition.name, &head, hand), store_catalog(read.as_deref(), &gone)];
        finish(self.state.write(&updates, &self.clock.id().to_string())).unwrap();
    }

    /// Changes attributes of the dataset's head.
    pub fn set_head(&self, fields: &[(&str, serde_json::Value)]) {
        let key = Head::key(&self.definition.name);
        let mut item: Item = self.state.item(&key).unwrap();
        item.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        self.state.put(key, item);
    }

    /// Tidemark as a worker has it: with its luck, by its clock.
    pub fn engine(&self, worker: &Worker) -> Engine {
        let Worker { luck, skew, .. } = worker;
        let ports = Ports {
            state: Arc::new(Chaotic { port: self.watched_state.clone(), luck: luck.clone() }),
            objects: Arc::new(Chaotic { port: self.objects.clone(), luck: luck.clone() }),
            warehouse: Arc::new(Chaotic { port: self.watched_warehouse.clone(), luck: luck.clone() }),
            queue: Arc::new(Chaotic { port: self.queue.clone(), luck: luck.clone() }),
            announcer: Arc::new(Chaotic { port: self.announcer.clone(), luck: luck.clone() }),
            clock: Arc::new(SkewedClock { clock: self.clock.clone(), skew: *skew }),
        };
        let settings = Settings {
            stack: stack(),
            control_bucket: "control".into(),
            settle: SignedDuration::from_secs(30),
            lease_margin: SignedDuration::from_secs(20),
            copy_role: CopyRole::Default,
        };
        let engine = Engine::new(ports, settings);
        if worker.warm { Engine { definitions: self.warm.clone(), ..engine } } else { engine }
    }

    /// A file lands: a row a line.
    pub fn put(&mut self, name: &str, lines: &str) {
        let bytes = Bytes::copy_from_slice(lines.as_bytes());
        finish(self.objects.put("lake", &format!("orders/{name}"), bytes)).unwrap();
        self.send_events();
    }

    /// A file is deleted, if it is there.
    pub fn delete(&mut self, name: &str) {
        self.objects.delete("lake", &format!("orders/{name}"));
        self.send_events();
    }

    fn send_events(&mut self) {
        for change in self.objects.take_changes() {
            let (name, bucket, key) = match change {
                ObjectChange::Created { bucket, key } => ("ObjectCreated:Put", bucket, key),
                ObjectChange::Removed { bucket, key } => ("ObjectRemoved:Delete", bucket, key),
            };
            if bucket == "lake" {
                let key = key.replace('=', "%3D");
                let s3 = serde_json::json!({"bucket": {"name": bucket}, "object": {"key": key, "size": 1}});
                let record =
                    serde_json::json!({"eventVersion": "2.1", "eventSource": "aws:s3", "eventName": name, "s3": s3});
                self.events.push_back(serde_json::json!({"Records": [record]}).to_string());
            }
        }
    }

    /// What the index *due* holds.
    pub fn due(&self) -> Vec<String> {
        let query = self.state.query(Index::Due, Some(&self.definition.name), Timestamp::MIN..=Timestamp::MAX, 1_000);
        finish(query).unwrap().into_iter().map(|entry| entry.id.partition.to_string()).collect()
    }

    /// The partition items by partition.
    pub fn items(&self) -> BTreeMap<String, PartitionItem> {
        let items = self.state.items().into_iter();
        items
            .filter_map(|(key, item)| {
                Some((key.sk.strip_prefix("PARTITION#")?.to_owned(), PartitionItem::from_item(&item).unwrap()))
            })
            .collect()
    }

    /// Jobs that have still something to mark.
    pub fn open_jobs(&self) -> usize {
        let jobs = self.state.items().into_iter().filter(|(key, _)| key.pk == JOBS);
        jobs.filter(|(_, item)| Job::from_item(item).is_ok_and(|job| job.is_open())).count()
    }

    /// The batches in the ledger.
    pub(crate) fn committed(&self) -> BTreeSet<String> {
        self.warehouse.ledger().iter().map(|row| text(row, "batch_id")).collect()
    }

    /// Counts how what was restored was found.
    pub fn count_told(&self) {
        for alert in self.announcer.alerts() {
            if alert.subject == "restored: orders is rebuilt" {
                self.scene.reach(Kind::FoundByTidy);
            } else if alert.subject.starts_with("restored: orders dt=") {
                self.scene.reach(Kind::FoundByRebuild);
            }
        }
    }

    /// The rows that the lake's files hold: a multiset for each partition, counted without the product.
    fn lake(&self) -> BTreeMap<String, Vec<String>> {
        let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for key in self.objects.keys("lake") {
            let partition = key.split('/').nth(1).unwrap_or_default();
            let (bytes, _) = self.objects.object("lake", &key).unwrap();
            let lines = String::from_utf8_lossy(&bytes).into_owned();
            rows.entry(partition.to_owned()).or_default().extend(lines.lines().map(str::to_owned));
        }
        for rows in rows.values_mut() {
            rows.sort();
        }
        rows
    }

    /// At rest each partition that isn't parked holds the lake, by the definition in force, and its item says so.
    pub fn check_rest(&self, parked_is_fine: bool) -> Result<(), String> {
        let due = self.due();
        ensure(due.is_empty(), || format!("I6: {due:?} are due at rest"))?;
        let rows = self.warehouse.rows(&self.definition.target).into_iter();
        let rows: BTreeMap<String, Vec<String>> =
            rows.map(|(condition, rows)| (partition_of(&condition), rows)).collect();
        let lake = self.lake();
        let ledger = self.warehouse.ledger();
        for (partition, item) in self.items() {
            if item.rests_parked() {
                let (kind, message) = item.parked.as_ref().map(|p| (p.kind.clone(), p.message.clone())).unwrap();
                let fair = parked_is_fine && ["rejected_data", "too_slow", "stuck"].contains(&kind.as_str());
                ensure(fair, || format!("{partition} is parked as {kind}: {message}"))?;
                continue;
            }
            let (target, source) = (rows.get(&partition), lake.get(&partition));
            tidemark_domain::invariants::rests_built(&item, target == source)
                .map_err(|broken| format!("{broken}: {partition}: target {target:?}, lake {source:?}: {item:?}"))?;
            self.check_inventory(&partition, &item)?;
            let last = item.last.as_ref().map(|last| last.batch.to_string());
            let row = ledger.iter().find(|row| Some(text(row, "batch_id")) == last);
            let began_with =
                row.and_then(|row| self.definitions.get(&DefinitionHash::stored(text(row, "definition_hash"))));
            let shape = |definition: &Definition| format!("{:?}", definition.columns);
            ensure(began_with.is_none_or(|was| shape(was) == shape(&self.definition)), || {
                format!("I3: {partition} was last built by a definition that is not in force")
            })?;
        }
        if !parked_is_fine {
            ensure(rows == lake, || format!("I3: target {rows:?}, lake {lake:?}"))?;
        }
        self.check_told(&ledger)
    }

    /// The last inventory names just the partition's files.
    fn check_inventory(&self, partition: &str, item: &PartitionItem) -> Result<(), String> {
        let Some(last) = &item.last else { return Ok(()) };
        let mut parts = Parts::new(&self.objects, "control", Some(last.inventory.clone()));
        let mut named = vec![];
        while let Some(part) = finish(parts.next_part()).map_err(|error| format!("{partition}: {error}"))? {
            named.extend(part.into_iter().map(|entry| entry.key));
        }
        let folder = format!("orders/{partition}/");
        let keys = self.objects.keys("lake").into_iter();
        let there: Vec<String> = keys.filter(|key| key.starts_with(&folder)).collect();
        ensure(named == there, || format!("{partition}: the inventory names {named:?}, there are {there:?}"))
    }

    /// The batches that were told as rebuilt.
    fn told(&self) -> BTreeSet<String> {
        let rebuilt = self.announcer.events().into_iter().filter(|event| event.detail_type == "Partition Rebuilt");
        rebuilt.filter_map(|event| Some(event.detail["batch"].as_str()?.to_owned())).collect()
    }

    /// What isn't told by now may never be.
    pub(crate) fn forget_untold(&mut self) {
        let untold: Vec<String> = self.committed().difference(&self.told()).cloned().collect();
        self.forgotten.extend(untold);
    }

    /// Each committed batch was told, and no other.
    fn check_told(&self, ledger: &[crate::eye::Row]) -> Result<(), String> {
        let batches = self.committed();
        ensure(batches.len() == ledger.len(), || "I5: a batch is in the ledger twice".to_owned())?;
        let counted = ledger.iter().all(|row| number(row, "staged_rows") == number(row, "inserted_rows"));
        ensure(counted, || "I5: counts in the ledger differ".to_owned())?;
        let told = self.told();
        let untold = batches.difference(&told).all(|batch| self.forgotten.contains(batch));
        let all_told = untold && told.difference(&batches).all(|batch| self.lost.contains(batch));
        ensure(all_told, || format!("told {told:?}, committed {batches:?}"))
    }

    /// The dataset's name.
    pub fn dataset(&self) -> DatasetName {
        self.definition.name.clone()
    }
}

fn ensure(holds: bool, or: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(or()) }
}

fn stack() -> StackName {
    StackName::new("tidemark-sim").unwrap()
}
