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
    assert_eq!(world.recovered_from(&day, batch).await?.as_deref(), Some("during staging"));
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
    assert_eq!(world.recovered_from(&day, &view.landed[0].batch).await?, None, "a hand-off is no failure");
    assert_eq!(view.landed[0].fence, 1, "the batch keeps the fence it was born with");
    Ok(())
}

#[tokio::test]
async fn a_redshift_that_is_down_for_a_while_parks_nothing() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world.redshift_down(60).await?;
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 100)).await?;
    let held = || async { Ok(world.item(&day).await?.filter(|item| item.held() == Some("unavailable"))) };
    world.wait("to be held back", &day, held).await?;
    world.redshift_down(0).await?;
    let view = world.wait_true_with_sweeps(&day).await?;
    assert_eq!(view.landed.len(), 1);
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

/// A transaction of somebody else's that keeps swaps waiting at the fence table of the target.
async fn hold_swaps(world: &World) -> Result<tokio_postgres::Client> {
    let blocker = world.connect().await?;
    let find = "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables \
                WHERE schemaname = 'tidemark' AND tablename LIKE '%orders%'";
    let table: String = blocker.query_one(find, &[]).await?.try_get(0)?;
    blocker.batch_execute(&format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")).await?;
    Ok(blocker)
}

async fn wait_swapping(world: &World, day: &Partition) -> Result<Item> {
    let probe = || async { Ok(world.item(day).await?.filter(Item::is_swapping)) };
    world.wait("a swap to run", day, probe).await
}

#[tokio::test]
async fn a_swap_that_commits_after_its_worker_died_is_found_after_commit_and_not_made_again() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    let blocker = hold_swaps(&world).await?;
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 100)).await?;
    wait_swapping(&world, &day).await?;
    assert!(world.kill_rebuild()? > 0);
    assert!(world.target(&day).await?.rows.is_empty(), "nothing has landed while the swap waits");
    blocker.batch_execute("COMMIT").await?;

    let landed = || async { Ok(Some(world.landed(&day).await?).filter(|landed| landed.len() == 1)) };
    world.wait("the swap to commit without a worker", &day, landed).await?;
    let view = world.wait_true(&day).await?;
    assert_eq!(view.landed.len(), 1);
    assert_eq!(world.recovered_from(&day, &view.landed[0].batch).await?.as_deref(), Some("after commit"));
    Ok(())
}

#[tokio::test]
async fn a_swap_that_died_with_its_worker_is_found_before_commit_and_made_again() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    let blocker = hold_swaps(&world).await?;
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 100)).await?;
    wait_swapping(&world, &day).await?;
    assert!(world.kill_rebuild()? > 0);
    assert!(world.break_waiting_statements().await? > 0);
    blocker.batch_execute("COMMIT").await?;

    let view = world.wait_true_with_sweeps(&day).await?;
    assert_eq!(view.landed.len(), 1);
    let batch = &view.landed[0].batch;
    assert_eq!(world.recovered_from(&day, batch).await?.as_deref(), Some("before commit"));
    assert_eq!(world.copies(batch).await?, 1, "what was staged is swapped, not loaded again");
    Ok(())
}

#[tokio::test]
async fn a_file_overwritten_while_it_is_loaded_ends_as_the_newer_one() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world.slow_copy(4).await?;
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 100)).await?;
    wait_loading(&world, &day).await?;
    let mut newer = orders::orders(0, 100);
    for order in &mut newer {
        order.cents += 1;
    }
    world.put_orders(&day.file("a.parquet"), &newer).await?;
    world.slow_copy(0).await?;
    let view = world.wait_true_with_sweeps(&day).await?;
    assert_eq!(view.landed.len(), 1, "what was copied of the older one never landed: {:?}", view.landed);
    assert_eq!(world.inventory(&view.landed[0]).await?, view.source.files);
    Ok(())
}
