//! Sweep: what events missed is found, many marks wait for their turn, and a quiet minute is cheap.

use std::time::Duration;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use tidemark_domain::cursor::{Cursor, Task};
use tidemark_domain::id::PartitionName;
use tidemark_domain::job::{Job, Kind, Line};
use tidemark_domain::measure;
use tidemark_domain::partition::PartitionItem;
use tidemark_engine::jobs;
use tidemark_engine::memory::{Pace, Plan};
use tidemark_engine::ports::{Clock as _, Objects as _, StateStore as _};
use tidemark_engine::sweep::Swept;

use super::world::{TOML, World};

const DAY: &str = "dt=2026-11-01";

/// A dataset whose lookback holds years.
pub(super) fn wide() -> String {
    TOML.replace("interval = \"0s\"", "interval = \"0s\"\nlookback = \"2000d\"")
}

/// A file lands whose event is lost.
pub(super) async fn put_unseen(world: &World, name: &str, lines: &str) {
    let bytes = Bytes::copy_from_slice(lines.as_bytes());
    world.objects.put("lake", &format!("orders/{name}"), bytes).await.unwrap();
    world.objects.take_changes();
}

pub(super) async fn sweep(world: &World) -> Vec<Swept> {
    world.engine().sweep(world.clock.now() + SignedDuration::from_secs(55)).await.unwrap()
}

/// An hour passes, and a sweep in which look has its turn.
pub(super) async fn an_hour_later(world: &World) -> Swept {
    sweep(world).await;
    world.clock.advance(Duration::from_mins(61));
    sweep(world).await.remove(0)
}

pub(super) fn cursor(world: &World, task: Task) -> Cursor {
    let key = Cursor::key(task, task.is_per_dataset().then_some(&world.definition.name));
    Cursor::from_item(&world.state.item(&key).unwrap()).unwrap()
}

pub(super) async fn all_jobs(world: &World) -> Vec<Job> {
    jobs::all(&world.engine().ports).await.unwrap()
}

/// The day `n` days after 1 January 2024.
pub(super) fn day(n: i64) -> String {
    let day = jiff::civil::date(2024, 1, 1).checked_add(jiff::Span::new().days(n)).unwrap();
    format!("dt={day}")
}

#[tokio::test]
async fn a_file_whose_event_is_lost_is_loaded_within_the_hour() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    put_unseen(&world, "dt=2026-11-01/b.csv", "2\n").await;
    put_unseen(&world, "dt=2026-11-02/a.csv", "3\n").await;
    let first = an_hour_later(&world).await;
    assert_eq!(
        (first.found, first.missed),
        (2, 0),
        "a known partition and a new one; nobody was there to miss events of theirs"
    );
    world.rest("").await;
    world.assert_true("found by look").await;
    assert_eq!(an_hour_later(&world).await.found, 0, "and that was it");

    // From then on, what look finds is what events should have told: but for a file whose event may be on its way.
    put_unseen(&world, "dt=2026-11-01/c.csv", "4\n").await;
    world.clock.advance(Duration::from_mins(56));
    put_unseen(&world, "dt=2026-11-02/b.csv", "5\n").await;
    world.clock.advance(Duration::from_mins(5));
    let swept = sweep(&world).await.remove(0);
    assert_eq!((swept.found, swept.missed), (2, 1));
    world.rest("").await;
    world.assert_true("both are loaded").await;
}

#[tokio::test]
async fn c191_files_that_vanish_without_an_event_are_told_once() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    assert!(world.objects.delete("lake", "orders/dt=2026-11-01/a.csv"));
    world.objects.take_changes();
    assert_eq!(an_hour_later(&world).await.found, 1);
    world.rest("").await;
    assert_eq!(world.item(DAY).parked.unwrap().kind, "empty_source");
    let alerts = world.announcer.alerts().len();
    for _ in 0..5 {
        assert_eq!(an_hour_later(&world).await.found, 0, "nobody is paged twice for the same thing");
        world.rest("").await;
    }
    assert_eq!(world.announcer.alerts().len(), alerts);
    put_unseen(&world, "dt=2026-11-01/c.csv", "7\n").await;
    world.replay(DAY, &serde_json::json!({"accept": ["foreign_rows"]}));
    world.rest("").await;
    assert!(world.item(DAY).parked.is_some_and(|parked| parked.kind == "missing_objects"), "{:?}", world.item(DAY));
    world.objects.delete("lake", "orders/dt=2026-11-01/c.csv");
    put_unseen(&world, "dt=2026-11-01/a.csv", "1\n").await;
    assert_eq!(an_hour_later(&world).await.found, 1, "something else is there now");
    world.rest("").await;
    world.assert_true("the file is back").await;
}

#[tokio::test]
async fn a_file_that_did_not_fit_is_looked_at_again_only_when_another_comes() {
    let mut world = World::new(&TOML.replace("\"csv\"", "\"parquet\"")).await;
    world.put("dt=2026-11-01/a.parquet", "no parquet\n").await;
    world.rest("").await;
    assert_eq!(world.item(DAY).parked.unwrap().digest, None, "parked before the listing was whole");
    let alerts = world.announcer.alerts().len();
    for _ in 0..3 {
        assert_eq!(an_hour_later(&world).await.found, 0);
    }
    world.objects.delete("lake", "orders/dt=2026-11-01/a.parquet");
    put_unseen(&world, "dt=2026-11-01/b.parquet", "nor this\n").await;
    assert_eq!(an_hour_later(&world).await.found, 1);
    world.rest("").await;
    assert_eq!(world.announcer.alerts().len(), alerts, "told already");
}

#[tokio::test]
async fn look_leaves_what_lies_before_the_lookback() {
    let mut world = World::new(&TOML.replace("interval = \"0s\"", "interval = \"0s\"\nlookback = \"3d\"")).await;
    world.put("dt=2025-01-01/a.csv", "1\n").await;
    world.put("dt=2026-10-25/a.csv", "1\n").await;
    world.rest("").await;
    put_unseen(&world, "dt=2025-01-01/b.csv", "2\n").await;
    put_unseen(&world, "dt=2025-01-02/a.csv", "2\n").await;
    put_unseen(&world, "dt=2026-10-25/b.csv", "2\n").await;
    assert_eq!(an_hour_later(&world).await.found, 1, "the clock says {}", world.clock.now());
}

#[tokio::test]
async fn a_dataset_whose_bucket_is_denied_does_not_stop_the_others_and_is_tried_again() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    put_unseen(&world, "dt=2026-11-01/b.csv", "2\n").await;
    sweep(&world).await;
    world.clock.advance(Duration::from_mins(61));
    world.plan = Plan::down("objects.list");
    assert_eq!(sweep(&world).await.len(), 1, "it is woken all the same");
    world.plan = Plan::quiet();
    assert_eq!(sweep(&world).await[0].found, 0, "not tried again at once");
    world.clock.advance(Duration::from_mins(11));
    assert_eq!(sweep(&world).await[0].found, 1);
}

/// Nobody reads a log each day, and this is the net for what events miss.
#[tokio::test]
async fn a_task_that_fails_for_six_hours_is_counted_each_minute_until_it_ends_a_round() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    let told = |world: &World| world.telemetry.values(measure::TASKS_FAILING).len();
    world.plan = Plan::down("objects.list");
    for minute in 0..=8 * 60 {
        sweep(&world).await;
        let failing = cursor(&world, Task::Look).fails_for_long(world.clock.now()).cloned();
        assert!(failing.is_none() || minute > 6 * 60, "{minute}");
        world.clock.advance(Duration::from_mins(1));
    }
    let failing = cursor(&world, Task::Look).failing.unwrap();
    assert!(failing.why.contains("injected") && failing.since < world.clock.now() - SignedDuration::from_hours(6));
    assert!(
        (60..=125).contains(&told(&world)),
        "look fails from its first turn, within the first hour: {}",
        told(&world)
    );
    world.plan = Plan::quiet();
    let so_far = told(&world);
    for _ in 0..20 {
        world.clock.advance(Duration::from_mins(1));
        sweep(&world).await;
    }
    assert!(told(&world) < so_far + 11, "it is tried again within ten minutes");
    assert!(cursor(&world, Task::Look).failing.is_none());
}

#[tokio::test]
async fn many_lost_events_make_a_job_that_keeps_live_marks_from_waiting() {
    let mut world = World::new(&wide()).await;
    for n in 0..300 {
        put_unseen(&world, &format!("{}/a.csv", day(n)), "1\n").await;
    }
    assert_eq!(an_hour_later(&world).await.found, 300);
    let job = all_jobs(&world).await.remove(0);
    assert_eq!((job.kind, job.total, job.done), (Kind::Look, 300, 0));
    let swept = sweep(&world).await.remove(0);
    assert_eq!((swept.by_jobs, world.due().await.len()), (10, 10), "ten of a table are outstanding");
    assert_eq!(sweep(&world).await[0].by_jobs, 0, "and no more until they are done");
    world.put("dt=2026-11-01/live.csv", "1\n").await;
    world.mark().await;
    assert!(world.queue.len() <= 11, "a live mark waits behind ten at most: {}", world.queue.len());
    // Look's next round finds what the job has not marked yet, and leaves it to the job: all of it, in whichever slice it is found.
    world.clock.advance(Duration::from_mins(61));
    world.objects.set_page_time(Duration::from_millis(500));
    let mut slices = 0;
    while slices == 0 || cursor(&world, Task::Look).after.is_some() {
        sweep(&world).await;
        slices += 1;
    }
    assert!(slices > 1 && cursor(&world, Task::Look).next_at > world.clock.now(), "the round is over in {slices}");
    world.objects.set_page_time(Duration::ZERO);
    assert_eq!(all_jobs(&world).await.len(), 1);
    while all_jobs(&world).await[0].is_open() {
        world.rest("the job goes on").await;
        sweep(&world).await;
    }
    world.rest("").await;
    world.assert_true("all were built").await;
    assert_eq!(world.rows().len(), 301);
    assert_eq!(world.submitted("/swap"), 301, "each once");
}

/// Each rebuild takes two seconds, one at a time under the table's lock, and a message becomes visible after 30: neither do the
/// rebuilds wait for sweep, nor does a live mark wait behind the job.
#[tokio::test]
async fn a_job_of_hundreds_goes_as_fast_as_rebuilds_do_and_a_live_mark_waits_for_few() {
    const PARTITIONS: i64 = 400;
    let mut world = World::new(&wide()).await;
    for n in 0..PARTITIONS {
        put_unseen(&world, &format!("{}/a.csv", day(n)), "1\n").await;
    }
    an_hour_later(&world).await;
    world.warehouse.set_pace("/stage", Pace::After(Duration::from_secs(2)));
    let began = world.clock.now();
    let (mut waiting, mut longest) = (None::<Timestamp>, SignedDuration::ZERO);
    while world.rows().len() <= usize::try_from(PARTITIONS).unwrap() || !world.due().await.is_empty() {
        // What sweep does each five seconds for as long as it lasts.
        world.engine().sweep(world.clock.now() + SignedDuration::from_secs(1)).await.unwrap();
        let next = world.clock.now() + SignedDuration::from_secs(5);
        while world.clock.now() < next {
            if world.rebuild().await.is_none() {
                world.clock.advance(Duration::from_secs(1));
            }
        }
        let took = world.clock.now().duration_since(began);
        assert!(took < SignedDuration::from_mins(60), "it goes on after {took}: {:?}", all_jobs(&world).await);
        // Amid it, a file lands.
        if waiting.is_none() && world.rows().len() > 200 {
            world.put("dt=2026-11-01/live.csv", "1\n").await;
            world.mark().await;
            waiting = Some(world.clock.now());
        }
        if let Some(since) = waiting.filter(|_| !world.rows().contains_key(DAY)) {
            longest = world.clock.now().duration_since(since);
        }
    }
    let took = world.clock.now().duration_since(began).as_secs();
    println!("{PARTITIONS} partitions took {took} s; a live mark waited {} s", longest.as_secs());
    assert!(took < PARTITIONS * 2 * 5 / 4 + 120, "{took} s");
    assert!(longest < SignedDuration::from_secs(75), "{longest}");
}

/// A backfill of the first thirty days.
async fn make(world: &World, force: bool) -> Job {
    let ports = world.engine().ports;
    let lines: Vec<Line> = (0..30).map(|n| Line::of(PartitionName::new(day(n)).unwrap())).collect();
    let (id, now) = (ports.clock.id(), ports.clock.now());
    let job = Job { force, ..Job::new(id, world.definition.name.clone(), Kind::Backfill, 30, "alice", now) };
    jobs::make(&ports, "control", &job, &lines).await.unwrap();
    job
}

#[tokio::test]
async fn a_forced_job_rebuilds_what_is_unchanged_and_a_cancelled_one_stops() {
    let mut world = World::new(TOML).await;
    for n in 0..30 {
        world.put(&format!("{}/a.csv", day(n)), "1\n").await;
    }
    world.rest("").await;
    let unforced = make(&world, false).await;
    for _ in 0..10 {
        sweep(&world).await;
        world.rest("").await;
    }
    assert!(!all_jobs(&world).await[0].is_open());
    assert_eq!(world.submitted("/swap"), 30, "nothing changed: {unforced:?}");
    let forced = make(&world, true).await;
    sweep(&world).await;
    world.rest("").await;
    assert!(world.submitted("/swap") >= 40);
    let so_far = world.submitted("/swap");
    let cancel = forced.cancel("bob", world.clock.now());
    world.state.write(&[cancel], "cancel").await.unwrap();
    for _ in 0..5 {
        sweep(&world).await;
        world.rest("").await;
    }
    assert_eq!(world.submitted("/swap"), so_far);
}

/// Somebody tidied the control bucket. The job tells so until it is cancelled; the net for lost events holds all the same.
#[tokio::test]
async fn a_job_whose_lines_are_gone_keeps_look_from_nothing() {
    let mut world = World::new(&wide()).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    let job = make(&world, true).await;
    world.objects.delete("control", &job.part_key(0));
    put_unseen(&world, "dt=2026-11-01/b.csv", "2\n").await;
    assert_eq!(an_hour_later(&world).await.found, 1);
    assert_eq!(world.due().await, [DAY]);
    assert!(all_jobs(&world).await[0].is_open());
}

/// An item that can't be read stays one for somebody to look at; the others of its job are marked.
#[tokio::test]
async fn an_item_that_cannot_be_read_stops_no_job() {
    let world = World::new(&wide()).await;
    world.state.put(PartitionItem::key(&world.id(&day(3))), [("marked".to_owned(), "many".into())].into());
    make(&world, true).await;
    for _ in 0..3 {
        sweep(&world).await;
        for n in 0..30 {
            if n != 3 && world.due().await.contains(&day(n)) {
                world.state.remove(&PartitionItem::key(&world.id(&day(n))));
            }
        }
    }
    assert!(!all_jobs(&world).await[0].is_open(), "{:?}", all_jobs(&world).await);
}

/// Nobody is to look at them while their dataset is retired, and nobody could make them go.
#[tokio::test]
async fn what_is_parked_of_a_retired_dataset_is_not_counted() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "x#bad\n").await;
    world.rest("it parks").await;
    assert_eq!(sweep(&world).await[0].parked, 1);
    world.set_head(&[("mode", "retired".into())]);
    assert_eq!(sweep(&world).await[0].parked, 0);
    world.set_head(&[("mode", "active".into())]);
    assert_eq!(sweep(&world).await[0].parked, 1);
}

#[tokio::test]
async fn a_paused_dataset_gets_no_marks_of_jobs() {
    let world = World::new(&wide()).await;
    for n in 0..60 {
        put_unseen(&world, &format!("{}/a.csv", day(n)), "1\n").await;
    }
    an_hour_later(&world).await;
    world.set_head(&[("mode", "paused".into())]);
    assert_eq!(sweep(&world).await[0].by_jobs, 0);
    world.set_head(&[("mode", "active".into())]);
    assert_eq!(sweep(&world).await[0].by_jobs, 10);
}
