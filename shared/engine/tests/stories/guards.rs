//! What holds a partition back or parks it, and what lets it go on.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use tidemark_domain::partition::Parked;
use tidemark_engine::ports::Clock as _;

use super::world::{TOML, World};

const DAY: &str = "dt=2026-11-01";

/// With the definition's own tolerance of fewer rows.
fn strict() -> String {
    TOML.replace("row_drop = \"accept\"", "")
}

fn rows(count: usize) -> String {
    (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join("\n")
}

impl World {
    /// A file that isn't let in: the partition parks, and the target keeps what it had.
    async fn parks(&mut self, name: &str, lines: &str) -> Parked {
        let before = self.rows();
        self.put(&format!("{DAY}/{name}"), lines).await;
        self.rest("").await;
        assert_eq!(self.rows(), before, "the target is untouched");
        assert_eq!(self.announcer.alerts().len(), 1, "{:?}", self.announcer.alerts());
        self.assert_ledger("parked");
        self.item(DAY).parked.unwrap()
    }
}

#[tokio::test]
async fn rows_that_break_a_rule_park_at_once_and_the_message_says_which_and_how_many() {
    let cases = [
        ("2#null\n3#null\n", "required_null", "null in 2 staged rows"),
        ("1\n", "duplicate_keys", "1 staged rows repeat the key (order_id)"),
    ];
    for (lines, kind, words) in cases {
        let mut world = World::new(TOML).await;
        world.put(&format!("{DAY}/a.csv"), "1\n").await;
        world.rest("").await;
        let parked = world.parks("b.csv", lines).await;
        assert_eq!(parked.kind, kind);
        assert!(parked.message.contains(words), "{}", parked.message);
        world.put(&format!("{DAY}/b.csv"), "2\n").await;
        world.rest("").await;
        world.assert_true("mended").await;
    }
}

#[tokio::test]
async fn c060_rows_stamped_with_another_day_than_their_path_park_and_touch_neither_day() {
    let in_files = TOML
        .replace("in_files = false", "in_files = true")
        .replace("\"amount decimal(12,2)\"", "\"amount decimal(12,2)\", \"dt date\"");
    let mut world = World::new(&in_files).await;
    world.put("dt=2026-11-02/a.csv", "7\n").await;
    world.rest("").await;
    let parked = world.parks("a.csv", "1\n2#elsewhere\n3#elsewhere\n").await;
    assert_eq!(parked.kind, "other_partition");
    assert!(parked.message.contains("2 staged rows belong to another partition"), "{}", parked.message);
}

#[tokio::test]
async fn several_broken_rules_are_told_together() {
    let mut world = World::new(TOML).await;
    let parked = world.parks("a.csv", "1#null\n1#null\n").await;
    for words in ["2 rules are broken", "null in 2 staged rows", "repeat the key"] {
        assert!(parked.message.contains(words), "{}", parked.message);
    }
}

#[tokio::test]
async fn fewer_rows_are_looked_at_twice_then_park_until_an_operator_accepts_what_was_seen() {
    let mut world = World::new(&strict()).await;
    world.put(&format!("{DAY}/a.csv"), &rows(20)).await;
    world.rest("").await;
    world.put(&format!("{DAY}/a.csv"), &rows(10)).await;
    let marked_at = world.clock.now();
    world.rest("").await;
    let parked = world.item(DAY).parked.unwrap();
    assert_eq!(parked.kind, "row_drop");
    assert!(parked.message.contains("10 rows are staged where the target's partition holds 20"), "{}", parked.message);
    assert_eq!(world.submitted("/stage"), 1 + 2, "held once: a look costs a staging");
    assert!(world.clock.now() >= marked_at + SignedDuration::from_mins(15), "its patience was over");
    assert_eq!(world.announcer.alerts().len(), 1);
    // Accepted, but the lake isn't what the operator saw any more.
    let digest = parked.digest.unwrap();
    world.objects.put_unseen("lake", &format!("orders/{DAY}/a.csv"), &rows(5));
    world.replay(DAY, &json!({"accept": ["row_drop"], "digest": &digest}));
    world.rest("").await;
    let refused = world.item(DAY).parked.unwrap();
    assert_eq!(refused.kind, "row_drop", "accepted was something else");
    let both = format!("row_drop was accepted for digest {digest}, but now {} is listed", refused.digest.unwrap());
    assert!(refused.message.contains(&both), "{}", refused.message);
    assert_eq!(world.rows()[DAY].len(), 20);
    assert_eq!(world.announcer.alerts().len(), 1, "told already");
    let digest = world.item(DAY).parked.unwrap().digest.unwrap();
    world.replay(DAY, &json!({"accept": ["row_drop"], "digest": digest}));
    world.rest("").await;
    world.assert_true("accepted").await;
    assert_eq!(world.rows()[DAY].len(), 5);
}

#[tokio::test]
async fn a_drop_within_the_tolerance_is_let_pass() {
    let mut world = World::new(&strict()).await;
    world.put(&format!("{DAY}/a.csv"), &rows(20)).await;
    world.rest("").await;
    world.put(&format!("{DAY}/a.csv"), &rows(18)).await;
    world.rest("").await;
    world.assert_true("10% fewer").await;
}

#[tokio::test]
async fn rows_that_come_back_within_the_patience_heal_by_themselves() {
    let mut world = World::new(&strict()).await;
    world.put(&format!("{DAY}/a.csv"), &rows(20)).await;
    world.rest("").await;
    world.put(&format!("{DAY}/a.csv"), &rows(10)).await;
    world.rounds(10).await;
    assert_eq!(world.item(DAY).holds.unwrap().kind, "row_drop");
    world.put(&format!("{DAY}/b.csv"), "20\n21\n22\n23\n24\n25\n26\n27\n28\n29\n").await;
    world.rest("").await;
    world.assert_true("the rest came").await;
    assert_eq!(world.announcer.alerts(), []);
}

#[tokio::test]
async fn objects_that_go_as_told_are_let_go_and_more_than_told_hold_then_park() {
    let mut world = World::new(TOML).await;
    for name in ["a", "b", "c", "d"] {
        world.put(&format!("{DAY}/{name}.csv"), &format!("{name}\n")).await;
    }
    world.rest("").await;
    world.delete(&format!("{DAY}/a.csv"));
    world.rest("").await;
    world.assert_true("one went, and its event told").await;
    assert_eq!(world.item(DAY).removed, 0, "what was told is used up");
    // Two go, and one event is lost.
    world.delete(&format!("{DAY}/b.csv"));
    world.delete(&format!("{DAY}/c.csv"));
    world.events.pop_back();
    world.mark().await;
    world.rounds(6).await;
    let holds = world.item(DAY).holds.unwrap();
    assert_eq!(holds.kind, "missing_objects");
    assert!(holds.count >= 2, "it looks again after 1, 2, 4 minutes: {holds:?}");
    world.rest("").await;
    let parked = world.item(DAY).parked.unwrap();
    assert_eq!(parked.kind, "missing_objects");
    assert!(parked.message.contains("2 objects of the last inventory are gone"), "{}", parked.message);
    assert_eq!(world.rows()[DAY], ["b", "c", "d"]);
    assert_eq!(world.submitted("/stage"), 2, "looking again costs a listing, not a staging");
    world.replay(DAY, &json!({"accept": ["missing_objects"], "digest": parked.digest.unwrap()}));
    world.rest("").await;
    world.assert_true("accepted").await;
}

#[tokio::test]
async fn an_overwrite_that_takes_a_while_is_waited_for() {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.rest("").await;
    world.delete(&format!("{DAY}/a.csv"));
    world.rounds(12).await;
    assert_eq!(world.item(DAY).holds.unwrap().kind, "empty_source");
    assert_eq!(world.rows()[DAY], ["1"], "nobody sees an empty partition");
    world.put(&format!("{DAY}/a2.csv"), "2\n").await;
    world.rest("").await;
    world.assert_true("overwritten").await;
    assert_eq!(world.announcer.alerts(), [], "no alert for a job that took six minutes");
}

#[tokio::test]
async fn archived_objects_park_until_their_restore_marks() {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.objects.set_archived("lake", &format!("orders/{DAY}/a.csv"), true);
    world.rest("").await;
    let parked = world.item(DAY).parked.unwrap();
    assert_eq!(parked.kind, "archived_objects");
    assert!(parked.message.contains("a.csv"), "{}", parked.message);
    world.objects.set_archived("lake", &format!("orders/{DAY}/a.csv"), false);
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.rest("").await;
    world.assert_true("restored").await;
}

#[tokio::test]
async fn with_provenance_a_single_foreign_row_is_told_even_where_the_number_fits() {
    let toml = format!("{TOML}\n[orders.provenance]\nbatch_id = \"_batch_id\"\n");
    let mut world = World::new(&toml).await;
    world.put(&format!("{DAY}/a.csv"), "1\n2\n").await;
    world.rest("").await;
    // Somebody deletes one of ours and inserts one of theirs.
    let condition = "\"dt\" = DATE '2026-11-01'";
    world.warehouse.put_rows(&world.definition.target, condition, &["theirs"]).unwrap();
    world.warehouse.take_row(&world.definition.target, condition, "2").unwrap();
    world.put(&format!("{DAY}/b.csv"), "3\n").await;
    world.rest("").await;
    let parked = world.item(DAY).parked.unwrap();
    assert_eq!(parked.kind, "foreign_rows", "{}", parked.message);
    assert_eq!(world.rows()[DAY], ["1", "theirs"]);
    world.replay(DAY, &json!({"accept": ["foreign_rows"]}));
    world.rest("").await;
    world.assert_true("accepted").await;
}

#[tokio::test]
async fn accepting_counts_for_its_own_replay_alone() {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.rest("").await;
    let digest = world.item(DAY).last.unwrap().digest;
    world.replay(DAY, &json!({"accept": ["empty_source", "missing_objects"], "digest": digest}));
    world.rest("").await;
    world.delete(&format!("{DAY}/a.csv"));
    world.clock.advance(Duration::from_secs(1));
    world.rest("").await;
    assert_eq!(world.item(DAY).parked.unwrap().kind, "empty_source");
}

/// When the partition is looked at, in whole minutes after its mark, until it is parked.
async fn looks_until_parked(world: &mut World) -> Vec<i64> {
    let marked_at = world.item(DAY).marked_at;
    let mut looks = Vec::new();
    let mut fence = world.item(DAY).fence;
    for _ in 0..200 {
        world.rounds(1).await;
        let item = world.item(DAY);
        if item.fence != fence {
            fence = item.fence;
            looks.push(world.clock.now().duration_since(marked_at).as_secs() / 60);
        }
        if item.parked.is_some() {
            return looks;
        }
    }
    panic!("never parked; looks: {looks:?}");
}

#[tokio::test]
async fn a_guard_of_the_listing_looks_again_after_1_2_4_minutes_and_row_drop_once_and_both_park_when_patience_is_over()
{
    let mut empty = World::new(TOML).await;
    empty.put(&format!("{DAY}/a.csv"), "1\n").await;
    empty.rest("").await;
    empty.delete(&format!("{DAY}/a.csv"));
    empty.mark().await;
    let looks = looks_until_parked(&mut empty).await;
    assert_eq!(looks.len(), 5, "at once, after 1, 3, 7 minutes and at the end: {looks:?}");
    let gaps: Vec<i64> = looks.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[0] <= 2 && (2..=3).contains(&gaps[1]) && (4..=5).contains(&gaps[2]), "{looks:?}");
    assert_eq!((looks[4], empty.submitted("/stage")), (15, 1), "{looks:?}");

    let mut fewer = World::new(&strict()).await;
    fewer.put(&format!("{DAY}/a.csv"), &rows(20)).await;
    fewer.rest("").await;
    fewer.put(&format!("{DAY}/a.csv"), &rows(10)).await;
    fewer.mark().await;
    let looks = looks_until_parked(&mut fewer).await;
    assert_eq!((looks.len(), looks[1], fewer.submitted("/stage")), (2, 15, 3), "{looks:?}");
}

#[tokio::test]
async fn a_replay_has_no_patience() {
    for (guard, world) in [("empty_source", World::new(TOML).await), ("row_drop", World::new(&strict()).await)] {
        let mut world = world;
        world.put(&format!("{DAY}/a.csv"), &rows(20)).await;
        world.rest("").await;
        match guard {
            "empty_source" => world.delete(&format!("{DAY}/a.csv")),
            _ => world.put(&format!("{DAY}/a.csv"), &rows(10)).await,
        }
        world.mark().await;
        world.replay(DAY, &json!({"reason": "what is it?"}));
        let asked = world.clock.now();
        world.rounds(4).await;
        let parked = world.item(DAY).parked.unwrap_or_else(|| panic!("{guard}: the verdict comes at once"));
        assert_eq!(parked.kind, guard);
        assert!(world.clock.now() < asked + SignedDuration::from_mins(3));
    }
}

#[tokio::test]
async fn c031_a_restored_object_marks_by_its_event_and_only_by_the_completed_one() {
    let mut world = World::new(TOML).await;
    let key = format!("orders/{DAY}/a.csv");
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.objects.set_archived("lake", &key, true);
    world.rest("").await;
    assert_eq!(world.item(DAY).parked.unwrap().kind, "archived_objects");
    world.objects.set_archived("lake", &key, false);
    let event = |name: &str| {
        let s3 = json!({"bucket": {"name": "lake"}, "object": {"key": key.replace('=', "%3D"), "size": 2}});
        json!({"Records": [{"eventVersion": "2.3", "eventSource": "aws:s3", "eventName": name, "s3": s3}]}).to_string()
    };
    for ignored in ["ObjectRestore:Post", "ObjectRestore:Delete"] {
        world.events.push_back(event(ignored));
        world.rest("").await;
        assert_eq!((world.item(DAY).marked.0, world.item(DAY).parked.is_some()), (1, true), "{ignored}");
    }
    world.events.push_back(event("ObjectRestore:Completed"));
    world.rest("").await;
    world.assert_true("restored").await;
    // A committed file that is archived later changes nothing: what is loaded is loaded.
    world.objects.set_archived("lake", &key, true);
    world.events.push_back(event("ObjectRestore:Completed"));
    world.rest("").await;
    assert_eq!((world.item(DAY).parked, world.warehouse.ledger().len()), (None, 1));
}

#[tokio::test]
async fn foreign_rows_are_told_beside_what_else_is_wrong() {
    let mut world = World::new(&strict()).await;
    world.put(&format!("{DAY}/a.csv"), &rows(10)).await;
    world.rest("").await;
    world.warehouse.put_rows(&world.definition.target, "\"dt\" = DATE '2026-11-01'", &["theirs"]).unwrap();
    world.put(&format!("{DAY}/b.csv"), "1\n").await;
    world.rest("").await;
    let parked = world.item(DAY).parked.unwrap();
    for words in ["2 rules are broken", "duplicate_keys: 1 staged rows", "foreign_rows: 1 of the target's 11 rows"] {
        assert!(parked.message.contains(words), "{}", parked.message);
    }
}

/// A small file each ten seconds, for an hour and a half: settling ends after ten minutes, the interval bounds what follows.
#[tokio::test]
async fn a_partition_that_never_stops_receiving_files_is_rebuilt_all_the_same_and_not_too_often() {
    let mut world = World::new(&TOML.replace("interval = \"0s\"", "interval = \"15m\"")).await;
    let began = world.clock.now();
    let mut first = None;
    for n in 0..540 {
        world.put(&format!("{DAY}/{n:04}.csv"), &format!("{n}\n")).await;
        world.mark().await;
        for _ in 0..10 {
            world.clock.advance(Duration::from_secs(1));
            while world.rebuild().await.is_some() {}
        }
        if n % 6 == 0 {
            world.sweep().await;
        }
        if first.is_none() && !world.warehouse.ledger().is_empty() {
            first = Some(world.clock.now().duration_since(began).as_secs() / 60);
        }
    }
    let rebuilds = world.warehouse.ledger().len();
    assert!(
        first.is_some_and(|minutes| minutes <= 12),
        "rebuilt while files still come, first after {first:?} minutes"
    );
    assert!((4..=7).contains(&rebuilds), "{rebuilds} rebuilds in 90 minutes, one each 15 at most");
    world.rest("").await;
    world.assert_true("it stopped at last").await;
}
