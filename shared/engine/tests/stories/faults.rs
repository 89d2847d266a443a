//! Every call of a story fails before its effect, fails after it, happens twice, or kills its worker: the end is the same.

use tidemark_engine::memory::{Fault, Plan};

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
