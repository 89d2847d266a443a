//! The lock's scope is changed, table to partition and back, while work is in flight.
//!
//! Whoever works under the old scope holds a lock that nobody asks for any more. So other partitions wait for nobody, and its
//! own may be taken from a worker that is alive: the fence covers that.

use std::time::Duration;

use serde_json::json;
use tidemark_domain::id::Epoch;
use tidemark_domain::sql::rows::Field;
use tidemark_engine::memory::{End, Pace};
use tidemark_engine::rebuild::Answer;

use super::overtaken::Stepwise;
use super::world::{TOML, World};

const DAY: &str = "dt=2026-11-01";
const OTHER: &str = "dt=2026-11-02";
/// From which scope to which.
const CHANGES: [(&str, &str); 2] = [("table", "partition"), ("partition", "table")];

fn under(scope: &str) -> String {
    TOML.replace("\nkey =", &format!("\nconcurrency = \"{scope}\"\nkey ="))
}

/// A day has landed and is marked, and its message can be received.
async fn marked(scope: &str) -> World {
    let mut world = World::new(&under(scope)).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(31));
    world
}

/// The new scope is in force, and a message for the day is there, in a group where it waits for no other.
async fn change(world: &mut World, scope: &str) {
    world.put_in_force(&under(scope), Epoch(1)).await;
    let look = json!({"version": 1, "dataset": "orders", "partition": DAY, "generation": 1});
    world.queue.put(&look.to_string(), "by hand");
    world.clock.advance(Duration::from_secs(31));
}

fn landed(world: &World, partition: &str) -> Vec<String> {
    let rows = world.warehouse.ledger().into_iter();
    let text = |field: &Field| if let Field::Text(text) = field { text.clone() } else { String::new() };
    rows.filter(|row| text(&row["partition_name"]) == partition).map(|row| text(&row["batch_id"])).collect()
}

#[tokio::test]
async fn what_runs_in_redshift_under_the_old_scope_keeps_no_other_partition_waiting_and_lands_once() {
    for (old, new) in CHANGES {
        for suffix in ["/stage", "/swap"] {
            let context = format!("{old} to {new}, {suffix}");
            let mut world = marked(old).await;
            world.warehouse.set_pace(suffix, Pace::ByHand);
            assert_eq!(world.rebuild().await, Some(Some(Answer::Back)), "{context}: handed off");
            let [running] = &world.warehouse.running()[..] else { panic!("{context}: it doesn't run") };
            let first = world.item(DAY).batch.unwrap();

            change(&mut world, new).await;
            world.warehouse.set_pace(suffix, Pace::AtOnce);
            world.warehouse.set_pace(&running.name, Pace::ByHand);
            world.put("dt=2026-11-02/a.csv", "2\n").await;
            world.mark().await;
            // All groups by turns: the other day's, and the day's own in the old scope's group and in the new one's.
            for _ in 0..3 {
                world.clock.advance(Duration::from_secs(31));
                let hand: Vec<_> = std::iter::from_fn(|| world.queue.deliver()).collect();
                for delivery in hand.iter().rev() {
                    world.rebuild_with(delivery).await;
                }
            }
            assert_eq!(landed(&world, OTHER).len(), 1, "{context}: it waits for nobody");

            // What was staged is begun anew, as another definition's; a swap that is out is waited for.
            let before = landed(&world, DAY);
            assert_eq!(before.len(), usize::from(suffix == "/stage"), "{context}: {before:?}");
            world.warehouse.end(&running.id, &End::Run);
            world.rest(&context).await;
            world.assert_true(&context).await;
            let [batch] = &landed(&world, DAY)[..] else { panic!("{context}: it landed twice") };
            assert_eq!(*batch == first.id.to_string(), suffix == "/swap", "{context}");
            assert_eq!(world.submitted("/fence"), 0, "{context}: the end of all that was out is known");
            assert_eq!(world.announcer.alerts(), [], "{context}");
        }
    }
}

#[tokio::test]
async fn a_worker_that_is_alive_loses_its_partition_at_every_step_and_spoils_nothing() {
    for (old, new) in CHANGES {
        let steps = {
            let mut world = marked(old).await;
            let mut alone = Stepwise::begin(&mut world);
            alone.until_it_ends(&world);
            alone.calls()()
        };
        assert!(steps > 10, "{steps}");
        let mut overtaken = 0;
        for step in 1..steps {
            let context = format!("{old} to {new}, stalled after {step} of {steps} calls");
            let mut world = marked(old).await;
            let mut first = Stepwise::begin(&mut world);
            let made = first.calls();
            first.until(&world, |_, _| made() == step);
            change(&mut world, new).await;
            world.put("dt=2026-11-01/b.csv", "3\n").await;
            world.put("dt=2026-11-02/a.csv", "2\n").await;
            // Its lease isn't over: under its own scope nobody could take the partition.
            world.mark().await;
            let fence = world.item(DAY).fence;
            while world.rebuild().await.is_some() {}
            overtaken += usize::from(world.item(DAY).fence > fence);
            first.until_it_ends(&world);
            world.rest(&context).await;
            world.assert_true(&context).await;
            assert!(world.announcer.alerts().is_empty(), "{context}: {:?}", world.announcer.alerts());
        }
        assert!(overtaken * 2 > steps, "{old} to {new}: taken from a live worker {overtaken} times of {steps}");
    }
}

#[tokio::test]
async fn the_scope_goes_there_and_back_while_partitions_are_built() {
    for (old, new) in CHANGES {
        let mut world = marked(old).await;
        world.warehouse.set_pace("", Pace::After(Duration::from_secs(70)));
        for round in 0..12 {
            world.put_in_force(&under([new, old][round % 2]), Epoch(1)).await;
            let name = format!("dt=2026-11-0{}/{round}.csv", 1 + round % 4);
            world.put(&name, &format!("{}\n", 10 + round)).await;
            world.rounds(3).await;
        }
        let context = format!("{old} and {new} by turns");
        world.rest(&context).await;
        world.assert_true(&context).await;
    }
}
