//! A replay of a healthy partition rebuilds it once.

use anyhow::{Result, ensure};
use serde_json::json;
use tidemark_kit::Dataset;
use tidemark_kit::state::Queue;

use crate::stage::Stage;
use crate::tell::Teller;

pub(super) async fn play(stage: &Stage, teller: &mut Teller) -> Result<()> {
    let world = &stage.world;
    let partition = Dataset::Orders.day("2026-11-01");
    teller.act(format!("A replay of {partition}, which is healthy"));
    let before = world.wait_true(&partition).await?;
    let replay = json!({
        "version": 1, "dataset": partition.dataset.name(), "partition": partition.name(), "reason": "to be sure",
    });
    world.send(Queue::Partitions, &replay.to_string()).await?;
    teller.line(format!("an operator sends to the partitions queue: {replay}"));
    world.wait_landed(&partition, before.landed.len()).await?;
    world.wait_quiet(&partition).await?;
    let after = world.wait_true(&partition).await?;
    let rebuilds = after.landed.len() - before.landed.len();
    ensure!(rebuilds == 1 && after.target == before.target, "{rebuilds} rebuilds for one replay");
    teller.shown(format!("rebuilt once, for real; the same {} rows", after.target.rows.len()));
    Ok(())
}
