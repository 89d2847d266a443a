//! All files of a partition are deleted: it is held back, parked, keeps its rows, until an operator accepts.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tidemark_kit::state::Queue;
use tidemark_kit::{Dataset, orders};

use crate::stage::Stage;
use crate::tell::{Teller, count};

pub(super) async fn play(stage: &Stage, teller: &mut Teller) -> Result<()> {
    let world = &stage.world;
    let partition = Dataset::Returns.day("2026-11-02");
    teller.act(format!("All files of {partition} are deleted"));
    let files = ["a.csv", "b.csv"].map(|name| partition.file(name));
    for (file, first) in files.iter().zip([200, 300]) {
        world.put_returns(file, &orders::returns(first, 50)).await?;
    }
    let full = world.wait_true(&partition).await?;
    teller.line(format!("{} put and rebuilt: {} rows", count(files.len(), "file"), full.target.rows.len()));
    for file in &files {
        world.delete(file).await?;
    }
    teller.line("both deleted");
    let held =
        || async { Ok(world.item(&partition).await?.filter(|item| item.held().is_some() || item.parked().is_some())) };
    if let Some(kind) = world.wait("to be held back", &partition, held).await?.held() {
        teller.shown(format!("held back ({kind}) while the guards' patience lasts: an overwrite takes a while"));
    }
    let (kind, message) = world.wait_parked(&partition).await?;
    ensure!(kind == "empty_source", "parked as {kind}: {message}");
    teller.shown(format!("parked ({kind}): {message}"));
    let kept = world.target(&partition).await?;
    ensure!(kept == full.target, "the target changed");
    teller.shown(format!("the target keeps its {} rows", kept.rows.len()));

    let item = world.item(&partition).await?.context("the partition is unknown")?;
    let replay = json!({
        "version": 1, "dataset": partition.dataset.name(), "partition": partition.name(),
        "reason": "the returns of that day were void", "force": true,
        "accept": ["empty_source"], "digest": item.0["parked"]["digest"],
    });
    world.send(Queue::Partitions, &replay.to_string()).await?;
    teller.line(format!("an operator sends to the partitions queue: {replay}"));
    let emptied = world.wait_landed(&partition, full.landed.len()).await?;
    ensure!(emptied.target.rows.is_empty(), "{} rows are left", emptied.target.rows.len());
    let deleted = emptied.landed.last().map_or(0, |landed| landed.deleted_rows);
    teller.shown(format!("emptied: {deleted} rows deleted, none left"));
    Ok(())
}
