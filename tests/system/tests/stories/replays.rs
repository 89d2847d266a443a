//! Replays by message and by command.

use anyhow::Result;
use serde_json::json;
use tidemark_kit::state::Queue;
use tidemark_kit::{Dataset, World, orders};

#[tokio::test]
async fn a_replay_rebuilds_a_healthy_partition_once() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 50)).await?;
    let before = world.wait_true(&day).await?;
    assert_eq!(before.landed.len(), 1);

    let replay = json!({ "version": 1, "dataset": "orders", "partition": day.name(), "reason": "to be sure" });
    world.send(Queue::Partitions, &replay.to_string()).await?;
    world.wait_landed(&day, 1).await?;
    world.wait_quiet(&day).await?;
    let after = world.wait_true(&day).await?;
    assert_eq!(after.landed.len(), 2);
    assert_eq!(after.target, before.target);

    // Without force nothing changed is nothing done: the mark is answered without touching Redshift.
    let look = json!({ "version": 1, "dataset": "orders", "partition": day.name(), "force": false });
    world.send(Queue::Partitions, &look.to_string()).await?;
    let marked = after.item.number("marked");
    let answered =
        || async { Ok(world.item(&day).await?.filter(|item| item.number("built") > marked && item.rests())) };
    world.wait("the replay to be answered", &day, answered).await?;
    assert_eq!(world.landed(&day).await?.len(), 2);

    world.tidemark_well(&["replay", "orders", &day.name(), "--reason", "by command"]).await?;
    world.wait_landed(&day, 2).await?;
    Ok(())
}

/// Events come twice, and messages of long ago come again: hints, nothing more.
#[tokio::test]
async fn doubled_events_and_stale_messages_change_nothing() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 50)).await?;
    let before = world.wait_true(&day).await?;
    for generation in [1, 1, 7_000] {
        let stale = json!({
            "version": 1, "dataset": "orders", "partition": day.name(), "generation": generation,
        });
        world.send(Queue::Partitions, &stale.to_string()).await?;
    }
    let event = json!({ "Records": [{
        "eventVersion": "2.1", "eventSource": "aws:s3", "eventName": "ObjectCreated:Put",
        "eventTime": "2026-11-01T00:00:00.000Z",
        "s3": {
            "bucket": { "name": world.stack.data_bucket() },
            "object": { "key": day.file("a.parquet").replace('=', "%3D"), "size": 1, "sequencer": "00" },
        },
    }]});
    world.send(Queue::Events, &event.to_string()).await?;
    world.send(Queue::Events, &event.to_string()).await?;
    let marked = before.item.number("marked");
    let answered =
        || async { Ok(world.item(&day).await?.filter(|item| item.number("built") > marked && item.rests())) };
    world.wait("the doubled events to be answered", &day, answered).await?;
    world.wait_quiet(&day).await?;
    let after = world.wait_true(&day).await?;
    assert_eq!((after.landed, after.target), (before.landed, before.target));
    Ok(())
}
