//! A file comes two days late, and just its partition is rebuilt.

use anyhow::{Result, ensure};
use tidemark_kit::{Dataset, orders};

use super::ROWS;
use super::three_days::DAYS;
use crate::stage::Stage;
use crate::tell::Teller;

pub(super) async fn play(stage: &Stage, teller: &mut Teller) -> Result<()> {
    let late = Dataset::Orders.day(DAYS[0]);
    teller.act(format!("A file of {} comes two days late", late.name()));
    let before = landed(stage).await?;
    stage.world.put_orders(&late.file("late.parquet"), &orders::orders(3_000_000, ROWS)).await?;
    teller.line(format!("late.parquet put to {}", late.prefix()));
    let view = stage.world.wait_landed(&late, before[0]).await?;
    stage.world.wait_quiet(&late).await?;
    let after = landed(stage).await?;
    ensure!(after[1..] == before[1..], "rebuilds per day were {before:?} and are {after:?}");
    let last = view.landed.last().map_or(0, |landed| landed.source_objects);
    teller.shown(format!(
        "rebuilt whole from {last} files: {} rows; the other days were left alone",
        view.target.rows.len()
    ));
    Ok(())
}

/// Rebuilds of each day so far.
async fn landed(stage: &Stage) -> Result<Vec<usize>> {
    let mut counts = Vec::new();
    for day in DAYS {
        counts.push(stage.world.landed(&Dataset::Orders.day(day)).await?.len());
    }
    Ok(counts)
}
