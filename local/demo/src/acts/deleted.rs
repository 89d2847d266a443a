//! The stack is deleted while work is in flight; a new one takes over, and what was in flight is done.

use anyhow::{Context, Result, ensure};
use tidemark_kit::state::Item;
use tidemark_kit::{Dataset, Settings, World, orders};

use super::{DAYS, ROWS};
use crate::stage::Stage;
use crate::tell::Teller;

/// How long COPY is held up, so that the deletion falls into it.
const COPY_SECONDS: u32 = 30;

/// Gives the world of the new stack.
pub(crate) async fn play(stage: &Stage, teller: &mut Teller) -> Result<World> {
    let world = &stage.world;
    teller.act("The stack is deleted, while work is in flight");
    let [loading, rest @ ..] = DAYS.map(|day| Dataset::Orders.day(day));
    let before = world.target(&loading).await?;
    world.slow_copy(COPY_SECONDS).await?;
    world.put_orders(&loading.file("deleted.parquet"), &orders::orders(6_000_000, ROWS)).await?;
    let loads = || async { Ok(world.item(&loading).await?.filter(Item::is_loading).map(|_| ())) };
    world.wait("a COPY to run", &loading, loads).await?;
    teller.line(format!("{}: a file landed, a COPY runs", loading.name()));
    world.stack.clone().delete().await?;
    teller.line("CloudFormation deletes the stack: functions and queues are gone, with what was in them");
    world.break_connection("COPY").await?;
    world.slow_copy(0).await?;

    let item = world.item(&loading).await?.context("the table lost the partition")?;
    ensure!(!item.rests(), "the table doesn't know that {} is to be rebuilt", loading.name());
    teller.shown(format!("the table is there, and says that {} is to be rebuilt", loading.name()));
    ensure!(world.target(&loading).await? == before, "the target of {} changed", loading.name());
    teller.shown(format!("the target holds the {} rows of before, whole", before.rows.len()));
    for day in &rest {
        ensure!(world.view(day).await?.is_some_and(|view| view.is_true()), "{} is not true", day.name());
    }
    teller.shown("the other days are as they were: files, rows, ledger and inventories");

    teller.act("A new stack takes over");
    let settings = Settings::default();
    let heir = world.succeed(&settings).await?;
    teller.line("another stack is made for the same bucket and database; it hears of files through EventBridge");
    let file = heir.write_definitions(&settings.definitions)?;
    let [orders, returns] = [Dataset::Orders, Dataset::Returns].map(Dataset::name);
    heir.tidemark_well(&["apply", &file, "--yes", "--take-over", orders, "--take-over", returns]).await?;
    teller.shown(format!("$ tidemark apply datasets.toml --yes --take-over {orders} --take-over {returns}"));
    teller.line("rows of the stack before are foreign to this one: who replays says that they may go");
    for day in [&loading].into_iter().chain(&rest) {
        let landed = heir.landed(day).await?.len();
        let name = day.name();
        let replay = ["replay", orders, &name, "--reason", "a new stack", "--accept", "foreign_rows"];
        heir.tidemark_well(&replay).await?;
        let rows = heir.wait_landed(day, landed).await?.target.rows.len();
        teller.shown(format!("$ tidemark {} … {rows} rows", replay[..3].join(" ")));
    }
    let landed = heir.landed(&loading).await?.len();
    heir.put_orders(&loading.file("after.parquet"), &orders::orders(6_100_000, ROWS)).await?;
    let rows = heir.wait_landed(&loading, landed).await?.target.rows.len();
    teller.shown(format!("a file lands, and {name} is rebuilt of itself: {rows} rows", name = loading.name()));
    Ok(heir)
}
