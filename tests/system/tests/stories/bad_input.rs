//! Messages that can't be read: each ends where somebody finds it, body unchanged, and none harms its neighbours.

use std::cell::RefCell;
use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::json;
use tidemark_kit::state::{Message, Queue};
use tidemark_kit::{Dataset, World, orders};

/// Takes messages out of a queue until there are so many.
async fn gather(world: &World, queue: Queue, count: usize) -> Result<Vec<Message>> {
    let found = RefCell::new(Vec::new());
    let probe = || async {
        let more = world.receive(queue).await?;
        found.borrow_mut().extend(more);
        Ok((found.borrow().len() >= count).then_some(()))
    };
    let day = Dataset::Orders.day("2026-11-01");
    world.wait(&format!("{count} messages in {queue:?}"), &day, probe).await?;
    Ok(found.into_inner())
}

#[tokio::test]
async fn malformed_events_reach_the_dead_letter_queue_and_neighbours_are_marked() -> Result<()> {
    let world = World::new().await?;
    world.come_back_after(Queue::Events, 1).await?;
    let bucket = world.stack.data_bucket();
    let event = |record: serde_json::Value| json!({ "Records": [record] }).to_string();
    let malformed = [
        "not JSON".to_owned(),
        "[]".to_owned(),
        "{}".to_owned(),
        json!({ "Records": "none" }).to_string(),
        event(json!({ "eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": { "bucket": {} } })),
        event(json!({
            "eventSource": "aws:s3", "eventName": "ObjectCreated:Put",
            "s3": { "bucket": { "name": bucket }, "object": { "key": "orders/dt%3D2026-11-01/%ff%fe" } },
        })),
    ];
    for body in &malformed {
        world.send(Queue::Events, body).await?;
    }
    let day = Dataset::Orders.day("2026-11-01");
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 20)).await?;
    world.wait_true(&day).await?;

    let found = gather(&world, Queue::EventsDlq, malformed.len()).await?;
    let bodies: BTreeSet<String> = found.into_iter().map(|message| message.body).collect();
    assert_eq!(bodies, BTreeSet::from(malformed));
    Ok(())
}

#[tokio::test]
async fn unreadable_partition_messages_reach_the_dead_letter_queue_with_the_reason() -> Result<()> {
    let world = World::new().await?;
    let unreadable = [
        ("not JSON", "not a partition message"),
        (r#"{"version":2,"dataset":"orders","partition":"dt=2026-11-01"}"#, "version 2"),
        (r#"{"version":1,"dataset":"nobody","partition":"dt=2026-11-01"}"#, "nobody"),
        (r#"{"version":1,"dataset":"nobody","partition":"dt=2026-11-01","generation":3}"#, "nobody"),
        (r#"{"version":1,"dataset":"orders","partition":"dt=2026-13-01"}"#, "partition"),
        (r#"{"version":1,"dataset":"orders","partition":"dt=2026-11-01","accept":["row_drop"]}"#, "digest"),
    ];
    for (body, _) in unreadable {
        world.send(Queue::Partitions, body).await?;
    }
    let found = gather(&world, Queue::PartitionsDlq, unreadable.len()).await?;
    for (body, reason) in unreadable {
        let told = found.iter().find(|message| message.body == body).and_then(|message| message.reason.clone());
        let told = told.unwrap_or_else(|| panic!("{body} is not among {found:?}"));
        assert!(told.contains(reason), "{body}: {told}");
    }
    assert_eq!(found.len(), unreadable.len());
    let day = Dataset::Orders.day("2026-11-01");
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 20)).await?;
    world.wait_true(&day).await?;
    Ok(())
}

/// What no dataset claims is counted and acknowledged, not failed.
#[tokio::test]
async fn unclaimed_and_hidden_keys_mark_nothing_and_fail_nothing() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    for key in [
        "elsewhere/a.parquet",
        "orders/readme.txt",
        "orders/dt=2026-02-30/a.parquet",
        "orders/dt=__HIVE_DEFAULT_PARTITION__/a.parquet",
        "orders/dt=2026-11-01/_SUCCESS",
        "orders/_temporary/dt=2026-11-01/a.parquet",
    ] {
        world.put(key, b"x".to_vec()).await?;
    }
    world.wait_quiet(&day).await?;
    assert_eq!(world.item(&day).await?, None);
    assert_eq!(world.depth(Queue::EventsDlq).await?, 0);
    Ok(())
}
