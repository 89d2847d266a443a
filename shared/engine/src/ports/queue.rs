//! The partitions queue (SQS FIFO), seen from senders and from the worker that holds a message.

use std::time::Duration;

use async_trait::async_trait;
use tidemark_domain::lock::Scope;
use tidemark_domain::message::PartitionMessage;

use super::Effect;

/// A message to send; its group is the SHA-256 of the lock scope, its deduplication id fresh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The message.
    pub message: PartitionMessage,
    /// The lock scope it will want.
    pub scope: Scope,
}

/// A call that failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum QueueError {
    /// Throttled or unreachable.
    #[error("the partitions queue is unavailable: {message}")]
    Unavailable {
        /// The service's words.
        message: String,
        /// Whether messages may have been sent.
        effect: Effect,
    },
    /// No permission, no such queue, a message it refuses.
    #[error("the partitions queue can't be used: {0}")]
    Misconfigured(String),
}

/// The partitions queue. It may lose, double or delay messages: they are hints.
#[async_trait]
pub trait PartitionQueue: Send + Sync {
    /// Sends messages, in as few calls as the service allows. What was refused for a passing reason is tried again a few
    /// times; the rest is returned by index with the reason.
    async fn send(&self, messages: &[Outgoing]) -> Result<Vec<(usize, String)>, QueueError>;
    /// Makes a message in hand visible again in `after` (0 to 12 h).
    async fn give_back(&self, receipt: &str, after: Duration) -> Result<(), QueueError>;
    /// Puts a body that can't be read on the dead-letter queue, unchanged, with the reason as attribute `reason`.
    async fn dead_letter(&self, body: &str, reason: &str) -> Result<(), QueueError>;
}
