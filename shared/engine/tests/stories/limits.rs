//! What things may cost: calls of a rebuild, writes of a burst, messages of a sweep; and that gauges and watermark are exact.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tidemark_domain::apply::{Hand, store_catalog, store_head, store_version};
use tidemark_domain::definition::{Definition, parse};
use tidemark_domain::id::{Epoch, PartitionId, PartitionName};
use tidemark_domain::route::Catalog;
use tidemark_domain::writes;
use tidemark_engine::mark::{CatalogCache, EventMessage, Marked};
use tidemark_engine::memory::{Plan, Step};
use tidemark_engine::ports::{Clock as _, StateStore as _};
use tidemark_engine::sweep::Swept;

use super::world::{TOML, World};

const DAY: &str = "dt=2026-11-01";

fn calls(steps: &[Step], port: &str) -> usize {
    steps.iter().filter(|step| step.call.starts_with(port)).count()
}

#[tokio::test]
async fn a_plain_rebuild_costs_six_calls_of_dynamodb_and_six_of_the_data_api_at_most() {
    for (context, before) in [("a new partition", ""), ("a late file", "0\n")] {
        let mut world = World::new(TOML).await;
        if !before.is_empty() {
            world.put(&format!("{DAY}/0.csv"), before).await;
            world.rest("").await;
        }
        world.put(&format!("{DAY}/a.csv"), "1\n").await;
        world.mark().await;
        world.clock.advance(Duration::from_secs(31));
        let plan = Plan::quiet();
        world.plan = plan.clone();
        world.rebuild().await.unwrap();
        world.plan = Plan::quiet();
        world.assert_true(context).await;
        let steps = plan.steps();
        // A fresh process reads the definition as well.
        assert!(calls(&steps, "state.") <= 6, "{context}: {steps:?}");
        assert!(calls(&steps, "warehouse.") <= 6, "{context}: {steps:?}");
    }
}

/// docs/deploy.md, *What it costs*, sets prices to these calls, in a table: whoever makes more of them changes the page.
#[tokio::test]
async fn a_rebuild_makes_at_most_the_calls_its_price_is_reckoned_from() {
    let page = include_str!("../../../../docs/deploy.md");
    let row = |line: &'static str| {
        let (call, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((call, rest.split(' ').next()?.parse::<usize>().ok()?))
    };
    let priced: BTreeMap<&str, usize> = page.lines().filter_map(row).collect();
    assert!(priced.len() > 5, "the table was not found: {priced:?}");

    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/0.csv"), "0\n").await;
    world.rest("").await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(31));
    let plan = Plan::quiet();
    world.plan = plan.clone();
    world.rebuild().await.unwrap();
    let mut made: BTreeMap<&str, usize> = BTreeMap::new();
    for step in plan.steps() {
        *made.entry(step.call).or_default() += 1;
    }
    let dearer: Vec<_> =
        made.iter().filter(|(call, count)| priced.get(*call).is_none_or(|most| *count > most)).collect();
    assert!(dearer.is_empty(), "more calls than docs/deploy.md tells: {dearer:?}; it tells {priced:?}");
}

#[tokio::test]
async fn an_unchanged_partition_costs_dynamodb_four_calls_and_redshift_none() {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.rest("").await;
    world.events.push_back(event(0));
    world.mark().await;
    world.clock.advance(Duration::from_secs(31));
    let plan = Plan::quiet();
    world.plan = plan.clone();
    world.rebuild().await.unwrap();
    let steps = plan.steps();
    assert!(calls(&steps, "state.") <= 4 && calls(&steps, "warehouse.") == 0, "{steps:?}");
    assert_eq!(world.item(DAY).built.0, 2);
}

/// The event of an object in one of the first three days of the month.
fn event(n: usize) -> String {
    let key = format!("orders/dt%3D2026-11-0{}/{n}.csv", n % 3 + 1);
    let s3 = json!({"bucket": {"name": "lake"}, "object": {"key": key, "size": 1}});
    let (source, name) = ("aws:s3", "ObjectCreated:Put");
    json!({"Records": [{"eventVersion": "2.1", "eventSource": source, "eventName": name, "s3": s3}]}).to_string()
}

/// Marks for these events, each a message of its own.
async fn marked(world: &World, bodies: &[String]) -> Marked {
    let ids: Vec<String> = (0..bodies.len()).map(|n| n.to_string()).collect();
    let messages: Vec<_> = ids.iter().zip(bodies).map(|(id, body)| EventMessage { id, body }).collect();
    world.engine().mark(&CatalogCache::default(), &messages).await.unwrap()
}

#[tokio::test]
async fn a_thousand_events_of_three_partitions_cost_three_writes_and_one_send() {
    let mut world = World::new(TOML).await;
    let plan = Plan::quiet();
    world.plan = plan.clone();
    let report = marked(&world, &(0..1_000).map(event).collect::<Vec<_>>()).await;
    let steps = plan.steps();
    assert_eq!((calls(&steps, "state.write"), calls(&steps, "state.read"), calls(&steps, "queue.send")), (3, 1, 1));
    assert_eq!((report.sent, report.marked["orders"], report.failed.len()), (3, 3, 0));
    assert_eq!(world.item(DAY).marked.0, 1, "334 events raise the generation by one");
    let again = marked(&world, &(0..10).map(event).collect::<Vec<_>>()).await;
    assert_eq!((again.sent, world.queue.len()), (0, 3), "partitions that are dirty already have their message");
}

/// A dataset of the same shape under another name.
fn dataset(name: &str, concurrency: &str) -> Definition {
    let toml = TOML.replace("orders", name);
    let toml = toml.replace("interval = \"0s\"", &format!("interval = \"0s\"\nconcurrency = \"{concurrency}\""));
    parse(&toml).unwrap().remove(0)
}

/// A world with these datasets beside `orders`, in force.
async fn with(datasets: &[Definition]) -> World {
    let world = World::new(TOML).await;
    let hand = Hand { by: "test", now: world.clock.now() };
    let read = world.state.item(&tidemark_domain::dataset::catalog_key()).unwrap();
    let all: Vec<&Definition> = [&world.definition].into_iter().chain(datasets).collect();
    let catalog = serde_json::to_string(&Catalog::of(all)).unwrap();
    let mut updates = vec![store_catalog(read["catalog"].as_str(), &catalog)];
    for definition in datasets {
        updates.push(store_version(definition, &definition.hash()));
        updates.push(store_head(definition, None, Epoch(1), false, hand));
    }
    world.state.write(&updates, "apply more").await.unwrap();
    world
}

/// Marks days of a dataset, in the order given; nothing is sent for them.
async fn mark_days(world: &World, dataset: &Definition, days: impl Iterator<Item = usize>) {
    for n in days {
        let day = jiff::civil::date(2020, 1, 1).checked_add(jiff::Span::new().days(i64::try_from(n).unwrap())).unwrap();
        let partition = PartitionName::new(format!("dt={day}")).unwrap();
        let id = PartitionId { dataset: dataset.name.clone(), partition };
        world.state.write(&[writes::mark(&id, 0, world.clock.now())], "mark").await.unwrap();
        world.clock.advance(Duration::from_millis(1));
    }
}

async fn sweep(world: &World) -> Vec<Swept> {
    world.engine().sweep(world.clock.now() + jiff::SignedDuration::from_secs(60)).await.unwrap()
}

fn woken(swept: &[Swept], dataset: &str) -> u64 {
    swept.iter().find(|swept| swept.dataset.as_str() == dataset).unwrap().woken
}

#[tokio::test]
async fn sweep_wakes_ten_of_a_table_and_a_hundred_of_partitions_oldest_first_and_always_one() {
    let days = dataset("days", "partition");
    let world = with(std::slice::from_ref(&days)).await;
    mark_days(&world, &world.definition, (0..30).rev()).await;
    mark_days(&world, &days, 0..250).await;
    assert_eq!(woken(&sweep(&world).await, "orders"), 0, "not due yet");
    world.clock.advance(Duration::from_mins(6));
    let swept = sweep(&world).await;
    assert_eq!((woken(&swept, "orders"), woken(&swept, "days")), (10, 100));
    assert_eq!((swept[0].dirty, swept[1].dirty), (250, 30), "gauges count all: days, orders");
    assert_eq!(swept[1].oldest_dirty_seconds, 6 * 60, "since the first mark");
    let delivered = |world: &World| {
        world.clock.advance(Duration::from_secs(31));
        let mut partitions = Vec::new();
        while let Some(delivery) = world.queue.deliver() {
            let body: serde_json::Value = serde_json::from_str(&delivery.body).unwrap();
            partitions.extend((body["dataset"] == "orders").then(|| body["partition"].as_str().unwrap().to_owned()));
            world.queue.delete(&delivery.receipt);
        }
        partitions
    };
    let first = delivered(&world);
    assert_eq!((first.len(), first[0].as_str()), (10, "dt=2020-01-30"), "the longest due first");
    let again = sweep(&world).await;
    assert_eq!((woken(&again, "orders"), woken(&again, "days")), (1, 1), "ten are outstanding; always one more");
    world.clock.advance(Duration::from_mins(6));
    assert_eq!(woken(&sweep(&world).await, "orders"), 10, "those outstanding that came to nothing are due again");
}

#[tokio::test]
async fn one_bad_dataset_never_stops_the_others() {
    let (bad, good) = (dataset("bad", "table"), dataset("good", "table"));
    let world = with(&[bad.clone(), good.clone()]).await;
    for definition in [&bad, &good, &world.definition] {
        mark_days(&world, definition, 0..1).await;
    }
    world.clock.advance(Duration::from_mins(6));
    for spoil in [None, Some(json!({"hash": 7}))] {
        let key = tidemark_domain::dataset::Head::key(&bad.name);
        let item = spoil.map_or_else(Default::default, |item| serde_json::from_value(item).unwrap());
        world.state.put(key, item);
        let swept = sweep(&world).await;
        let names: Vec<&str> = swept.iter().map(|swept| swept.dataset.as_str()).collect();
        assert_eq!(names, ["good", "orders"]);
        assert_eq!((woken(&swept, "good"), woken(&swept, "orders")), (1, 1));
        world.clock.advance(Duration::from_mins(6));
    }
}

#[tokio::test]
async fn the_watermark_is_the_first_partition_that_is_not_built_however_many_there_are() {
    let world = World::new(TOML).await;
    sweep(&world).await;
    assert_eq!(world.head().watermark, None, "all are built");
    // The first by its value is marked last, so it is due last.
    let definition = world.definition.clone();
    mark_days(&world, &definition, (0..2_500).rev()).await;
    sweep(&world).await;
    assert_eq!(world.head().watermark.as_deref(), Some("dt=2020-01-01"));
}

#[tokio::test]
async fn a_parked_partition_holds_the_watermark() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-03/a.csv", "1\n").await;
    world.put("dt=2026-11-01/a.csv", "x#bad\n").await;
    world.put("dt=2026-11-02/a.csv", "1\n").await;
    world.rest("").await;
    sweep(&world).await;
    assert_eq!(world.head().watermark.as_deref(), Some(DAY));
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    sweep(&world).await;
    assert_eq!(world.head().watermark, None);
}
