//! Batches of the events queue, on an engine with its twins.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lambda_runtime::Context;
use serde_json::json;
use tidemark_domain::dataset::catalog_key;
use tidemark_domain::definition::parse;
use tidemark_domain::id::StackName;
use tidemark_domain::route::Catalog;
use tidemark_domain::sql::rebuild::CopyRole;
use tidemark_domain::update::{Item, Key};
use tidemark_engine::memory::{
    Fault, Faulty, ManualClock, MemoryAnnouncer, MemoryObjects, MemoryQueue, MemoryState, MemoryWarehouse, Plan,
};
use tidemark_engine::{Ports, Settings};

use super::*;

const TOML: &str = r#"
[orders]
source = "s3://lake/orders/"
layout = "dt={dt}/"
format = "csv"
target = "sales.orders"
columns = ["order_id bigint"]
key = ["order_id"]

[orders.partition.dt]
type = "date"
column = "dt"
in_files = false
"#;

const TEST_EVENT: &str = r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2026-11-01T00:00:00.000Z","Bucket":"lake","RequestId":"R1","HostId":"H1"}"#;

struct World {
    engine: Engine,
    state: MemoryState,
    queue: MemoryQueue,
}

/// A world in which `plan` goes wrong at the state table.
fn world(plan: &Plan) -> World {
    let clock = ManualClock::new(Timestamp::UNIX_EPOCH, 1);
    let state = MemoryState::new(clock.clone());
    let queue = MemoryQueue::new(clock.clone(), Duration::from_secs(30), Duration::from_mins(5));
    let objects = MemoryObjects::new(clock.clone(), &["lake"]);
    let catalog = serde_json::to_string(&Catalog::of(&parse(TOML).unwrap())).unwrap();
    state.put(catalog_key(), Item::from([("catalog".to_owned(), catalog.into())]));
    let ports = Ports {
        state: Arc::new(Faulty::new(state.clone(), plan)),
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
    World { engine: Engine::new(ports, settings), state, queue }
}

impl World {
    async fn handle(&self, records: Value) -> Result<String, Error> {
        let event = LambdaEvent::new(json!({"Records": records}), Context::default());
        handle(&self.engine, &CatalogCache::default(), event).await.map(|answer| answer.to_string())
    }

    fn marked(&self, day: &str) -> Option<u64> {
        let key = Key { pk: "DATASET#orders".into(), sk: format!("PARTITION#dt={day}") };
        self.state.item(&key)?["marked"].as_u64()
    }
}

fn created(day: &str) -> String {
    let object = json!({"key": format!("orders/dt%3D{day}/part-0.csv"), "size": 10});
    let s3 = json!({"bucket": {"name": "lake"}, "object": object});
    json!({"Records": [{"eventVersion": "2.1", "eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": s3}]})
        .to_string()
}

#[tokio::test]
async fn c012_test_event_in_a_batch() {
    let world = world(&Plan::quiet());
    let records = json!([
        {"messageId": "m1", "body": TEST_EVENT},
        {"messageId": "m2", "body": created("2026-11-01")},
        {"messageId": "m3", "body": "{}"},
    ]);
    assert_eq!(world.handle(records).await.unwrap(), r#"{"batchItemFailures":[{"itemIdentifier":"m3"}]}"#);
    assert_eq!((world.marked("2026-11-01"), world.queue.len()), (Some(1), 1));
}

#[tokio::test]
async fn c013_a_body_that_is_no_event_comes_back_and_its_neighbours_do_not() {
    let bodies = [r#"{"foo":1}"#, "\"text\"", "[]", "not json", "", r#"{"Records":null}"#, r#"{"Records":{}}"#];
    for body in bodies {
        let world = world(&Plan::quiet());
        let records = json!([{"messageId": "bad", "body": body}, {"messageId": "good", "body": created("2026-11-01")}]);
        let answer = world.handle(records).await.unwrap();
        assert_eq!(answer, r#"{"batchItemFailures":[{"itemIdentifier":"bad"}]}"#, "{body}");
        assert_eq!(world.marked("2026-11-01"), Some(1), "{body}");
    }
}

#[tokio::test]
async fn c014_nothing_left_to_do() {
    let world = world(&Plan::quiet());
    for records in [json!([]), json!([{"messageId": "m1", "body": r#"{"Records":[]}"#}])] {
        assert_eq!(world.handle(records).await.unwrap(), r#"{"batchItemFailures":[]}"#);
    }
    assert_eq!((world.state.items().len(), world.queue.len()), (1, 0), "the catalog alone");
}

#[tokio::test]
async fn c071_a_failing_message_without_an_id_lets_the_whole_batch_come_back() {
    let world = world(&Plan::quiet());
    let error = world.handle(json!([{"body": "not json"}, {"messageId": "m2", "body": TEST_EVENT}])).await.unwrap_err();
    assert!(error.to_string().contains("without an id"), "{error}");
    let good = world.handle(json!([{"body": created("2026-11-01")}])).await.unwrap();
    assert_eq!(good, r#"{"batchItemFailures":[]}"#, "one that doesn't fail needs no id");
}

#[tokio::test]
async fn c207_one_odd_record_among_good_ones() {
    let world = world(&Plan::quiet());
    let odd = json!({"messageId": "odd", "body": created("2026-11-02"), "attributes": [7], "messageAttributes": "x"});
    let records = json!([{"messageId": "m1", "body": created("2026-11-01")}, odd]);
    assert_eq!(world.handle(records).await.unwrap(), r#"{"batchItemFailures":[]}"#);
    assert_eq!((world.marked("2026-11-01"), world.marked("2026-11-02")), (Some(1), Some(1)));
}

#[tokio::test]
async fn c037_a_mark_that_fails_lets_its_own_messages_come_back() {
    // The first call reads the catalog, the second writes the first mark.
    let world = world(&Plan::at(2, Fault::FailBefore));
    let records = json!([
        {"messageId": "m1", "body": created("2026-11-01")},
        {"messageId": "m2", "body": created("2026-11-02")},
    ]);
    assert_eq!(world.handle(records).await.unwrap(), r#"{"batchItemFailures":[{"itemIdentifier":"m1"}]}"#);
    assert_eq!((world.marked("2026-11-01"), world.marked("2026-11-02")), (None, Some(1)));
}

#[tokio::test]
async fn a_table_that_cannot_be_read_lets_everything_come_back() {
    let world = world(&Plan::at(1, Fault::FailBefore));
    let error = world.handle(json!([{"messageId": "m1", "body": created("2026-11-01")}])).await.unwrap_err();
    assert!(error.to_string().contains("state table"), "{error}");
}
