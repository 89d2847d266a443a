//! What sweep does ends the same whatever fails at whichever of its steps: wake, look, jobs, book, tidy, and what tidy finds.

use std::collections::BTreeSet;
use std::time::Duration;

use tidemark_domain::id::BatchId;
use tidemark_domain::job::{Heal, Job, Kind, Line};
use tidemark_domain::partition::PartitionItem;
use tidemark_engine::jobs;
use tidemark_engine::memory::{Pace, Plan};
use tidemark_engine::ports::Clock as _;

use super::every_step::{AsyncStep, Costs, DAY, NEXT_DAY, Story, step};
use super::sweep::sweep;
use super::world::World;

/// The messages are lost; sweep finds what is due.
#[tokio::test]
async fn sweep_ends_the_same_whatever_fails_at_whichever_step() {
    let story = Story::new(
        step!(|world| {
            let plan = std::mem::take(&mut world.plan);
            world.put(&format!("{DAY}/b.csv"), "3\n").await;
            world.put(&format!("{NEXT_DAY}/c.csv"), "4\n").await;
            world.mark().await;
            world.queue.lose_all();
            world.clock.advance(Duration::from_mins(6));
            world.plan = plan;
            world.sweep().await;
        }),
        &["state.query", "state.write", "queue.send"],
    );
    let end = story.every_step().await;
    assert_eq!((end.rows.len(), end.commits), (2, 3));
}

/// Built once, and swept once: from here on each task waits for its hour.
const SWEPT: AsyncStep = step!(|world| {
    world.put(&format!("{DAY}/a.csv"), "1\n2\n").await;
    world.rest("built").await;
    world.sweep().await;
});

/// The events are lost; look finds what they should have told. What one look could not, another an hour later does.
#[tokio::test]
async fn look_ends_the_same_whatever_fails_at_whichever_step() {
    let story = Story {
        before: SWEPT,
        ..Story::new(
            step!(|world| {
                world.objects.put_unseen("lake", &format!("orders/{DAY}/b.csv"), "3\n");
                world.objects.put_unseen("lake", &format!("orders/{NEXT_DAY}/c.csv"), "4\n");
                world.clock.advance(Duration::from_mins(61));
                world.sweep().await;
                world.plan = Plan::quiet();
                world.clock.advance(Duration::from_mins(61));
                world.sweep().await;
            }),
            &["objects.list", "state.partitions", "state.write", "queue.send"],
        )
    };
    let end = story.every_step().await;
    assert_eq!((end.rows.len(), end.commits), (2, 3));
    assert_eq!(end.rows[DAY], ["1", "2", "3"]);
}

/// Everything that a table says of files: no file twice, and each committed batch has some.
fn booked(world: &World) -> BTreeSet<String> {
    let files = world.warehouse.files();
    let once: BTreeSet<(&String, &String)> = files.iter().map(|(batch, key, ..)| (batch, key)).collect();
    assert_eq!(once.len(), files.len(), "a file is booked twice: {files:?}");
    let batches: BTreeSet<&String> = files.iter().map(|(batch, ..)| batch).collect();
    assert_eq!(batches.len(), world.warehouse.ledger().len(), "each batch is booked");
    files.iter().map(|(_, key, etag, ..)| format!("{key} {etag}")).collect()
}

fn book(act: AsyncStep) -> Story {
    let calls =
        &["objects.get", "objects.finish", "objects.put", "warehouse.submit", "warehouse.describe", "state.write"];
    Story {
        before: step!(|world| {
            for day in [DAY, NEXT_DAY] {
                world.put(&format!("{day}/a.csv"), "1\n").await;
            }
            world.rest("built").await;
            world.put(&format!("{DAY}/b.csv"), "2\n").await;
            world.rest("built again").await;
            world.sweep().await;
        }),
        sees: booked,
        ..Story::new(act, calls)
    }
}

#[tokio::test]
async fn book_ends_the_same_whatever_fails_at_whichever_step() {
    let story = book(step!(|world| {
        world.clock.advance(Duration::from_mins(61));
        world.sweep().await;
        hours(world, 2).await;
    }));
    assert_eq!(story.every_step().await.seen.len(), 3);
}

/// The load outlives its sweep; the next ones look at its end.
#[tokio::test]
async fn a_long_load_of_book_ends_the_same_whatever_fails_at_whichever_step() {
    let story = book(step!(|world| {
        world.warehouse.set_pace("tidemark/book", Pace::After(Duration::from_mins(3)));
        world.clock.advance(Duration::from_mins(61));
        for _ in 0..4 {
            world.sweep().await;
            world.clock.advance(Duration::from_mins(1));
        }
        hours(world, 2).await;
    }));
    assert_eq!(story.every_step().await.seen.len(), 3);
}

/// The plan is over; whatever failed is done within hours.
async fn hours(world: &mut World, hours: u32) {
    world.plan = Plan::quiet();
    for _ in 0..hours {
        world.clock.advance(Duration::from_mins(61));
        sweep(world).await;
        world.rest("an hour later").await;
    }
}

/// Days that look doesn't look at any more.
const OLD: [&str; 3] = ["dt=2024-01-01", "dt=2024-01-02", "dt=2024-01-03"];

/// Whether people were told of a restore: at least once, by one mail or by one and another that counts.
fn told(world: &World) -> BTreeSet<String> {
    let alerts = world.announcer.alerts().into_iter().map(|alert| alert.subject);
    alerts.filter_map(|subject| Some(subject.split_once(':')?.0.to_owned())).filter(|of| of == "restored").collect()
}

/// Of three days the first was rebuilt since, and the last wasn't there then.
async fn since_the_backup(world: &mut World) {
    world.put(&format!("{}/b.csv", OLD[0]), "3\n").await;
    world.put(&format!("{}/a.csv", OLD[2]), "4\n").await;
    world.rest("after the backup").await;
}

/// A day later tidy has its turn; it and what it has rebuilt are under the plan. What failed is tried again within the hour.
async fn tidied(world: &mut World, plan: Plan) {
    world.clock.advance(Duration::from_hours(25));
    world.plan = plan;
    world.sweep().await;
    world.rest("tidied").await;
    hours(world, 2).await;
}

const TIDY: &[&str] = &[
    "state.partitions",
    "warehouse.submit",
    "warehouse.result",
    "state.read",
    "announcer.alert",
    "state.write",
    "queue.send",
];

fn tidy(act: AsyncStep) -> Story {
    let before: AsyncStep = step!(|world| {
        for day in &OLD[..2] {
            world.put(&format!("{day}/a.csv"), "1\n2\n").await;
        }
        world.rest("built").await;
        world.sweep().await;
    });
    Story { before, sees: told, ..Story::new(act, TIDY) }
}

/// The warehouse is restored from a snapshot; tidy finds that items know batches which the ledger doesn't have.
#[tokio::test]
async fn tidy_of_a_restored_warehouse_ends_the_same_whatever_fails_at_whichever_step() {
    let story = tidy(step!(|world| {
        let plan = std::mem::take(&mut world.plan);
        let snapshot = world.warehouse.backup();
        since_the_backup(world).await;
        world.restore_warehouse(&snapshot);
        tidied(world, plan).await;
    }));
    let end = story.every_step().await;
    assert_eq!((end.rows.len(), end.seen.len()), (3, 1));
    assert_eq!(end.rows[OLD[0]], ["1", "2", "3"]);
}

/// The state table is restored from a backup; tidy finds that the ledger has batches which items don't know, of one partition
/// that has no item at all.
#[tokio::test]
async fn tidy_of_a_restored_state_table_ends_the_same_whatever_fails_at_whichever_step() {
    let story = tidy(step!(|world| {
        let plan = std::mem::take(&mut world.plan);
        let backup = world.partition_items();
        since_the_backup(world).await;
        world.restore_partitions(&backup);
        tidied(world, plan).await;
    }));
    let end = story.every_step().await;
    assert_eq!((end.rows.len(), end.seen.len()), (3, 1));
    assert_eq!(end.rows[OLD[0]], ["1", "2", "3"]);
}

/// Where many differ a job heals them: its lines say what the ledger knew.
#[tokio::test]
async fn a_job_that_heals_ends_the_same_whatever_fails_at_whichever_step() {
    let act: AsyncStep = step!(|world| {
        let plan = std::mem::take(&mut world.plan);
        let backup = world.partition_items();
        since_the_backup(world).await;
        let ledger = OLD.map(|day| (day, world.item(day).last));
        world.restore_partitions(&backup);
        let stored = |world: &World, day: &str| world.state.item(&PartitionItem::key(&world.id(day)));
        let fence = |world: &World, day| stored(world, day).map(|item| PartitionItem::from_item(&item).unwrap().fence);
        let heal = |(day, last)| Line {
            heal: Some(Heal { fence: fence(world, day), last }),
            ..Line::of(world.id(day).partition)
        };
        let lines = ledger.map(heal);
        let job =
            Job::new(world.clock.id(), world.definition.name.clone(), Kind::Restored, 3, "sweep", world.clock.now());
        jobs::make(&world.engine().ports, "control", &job, &lines).await.unwrap();
        world.plan = plan;
        world.sweep().await;
        world.rest("the job goes on").await;
        world.plan = Plan::quiet();
        world.rounds(12).await;
        let jobs = jobs::all(&world.engine().ports).await.unwrap();
        assert!(jobs.iter().all(|job| !job.is_open()), "{jobs:?}");
    });
    let story = Story { calls: &["objects.get", "state.write", "queue.send", "warehouse.submit"], ..tidy(act) };
    let end = story.every_step().await;
    assert_eq!(end.rows.len(), 3);
    assert_eq!(end.rows[OLD[0]], ["1", "2", "3"]);
}

/// Staging tables that are left over: an old one goes, a young one and somebody's own stay.
#[tokio::test]
async fn the_clean_up_of_staging_ends_the_same_whatever_fails_at_whichever_step() {
    fn born(world: &World, days: i64) -> BatchId {
        let at = world.clock.now() - jiff::SignedDuration::from_hours(24 * days);
        let seconds = u64::try_from(at.as_second()).unwrap();
        BatchId(uuid::Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, 0)))
    }
    /// By their age and not by their names, which are drawn anew each time.
    fn left(world: &World) -> BTreeSet<String> {
        world.warehouse.staging_tables().into_iter().map(|table| table.chars().take(14).collect()).collect()
    }
    let story = Story {
        before: SWEPT,
        costs: Costs::Same,
        sees: left,
        ..Story::new(
            step!(|world| {
                for days in [9, 8, 5] {
                    world.warehouse.put_staging(&format!("batch_{}", born(world, days)));
                }
                world.warehouse.put_staging("somebodys_own");
                world.clock.advance(Duration::from_hours(25));
                world.sweep().await;
                world.plan = Plan::quiet();
                world.clock.advance(Duration::from_mins(11));
                world.sweep().await;
            }),
            &["warehouse.submit", "warehouse.describe", "warehouse.result", "state.query", "state.write"],
        )
    };
    assert_eq!(story.every_step().await.seen.len(), 2);
}
