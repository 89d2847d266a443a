//! The proof: for each partition, what lies in S3 against what stands in Redshift, and the ledger's answer to
//! "which files?".

use anyhow::{Context, Result};
use tidemark_kit::{Dataset, Partition};

use crate::acts::DAYS;
use crate::stage::Stage;
use crate::tell::{Teller, text, verdict};

/// Shows the table; gives whether all of it is true.
pub(crate) async fn show(stage: &Stage, teller: &mut Teller) -> Result<bool> {
    teller.act("The proof");
    text("rows in S3 are counted from the files themselves, rows in Redshift by SQL, files by the ledger's inventory");
    text(format!(
        "  {:<21}{:>10}{:>18}{:>12}{:>13}{:>19}  {:<38}",
        "partition", "rows in S3", "rows in Redshift", "duplicates", "files in S3", "files in ledger", "by batch"
    ));
    let mut all = true;
    let returns = &DAYS[..2];
    let partitions =
        DAYS.iter().map(|day| Dataset::Orders.day(day)).chain(returns.iter().map(|day| Dataset::Returns.day(day)));
    for partition in partitions {
        all &= row(stage, &partition).await?;
    }
    text(String::new());
    if all {
        teller.shown("all of it is true");
    } else {
        teller.line("NOT all of it is true");
    }
    Ok(all)
}

async fn row(stage: &Stage, partition: &Partition) -> Result<bool> {
    let view = stage.world.view(partition).await?.with_context(|| format!("{partition} is unknown"))?;
    let landed = view.landed.last().with_context(|| format!("{partition} never landed"))?;
    let inventory = stage.world.inventory(landed).await?;
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
