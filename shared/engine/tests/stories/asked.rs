//! Who asked for a rebuild, and why, is told of the partition until it is answered, and of the batches that answer it.

use std::time::Duration;

use serde_json::{Value, json};
use tidemark_domain::job::{Job, Kind, Line};
use tidemark_domain::partition::{Asked, REASON_BYTES};
use tidemark_engine::jobs;
use tidemark_engine::ports::Clock as _;

use super::world::{TOML, World};

const DAY: &str = "dt=2026-11-01";

/// What is told: by whom, and why.
fn told(asked: Option<&Asked>) -> (Option<&str>, Option<&str>) {
    asked.map_or((None, None), |asked| (asked.by.as_deref(), asked.reason.as_deref()))
}

/// The queue's delay passes, and the message is handled: it marks.
async fn hand_out(world: &World) {
    world.clock.advance(Duration::from_secs(31));
    assert!(world.rebuild().await.is_some());
}

/// The same of the newest batch's story.
fn of_story(world: &World) -> (Value, Value) {
    let story = world.story(DAY);
    let asked = story.get("asked").cloned().unwrap_or_default();
    (asked["by"].clone(), asked["reason"].clone())
}

#[tokio::test]
async fn a_replay_tells_why_until_it_is_answered_and_its_batch_for_good() {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n2\n").await;
    world.rest("").await;
    assert_eq!(of_story(&world), (Value::Null, Value::Null));

    world.replay(DAY, &json!({"reason": "ticket 7", "by": "jane"}));
    hand_out(&world).await;
    assert_eq!(told(world.item(DAY).is_asked()), (Some("jane"), Some("ticket 7")), "marked, not begun");
    world.rest("").await;
    assert_eq!(world.item(DAY).asked, None, "answered");
    assert_eq!(of_story(&world), ("jane".into(), "ticket 7".into()));

    // Who asks and asks for nothing to be forced is told as well; what nobody asked for isn't told as asked for.
    world.replay(DAY, &json!({"reason": "to be sure", "force": false}));
    world.rest("").await;
    assert_eq!(of_story(&world), (Value::Null, "to be sure".into()));
    world.put(&format!("{DAY}/b.csv"), "3\n").await;
    world.rest("").await;
    assert_eq!(of_story(&world), (Value::Null, Value::Null));
}

#[tokio::test]
async fn a_replay_that_parks_is_told_of_the_batch_that_parked_and_of_the_one_that_mends_it() {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n2\n").await;
    world.rest("").await;
    world.put(&format!("{DAY}/a.csv"), "1#bad\n").await;
    world.rest("").await;
    world.replay(DAY, &json!({"reason": "is it well?", "by": "jane"}));
    world.rest("").await;
    assert!(world.item(DAY).rests_parked());
    assert_eq!(told(world.item(DAY).is_asked()), (Some("jane"), Some("is it well?")));
    assert_eq!(of_story(&world), ("jane".into(), "is it well?".into()));
    world.replay(DAY, &json!({"reason": "another", "by": "joe"}));
    world.rest("").await;
    assert_eq!(of_story(&world), ("joe".into(), "another".into()), "the newest who asked");
    world.put(&format!("{DAY}/a.csv"), "1\n2\n").await;
    world.rest("mended").await;
    assert_eq!((of_story(&world), world.item(DAY).asked), (("joe".into(), "another".into()), None));
}

/// A message may be 4 KiB; an item stays small.
#[tokio::test]
async fn a_long_reason_is_cut_and_an_empty_one_is_none() {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.rest("").await;
    world.replay(DAY, &json!({"reason": "é".repeat(1_000), "by": " "}));
    hand_out(&world).await;
    let asked = world.item(DAY).asked.unwrap();
    assert_eq!(told(Some(&asked)), (None, Some("é".repeat(REASON_BYTES / 2).as_str())));
    world.rest("").await;
    world.replay(DAY, &json!({"reason": ""}));
    world.rest("").await;
    assert!(world.story(DAY).contains_key("asked"), "that somebody asked is told");
    assert_eq!(of_story(&world), (Value::Null, Value::Null), "a later replay replaces an earlier");
}

#[tokio::test]
async fn a_jobs_marks_tell_whose_job_it_is_whether_it_forces_or_not() {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.rest("").await;
    for force in [true, false] {
        let (id, now) = (world.clock.id(), world.clock.now());
        let new = Job::new(id, world.definition.name.clone(), Kind::Backfill, 1, "alice", now);
        let job = Job { force, reason: Some("a new column".to_owned()), ..new };
        let lines = [Line::of(world.id(DAY).partition)];
        jobs::make(&world.engine().ports, "control", &job, &lines).await.unwrap();
        world.sweep().await;
        world.rest("").await;
        assert_eq!(of_story(&world), ("alice".into(), "a new column".into()), "force: {force}");
        assert_eq!(world.story(DAY)["outcome"], if force { "committed" } else { "unchanged" });
    }
}
