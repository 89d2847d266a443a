//! A small world: a lake, a warehouse, the stack's queue and table, and the hours of a night in a moment.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use tidemark_domain::apply::{Hand, store_catalog, store_head, store_version};
use tidemark_domain::dataset::{Head, catalog_key};
use tidemark_domain::definition::{Definition, parse};
use tidemark_domain::id::{Epoch, PartitionId, PartitionName, StackName};
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::route::Catalog;
use tidemark_domain::sql::rebuild::CopyRole;
use tidemark_domain::sql::rows::Field;
use tidemark_domain::update::{Item, Key};
use tidemark_engine::mark::{CatalogCache, EventMessage};
use tidemark_engine::memory::{
    Backup, Delivery, Faulty, ManualClock, MemoryAnnouncer, MemoryObjects, MemoryQueue, MemoryState, MemoryTelemetry,
    MemoryWarehouse, ObjectChange, Plan,
};
use tidemark_engine::ports::{Clock as _, Index, Objects as _, StateStore as _};
use tidemark_engine::rebuild::{Answer, Work};
use tidemark_engine::{Engine, Ports, Settings};

pub(crate) const TOML: &str = r#"
[orders]
source = "s3://lake/orders/"
layout = "dt={dt}/"
format = "csv"
target = "sales.orders"
columns = ["order_id bigint", "amount decimal(12,2)"]
key = ["order_id"]
required = ["order_id", "amount"]
interval = "0s"

[orders.partition.dt]
type = "date"
column = "dt"
in_files = false

[orders.tolerance]
row_drop = "accept"
"#;

/// How long an invocation may work.
const INVOCATION: SignedDuration = SignedDuration::from_secs(120);
/// Rounds after which a world that isn't at rest never will be.
const ROUNDS: usize = 500;
/// Messages handled in a round at most.
const MESSAGES: usize = 100;

pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) state: MemoryState,
    pub(crate) objects: MemoryObjects,
    pub(crate) warehouse: MemoryWarehouse,
    pub(crate) queue: MemoryQueue,
    pub(crate) announcer: MemoryAnnouncer,
    pub(crate) telemetry: MemoryTelemetry,
    pub(crate) definition: Definition,
    /// The events queue.
    pub(crate) events: VecDeque<String>,
    pub(crate) plan: Plan,
    /// Batches that a restore of the warehouse took away, though they had been told.
    pub(crate) lost: BTreeSet<String>,
}

impl World {
    pub(crate) async fn new(toml: &str) -> Self {
        let clock = ManualClock::new(Timestamp::new(1_793_000_000, 987_654_321).unwrap(), 1);
        let objects = MemoryObjects::new(clock.clone(), &["lake", "control"]);
        let definition = parse(toml).unwrap().remove(0);
        let world = Self {
            state: MemoryState::new(clock.clone()),
            warehouse: MemoryWarehouse::new(clock.clone(), objects.clone()),
            queue: MemoryQueue::new(clock.clone(), Duration::from_secs(30), Duration::from_mins(5)),
            announcer: MemoryAnnouncer::default(),
            telemetry: MemoryTelemetry::default(),
            events: VecDeque::new(),
            plan: Plan::quiet(),
            lost: BTreeSet::new(),
            clock,
            objects,
            definition,
        };
        world.warehouse.prepare(&world.definition.target, &stack(), &world.definition.name, Epoch(1)).unwrap();
        let hand = Hand { by: "test", now: world.clock.now() };
        let catalog = serde_json::to_string(&Catalog::of([&world.definition])).unwrap();
        let updates = [
            store_version(&world.definition, &world.definition.hash()),
            store_head(&world.definition, None, Epoch(1), false, hand),
            store_catalog(None, &catalog),
        ];
        world.state.write(&updates, "apply").await.unwrap();
        world
    }

    /// Tidemark, with its ports under the plan; a process of its own.
    pub(crate) fn engine(&self) -> Engine {
        let plan = &self.plan;
        let ports = Ports {
            state: Arc::new(Faulty::new(self.state.clone(), plan)),
            objects: Arc::new(Faulty::new(self.objects.clone(), plan)),
            warehouse: Arc::new(Faulty::new(self.warehouse.clone(), plan)),
            queue: Arc::new(Faulty::new(self.queue.clone(), plan)),
            announcer: Arc::new(Faulty::new(self.announcer.clone(), plan)),
            clock: Arc::new(self.clock.clone()),
        };
        let settings = Settings {
            stack: stack(),
            control_bucket: "control".into(),
            settle: SignedDuration::from_secs(30),
            lease_margin: SignedDuration::from_secs(20),
            copy_role: CopyRole::Default,
        };
        Engine::new(ports, settings).telling(Arc::new(self.telemetry.clone()))
    }

    /// A file lands: a row a line.
    pub(crate) async fn put(&mut self, name: &str, lines: &str) {
        let key = format!("orders/{name}");
        self.objects.put("lake", &key, Bytes::copy_from_slice(lines.as_bytes())).await.unwrap();
        self.send_events();
    }

    /// A file is deleted.
    pub(crate) fn delete(&mut self, name: &str) {
        assert!(self.objects.delete("lake", &format!("orders/{name}")), "{name} is there");
        self.send_events();
    }

    pub(crate) fn send_events(&mut self) {
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

    /// One invocation of mark, with everything that waits; what fails, or whose worker dies, comes back.
    pub(crate) async fn mark(&mut self) {
        let bodies: Vec<String> = self.events.drain(..).collect();
        let ids: Vec<String> = (0..bodies.len()).map(|n| n.to_string()).collect();
        let messages: Vec<_> = ids.iter().zip(&bodies).map(|(id, body)| EventMessage { id, body }).collect();
        let (engine, cache) = (self.engine(), CatalogCache::default());
        let failed: BTreeSet<String> = match self.plan.run(Box::pin(engine.mark(&cache, &messages))).await {
            Some(Ok(report)) => report.failed,
            Some(Err(_)) | None => ids.iter().cloned().collect(),
        };
        let back = ids.iter().zip(bodies).filter(|(id, _)| failed.contains(*id)).map(|(_, body)| body);
        self.events.extend(back);
    }

    /// One invocation of rebuild with the next message, if there is one; `None` in the answer: its worker died.
    pub(crate) async fn rebuild(&self) -> Option<Option<Answer>> {
        let delivery = self.queue.deliver()?;
        Some(self.rebuild_with(&delivery).await)
    }

    pub(crate) async fn rebuild_with(&self, delivery: &Delivery) -> Option<Answer> {
        let deadline = self.clock.now() + INVOCATION;
        let engine = self.engine();
        let work = Work { body: &delivery.body, receipt: Some(&delivery.receipt), deadline };
        let answer = self.plan.run(Box::pin(engine.rebuild(work))).await;
        if let Some(Answer::Done(_)) = answer {
            self.queue.delete(&delivery.receipt);
        }
        answer
    }

    /// One invocation of sweep.
    pub(crate) async fn sweep(&self) {
        let engine = self.engine();
        let _swept = self.plan.run(Box::pin(engine.sweep(self.clock.now() + INVOCATION))).await;
    }

    /// Lets everything happen that is to happen, a minute at a time, until nothing is left to do.
    pub(crate) async fn rest(&mut self, context: &str) {
        for _ in 0..ROUNDS {
            if !self.events.is_empty() {
                self.mark().await;
            }
            for _ in 0..MESSAGES {
                if self.rebuild().await.is_none() {
                    break;
                }
            }
            if self.events.is_empty() && self.queue.is_empty() && self.due().await.is_empty() {
                return;
            }
            self.clock.advance(Duration::from_secs(20));
            self.sweep().await;
        }
        panic!("not at rest: {context}\n{:#?}\nqueue: {}, due: {:?}", self.items(), self.queue.len(), self.due().await);
    }

    /// Half a minute passes, then everything that waits is handled once; so many times.
    pub(crate) async fn rounds(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.clock.advance(Duration::from_secs(30));
            self.sweep().await;
            self.mark().await;
            for _ in 0..MESSAGES {
                if self.rebuild().await.is_none() {
                    break;
                }
            }
        }
    }

    /// An operator's message for a partition, with more fields such as `"accept":["row_drop"]`.
    pub(crate) fn replay(&self, partition: &str, fields: &serde_json::Value) {
        let mut body = serde_json::json!({"version": 1, "dataset": "orders", "partition": partition});
        body.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap_or_default());
        self.queue.put(&body.to_string(), "by hand");
    }

    /// The warehouse is restored from a snapshot.
    pub(crate) fn restore_warehouse(&mut self, snapshot: &Backup) {
        let before = self.batches();
        self.warehouse.restore(snapshot);
        self.lost.extend(before.difference(&self.batches()).cloned());
    }

    /// The partition items, as a backup of the state table has them.
    pub(crate) fn partition_items(&self) -> BTreeMap<Key, Item> {
        self.state.items().into_iter().filter(|(key, _)| key.sk.starts_with("PARTITION#")).collect()
    }

    /// The partition items are restored from a backup; what wasn't there then is gone.
    pub(crate) fn restore_partitions(&self, backup: &BTreeMap<Key, Item>) {
        for key in self.partition_items().into_keys() {
            match backup.get(&key) {
                Some(item) => self.state.put(key, item.clone()),
                None => self.state.remove(&key),
            }
        }
    }

    /// The batches of the ledger.
    fn batches(&self) -> BTreeSet<String> {
        self.warehouse.ledger().iter().map(|row| text(row, "batch_id")).collect()
    }

    /// The dataset's head.
    pub(crate) fn head(&self) -> Head {
        Head::from_item(&self.state.item(&Head::key(&self.definition.name)).unwrap()).unwrap()
    }

    /// Changes attributes of the dataset's head, past all conditions.
    pub(crate) fn set_head(&self, fields: &[(&str, serde_json::Value)]) {
        let key = Head::key(&self.definition.name);
        let mut item = self.state.item(&key).unwrap();
        item.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        self.state.put(key, item);
    }

    /// Stores another version of the definition and puts it in force, without marking anything.
    pub(crate) async fn put_in_force(&mut self, toml: &str, epoch: Epoch) {
        let definition = parse(toml).unwrap().remove(0);
        let hand = Hand { by: "test", now: self.clock.now() };
        let head = store_head(&definition, Some(&self.head()), epoch, false, hand);
        let token = self.clock.id().to_string();
        self.state.write(&[store_version(&definition, &definition.hash()), head], &token).await.unwrap();
        let catalog = serde_json::to_string(&Catalog::of([&definition])).unwrap();
        self.state.put(catalog_key(), [("catalog".to_owned(), catalog.into())].into());
        self.definition = definition;
    }

    /// How often a statement whose name ends with `suffix` was submitted.
    pub(crate) fn submitted(&self, suffix: &str) -> usize {
        self.warehouse.submitted().iter().filter(|name| name.ends_with(suffix)).count()
    }

    pub(crate) async fn due(&self) -> Vec<String> {
        let due = self
            .state
            .query(Index::Due, Some(&self.definition.name), Timestamp::MIN..=Timestamp::MAX, 1_000)
            .await
            .unwrap();
        due.into_iter().map(|entry| entry.id.partition.to_string()).collect()
    }

    pub(crate) fn id(&self, partition: &str) -> PartitionId {
        PartitionId { dataset: self.definition.name.clone(), partition: PartitionName::new(partition).unwrap() }
    }

    pub(crate) fn item(&self, partition: &str) -> PartitionItem {
        let item = self.state.item(&PartitionItem::key(&self.id(partition)));
        PartitionItem::from_item(&item.unwrap_or_else(|| panic!("{partition} was never marked"))).unwrap()
    }

    /// The story of the partition's newest batch that ended.
    pub(crate) fn story(&self, partition: &str) -> Item {
        let stories = self.state.items().into_iter().filter(|(key, _)| key.sk.starts_with("BATCH#"));
        let of_partition = stories.filter(|(_, story)| story["partition"] == partition);
        of_partition.max_by_key(|(_, story)| story["ended_at"].as_i64()).unwrap().1
    }

    pub(crate) fn items(&self) -> BTreeMap<String, PartitionItem> {
        let items = self.state.items().into_iter();
        let partitions = items.filter(|(key, _)| key.sk.starts_with("PARTITION#"));
        partitions.map(|(key, item)| (key.sk, PartitionItem::from_item(&item).unwrap())).collect()
    }

    /// The target's rows by partition, such as `dt=2026-11-01`.
    pub(crate) fn rows(&self) -> BTreeMap<String, Vec<String>> {
        let name = |condition: String| condition.replace("\"dt\" = DATE '", "dt=").replace('\'', "");
        let rows = self.warehouse.rows(&self.definition.target).into_iter();
        rows.map(|(condition, rows)| (name(condition), rows)).collect()
    }

    /// The rows that the lake's files hold, counted without the product.
    fn lake(&self) -> BTreeMap<String, Vec<String>> {
        let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for key in self.objects.keys("lake") {
            let partition = key.split('/').nth(1).unwrap_or_default();
            let (bytes, _) = self.objects.object("lake", &key).unwrap();
            let lines = String::from_utf8(bytes.to_vec()).unwrap();
            rows.entry(partition.to_owned()).or_default().extend(lines.lines().map(str::to_owned));
        }
        for rows in rows.values_mut() {
            rows.sort();
        }
        rows
    }

    /// Every partition is at rest, the target holds the lake, item and ledger agree, nothing is left over.
    pub(crate) async fn assert_true(&self, context: &str) {
        for (partition, item) in self.items() {
            assert_eq!(item.parked, None, "{partition} is parked: {context}");
        }
        assert_eq!(self.rows(), self.lake(), "I3, rows of target and lake: {context}");
        self.assert_at_rest(context).await;
    }

    /// The target holds the lake, and nothing is left to do.
    pub(crate) async fn assert_rows(&self, context: &str) {
        assert_eq!(self.due().await, [""; 0], "I6: {context}");
        assert_eq!(self.rows(), self.lake(), "I3, rows of target and lake: {context}");
    }

    /// At rest, each partition that isn't parked holds the lake, and its item says so.
    pub(crate) async fn assert_at_rest(&self, context: &str) {
        assert_eq!(self.due().await, [""; 0], "I6: {context}");
        let (rows, lake) = (self.rows(), self.lake());
        for (key, item) in self.items() {
            assert!(item.batch.is_none() && !item.unresolved, "I6, {key} is at rest: {context}: {item:#?}");
            if item.rests_parked() {
                continue;
            }
            assert_eq!(item.built, item.marked, "I3, {key} is built: {context}: {item:#?}");
            let partition = key.trim_start_matches("PARTITION#");
            assert_eq!(rows.get(partition), lake.get(partition), "I3, the rows of {partition}: {context}");
        }
        self.assert_ledger(context);
    }

    /// I2, I4, I5: a batch once, a fence once, `last` the newest; each committed batch was told.
    pub(crate) fn assert_ledger(&self, context: &str) {
        let ledger = self.warehouse.ledger();
        let number = |row: &BTreeMap<String, Field>, column: &str| match row[column] {
            Field::Long(number) => number,
            ref other => panic!("{column}: {other:?}"),
        };
        let batches = self.batches();
        assert_eq!(batches.len(), ledger.len(), "I5, a batch is in the ledger once: {context}");
        let fences: BTreeSet<_> =
            ledger.iter().map(|row| (text(row, "partition_name"), number(row, "fence"))).collect();
        assert_eq!(fences.len(), ledger.len(), "I2, a swap for each fence: {context}");
        let told: BTreeSet<String> = self
            .announcer
            .events()
            .iter()
            .filter(|event| event.detail_type == "Partition Rebuilt")
            .filter_map(|event| Some(event.detail["batch"].as_str()?.to_owned()))
            .filter(|batch| !self.lost.contains(batch))
            .collect();
        assert_eq!(told, batches, "each committed batch was told, and no other: {context}");
        for (partition, item) in self.items() {
            let of_partition = ledger.iter().filter(|row| partition.ends_with(&text(row, "partition_name")));
            let newest = of_partition.max_by_key(|row| number(row, "fence")).map(|row| text(row, "batch_id"));
            let last = item.last.map(|last| last.batch.to_string());
            assert_eq!(last, newest, "I4, `last` of {partition} is the newest ledger row: {context}");
        }
    }
}

fn text(row: &BTreeMap<String, Field>, column: &str) -> String {
    match &row[column] {
        Field::Text(text) => text.clone(),
        other => panic!("{column}: {other:?}"),
    }
}

pub(crate) fn stack() -> StackName {
    StackName::new("tidemark-test").unwrap()
}
