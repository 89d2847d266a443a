//! What stands in the control bucket: written twice and late, gone, damaged.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tidemark_domain::partition::Phase;
use tidemark_engine::inventory::Parts;
use tidemark_engine::memory::{Fault, Plan};
use tidemark_engine::ports::Objects as _;

use super::overtaken::{Stepwise, in_phase, marked};
use super::world::{TOML, World};

const DAY: &str = "dt=2026-11-01";

/// The names of the files that the last commit's inventory says were loaded.
async fn inventory(world: &World) -> Vec<String> {
    let inventory = world.item(DAY).last.unwrap().inventory;
    let mut parts = Parts::new(&world.objects, "control", Some(inventory));
    let mut files = vec![];
    while let Some(part) = parts.next_part().await.unwrap() {
        files.extend(part.iter().map(|entry| entry.key.rsplit('/').next().unwrap().to_owned()));
    }
    files
}

fn contents(world: &World) -> Vec<(String, Bytes)> {
    let keys = world.objects.keys("control").into_iter();
    keys.map(|key| (key.clone(), world.objects.object("control", &key).unwrap().0)).collect()
}

#[tokio::test]
async fn what_an_attempt_before_wrote_arrives_again_and_changes_nothing() {
    let quiet = Plan::quiet();
    let mut peaceful = marked().await;
    peaceful.plan = quiet.clone();
    peaceful.rebuild().await;
    let finish = quiet.steps().into_iter().find(|step| step.call == "objects.finish").unwrap();
    // Its inventory is whole, and so is its manifest, but it isn't told so: it is put off, and the batch kept.
    let mut world = marked().await;
    world.plan = Plan::at(finish.number, Fault::FailAfter);
    world.rebuild().await;
    world.plan = Plan::quiet();
    let first = world.item(DAY).batch.unwrap();
    let wrote = contents(&world);
    assert_eq!(wrote.len(), 3, "a part, an index, a manifest: {wrote:?}");
    world.put(&format!("{DAY}/b.csv"), "2\n").await;
    world.clock.advance(Duration::from_mins(1));
    let mut second = Stepwise::begin(&mut world);
    second.until(&world, in_phase(Phase::Staging));
    assert_eq!(world.item(DAY).batch.unwrap().id, first.id, "the same batch goes on");
    for (key, bytes) in &wrote {
        world.objects.put("control", key, bytes.clone()).await.unwrap();
    }
    let _answer = second.finish(&world);
    assert_eq!(world.rows()[DAY], ["1", "2"], "what was listed last is what was loaded");
    for (key, bytes) in wrote {
        world.objects.put("control", &key, bytes).await.unwrap();
    }
    world.rest("").await;
    world.assert_true("late copies").await;
    assert_eq!(inventory(&world).await, ["a.csv", "b.csv"]);
}

/// Two files are loaded; then what is kept of them is gone, or isn't as it was written.
async fn spoiled(toml: &str, part: bool, gone: bool) -> World {
    let mut world = World::new(toml).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.put(&format!("{DAY}/b.csv"), "2\n").await;
    world.rest("").await;
    let of_parts = |key: &String| key.contains("/part-") == part && key.starts_with("inventory/");
    let key = world.objects.keys("control").into_iter().find(of_parts).unwrap();
    if gone {
        assert!(world.objects.delete("control", &key));
    } else {
        world.objects.put("control", &key, Bytes::from_static(b"{}")).await.unwrap();
    }
    world
}

#[tokio::test]
async fn without_the_last_inventory_nobody_knows_what_is_gone_which_is_told_and_can_be_accepted() {
    for (part, gone) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut world = spoiled(TOML, part, gone).await;
        world.put(&format!("{DAY}/c.csv"), "3\n").await;
        world.rest("").await;
        let parked = world.item(DAY).parked.unwrap();
        assert_eq!(parked.kind, "missing_objects");
        let why = if gone { "it is gone" } else { "it isn't as it was written" };
        assert!(parked.message.contains("s3://control/inventory/") && parked.message.contains(why), "{parked:?}");
        assert!(parked.message.ends_with("replay with accept missing_objects"), "{parked:?}");
        assert_eq!(world.rows()[DAY], ["1", "2"], "the target keeps what it holds");
        world.replay(DAY, &json!({"accept": ["missing_objects"], "digest": parked.digest.unwrap()}));
        world.rest("").await;
        world.assert_true("accepted").await;
        world.put(&format!("{DAY}/d.csv"), "4\n").await;
        world.rest("").await;
        world.assert_true("the next inventory is a whole one").await;
        assert_eq!(inventory(&world).await, ["a.csv", "b.csv", "c.csv", "d.csv"]);
    }
}

#[tokio::test]
async fn without_the_last_inventory_a_rebuild_goes_on_where_objects_may_go_or_nothing_changed() {
    let accepts = TOML.replace("row_drop = \"accept\"", "row_drop = \"accept\"\nmissing_objects = \"accept\"");
    let mut world = spoiled(&accepts, true, true).await;
    world.put(&format!("{DAY}/c.csv"), "3\n").await;
    world.rest("").await;
    world.assert_true("whatever is gone may be gone").await;

    let mut world = spoiled(TOML, false, true).await;
    world.put(&format!("{DAY}/c.csv"), "3\n").await;
    world.delete(&format!("{DAY}/c.csv"));
    world.rest("").await;
    world.assert_true("the digest says that nothing changed").await;
}

#[tokio::test]
async fn put_back_in_time_it_is_read_as_if_it_never_was_gone() {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.rest("").await;
    let before = contents(&world);
    world.objects.delete("control", &world.item(DAY).last.unwrap().inventory);
    world.put(&format!("{DAY}/b.csv"), "2\n").await;
    world.rounds(6).await;
    assert_eq!(world.item(DAY).holds.unwrap().kind, "missing_objects");
    for (key, bytes) in before {
        world.objects.put("control", &key, bytes).await.unwrap();
    }
    world.rest("").await;
    world.assert_true("put back").await;
    assert_eq!(world.announcer.alerts(), []);
}

#[tokio::test]
async fn a_batch_whose_own_inventory_goes_parks_and_a_replay_lists_anew() {
    let mut world = marked().await;
    let mut first = Stepwise::begin(&mut world);
    first.until(&world, in_phase(Phase::Staging));
    let inventory = world.item(DAY).batch.unwrap().listed.unwrap().inventory;
    assert!(world.objects.delete("control", &inventory));
    let _answer = first.finish(&world);
    let parked = world.item(DAY).parked.unwrap();
    assert_eq!(parked.kind, "bug");
    assert!(parked.message.contains(&inventory) && parked.message.ends_with("replay, which lists anew"), "{parked:?}");
    world.replay(DAY, &json!({}));
    world.rest("").await;
    world.assert_true("listed anew").await;
}
