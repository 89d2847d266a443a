//! Every call of a story fails before its effect, fails after it, happens twice, or kills its worker: the end is the same.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tidemark_domain::job::{Job, Kind, Line};
use tidemark_domain::partition::PartitionItem;
use tidemark_engine::jobs;
use tidemark_engine::memory::{Fault, Pace, Plan};
use tidemark_engine::ports::Clock as _;
use tidemark_engine::rebuild::Answer;

use super::overtaken::marked;
use super::world::{TOML, World};

const DAY: &str = "dt=2026-11-01";
const NEXT_DAY: &str = "dt=2026-11-02";

/// What two ends are compared by: everything but ids, times and how many takes and marks it cost.
#[derive(Debug, PartialEq)]
struct End {
    rows: BTreeMap<String, Vec<String>>,
    items: BTreeMap<String, Rest>,
    /// Batches that committed.
    commits: usize,
    copies: usize,
}

#[derive(Debug, PartialEq)]
struct Rest {
    built: bool,
    parked: Option<(String, String)>,
    forced: bool,
    accept: bool,
    removed: i64,
    /// Of what was committed last.
    digest: Option<String>,
    last_rows: Option<u64>,
}

impl Rest {
    fn of(item: &PartitionItem) -> Self {
        let PartitionItem { built, marked, parked, forced, accept, removed, last, .. } = item;
        Self {
            built: built == marked,
            parked: parked.as_ref().map(|parked| (parked.kind.clone(), parked.message.clone())),
            forced: forced.is_some(),
            accept: accept.is_some(),
            removed: *removed,
            digest: last.as_ref().map(|last| last.digest.to_string()),
            last_rows: last.as_ref().map(|last| last.rows),
        }
    }
}

impl End {
    fn of(world: &World) -> Self {
        Self {
            rows: world.rows(),
            items: world.items().iter().map(|(partition, item)| (partition.clone(), Rest::of(item))).collect(),
            commits: world.warehouse.ledger().len(),
            copies: world.submitted("/stage"),
        }
    }
}

/// A story: what was before, in peace; what is done then, step by step; which calls have to be among its steps.
struct Story {
    toml: String,
    before: AsyncStep,
    act: AsyncStep,
    calls: &'static [&'static str],
    /// A fault may cost a mark, a commit or a COPY more; the rest of the end is the same.
    may_cost_more: bool,
}

type AsyncStep = fn(&mut World) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>>;

macro_rules! step {
    (|$world:ident| $body:block) => {
        |$world: &mut World| Box::pin(async move { $body })
    };
}

impl Story {
    async fn play(&self, plan: Plan, context: &str) -> World {
        let mut world = World::new(&self.toml).await;
        (self.before)(&mut world).await;
        world.rest("before").await;
        world.plan = plan;
        (self.act)(&mut world).await;
        world.rest(context).await;
        world.assert_at_rest(context).await;
        world
    }

    /// Plays it in peace, then with each fault at each of its steps.
    async fn every_step(&self) -> End {
        let quiet = Plan::quiet();
        let world = self.play(quiet.clone(), "no fault").await;
        let (end, steps) = (End::of(&world), quiet.steps());
        for call in self.calls {
            assert!(steps.iter().any(|step| step.call == *call), "the story doesn't make {call}: {steps:?}");
        }
        for step in &steps {
            for fault in Fault::ALL {
                let context = format!("{fault:?} at step {} of {}, {}", step.number, steps.len(), step.call);
                let world = self.play(Plan::at(step.number, fault), &context).await;
                let mut seen = End::of(&world);
                if self.may_cost_more {
                    assert!(seen.commits >= end.commits && seen.copies >= end.copies, "{context}: {seen:?}");
                    (seen.commits, seen.copies) = (end.commits, end.copies);
                }
                assert_eq!(seen, end, "{context}");
            }
        }
        end
    }
}

/// A partition that was built once.
const BUILT: AsyncStep = step!(|world| {
    world.put(&format!("{DAY}/a.csv"), "1\n2\n").await;
});

fn replay(act: AsyncStep) -> Story {
    let calls = &["queue.send", "state.write", "state.read"];
    Story { toml: TOML.to_owned(), before: BUILT, act, calls, may_cost_more: true }
}

fn asked(world: &World, fields: &Value) {
    world.replay(DAY, fields);
}

#[tokio::test]
async fn mark_ends_the_same_whatever_fails_at_whichever_step() {
    let story = Story {
        toml: TOML.to_owned(),
        before: BUILT,
        act: step!(|world| {
            world.put(&format!("{DAY}/b.csv"), "3\n").await;
            world.put(&format!("{NEXT_DAY}/c.csv"), "4\n").await;
            world.delete(&format!("{DAY}/a.csv"));
            world.mark().await;
        }),
        calls: &["state.write", "queue.send"],
        may_cost_more: true,
    };
    let end = story.every_step().await;
    assert_eq!(end.rows[DAY], ["3"]);
    assert_eq!(end.rows[NEXT_DAY], ["4"]);
}

/// The messages are lost; sweep finds what is due.
#[tokio::test]
async fn sweep_ends_the_same_whatever_fails_at_whichever_step() {
    let story = Story {
        toml: TOML.to_owned(),
        before: BUILT,
        act: step!(|world| {
            let plan = std::mem::take(&mut world.plan);
            world.put(&format!("{DAY}/b.csv"), "3\n").await;
            world.put(&format!("{NEXT_DAY}/c.csv"), "4\n").await;
            world.mark().await;
            world.queue.lose_all();
            world.clock.advance(Duration::from_mins(6));
            world.plan = plan;
            world.sweep().await;
        }),
        calls: &["state.query", "state.write", "queue.send"],
        may_cost_more: true,
    };
    let end = story.every_step().await;
    assert_eq!((end.rows.len(), end.commits), (2, 3));
}

/// One sweep in which look has its turn, under the plan; another an hour later finds what that one could not.
async fn look_under_plan(world: &mut World) {
    world.sweep().await;
    world.plan = Plan::quiet();
    world.clock.advance(Duration::from_mins(61));
    world.sweep().await;
}

/// The events are lost; look finds what they should have told.
#[tokio::test]
async fn look_ends_the_same_whatever_fails_at_whichever_step() {
    let story = Story {
        toml: TOML.to_owned(),
        before: step!(|world| {
            world.put(&format!("{DAY}/a.csv"), "1\n2\n").await;
            world.rest("built").await;
            world.sweep().await; // from here on look waits for its hour
        }),
        act: step!(|world| {
            world.objects.put_unseen("lake", &format!("orders/{DAY}/b.csv"), "3\n");
            world.objects.put_unseen("lake", &format!("orders/{NEXT_DAY}/c.csv"), "4\n");
            world.clock.advance(Duration::from_mins(61));
            look_under_plan(world).await;
        }),
        calls: &["objects.list", "state.partitions", "state.write", "queue.send"],
        may_cost_more: true,
    };
    let end = story.every_step().await;
    assert_eq!((end.rows.len(), end.commits), (2, 3));
    assert_eq!(end.rows[DAY], ["1", "2", "3"]);
}

/// A job of an operator's, of two partitions that nothing happened to: sweep advances it, and both are rebuilt for real.
#[tokio::test]
async fn a_job_ends_the_same_whatever_fails_at_whichever_step() {
    let story = Story {
        toml: TOML.to_owned(),
        before: step!(|world| {
            world.put(&format!("{DAY}/a.csv"), "1\n2\n").await;
            world.put(&format!("{NEXT_DAY}/b.csv"), "3\n").await;
        }),
        act: step!(|world| {
            let plan = std::mem::take(&mut world.plan);
            let (name, now) = (world.definition.name.clone(), world.clock.now());
            let job = Job { force: true, ..Job::new(world.clock.id(), name, Kind::Backfill, 2, "alice", now) };
            let lines = [DAY, NEXT_DAY].map(|day| Line::of(world.id(day).partition));
            jobs::make(&world.engine().ports, "control", &job, &lines).await.unwrap();
            world.plan = plan;
            world.sweep().await;
            world.plan = Plan::quiet();
            world.rounds(20).await;
            let jobs = jobs::all(&world.engine().ports).await.unwrap();
            assert!(jobs.iter().all(|job| job.done == 2 && !job.is_open()), "{jobs:?}");
        }),
        calls: &["state.items", "objects.get", "state.write", "queue.send"],
        may_cost_more: true,
    };
    let end = story.every_step().await;
    assert_eq!((end.rows.len(), end.commits), (2, 4), "each was rebuilt once more");
}

/// The state table is restored from a backup that is older than a commit; the next mark's rebuild finds out (RESTORED), fences,
/// looks and rebuilds for real.
#[tokio::test]
async fn a_restored_state_table_ends_the_same_whatever_fails_at_whichever_step() {
    let story = Story {
        toml: TOML.to_owned(),
        before: BUILT,
        act: step!(|world| {
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
        calls: &["state.write", "warehouse.submit", "announcer.alert", "queue.send"],
        may_cost_more: true,
    };
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
    let story = Story { may_cost_more: false, ..replay(step!(|world| { asked(world, &json!({"force": false})) })) };
    let end = story.every_step().await;
    assert_eq!((end.commits, end.copies), (1, 1), "nothing had changed");
}

/// A partition that parked since it held fewer rows; what the operator saw is let in, once.
#[tokio::test]
async fn a_replay_with_accept_ends_the_same_whatever_fails_at_whichever_step() {
    let story = Story {
        toml: TOML.replace("row_drop = \"accept\"", ""),
        before: step!(|world| {
            world.put(&format!("{DAY}/a.csv"), "1\n2\n3\n").await;
            world.rest("built").await;
            world.put(&format!("{DAY}/a.csv"), "1\n").await;
        }),
        act: step!(|world| {
            let digest = world.item(DAY).parked.unwrap().digest.unwrap();
            asked(world, &json!({"accept": ["row_drop"], "digest": digest}));
        }),
        ..replay(BUILT)
    };
    let end = story.every_step().await;
    assert_eq!(end.rows[DAY], ["1"]);
    assert_eq!(end.items[&format!("PARTITION#{DAY}")].parked, None);
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
