//! A bad file parks its partition with file, line and column named; it is replaced, and the partition heals.

use anyhow::{Result, ensure};
use tidemark_kit::{Dataset, orders};

use crate::stage::Stage;
use crate::tell::Teller;

const BAD: &[u8] = b"return_id,order_id,reason,quantity\n901,17,broken,1\n902,18,too small,three\n";

pub(super) async fn play(stage: &Stage, teller: &mut Teller) -> Result<()> {
    let world = &stage.world;
    let partition = Dataset::Returns.day("2026-11-01");
    teller.act(format!("A bad file lands among the {partition}"));
    world.put_returns(&partition.file("good.csv"), &orders::returns(100, 50)).await?;
    let good = world.wait_true(&partition).await?;
    teller.line(format!("good.csv put and rebuilt: {} rows", good.target.rows.len()));
    world.put(&partition.file("bad.csv"), BAD.to_vec()).await?;
    teller.line("bad.csv put: its third line says that the quantity is \"three\"");
    let (kind, message) = world.wait_parked(&partition).await?;
    for named in ["bad.csv", "3", "quantity"] {
        ensure!(message.contains(named), "the message does not name {named}: {message}");
    }
    teller.shown(format!("parked ({kind}): {message}"));
    let kept = world.target(&partition).await?;
    ensure!(kept == good.target, "the target changed");
    teller.shown(format!("the target still holds the {} rows of before", kept.rows.len()));
    world.put_returns(&partition.file("bad.csv"), &orders::returns(901, 2)).await?;
    teller.line("bad.csv replaced by a good one");
    let healed = world.wait_landed(&partition, good.landed.len()).await?;
    teller.shown(format!("healed by itself: {} rows", healed.target.rows.len()));
    Ok(())
}
