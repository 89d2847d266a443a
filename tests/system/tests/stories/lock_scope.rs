//! The lock's scope is changed by `tidemark apply`, table to partition and back, while a partition is rebuilt.

use std::time::Duration;

use anyhow::Result;
use tidemark_kit::state::{Item, Queue};
use tidemark_kit::{Dataset, Partition, Settings, World, orders};
use tidemark_local::wait_until;

/// COPYs that take as long as they were told to.
const COPYING: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                       AND state = 'active' AND query LIKE 'SELECT pg_sleep(%'";

fn under(scope: &str) -> String {
    let definitions = Settings::default().definitions;
    definitions.replace("concurrency = \"partition\"", &format!("concurrency = \"{scope}\""))
}

async fn world_under(scope: &str) -> Result<World> {
    World::with(&Settings { definitions: under(scope), ..Settings::default() }).await
}

/// Every partition holds its files' rows, landed once and copied once for what landed; nothing is left over.
async fn assert_landed_once(world: &World, days: &[Partition]) -> Result<()> {
    for day in days {
        let view = world.wait_true_with_sweeps(day).await?;
        assert_eq!(view.landed.len(), 1, "{day}: {:?}", view.landed);
        assert_eq!(world.copies(&view.landed[0].batch).await?, 1, "{day}");
    }
    world.wait_quiet(&days[0]).await?;
    for queue in [Queue::EventsDlq, Queue::PartitionsDlq] {
        assert_eq!(world.depth(queue).await?, 0, "{queue:?}");
    }
    Ok(())
}

async fn changed_under_a_copy(old: &str, new: &str) -> Result<()> {
    let world = world_under(old).await?;
    let days = ["2026-11-01", "2026-11-02"].map(|day| Dataset::Orders.day(day));
    let [loading, other] = &days;
    world.slow_copy(90).await?;
    world.put_orders(&loading.file("a.parquet"), &orders::orders(0, 50)).await?;
    // Not before it runs in Redshift: the item says so a moment earlier.
    let copies = || async { Ok((world.count(COPYING).await? == 1).then_some(())) };
    world.wait("a COPY to run", loading, copies).await?;
    world.slow_copy(0).await?;

    world.apply(&under(new)).await?;
    world.put_orders(&other.file("a.parquet"), &orders::orders(1_000, 50)).await?;
    world.wait_true(other).await?;
    assert_eq!(world.count(COPYING).await?, 1, "the old COPY still runs");
    assert_landed_once(&world, &days).await
}

#[tokio::test]
async fn table_to_partition_while_a_copy_runs_lets_other_days_land_beside_it() -> Result<()> {
    changed_under_a_copy("table", "partition").await
}

#[tokio::test]
async fn partition_to_table_while_a_copy_runs_lets_other_days_land_beside_it() -> Result<()> {
    changed_under_a_copy("partition", "table").await
}

/// A swap waits in Redshift, its worker is dead, and the scope is changed: the swap lands once, and is found.
async fn changed_under_a_swap(old: &str, new: &str) -> Result<()> {
    let world = world_under(old).await?;
    let days = ["2026-11-01", "2026-11-02"].map(|day| Dataset::Orders.day(day));
    let [swapping, other] = &days;
    let blocker = world.hold_swaps().await?;
    world.put_orders(&swapping.file("a.parquet"), &orders::orders(0, 50)).await?;
    let swaps = || async { Ok(world.item(swapping).await?.filter(Item::is_swapping).map(|_| ())) };
    world.wait("a swap to run", swapping, swaps).await?;
    assert!(world.kill_rebuild()? > 0);
    world.put_orders(&other.file("a.parquet"), &orders::orders(1_000, 50)).await?;

    // An apply looks at the guard row, which the swap's lock covers: it waits for the swap, and not the other way round.
    let definitions = under(new);
    let release = async {
        let waiting = "SELECT count(*) FROM pg_stat_activity \
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let both = async || Ok((world.count(waiting).await? >= 2).then_some(()));
        wait_until("swap and apply to wait", Duration::from_mins(1), both).await?;
        blocker.batch_execute("COMMIT").await?;
        anyhow::Ok(())
    };
    let (applied, released) = tokio::join!(world.apply(&definitions), release);
    released?;
    applied?;
    assert_landed_once(&world, &days).await
}

#[tokio::test]
async fn table_to_partition_while_a_swap_waits_lands_it_once() -> Result<()> {
    changed_under_a_swap("table", "partition").await
}

#[tokio::test]
async fn partition_to_table_while_a_swap_waits_lands_it_once() -> Result<()> {
    changed_under_a_swap("partition", "table").await
}
