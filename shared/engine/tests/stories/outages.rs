//! A service that is down for hours: nothing is lost, nothing parks, and everything heals once it is back.

use std::time::Duration;

use tidemark_engine::memory::{End, Plan};
use tidemark_engine::rebuild::Answer;

use super::world::{TOML, World};

const SERVICES: [&str; 11] = [
    "state.",
    "state.query",
    "objects.",
    "objects.get",
    "queue.",
    "queue.send",
    "queue.give_back",
    "announcer.",
    "announcer.alert",
    "warehouse.",
    "warehouse.describe",
];

/// The stages of a rebuild at which the service goes down.
#[derive(Debug, Clone, Copy)]
enum When {
    BeforeTheMark,
    BeforeTheRebuild,
    WhileStaging,
    WhileSwapping,
}

#[tokio::test]
async fn whichever_service_is_down_for_hours_everything_heals_once_it_is_back() {
    for service in SERVICES {
        for when in [When::BeforeTheMark, When::BeforeTheRebuild, When::WhileStaging, When::WhileSwapping] {
            let context = format!("{service} is down from {when:?} on");
            let mut world = World::new(TOML).await;
            world.put("dt=2026-11-01/before.csv", "0\n").await;
            world.rest(&context).await;
            world.put("dt=2026-11-01/a.csv", "1\n").await;
            world.put("dt=2026-11-02/a.csv", "2\n").await;
            if !matches!(when, When::BeforeTheMark) {
                world.mark().await;
            }
            let pace = tidemark_engine::memory::Pace::After(Duration::from_mins(3));
            match when {
                When::WhileStaging => world.warehouse.set_pace("/stage", pace),
                When::WhileSwapping => world.warehouse.set_pace("/swap", pace),
                _ => {}
            }
            if matches!(when, When::WhileStaging | When::WhileSwapping) {
                world.clock.advance(Duration::from_secs(31));
                assert_eq!(world.rebuild().await, Some(Some(Answer::Back)), "{context}");
            }
            world.plan = Plan::down(service);
            world.rounds(360).await;
            world.plan = Plan::quiet();
            world.rest(&context).await;
            world.assert_true(&context).await;
            assert_eq!(world.queue.dead_letters(), [], "{context}");
            assert!(world.announcer.alerts().len() <= 2, "{context}: {:?}", world.announcer.alerts());
        }
    }
}

#[tokio::test]
async fn a_bad_file_while_nobody_can_be_told_is_told_afterwards() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1#bad\n").await;
    world.plan = Plan::down("announcer.");
    world.rounds(240).await;
    assert_eq!(world.item("dt=2026-11-01").parked, None, "nobody would know");
    world.plan = Plan::quiet();
    world.rest("").await;
    let parked = world.item("dt=2026-11-01").parked.unwrap();
    assert_eq!(parked.kind, "rejected_data", "{}", parked.message);
    let subjects: Vec<_> = world.announcer.alerts().into_iter().map(|alert| alert.subject).collect();
    assert!(subjects.contains(&"rejected_data: orders dt=2026-11-01 is parked".to_owned()), "{subjects:?}");
}

#[tokio::test]
async fn a_misconfiguration_while_nobody_can_be_told_is_told_afterwards() {
    let mut world = World::new(TOML).await;
    for _ in 0..100 {
        world.warehouse.end_next("/stage", End::Fail("ERROR: permission denied for schema sales".to_owned()));
    }
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.plan = Plan::down("announcer.");
    world.rounds(60).await;
    world.plan = Plan::quiet();
    world.rounds(60).await;
    let alerts = world.announcer.alerts();
    assert_eq!(alerts.iter().filter(|alert| alert.subject.contains("halted")).count(), 1, "{alerts:?}");
    world.warehouse.forget_ends();
    world.rest("").await;
    world.assert_true("mended").await;
}

#[tokio::test]
async fn an_outage_that_lasts_is_told_once() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.plan = Plan::down("warehouse.");
    world.rounds(600).await;
    let alerts = world.announcer.alerts();
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    assert!(alerts[0].subject.starts_with("unavailable: "), "{alerts:?}");
    let item = world.item("dt=2026-11-01");
    assert!(item.parked.is_none() && item.fence.0 < 40, "tried ever more rarely: {item:?}");
    world.plan = Plan::quiet();
    world.rest("").await;
    world.assert_true("back").await;
}
