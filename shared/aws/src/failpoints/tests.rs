//! Each listed failpoint fires, before and after, at the call that it names.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tidemark_domain::alert::{Gathered, Subject};
use tidemark_domain::cursor::{Cursor, Task};
use tidemark_domain::dataset::Head;
use tidemark_domain::definition::Concurrency;
use tidemark_domain::id::{DatasetName, Fence, Generation, PartitionId, PartitionName};
use tidemark_domain::job::{Heal, Job, Kind};
use tidemark_domain::lock::Scope;
use tidemark_domain::message::{PartitionMessage, Replay};
use tidemark_domain::partition::{Batch, Holds, Parked, PartitionItem, Phase, Statement};
use tidemark_domain::story::{self, Ending, Outcome};
use tidemark_domain::writes::{self, Keep, Taken};
use tidemark_engine::memory::{ManualClock, MemoryAnnouncer, MemoryObjects, MemoryQueue, MemoryState, MemoryWarehouse};
use uuid::Uuid;

use super::*;

fn id() -> PartitionId {
    let dataset = DatasetName::new("orders").unwrap();
    PartitionId { dataset, partition: PartitionName::new("dt=2026-11-01").unwrap() }
}

fn batch(phase: Phase, submitted: bool) -> Batch {
    let batch = json!({
        "id": "01a17722-3548-7000-8005-d10b2c9710f0", "fence": 1, "covers": 1, "phase": phase, "definition": "d", "epoch": 1,
        "began_at": 0, "statement_timeout_seconds": 60, "attempt": 1,
    });
    let statement = Statement { token: "t".to_owned(), submitted_at: Timestamp::UNIX_EPOCH, id: None };
    Batch { statement: submitted.then_some(statement), ..serde_json::from_value(batch).unwrap() }
}

/// Every write of the protocol, as the engine sends it.
fn writes() -> Vec<Vec<Update>> {
    let (id, now) = (id(), Timestamp::UNIX_EPOCH);
    let key = PartitionItem::key(&id);
    let dirty = writes::mark(&id, 0, now).apply(None).unwrap();
    let item = PartitionItem::from_item(&dirty).unwrap();
    let (none, listing) = (BTreeSet::new(), batch(Phase::Listing, false));
    let taken = Taken { fence: Fence(1), batch: listing.clone() };
    let scope = Scope::of(&id, Concurrency::Table);
    let holds = Holds { kind: "unavailable".to_owned(), count: 1 };
    let parked =
        Parked { generation: Generation(1), digest: None, kind: "stuck".to_owned(), message: "why".to_owned() };
    let ending = Ending { outcome: Outcome::GivenUp, rows: None, why: None, seen: None };
    let record = |phase| vec![writes::record(&id, &taken, &batch(phase, true))];
    assert_eq!(key.sk, "PARTITION#dt=2026-11-01");
    let job = Job::new(Uuid::nil(), id.dataset.clone(), Kind::Backfill, 1, "somebody", now);
    let alerts = Subject { dataset: &id.dataset, kind: "stuck" };
    let gathered = Gathered::from_item(&alerts.open(&id.partition, now).apply(None).unwrap()).unwrap();
    let head =
        json!({ "hash": "d", "epoch": 1, "mode": "active", "concurrency": "table", "since": 0, "by": "somebody" });
    let head: Head = serde_json::from_value(head).unwrap();
    let changes = vec![Change::Set("watermark", "dt=2026-11-01".into())];
    let heal = Heal { fence: Some(Fence(0)), last: None };
    let cursor = |task: Task| Cursor::new(now).store(task, Some(&id.dataset).filter(|_| task.is_per_dataset()));
    let watermark = Update { key: Head::key(&id.dataset), conditions: vec![], changes };
    vec![
        vec![writes::mark(&id, 0, now)],
        vec![writes::replay(&id, None, &Replay { force: true, ..Replay::default() }, now)],
        vec![writes::replay(&id, Some(Generation(1)), &Replay::default(), now)],
        vec![writes::wake(&id, now, now)],
        vec![head.halt(&id.dataset, "why", now)],
        vec![head.claim_probe(&id.dataset, now)],
        vec![Head::resume(&id.dataset, "somebody", now)],
        vec![watermark],
        vec![job.store()],
        vec![job.advance(1, None, now)],
        vec![writes::heal(&id, Some(&item), &heal, now)],
        vec![alerts.open(&id.partition, now)],
        vec![alerts.count("text")],
        vec![gathered.told(now)],
        vec![cursor(Task::Look)],
        vec![cursor(Task::Book)],
        vec![cursor(Task::Tidy)],
        vec![cursor(Task::Staging)],
        vec![writes::take(&id, &item, &listing, false, now), scope.acquire("holder", now, now)],
        record(Phase::Fencing),
        vec![writes::record_look(&id, &taken, &listing, None)],
        record(Phase::Staging),
        record(Phase::Swapping),
        vec![writes::record(&id, &taken, &batch(Phase::Staging, true)), scope.release("holder")],
        vec![writes::confirm_rest(&id, &taken, &listing, None), scope.release("holder")],
        vec![writes::confirm_again(&id, &taken, &listing, None, now, now), scope.release("holder")],
        vec![writes::hold(&id, &taken, &holds, now, Keep::As(&listing), &none), scope.release("holder")],
        vec![writes::hold(&id, &taken, &holds, now, Keep::End(&listing), &none), scope.release("holder")],
        vec![writes::put_off(&id, Fence(0), now)],
        vec![writes::park(&id, &taken, &listing, &parked, &none, now), scope.release("holder")],
        vec![writes::leave(&id, &item), scope.release("holder")],
        vec![writes::restored(&id, &taken, Generation(1), Generation(2), Fence(3), now), scope.release("holder")],
        vec![scope.release("holder")],
        vec![story::close(&id, &listing, ending, now)],
    ]
}

/// Every effect that isn't a write of the state table.
async fn other_effects(ports: &Ports) {
    let message =
        PartitionMessage::parse(r#"{"version":1,"dataset":"orders","partition":"dt=2026-11-01","generation":1}"#);
    let scope = Scope::of(&id(), Concurrency::Table);
    let _ = ports.queue.send(&[Outgoing { message: message.unwrap(), scope }]).await;
    for after in [Duration::ZERO, Duration::from_secs(1)] {
        let _ = ports.queue.give_back("receipt", after).await;
    }
    let _ = ports.queue.dead_letter("body", "reason").await;
    let whole = ["inventory/orders/index.json", "inventory/orders/progress.json", "manifest/book/id/manifest.json"];
    for key in whole.into_iter().chain(["jobs/id/part-000000.jsonl"]) {
        ports.objects.put("control", key, Bytes::new()).await.unwrap();
    }
    let in_parts = ["inventory/orders/part-000000.jsonl", "manifest/orders/manifest.json"];
    for key in in_parts.into_iter().chain(["manifest/book/id/files.jsonl"]) {
        ports.objects.upload("control", key).await.unwrap().finish().await.unwrap();
    }
    for what in NAMES.iter().filter_map(|name| name.strip_prefix("submit ")) {
        let name = format!("tidemark/orders/dt=2026-11-01/batch/{what}");
        let statements = ["SET timezone TO 'UTC'".to_owned()];
        let submission = Submission { statements: &statements, name: &name, token: &name, wait_seconds: 0 };
        ports.warehouse.submit(submission).await.unwrap();
    }
    let _ = ports.warehouse.cancel("id").await;
    ports.announcer.publish(Event { detail_type: "Partition Rebuilt", detail: json!({}) }).await.unwrap();
    ports.announcer.alert(Alert { subject: "subject".to_owned(), body: "body".to_owned() }).await.unwrap();
}

#[tokio::test]
async fn every_listed_failpoint_fires_before_and_after_its_effect() {
    let folder = tempfile::tempdir().unwrap();
    let stack = folder.path().join("stack");
    fs::create_dir(&stack).unwrap();
    let clock = ManualClock::new(Timestamp::UNIX_EPOCH, 1);
    let objects = MemoryObjects::new(clock.clone(), &["control"]);
    let ports = Ports {
        state: Arc::new(MemoryState::new(clock.clone())),
        warehouse: Arc::new(MemoryWarehouse::new(clock.clone(), objects.clone())),
        objects: Arc::new(objects),
        queue: Arc::new(MemoryQueue::new(clock.clone(), Duration::ZERO, Duration::from_secs(1))),
        announcer: Arc::new(MemoryAnnouncer::default()),
        clock: Arc::new(clock),
    };
    let ports = armed(ports, folder.path(), "stack");
    let mut met: BTreeMap<&str, usize> = BTreeMap::new();
    for name in NAMES {
        fs::write(stack.join("plan"), format!("before pass {name}\nafter pass {name}\n")).unwrap();
        fs::write(stack.join("fired"), "").unwrap();
        for updates in writes() {
            let _ = ports.state.write(&updates, "token").await;
        }
        other_effects(&ports).await;
        let fired = fs::read_to_string(stack.join("fired")).unwrap();
        let moments = ["before", "after"].map(|moment| fired.contains(&format!(" {moment} pass {name}\n")));
        assert_eq!(moments, [true, true], "{name} didn't fire:\n{fired}");
        *met.entry(name).or_default() += 1;
    }
    assert_eq!(met.len(), NAMES.len(), "a name is listed twice");
    // And nothing fires that isn't listed.
    fs::write(stack.join("trace"), "").unwrap();
    for updates in writes() {
        let _ = ports.state.write(&updates, "token").await;
    }
    other_effects(&ports).await;
    let trace = fs::read_to_string(stack.join("trace")).unwrap();
    let unlisted: Vec<&str> = trace.lines().filter(|effect| !NAMES.contains(effect)).collect();
    assert_eq!(unlisted, [""; 0]);
}
