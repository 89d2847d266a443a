//! The proof: for each partition, what lies in S3 against what stands in Redshift, and the ledger's answer to
//! "which files?".

use anyhow::{Context, Result};
use tidemark_kit::{Dataset, Partition, World};

use crate::acts::DAYS;
use crate::tell::{Teller, text, verdict};

/// Shows the table for what the acts touched; gives whether all of it is true.
pub(crate) async fn show(world: &World, teller: &mut Teller) -> Result<bool> {
    let returns = &DAYS[..2];
    let orders = DAYS.iter().map(|day| Dataset::Orders.day(day));
    let all: Vec<_> = orders.chain(returns.iter().map(|day| Dataset::Returns.day(day))).collect();
    show_of(world, &all, teller).await
}

/// The same for the orders alone: returns weren't replayed for the new stack.
pub(crate) async fn show_orders(world: &World, teller: &mut Teller) -> Result<bool> {
    show_of(world, &DAYS.map(|day| Dataset::Orders.day(day)), teller).await
}

async fn show_of(world: &World, partitions: &[Partition], teller: &mut Teller) -> Result<bool> {
    teller.act("The proof");
    text("rows in S3 are counted from the files themselves, rows in Redshift by SQL, files by the ledger's inventory");
    text(format!(
        "  {:<21}{:>10}{:>18}{:>12}{:>13}{:>19}  {:<38}",
        "partition", "rows in S3", "rows in Redshift", "duplicates", "files in S3", "files in ledger", "by batch"
    ));
    let mut all = true;
    for partition in partitions {
        all &= row(world, partition).await?;
    }
    text(String::new());
    if all {
        teller.shown("all of it is true");
    } else {
        teller.line("NOT all of it is true");
    }
    Ok(all)
}

async fn row(world: &World, partition: &Partition) -> Result<bool> {
    let view = world.view(partition).await?.with_context(|| format!("{partition} is unknown"))?;
    let landed = view.landed.last().with_context(|| format!("{partition} never landed"))?;
    let inventory = world.inventory(landed).await?;
    let truth = view.is_true() && inventory == view.source.files;
    text(format!(
        "  {:<21}{:>10}{:>18}{:>12}{:>13}{:>19}  {:<38}{}",
        partition.to_string(),
        view.source.rows.len(),
        view.target.rows.len(),
        view.target.duplicates,
        view.source.files.len(),
        inventory.len(),
        landed.batch,
        verdict(truth),
    ));
    Ok(truth)
}
