//! The warehouse twin understands every statement of the product, and does what each of them means.

#![expect(clippy::unwrap_used, reason = "a test that can't be set up fails")]

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tidemark_domain::definition::{Definition, parse};
use tidemark_domain::id::{BatchId, DefinitionHash, Digest, Epoch, Fence, Generation, StackName};
use tidemark_domain::partition_value::Partition;
use tidemark_domain::sql::rebuild::{CopyRole, CopySource, LastBatch, Listed, Request, Verified};
use tidemark_domain::sql::{Batch, SubStatement, lookup, rebuild, rows};
use tidemark_domain::verify::SourceCounts;
use tidemark_engine::memory::{End, ManualClock, MemoryObjects, MemoryWarehouse, Pace};
use tidemark_engine::ports::{
    Clock as _, Execution, ExecutionStatus, Objects as _, StatementResult, Submission, Warehouse as _,
};
use uuid::Uuid;

const TOML: &str = r#"
[orders]
source = "s3://lake/orders/"
layout = "region={region}/dt={dt}/"
format = "csv"
target = "sales.orders"
columns = ["order_id bigint", "amount decimal(12,2)"]
key = ["order_id"]
required = ["order_id", "amount"]

[orders.partition.region]
type = "text"
column = "region"

[orders.partition.dt]
type = "date"
column = "dt"

[orders.provenance]
batch_id = "_batch_id"
"#;

const BELOW: &str = "region=O'Brien, (x) AS t/dt=2026-11-01/part.csv";

struct World {
    definition: Definition,
    hash: DefinitionHash,
    partition: Partition,
    stack: StackName,
    objects: MemoryObjects,
    redshift: MemoryWarehouse,
    clock: ManualClock,
}

impl World {
    async fn with_lines(lines: &str) -> Self {
        let definition = parse(TOML).unwrap().remove(0);
        let partition = definition.layout.partition_of(&definition.parts, BELOW).unwrap();
        let clock = ManualClock::new(Timestamp::from_second(1_790_000_000).unwrap(), 1);
        let objects = MemoryObjects::new(clock.clone(), &["lake", "control"]);
        let redshift = MemoryWarehouse::new(clock.clone(), objects.clone());
        let stack = StackName::new("tidemark-test").unwrap();
        redshift.prepare(&definition.target, &stack, &definition.name, Epoch(3)).unwrap();
        let key = format!("orders/{BELOW}");
        objects.put("lake", &key, Bytes::copy_from_slice(lines.as_bytes())).await.unwrap();
        let entry =
            serde_json::json!({"url": format!("s3://lake/{key}"), "mandatory": true, "meta": {"content_length": 1}});
        let manifest = serde_json::json!({"entries": [entry]}).to_string();
        objects.put("control", "manifest", Bytes::from(manifest)).await.unwrap();
        Self { definition, hash: DefinitionHash::of([b"x".as_slice()]), partition, stack, objects, redshift, clock }
    }

    fn request(&self, fence: u64, last: Option<LastBatch>) -> Request<'_> {
        Request {
            definition: &self.definition,
            definition_hash: &self.hash,
            partition: &self.partition,
            stack: &self.stack,
            batch: BatchId(Uuid::from_u128(u128::from(fence))),
            fence: Fence(fence),
            generation: Generation(fence + 10),
            epoch: Epoch(3),
            statement_timeout: Duration::from_mins(30),
            last,
            accept_foreign_rows: false,
            listed: None,
        }
    }

    async fn submit(&self, batch: &Batch) -> Execution {
        let token = self.clock.id().to_string();
        let submission =
            Submission { statements: batch.statements(), name: batch.name(), token: &token, wait_seconds: 30 };
        self.redshift.submit(submission).await.unwrap()
    }

    async fn ask(&self, batch: &Batch, statement: SubStatement) -> StatementResult {
        let execution = self.submit(batch).await;
        assert_eq!(execution.status, ExecutionStatus::Finished, "{:#?}", execution.first_error());
        self.redshift.result(&statement.id(&execution.id)).await.unwrap()
    }

    async fn stage(&self, request: &Request<'_>) -> Execution {
        let manifest_url = "s3://control/manifest".to_owned();
        let source = CopySource { manifest_url, role: CopyRole::Default, region: None };
        self.submit(&rebuild::stage(request, Some(&source)).unwrap().batch).await
    }

    fn swap(&self, request: &Request<'_>, staged_rows: u64) -> rebuild::Swap {
        let source = SourceCounts { objects: 1, bytes: 9, rows: None };
        let listed = Listed { digest: Digest::of([b"d".as_slice()]), inventory_key: "inventory".into(), source };
        let verified = Verified {
            staged_rows,
            rejected_rows: 0,
            duplicate_rows: 0,
            staged_at: self.clock.now(),
            ..Verified::default()
        };
        rebuild::swap(request, &listed, &verified).unwrap()
    }

    fn rows(&self) -> Vec<String> {
        self.redshift.rows(&self.definition.target).into_values().flatten().collect()
    }
}

#[tokio::test]
async fn a_rebuild_lands_once_with_its_counts() {
    let world = World::with_lines("1\n2\n2\n3#null\n").await;
    let request = world.request(7, None);
    let staged = world.stage(&request).await;
    assert_eq!(staged.status, ExecutionStatus::Finished, "{:?}", staged.first_error());
    let result = async |n: usize| world.redshift.result(&SubStatement(n).id(&staged.id)).await.unwrap();
    let loads = rows::load_counts(&result(5).await).unwrap();
    assert_eq!((loads.distinct_files, loads.listed_files, loads.rejected_rows), (1, 1, 0));
    assert_eq!(loads.copy_query_id, Some(staged.statements[3].query_id), "COPY's own id");
    let counts = rows::stage_counts(&world.definition, &result(6).await).unwrap();
    assert_eq!((counts.staged_rows, counts.duplicate_rows, counts.target_rows), (4, 1, 0));
    assert_eq!(counts.nulls.iter().map(|(_, nulls)| *nulls).collect::<Vec<_>>(), [1, 1]);
    let recount = lookup::recount(&request).unwrap();
    let again = rows::stage_counts(&world.definition, &world.ask(&recount, recount.last()).await).unwrap();
    assert_eq!(again, counts);

    let swap = world.swap(&request, 4);
    let moved = rows::swap_counts(&world.ask(&swap.batch, swap.counts).await).unwrap();
    assert_eq!((moved.staged_rows, moved.deleted_rows, moved.inserted_rows, moved.target_rows), (4, 0, 4, 4));
    assert_eq!(world.rows(), ["1", "2", "2", "3#null"]);
    for look in [lookup::look(&request).unwrap(), lookup::ledger_row(&request).unwrap()] {
        let look = rows::look(&world.ask(&look, look.last()).await).unwrap();
        assert_eq!(look.stored_fence, Some(Fence(7)));
        let row = look.ledger.unwrap();
        assert_eq!(
            (row.batch, row.generation, row.fence, row.epoch),
            (request.batch, Generation(17), Fence(7), Epoch(3))
        );
        assert_eq!((row.counts, row.source.objects, row.source.rows), (moved, 1, None));
    }
    // The same swap again, under another token: the fence isn't older any more.
    let again = world.submit(&swap.batch).await;
    assert_eq!(again.status, ExecutionStatus::Failed);
    assert!(again.first_error().unwrap().contains("TIDEMARK-SUPERSEDED"), "{again:?}");
    assert_eq!(world.redshift.ledger().len(), 1);
    world.submit(&lookup::drop_staging(&request).unwrap()).await;
    assert_eq!(world.redshift.staging_tables(), [""; 0]);
}

#[tokio::test]
async fn a_fence_shuts_older_swaps_out_and_shows_nothing_landed() {
    let world = World::with_lines("1\n").await;
    let (old, new) = (world.request(7, None), world.request(8, None));
    world.stage(&old).await;
    let fenced = world.submit(&rebuild::fence(&new).unwrap()).await;
    assert_eq!(fenced.status, ExecutionStatus::Finished, "{:?}", fenced.first_error());
    let late = world.submit(&world.swap(&old, 1).batch).await;
    assert!(late.first_error().unwrap().contains("TIDEMARK-SUPERSEDED"), "{late:?}");
    let look = lookup::look(&new).unwrap();
    let look = rows::look(&world.ask(&look, look.last()).await).unwrap();
    assert_eq!((look.stored_fence, look.ledger), (Some(Fence(7)), None));
    assert_eq!(world.rows(), [""; 0]);
}

#[tokio::test]
async fn guards_and_owners_stop_a_swap() {
    let world = World::with_lines("1\n2\n").await;
    let request = world.request(7, None);
    world.stage(&request).await;
    let condition = "\"region\" = 'O''Brien, (x) AS t' AND \"dt\" = DATE '2026-11-01'";
    world.redshift.put_rows(&world.definition.target, condition, &["foreign"]).unwrap();
    let stopped = |execution: Execution, by: &str| {
        assert!(execution.first_error().unwrap_or_default().contains(by), "{by}: {execution:?}");
        assert_eq!(world.rows(), ["foreign"], "a swap that fails touches nothing");
    };
    stopped(world.submit(&world.swap(&request, 2).batch).await, "TIDEMARK-FOREIGN-ROWS: 1 of the 1 rows");
    stopped(world.submit(&world.swap(&request, 3).batch).await, "TIDEMARK-STAGED: staging holds 2 rows, but 3");
    let other = StackName::new("another").unwrap();
    let not_ours = Request { stack: &other, ..request };
    stopped(world.submit(&world.swap(&not_ours, 2).batch).await, "TIDEMARK-OWNER");
    let over = Request { epoch: Epoch(2), ..request };
    stopped(world.submit(&world.swap(&over, 2).batch).await, "TIDEMARK-EPOCH");
    let accepted = Request { accept_foreign_rows: true, ..request };
    assert_eq!(world.submit(&world.swap(&accepted, 2).batch).await.status, ExecutionStatus::Finished);
    assert_eq!(world.rows(), ["1", "2"]);
    // Rows of the last batch are ours.
    let next = world.request(8, Some(LastBatch { batch: request.batch, rows: 2 }));
    world.stage(&next).await;
    assert_eq!(world.submit(&world.swap(&next, 2).batch).await.status, ExecutionStatus::Finished);
}

#[tokio::test]
async fn a_bad_or_missing_file_fails_the_copy_and_leaves_no_table() {
    let world = World::with_lines("1\nx#bad\n").await;
    let request = world.request(7, None);
    let failed = world.stage(&request).await;
    assert!(failed.first_error().unwrap().contains("Load into table"), "{failed:?}");
    assert_eq!(world.redshift.staging_tables(), [""; 0]);
    let errors = lookup::load_errors(&request, failed.statements[3].query_id).unwrap();
    let errors = rows::load_errors(&world.ask(&errors, errors.last()).await).unwrap();
    assert_eq!((errors[0].line, errors[0].column.as_str()), (Some(2), "amount"));
    assert!(errors[0].file.ends_with("part.csv"));
    world.objects.delete("lake", &format!("orders/{BELOW}"));
    let failed = world.stage(&request).await;
    assert!(failed.first_error().unwrap().contains("Mandatory url is not present"), "{failed:?}");
}

#[tokio::test]
async fn the_test_chooses_when_and_how_a_statement_ends() {
    let world = World::with_lines("1\n").await;
    let request = world.request(7, None);
    world.redshift.set_pace("/stage", Pace::After(Duration::from_hours(2)));
    let began = world.clock.now();
    let staging = world.stage(&request).await;
    assert_eq!(staging.status, ExecutionStatus::Running);
    assert_eq!(world.clock.now().duration_since(began).as_secs(), 30, "a long poll takes its time");
    world.clock.advance(Duration::from_hours(3));
    let ended = world.redshift.describe(&staging.id, 0).await.unwrap().unwrap();
    assert_eq!(ended.status, ExecutionStatus::Finished);
    // The table is there already: whole, so it may be counted again.
    world.redshift.set_pace("/stage", Pace::AtOnce);
    let again = world.stage(&request).await;
    assert!(again.first_error().unwrap().contains("already exists"), "{again:?}");
    // A commit whose answer is lost.
    world.redshift.end_next("/swap", End::RunButFail("ERROR: connection lost".into()));
    let swap = world.submit(&world.swap(&request, 1).batch).await;
    assert_eq!((swap.status, swap.first_error()), (ExecutionStatus::Failed, Some("ERROR: connection lost")));
    assert_eq!(world.rows(), ["1"]);
    // Tokens are remembered for 8 hours, executions for 24.
    world.clock.advance(Duration::from_hours(25));
    assert_eq!(world.redshift.describe(&staging.id, 0).await.unwrap(), None);
}

#[tokio::test]
async fn what_it_does_not_know_fails() {
    let world = World::with_lines("1\n").await;
    for sql in ["SELECT 1", "DELETE FROM \"sales\".\"orders\"", "TRUNCATE \"sales\".\"orders\"", "COMMIT"] {
        let batch = Batch::new("test", vec![sql.into()]).unwrap();
        let failed = world.submit(&batch).await;
        assert!(failed.first_error().unwrap().contains("doesn't know this statement"), "{failed:?}");
    }
}
