//! Every call of mark and of a rebuild fails before its effect, fails after it, happens twice, or kills its worker: the end is
//! the same.

use std::time::Duration;

use tidemark_domain::partition::PartitionItem;
use tidemark_engine::memory::{Fault, Pace, Plan};
use tidemark_engine::rebuild::Answer;

use super::every_step::{DAY, NEXT_DAY, Story, step};
use super::overtaken::marked;
use super::world::{TOML, World};

#[tokio::test]
async fn mark_ends_the_same_whatever_fails_at_whichever_step() {
    let story = Story::new(
        step!(|world| {
            world.put(&format!("{DAY}/b.csv"), "3\n").await;
            world.put(&format!("{NEXT_DAY}/c.csv"), "4\n").await;
            world.delete(&format!("{DAY}/a.csv"));
            world.mark().await;
        }),
        &["state.write", "queue.send"],
    );
    let end = story.every_step().await;
    assert_eq!(end.rows[DAY], ["3"]);
    assert_eq!(end.rows[NEXT_DAY], ["4"]);
}

/// The state table is restored from a backup that is older than a commit; the next mark's rebuild finds out (RESTORED), fences,
/// looks and rebuilds for real.
#[tokio::test]
async fn a_restored_state_table_ends_the_same_whatever_fails_at_whichever_step() {
    let story = Story::new(
        step!(|world| {
            let plan = std::mem::take(&mut world.plan);
            let key = PartitionItem::key(&world.id(DAY));
            let backup = world.state.item(&key).unwrap();
            world.put(&format!("{DAY}/b.csv"), "3\n").await;
            world.rest("after the backup").await;
            world.state.put(key, backup);
            world.put(&format!("{DAY}/c.csv"), "4\n").await;
            world.plan = plan;
            world.mark().await;
        }),
        &["state.write", "warehouse.submit", "announcer.alert", "queue.send"],
    );
    let end = story.every_step().await;
    assert_eq!(end.rows[DAY], ["1", "2", "3", "4"]);
}

/// A client sends a RECORD twice, and the second copy is refused, since the first was applied: the same invocation goes on, and
/// takes its own write for what it is. Where the answer is lost it leaves in order, without waiting for its lease, and the batch
/// goes on with one COPY.
#[tokio::test]
async fn a_record_sent_twice_or_whose_answer_is_lost_is_known_as_its_own() {
    let quiet = Plan::quiet();
    let mut world = marked().await;
    world.plan = quiet.clone();
    world.rebuild().await;
    let writes: Vec<usize> =
        quiet.steps().iter().filter(|step| step.call == "state.write").map(|step| step.number).collect();
    let [_take, stage, swap, _confirm] = writes[..] else { panic!("a take, two RECORDs, a confirm: {writes:?}") };
    for record in [stage, swap] {
        let mut world = marked().await;
        world.plan = Plan::at(record, Fault::Repeat);
        assert_eq!(world.rebuild().await, Some(Some(Answer::Done("rebuilt"))), "the same invocation goes on");
        assert_eq!(world.item(DAY).fence.0, 1, "nobody else had to take it");
        world.assert_true("sent twice").await;

        let mut world = marked().await;
        world.plan = Plan::at(record, Fault::FailAfter);
        assert_eq!(world.rebuild().await, Some(Some(Answer::Done("held"))), "it leaves in order");
        let batch = world.item(DAY).batch.unwrap();
        assert!(batch.left && batch.statement.is_none(), "what isn't known to be recorded wasn't sent: {batch:?}");
        world.plan = Plan::quiet();
        world.rest("").await;
        world.assert_true("its answer was lost").await;
        assert_eq!((world.submitted("/stage"), world.warehouse.ledger().len()), (1, 1));
    }
}

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
