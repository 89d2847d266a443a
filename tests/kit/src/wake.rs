//! Where nothing but sweep's schedule is left, its minutes are cut short.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::dataset::Partition;
use crate::state::Queue;
use crate::world::World;

/// What is due later than this, with nothing on its way, only sweep brings back.
const FAR: Duration = Duration::from_secs(30);
/// What is overdue for so long, with nothing on its way, waits for sweep's schedule alone.
const LATE: Duration = Duration::from_secs(2);
/// How often, and how far apart, queues have to be empty until nothing is on its way.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

impl World {
    /// Where nothing but sweep's wake is left, does what the schedule would do within minutes: cuts short the time until the
    /// partition is due, and lets sweep run. Whether it did.
    pub async fn wake(&self, partition: &Partition) -> Result<bool> {
        let Some(item) = self.item(partition).await?.filter(|item| !item.rests()) else { return Ok(false) };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let due = Duration::from_millis(u64::try_from(item.number("due_at")).unwrap_or(0));
        let (far, over) = (due > now + FAR, due + LATE < now);
        if item.parked().is_some() || !(far || over) {
            return Ok(false);
        }
        // Asked several times: a message that is just being handed out is counted nowhere.
        for _ in 0..LOOKS {
            if !self.is_quiet().await? {
                return Ok(false);
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        // Whoever was at it may have ended while its message was still seen: then nothing is left to be woken.
        if self.item(partition).await?.as_ref() != Some(&item) {
            return Ok(false);
        }
        if far {
            self.make_due(partition).await?;
        }
        self.sweep().await?;
        Ok(true)
    }

    /// Whether as far as anybody can tell no message is on its way.
    pub async fn is_quiet(&self) -> Result<bool> {
        Ok(self.depth(Queue::Events).await? + self.depth(Queue::Partitions).await? == 0)
    }
}
