//! A file is overwritten in place; its rows change in the target.

use anyhow::{Context, Result, ensure};
use tidemark_kit::{Dataset, orders};

use super::ROWS;
use crate::stage::Stage;
use crate::tell::Teller;

/// The first order of the day's first file, as it was made by the first act.
const FIRST: i64 = 1_002_000;
const CENTS: i64 = 99_999;

pub(super) async fn play(stage: &Stage, teller: &mut Teller) -> Result<()> {
    let partition = Dataset::Orders.day("2026-11-02");
    teller.act(format!("A file of {} is overwritten in place", partition.name()));
    let before = stage.world.view(&partition).await?.context("the partition is unknown")?;
    let mut changed = orders::orders(FIRST, ROWS);
    for order in &mut changed {
        order.cents = CENTS;
    }
    stage.world.put_orders(&partition.file("part-0.parquet"), &changed).await?;
    teller.line(format!("part-0.parquet put again: every amount is now {}.{:02}", CENTS / 100, CENTS % 100));
    let after = stage.world.wait_landed(&partition, before.landed.len()).await?;
    let row = |rows: &[String]| rows.iter().find(|row| row.starts_with(&format!("{FIRST}|"))).cloned();
    let (old, new) = (row(&before.target.rows), row(&after.target.rows));
    let (old, new) = (old.context("the order was missing")?, new.context("the order is missing")?);
    ensure!(old != new && after.target.rows.len() == before.target.rows.len(), "{old} became {new}");
    teller.shown(format!("order {old}"));
    teller.shown(format!("is now {new}; still {} rows", after.target.rows.len()));
    Ok(())
}
