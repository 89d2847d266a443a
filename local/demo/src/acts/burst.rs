//! A burst of 200 files causes few rebuilds, not 200.

use anyhow::{Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use tidemark_kit::{Dataset, orders};

use crate::stage::Stage;
use crate::tell::{Teller, count};

const FILES: usize = 200;
const ROWS: usize = 10;
const FEW: usize = 10;
const AT_ONCE: usize = 8;

pub(super) async fn play(stage: &Stage, teller: &mut Teller) -> Result<()> {
    let partition = Dataset::Orders.day("2026-11-03");
    teller.act(format!("A burst: {FILES} files into {}", partition.name()));
    let world = &stage.world;
    let before = world.landed(&partition).await?.len();
    let puts = (0..FILES).map(|file| {
        let key = partition.file(&format!("burst-{file:03}.parquet"));
        let first = 2_000_000 + i64::try_from(file * ROWS).unwrap_or_default();
        async move { world.put_orders(&key, &orders::orders(first, ROWS)).await }
    });
    stream::iter(puts).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    teller.line(format!("{FILES} files of {ROWS} orders put"));
    world.wait_true(&partition).await?;
    world.wait_quiet(&partition).await?;
    let view = world.wait_true(&partition).await?;
    let rebuilds = view.landed.len() - before;
    ensure!(rebuilds <= FEW, "{rebuilds} rebuilds for one burst");
    let events = view.item.number("marked");
    teller.shown(format!(
        "{}, says the ledger; the partition was marked {events} times, and has {} rows",
        count(rebuilds, "rebuild"),
        view.target.rows.len()
    ));
    Ok(())
}
