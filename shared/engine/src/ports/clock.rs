//! Time, ids and chance.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::Uuid;

/// Time, ids and chance. No safety rests on any of them being right; ids are unique.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
    /// A fresh id, a UUIDv7.
    fn id(&self) -> Uuid;
    /// A random duration below `bound`.
    fn jitter(&self, bound: Duration) -> Duration;
    /// Waits. Only for short back-offs between calls; a statement is waited for by long poll.
    async fn sleep(&self, duration: Duration);
}
