//! Three days of orders land; each partition is rebuilt.

use anyhow::Result;
use tidemark_kit::{Dataset, orders};

use super::ROWS;
use crate::stage::Stage;
use crate::tell::{Teller, count};

pub(crate) const DAYS: [&str; 3] = ["2026-11-01", "2026-11-02", "2026-11-03"];
const FILES_A_DAY: usize = 2;

pub(super) async fn play(stage: &Stage, teller: &mut Teller) -> Result<()> {
    teller.act("Three days of orders land");
    let mut next = 1_000_000;
    for day in DAYS {
        let partition = Dataset::Orders.day(day);
        for file in 0..FILES_A_DAY {
            let key = partition.file(&format!("part-{file}.parquet"));
            stage.world.put_orders(&key, &orders::orders(next, ROWS)).await?;
            next += 1_000;
        }
        teller.line(format!(
            "{} put to s3://{}/{}",
            count(FILES_A_DAY, "file"),
            stage.world.stack.data_bucket(),
            partition.prefix()
        ));
    }
    for day in DAYS {
        let view = stage.world.wait_true(&Dataset::Orders.day(day)).await?;
        let rebuilds = count(view.landed.len(), "rebuild");
        teller.shown(format!("dt={day} rebuilt: {} rows, {rebuilds}", view.target.rows.len()));
    }
    Ok(())
}
