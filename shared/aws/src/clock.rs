//! Time, ids and chance, as they are.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tidemark_engine::ports::Clock;
use uuid::Uuid;

use crate::retry;

/// The machine's clock and chance.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn id(&self) -> Uuid {
        Uuid::now_v7()
    }

    fn jitter(&self, bound: Duration) -> Duration {
        retry::jitter(bound)
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
