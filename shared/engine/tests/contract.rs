//! Every contract suite, on the in-memory twins.

#![expect(clippy::unwrap_used, reason = "a test that can't be set up fails")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;
use tidemark_engine::contract::announcer::Witness;
use tidemark_engine::contract::queue::{Inbox, Received};
use tidemark_engine::contract::{announcer, objects, queue, state, warehouse};
use tidemark_engine::memory::{
    ManualClock, MemoryAnnouncer, MemoryObjects, MemoryQueue, MemoryState, MemoryWarehouse, Pace,
};
use tidemark_engine::ports::Alert;

fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_second(1_790_000_000).unwrap(), 1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_state_twin_keeps_the_contract() {
    state::all(Arc::new(MemoryState::new(clock()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_objects_twin_keeps_the_contract() {
    objects::all(Arc::new(MemoryObjects::new(clock(), &["bucket"])), "bucket").await;
}

struct Worker {
    clock: ManualClock,
    queue: MemoryQueue,
}

const DELAY: Duration = Duration::from_secs(30);

#[async_trait]
impl Inbox for Worker {
    async fn receive(&self) -> Option<Received> {
        self.clock.advance(DELAY);
        self.queue.deliver().map(|delivery| Received { body: delivery.body, receipt: delivery.receipt })
    }

    async fn delete(&self, receipt: &str) {
        assert!(self.queue.delete(receipt), "{receipt} is the newest of its message");
    }

    async fn dead_letters(&self) -> Vec<(String, Option<String>)> {
        self.queue.dead_letters().into_iter().map(|letter| (letter.body, letter.reason)).collect()
    }
}

#[tokio::test]
async fn the_queue_twin_keeps_the_contract() {
    let clock = clock();
    let queue = MemoryQueue::new(clock.clone(), DELAY, Duration::from_hours(2));
    queue::all(&queue, &Worker { clock, queue: queue.clone() }).await;
}

struct Listener(MemoryAnnouncer);

#[async_trait]
impl Witness for Listener {
    async fn events(&self) -> Vec<(String, Value)> {
        self.0.events().into_iter().map(|event| (event.detail_type.to_owned(), event.detail)).collect()
    }

    async fn alerts(&self) -> Vec<Alert> {
        self.0.alerts()
    }
}

#[tokio::test]
async fn the_announcer_twin_keeps_the_contract() {
    let twin = MemoryAnnouncer::default();
    announcer::all(&twin, &Listener(twin.clone())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_warehouse_twin_keeps_the_contract() {
    let clock = clock();
    let twin = MemoryWarehouse::new(clock.clone(), MemoryObjects::new(clock, &[]));
    twin.set_pace("/slow", Pace::After(Duration::from_secs(5)));
    let setup = warehouse::Setup { tables: "public.contract_".into(), slow: "SET timezone TO 'UTC'".into() };
    warehouse::all(Arc::new(twin), &setup).await;
}
