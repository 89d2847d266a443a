//! Every call of a story fails before its effect, fails after it, happens twice, or kills its worker: the end is the same.

use std::time::Duration;

use tidemark_engine::memory::{Fault, Pace, Plan};

use super::world::{TOML, World};

/// Files land, are rebuilt; then one is overwritten, one deleted, one added, and the partition is rebuilt again.
async fn story(plan: Plan) -> World {
    let mut world = World::new(TOML).await;
    world.plan = plan;
    world.put("dt=2026-11-01/a.csv", "1\n2\n").await;
    world.put("dt=2026-11-01/b.csv", "3\n").await;
    world.rest("").await;
    world.put("dt=2026-11-01/a.csv", "1\n4\n").await;
    world.delete("dt=2026-11-01/b.csv");
    world.put("dt=2026-11-01/c.csv", "5\n").await;
    world.rest("").await;
    world
}

#[tokio::test]
async fn every_fault_at_every_step_ends_the_same() {
    let quiet = Plan::quiet();
    story(quiet.clone()).await.assert_true("no fault").await;
    let steps = quiet.steps();
    assert!(steps.len() > 40, "the story has {} steps", steps.len());
    for step in &steps {
        for fault in Fault::ALL {
            let context = format!("{fault:?} at step {} of {}, {}", step.number, steps.len(), step.call);
            let world = story(Plan::at(step.number, fault)).await;
            world.assert_true(&context).await;
        }
    }
}

/// A swap that nobody had sent is found before its commit, however fast it goes once it is sent again.
#[tokio::test]
async fn a_worker_that_died_at_its_swap_is_found_before_or_after_the_commit() {
    let land = async |plan: Plan| {
        let mut world = World::new(TOML).await;
        world.warehouse.set_pace("/swap", Pace::After(Duration::from_millis(500)));
        world.plan = plan;
        world.put("dt=2026-11-01/a.csv", "1\n").await;
        world.rest("").await;
        world
    };
    let quiet = Plan::quiet();
    land(quiet.clone()).await;
    let submits: Vec<_> = quiet.steps().into_iter().filter(|step| step.call == "warehouse.submit").collect();
    let swap = submits[1].number; // after the staging
    for (fault, expected) in [(Fault::DieBefore, "before_commit"), (Fault::DieAfter, "after_commit")] {
        let world = land(Plan::at(swap, fault)).await;
        world.assert_true(&format!("{fault:?}")).await;
        let found: Vec<_> =
            world.state.items().into_values().filter_map(|mut item| item.remove("recovered_from")).collect();
        assert_eq!(found, [expected], "{fault:?}");
    }
}
