//! Faults at a chosen step: a call that fails before or after its effect, is carried out twice, or kills its caller.
//!
//! All ports of one worker share a [`Plan`], which numbers their calls in the order they are made. A test runs a story once to
//! learn how many steps it has, then once for each step and each [`Fault`]; the end has to be the same every time.
//!
//! A worker that was killed is a call that never returns: [`Plan::run`] drops the worker's future at that point, as an
//! invocation that is over.

use std::future::{Future, pending};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt as _;
use jiff::Timestamp;
use tidemark_domain::id::{DatasetName, PartitionName};
use tidemark_domain::update::{Item, Key, Update};

use super::{lock, yield_once};
use crate::ports::{
    Alert, Announcer, DueEntry, Effect, Event, Execution, Index, ObjectError, Objects, Outgoing, Page, PartUpload,
    PartitionQueue, QueueError, StateError, StateStore, StatementResult, Submission, Warehouse, WarehouseError,
    Written,
};

/// What goes wrong at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The call fails, without effect; the caller is told so.
    FailBefore,
    /// The call fails after its effect: its answer is lost, and the caller knows nothing.
    FailAfter,
    /// The call is carried out twice, as a retry inside a client would; the second answer counts.
    Repeat,
    /// The caller dies before the effect.
    DieBefore,
    /// The caller dies after the effect.
    DieAfter,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::FailBefore, Self::FailAfter, Self::Repeat, Self::DieBefore, Self::DieAfter];
}

/// A call that was made, in the order of calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its number, from 1.
    pub number: usize,
    /// The port and its method, such as `state.write`.
    pub call: &'static str,
}

/// What goes wrong, and when. Clones are the same plan.
#[derive(Debug, Clone, Default)]
pub struct Plan(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    steps: Vec<Step>,
    fault: Option<(usize, Fault)>,
    down: Option<&'static str>,
    takes_turns: bool,
    dead: bool,
}

impl Plan {
    /// Nothing goes wrong; steps are counted.
    pub fn quiet() -> Self {
        Self::default()
    }

    /// `fault` happens at step `number`, from 1, and nothing else goes wrong.
    pub fn at(number: usize, fault: Fault) -> Self {
        Self(Arc::new(Mutex::new(State { fault: Some((number, fault)), ..State::default() })))
    }

    /// Every call whose name begins with `calls`, such as `queue.`, fails without effect: a service is down.
    pub fn down(calls: &'static str) -> Self {
        Self(Arc::new(Mutex::new(State { down: Some(calls), ..State::default() })))
    }

    /// The same plan, but every call waits for one more poll before it is made: whoever polls several workers decides in which
    /// order their calls happen.
    #[must_use]
    pub fn taking_turns(self) -> Self {
        lock(&self.0).takes_turns = true;
        self
    }

    /// The steps so far.
    pub fn steps(&self) -> Vec<Step> {
        lock(&self.0).steps.clone()
    }

    /// Runs a worker; `None` where it was killed on the way. A plan that killed a worker kills no other.
    pub async fn run<T>(&self, worker: impl Future<Output = T>) -> Option<T> {
        let mut worker = std::pin::pin!(worker.fuse());
        let ended = std::future::poll_fn(|context| {
            let polled = worker.as_mut().poll(context);
            match polled {
                std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
                std::task::Poll::Pending if lock(&self.0).dead => std::task::Poll::Ready(None),
                std::task::Poll::Pending => std::task::Poll::Pending,
            }
        })
        .await;
        lock(&self.0).dead = false;
        ended
    }

    async fn turn(&self) {
        if lock(&self.0).takes_turns {
            yield_once().await;
        }
    }

    /// Counts a step and says what goes wrong at it.
    fn step(&self, call: &'static str) -> Option<Fault> {
        let mut state = lock(&self.0);
        let number = state.steps.len() + 1;
        state.steps.push(Step { number, call });
        if state.down.is_some_and(|calls| call.starts_with(calls)) {
            return Some(Fault::FailBefore);
        }
        state.fault.filter(|(at, _)| *at == number).map(|(_, fault)| fault)
    }

    async fn die<T>(&self) -> T {
        lock(&self.0).dead = true;
        pending().await
    }

    /// Makes a call, with what the plan does to it.
    async fn call<T, E, F: Future<Output = Result<T, E>> + Send>(
        &self,
        name: &'static str,
        error: impl Fn(Effect) -> E + Send + Sync,
        call: impl Fn() -> F + Send + Sync,
    ) -> Result<T, E> {
        self.turn().await;
        match self.step(name) {
            None => call().await,
            Some(Fault::FailBefore) => Err(error(Effect::NotApplied)),
            Some(Fault::FailAfter) => {
                let _lost = call().await;
                Err(error(Effect::Unknown))
            }
            Some(Fault::Repeat) => {
                let _lost = call().await;
                call().await
            }
            Some(Fault::DieBefore) => self.die().await,
            Some(Fault::DieAfter) => {
                let _lost = call().await;
                self.die().await
            }
        }
    }
}

/// A port, with what the plan does to its calls.
#[derive(Debug, Clone)]
pub struct Faulty<P> {
    port: P,
    plan: Plan,
}

impl<P> Faulty<P> {
    /// `port` under `plan`.
    pub fn new(port: P, plan: &Plan) -> Self {
        Self { port, plan: plan.clone() }
    }
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

#[async_trait]
impl<P: StateStore> StateStore for Faulty<P> {
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StateError> {
        self.plan.call("state.read", state_error, || self.port.read(keys)).await
    }

    async fn write(&self, updates: &[Update], token: &str) -> Result<Written, StateError> {
        self.plan.call("state.write", state_error, || self.port.write(updates, token)).await
    }

    async fn query(
        &self,
        index: Index,
        dataset: Option<&DatasetName>,
        within: RangeInclusive<Timestamp>,
        limit: usize,
    ) -> Result<Vec<DueEntry>, StateError> {
        self.plan.call("state.query", state_error, || self.port.query(index, dataset, within.clone(), limit)).await
    }

    async fn partitions(
        &self,
        dataset: &DatasetName,
        after: Option<&PartitionName>,
        limit: usize,
    ) -> Result<Vec<(PartitionName, Item)>, StateError> {
        self.plan.call("state.partitions", state_error, || self.port.partitions(dataset, after, limit)).await
    }

    async fn items(
        &self,
        pk: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Item)>, StateError> {
        self.plan.call("state.items", state_error, || self.port.items(pk, prefix, after, limit)).await
    }
}

#[async_trait]
impl<P: Objects> Objects for Faulty<P> {
    async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        delimiter: bool,
        start_after: Option<&str>,
        next: Option<&str>,
    ) -> Result<Page, ObjectError> {
        let list = || self.port.list(bucket, prefix, delimiter, start_after, next);
        self.plan.call("objects.list", object_error, list).await
    }

    async fn read_tail(&self, bucket: &str, key: &str, etag: &str, length: u64) -> Result<Bytes, ObjectError> {
        self.plan.call("objects.read_tail", object_error, || self.port.read_tail(bucket, key, etag, length)).await
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<Option<Bytes>, ObjectError> {
        self.plan.call("objects.get", object_error, || self.port.get(bucket, key)).await
    }

    async fn put(&self, bucket: &str, key: &str, bytes: Bytes) -> Result<(), ObjectError> {
        self.plan.call("objects.put", object_error, || self.port.put(bucket, key, bytes.clone())).await
    }

    async fn upload(&self, bucket: &str, key: &str) -> Result<Box<dyn PartUpload>, ObjectError> {
        let upload = self.plan.call("objects.upload", object_error, || self.port.upload(bucket, key)).await?;
        Ok(Box::new(FaultyUpload { upload, plan: self.plan.clone() }))
    }
}

/// Only the end of an upload is a step: nothing is there before it.
struct FaultyUpload {
    upload: Box<dyn PartUpload>,
    plan: Plan,
}

#[async_trait]
impl PartUpload for FaultyUpload {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), ObjectError> {
        self.upload.write(bytes).await
    }

    async fn finish(self: Box<Self>) -> Result<(), ObjectError> {
        self.plan.turn().await;
        match self.plan.step("objects.finish") {
            None | Some(Fault::Repeat) => self.upload.finish().await,
            Some(Fault::FailBefore) => Err(object_error(Effect::NotApplied)),
            Some(Fault::FailAfter) => {
                let _lost = self.upload.finish().await;
                Err(object_error(Effect::Unknown))
            }
            Some(Fault::DieBefore) => self.plan.die().await,
            Some(Fault::DieAfter) => {
                let _lost = self.upload.finish().await;
                self.plan.die().await
            }
        }
    }
}

#[async_trait]
impl<P: PartitionQueue> PartitionQueue for Faulty<P> {
    async fn send(&self, messages: &[Outgoing]) -> Result<Vec<(usize, String)>, QueueError> {
        self.plan.call("queue.send", queue_error, || self.port.send(messages)).await
    }

    async fn give_back(&self, receipt: &str, after: Duration) -> Result<(), QueueError> {
        self.plan.call("queue.give_back", queue_error, || self.port.give_back(receipt, after)).await
    }

    async fn dead_letter(&self, body: &str, reason: &str) -> Result<(), QueueError> {
        self.plan.call("queue.dead_letter", queue_error, || self.port.dead_letter(body, reason)).await
    }
}

#[async_trait]
impl<P: Announcer> Announcer for Faulty<P> {
    async fn publish(&self, event: Event) -> Result<(), String> {
        self.plan.call("announcer.publish", announce_error, || self.port.publish(event.clone())).await
    }

    async fn alert(&self, alert: Alert) -> Result<(), String> {
        self.plan.call("announcer.alert", announce_error, || self.port.alert(alert.clone())).await
    }
}

#[async_trait]
impl<P: Warehouse> Warehouse for Faulty<P> {
    async fn submit(&self, submission: Submission<'_>) -> Result<Execution, WarehouseError> {
        let submit = || self.port.submit(submission.clone());
        self.plan.call("warehouse.submit", warehouse_error("BatchExecuteStatement"), submit).await
    }

    async fn describe(&self, id: &str, wait_seconds: u32) -> Result<Option<Execution>, WarehouseError> {
        let describe = || self.port.describe(id, wait_seconds);
        self.plan.call("warehouse.describe", warehouse_error("DescribeStatement"), describe).await
    }

    async fn result(&self, id: &str) -> Result<StatementResult, WarehouseError> {
        self.plan.call("warehouse.result", warehouse_error("GetStatementResult"), || self.port.result(id)).await
    }

    async fn cancel(&self, id: &str) -> Result<(), WarehouseError> {
        self.plan.call("warehouse.cancel", warehouse_error("CancelStatement"), || self.port.cancel(id)).await
    }
}
