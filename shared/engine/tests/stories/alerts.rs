//! Alerts: many at once are few mails, and no cause is lost for it.

use std::time::Duration;

use serde_json::json;
use tidemark_domain::alert::Gathered;
use tidemark_engine::memory::Plan;

use super::world::{TOML, World};

/// Files that can't be read: each partition parks by itself.
fn unreadable() -> String {
    TOML.replace("\"csv\"", "\"parquet\"")
        .replace("interval = \"0s\"", "interval = \"0s\"\nconcurrency = \"partition\"")
}

fn day(n: i64) -> String {
    format!("dt={}", jiff::civil::date(2026, 1, 1).checked_add(jiff::Span::new().days(n)).unwrap())
}

fn subjects(world: &World) -> Vec<String> {
    world.announcer.alerts().into_iter().map(|alert| alert.subject).collect()
}

async fn park(world: &mut World, days: std::ops::Range<i64>) {
    for n in days {
        world.put(&format!("{}/a.parquet", day(n)), "no parquet\n").await;
    }
    world.rest("parked").await;
}

#[tokio::test]
async fn three_hundred_partitions_that_park_at_once_are_two_mails_and_three_hundred_events() {
    let mut world = World::new(&unreadable()).await;
    park(&mut world, 0..300).await;
    assert!(world.items().values().all(tidemark_domain::partition::PartitionItem::rests_parked));
    assert_eq!(subjects(&world).len(), 1, "the first at once: {:?}", subjects(&world));
    world.clock.advance(Duration::from_mins(16));
    world.sweep().await;
    let alerts = world.announcer.alerts();
    assert_eq!(alerts.len(), 2, "{:?}", subjects(&world));
    assert_eq!(alerts[1].subject, "rejected_data: 299 more of orders");
    for words in [
        "kind rejected_data for dataset orders",
        "Parked for it now: 100 or more",
        "not a readable Parquet file",
        "`tidemark status`",
    ] {
        assert!(alerts[1].body.contains(words), "{words}: {}", alerts[1].body);
    }
    assert!(alerts[1].body.lines().filter(|line| line.starts_with("  dt=2026-")).count() == 20, "{}", alerts[1].body);
    let parked: std::collections::BTreeSet<String> = world
        .announcer
        .events()
        .into_iter()
        .filter(|event| event.detail_type == "Partition Parked")
        .filter_map(|event| Some(event.detail["partition"].as_str()?.to_owned()))
        .collect();
    assert_eq!(parked.len(), 300, "each partition's own cause is told by its event");
    world.rounds(200).await;
    assert_eq!(world.announcer.alerts().len(), 2, "and nothing more");
}

#[tokio::test]
async fn a_partition_that_parks_after_the_window_is_told_at_once_again() {
    let mut world = World::new(&unreadable()).await;
    park(&mut world, 0..1).await;
    world.clock.advance(Duration::from_mins(16));
    world.sweep().await;
    park(&mut world, 1..2).await;
    assert_eq!(subjects(&world).len(), 2, "{:?}", subjects(&world));
}

#[tokio::test]
async fn kinds_are_told_each_by_itself() {
    let mut world = World::new(&unreadable()).await;
    park(&mut world, 0..3).await;
    world.replay(&day(9), &json!({}));
    world.rest("nothing is there").await;
    let told = subjects(&world);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].starts_with("empty_source: "), "{told:?}");
}

/// A worker dies, or SNS does, between the claim of the mail and the mail: it is sent all the same, and what was counted too.
#[tokio::test]
async fn a_mail_that_fails_is_sent_later() {
    let mut world = World::new(&unreadable()).await;
    world.put(&format!("{}/a.parquet", day(0)), "no parquet\n").await;
    world.put(&format!("{}/a.parquet", day(1)), "no parquet\n").await;
    world.plan = Plan::down("announcer.alert");
    world.rounds(6).await;
    assert_eq!(subjects(&world).len(), 0);
    world.plan = Plan::quiet();
    world.rest("the topic is back").await;
    world.clock.advance(Duration::from_mins(20));
    world.sweep().await;
    let told = subjects(&world);
    assert!(
        told.iter().any(|subject| subject.contains(&day(0))) || told.iter().any(|subject| subject.contains(&day(1))),
        "{told:?}"
    );
    assert!(told.iter().any(|subject| subject.ends_with("more of orders")), "{told:?}");
}

#[tokio::test]
async fn what_a_sweep_could_not_tell_the_next_one_tells() {
    let mut world = World::new(&unreadable()).await;
    park(&mut world, 0..5).await;
    world.clock.advance(Duration::from_mins(16));
    world.plan = Plan::down("announcer.alert");
    world.sweep().await;
    world.plan = Plan::quiet();
    assert_eq!(subjects(&world).len(), 1);
    world.sweep().await;
    world.sweep().await;
    assert_eq!(subjects(&world), [subjects(&world)[0].clone(), "rejected_data: 4 more of orders".to_owned()]);
    let stored = world.state.items().into_iter().find(|(key, _)| key.sk.starts_with("ALERT#")).unwrap().1;
    assert_eq!(Gathered::from_item(&stored).unwrap().more, 0);
}
