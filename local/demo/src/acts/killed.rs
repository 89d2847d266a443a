//! Rebuild is killed in the middle of a load, and the system heals itself, saying in which state it found the batch.

use anyhow::{Context, Result, ensure};
use tidemark_kit::state::Item;
use tidemark_kit::{Dataset, orders};

use super::ROWS;
use crate::stage::Stage;
use crate::tell::Teller;

/// How long COPY is held up, so that there is a middle to be killed in.
const COPY_SECONDS: u32 = 4;

pub(super) async fn play(stage: &Stage, teller: &mut Teller) -> Result<()> {
    let world = &stage.world;
    let partition = Dataset::Orders.day("2026-11-02");
    teller.act(format!("Rebuild is killed in the middle of loading {}", partition.name()));
    let before = world.landed(&partition).await?.len();
    world.slow_copy(COPY_SECONDS).await?;
    world.put_orders(&partition.file("part-2.parquet"), &orders::orders(4_000_000, ROWS)).await?;
    teller.line(format!("part-2.parquet put; every COPY now takes {COPY_SECONDS} s"));
    let copying = || async { Ok(world.item(&partition).await?.filter(Item::is_loading).map(|_| ())) };
    world.wait("a COPY to run", &partition, copying).await?;
    let killed = world.kill_rebuild()?;
    ensure!(killed > 0, "no process of rebuild was found to be killed");
    teller.line("kill -KILL of rebuild while COPY runs; nothing was confirmed, nothing cleaned up");
    world.slow_copy(0).await?;
    let view = world.wait_landed(&partition, before).await?;
    let batch = &view.landed.last().context("nothing landed")?.batch;
    let found = world.recovered_from(&partition, batch).await?.context("the story tells of no recovery")?;
    teller.shown(format!(
        "the lease ran out, and the next rebuild found the batch in the state \"{found}\", and finished it"
    ));
    teller.shown(format!("{} rows, one batch in the ledger for it: {batch}", view.target.rows.len()));
    ensure!(view.landed.len() == before + 1, "{} batches landed for one file", view.landed.len() - before);
    Ok(())
}
