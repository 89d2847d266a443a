//! Book: which files did these rows come from? The ledger tells within the hour, each file of a batch once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tidemark_domain::cursor::Task;
use tidemark_domain::sql::rows::Field;
use tidemark_engine::memory::{Pace, Plan};
use tidemark_engine::ports::Objects as _;

use super::sweep::{cursor, day, sweep};
use super::world::{TOML, World};

/// Of each batch in `files` its keys; no file twice.
fn booked(world: &World) -> BTreeMap<String, BTreeSet<String>> {
    let mut booked: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (batch, key, etag, size, modified) in world.warehouse.files() {
        assert!(!etag.is_empty() && size > 0 && modified > 0, "{key}");
        assert!(booked.entry(batch.clone()).or_default().insert(key.clone()), "{key} of {batch} is booked twice");
    }
    booked
}

fn committed(world: &World) -> BTreeSet<String> {
    let batch = |row: &BTreeMap<String, Field>| match &row["batch_id"] {
        Field::Text(batch) => batch.clone(),
        other => panic!("{other:?}"),
    };
    world.warehouse.ledger().iter().map(batch).collect()
}

/// Three days, of which one was rebuilt when a file came late: four batches, five files.
async fn lake() -> World {
    let mut world = World::new(TOML).await;
    for n in 1..=3 {
        world.put(&format!("dt=2026-11-0{n}/a.csv"), "1\n").await;
    }
    world.rest("").await;
    world.put("dt=2026-11-01/b c+é.csv", "2\n").await;
    world.rest("").await;
    world
}

async fn hours(world: &World, hours: u32) {
    for _ in 0..hours {
        world.clock.advance(Duration::from_mins(61));
        sweep(world).await;
    }
}

#[tokio::test]
async fn every_committed_batch_is_booked_within_the_hour_many_by_one_copy() {
    let mut world = lake().await;
    sweep(&world).await;
    hours(&world, 1).await;
    assert_eq!(booked(&world).keys().cloned().collect::<BTreeSet<_>>(), committed(&world));
    assert_eq!(world.warehouse.files().len(), 5);
    let last = world.item("dt=2026-11-01").last.unwrap().batch.to_string();
    let keys = ["orders/dt=2026-11-01/a.csv", "orders/dt=2026-11-01/b c+é.csv"].map(str::to_owned);
    assert_eq!(booked(&world)[&last], keys.into());
    assert_eq!(world.submitted("tidemark/book"), 1);
    hours(&world, 3).await;
    assert_eq!(world.submitted("tidemark/book"), 1, "nothing new");
    world.put("dt=2026-11-04/a.csv", "1\n").await;
    world.rest("").await;
    hours(&world, 1).await;
    assert_eq!((world.submitted("tidemark/book"), world.warehouse.files().len()), (2, 6));
}

#[tokio::test]
async fn an_accepted_empty_source_has_no_files_and_is_not_asked_for_for_ever() {
    let mut world =
        World::new(&TOML.replace("row_drop = \"accept\"", "row_drop = \"accept\"\nempty_source = \"delete\"")).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    world.delete("dt=2026-11-01/a.csv");
    world.rest("").await;
    assert_eq!(committed(&world).len(), 2);
    sweep(&world).await;
    hours(&world, 3).await;
    assert_eq!((world.warehouse.files().len(), world.submitted("tidemark/book")), (1, 1));
}

/// A load takes longer than a sweep: the next one looks at its end instead of loading again.
#[tokio::test]
async fn a_load_that_outlives_its_sweep_is_followed_by_the_next() {
    let world = lake().await;
    sweep(&world).await;
    world.warehouse.set_pace("tidemark/book", Pace::After(Duration::from_mins(3)));
    world.clock.advance(Duration::from_mins(61));
    for _ in 0..6 {
        sweep(&world).await;
    }
    assert_eq!((world.submitted("tidemark/book"), world.warehouse.files().len()), (1, 5));
    assert_eq!(cursor(&world, Task::Book).began_at, None, "the round came to its end");
}

/// One batch whose inventory is gone keeps no other from being booked, and is booked once it is back.
#[tokio::test]
async fn an_inventory_that_is_gone_keeps_no_other_from_being_booked() {
    let world = lake().await;
    sweep(&world).await;
    let inventory = world.item("dt=2026-11-02").last.unwrap().inventory;
    let keys: Vec<String> = world
        .objects
        .keys("control")
        .into_iter()
        .filter(|key| key.starts_with(inventory.trim_end_matches("index.json")) || *key == inventory)
        .collect();
    let kept: Vec<(String, Bytes)> =
        keys.into_iter().map(|key| (key.clone(), world.objects.object("control", &key).unwrap().0)).collect();
    assert!(!kept.is_empty());
    for (key, _) in &kept {
        world.objects.delete("control", key);
    }
    hours(&world, 2).await;
    assert_eq!(world.warehouse.files().len(), 4);
    for (key, bytes) in kept {
        world.objects.put("control", &key, bytes).await.unwrap();
    }
    hours(&world, 24).await;
    assert_eq!(world.warehouse.files().len(), 5, "whatever was left out is tried again the next day");
}

/// Redshift refuses one batch's files: the others are booked all the same.
#[tokio::test]
async fn a_batch_that_redshift_refuses_keeps_no_other_from_being_booked() {
    let world = lake().await;
    sweep(&world).await;
    world.warehouse.refuse_file("orders/dt=2026-11-03/a.csv");
    hours(&world, 1).await;
    let booked: BTreeSet<String> = world.warehouse.files().into_iter().map(|(_, key, ..)| key).collect();
    assert_eq!(booked.len(), 3, "{booked:?}");
    assert_eq!(world.warehouse.files().len(), 4);
    assert!(world.submitted("tidemark/book") < 8, "{}", world.submitted("tidemark/book"));
}

#[tokio::test]
async fn hundreds_of_batches_are_booked_in_a_few_loads() {
    let mut world =
        World::new(&TOML.replace("interval = \"0s\"", "interval = \"0s\"\nconcurrency = \"partition\"")).await;
    for n in 0..510 {
        world.put(&format!("{}/a.csv", day(n)), "1\n").await;
    }
    world.rest("").await;
    sweep(&world).await;
    hours(&world, 1).await;
    assert_eq!((world.warehouse.files().len(), world.submitted("tidemark/book")), (510, 2));
}

#[tokio::test]
async fn a_warehouse_that_is_down_is_asked_again_in_ten_minutes() {
    let mut world = lake().await;
    sweep(&world).await;
    world.clock.advance(Duration::from_mins(61));
    world.plan = Plan::down("warehouse.");
    world.sweep().await;
    world.plan = Plan::quiet();
    world.clock.advance(Duration::from_mins(11));
    sweep(&world).await;
    assert_eq!(world.warehouse.files().len(), 5);
}
