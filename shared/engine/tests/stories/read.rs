//! Read-only questions: gauges and stories tell what is so, and read no more than they say.

use std::time::Duration;

use jiff::SignedDuration;
use tidemark_domain::cursor::Task;
use tidemark_domain::dataset::catalog_key;
use tidemark_domain::id::PartitionName;
use tidemark_domain::route::Catalog;
use tidemark_domain::story::Outcome;
use tidemark_engine::memory::Plan;
use tidemark_engine::ports::Clock as _;
use tidemark_engine::read::gauges::{Comes, Count, Sweep};
use tidemark_engine::read::stories::{Wanted, newest};
use tidemark_engine::read::{datasets, gauges};

use super::sweep::sweep;
use super::world::{TOML, World};

const HELD: &str = "[orders.tolerance]\nrow_drop = \"refuse\"\nempty_source = \"refuse\"\npatience = \"1h\"\n";

#[tokio::test]
async fn gauges_tell_what_waits_what_is_put_off_and_what_is_parked() {
    let mut world = World::new(&TOML.replace("[orders.tolerance]\nrow_drop = \"accept\"\n", HELD)).await;
    let ports = world.engine().ports;
    let orders = world.definition.name.clone();
    assert_eq!(datasets::all(&ports).await.unwrap().len(), 1);
    let nothing = gauges::of(&ports, &orders).await.unwrap();
    assert_eq!((nothing.dirty.found, nothing.oldest.as_ref(), nothing.watermark(&world.definition)), (0, None, None));

    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.put("dt=2026-11-02/a.csv", "2\n").await;
    world.put("dt=2026-11-03/a.csv", "x#bad\n").await;
    world.rest("").await;
    let bad = gauges::of(&ports, &orders).await.unwrap();
    assert_eq!((bad.dirty.found, bad.parked), (0, Count { found: 1, more: false }));
    assert_eq!(bad.parked_first, [(PartitionName::new("dt=2026-11-03").unwrap(), "rejected_data".to_owned())]);

    // All of one day's files go: the guard holds it. Another day is marked, and nobody has taken it yet.
    world.delete("dt=2026-11-02/a.csv");
    world.rounds(4).await;
    world.put("dt=2026-11-01/b.csv", "3\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(5));
    let told = gauges::of(&ports, &orders).await.unwrap();
    assert_eq!((told.dirty.found, told.building.found, told.parked.found), (2, 0, 1));
    assert_eq!(told.held.get("empty_source"), Some(&1), "{told:?}");
    let (oldest, since) = told.oldest.clone().unwrap();
    assert_eq!(oldest.as_str(), "dt=2026-11-02");
    assert!(world.clock.now().duration_since(since) > SignedDuration::from_mins(1));
    assert_eq!(told.watermark(&world.definition).unwrap().name.as_str(), "dt=2026-11-01");
}

#[tokio::test]
async fn whether_sweep_comes_and_its_tasks_end_is_told_by_the_cursors_of_datasets_in_use() {
    let mut world = World::new(TOML).await;
    let told = async |world: &World| gauges::sweep(&world.engine().ports).await.unwrap();
    assert_eq!(told(&world).await, Sweep { comes: Comes::Never, failing: vec![] });
    world.plan = Plan::down("objects.list");
    for _ in 0..8 * 60 {
        sweep(&world).await;
        world.clock.advance(Duration::from_mins(1));
    }
    world.plan = Plan::quiet();
    let failing = told(&world).await.failing;
    assert_eq!((failing[0].0, failing[0].1.as_ref()), (Task::Look, Some(&world.definition.name)), "{failing:?}");
    assert_eq!(failing.len(), 1);
    // Its dataset goes, with cursors that nobody moves any more.
    world.set_head(&[("mode", "retired".into())]);
    let gone = Catalog::default().after(&Catalog::of([&world.definition]));
    let text = serde_json::to_string(&gone).unwrap();
    world.state.put(catalog_key(), [("catalog".to_owned(), text.into())].into());
    for _ in 0..3 {
        world.clock.advance(Duration::from_hours(25));
        sweep(&world).await;
    }
    assert_eq!(told(&world).await, Sweep { comes: Comes::InTime, failing: vec![] });
    world.clock.advance(Duration::from_hours(25));
    assert!(matches!(told(&world).await.comes, Comes::WaitsSince(_)), "the stack's own tasks");
}

#[tokio::test]
async fn stories_are_found_newest_first_as_far_back_as_asked() {
    let mut world = World::new(TOML).await;
    let began = world.clock.now();
    // A batch a day for two weeks, in turns of two partitions; then a bad file.
    for n in 0..14 {
        world.put(&format!("dt=2026-11-0{}/{n}.csv", 1 + n % 2), &format!("{n}\n")).await;
        world.rest("").await;
        world.clock.advance(Duration::from_hours(24));
    }
    world.put("dt=2026-11-01/bad.csv", "x#bad\n").await;
    world.rest("").await;
    let ports = world.engine().ports;
    let orders = world.definition.name.clone();
    let of = |partition, since, limit| Wanted { partition, since, limit, read_at_most: 1_000 };

    let all = newest(&ports, &orders, of(None, began, 100)).await.unwrap();
    assert_eq!(all.stories.len(), 15);
    assert!(all.stories.windows(2).all(|pair| pair[0].0.0 > pair[1].0.0), "newest first");
    assert_eq!(all.since, began);
    let (_, parked) = &all.stories[0];
    assert_eq!((parked.outcome, parked.objects), (Outcome::Parked, Some(8)));
    assert!(parked.why.as_ref().unwrap().contains("rejected_data"), "{parked:?}");

    let day = PartitionName::new("dt=2026-11-02").unwrap();
    let three = newest(&ports, &orders, of(Some(&day), began, 3)).await.unwrap();
    assert_eq!(three.stories.len(), 3);
    assert!(three.since > began, "it didn't look further back than it had to");
    let (_, committed) = &three.stories[0];
    assert_eq!((committed.outcome, committed.rows, &committed.partition), (Outcome::Committed, Some(7), &day));
    let times = [committed.began_at, committed.listed_at, committed.staged_at, committed.swap_at];
    let times: Vec<_> = times.into_iter().map(|at| at.expect("each phase has its time")).collect();
    assert!(times.is_sorted() && times.last().unwrap() <= &committed.ended_at, "{committed:?}");
    let count = |name: &str| committed.counts.get(name).copied();
    assert_eq!((count("staged_rows"), count("rows_before"), count("missing_objects")), (Some(7), Some(6), Some(0)));

    let week = newest(&ports, &orders, of(None, world.clock.now() - SignedDuration::from_hours(7 * 24), 100)).await;
    assert_eq!(week.unwrap().stories.len(), 7);
    let few = newest(&ports, &orders, Wanted { read_at_most: 1, ..of(Some(&day), began, 100) }).await.unwrap();
    assert!(few.stories.is_empty() && few.since > began, "it tells how far back it came: {few:?}");
}
