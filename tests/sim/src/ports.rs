//! The ports as a worker has them: every call goes through the worker's luck.

use std::ops::RangeInclusive;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use tidemark_domain::id::{DatasetName, PartitionName};
use tidemark_domain::update::{Item, Key, Update};
use tidemark_engine::memory::{ManualClock, MemoryAnnouncer, MemoryObjects, MemoryQueue};
use tidemark_engine::ports::{
    Alert, Announcer, Clock, DueEntry, Effect, Event, Execution, Index, ObjectError, Objects, Outgoing, Page,
    PartUpload, PartitionQueue, QueueError, StateError, StateStore, StatementResult, Submission, Warehouse,
    WarehouseError, Written,
};
use uuid::Uuid;

use crate::chaos::Luck;
use crate::flaw::{Write, describe, kind, place};
use crate::watched::{WatchedState, WatchedWarehouse};

/// A port, and the luck of the worker that holds it.
#[derive(Clone)]
pub struct Chaotic<P> {
    /// The port.
    pub port: P,
    /// The worker's luck.
    pub luck: Luck,
}

const WORDS: &str = "injected fault";

fn state_error(effect: Effect) -> StateError {
    StateError::Unavailable { message: WORDS.to_owned(), effect }
}

fn object_error(effect: Effect) -> ObjectError {
    ObjectError::Unavailable { message: WORDS.to_owned(), effect }
}

fn queue_error(effect: Effect) -> QueueError {
    QueueError::Unavailable { message: WORDS.to_owned(), effect }
}

fn announce_error(_: Effect) -> String {
    WORDS.to_owned()
}

fn warehouse_error(operation: &'static str) -> impl Fn(Effect) -> WarehouseError {
    move |effect| WarehouseError { operation, code: "Transport".to_owned(), message: WORDS.to_owned(), effect }
}

/// A closure that makes the same call again and again, each a future of its own.
macro_rules! again {
    ([$($held:ident),*] $call:expr) => {
        move || {
            $(let $held = $held.clone();)*
            async move { $call.await }
        }
    };
}

#[async_trait]
impl StateStore for Chaotic<WatchedState> {
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StateError> {
        let (port, keys) = (self.port.clone(), keys.to_vec());
        self.luck.call("state.read", "", state_error, again!([port, keys] port.read(&keys))).await
    }

    async fn write(&self, updates: &[Update], token: &str) -> Result<Written, StateError> {
        let what = describe(updates);
        let (scene, name) = (self.luck.scene().clone(), self.luck.name());
        let of_partition = |update: &&Update| !matches!(kind(update), Write::Mark | Write::Other);
        let partition = updates.iter().find(of_partition).map(|update| place(&update.key).to_owned());
        let takes = updates.iter().any(|update| kind(update) == Write::Take);
        partition.iter().filter(|_| !takes).for_each(|partition| scene.acts(partition, &name));
        let (port, updates, token) = (self.port.clone(), updates.to_vec(), token.to_owned());
        let write = again!([port, updates, token] port.write(&updates, &token));
        let written = self.luck.call("state.write", &what, state_error, write).await;
        if takes
            && matches!(written, Ok(Written::Applied { .. }))
            && let Some(partition) = partition
        {
            scene.taken(&partition, &name);
        }
        written
    }

    async fn query(
        &self,
        index: Index,
        dataset: Option<&DatasetName>,
        within: RangeInclusive<Timestamp>,
        limit: usize,
    ) -> Result<Vec<DueEntry>, StateError> {
        let (port, dataset) = (self.port.clone(), dataset.cloned());
        let query = again!([port, dataset, within] port.query(index, dataset.as_ref(), within, limit));
        self.luck.call("state.query", "", state_error, query).await
    }

    async fn partitions(
        &self,
        dataset: &DatasetName,
        after: Option<&PartitionName>,
        limit: usize,
    ) -> Result<Vec<(PartitionName, Item)>, StateError> {
        let (port, dataset, after) = (self.port.clone(), dataset.clone(), after.cloned());
        let partitions = again!([port, dataset, after] port.partitions(&dataset, after.as_ref(), limit));
        self.luck.call("state.partitions", "", state_error, partitions).await
    }

    async fn items(
        &self,
        pk: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Item)>, StateError> {
        let (port, pk, prefix, after) = (self.port.clone(), pk.to_owned(), prefix.to_owned(), after.map(str::to_owned));
        let items = again!([port, pk, prefix, after] port.items(&pk, &prefix, after.as_deref(), limit));
        self.luck.call("state.items", "", state_error, items).await
    }
}

#[async_trait]
impl Objects for Chaotic<MemoryObjects> {
    async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        delimiter: bool,
        start_after: Option<&str>,
        next: Option<&str>,
    ) -> Result<Page, ObjectError> {
        let (port, bucket, prefix) = (self.port.clone(), bucket.to_owned(), prefix.to_owned());
        let (after, next, what) = (start_after.map(str::to_owned), next.map(str::to_owned), prefix.clone());
        let list = again!([port, bucket, prefix, after, next]
            port.list(&bucket, &prefix, delimiter, after.as_deref(), next.as_deref()));
        self.luck.call("objects.list", &what, object_error, list).await
    }

    async fn read_tail(&self, bucket: &str, key: &str, etag: &str, length: u64) -> Result<Bytes, ObjectError> {
        let (port, bucket, key, etag) = (self.port.clone(), bucket.to_owned(), key.to_owned(), etag.to_owned());
        let read = again!([port, bucket, key, etag] port.read_tail(&bucket, &key, &etag, length));
        self.luck.call("objects.read_tail", "", object_error, read).await
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<Option<Bytes>, ObjectError> {
        let (port, bucket, key) = (self.port.clone(), bucket.to_owned(), key.to_owned());
        self.luck.call("objects.get", "", object_error, again!([port, bucket, key] port.get(&bucket, &key))).await
    }

    async fn put(&self, bucket: &str, key: &str, bytes: Bytes) -> Result<(), ObjectError> {
        let (port, bucket, key) = (self.port.clone(), bucket.to_owned(), key.to_owned());
        let put = again!([port, bucket, key, bytes] port.put(&bucket, &key, bytes));
        self.luck.call("objects.put", "", object_error, put).await
    }

    async fn upload(&self, bucket: &str, key: &str) -> Result<Box<dyn PartUpload>, ObjectError> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        Ok(Box::new(Upload { objects: self.clone(), bucket, key, bytes: vec![] }))
    }
}

/// Nothing is there before the end of an upload, so only that is a call.
struct Upload {
    objects: Chaotic<MemoryObjects>,
    bucket: String,
    key: String,
    bytes: Vec<u8>,
}

#[async_trait]
impl PartUpload for Upload {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), ObjectError> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<(), ObjectError> {
        self.objects.put(&self.bucket, &self.key, self.bytes.into()).await
    }
}

#[async_trait]
impl PartitionQueue for Chaotic<MemoryQueue> {
    async fn send(&self, messages: &[Outgoing]) -> Result<Vec<(usize, String)>, QueueError> {
        let what = messages.iter().map(|m| m.message.id.partition.as_str()).collect::<Vec<_>>().join(" ");
        let (port, messages) = (self.port.clone(), messages.to_vec());
        self.luck.call("queue.send", &what, queue_error, again!([port, messages] port.send(&messages))).await
    }

    async fn give_back(&self, receipt: &str, after: Duration) -> Result<(), QueueError> {
        let (port, receipt) = (self.port.clone(), receipt.to_owned());
        let give_back = again!([port, receipt] port.give_back(&receipt, after));
        self.luck.call("queue.give_back", "", queue_error, give_back).await
    }

    async fn dead_letter(&self, body: &str, reason: &str) -> Result<(), QueueError> {
        let (port, body, reason) = (self.port.clone(), body.to_owned(), reason.to_owned());
        let dead_letter = again!([port, body, reason] port.dead_letter(&body, &reason));
        self.luck.call("queue.dead_letter", "", queue_error, dead_letter).await
    }
}

#[async_trait]
impl Announcer for Chaotic<MemoryAnnouncer> {
    async fn publish(&self, event: Event) -> Result<(), String> {
        let port = self.port.clone();
        let what = event.detail_type;
        self.luck.call("announcer.publish", what, announce_error, again!([port, event] port.publish(event))).await
    }

    async fn alert(&self, alert: Alert) -> Result<(), String> {
        let port = self.port.clone();
        let what = alert.subject.clone();
        self.luck.call("announcer.alert", &what, announce_error, again!([port, alert] port.alert(alert))).await
    }
}

/// Redshift also tells the eye what the worker was told: an answer that is lost tells nothing.
#[async_trait]
impl Warehouse for Chaotic<WatchedWarehouse> {
    async fn submit(&self, submission: Submission<'_>) -> Result<Execution, WarehouseError> {
        let (port, statements) = (self.port.clone(), submission.statements.to_vec());
        let (name, token) = (submission.name.to_owned(), self.port.token(submission.token));
        self.port.eye.sends(&name, &token);
        name.split('/').nth(2).iter().for_each(|partition| self.luck.scene().acts(partition, &self.luck.name()));
        let (what, wait_seconds) = (name.clone(), submission.wait_seconds);
        let sent = (name.clone(), token.clone());
        let submit = again!([port, statements, name, token]
            port.submit(Submission { statements: &statements, name: &name, token: &token, wait_seconds }));
        let error = warehouse_error("BatchExecuteStatement");
        let submitted = self.luck.call("warehouse.submit", &what, error, submit).await;
        submitted.inspect(|execution| self.port.eye.told(Some((&sent.0, &sent.1)), execution))
    }

    async fn describe(&self, id: &str, wait_seconds: u32) -> Result<Option<Execution>, WarehouseError> {
        let (port, id) = (self.port.clone(), id.to_owned());
        let describe = again!([port, id] port.describe(&id, wait_seconds));
        let described = self.luck.call("warehouse.describe", "", warehouse_error("DescribeStatement"), describe).await;
        described.inspect(|told| told.iter().for_each(|execution| self.port.eye.told(None, execution)))
    }

    async fn result(&self, id: &str) -> Result<StatementResult, WarehouseError> {
        let (port, id) = (self.port.clone(), id.to_owned());
        let result = again!([port, id] port.result(&id));
        self.luck.call("warehouse.result", "", warehouse_error("GetStatementResult"), result).await
    }

    async fn cancel(&self, id: &str) -> Result<(), WarehouseError> {
        let (port, id) = (self.port.clone(), id.to_owned());
        self.luck
            .call("warehouse.cancel", "", warehouse_error("CancelStatement"), again!([port, id] port.cancel(&id)))
            .await
    }
}

/// A worker's own clock, which goes before or after the others'.
#[derive(Clone)]
pub struct SkewedClock {
    /// The true one.
    pub clock: ManualClock,
    /// How far it is before it.
    pub skew: SignedDuration,
}

#[async_trait]
impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        self.clock.now().saturating_add(self.skew).unwrap_or(Timestamp::MAX)
    }

    fn id(&self) -> Uuid {
        self.clock.id()
    }

    fn jitter(&self, bound: Duration) -> Duration {
        self.clock.jitter(bound)
    }

    async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }
}
