//! What it costs when nothing changed: calls of a quiet minute with five hundred datasets, and what wakes Redshift.

use std::collections::BTreeMap;
use std::time::Duration;

use tidemark_domain::apply::{Hand, store_catalog, store_head, store_version};
use tidemark_domain::dataset::catalog_key;
use tidemark_domain::definition::{Definition, parse};
use tidemark_domain::id::Epoch;
use tidemark_domain::route::Catalog;
use tidemark_engine::memory::{Fault, Plan};
use tidemark_engine::ports::{Clock as _, StateStore as _};

use super::sweep::{day, sweep};
use super::world::{TOML, World, stack};

/// Puts so many more datasets in force, `d000` and on.
pub(super) async fn with_datasets(world: &World, many: usize) -> Vec<Definition> {
    let datasets: Vec<Definition> =
        (0..many).map(|n| parse(&TOML.replace("orders", &format!("d{n:03}"))).unwrap().remove(0)).collect();
    let hand = Hand { by: "test", now: world.clock.now() };
    for datasets in datasets.chunks(50) {
        let of = |definition: &Definition| {
            [store_version(definition, &definition.hash()), store_head(definition, None, Epoch(1), false, hand)]
        };
        let updates: Vec<_> = datasets.iter().flat_map(of).collect();
        world.state.write(&updates, &world.clock.id().to_string()).await.unwrap();
    }
    for definition in &datasets {
        world.warehouse.prepare(&definition.target, &stack(), &definition.name, Epoch(1)).unwrap();
    }
    let read = world.state.item(&catalog_key()).unwrap();
    let all: Vec<&Definition> = [&world.definition].into_iter().chain(&datasets).collect();
    let catalog = serde_json::to_string(&Catalog::of(all)).unwrap();
    world.state.write(&[store_catalog(read["catalog"].as_str(), &catalog)], "apply more").await.unwrap();
    datasets
}

/// Time passes, a sweep each minute.
async fn minutes(world: &World, minutes: u32) {
    for _ in 0..minutes {
        world.clock.advance(Duration::from_mins(1));
        sweep(world).await;
    }
}

/// docs/deploy.md, *What it costs*, sets prices to these calls, in a table.
#[tokio::test]
async fn a_quiet_minute_of_five_hundred_datasets_makes_the_calls_its_price_is_reckoned_from() {
    let page = include_str!("../../../../docs/deploy.md");
    let row = |line: &'static str| {
        let (call, rest) = line.strip_prefix("| sweep: `")?.split_once("` | ")?;
        Some((call, rest.split(' ').next()?.parse::<usize>().ok()?))
    };
    let priced: BTreeMap<&str, usize> = page.lines().filter_map(row).collect();
    let mut world = World::new(TOML).await;
    with_datasets(&world, 499).await;
    for n in 0..50 {
        world.put(&format!("{}/a.csv", day(n)), "1\n").await;
    }
    world.rest("").await;
    // Cursors are made, and the hour is over in which each looks.
    sweep(&world).await;
    world.clock.advance(Duration::from_mins(61));
    for _ in 0..3 {
        sweep(&world).await;
    }
    let plan = Plan::quiet();
    world.plan = plan.clone();
    let mut made: BTreeMap<&str, usize> = BTreeMap::new();
    let found = sweep(&world).await;
    for step in plan.steps() {
        *made.entry(step.call).or_default() += 1;
    }
    assert_eq!((found.len(), found.iter().map(|swept| swept.dirty).sum::<u64>()), (500, 0));
    assert_eq!(made, priced, "made, and told in docs/deploy.md");
}

/// Statements that Redshift was asked, and in which minutes.
fn asked(world: &World) -> usize {
    world.warehouse.submitted().iter().filter(|name| name.matches('/').count() == 1).count()
}

#[tokio::test]
async fn a_warehouse_is_woken_once_a_day_where_nothing_is_committed() {
    let mut world = World::new(TOML).await;
    with_datasets(&world, 4).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    // The night after, and what it asks: five datasets are tidied, staging tables listed, booking asked whatever stories say.
    world.clock.advance(Duration::from_hours(25));
    for _ in 0..3 {
        sweep(&world).await;
    }
    let mut awake = Vec::new();
    for minute in 0..24 * 60 {
        let before = world.warehouse.submitted().len();
        minutes(&world, 1).await;
        let asked = world.warehouse.submitted().len() - before;
        if asked > 0 {
            awake.push((minute, asked));
        }
    }
    assert_eq!(awake.len(), 1, "(minute, statements): {awake:?}");
    assert_eq!(awake[0].1, 5 + 1 + 1, "{:?}", world.warehouse.submitted());
}

#[tokio::test]
async fn an_hour_in_which_something_is_committed_is_booked_and_the_next_one_is_not_asked_for() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    world.clock.advance(Duration::from_hours(25));
    for _ in 0..3 {
        sweep(&world).await;
    }
    assert_eq!(world.warehouse.files().len(), 1);
    for day in 2..5 {
        let before = asked(&world);
        minutes(&world, 180).await;
        let in_vain = asked(&world) - before;
        assert!(in_vain == 0 || in_vain == 3, "no hour, or the one of tidy: {in_vain}");
        world.put(&format!("dt=2026-11-0{day}/a.csv"), "1\n").await;
        world.rest("").await;
        minutes(&world, 61).await;
        assert_eq!(world.warehouse.files().len(), day);
    }
}

/// A second partition is marked, and it is ten seconds before the full hour at which it may be rebuilt.
async fn marked_before_the_full_hour() -> World {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    world.clock.advance(Duration::from_hours(25));
    for _ in 0..3 {
        sweep(&world).await;
    }
    world.put("dt=2026-11-02/a.csv", "1\n").await;
    world.mark().await;
    let next = 3_600 - world.clock.now().as_second() % 3_600;
    world.clock.advance(Duration::from_secs(u64::try_from(next + 3_600 - 10).unwrap()));
    world
}

/// The worker dies between its swap and its confirm, over a full hour: what it committed is booked once that is known.
#[tokio::test]
async fn what_a_worker_committed_that_died_over_the_full_hour_is_booked_all_the_same() {
    let mut world = marked_before_the_full_hour().await;
    let steps = {
        let plan = Plan::quiet();
        world.plan = plan.clone();
        world.rebuild().await.unwrap();
        plan.steps()
    };
    let swap = steps.iter().rposition(|step| step.call == "warehouse.submit").unwrap();
    assert!(swap > 0, "{steps:?}");
    // Another world, in which it dies at that step, after its effect.
    let mut world = marked_before_the_full_hour().await;
    world.plan = Plan::at(steps[swap].number, Fault::DieAfter);
    assert_eq!(world.rebuild().await, Some(None), "it died");
    world.plan = Plan::quiet();
    assert_eq!((world.rows().len(), world.warehouse.files().len()), (2, 1), "committed, and not booked");
    // The full hour comes, and nobody knows yet.
    world.clock.advance(Duration::from_secs(20));
    sweep(&world).await;
    world.rest("found after commit").await;
    minutes(&world, 61).await;
    assert_eq!(world.warehouse.files().len(), 2);
}

/// Seventy datasets are to be tidied, and the warehouse hangs: looks have their turn all the same.
#[tokio::test]
async fn a_warehouse_that_does_not_answer_keeps_no_look_from_its_turn() {
    let mut world = World::new(TOML).await;
    with_datasets(&world, 70).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    sweep(&world).await;
    // To half past two: what is due has its turn.
    let seconds = 86_400 + 2 * 3_600 + 30 * 60 - world.clock.now().as_second() % 86_400;
    world.clock.advance(Duration::from_secs(u64::try_from(seconds).unwrap()));
    for _ in 0..3 {
        sweep(&world).await;
    }
    world.objects.put_unseen("lake", "orders/dt=2026-11-02/a.csv", "2\n");
    for name in ["tidemark/newest", "tidemark/unbooked", "tidemark/staging-tables"] {
        world.warehouse.set_pace(name, tidemark_engine::memory::Pace::ByHand);
    }
    minutes(&world, 70).await;
    assert!(world.items().contains_key("PARTITION#dt=2026-11-02"), "it is {}", world.clock.now());
}
