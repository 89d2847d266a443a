//! What is going on when a function is killed: each scenario makes the functions do effects that none before it made.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tidemark_kit::state::{Item, Queue};
use tidemark_kit::{Partition, World, orders};

use crate::plan::Moment;

/// Rows of each file.
const ROWS: usize = 20;
/// Longer than rebuild may work: it hands itself on.
const LONG_COPY_SECONDS: u32 = 12;
/// Long enough to put another file meanwhile.
const COPY_SECONDS: u32 = 2;

/// What is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scenario {
    /// A file lands late: mark, then a whole rebuild of a partition that was built before.
    Late,
    /// The staging table is dropped before the swap, so that the batch ends unresolved: the next one fences and looks.
    Fenced,
    /// COPY takes longer than an invocation may: hand-off.
    HandedOff,
    /// Another file lands during the rebuild.
    MarkedAgain,
    /// An operator's replay.
    Replayed,
    /// A mark whose message was never sent: sweep wakes the partition.
    Woken,
    /// A file that fails verification: alert and park. A right one in its place heals it.
    Parked,
}

impl Scenario {
    pub(crate) const ALL: [Self; 7] =
        [Self::Late, Self::Fenced, Self::HandedOff, Self::MarkedAgain, Self::Replayed, Self::Woken, Self::Parked];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Late => "late file",
            Self::Fenced => "fenced",
            Self::HandedOff => "handed off",
            Self::MarkedAgain => "marked again",
            Self::Replayed => "replayed",
            Self::Woken => "woken",
            Self::Parked => "parked",
        }
    }

    /// Where a function has to be killed before this begins.
    pub(crate) fn prelude(self) -> Option<(Moment, &'static str)> {
        match self {
            Self::Fenced => Some((Moment::Before, "submit swap")),
            Self::Woken => Some((Moment::After, "mark")),
            _ => None,
        }
    }

    /// Sets it going; `n` is a number nobody used in this partition.
    pub(crate) async fn begin(self, world: &World, day: &Partition, n: i64) -> Result<()> {
        let rows = orders::orders(n * 1_000, ROWS);
        let file = file(day, n);
        match self {
            Self::Late => world.put_orders(&file, &rows).await,
            Self::Fenced => drop_staging(world, day).await,
            Self::Woken => Ok(()),
            Self::HandedOff => {
                world.slow_copy(LONG_COPY_SECONDS).await?;
                world.put_orders(&file, &rows).await
            }
            Self::MarkedAgain => {
                world.slow_copy(COPY_SECONDS).await?;
                world.put_orders(&file, &rows).await?;
                let loading = || async { Ok(world.item(day).await?.filter(Item::is_loading)) };
                world.wait("a COPY to run", day, loading).await?;
                world.put_orders(&day.file(&format!("{n}-again.parquet")), &orders::orders(n * 1_000 + 500, ROWS)).await
            }
            Self::Replayed => {
                let replay = json!({ "version": 1, "dataset": "orders", "partition": day.name(), "reason": "killed on purpose" });
                world.send(Queue::Partitions, &replay.to_string()).await
            }
            Self::Parked => world.put_orders(&file, &[rows.as_slice(), &rows].concat()).await,
        }
    }

    /// What is done once the first kill was seen, or in a run without kills once it is on its way.
    pub(crate) async fn go_on(self, world: &World) -> Result<()> {
        match self {
            Self::HandedOff | Self::MarkedAgain => world.slow_copy(0).await,
            _ => Ok(()),
        }
    }

    /// Only for [`Self::Parked`]: puts right what was wrong.
    pub(crate) async fn heal(world: &World, day: &Partition, n: i64) -> Result<()> {
        world.put_orders(&file(day, n), &orders::orders(n * 1_000, ROWS)).await
    }
}

/// Drops what the batch in progress has staged.
async fn drop_staging(world: &World, day: &Partition) -> Result<()> {
    let item = world.item(day).await?.context("the partition has no item")?;
    let batch = item.0["batch"]["id"].as_str().context("no batch is in progress")?;
    let dropped = world.drop_staging(batch).await?;
    ensure!(dropped == 1, "batch {batch} had {dropped} staging tables");
    Ok(())
}

fn file(day: &Partition, n: i64) -> String {
    day.file(&format!("{n}.parquet"))
}
