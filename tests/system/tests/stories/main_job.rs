//! Files land, in bursts, late, over one another.

use anyhow::Result;
use tidemark_kit::state::Queue;
use tidemark_kit::{Dataset, Settings, World, orders};

#[tokio::test]
async fn files_land_and_each_partition_holds_just_their_rows() -> Result<()> {
    let world = World::new().await?;
    let days = ["2026-11-01", "2026-11-02"].map(|day| Dataset::Orders.day(day));
    for (day, first) in days.iter().zip([1_000, 2_000]) {
        world.put_orders(&day.file("a.parquet"), &orders::orders(first, 300)).await?;
        world.put_orders(&day.file("b.parquet"), &orders::orders(first + 500, 300)).await?;
    }
    for day in &days {
        let view = world.wait_true(day).await?;
        assert_eq!(view.target.rows.len(), 600);
        let landed = view.landed.last().unwrap();
        assert_eq!((landed.source_objects, landed.target_rows), (2, 600));
        assert_eq!(world.inventory(landed).await?, view.source.files, "which files?");
    }

    // Two days late: the other partition is left alone.
    let before = world.landed(&days[1]).await?;
    let landed = world.landed(&days[0]).await?.len();
    world.put_orders(&days[0].file("late.parquet"), &orders::orders(5_000, 10)).await?;
    let view = world.wait_landed(&days[0], landed).await?;
    assert_eq!(view.target.rows.len(), 610);
    world.wait_quiet(&days[0]).await?;
    assert_eq!(world.landed(&days[1]).await?, before);

    // In place: as many rows, other values.
    let mut changed = orders::orders(1_000, 300);
    for order in &mut changed {
        order.cents += 1;
    }
    let old = view.target.rows;
    world.put_orders(&days[0].file("a.parquet"), &changed).await?;
    let view = world.wait_landed(&days[0], view.landed.len()).await?;
    let differing = view.target.rows.iter().filter(|row| !old.contains(row)).count();
    assert_eq!((view.target.rows.len(), differing), (610, 300));
    Ok(())
}

#[tokio::test]
async fn a_burst_of_200_files_causes_few_rebuilds() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-03");
    for file in 0..200 {
        world.put_orders(&day.file(&format!("{file:03}.parquet")), &orders::orders(file * 10, 5)).await?;
    }
    world.wait_true(&day).await?;
    world.wait_quiet(&day).await?;
    let view = world.wait_true(&day).await?;
    assert_eq!(view.target.rows.len(), 1_000);
    assert!(view.item.number("marked") >= 10, "200 events came in a few batches, each a mark: {:#}", view.item.0);
    assert!(view.landed.len() <= 10, "{} rebuilds", view.landed.len());
    Ok(())
}

/// The message that a mark sends may be lost; sweep finds the partition in the index and wakes it.
#[tokio::test]
async fn a_lost_message_is_made_good_by_sweep() -> Result<()> {
    let world = World::with(&Settings { settle_seconds: 5, ..Default::default() }).await?;
    let day = Dataset::Orders.day("2026-11-01");
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 10)).await?;
    let sent = || async { Ok((world.depth(Queue::Partitions).await? > 0).then_some(())) };
    world.wait("a message to be sent", &day, sent).await?;
    world.purge(Queue::Partitions).await?;
    assert_eq!(world.depth(Queue::Partitions).await?, 0, "lost");
    world.make_due(&day).await?;
    world.sweep().await?;
    world.wait_true(&day).await?;
    Ok(())
}
