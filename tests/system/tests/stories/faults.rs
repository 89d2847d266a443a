//! What fails around the main job: killed functions, a slow, silent or throttling Redshift. All of it heals by itself.

use anyhow::Result;
use tidemark_kit::state::Item;
use tidemark_kit::{Dataset, Partition, World, orders};

async fn wait_loading(world: &World, day: &Partition) -> Result<Item> {
    let probe = || async { Ok(world.item(day).await?.filter(Item::is_loading)) };
    world.wait("a COPY to run", day, probe).await
}

#[tokio::test]
async fn rebuild_killed_while_copy_runs_is_found_during_staging_and_loads_once() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world.slow_copy(4).await?;
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 100)).await?;
    wait_loading(&world, &day).await?;
    assert!(world.kill_rebuild()? > 0);
    world.slow_copy(0).await?;

    let view = world.wait_true(&day).await?;
    assert_eq!(view.landed.len(), 1);
    let batch = &view.landed[0].batch;
    assert_eq!(world.found_state(batch).await?, "during staging");
    assert_eq!(world.copies(batch).await?, 1, "the COPY went on, and was not made again");
    Ok(())
}

#[tokio::test]
async fn a_copy_that_outlives_several_invocations_is_made_once() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world.slow_copy(25).await?; // rebuild has 10 seconds
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 100)).await?;
    let view = world.wait_true(&day).await?;
    assert_eq!(view.landed.len(), 1);
    assert_eq!(world.copies(&view.landed[0].batch).await?, 1);
    assert!(view.item.number("fence") >= 3, "several takes: {:#}", view.item.0);
    assert_eq!(view.landed[0].fence, 1, "the batch keeps the fence it was born with");
    Ok(())
}

#[tokio::test]
async fn a_redshift_that_is_down_for_a_while_parks_nothing() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world.redshift_down(5).await?;
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 100)).await?;
    world.wait_true_with_sweeps(&day).await?;
    Ok(())
}

#[tokio::test]
async fn throttling_is_waited_out() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    for operation in ["BatchExecuteStatement", "DescribeStatement", "GetStatementResult"] {
        world.redshift_refuses(operation, "ThrottlingException", 3).await?;
    }
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 100)).await?;
    let view = world.wait_true_with_sweeps(&day).await?;
    assert_eq!(view.landed.len(), 1);
    Ok(())
}
