//! When files came, by the inventories: each counted once, a hundred thousand in seconds, whatever is missing is told.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use serde_json::json;
use tidemark_domain::id::Digest;
use tidemark_domain::inventory::Entry;
use tidemark_domain::lateness::Arrivals;
use tidemark_domain::partition::PartitionItem;
use tidemark_engine::inventory::{put_part, seal};
use tidemark_engine::ports::Clock as _;
use tidemark_engine::read::lateness::by_inventories;

use super::sweep::day;
use super::world::{TOML, World};

async fn arrivals(world: &World) -> Arrivals {
    by_inventories(&world.engine().ports, "control", &world.definition.name, &world.definition).await.unwrap()
}

#[tokio::test]
async fn a_file_that_many_batches_listed_is_counted_once_and_one_that_was_overwritten_for_each_version() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-10-25/a.csv", "1\n").await;
    world.rest("").await;
    for n in 0..3 {
        world.put(&format!("dt=2026-10-25/late-{n}.csv"), &format!("1{n}\n")).await;
        world.rest("").await;
    }
    world.put("dt=2026-10-25/a.csv", "2\n").await;
    world.rest("").await;
    assert_eq!(world.submitted("/swap"), 5);
    let counted = arrivals(&world).await;
    assert_eq!((counted.all().objects(), counted.timeless, counted.unread.len()), (1 + 3 + 1, 0, 0));
    assert_eq!(counted.all().in_time(), 0, "it is the 26th");
}

#[tokio::test]
async fn an_inventory_that_is_gone_is_told_by_name_and_the_others_are_counted() {
    let mut world = World::new(TOML).await;
    for n in 1..=3 {
        world.put(&format!("dt=2026-10-2{n}/a.csv"), "1\n").await;
    }
    world.rest("").await;
    let gone = world.item("dt=2026-10-22").last.unwrap().inventory;
    world.objects.delete("control", &gone);
    // Another batch of the same partition still tells of the first file.
    let older = world.item("dt=2026-10-23").last.unwrap().inventory;
    world.put("dt=2026-10-23/b.csv", "2\n").await;
    world.rest("").await;
    world.objects.delete("control", &older);
    let counted = arrivals(&world).await;
    assert_eq!(counted.all().objects(), 1 + 2);
    assert_eq!(counted.unread.len(), 2, "{:?}", counted.unread);
    assert!(counted.unread.iter().any(|unread| unread.contains(&gone)), "{:?}", counted.unread);
}

/// A hundred partitions of a thousand files, each listed by two batches.
#[tokio::test]
async fn a_hundred_thousand_files_are_counted_within_seconds() {
    let world = World::new(TOML).await;
    let objects = world.engine().ports.objects;
    let shape = Digest::stored("shape");
    for n in 0..100 {
        let id = world.id(&day(n));
        let end = world.definition.partition(&id.partition).unwrap();
        let end = tidemark_domain::lateness::span(&world.definition, &end).unwrap().end;
        let entries: Vec<Entry> = (0..1_000)
            .map(|file| Entry {
                key: format!("orders/{}/part-{file:05}-0193a6b2-7c1d-7f0e-9b1a-c000.snappy.parquet", day(n)),
                etag: format!("{file:032x}"),
                size: 1 << 20,
                modified: end + SignedDuration::from_mins(file - 900),
                rows: None,
            })
            .collect();
        let mut inventories = Vec::new();
        for batch in 0..2_usize {
            let folder = format!("inventory/{n}-{batch}/");
            let part = put_part(objects.as_ref(), "control", &folder, 0, &entries[..500 * (batch + 1)]).await.unwrap();
            inventories.push(seal(objects.as_ref(), "control", &folder, &[part], &shape).await.unwrap());
        }
        let batch = world.clock.id();
        let story = json!({ "partition": day(n), "outcome": "committed", "generation": 1, "fence": 1, "inventory": inventories[0],
            "ended_at": world.clock.now().as_millisecond() });
        let key = tidemark_domain::story::key(&world.definition.name, tidemark_domain::id::BatchId(batch));
        world.state.put(key, serde_json::from_value(story).unwrap());
        let item: BTreeMap<_, _> = serde_json::from_value(json!({ "marked": 1, "built": 1, "marked_at": 0, "fence": 1,
            "last": { "batch": batch, "generation": 1, "fence": 1, "rows": 1, "digest": "d", "inventory": inventories[1],
            "took_seconds": 1, "committed_at": 0 } }))
        .unwrap();
        world.state.put(PartitionItem::key(&id), item);
    }
    let began = Instant::now();
    let counted = arrivals(&world).await;
    let took = began.elapsed();
    println!("{} files of 200 inventories in {} ms", counted.all().objects(), took.as_millis());
    assert_eq!((counted.all().objects(), counted.all().in_time()), (100_000, 90_000));
    assert!(took < Duration::from_mins(1), "{took:?}, not optimised");
}
