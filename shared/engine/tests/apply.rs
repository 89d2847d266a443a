//! Applying definitions, on the in-memory twins and a Redshift that answers apply's questions.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "what fails here fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use tidemark_domain::apply::Status;
use tidemark_domain::dataset::{Head, Mode, catalog_key, version_key};
use tidemark_domain::definition::{Definition, parse};
use tidemark_domain::id::{
    BatchId, DatasetName, Digest, Epoch, Fence, Generation, PartitionId, PartitionName, StackName,
};
use tidemark_domain::job::{Job, Kind, Line};
use tidemark_domain::partition::{Committed, PartitionItem, attributes};
use tidemark_domain::sql::rows::Field;
use tidemark_domain::update::Key;
use tidemark_domain::verify::GuardKind;
use tidemark_engine::Ports;
use tidemark_engine::apply::{ApplyError, Done, Plan, Wish, carry_out, survey};
use tidemark_engine::init::{Installed, init};
use tidemark_engine::jobs;
use tidemark_engine::memory::{
    Fault, Faulty, ManualClock, MemoryAnnouncer, MemoryObjects, MemoryQueue, MemoryState, Plan as Faults,
};
use tidemark_engine::ports::{
    Effect, Execution, ExecutionStatus, Objects as _, StatementResult, Submission, Warehouse, WarehouseError,
};

const ORDERS: &str = r#"
[orders]
source = "s3://lake-raw/orders/"
layout = "dt={dt}/"
format = "parquet"
target = "sales.orders"
columns = ["order_id bigint", "amount decimal(12,2)"]
lookback = "3d"
[orders.partition.dt]
type = "date"
"#;

const NOW: &str = "2026-11-04T10:00:00Z";

/// Redshift as far as apply asks: a version, tables, guard rows, rows of targets.
#[derive(Clone, Default)]
struct FakeRedshift(Arc<Mutex<Redshift>>);

#[derive(Default)]
struct Redshift {
    version: Option<i64>,
    columns: Vec<(String, String, &'static str)>,
    guards: BTreeMap<String, (String, String, i64)>,
    rows: Vec<(&'static str, i64)>,
    answers: BTreeMap<String, Result<StatementResult, String>>,
}

fn text(text: &str) -> Field {
    Field::Text(text.to_owned())
}

impl Redshift {
    fn answer(&mut self, sql: &str) -> Result<StatementResult, String> {
        if sql.starts_with("SELECT max(version)") {
            let version = self.version.ok_or("ERROR: relation \"tidemark.version\" does not exist")?;
            return Ok(vec![vec![Field::Long(version)]]);
        }
        if sql.contains("information_schema.columns") {
            let asked = |table: &str| sql.contains(&format!("table_name = '{table}'"));
            let rows = self.columns.iter().filter(|(_, table, _)| asked(table));
            let of = |(s, t, column): &(String, String, &'static str)| {
                let (name, sql_type) = column.split_once(' ').unwrap_or((column, "date"));
                let (words, length) = match sql_type.split_once('(') {
                    Some((words, length)) => (words, Field::Long(length.trim_end_matches(')').parse().unwrap())),
                    None => (sql_type, Field::Null),
                };
                let decimal = words == "numeric";
                let digits = if decimal { [Field::Long(12), Field::Long(2)] } else { [Field::Null, Field::Null] };
                let row = vec![text(s), text(t), text(name), Field::Long(0), text(words), length];
                row.into_iter().chain(digits).collect()
            };
            return Ok(rows.map(of).collect());
        }
        if sql.contains("SELECT 'sales.orders', stack") {
            let guards = self.guards.iter();
            return Ok(guards.map(|(t, (s, d, e))| vec![text(t), text(s), text(d), Field::Long(*e)]).collect());
        }
        if sql.contains("count(*) AS row_count") {
            return Ok(self.rows.iter().map(|(dt, n)| vec![text(dt), Field::Null, Field::Long(*n)]).collect());
        }
        self.change(sql);
        Ok(vec![])
    }

    fn change(&mut self, sql: &str) {
        if sql.contains("INSERT INTO tidemark.version") {
            self.version = Some(1);
        } else if let Some(rest) = sql.strip_prefix("CREATE TABLE IF NOT EXISTS tidemark.\"fence_") {
            let name = format!("fence_{}", rest.split('"').next().unwrap());
            self.columns.push(("tidemark".into(), name, "partition_name"));
        } else if sql.starts_with("CALL tidemark.\"own_") {
            let arguments = sql.split_once('(').unwrap().1.trim_end_matches(')').replace('\'', "");
            let words: Vec<&str> = arguments.split(", ").collect();
            let guard = (words[0].to_owned(), words[1].to_owned(), words[2].parse().unwrap());
            self.guards.insert("sales.orders".into(), guard);
        }
    }
}

#[async_trait]
impl Warehouse for FakeRedshift {
    async fn submit(&self, submission: Submission<'_>) -> Result<Execution, WarehouseError> {
        let mut redshift = self.0.lock().unwrap();
        let id = submission.token.to_owned();
        let mut answer = Ok(vec![]);
        for sql in submission.statements {
            answer = redshift.answer(sql);
        }
        redshift.answers.insert(id.clone(), answer.clone());
        Ok(execution(id, &answer))
    }

    async fn describe(&self, id: &str, _wait_seconds: u32) -> Result<Option<Execution>, WarehouseError> {
        let redshift = self.0.lock().unwrap();
        Ok(redshift.answers.get(id).map(|answer| execution(id.to_owned(), answer)))
    }

    async fn result(&self, id: &str) -> Result<StatementResult, WarehouseError> {
        let (id, _) = id.split_once(':').expect("results are those of a statement of a batch");
        Ok(self.0.lock().unwrap().answers[id].clone().unwrap())
    }

    async fn cancel(&self, _id: &str) -> Result<(), WarehouseError> {
        Err(WarehouseError {
            operation: "CancelStatement",
            code: "ValidationException".into(),
            message: "nothing runs".into(),
            effect: Effect::NotApplied,
        })
    }
}

fn execution(id: String, answer: &Result<StatementResult, String>) -> Execution {
    let status = if answer.is_ok() { ExecutionStatus::Finished } else { ExecutionStatus::Failed };
    Execution { id, status, error: answer.clone().err(), statements: vec![], pid: 0 }
}

/// The world that definitions are applied to.
struct World {
    state: MemoryState,
    objects: MemoryObjects,
    queue: MemoryQueue,
    redshift: FakeRedshift,
    ports: Ports,
}

impl World {
    /// Prepared, with the target made.
    fn new() -> Self {
        let clock = ManualClock::new(NOW.parse().unwrap(), 1);
        let state = MemoryState::new(clock.clone());
        let objects = MemoryObjects::new(clock.clone(), &["lake-raw", "control"]);
        let queue = MemoryQueue::new(clock.clone(), Duration::ZERO, Duration::from_mins(1));
        let redshift = FakeRedshift::default();
        {
            let mut redshift = redshift.0.lock().unwrap();
            redshift.version = Some(1);
            redshift.columns = ["order_id bigint", "amount numeric", "dt date"]
                .map(|column| ("sales".into(), "orders".into(), column))
                .into();
        }
        let ports = Ports {
            state: Arc::new(state.clone()),
            objects: Arc::new(objects.clone()),
            warehouse: Arc::new(redshift.clone()),
            queue: Arc::new(queue.clone()),
            announcer: Arc::new(MemoryAnnouncer::default()),
            clock: Arc::new(clock.clone()),
        };
        Self { state, objects, queue, redshift, ports }
    }

    /// The same world, with a fault at one of its steps.
    fn faulty(&self, faults: &Faults) -> Ports {
        Ports {
            state: Arc::new(Faulty::new(self.state.clone(), faults)),
            objects: Arc::new(Faulty::new(self.objects.clone(), faults)),
            warehouse: Arc::new(Faulty::new(self.redshift.clone(), faults)),
            queue: Arc::new(Faulty::new(self.queue.clone(), faults)),
            ..self.ports.clone()
        }
    }

    async fn put(&self, keys: &[&str]) {
        for key in keys {
            self.objects.put("lake-raw", key, Bytes::from_static(b"x")).await.unwrap();
        }
    }

    async fn plan(&self, file: &str) -> Plan {
        self.try_plan(file, &[], true).await.unwrap()
    }

    async fn try_plan(&self, file: &str, take_over: &[&str], mark: bool) -> Result<Plan, ApplyError> {
        plan(&self.ports, file, take_over, mark).await
    }

    /// Plans and does.
    async fn apply(&self, file: &str) -> Done {
        apply(&self.ports, file).await.unwrap()
    }

    fn head(&self) -> Head {
        Head::from_item(&self.state.item(&Head::key(&orders())).unwrap()).unwrap()
    }

    fn guard(&self) -> (String, String, i64) {
        self.redshift.0.lock().unwrap().guards["sales.orders"].clone()
    }

    fn partition(&self, day: &str) -> Option<PartitionItem> {
        self.state.item(&PartitionItem::key(&id(day))).map(|item| PartitionItem::from_item(&item).unwrap())
    }

    /// A partition that was built, of so many rows.
    fn built(&self, day: &str, rows: u64) {
        let last = Committed {
            batch: BatchId(uuid::Uuid::nil()),
            generation: Generation(1),
            fence: Fence(1),
            digest: Digest::stored("d"),
            inventory: "i".into(),
            rows,
            took_seconds: 1,
            committed_at: Timestamp::UNIX_EPOCH,
        };
        let item = serde_json::json!({
            "marked": 1, "built": 1, "marked_at": 0, "fence": 1, "removed": 0, "tries": 0,
            "last": serde_json::to_value(last).unwrap(),
        });
        let item: PartitionItem = serde_json::from_value(item).unwrap();
        self.state.put(PartitionItem::key(&id(day)), attributes(&item).unwrap());
    }

    /// Heads, versions, catalog and partitions, without what depends on when a call was made.
    fn stored(&self) -> Vec<(Key, Vec<String>)> {
        let item = |(key, item): (Key, tidemark_domain::update::Item)| {
            let names =
                item.into_iter().filter(|(name, _)| name != "marked").map(|(name, value)| format!("{name}={value}"));
            (key, names.collect())
        };
        self.state.items().into_iter().map(item).collect()
    }
}

fn orders() -> DatasetName {
    DatasetName::new("orders").unwrap()
}

fn id(day: &str) -> PartitionId {
    PartitionId { dataset: orders(), partition: PartitionName::new(format!("dt={day}")).unwrap() }
}

fn definitions(file: &str) -> Vec<Definition> {
    parse(file).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

async fn plan(ports: &Ports, file: &str, take_over: &[&str], mark: bool) -> Result<Plan, ApplyError> {
    let (definitions, stack) = (definitions(file), StackName::new("prod").unwrap());
    let take_over: BTreeSet<DatasetName> = take_over.iter().map(|name| DatasetName::new(*name).unwrap()).collect();
    let wish = Wish {
        definitions: &definitions,
        stack: &stack,
        take_over: &take_over,
        mark,
        control_bucket: "control",
        by: "alice",
    };
    survey(ports, wish).await
}

async fn apply(ports: &Ports, file: &str) -> Result<Done, ApplyError> {
    let (definitions, stack, take_over) = (definitions(file), StackName::new("prod").unwrap(), BTreeSet::new());
    let wish = Wish {
        definitions: &definitions,
        stack: &stack,
        take_over: &take_over,
        mark: true,
        control_bucket: "control",
        by: "alice",
    };
    let plan = survey(ports, wish).await?;
    assert_eq!(plan.problems, [""; 0]);
    carry_out(ports, wish, &plan).await
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.datasets[0].marks.iter().map(PartitionName::as_str).collect()
}

#[tokio::test]
async fn a_new_dataset_is_put_in_force_and_what_lies_in_its_lookback_is_marked() {
    let world = World::new();
    world
        .put(&[
            "orders/dt=2026-10-31/a.parquet",
            "orders/dt=2026-11-01/a.parquet",
            "orders/dt=2026-11-03/a.parquet",
            "orders/dt=2026-11-04/_SUCCESS",
            "orders/_temporary/dt=2026-11-02/a.parquet",
            "orders/dt=yesterday/a.parquet",
            "orders/readme.txt",
        ])
        .await;
    let plan = world.plan(ORDERS).await;
    assert_eq!((plan.datasets[0].comparison.status, plan.problems.as_slice()), (Status::New, [].as_slice()));
    assert_eq!(names(&plan), ["dt=2026-11-01", "dt=2026-11-03"]);
    assert!(world.state.items().is_empty(), "a survey changes nothing");

    assert_eq!(world.apply(ORDERS).await, Done { marked: 2, by_jobs: 0, sent: 2, unsent: 0 });
    let head = world.head();
    assert_eq!((head.mode, head.epoch, head.by.as_str()), (Mode::Active, Epoch(1), "alice"));
    assert_eq!(world.guard(), ("prod".into(), "orders".into(), 1));
    let version = world.state.item(&version_key(&orders(), &head.hash)).unwrap();
    assert_eq!(parse(version["text"].as_str().unwrap()).unwrap(), definitions(ORDERS));
    assert!(world.state.item(&catalog_key()).unwrap()["catalog"].as_str().unwrap().contains("lake-raw"));
    let marked = world.partition("2026-11-03").unwrap();
    assert_eq!((marked.marked, marked.built, marked.work), (Generation(1), Generation(0), Some(orders())));
    assert_eq!(world.queue.len(), 2);
    assert!(world.partition("2026-10-31").is_none());
}

#[tokio::test]
async fn what_was_applied_needs_nothing_more() {
    let world = World::new();
    world.put(&["orders/dt=2026-11-03/a.parquet"]).await;
    world.apply(ORDERS).await;
    let before = world.stored();
    assert!(world.plan(ORDERS).await.is_empty());
    assert_eq!(world.apply(ORDERS).await, Done::default());
    assert_eq!(world.stored(), before);
}

#[tokio::test]
async fn conduct_changes_without_a_mark_and_bounds_raise_the_epoch_first() {
    let world = World::new();
    world.put(&["orders/dt=2026-11-03/a.parquet"]).await;
    world.apply(ORDERS).await;
    world.built("2026-11-03", 1);
    world.built("2026-10-01", 1);

    let longer = ORDERS.replace("lookback = \"3d\"", "lookback = \"4d\"");
    assert_eq!(world.apply(&longer).await.marked, 0);
    assert_eq!(world.head().epoch, Epoch(1));

    let column = longer.replace("type = \"date\"", "type = \"date\"\ncolumn = \"amount_day\"");
    world.redshift.0.lock().unwrap().columns.push(("sales".into(), "orders".into(), "amount_day date"));
    let plan = world.plan(&column).await;
    assert_eq!(plan.datasets[0].comparison.raises_epoch, ["partition.dt.column"]);
    assert_eq!(
        (names(&plan), plan.datasets[0].stay.clone()),
        (vec!["dt=2026-11-03"], vec![id("2026-10-01").partition])
    );
    assert_eq!(world.apply(&column).await.marked, 1);
    assert_eq!((world.head().epoch, world.guard().2), (Epoch(2), 2));
}

#[tokio::test]
async fn a_dataset_that_is_gone_retires_and_may_come_back() {
    let world = World::new();
    world.put(&["orders/dt=2026-11-03/a.parquet"]).await;
    world.apply(ORDERS).await;
    assert_eq!(world.plan("").await.datasets[0].comparison.status, Status::Retired);
    world.apply("").await;
    assert_eq!(world.head().mode, Mode::Retired);
    assert!(world.plan("").await.is_empty());
    let plan = world.plan(ORDERS).await;
    assert_eq!((plan.datasets[0].comparison.status, names(&plan)), (Status::Returned, vec!["dt=2026-11-03"]));
    world.apply(ORDERS).await;
    assert_eq!((world.head().mode, world.head().epoch), (Mode::Active, Epoch(1)));
}

/// Nobody else would find it: look doesn't reach so far, and its rows agree with the ledger.
#[tokio::test]
async fn what_was_let_go_while_its_dataset_was_retired_is_marked_when_it_comes_back_however_old_it_is() {
    let world = World::new();
    world.built("2024-01-01", 3);
    world.built("2024-01-02", 3);
    world.apply(ORDERS).await;
    let old = tidemark_domain::writes::mark(&id("2024-01-01"), 0, NOW.parse().unwrap());
    world.ports.state.write(&[old], "mark").await.unwrap();
    world.apply("").await;
    let leave = tidemark_domain::writes::leave(&id("2024-01-01"), &world.partition("2024-01-01").unwrap());
    world.ports.state.write(&[leave], "leave").await.unwrap();
    assert!(world.partition("2024-01-01").unwrap().is_let_go());
    assert_eq!(names(&world.plan(ORDERS).await), ["dt=2024-01-01"], "the other one stays as it is");
    world.apply(ORDERS).await;
    assert!(world.partition("2024-01-01").unwrap().on_its_way());
}

/// `foreign_rows` is accepted without a digest, so nothing but this binds it to what the operator saw.
#[tokio::test]
async fn a_job_that_accepts_foreign_rows_does_not_outlive_the_target_it_was_made_for() {
    let world = World::new();
    world.apply(ORDERS).await;
    let (clock, lines) = (&world.ports.clock, [Line::of(id("2026-11-03").partition)]);
    let new = Job::new(clock.id(), orders(), Kind::Backfill, 1, "alice", clock.now());
    let job = Job { force: true, accept: [GuardKind::ForeignRows].into(), ..new };
    jobs::make(&world.ports, "control", &job, &lines).await.unwrap();
    let wider = ORDERS.replace("lookback = \"3d\"", "lookback = \"4d\"");
    assert_eq!(world.plan(&wider).await.problems, [""; 0], "the same target and bounds");
    world.apply("").await;
    let refused = world.plan(ORDERS).await.problems;
    assert!(refused[0].contains(&format!("--cancel {}", job.id)), "{refused:?}");
    world.ports.state.write(&[job.cancel("alice", clock.now())], "cancel").await.unwrap();
    assert_eq!(world.plan(ORDERS).await.problems, [""; 0]);
}

/// A name under which the layout before kept a day: by months it is no partition's own.
#[tokio::test]
async fn names_that_are_no_partitions_own_any_more_are_not_marked() {
    let world = World::new();
    world.built("2026-11-03", 3);
    let months = ORDERS.replace("type = \"date\"\n", "type = \"date\"\nrange_of = \"sold_on\"\ngrain = \"month\"\n");
    let months = months.replace("columns = [", "columns = [\"sold_on date\", ");
    world.apply(ORDERS).await;
    let plan = world.plan(&months).await;
    assert_eq!((names(&plan), plan.datasets[0].not_yielded), (vec![], 1));
}

/// A Parquet file of these columns, without rows.
fn parquet_of(columns: &[&str]) -> Bytes {
    use parquet::file::properties::WriterProperties;
    use parquet::schema::types::Type;
    let column = |name: &&str| Type::primitive_type_builder(name, parquet::basic::Type::INT64).build().unwrap();
    let fields = columns.iter().map(|name| Arc::new(column(name))).collect();
    let schema = Arc::new(Type::group_type_builder("orders").with_fields(fields).build().unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let mut bytes = Vec::new();
    parquet::file::writer::SerializedFileWriter::new(&mut bytes, schema, properties).unwrap().close().unwrap();
    Bytes::from(bytes)
}

#[tokio::test]
async fn a_new_column_tells_which_old_files_it_would_park() {
    let world = World::new();
    let whole = ORDERS.replace("amount decimal(12,2)", "amount bigint");
    world.redshift.0.lock().unwrap().columns.push(("sales".into(), "orders".into(), "note bigint"));
    world.redshift.0.lock().unwrap().columns[1].2 = "amount bigint";
    for (key, columns) in [
        ("orders/dt=2026-11-01/a.parquet", &["order_id", "amount"][..]),
        ("orders/dt=2026-11-02/a.parquet", &["order_id", "amount", "note"]),
        ("orders/dt=2026-11-03/a.parquet", &["order_id", "amount", "note"]),
        ("orders/dt=2026-11-03/b.parquet", &["order_id", "amount"]),
    ] {
        world.objects.put("lake-raw", key, parquet_of(columns)).await.unwrap();
    }
    world.apply(&whole).await;
    assert_eq!(world.plan(&whole.replace("3d", "4d")).await.datasets[0].sample, None, "the files are read as before");

    let wider = whole.replace("amount bigint", "amount bigint\", \"note bigint");
    let plan = world.plan(&wider).await;
    assert_eq!(plan.problems, [""; 0], "it is told, not refused: the files may be written anew");
    assert_eq!(names(&plan), ["dt=2026-11-01", "dt=2026-11-02", "dt=2026-11-03"]);
    let sample = plan.datasets[0].sample.clone().unwrap();
    assert_eq!((sample.files, sample.partitions), (4, 3));
    let told: Vec<&str> = sample.misfits.iter().map(|misfit| misfit.partition.as_str()).collect();
    assert_eq!(told, ["dt=2026-11-01", "dt=2026-11-03"]);
    for misfit in &sample.misfits {
        assert!(misfit.why.contains(".parquet") && misfit.why.contains("2 columns"), "{}", misfit.why);
    }
    // Another order of the same columns is read otherwise, too.
    let swapped = whole.replace("\"order_id bigint\", \"amount bigint\"", "\"amount bigint\", \"order_id bigint\"");
    assert!(!world.plan(&swapped).await.datasets[0].sample.clone().unwrap().misfits.is_empty());
}

#[tokio::test]
async fn of_many_partitions_a_hundred_are_looked_at_and_csv_is_not() {
    let world = World::new();
    let years = ORDERS.replace("3d", "3650d");
    let csv = years.replace("parquet", "csv");
    for n in 0..250 {
        let day = jiff::civil::date(2026, 1, 1).checked_add(jiff::Span::new().days(n)).unwrap();
        world
            .objects
            .put("lake-raw", &format!("orders/dt={day}/a"), parquet_of(&["order_id", "amount"]))
            .await
            .unwrap();
    }
    world.apply(&years).await;
    world.redshift.0.lock().unwrap().columns.push(("sales".into(), "orders".into(), "note bigint"));
    let sample = async |file: &str| {
        let wider = file.replace("\"order_id bigint\"", "\"note bigint\", \"order_id bigint\"");
        world.plan(&wider).await.datasets[0].sample.clone().unwrap()
    };
    let looked = sample(&years).await;
    assert_eq!((looked.files, looked.partitions, looked.misfits.len()), (84, 84, 84), "every third of 250");
    assert_eq!(sample(&csv).await.files, 0, "its files don't tell their columns");
}

#[tokio::test]
async fn a_csv_header_that_names_other_columns_is_told_and_refuses_nothing() {
    let world = World::new();
    let csv = format!("{}\n[orders.csv]\nignore_header = 1\n", ORDERS.replace("parquet", "csv"));
    for (day, text) in [("2026-11-01", "order_id,amount\n1,2\n"), ("2026-11-02", "amount,order_id\n2,1\n")] {
        let key = format!("orders/dt={day}/a.csv");
        world.objects.put("lake-raw", &key, Bytes::from_static(text.as_bytes())).await.unwrap();
    }
    let plan = world.plan(&csv).await;
    assert_eq!(plan.problems, [""; 0]);
    let sample = plan.datasets[0].sample.clone().unwrap();
    assert_eq!((sample.files, sample.misfits.len(), sample.headers.len()), (2, 0, 1));
    let told = &sample.headers[0];
    assert_eq!(told.partition.as_str(), "dt=2026-11-02");
    assert!(
        told.why.starts_with(
            "s3://lake-raw/orders/dt=2026-11-02/a.csv: column 1 is `amount`, but the definition says `order_id`"
        ),
        "{}",
        told.why
    );
}

#[tokio::test]
async fn a_target_with_narrower_or_other_columns_is_told_before_anything_is_done() {
    let world = World::new();
    world.redshift.0.lock().unwrap().columns = ["order_id integer", "amount character varying(20)", "dt date"]
        .map(|c| ("sales".into(), "orders".into(), c))
        .into();
    let problems = world.plan(ORDERS).await.problems;
    let told = |words: &str| problems.iter().any(|problem| problem.contains(words));
    assert!(told("`order_id` of sales.orders is integer, which is narrower than the bigint"), "{problems:#?}");
    assert!(told("`amount` of sales.orders is varchar(20), which doesn't fit the decimal(12,2)"), "{problems:#?}");
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert!(world.state.items().is_empty());
}

#[tokio::test]
async fn rows_that_nobody_of_ours_wrote_are_counted() {
    let world = World::new();
    world.built("2026-11-02", 5);
    world.redshift.0.lock().unwrap().rows = vec![("2026-11-01", 3), ("2026-11-02", 5), ("nonsense", 7)];
    let plan = world.plan(ORDERS).await;
    let foreign: Vec<_> = plan.datasets[0].foreign.iter().map(|f| (f.partition.as_str(), f.rows)).collect();
    assert_eq!(foreign, [("dt=2026-11-01", 3)]);
}

#[tokio::test]
async fn everything_that_speaks_against_it_is_told_at_once() {
    let world = World::new();
    world.put(&["orders/_delta_log/00000000000000000000.json"]).await;
    {
        let mut redshift = world.redshift.0.lock().unwrap();
        redshift.columns.retain(|(_, _, column)| *column != "amount numeric");
        redshift.guards.insert("sales.orders".into(), ("staging".into(), "orders".into(), 7));
        redshift.change("CREATE TABLE IF NOT EXISTS tidemark.\"fence_sales_orders_9070a83f92\" (");
    }
    let problems = world.plan(ORDERS).await.problems;
    let told = |words: &str| problems.iter().any(|problem| problem.contains(words));
    assert!(told("belongs to dataset orders of stack staging"), "{problems:#?}");
    assert!(told("no column `amount`") && told("Delta Lake table"), "{problems:#?}");
    assert_eq!(problems.len(), 3, "{problems:#?}");

    let taken = world.try_plan(ORDERS, &["orders"], true).await.unwrap();
    let ownership = taken.datasets[0].ownership.unwrap();
    assert_eq!((ownership.epoch, ownership.takes_over, taken.problems.len()), (Epoch(8), true, 2));
}

#[tokio::test]
async fn a_warehouse_without_our_schema_is_sent_to_init() {
    let world = World::new();
    world.redshift.0.lock().unwrap().version = None;
    assert!(world.plan(ORDERS).await.problems[0].contains("tidemark init"));
    assert_eq!(init(&world.ports).await.unwrap(), Installed::Made);
    assert_eq!(init(&world.ports).await.unwrap(), Installed::Again);
    assert_eq!(world.plan(ORDERS).await.problems, [""; 0]);
    world.redshift.0.lock().unwrap().version = Some(99);
    assert!(init(&world.ports).await.unwrap_err().to_string().contains("version 99"));
}

#[tokio::test]
async fn more_than_fifty_marks_are_left_to_a_job() {
    let world = World::new();
    let undated =
        ORDERS.replace("dt={dt}", "n={n}").replace("partition.dt", "partition.n").replace("\"date\"", "\"integer\"");
    let undated = undated.replace("lookback = \"3d\"\n", "");
    world.redshift.0.lock().unwrap().columns.push(("sales".into(), "orders".into(), "n bigint"));
    for n in 0..51 {
        world.put(&[&format!("orders/n={n}/a.parquet")]).await;
    }
    let done = apply(&world.ports, &undated).await.unwrap();
    assert_eq!((done.marked, done.by_jobs, done.sent), (0, 51, 0));
    let jobs = jobs::all(&world.ports).await.unwrap();
    assert_eq!((jobs.len(), jobs[0].kind, jobs[0].total, jobs[0].by.as_str()), (1, Kind::Definition, 51, "alice"));
    let lines = jobs::lines(&world.ports, "control", &jobs[0], 0).await.unwrap();
    assert_eq!((lines.len(), lines[0].partition.as_str()), (51, "n=0"));
    assert!(world.plan(&undated).await.is_empty(), "nothing more is owed");
}

#[tokio::test]
async fn two_who_apply_at_once_do_not_undo_each_other() {
    let world = World::new();
    world.apply(ORDERS).await;
    let (mine, theirs) = (ORDERS.replace("3d", "4d"), ORDERS.replace("3d", "5d"));
    let (definitions, stack, take_over) = (definitions(&mine), StackName::new("prod").unwrap(), BTreeSet::new());
    let wish = Wish {
        definitions: &definitions,
        stack: &stack,
        take_over: &take_over,
        mark: true,
        control_bucket: "control",
        by: "alice",
    };
    let plan = survey(&world.ports, wish).await.unwrap();
    world.apply(&theirs).await;
    assert!(matches!(carry_out(&world.ports, wish, &plan).await, Err(ApplyError::Raced)));
    assert!(world.plan(&theirs).await.is_empty());
}

#[tokio::test]
async fn an_apply_that_fails_or_dies_anywhere_is_finished_by_the_next() {
    let prepared = async || {
        let world = World::new();
        world.put(&["orders/dt=2026-11-02/a.parquet", "orders/dt=2026-11-03/a.parquet"]).await;
        world
    };
    let (whole, quiet) = (prepared().await, Faults::quiet());
    apply(&whole.faulty(&quiet), ORDERS).await.unwrap();
    let calls: Vec<&str> = quiet.steps().iter().map(|step| step.call).collect();
    let guarded = calls.iter().rposition(|call| *call == "warehouse.submit");
    assert!(guarded < calls.iter().position(|call| *call == "state.write"), "the guard row comes first: {calls:?}");
    let keys: Vec<Key> = whole.stored().into_iter().map(|(key, _)| key).collect();
    for step in quiet.steps() {
        for fault in Fault::ALL {
            let (world, faults) = (prepared().await, Faults::at(step.number, fault));
            let _ended_anyhow = faults.run(apply(&world.faulty(&faults), ORDERS)).await;
            apply(&world.ports, ORDERS).await.unwrap();
            let at = format!("{fault:?} at {step:?}");
            let found: Vec<Key> = world.stored().into_iter().map(|(key, _)| key).collect();
            assert_eq!(found, keys, "{at}");
            assert!(world.plan(ORDERS).await.is_empty(), "{at}");
            assert_eq!(world.head().epoch.0, u64::try_from(world.guard().2).unwrap(), "{at}");
            for day in ["2026-11-02", "2026-11-03"] {
                let partition = world.partition(day).unwrap();
                assert!(partition.marked >= Generation(1) && partition.due_at.is_some(), "{at}");
            }
        }
    }
}
