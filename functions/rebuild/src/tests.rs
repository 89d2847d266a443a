//! Batches of the partitions queue, on an engine with its twins.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lambda_runtime::Context;
use serde_json::json;
use tidemark_domain::id::StackName;
use tidemark_domain::sql::rebuild::CopyRole;
use tidemark_engine::memory::{
    Fault, Faulty, ManualClock, MemoryAnnouncer, MemoryObjects, MemoryQueue, MemoryState, MemoryWarehouse, Plan,
};
use tidemark_engine::{Ports, Settings};

use super::*;

/// An engine that knows no dataset, so that every message it handles ends on the dead-letter queue, and that queue.
fn engine(plan: &Plan) -> (Engine, MemoryQueue) {
    let clock = ManualClock::new(Timestamp::UNIX_EPOCH, 1);
    let queue = MemoryQueue::new(clock.clone(), Duration::from_secs(30), Duration::from_mins(5));
    let objects = MemoryObjects::new(clock.clone(), &[]);
    let ports = Ports {
        state: Arc::new(Faulty::new(MemoryState::new(clock.clone()), plan)),
        warehouse: Arc::new(MemoryWarehouse::new(clock.clone(), objects.clone())),
        objects: Arc::new(objects),
        queue: Arc::new(queue.clone()),
        announcer: Arc::new(MemoryAnnouncer::default()),
        clock: Arc::new(clock),
    };
    let settings = Settings {
        stack: StackName::new("test").unwrap(),
        control_bucket: "control".into(),
        settle: SignedDuration::from_secs(30),
        lease_margin: SignedDuration::from_secs(60),
        copy_role: CopyRole::Default,
    };
    (Engine::new(ports, settings), queue)
}

fn record(id: &str, partition: &str, group: &str) -> Value {
    let body = json!({"version": 1, "dataset": "orders", "partition": partition, "generation": 1}).to_string();
    json!({"messageId": id, "body": body, "receiptHandle": id, "attributes": {"MessageGroupId": group}})
}

async fn handled(engine: &Engine, records: Value) -> Result<String, Error> {
    let event = LambdaEvent::new(json!({"Records": records}), Context::default());
    handle(engine, event).await.map(|answer| answer.to_string())
}

#[tokio::test]
async fn c076_one_bad_group_holds_up_itself_alone() {
    // The first call reads the state for m1.
    let (engine, queue) = engine(&Plan::at(1, Fault::FailBefore));
    let records = json!([record("m1", "dt=1", "a"), record("m2", "dt=2", "b"), record("m3", "dt=3", "a")]);
    let answer = handled(&engine, records).await.unwrap();
    assert_eq!(answer, r#"{"batchItemFailures":[{"itemIdentifier":"m1"},{"itemIdentifier":"m3"}]}"#);
    let handled: Vec<_> = queue.dead_letters().into_iter().map(|letter| letter.body).collect();
    assert!(handled.len() == 1 && handled[0].contains("dt=2"), "m3 waits behind m1: {handled:?}");
}

#[tokio::test]
async fn c077_messages_of_a_group_are_handled_in_order() {
    let (engine, queue) = engine(&Plan::quiet());
    let records = json!([record("m1", "dt=1", "a"), record("m2", "dt=2", "a")]);
    assert_eq!(handled(&engine, records).await.unwrap(), r#"{"batchItemFailures":[]}"#);
    let handled: Vec<_> = queue.dead_letters().into_iter().map(|letter| letter.body).collect();
    assert!(handled[0].contains("dt=1") && handled[1].contains("dt=2"), "{handled:?}");
}

#[tokio::test]
async fn a_body_nobody_can_read_is_put_aside_and_acknowledged() {
    let (engine, queue) = engine(&Plan::quiet());
    let answer = handled(&engine, json!([{"messageId": "m1", "body": "not json"}])).await.unwrap();
    assert_eq!(answer, r#"{"batchItemFailures":[]}"#);
    let letters = queue.dead_letters();
    assert_eq!(letters[0].body, "not json");
    assert!(letters[0].reason.as_deref().is_some_and(|reason| reason.contains("not a partition message")));
}

#[tokio::test]
async fn c071_a_message_that_comes_back_without_an_id_lets_the_whole_batch_come_back() {
    let (engine, _) = engine(&Plan::at(1, Fault::FailBefore));
    let body = r#"{"version":1,"dataset":"orders","partition":"dt=1","generation":1}"#;
    let error = handled(&engine, json!([{"body": body}])).await.unwrap_err();
    assert!(error.to_string().contains("without an id"), "{error}");
}
