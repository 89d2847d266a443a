//! The stack is updated in place while a load runs, a partition waits and files land; none of it is lost.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use tidemark_kit::state::{Item, Queue};
use tidemark_kit::{Dataset, orders};
use tidemark_local::Stack;

use super::{DAYS, ROWS};
use crate::stage::Stage;
use crate::tell::Teller;

/// How long COPY is held up, so that the update falls into it.
const COPY_SECONDS: u32 = 5;
/// New settings for each function and each queue.
const CHANGED: [(&str, &str); 3] = [("SettleSeconds", "2"), ("RebuildTimeoutSeconds", "20"), ("LogLevel", "debug")];

pub(super) async fn play(stage: &Stage, teller: &mut Teller) -> Result<()> {
    let world = &stage.world;
    teller.act("The stack is updated in place, while work is in flight");
    let [loading, waiting, landing] = DAYS.map(|day| Dataset::Orders.day(day));
    let before = world.landed(&loading).await?.len();
    world.slow_copy(COPY_SECONDS).await?;
    world.put_orders(&loading.file("update.parquet"), &orders::orders(5_000_000, ROWS)).await?;
    let loads = || async { Ok(world.item(&loading).await?.filter(Item::is_loading).map(|_| ())) };
    world.wait("a COPY to run", &loading, loads).await?;
    teller.line(format!("{}: a COPY runs (each takes {COPY_SECONDS} s now)", loading.name()));
    world.put_orders(&waiting.file("update.parquet"), &orders::orders(5_100_000, ROWS)).await?;
    teller.line(format!("{}: a file landed too", waiting.name()));

    let mut stack = world.stack.clone();
    let (file, rows) = (landing.file("update.parquet"), orders::orders(5_200_000, ROWS));
    let (updated, put) = tokio::join!(stack.update(CHANGED), world.put_orders(&file, &rows));
    updated?;
    put?;
    let told = CHANGED.map(|(name, value)| format!("{name}={value}")).join(" ");
    teller.line(format!("CloudFormation updates the stack: {told}; {}: a file lands meanwhile", landing.name()));
    ensure!(names(&stack) == names(&world.stack), "something was replaced: {:?} by {:?}", world.stack, stack);
    teller.shown("updated in place: no queue, table, bucket or function was replaced");
    world.slow_copy(0).await?;
    for day in [&loading, &waiting, &landing] {
        let rows = world.wait_true_with_sweeps(day).await?.target.rows.len();
        teller.shown(format!("{}: rebuilt, {rows} rows", day.name()));
    }
    ensure!(world.landed(&loading).await?.len() > before, "the load that ran landed nothing");
    for queue in [Queue::EventsDlq, Queue::PartitionsDlq] {
        ensure!(world.depth(queue).await? == 0, "there are messages in {queue:?}");
    }
    teller.shown("no message became a dead letter");
    Ok(())
}

/// What the stack is made of. The environment for operators tells the settings, which did change.
fn names(stack: &Stack) -> BTreeMap<&String, &String> {
    stack.outputs.iter().filter(|(name, _)| *name != "Environment").collect()
}
