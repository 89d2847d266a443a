//! The partitions queue: an SQS FIFO queue with its dead-letter queue.
//!
//! Messages of a group come in order, one at a time: one in hand, or not yet visible, keeps back the rest of its group.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{ManualClock, lock};
use crate::ports::{Clock as _, Outgoing, PartitionQueue, QueueError};

/// What the stack sets: receives of a message before SQS moves it to the dead-letter queue.
const MAX_RECEIVE_COUNT: u32 = 1_000;
/// SQS's limit for a message in hand.
const MAX_VISIBILITY: Duration = Duration::from_hours(12);

/// A message in a worker's hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The body.
    pub body: String,
    /// The handle of this delivery; a later one of the same message has another.
    pub receipt: String,
    /// The group.
    pub group: String,
    /// How often it was received, this one included.
    pub receive_count: u32,
}

/// A message on the dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The body, unchanged.
    pub body: String,
    /// Why; `None` where SQS moved it.
    pub reason: Option<String>,
}

/// The partitions queue. Clones are the same queue.
#[derive(Debug, Clone)]
pub struct MemoryQueue {
    clock: ManualClock,
    delay: Duration,
    visibility: Duration,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Debug, Default)]
struct Queue {
    messages: Vec<Message>,
    dead: Vec<DeadLetter>,
    receipts: u64,
    refusals: usize,
}

#[derive(Debug)]
struct Message {
    body: String,
    group: String,
    visible_at: Timestamp,
    receipt: Option<String>,
    receive_count: u32,
}

impl MemoryQueue {
    /// An empty queue: new messages wait for `delay`, one in hand comes back after `visibility`.
    pub fn new(clock: ManualClock, delay: Duration, visibility: Duration) -> Self {
        Self { clock, delay, visibility, queue: Arc::default() }
    }

    /// Puts a body as it is, as a hand-written message.
    pub fn put(&self, body: &str, group: &str) {
        let visible_at = self.clock.now() + self.delay;
        let (body, group) = (body.to_owned(), group.to_owned());
        lock(&self.queue).messages.push(Message { body, group, visible_at, receipt: None, receive_count: 0 });
    }

    /// The next message that may be received, if there is one now.
    pub fn deliver(&self) -> Option<Delivery> {
        lock(&self.queue).deliver(self.clock.now(), self.visibility)
    }

    /// Acknowledges a message in hand; `false` where the receipt isn't its newest.
    pub fn delete(&self, receipt: &str) -> bool {
        let mut queue = lock(&self.queue);
        let at = queue.messages.iter().position(|m| m.receipt.as_deref() == Some(receipt));
        at.map(|at| queue.messages.remove(at)).is_some()
    }

    /// Loses every message, as a queue that was purged.
    pub fn lose_all(&self) {
        lock(&self.queue).messages.clear();
    }

    /// How many messages there are, in hand or not.
    pub fn len(&self) -> usize {
        lock(&self.queue).messages.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the next message can be received, as things stand; `None` where there is none.
    pub fn next_visible_at(&self) -> Option<Timestamp> {
        lock(&self.queue).messages.iter().map(|m| m.visible_at).min()
    }

    /// The dead-letter queue.
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        lock(&self.queue).dead.clone()
    }

    /// Refuses the next `n` messages that are sent.
    pub fn refuse_next(&self, n: usize) {
        lock(&self.queue).refusals = n;
    }
}

impl Queue {
    fn deliver(&mut self, now: Timestamp, visibility: Duration) -> Option<Delivery> {
        let mut held = BTreeSet::new();
        let mut at = 0;
        while at < self.messages.len() {
            let message = &mut self.messages[at];
            let free = message.visible_at <= now && !held.contains(&message.group);
            if free && message.receive_count >= MAX_RECEIVE_COUNT {
                let message = self.messages.remove(at);
                self.dead.push(DeadLetter { body: message.body, reason: None });
                continue;
            }
            if free {
                self.receipts += 1;
                let receipt = format!("receipt-{}", self.receipts);
                message.receive_count += 1;
                message.visible_at = now + visibility;
                message.receipt = Some(receipt.clone());
                let (body, group) = (message.body.clone(), message.group.clone());
                return Some(Delivery { body, receipt, group, receive_count: message.receive_count });
            }
            held.insert(message.group.clone());
            at += 1;
        }
        None
    }
}

#[async_trait]
impl PartitionQueue for MemoryQueue {
    async fn send(&self, messages: &[Outgoing]) -> Result<Vec<(usize, String)>, QueueError> {
        let mut refused = vec![];
        for (n, outgoing) in messages.iter().enumerate() {
            let refuse = {
                let mut queue = lock(&self.queue);
                let refuse = queue.refusals > 0;
                queue.refusals = queue.refusals.saturating_sub(1);
                refuse
            };
            if refuse {
                refused.push((n, "InternalError: refused by the test".to_owned()));
            } else {
                self.put(&outgoing.message.body(), outgoing.scope.as_str());
            }
        }
        Ok(refused)
    }

    async fn give_back(&self, receipt: &str, after: Duration) -> Result<(), QueueError> {
        if after > MAX_VISIBILITY {
            return Err(QueueError::Misconfigured(format!("a message can't be held back for {after:?}; 12 h at most")));
        }
        let now = self.clock.now();
        let mut queue = lock(&self.queue);
        let in_hand = |m: &&mut Message| m.receipt.as_deref() == Some(receipt) && m.visible_at > now;
        let message = queue.messages.iter_mut().find(in_hand);
        let message =
            message.ok_or_else(|| QueueError::Misconfigured(format!("receipt {receipt:?} is not in hand")))?;
        message.visible_at = now + after;
        Ok(())
    }

    async fn dead_letter(&self, body: &str, reason: &str) -> Result<(), QueueError> {
        lock(&self.queue).dead.push(DeadLetter { body: body.to_owned(), reason: Some(reason.to_owned()) });
        Ok(())
    }
}
