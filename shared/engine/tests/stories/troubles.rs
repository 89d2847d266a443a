//! A rebuild that meets trouble: a state table put back to a backup, slow or blocked statements, workers that die again and
//! again, a source that changes under COPY.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tidemark_domain::dataset::Mode;
use tidemark_domain::id::Epoch;
use tidemark_domain::partition::Phase;
use tidemark_domain::sql::rows::Field;
use tidemark_domain::update::{Item, Key};
use tidemark_engine::memory::{End, Fault, Pace, Plan};
use tidemark_engine::rebuild::Answer;

use super::world::{TOML, World};

const DAY: &str = "dt=2026-11-01";

/// A world whose partition has landed once, and its state table as it was then.
async fn landed_once() -> (World, BTreeMap<Key, Item>) {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.rest("").await;
    let backup = world.state.items();
    (world, backup)
}

/// The state table is put back to a backup.
fn restore(world: &World, backup: BTreeMap<Key, Item>) {
    for (key, item) in backup {
        world.state.put(key, item);
    }
}

#[tokio::test]
async fn a_state_table_put_back_to_a_backup_is_noticed_fenced_looked_up_and_rebuilt_for_real() {
    for later in [1, 5] {
        let (mut world, backup) = landed_once().await;
        for n in 0..later {
            world.put(&format!("{DAY}/b.csv"), &format!("1{n}\n")).await;
            world.rest("").await;
        }
        let ahead = world.item(DAY);
        restore(&world, backup);
        world.put(&format!("{DAY}/c.csv"), "3\n").await;
        world.rest("restored").await;
        let context = format!("{later} commits are not in the backup");
        assert_eq!(world.rows()[DAY].len(), 3, "{context}");
        world.assert_at_rest(&context).await;
        let item = world.item(DAY);
        assert!(item.marked > ahead.marked && item.fence > ahead.fence, "{context}: both went on, never back");
        assert_eq!(world.warehouse.ledger().len(), later + 2, "{context}: rebuilt once, for real");
        let alerts = world.announcer.alerts();
        assert_eq!(alerts.len(), 1, "{context}: {alerts:?}");
        assert!(alerts[0].subject.starts_with("restored: ") && alerts[0].body.contains("backup"), "{alerts:?}");
    }
}

#[tokio::test]
async fn a_restored_partition_with_a_batch_in_flight_is_rebuilt_all_the_same() {
    // The backup holds a batch in its swap, which has landed since, and another after it.
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(31));
    world.warehouse.set_pace("/swap", Pace::After(Duration::from_mins(3)));
    world.rebuild().await.unwrap();
    let backup = world.state.items();
    world.put(&format!("{DAY}/b.csv"), "2\n").await;
    world.rest("").await;
    assert_eq!(world.warehouse.ledger().len(), 2);
    restore(&world, backup);
    world.put(&format!("{DAY}/c.csv"), "3\n").await;
    world.rest("restored").await;
    world.assert_true("restored in flight").await;
}

/// Found by sim: the backup holds a batch that lists, which had staged before it was given up. What it lists now has as many rows as
/// what it had staged.
#[tokio::test]
async fn a_restored_batch_that_lists_anew_does_not_take_what_it_staged_before_for_its_own() {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(31));
    world.plan = Plan::down("objects.list");
    world.rebuild().await.unwrap();
    world.plan = Plan::quiet();
    let backup = world.state.items();
    let batch = world.item(DAY).batch.unwrap();
    assert_eq!(batch.phase, Phase::Listing);
    world.warehouse.end_next("/swap", End::Fail("The connection attempt failed.".to_owned()));
    while world.submitted("/swap") == 0 {
        world.rounds(1).await;
    }
    assert_eq!(world.item(DAY).batch.unwrap().id, batch.id, "it has staged, and not swapped");
    restore(&world, backup);
    world.put(&format!("{DAY}/a.csv"), "2\n").await;
    world.rest("restored").await;
    world.assert_true("restored while it listed").await;
}

/// Found by sim: its stage was told as failed and had run, so that the next try found the table; then a restored warehouse had none.
#[tokio::test]
async fn a_staging_table_that_goes_before_it_is_counted_again_is_made_anew_and_halts_nothing() {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.mark().await;
    let before = world.warehouse.backup();
    world.warehouse.end_next("/stage", End::RunButFail("The connection attempt failed.".to_owned()));
    world.plan = Plan::down("warehouse.result");
    while world.submitted("/recount") == 0 {
        world.rounds(1).await;
    }
    assert_eq!(world.item(DAY).batch.unwrap().attempt, 2);
    world.warehouse.restore(&before);
    world.plan = Plan::quiet();
    world.rounds(30).await;
    assert_eq!(world.head().mode, Mode::Active, "{:?}", world.head().why);
    world.assert_true("staged anew").await;
    assert_eq!(world.announcer.alerts(), []);
}

#[tokio::test]
async fn the_second_overrun_of_the_load_window_in_a_row_parks() {
    let mut world = World::new(TOML).await;
    world.warehouse.set_pace("/stage", Pace::After(Duration::from_hours(2)));
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.rest("").await;
    let parked = world.item(DAY).parked.unwrap();
    assert_eq!(parked.kind, "too_slow", "{}", parked.message);
    for word in ["load window is 1800 s", "phase staging"] {
        assert!(parked.message.contains(word), "where the time went: {}", parked.message);
    }
    assert_eq!(world.submitted("/stage"), 2, "tried again once, from the beginning");
    assert!(world.warehouse.running().is_empty(), "what overran was cancelled");
    let alerts = world.announcer.alerts();
    assert_eq!(alerts.len(), 1, "alarmed at the first, told once: {alerts:?}");
    world.warehouse.set_pace("/stage", Pace::AtOnce);
    world.replay(DAY, &json!({}));
    world.rest("").await;
    world.assert_true("quick again").await;
}

#[tokio::test]
async fn a_slow_night_alone_does_not_park() {
    let mut world = World::new(TOML).await;
    world.warehouse.end_next("/stage", End::Fail("ERROR: canceling statement due to statement timeout".to_owned()));
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.rest("").await;
    world.assert_true("the second time it was quick").await;
    assert_eq!(world.item(DAY).holds, None, "and the count begins anew");
}

#[tokio::test]
async fn c157_who_waits_for_somebodys_lock_is_no_overrun_and_the_alert_names_the_blocker() {
    let mut world = World::new(TOML).await;
    world.warehouse.set_pace("/swap", Pace::ByHand);
    world.warehouse.set_blocker(4_711, "dashboard");
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.rounds(300).await;
    let item = world.item(DAY);
    assert_eq!(item.parked, None, "two and a half hours of waiting never park");
    assert_eq!(item.holds.as_ref().map(|holds| holds.kind.as_str()), Some("contended"));
    let alerts = world.announcer.alerts();
    assert_eq!(alerts.len(), 1, "told once: {alerts:?}");
    for word in ["contended", "pid 4711", "user dashboard"] {
        let told = format!("{}\n{}", alerts[0].subject, alerts[0].body);
        assert!(told.contains(word), "{word:?} is told: {told}");
    }
    // A swap of a minute, and nobody is in its way: it has its whole load window.
    world.warehouse.set_pace("/swap", Pace::After(Duration::from_mins(1)));
    world.warehouse.forget_blocker();
    world.rest("the dashboard was closed").await;
    world.assert_true("the dashboard was closed").await;
    assert_eq!(world.submitted("/stage"), 1, "what was staged stays staged");
    assert_eq!(world.announcer.alerts().len(), 1, "and isn't too slow");
}

/// Nobody may look at who holds locks: that is no sign that the statement is slow by itself.
#[tokio::test]
async fn who_waits_is_not_parked_as_too_slow_because_nobody_can_be_asked_for_whom() {
    let mut world = World::new(TOML).await;
    world.warehouse.set_pace("/swap", Pace::ByHand);
    for _ in 0..3_000 {
        let denied = "ERROR: permission denied for relation svv_transactions";
        world.warehouse.end_next("/blockers", End::Fail(denied.to_owned()));
    }
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.rounds(300).await;
    assert_eq!(world.item(DAY).parked, None);
    let alerts = world.announcer.alerts();
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    assert!(alerts[0].body.contains("permission denied for relation svv_transactions"), "{alerts:?}");
    world.warehouse.set_pace("/swap", Pace::AtOnce);
    world.warehouse.forget_ends();
    world.rest("the dashboard was closed").await;
    world.assert_true("the dashboard was closed").await;
}

#[tokio::test]
async fn conflicts_are_tried_again_with_what_is_staged_and_alarmed_only_when_they_last() {
    let mut world = World::new(TOML).await;
    for _ in 0..3 {
        let error =
            "ERROR: 1023 DETAIL: Serializable isolation violation on table - 100, transactions forming the cycle";
        world.warehouse.end_next("/swap", End::Fail(error.to_owned()));
    }
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.rest("").await;
    world.assert_true("conflicts").await;
    assert_eq!((world.submitted("/stage"), world.submitted("/swap")), (1, 4));
    assert_eq!(world.announcer.alerts(), []);
}

#[tokio::test]
async fn ten_takes_in_a_row_that_die_park_as_stuck() {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.mark().await;
    let mut takes = 0;
    while world.item(DAY).parked.is_none() {
        world.clock.advance(Duration::from_mins(6));
        world.sweep().await;
        world.clock.advance(Duration::from_secs(31));
        // The first write of a rebuild is its take; then its worker dies.
        let quiet = Plan::quiet();
        world.plan = if takes < 10 { Plan::at(3, Fault::DieAfter) } else { quiet };
        if let Some(answer) = world.rebuild().await {
            takes += 1;
            assert_eq!(answer.is_none(), takes <= 10, "take {takes}: {answer:?}");
        }
        world.plan = Plan::quiet();
        assert!(takes <= 11, "it parks at the eleventh take");
    }
    let parked = world.item(DAY).parked.unwrap();
    assert_eq!((parked.kind.as_str(), takes), ("stuck", 11));
    assert!(parked.message.contains("10 takes in a row died in phase listing"), "{}", parked.message);
    world.replay(DAY, &json!({}));
    world.rest("").await;
    world.assert_true("whatever killed it is mended").await;
}

#[tokio::test]
async fn c079_hand_offs_are_no_attempts_however_often_the_message_is_received() {
    let mut world = World::new(&TOML.replace("interval =", "load_window = \"6h\"\ninterval =")).await;
    world.warehouse.set_pace("/stage", Pace::ByHand);
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(31));
    for _ in 0..12 {
        assert_eq!(world.rebuild().await, Some(Some(Answer::Back)));
    }
    let item = world.item(DAY);
    assert!(item.fence.0 > 11 && item.parked.is_none() && item.tries <= 1, "handed off, each with a write: {item:?}");
}

#[tokio::test]
async fn c118_an_object_overwritten_under_the_copy_begins_anew_and_is_never_parked() {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.put(&format!("{DAY}/b.csv"), "2\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(31));
    world.warehouse.set_pace("/stage", Pace::After(Duration::from_mins(3)));
    assert_eq!(world.rebuild().await, Some(Some(Answer::Back)));
    let first = world.item(DAY).batch.unwrap().id;
    world.put(&format!("{DAY}/a.csv"), "11\n12\n").await;
    world.warehouse.set_pace("/stage", Pace::AtOnce);
    world.rest("").await;
    world.assert_true("overwritten under the COPY").await;
    assert_eq!((world.submitted("/stage"), world.warehouse.ledger().len()), (2, 1), "the first is never swapped");
    assert_ne!(world.item(DAY).last.unwrap().batch, first);
    assert_eq!(world.announcer.alerts(), []);
}

#[tokio::test]
async fn c120_c122_an_object_that_goes_under_the_copy_fails_it_and_begins_anew() {
    let mut world = World::new(&TOML.replace("row_drop", "missing_objects = \"accept\"\nrow_drop")).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.put(&format!("{DAY}/b.csv"), "2\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(31));
    world.warehouse.set_pace("/stage", Pace::After(Duration::from_mins(3)));
    assert_eq!(world.rebuild().await, Some(Some(Answer::Back)));
    world.delete(&format!("{DAY}/b.csv"));
    world.warehouse.set_pace("/stage", Pace::AtOnce);
    world.rest("").await;
    world.assert_true("gone under the COPY").await;
    assert_eq!(world.announcer.alerts(), [], "no change of the source parks or alarms");
}

#[tokio::test]
async fn c123_told_aborted_but_staged_is_counted_again_and_never_doubled() {
    let mut world = World::new(TOML).await;
    world.warehouse.end_next("/stage", End::RunButFail("The connection attempt failed.".to_owned()));
    world.put(&format!("{DAY}/a.csv"), "1\n2\n").await;
    world.rest("").await;
    world.assert_true("staged, though told as failed").await;
    assert_eq!(world.warehouse.ledger()[0]["staged_rows"], Field::Long(2));
}

#[tokio::test]
async fn another_stacks_guard_row_halts_the_dataset_and_touches_nothing() {
    let mut world = World::new(TOML).await;
    let other = tidemark_domain::id::StackName::new("another-stack").unwrap();
    let own =
        tidemark_domain::sql::install::own(&world.definition.target, &other, &world.definition.name, Epoch(1), true);
    world.warehouse.run_batch(&own.unwrap()).unwrap();
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.rounds(10).await;
    assert!(world.head().why.unwrap().contains("another-stack"));
    assert!(world.rows().is_empty());
    assert_eq!(world.announcer.alerts().len(), 1);
}
