//! The lines of the log that tell of a batch: which there are, when, and that each has all that a recovery by hand asks for.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tidemark_domain::dataset::Mode;
use tidemark_domain::guards::guards;
use tidemark_domain::id::Epoch;
use tidemark_domain::measure::{self, Summary};
use tidemark_domain::story::{Outcome, Story};
use tidemark_engine::memory::{Fault, Pace, Plan};
use tidemark_engine::read::stories::{Wanted, newest};

use super::world::{TOML, World};

const DAY: &str = "dt=2026-11-01";

fn with_lookback() -> String {
    TOML.replace("interval = \"0s\"", "interval = \"0s\"\nlookback = \"3d\"")
}

impl World {
    /// The lines with this message, oldest first.
    pub(crate) fn told(&self, message: &str) -> Vec<Summary> {
        self.telemetry.summaries().into_iter().filter(|summary| summary.message == message).collect()
    }

    /// All stories, oldest batch first.
    async fn stories(&self) -> Vec<(String, Story)> {
        let wanted = Wanted { partition: None, since: Timestamp::UNIX_EPOCH, limit: 99, read_at_most: 999 };
        let found = newest(&self.engine().ports, &self.definition.name, wanted).await.unwrap().stories;
        found.into_iter().rev().map(|(batch, story)| (batch.to_string(), story)).collect()
    }
}

/// A batch is told in one line, with all that a recovery by hand would ask for: also one whose takes were many.
#[tokio::test]
async fn each_batch_ends_in_one_line_of_the_log() {
    let mut world = World::new(&with_lookback()).await;
    world.put("dt=2026-11-01/a.csv", "1\n2\n").await;
    world.rest("").await;
    world.replay(DAY, &json!({"force": false}));
    world.rest("").await;
    world.put("dt=2026-11-01/b.csv", "3#bad\n").await;
    world.rest("").await;
    let ended = world.told(measure::BATCH_ENDED);
    assert_eq!(ended.len(), world.stories().await.len(), "a line for each batch: {ended:#?}");
    let status: Vec<&str> = ended.iter().map(|summary| summary.status).collect();
    assert_eq!(status, ["committed", "unchanged", "parked"]);
    let objects: Vec<Option<u64>> = ended.iter().map(|summary| summary.source_objects).collect();
    assert_eq!(objects, [Some(1), Some(1), Some(2)]);
    let committed = &ended[0];
    assert_eq!((committed.staged_rows, committed.target_rows), (Some(2), Some(2)));
    assert!(committed.merge_started_at.is_some() && committed.merge_started_at <= committed.merge_ended_at);
    assert!(ended.iter().all(|summary| summary.lookback_seconds.is_some()), "{ended:#?}");
}

/// What a guard of the listing holds back, or parks, says how much was listed.
#[tokio::test]
async fn what_ends_at_its_listing_says_what_was_listed() {
    let mut world = World::new(&with_lookback()).await;
    for name in ["a", "b", "c"] {
        world.put(&format!("{DAY}/{name}.csv"), &format!("{}\n", name.as_bytes()[0])).await;
    }
    world.rest("").await;
    for name in ["a", "b"] {
        world.objects.delete("lake", &format!("orders/{DAY}/{name}.csv"));
    }
    world.objects.take_changes(); // lost events
    world.put(&format!("{DAY}/c.csv"), "1\n").await;
    world.rest("").await;
    let ended = world.told(measure::BATCH_ENDED);
    let status: BTreeSet<&str> = ended[1..].iter().map(|line| line.status).collect();
    assert_eq!(status, BTreeSet::from(["held", "parked"]), "{ended:#?}");
    for line in &ended[1..] {
        assert_eq!((line.phase, line.source_objects, line.lookback_seconds), ("listing", Some(1), Some(259_200)));
    }
    let (_, story) = world.stories().await.pop().unwrap();
    assert_eq!((story.objects, story.counts["missing_objects"]), (Some(1), 2), "{story:#?}");
}

/// Killed after each of its effects in turn: every batch that ended has its line all the same, and its story knows of every
/// guard what was measured, whoever measured it.
#[tokio::test]
async fn a_batch_whose_worker_was_killed_has_its_line_and_every_guard() {
    let mut died = BTreeSet::new();
    for number in 1.. {
        let mut world = World::new(&with_lookback()).await;
        world.put(&format!("{DAY}/a.csv"), "1\n").await;
        world.rest("").await;
        world.put(&format!("{DAY}/b.csv"), "2\n").await;
        world.mark().await;
        world.clock.advance(Duration::from_secs(31));
        world.plan = Plan::at(number, Fault::DieAfter);
        let answer = world.rebuild().await.unwrap();
        world.plan = Plan::quiet();
        if answer.is_some() {
            break;
        }
        let taken = world.item(DAY).fence;
        world.rest(&format!("died after effect {number}")).await;
        let stories = world.stories().await;
        let ended: BTreeSet<String> = world.told(measure::BATCH_ENDED).into_iter().map(|line| line.batch).collect();
        assert_eq!(ended, stories.iter().map(|(batch, _)| batch.clone()).collect(), "died after effect {number}");
        let (_, story) = stories.last().unwrap();
        let unknown: Vec<_> = guards(&world.definition, story.objects, &story.counts)
            .into_iter()
            .filter(|guard| guard.is_met().is_none() && guard.kind.name() != "row_variance")
            .collect();
        assert!(unknown.is_empty(), "died after effect {number}: {unknown:#?}");
        died.insert(taken);
    }
    assert!(died.len() > 1, "it died before its take, and after");
}

/// A batch that a take doesn't go on with is told, and its story is there: here the definition changed under it.
#[tokio::test]
async fn a_batch_that_is_not_gone_on_with_is_told_too() {
    let mut world = World::new(&with_lookback()).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(40));
    world.warehouse.set_pace("/stage", Pace::After(Duration::from_secs(10_000)));
    world.rebuild().await;
    let before = world.item(DAY).batch.expect("it stages");
    world.warehouse.set_pace("/stage", Pace::AtOnce);
    world.put_in_force(&TOML.replace("interval = \"0s\"", "interval = \"0s\"\nload_window = \"20m\""), Epoch(1)).await;
    world.rest("").await;
    let ended = world.told(measure::BATCH_ENDED);
    assert_eq!((ended[0].batch.clone(), ended[0].status), (before.id.to_string(), "given_up"), "{ended:#?}");
    let lookback = Some(3 * 24 * 3600);
    assert_eq!((ended[0].source_objects, ended[0].lookback_seconds), (Some(1), lookback), "its own definition's");
    assert_eq!(ended.len(), 2);
    let outcomes: Vec<Outcome> = world.stories().await.into_iter().map(|(_, story)| story.outcome).collect();
    assert_eq!(outcomes, [Outcome::GivenUp, Outcome::Committed]);
}

/// The batch of a dataset that is retired ends, with its line and its story.
#[tokio::test]
async fn the_batch_of_a_retired_dataset_is_told_too() {
    let mut world = World::new(&with_lookback()).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(40));
    world.warehouse.set_pace("/stage", Pace::After(Duration::from_secs(1_000)));
    world.rebuild().await;
    let batch = world.item(DAY).batch.expect("it stages").id.to_string();
    world.set_head(&[("mode", serde_json::to_value(Mode::Retired).unwrap())]);
    world.rest("").await;
    assert!(world.item(DAY).batch.is_none());
    let ended = world.told(measure::BATCH_ENDED);
    assert_eq!(ended.iter().map(|line| line.batch.as_str()).collect::<Vec<_>>(), [&batch], "{ended:#?}");
    let stories = world.stories().await;
    assert_eq!((stories[0].0.clone(), stories[0].1.outcome), (batch, Outcome::GivenUp));
}
