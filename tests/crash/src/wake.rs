//! Where nothing but sweep's schedule is left, its minutes are cut short.

use std::time::Duration;

use anyhow::Result;
use tidemark_kit::state::Queue;
use tidemark_kit::{Partition, World};

use crate::plan::now;

/// What is due later than this, with nothing on its way, only sweep brings back.
const FAR: Duration = Duration::from_secs(30);
/// What is overdue for so long, with nothing on its way, waits for sweep's schedule alone.
const LATE: Duration = Duration::from_secs(2);
/// How often, and how far apart, queues have to be empty until nothing is on its way.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// Where nothing but sweep's wake is left, does what the schedule would do within minutes: cuts short the five minutes until
/// the partition is due, and lets sweep run.
pub(crate) async fn wake(world: &World, day: &Partition) -> Result<bool> {
    let Some(item) = world.item(day).await?.filter(|item| !item.rests()) else { return Ok(false) };
    let due = Duration::from_millis(u64::try_from(item.number("due_at")).unwrap_or(0));
    let (far, over) = (due > now() + FAR, due + LATE < now());
    if !(far || over) {
        return Ok(false);
    }
    // Asked several times: a message that is just being handed out is counted nowhere.
    for _ in 0..LOOKS {
        if !is_quiet(world).await? {
            return Ok(false);
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    if far {
        world.make_due(day).await?;
    }
    world.sweep().await?;
    Ok(true)
}

/// Whether as far as anybody can tell no message is on its way.
pub(crate) async fn is_quiet(world: &World) -> Result<bool> {
    Ok(world.depth(Queue::Events).await? + world.depth(Queue::Partitions).await? == 0)
}
