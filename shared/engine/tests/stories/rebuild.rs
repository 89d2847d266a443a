//! The main job without faults in the services: marks, rebuilds, late files, guards, hand-offs, operators.

use std::time::Duration;

use tidemark_domain::failure::FailureKind;
use tidemark_engine::memory::Pace;
use tidemark_engine::ports::{Clock as _, StateStore as _};
use tidemark_engine::rebuild::Answer;

use super::world::{TOML, World};

const DAY: &str = "dt=2026-11-01";

#[tokio::test]
async fn files_land_and_their_partitions_are_rebuilt() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n2\n").await;
    world.put("dt=2026-11-01/b.csv", "3\n").await;
    world.put("dt=2026-11-02/a.csv", "4\n").await;
    world.rest("").await;
    world.assert_true("three files").await;
    assert_eq!(world.warehouse.ledger().len(), 2, "one swap a partition");
    world.put("dt=2026-11-01/late.csv", "5\n").await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    world.assert_true("a late file and an overwrite").await;
    assert_eq!(world.warehouse.ledger().len(), 3, "just that partition again");
    assert_eq!(world.warehouse.staging_tables(), [""; 0], "staging tables are dropped");
    assert_eq!(world.queue.dead_letters(), []);
}

#[tokio::test]
async fn a_burst_costs_one_rebuild() {
    let mut world = World::new(TOML).await;
    for n in 0..200 {
        world.put(&format!("{DAY}/{n:03}.csv"), &format!("{n}\n")).await;
        if n % 10 == 0 {
            world.mark().await;
            world.clock.advance(Duration::from_secs(1));
        }
    }
    world.rest("").await;
    world.assert_true("a burst").await;
    assert!(world.warehouse.ledger().len() <= 2, "200 files, {} swaps", world.warehouse.ledger().len());
}

#[tokio::test]
async fn c159_a_mark_that_changes_nothing_does_not_touch_redshift() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    let submitted = world.warehouse.submitted();
    let mark = tidemark_domain::writes::mark(&world.id(DAY), 0, world.clock.now());
    world.state.write(&[mark], "mark").await.unwrap();
    world.rest("").await;
    world.assert_true("a mark for nothing").await;
    assert_eq!(world.warehouse.submitted(), submitted, "no statement for an unchanged partition");
}

#[tokio::test]
async fn c162_a_two_hour_copy_is_loaded_once() {
    let mut world = World::new(&TOML.replace("interval = \"0s\"", "interval = \"0s\"\nload_window = \"6h\"")).await;
    world.warehouse.set_pace("/stage", Pace::After(Duration::from_hours(2)));
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    world.assert_true("a long COPY").await;
    let stages = world.warehouse.submitted().into_iter().filter(|name| name.ends_with("/stage")).collect::<Vec<_>>();
    let batch = world.item(DAY).last.unwrap().batch;
    assert_eq!(stages, [format!("tidemark/orders/{DAY}/{batch}/stage")], "I11: a COPY is made once, by one batch");
    let fence = world.item(DAY).fence;
    assert!(fence.0 > 20, "it was handed off again and again: fence {fence}");
}

#[tokio::test]
async fn a_bad_file_parks_its_partition_and_a_better_one_heals_it() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    world.put("dt=2026-11-01/b.csv", "2\nx#bad\n").await;
    world.rest("").await;
    let parked = world.item(DAY).parked.unwrap();
    assert_eq!(parked.kind, FailureKind::RejectedData.name(), "{}", parked.message);
    for word in ["b.csv", "line 2", "amount"] {
        assert!(parked.message.contains(word), "{word:?} is named: {}", parked.message);
    }
    assert_eq!(world.rows()[DAY], ["1"], "the target is untouched");
    assert_eq!(world.announcer.alerts().len(), 1);
    world.assert_ledger("parked");
    world.put("dt=2026-11-01/b.csv", "2\n").await;
    world.rest("").await;
    world.assert_true("healed").await;
    assert_eq!(world.item(DAY).parked, None);
}

#[tokio::test]
async fn an_emptied_source_holds_then_parks_and_a_replay_that_accepts_empties_it() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    world.delete("dt=2026-11-01/a.csv");
    world.rest("").await;
    let parked = world.item(DAY).parked.unwrap();
    assert_eq!(parked.kind, "empty_source");
    assert_eq!(world.rows()[DAY], ["1"], "the rows are kept");
    let digest = parked.digest.unwrap();
    let body = serde_json::json!({"version": 1, "dataset": "orders", "partition": DAY, "accept": ["empty_source", "missing_objects"], "digest": digest});
    world.queue.put(&body.to_string(), "by hand");
    world.rest("").await;
    world.assert_true("accepted").await;
    assert!(world.rows().is_empty());
}

#[tokio::test]
async fn a_replay_rebuilds_a_healthy_partition_once() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    world.queue.put(&format!(r#"{{"version":1,"dataset":"orders","partition":"{DAY}"}}"#), "by hand");
    world.rest("").await;
    world.assert_true("replayed").await;
    assert_eq!(world.warehouse.ledger().len(), 2, "once more, though nothing changed");
}

#[tokio::test]
async fn foreign_rows_are_not_deleted_unasked() {
    let mut world = World::new(TOML).await;
    world.warehouse.put_rows(&world.definition.target, "\"dt\" = DATE '2026-11-01'", &["theirs"]).unwrap();
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    assert_eq!(world.item(DAY).parked.unwrap().kind, "foreign_rows");
    assert_eq!(world.rows()[DAY], ["theirs"]);
    let body = serde_json::json!({"version": 1, "dataset": "orders", "partition": DAY, "accept": ["foreign_rows"]});
    world.queue.put(&body.to_string(), "by hand");
    world.rest("").await;
    world.assert_true("accepted").await;
}

#[tokio::test]
async fn a_message_nobody_can_read_goes_to_the_dead_letters() {
    let mut world = World::new(TOML).await;
    world.queue.put("not json", "by hand");
    world.queue.put(r#"{"version":1,"dataset":"unknown","partition":"dt=1","generation":1}"#, "by hand");
    world.queue.put(r#"{"version":1,"dataset":"orders","partition":"dt=nonsense"}"#, "by hand");
    world.rest("").await;
    let letters = world.queue.dead_letters();
    assert_eq!(letters.len(), 3, "{letters:?}");
    assert!(letters.iter().all(|letter| letter.reason.is_some()));
}

#[tokio::test]
async fn a_worker_whose_copy_outlives_it_hands_off_and_its_copy_is_found_again() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(31));
    // The first worker's COPY runs past its deadline, so it hands off; before it comes back, somebody else takes it.
    world.warehouse.set_pace("/stage", Pace::After(Duration::from_mins(3)));
    let first = world.queue.deliver().unwrap();
    assert_eq!(world.rebuild_with(&first).await, Some(Answer::Back), "handed off");
    let fence = world.item(DAY).fence;
    world.rest("").await;
    world.assert_true("taken over").await;
    assert!(world.item(DAY).fence > fence);
    assert_eq!(world.warehouse.ledger().len(), 1);
}

#[tokio::test]
async fn a_restored_warehouse_is_rebuilt_by_a_replay() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    let backup = world.warehouse.backup();
    world.put("dt=2026-11-01/b.csv", "2\n").await;
    world.rest("").await;
    world.warehouse.restore(&backup);
    world.queue.put(&format!(r#"{{"version":1,"dataset":"orders","partition":"{DAY}"}}"#), "by hand");
    world.rest("").await;
    assert_eq!(world.rows()[DAY], ["1", "2"]);
}
