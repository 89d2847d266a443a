//! The product's SQL, run: install, stage, swap, fence and look-ups, through the adapter and the local Data API on PostgreSQL.
//!
//! What holds here holds by what the statements do, not by who sends them when: no lock, no state table, no worker.

#[path = "redshift_sql/grants.rs"]
mod grants;
#[path = "redshift_sql/ranges.rs"]
mod ranges;
#[path = "redshift_sql/upsert.rs"]
mod upsert;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, mpsc};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use aws_sdk_redshiftdata::config::{BehaviorVersion, Credentials, Region};
use tidemark_aws::RedshiftWarehouse;
use tidemark_aws::config::{RedshiftConfig, RedshiftEndpoint};
use tidemark_domain::definition::{self, Definition};
use tidemark_domain::failure::{
    Effect, Failure, FailureKind, SubStatementError, culprit, staging_exists, statement_failure,
};
use tidemark_domain::id::{BatchId, DefinitionHash, Digest, Epoch, Fence, Generation, StackName};
use tidemark_domain::partition_value::{Partition, PartitionValue};
use tidemark_domain::sql::rebuild::{self, LastBatch, Listed, Request, Verified};
use tidemark_domain::sql::rows::{self, Field, SwapCounts};
use tidemark_domain::sql::{Batch, SubStatement, identifier, install, ledger, lookup};
use tidemark_domain::verify::SourceCounts;
use tidemark_engine::ports::{Execution, ExecutionStatus, Submission, Warehouse};
use tidemark_local::{Postgres, Run};
use tidemark_redshift_data::{Config, Isolation, Server, serve};

/// PostgreSQL and the Data API on it, once per process, on a runtime that outlives every test's.
struct Servers {
    postgres: Arc<Postgres>,
    snapshot: Server,
    serializable: Server,
}

static SERVERS: LazyLock<Result<Servers, String>> = LazyLock::new(|| {
    let (tell, told) = mpsc::channel();
    let serve = move || -> Result<()> {
        tokio::runtime::Runtime::new()?.block_on(async {
            let postgres = Arc::new(Postgres::start(&Run::new()?).await?);
            // No COPY here, so no S3.
            let (database, s3_endpoint) = (postgres.conninfo("postgres"), "http://127.0.0.1:9".to_owned());
            let listen = "127.0.0.1:0".parse()?;
            let config = Config { listen, postgres: database, s3_endpoint, isolation: Isolation::Snapshot };
            let snapshot = serve(config.clone()).await?;
            let serializable = serve(Config { isolation: Isolation::Serializable, ..config }).await?;
            tell.send(Servers { postgres, snapshot, serializable })?;
            std::future::pending().await
        })
    };
    let serving = std::thread::spawn(serve);
    told.recv().map_err(|_| format!("the servers didn't start: {:?}", serving.join()))
});

fn servers() -> Result<&'static Servers> {
    SERVERS.as_ref().map_err(|error| anyhow!("{error}"))
}

/// A database of its own, with the target and everything of ours installed.
struct World {
    warehouse: RedshiftWarehouse,
    definition: Definition,
    hash: DefinitionHash,
    stack: StackName,
}

const EVENTS: &str = r#"
[events]
source = "s3://lake/events/"
layout = "region={region}/dt={dt}/"
format = "csv"
target = "web.events"
columns = ["id bigint", "dt date", "said varchar(100)"]
key = ["id"]
required = ["id"]

[events.partition.region]
type = "text"

[events.partition.dt]
type = "date"
in_files = true
"#;

const WITH_PROVENANCE: &str = "[events.provenance]\nbatch_id = \"_batch_id\"\nloaded_at = \"_loaded_at\"\n";

impl World {
    async fn new(database: &str, settings: &str) -> Result<Self> {
        Self::on(&servers()?.snapshot, database, settings).await
    }

    async fn on(server: &Server, database: &str, settings: &str) -> Result<Self> {
        let world = Self::bare(server, database, settings).await?;
        for _ in 0..2 {
            world.finish(&install::install()?).await?;
            world.finish(&install::install_target(&world.definition.target)?).await?;
            world.finish(&world.own("prod", 3, false)?).await?;
        }
        Ok(world)
    }

    /// The target, with nothing of ours.
    async fn bare(server: &Server, database: &str, settings: &str) -> Result<Self> {
        servers()?.postgres.create_database(database).await?;
        let credentials = Credentials::new("AKIATEST", "secret", None, None, "test");
        let config = aws_sdk_redshiftdata::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-west-1"))
            .credentials_provider(credentials)
            .endpoint_url(server.url())
            .build();
        let endpoint = RedshiftEndpoint::Workgroup("local".to_owned());
        let redshift = RedshiftConfig { endpoint, database: database.to_owned(), db_user: None, secret_arn: None };
        let warehouse = RedshiftWarehouse::new(aws_sdk_redshiftdata::Client::from_conf(config), redshift);
        let definitions = definition::parse(&format!("{EVENTS}\n{settings}"));
        let definition = definitions.map_err(|problems| anyhow!("{problems:?}"))?.remove(0);
        let (hash, stack) = (definition.hash(), StackName::new("prod")?);
        let world = Self { warehouse, definition, hash, stack };
        world
            .sql(&[
                "CREATE SCHEMA web",
                "CREATE TABLE web.events (id bigint, dt date, said varchar(100), region varchar(100), \
                 _batch_id varchar(36), _loaded_at timestamp)",
            ])
            .await?;
        Ok(world)
    }

    fn own(&self, stack: &str, epoch: u64, take_over: bool) -> Result<Batch> {
        let stack = StackName::new(stack)?;
        Ok(install::own(&self.definition.target, &stack, &self.definition.name, Epoch(epoch), take_over)?)
    }

    fn day(&self, day: u64) -> Result<Partition> {
        Ok(self.definition.partition_of(&format!("region=eu/dt=2026-11-{day:02}/a.csv"))?)
    }

    fn partition(&self) -> Result<Partition> {
        let key = "region=O'Brien\\'; DROP TABLE web.events;--%0A\"$$é/dt=2026-11-01/a.csv";
        Ok(self.definition.partition_of(key)?)
    }

    fn request<'a>(&'a self, partition: &'a Partition, batch: BatchId, fence: u64) -> Request<'a> {
        Request {
            definition: &self.definition,
            definition_hash: &self.hash,
            partition,
            stack: &self.stack,
            batch,
            fence: Fence(fence),
            generation: Generation(fence + 10),
            epoch: Epoch(3),
            statement_timeout: Duration::from_mins(1),
            last: None,
            accept_foreign_rows: false,
            listed: None,
        }
    }

    async fn run(&self, batch: &Batch) -> Result<Execution> {
        let token = uuid();
        let submission =
            Submission { statements: batch.statements(), name: batch.name(), token: &token, wait_seconds: 30 };
        let submitted = self.warehouse.submit(submission).await?;
        self.warehouse.describe(&submitted.id, 30).await?.context("just submitted")
    }

    async fn finish(&self, batch: &Batch) -> Result<Execution> {
        let execution = self.run(batch).await?;
        assert_eq!(execution.status, ExecutionStatus::Finished, "{}: {:?}", batch.name(), execution.first_error());
        Ok(execution)
    }

    async fn rows(&self, batch: &Batch, of: SubStatement) -> Result<Vec<Vec<Field>>> {
        let execution = self.finish(batch).await?;
        Ok(self.warehouse.result(&of.id(&execution.id)).await?)
    }

    /// Runs to an end that isn't FINISHED.
    async fn failure(&self, batch: &Batch) -> Result<Failure> {
        let execution = self.run(batch).await?;
        assert_eq!(execution.status, ExecutionStatus::Failed, "{} should fail", batch.name());
        let errors: Vec<_> = execution
            .statements
            .iter()
            .zip(batch.statements())
            .enumerate()
            .filter_map(|(index, (sub, sql))| {
                Some(SubStatementError { number: index + 1, sql, error: sub.error.as_deref()? })
            })
            .collect();
        Ok(statement_failure(culprit(&errors), execution.error.as_deref().unwrap_or_default()))
    }

    async fn sql(&self, statements: &[&str]) -> Result<()> {
        let batch = Batch::new("test", statements.iter().map(|sql| (*sql).to_owned()).collect())?;
        self.finish(&batch).await?;
        Ok(())
    }

    async fn number(&self, sql: &str) -> Result<i64> {
        let batch = Batch::new("test", vec![sql.to_owned()])?;
        let rows = self.rows(&batch, batch.last()).await?;
        match rows[0][0] {
            Field::Long(number) => Ok(number),
            _ => anyhow::bail!("{sql}: {rows:?}"),
        }
    }

    /// Stages without a COPY and fills the table by hand.
    async fn stage(&self, request: &Request<'_>, rows: u64) -> Result<Verified> {
        self.finish(&rebuild::stage(request, None)?.batch).await?;
        if rows > 0 {
            let day = request.partition.values.iter().find_map(|value| match value {
                PartitionValue::Date(day) => Some(*day),
                _ => None,
            });
            let day = day.context("a partition of a day")?;
            let values: Vec<_> = (0..rows).map(|id| format!("({id}, DATE '{day}', 'x')")).collect();
            let staging = identifier::staging(&request.staging_name())?;
            self.sql(&[&format!("INSERT INTO {staging} (id, dt, said) VALUES {}", values.join(", "))]).await?;
        }
        let staged_at = "2026-11-02T03:04:05.678Z".parse()?;
        Ok(Verified { staged_rows: rows, rejected_rows: 1, duplicate_rows: 2, staged_at, ..Verified::default() })
    }
}

fn uuid() -> String {
    uuid::Uuid::now_v7().to_string()
}

fn new_batch() -> BatchId {
    BatchId(uuid::Uuid::now_v7())
}

fn listed() -> Listed {
    Listed {
        digest: Digest::of([b"inventory".as_slice()]),
        inventory_key: "inventories/it's.json".to_owned(),
        source: SourceCounts { objects: 3, bytes: 900, rows: None },
    }
}

fn swap(request: &Request<'_>, verified: &Verified) -> Result<Batch> {
    Ok(rebuild::swap(request, &listed(), verified)?.batch)
}

#[tokio::test]
async fn a_partition_is_staged_swapped_and_looked_up() -> Result<()> {
    let world = World::new("swapped", WITH_PROVENANCE).await?;
    let partition = world.partition()?;
    let first = world.request(&partition, new_batch(), 4);
    let verified = world.stage(&first, 3).await?;
    let again = world.failure(&rebuild::stage(&first, None)?.batch).await?;
    assert!(staging_exists(&again.message, &first.staging_name()), "{}", again.message);
    let recount = lookup::recount(&first)?;
    let counts = rows::stage_counts(&world.definition, &world.rows(&recount, recount.last()).await?)?;
    assert_eq!((counts.staged_rows, counts.target_rows, counts.other_partition_rows), (3, 0, 0));

    let built = rebuild::swap(&first, &listed(), &verified)?;
    let counts = rows::swap_counts(&world.rows(&built.batch, built.counts).await?)?;
    assert_eq!(counts, SwapCounts { staged_rows: 3, deleted_rows: 0, inserted_rows: 3, target_rows: 3 });

    let last = Some(LastBatch { batch: first.batch, rows: 3 });
    let second = Request { last, ..world.request(&partition, new_batch(), 9) };
    let verified = world.stage(&second, 5).await?;
    let built = rebuild::swap(&second, &listed(), &verified)?;
    let counts = rows::swap_counts(&world.rows(&built.batch, built.counts).await?)?;
    assert_eq!(counts, SwapCounts { staged_rows: 5, deleted_rows: 3, inserted_rows: 5, target_rows: 5 });

    for look in [lookup::look(&second)?, lookup::ledger_row(&second)?] {
        let found = rows::look(&world.rows(&look, look.last()).await?)?;
        assert_eq!(found.stored_fence, Some(Fence(9)));
        let row = found.ledger.context("a ledger row")?;
        assert_eq!((row.batch, row.fence, row.generation), (second.batch, Fence(9), Generation(19)));
        assert_eq!((row.counts, row.rejected_rows, row.duplicate_rows), (counts, 1, 2));
        assert_eq!((&row.inventory_key, row.source), (&listed().inventory_key, listed().source));
        assert_eq!(row.staged_at.to_string(), "2026-11-02T03:04:05.678");
    }
    let of = format!("SELECT count(*) FROM web.events WHERE _batch_id = '{}' AND _loaded_at IS NOT NULL", second.batch);
    assert_eq!(world.number(&of).await?, 5, "every row tells its batch");
    world.finish(&lookup::drop_staging(&second)?).await?;
    world.finish(&lookup::drop_staging(&second)?).await?;
    let blockers = lookup::blockers(&second, 1)?;
    assert_eq!(rows::blockers(&world.rows(&blockers, blockers.last()).await?)?, []);
    Ok(())
}

/// Of each partition the newest batch by fence, wherever its name sorts; batches that aren't booked; tables left in staging.
#[tokio::test]
async fn sweep_is_told_the_newest_batches_and_what_is_not_booked() -> Result<()> {
    let world = World::new("swept", "").await?;
    let partitions = [world.day(1)?, world.day(2)?, world.partition()?];
    let mut newest = Vec::new();
    for (n, partition) in partitions.iter().enumerate() {
        for fence in [3, 12, 25] {
            let request = Request { accept_foreign_rows: true, ..world.request(partition, new_batch(), fence) };
            let verified = world.stage(&request, 1).await?;
            world.finish(&swap(&request, &verified)?).await?;
            if fence == 25 {
                newest.push((partitions[n].name.clone(), request.batch));
            }
        }
    }
    let ask = async |batch: Batch| world.rows(&batch, batch.last()).await;
    let read = |rows: &[Vec<Field>]| -> Result<Vec<_>> {
        let mut found: Vec<_> = ledger::read_newest(rows)?.into_iter().map(|(name, row)| (name, row.batch)).collect();
        found.sort();
        Ok(found)
    };
    newest.sort();
    let dataset = &world.definition.name;
    assert_eq!(read(&ask(ledger::newest_between(&world.stack, dataset, None, None)?).await?)?, newest);
    let (first, second) = (&newest[0].0, &newest[1].0);
    let between = ledger::newest_between(&world.stack, dataset, Some(first), Some(second))?;
    assert_eq!(read(&ask(between).await?)?, newest[1..2]);
    let names: Vec<_> = partitions.iter().map(|partition| partition.name.clone()).collect();
    let (of, named) = ledger::newest_of(&world.stack, dataset, &names)?;
    assert_eq!((named, read(&ask(of).await?)?), (3, newest.clone()));
    assert_eq!(read(&ask(ledger::newest_between(&StackName::new("another")?, dataset, None, None)?).await?)?, []);

    let unbooked = ledger::read_unbooked(&ask(ledger::unbooked(&world.stack, None, None, 500)?).await?)?;
    assert_eq!((unbooked.len(), unbooked[0].objects, unbooked.is_sorted_by_key(|u| u.batch)), (9, 3, true));
    world
        .sql(&[&format!("INSERT INTO tidemark.files VALUES ('{}', 'k', 'e', 1, GETDATE())", unbooked[4].batch)])
        .await?;
    let hour_ago = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1);
    let after = Some(unbooked[3].batch);
    let rest = ledger::read_unbooked(&ask(ledger::unbooked(&world.stack, Some(hour_ago), after, 500)?).await?)?;
    assert_eq!(rest, unbooked[5..], "the fifth is booked");
    let in_an_hour = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    assert_eq!(ask(ledger::unbooked(&world.stack, Some(in_an_hour), None, 500)?).await?, Vec::<Vec<Field>>::new());

    let tables = ledger::read_staging_tables(&ask(ledger::staging_tables()?).await?)?;
    assert_eq!(tables.len(), 9);
    world.finish(&ledger::drop_staging(tables.iter().map(|(_, name)| name.as_str()))?).await?;
    assert_eq!(ask(ledger::staging_tables()?).await?, Vec::<Vec<Field>>::new());
    Ok(())
}

#[tokio::test]
async fn of_swaps_at_once_the_newest_fence_stays() -> Result<()> {
    let world = World::new("at_once", "").await?;
    let partition = world.partition()?;
    for round in 0..5 {
        let fences = [3, 1, 2, 2].map(|fence| fence + round * 10);
        let mut swaps = Vec::new();
        for fence in fences {
            let request = Request { accept_foreign_rows: true, ..world.request(&partition, new_batch(), fence) };
            let verified = world.stage(&request, fence % 10).await?;
            swaps.push(swap(&request, &verified)?);
        }
        let [a, b, c, d] = &swaps[..] else { unreachable!() };
        let ended = tokio::try_join!(world.run(a), world.run(b), world.run(c), world.run(d))?;
        let ended = [ended.0, ended.1, ended.2, ended.3];
        assert_eq!(ended[0].status, ExecutionStatus::Finished, "{:?}", ended[0].first_error());
        for execution in ended.iter().filter(|execution| execution.status != ExecutionStatus::Finished) {
            let error = execution.first_error().unwrap_or_default();
            assert!(error.contains("TIDEMARK-SUPERSEDED:"), "{error}");
        }
        assert_eq!(world.number("SELECT count(*) FROM web.events").await?, 3, "the rows of the newest fence");
        let twice = "SELECT count(*) FROM (SELECT fence FROM tidemark.batches GROUP BY fence HAVING count(*) > 1) AS t";
        assert_eq!(world.number(twice).await?, 0, "one swap per fence at most");
    }
    Ok(())
}

#[tokio::test]
async fn c147_partitions_of_one_table_are_swapped_at_once() -> Result<()> {
    for (server, database) in [(&servers()?.snapshot, "days"), (&servers()?.serializable, "days_serializable")] {
        let world = World::on(server, database, "").await?;
        let days = [world.day(1)?, world.day(2)?, world.day(3)?, world.day(4)?];
        let mut swaps = Vec::new();
        for (day, rows) in days.iter().zip(1..) {
            let request = world.request(day, new_batch(), 1);
            let verified = world.stage(&request, rows).await?;
            swaps.push(swap(&request, &verified)?);
        }
        let [a, b, c, d] = &swaps[..] else { unreachable!() };
        tokio::try_join!(world.finish(a), world.finish(b), world.finish(c), world.finish(d))?;
        assert_eq!(world.number("SELECT count(*) FROM web.events").await?, 10);
        assert_eq!(world.number("SELECT count(*) FROM tidemark.batches").await?, 4);
    }
    Ok(())
}

#[tokio::test]
async fn c154_a_reader_sees_the_old_rows_or_the_new_ones() -> Result<()> {
    let world = World::new("reader", "").await?;
    let partition = world.day(1)?;
    let swap_in = async |fence: u64, rows: u64| {
        let request = Request { accept_foreign_rows: true, ..world.request(&partition, new_batch(), fence) };
        let verified = world.stage(&request, rows).await?;
        let swap = swap(&request, &verified)?;
        // The same, but failing after the DELETE.
        let mut broken = swap.statements().to_vec();
        let insert = broken.iter().position(|sql| sql.starts_with("INSERT INTO \"web\"")).context("an INSERT")?;
        broken[insert] = "INSERT INTO web.no_such_table SELECT 1".to_owned();
        world.failure(&Batch::new("broken", broken)?).await?;
        world.finish(&swap).await
    };
    swap_in(1, 100).await?;
    let done = AtomicBool::new(false);
    let writer = async {
        for fence in 2..8 {
            swap_in(fence, 100 + fence).await?;
        }
        done.store(true, Ordering::Relaxed);
        Ok::<_, anyhow::Error>(())
    };
    let reader = async {
        let mut seen = Vec::new();
        while !done.load(Ordering::Relaxed) {
            seen.push(world.number("SELECT count(*) FROM web.events WHERE dt = DATE '2026-11-01'").await?);
        }
        Ok(seen)
    };
    let ((), seen) = tokio::try_join!(writer, reader)?;
    assert!(seen.len() > 6, "{seen:?}");
    assert!(seen.is_sorted() && seen[0] == 100 && seen.iter().all(|rows| (100..108).contains(rows)), "{seen:?}");
    Ok(())
}

#[tokio::test]
async fn what_is_fenced_off_never_swaps() -> Result<()> {
    let world = World::new("fenced_off", "").await?;
    let partition = world.partition()?;
    let old = world.request(&partition, new_batch(), 4);
    let verified = world.stage(&old, 2).await?;
    let new = world.request(&partition, new_batch(), 6);
    world.finish(&rebuild::fence(&new)?).await?;
    world.finish(&rebuild::fence(&old)?).await?;
    let look = lookup::look(&new)?;
    let found = rows::look(&world.rows(&look, look.last()).await?)?;
    assert_eq!((found.stored_fence, found.ledger), (Some(Fence(5)), None), "an older fence lowers nothing");
    let failure = world.failure(&swap(&old, &verified)?).await?;
    assert_eq!((failure.kind, failure.effect), (FailureKind::Superseded, Effect::NotApplied), "{}", failure.message);
    assert_eq!(world.number("SELECT count(*) FROM web.events").await?, 0);
    let verified = world.stage(&new, 2).await?;
    world.finish(&swap(&new, &verified)?).await?;
    let failure = world.failure(&swap(&new, &verified)?).await?;
    assert_eq!(failure.kind, FailureKind::Superseded, "not even its own fence swaps twice: {}", failure.message);
    Ok(())
}

#[tokio::test]
async fn the_guard_row_tells_owner_and_epoch() -> Result<()> {
    let world = World::new("guard_row", "").await?;
    let partition = world.partition()?;
    let ours = world.request(&partition, new_batch(), 1);
    let verified = world.stage(&ours, 1).await?;
    let stranger = StackName::new("staging")?;
    for (request, kind) in [
        (Request { stack: &stranger, ..ours }, FailureKind::Misconfigured),
        (Request { epoch: Epoch(2), ..ours }, FailureKind::EpochOver),
        (Request { epoch: Epoch(4), ..ours }, FailureKind::Misconfigured),
    ] {
        for batch in [swap(&request, &verified)?, rebuild::fence(&request)?] {
            let failure = world.failure(&batch).await?;
            assert_eq!(failure.kind, kind, "{}", failure.message);
        }
    }
    assert_eq!(world.failure(&world.own("staging", 9, false)?).await?.kind, FailureKind::Misconfigured);
    assert_eq!(world.failure(&world.own("prod", 2, false)?).await?.kind, FailureKind::EpochOver);
    world.finish(&world.own("staging", 1, true)?).await?;
    assert_eq!(world.failure(&swap(&ours, &verified)?).await?.kind, FailureKind::Misconfigured);
    world.finish(&world.own("prod", 4, true)?).await?;
    assert_eq!(world.failure(&swap(&ours, &verified)?).await?.kind, FailureKind::EpochOver);
    world.finish(&swap(&Request { epoch: Epoch(4), ..ours }, &verified)?).await?;
    Ok(())
}

#[tokio::test]
async fn foreign_rows_stop_the_swap_and_stay() -> Result<()> {
    for (database, provenance) in [("foreign", ""), ("foreign_provenance", WITH_PROVENANCE)] {
        let world = World::new(database, provenance).await?;
        let partition = world.partition()?;
        let first = world.request(&partition, new_batch(), 1);
        let verified = world.stage(&first, 4).await?;
        world.finish(&swap(&first, &verified)?).await?;
        world
            .sql(&["INSERT INTO web.events (id, dt, region) SELECT 99, dt, region FROM web.events WHERE id = 0"])
            .await?;

        let last = Some(LastBatch { batch: first.batch, rows: 4 });
        let second = Request { last, ..world.request(&partition, new_batch(), 2) };
        let verified = world.stage(&second, 4).await?;
        let failure = world.failure(&swap(&second, &verified)?).await?;
        assert_eq!(failure.kind, FailureKind::ForeignRows, "{}", failure.message);
        assert!(failure.message.contains("1 of the 5 rows"), "{}", failure.message);
        assert_eq!(world.number("SELECT count(*) FROM web.events").await?, 5);

        let accepting = Request { accept_foreign_rows: true, ..second };
        world.finish(&swap(&accepting, &verified)?).await?;
        assert_eq!(world.number("SELECT count(*) FROM web.events").await?, 4);
    }
    Ok(())
}

#[tokio::test]
async fn c123_c169_what_was_not_verified_or_is_of_another_partition_is_never_swapped() -> Result<()> {
    let world = World::new("sealed", "").await?;
    let partition = world.partition()?;
    let request = world.request(&partition, new_batch(), 1);
    let verified = world.stage(&request, 4).await?;
    let other = Verified { staged_rows: 3, ..verified };
    let failure = world.failure(&swap(&request, &other)?).await?;
    assert!(failure.kind == FailureKind::Bug && failure.message.contains("TIDEMARK-STAGED:"), "{}", failure.message);

    let staging = identifier::staging(&request.staging_name())?;
    world.sql(&[&format!("UPDATE {staging} SET dt = DATE '2026-11-02' WHERE id = 1")]).await?;
    let recount = lookup::recount(&request)?;
    let counts = rows::stage_counts(&world.definition, &world.rows(&recount, recount.last()).await?)?;
    assert_eq!(counts.other_partition_rows, 1);
    let failure = world.failure(&swap(&request, &verified)?).await?;
    assert!(failure.kind == FailureKind::Bug && failure.message.contains("TIDEMARK-SEAL:"), "{}", failure.message);
    assert_eq!(world.number("SELECT count(*) FROM web.events").await?, 0, "nothing of it stays");

    world.sql(&[&format!("UPDATE {staging} SET dt = NULL, said = 'x' WHERE id = 1")]).await?;
    world
        .sql(&[&format!("INSERT INTO {staging} (id, dt) SELECT id, DATE '2026-11-01' FROM {staging} WHERE id > 1")])
        .await?;
    world.sql(&[&format!("INSERT INTO {staging} (id) SELECT NULL FROM {staging} WHERE id = 0")]).await?;
    let counts = rows::stage_counts(&world.definition, &world.rows(&recount, recount.last()).await?)?;
    assert_eq!((counts.staged_rows, counts.duplicate_rows), (7, 2));
    assert_eq!(counts.other_partition_rows, 2, "a NULL is of no partition");
    assert_eq!(counts.nulls[0].1, 1);
    Ok(())
}
