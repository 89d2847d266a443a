//! What a take tells: times, counts and shares of a rebuild, recoveries by state, late files, replays, contention.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use tidemark_domain::id::{PartitionId, PartitionName};
use tidemark_domain::lock::Scope;
use tidemark_domain::measure::{self, Metric};
use tidemark_domain::partition::FailureState;
use tidemark_engine::memory::{Fault, Pace, Plan};
use tidemark_engine::ports::{Clock as _, StateStore as _};
use tidemark_engine::rebuild::Work;

use super::world::{TOML, World};

/// A day that the world's clock (26 October 2026) has behind it, and one it has not.
const DAY: &str = "dt=2026-10-24";
const LONG_AGO: &str = "dt=2026-01-01";

fn once(world: &World, metric: Metric) -> f64 {
    let values = world.telemetry.values(metric);
    assert_eq!(values.len(), 1, "{}: {values:?}", metric.name);
    values[0]
}

#[tokio::test]
async fn a_rebuild_tells_its_times_counts_and_summary() {
    let mut world = World::new(TOML).await;
    world.warehouse.set_pace("/swap", Pace::After(Duration::from_secs(30)));
    world.put(&format!("{DAY}/a.csv"), "1\n2\n").await;
    world.rest("").await;

    let [rebuild, swap, share] =
        [measure::REBUILD_TIME, measure::SWAP_TIME, measure::SWAP_SHARE].map(|metric| once(&world, metric));
    assert!((30.0..rebuild + 0.001).contains(&swap), "swap {swap} s of {rebuild} s");
    assert!((share - 100.0 * swap / rebuild).abs() < 0.1, "{share} %");
    assert!((1.0..100.0).contains(&once(&world, measure::LOAD_WINDOW_USED)));
    assert!((once(&world, measure::REBUILDS) - 1.0).abs() < f64::EPSILON);
    for metric in [measure::REJECTED_ROWS, measure::DUPLICATE_KEYS] {
        assert!(once(&world, metric).abs() < f64::EPSILON, "{}", metric.name);
    }

    let summaries = world.told(measure::TAKE_ENDED);
    assert_eq!(summaries.len(), 1);
    let told = serde_json::to_value(&summaries[0]).unwrap();
    let counts =
        ["dataset", "partition", "status", "source_objects", "staged_rows", "target_rows"].map(|name| &told[name]);
    assert_eq!(counts, [&json!("orders"), &json!(DAY), &json!("committed"), &json!(1), &json!(2), &json!(2)]);
    assert!(told["merge_started_at"].as_str() < told["merge_ended_at"].as_str(), "{told}");
    assert!(told["batch"].as_str().is_some_and(|batch| batch.len() == 36), "{told}");
}

#[tokio::test]
async fn each_failure_state_is_told_by_who_finds_it_with_the_time_since() {
    // Dies at each effect of the first take in turn; the next one tells what it found.
    let mut seen = std::collections::BTreeSet::new();
    for number in 1.. {
        let mut world = World::new(TOML).await;
        // A swap that is over at once can't be told from one that was over before.
        world.warehouse.set_pace("/swap", Pace::After(Duration::from_secs(1)));
        world.put(&format!("{DAY}/a.csv"), "1\n").await;
        world.mark().await;
        world.clock.advance(Duration::from_secs(31));
        world.plan = Plan::at(number, Fault::DieAfter);
        let answer = world.rebuild().await.unwrap();
        let landed = world.warehouse.ledger().len();
        world.plan = Plan::quiet();
        if answer.is_some() {
            break;
        }
        assert!(world.told(measure::TAKE_ENDED).is_empty(), "a worker that died measured nothing");
        world.rest(&format!("died after effect {number}")).await;
        let by_state = [
            (FailureState::BeforeStaging, measure::RECOVERED_BEFORE_STAGING),
            (FailureState::DuringStaging, measure::RECOVERED_DURING_STAGING),
            (FailureState::BeforeCommit, measure::RECOVERED_BEFORE_COMMIT),
            (FailureState::AfterCommit, measure::RECOVERED_AFTER_COMMIT),
        ];
        let told: Vec<_> = by_state
            .iter()
            .filter(|(_, metric)| !world.telemetry.values(*metric).is_empty())
            .map(|(s, _)| *s)
            .collect();
        let takes = world.told(measure::TAKE_ENDED);
        let found: Vec<_> = takes.iter().filter_map(|summary| summary.recovered_from).collect();
        assert_eq!(told, found, "effect {number}");
        if landed > 0 && !found.is_empty() {
            assert_eq!(found, [FailureState::AfterCommit], "effect {number}: it had landed");
        }
        let times = world.telemetry.values(measure::FAILURE_TO_CONFIRMED_TIME);
        assert_eq!(times.len(), found.len(), "effect {number}");
        assert!(times.iter().all(|time| *time > 0.0), "effect {number}: {times:?}");
        seen.extend(found.iter().map(|state| format!("{state:?}")));
    }
    assert_eq!(seen.len(), 4, "all four states were met: {seen:?}");
}

#[tokio::test]
async fn late_files_are_counted_within_and_outside_the_window() {
    let mut world = World::new(&TOML.replace("key =", "lookback = \"7d\"\nkey =")).await;
    for day in [DAY, LONG_AGO] {
        world.put(&format!("{day}/a.csv"), "1\n").await;
    }
    world.rest("first loads").await;
    assert!(world.telemetry.values(measure::LATE_IN_WINDOW).is_empty(), "what is loaded for the first time isn't late");
    for day in [DAY, LONG_AGO] {
        world.put(&format!("{day}/b.csv"), "2\n").await;
    }
    world.put(&format!("{LONG_AGO}/c.csv"), "3\n").await;
    world.rest("late files").await;
    assert!((once(&world, measure::LATE_IN_WINDOW) - 1.0).abs() < f64::EPSILON);
    assert!((once(&world, measure::LATE_OUTSIDE_WINDOW) - 2.0).abs() < f64::EPSILON);
    assert_eq!(world.telemetry.summaries()[0].lookback_seconds, Some(7 * 24 * 3600));
}

#[tokio::test]
async fn a_busy_lock_and_a_replay_are_counted() {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(31));
    let id = PartitionId { dataset: world.definition.name.clone(), partition: PartitionName::new(DAY).unwrap() };
    let scope = Scope::of(&id, world.definition.concurrency);
    let now = world.clock.now();
    let lease = now + SignedDuration::from_hours(1);
    world.state.write(&[scope.acquire("somebody", now, lease)], "lock").await.unwrap();
    world.rebuild().await.unwrap();
    assert!((once(&world, measure::LOCK_CONTENTION) - 1.0).abs() < f64::EPSILON);
    world.state.write(&[scope.release("somebody")], "unlock").await.unwrap();
    world.rest("").await;

    let replay = json!({"version": 1, "dataset": "orders", "partition": DAY, "reason": "wished for"}).to_string();
    let deadline = world.clock.now() + SignedDuration::from_mins(2);
    world.engine().rebuild(Work { body: &replay, receipt: None, deadline }).await;
    assert!((once(&world, measure::MANUAL_REPLAYS) - 1.0).abs() < f64::EPSILON);
}

#[tokio::test]
async fn a_late_file_is_counted_once_by_the_commit_that_brings_it() {
    let mut world = World::new(&TOML.replace("key =", "lookback = \"7d\"\nkey =")).await;
    world.put(&format!("{LONG_AGO}/a.csv"), "1\n").await;
    world.rest("first load").await;
    // A row that is there twice parks the partition, each time that something is tried with it.
    world.put(&format!("{LONG_AGO}/late.csv"), "2\n2\n").await;
    world.rest("parked").await;
    world.put(&format!("{LONG_AGO}/later.csv"), "3\n").await;
    world.rest("parked again").await;
    assert_eq!(world.telemetry.values(measure::PARKS).len(), 2);
    assert!(world.telemetry.values(measure::LATE_OUTSIDE_WINDOW).is_empty(), "nothing of it is in the target yet");
    world.put(&format!("{LONG_AGO}/late.csv"), "2\n").await;
    world.rest("built").await;
    assert!((once(&world, measure::LATE_OUTSIDE_WINDOW) - 2.0).abs() < f64::EPSILON);
    world.put(&format!("{LONG_AGO}/late.csv"), "2\n").await;
    world.rest("put again as it was").await;
    once(&world, measure::LATE_OUTSIDE_WINDOW);
}
