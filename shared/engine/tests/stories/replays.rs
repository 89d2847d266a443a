//! Each kind of replay ends the same whatever fails at whichever of its steps: by message, forced or not, with what is accepted,
//! and by an operator's job.

use serde_json::{Value, json};
use tidemark_domain::id::Digest;
use tidemark_domain::job::{Job, Kind, Line};
use tidemark_domain::verify::GuardKind;
use tidemark_engine::jobs;
use tidemark_engine::memory::Plan;
use tidemark_engine::ports::Clock as _;

use super::every_step::{AsyncStep, Costs, DAY, NEXT_DAY, Story, step};
use super::world::{TOML, World};

fn replay(act: AsyncStep) -> Story {
    Story::new(act, &["queue.send", "state.write", "state.read"])
}

fn asked(world: &World, fields: &Value) {
    world.replay(DAY, fields);
}

/// A message without a generation, as somebody writes it by hand: it is a replay, and forced.
#[tokio::test]
async fn a_plain_replay_ends_the_same_whatever_fails_at_whichever_step() {
    let end = replay(step!(|world| { asked(world, &json!({})) })).every_step().await;
    assert_eq!((end.commits, end.copies), (2, 2), "it was rebuilt for real, though nothing had changed");
}

#[tokio::test]
async fn a_forced_replay_ends_the_same_whatever_fails_at_whichever_step() {
    let forced: AsyncStep = step!(|world| { asked(world, &json!({"reason": "a test", "force": true})) });
    let end = replay(forced).every_step().await;
    assert_eq!((end.commits, end.copies), (2, 2), "it was rebuilt for real, though nothing had changed");
}

/// What is unchanged costs no COPY, whatever fails.
#[tokio::test]
async fn a_replay_without_force_ends_the_same_whatever_fails_at_whichever_step() {
    let story = Story { costs: Costs::Same, ..replay(step!(|world| { asked(world, &json!({"force": false})) })) };
    let end = story.every_step().await;
    assert_eq!((end.commits, end.copies), (1, 1), "nothing had changed");
}

/// Two days that parked since they hold fewer rows.
const FEWER_ROWS: AsyncStep = step!(|world| {
    for day in [DAY, NEXT_DAY] {
        world.put(&format!("{day}/a.csv"), "1\n2\n3\n").await;
    }
    world.rest("built").await;
    for day in [DAY, NEXT_DAY] {
        world.put(&format!("{day}/a.csv"), "1\n").await;
    }
});

fn guarded() -> String {
    TOML.replace("row_drop = \"accept\"", "")
}

fn parked_for(world: &World, day: &str) -> Digest {
    world.item(day).parked.unwrap().digest.unwrap()
}

/// What the operator saw is let in, once, and nothing else is.
#[tokio::test]
async fn a_replay_with_accept_ends_the_same_whatever_fails_at_whichever_step() {
    let story = Story {
        toml: guarded(),
        before: FEWER_ROWS,
        ..replay(step!(|world| {
            asked(world, &json!({"accept": ["row_drop"], "digest": parked_for(world, DAY)}));
        }))
    };
    let end = story.every_step().await;
    assert_eq!(end.rows[DAY], ["1"]);
    assert_eq!(end.items[&format!("PARTITION#{DAY}")].parked, None);
    assert!(end.items[&format!("PARTITION#{NEXT_DAY}")].parked.is_some());
}

/// A replay of what can't be loaded parks again, with the same words.
#[tokio::test]
async fn a_replay_that_parks_ends_the_same_whatever_fails_at_whichever_step() {
    let story = Story {
        before: step!(|world| {
            world.put(&format!("{DAY}/a.csv"), "1\n1\n").await;
        }),
        ..replay(step!(|world| { asked(world, &json!({})) }))
    };
    let end = story.every_step().await;
    assert_eq!((end.commits, end.rows.len()), (0, 0));
    let parked = end.items[&format!("PARTITION#{DAY}")].parked.as_ref().map(|(kind, _)| kind.as_str());
    assert_eq!(parked, Some("duplicate_keys"));
}

/// Two days, of which the second gets a file whose event is lost.
const TWO_DAYS: AsyncStep = step!(|world| {
    world.put(&format!("{DAY}/a.csv"), "1\n2\n").await;
    world.put(&format!("{NEXT_DAY}/b.csv"), "3\n").await;
    world.rest("built").await;
    world.objects.put_unseen("lake", &format!("orders/{NEXT_DAY}/c.csv"), "4\n");
});

/// An operator's job of both days; it is advanced, and what it marked rebuilt, under the plan; whatever that left the next sweeps do.
async fn backfill(world: &mut World, job: impl FnOnce(Job) -> Job) {
    let plan = std::mem::take(&mut world.plan);
    let (name, now) = (world.definition.name.clone(), world.clock.now());
    let job = job(Job::new(world.clock.id(), name, Kind::Backfill, 2, "alice", now));
    let digest = |day: &str| world.item(day).parked.and_then(|parked| parked.digest);
    let lines = [DAY, NEXT_DAY].map(|day| Line { digest: digest(day), ..Line::of(world.id(day).partition) });
    jobs::make(&world.engine().ports, "control", &job, &lines).await.unwrap();
    world.plan = plan;
    world.sweep().await;
    world.rest("what it marked").await;
    world.plan = Plan::quiet();
    world.rounds(12).await;
    let jobs = jobs::all(&world.engine().ports).await.unwrap();
    assert!(jobs.iter().all(|job| job.done == 2 && !job.is_open()), "{jobs:?}");
}

fn job(act: AsyncStep) -> Story {
    let calls = &["state.items", "objects.get", "state.write", "queue.send", "warehouse.submit"];
    Story { before: TWO_DAYS, ..Story::new(act, calls) }
}

/// Sweep advances it, and both days are rebuilt for real, though nothing happened to one of them.
#[tokio::test]
async fn a_forced_backfill_ends_the_same_whatever_fails_at_whichever_step() {
    let story = job(step!(|world| { backfill(world, |job| Job { force: true, ..job }).await }));
    let end = story.every_step().await;
    assert_eq!((end.rows.len(), end.commits), (2, 4), "each was rebuilt once more");
    assert_eq!(end.rows[NEXT_DAY], ["3", "4"]);
}

/// Without force the one that changed is rebuilt.
#[tokio::test]
async fn a_backfill_ends_the_same_whatever_fails_at_whichever_step() {
    let end = job(step!(|world| { backfill(world, |job| job).await })).every_step().await;
    assert_eq!((end.rows.len(), end.commits), (2, 3), "only one had changed");
    assert_eq!(end.rows[NEXT_DAY], ["3", "4"]);
}

/// What the operator saw of each is let in.
#[tokio::test]
async fn a_backfill_with_accept_ends_the_same_whatever_fails_at_whichever_step() {
    let act: AsyncStep = step!(|world| {
        backfill(world, |job| Job { force: true, accept: [GuardKind::RowDrop].into(), ..job }).await;
    });
    let story = Story { toml: guarded(), before: FEWER_ROWS, ..job(act) };
    let end = story.every_step().await;
    for day in [DAY, NEXT_DAY] {
        assert_eq!(end.rows[day], ["1"]);
        assert_eq!(end.items[&format!("PARTITION#{day}")].parked, None);
    }
}

/// It is replayed while a mark waits: one batch may cover both, or each has one.
#[tokio::test]
async fn a_replay_of_what_is_marked_ends_the_same_whatever_fails_at_whichever_step() {
    let story = Story {
        costs: Costs::Any,
        ..replay(step!(|world| {
            world.put(&format!("{DAY}/b.csv"), "3\n").await;
            world.mark().await;
            asked(world, &json!({}));
        }))
    };
    let end = story.every_step().await;
    assert_eq!(end.rows[DAY], ["1", "2", "3"]);
}
