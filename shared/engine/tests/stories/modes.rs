//! Datasets that are paused, halted, retired or changed while their partitions are worked on.

use std::time::Duration;

use tidemark_domain::dataset::{Mode, catalog_key};
use tidemark_domain::id::{Epoch, Fence};
use tidemark_domain::partition::Phase;
use tidemark_domain::route::Catalog;
use tidemark_engine::memory::{End, Pace};
use tidemark_engine::ports::Clock as _;
use tidemark_engine::rebuild::Answer;

use super::sweep::sweep;
use super::world::{TOML, World, stack};

const DAY: &str = "dt=2026-11-01";
/// Longer than an invocation.
const LONG: Pace = Pace::After(Duration::from_mins(3));
/// The same rows in other columns: another version of the definition.
const CHANGED: &str = "decimal(14,2)";

/// A day has landed and its statement `/stage` or `/swap` runs in Redshift, handed off.
async fn in_flight(suffix: &str) -> World {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(31));
    world.warehouse.set_pace(suffix, LONG);
    assert_eq!(world.rebuild().await, Some(Some(Answer::Back)), "handed off");
    assert_eq!(world.warehouse.running().len(), 1, "{suffix} runs");
    assert!(world.warehouse.running()[0].name.ends_with(suffix));
    world
}

#[tokio::test]
async fn while_paused_marks_gather_what_is_out_is_followed_and_nothing_begins() {
    let mut world = in_flight("/stage").await;
    world.set_head(&[("mode", "paused".into())]);
    world.put("dt=2026-11-02/a.csv", "2\n").await;
    world.rounds(20).await;
    assert!(world.warehouse.running().is_empty(), "it was followed to its end");
    let item = world.item(DAY);
    let batch = item.batch.clone().unwrap();
    assert_eq!((batch.phase, batch.statement), (Phase::Swapping, None), "verified, and not swapped");
    assert_eq!((world.submitted("/swap"), world.submitted("/stage")), (0, 1));
    assert_eq!(world.item("dt=2026-11-02").marked.0, 1, "marks gather");
    assert!(world.queue.is_empty(), "and nothing goes round in circles");
    world.set_head(&[("mode", "active".into())]);
    world.rest("resumed").await;
    world.assert_true("resumed").await;
    assert_eq!(world.submitted("/stage"), 2, "what was staged is swapped, the other day is staged");
    assert_eq!(world.item(DAY).last.unwrap().batch, batch.id);
}

#[tokio::test]
async fn a_swap_that_is_out_when_the_dataset_is_paused_is_confirmed() {
    let mut world = in_flight("/swap").await;
    world.set_head(&[("mode", "paused".into())]);
    world.rounds(20).await;
    world.assert_true("the swap landed").await;
}

#[tokio::test]
async fn a_misconfiguration_halts_once_is_probed_every_quarter_of_an_hour_and_resumes_by_itself() {
    let mut world = World::new(TOML).await;
    let denied = || End::Fail("ERROR: permission denied for schema tidemark_staging".to_owned());
    for day in 1..=4 {
        world.put(&format!("dt=2026-11-0{day}/a.csv"), "1\n").await;
    }
    // Whatever is submitted in the first hour and a bit is denied.
    for _ in 0..50 {
        world.warehouse.end_next("/stage", denied());
    }
    world.rounds(2).await;
    let since = world.head().since;
    assert_eq!(world.head().mode, Mode::Halted);
    assert!(world.head().why.unwrap().contains("permission denied"));
    assert_eq!(world.submitted("/stage"), 1, "the first failure halts it");
    world.rounds(118).await;
    assert_eq!(world.submitted("/stage"), 1 + 3, "a probe each 15 minutes of an hour");
    assert_eq!(world.announcer.alerts().len(), 1, "{:?}", world.announcer.alerts());
    assert_eq!((world.head().mode, world.head().since), (Mode::Halted, since), "halted since the first failure");
    assert!(world.items().values().all(|item| item.parked.is_none()), "nothing parks");
    world.warehouse.forget_ends();
    world.rest("mended").await;
    world.assert_true("it went on by itself").await;
    assert_eq!((world.head().mode, world.head().why, world.head().probe_at), (Mode::Active, None, None));
    assert_eq!(world.announcer.alerts().len(), 1);
}

#[tokio::test]
async fn a_confirm_that_needs_no_redshift_does_not_resume_a_halted_dataset() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    world.set_head(&[("mode", "halted".into()), ("probe_at", 0.into())]);
    let mark = tidemark_domain::writes::mark(&world.id(DAY), 0, world.clock.now());
    tidemark_engine::ports::StateStore::write(&world.state, &[mark], "mark").await.unwrap();
    world.rounds(20).await;
    assert_eq!(world.item(DAY).built, world.item(DAY).marked, "unchanged, confirmed by the probe");
    assert_eq!(world.head().mode, Mode::Halted, "which says nothing about Redshift");
}

#[tokio::test]
async fn a_retired_datasets_swap_is_followed_then_it_leaves_the_index() {
    let mut world = in_flight("/swap").await;
    world.put("dt=2026-11-02/a.csv", "2\n").await;
    world.mark().await;
    world.set_head(&[("mode", "retired".into())]);
    world.rounds(30).await;
    assert_eq!(world.due().await, [""; 0]);
    assert_eq!(world.rows().into_keys().collect::<Vec<_>>(), [DAY], "what was out landed, nothing began");
    assert_eq!(world.item(DAY).built, world.item(DAY).marked);
    assert!(world.item("dt=2026-11-02").batch.is_none());
    world.assert_ledger("retired");
}

#[tokio::test]
async fn a_retired_dataset_is_let_go_by_sweep_though_its_messages_are_lost() {
    let mut world = in_flight("/swap").await;
    world.put("dt=2026-11-02/a.csv", "2\n").await;
    world.mark().await;
    world.set_head(&[("mode", "retired".into())]);
    // What apply leaves of the catalog.
    let gone = Catalog::default().after(&Catalog::of([&world.definition]));
    let text = serde_json::to_string(&gone).unwrap();
    world.state.put(catalog_key(), [("catalog".to_owned(), text.into())].into());
    world.queue.lose_all();
    world.rounds(30).await;
    assert_eq!(world.due().await, [""; 0]);
    assert_eq!(world.item(DAY).built, world.item(DAY).marked, "what was out was followed");
}

#[tokio::test]
async fn a_retired_datasets_staging_is_followed_and_not_swapped() {
    let mut world = in_flight("/stage").await;
    world.set_head(&[("mode", "retired".into())]);
    world.rounds(30).await;
    assert_eq!((world.submitted("/swap"), world.due().await.len()), (0, 0));
    assert!(world.item(DAY).batch.is_none() && world.warehouse.running().is_empty());
}

#[tokio::test]
async fn a_retired_dataset_with_a_swap_nobody_saw_is_fenced_before_it_leaves() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.warehouse.set_pace("/swap", Pace::ByHand);
    world.rounds(2).await;
    // Its definition's epoch is over, so the batch is given up with its swap out.
    world.set_head(&[("mode", "retired".into())]);
    world.clock.advance(Duration::from_hours(24));
    world.rounds(10).await;
    assert_eq!(world.submitted("/fence"), 1);
    assert_eq!(world.due().await, [""; 0]);
    assert!(!world.item(DAY).unresolved);
    for running in world.warehouse.running() {
        world.warehouse.end(&running.id, &End::Run);
    }
    assert!(world.rows().is_empty(), "I1: it can't land any more");
}

/// Found by sim's night 14122: the first copy of its request, which its worker had given up, arrived nine hours later.
#[tokio::test]
async fn a_retired_dataset_whose_swap_failed_once_is_fenced_before_it_leaves() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.warehouse.end_next("/swap", End::Fail("The connection attempt failed.".to_owned()));
    while world.submitted("/swap") == 0 {
        world.rounds(1).await;
    }
    let batch = world.item(DAY).batch.unwrap();
    assert_eq!((batch.attempt, batch.statement), (2, None));
    world.set_head(&[("mode", "retired".into())]);
    world.rounds(30).await;
    assert_eq!((world.submitted("/swap"), world.submitted("/fence")), (1, 1));
    assert_eq!(world.due().await, [""; 0]);
    assert!(!world.item(DAY).unresolved && world.item(DAY).batch.is_none());
}

#[tokio::test]
async fn a_definition_changed_before_the_swap_begins_anew() {
    let mut world = in_flight("/stage").await;
    let first = world.item(DAY).batch.unwrap();
    world.put_in_force(&TOML.replace("decimal(12,2)", CHANGED), Epoch(1)).await;
    world.rest("changed").await;
    world.assert_true("changed while it was staged").await;
    assert_eq!((world.submitted("/stage"), world.submitted("/swap"), world.submitted("/fence")), (2, 1, 0));
    assert_ne!(world.item(DAY).last.unwrap().batch, first.id);
    let hash = world.definition.hash().as_str().to_owned();
    assert_eq!(world.warehouse.ledger()[0]["definition_hash"], tidemark_domain::sql::rows::Field::Text(hash));
}

#[tokio::test]
async fn a_definition_changed_with_a_swap_out_waits_for_it_then_rebuilds() {
    let mut world = in_flight("/swap").await;
    let first = world.item(DAY).batch.unwrap();
    world.put_in_force(&TOML.replace("decimal(12,2)", CHANGED), Epoch(1)).await;
    let mark = tidemark_domain::writes::mark(&world.id(DAY), 0, world.clock.now());
    tidemark_engine::ports::StateStore::write(&world.state, &[mark], "mark").await.unwrap();
    world.rest("changed").await;
    world.assert_true("changed while it was swapped").await;
    let batches = world.warehouse.ledger();
    assert_eq!(batches.len(), 2, "the old one landed, then the new");
    assert_eq!(batches[0]["batch_id"], tidemark_domain::sql::rows::Field::Text(first.id.to_string()));
    assert_eq!(world.submitted("/fence"), 0, "its end was seen");
}

#[tokio::test]
async fn a_raised_epoch_ends_what_is_in_flight_and_shuts_its_swap_out() {
    for (suffix, fences) in [("/stage", 0), ("/swap", 1)] {
        let mut world = in_flight(suffix).await;
        // Guard row first, then the head, as apply does it.
        world.warehouse.prepare(&world.definition.target, &stack(), &world.definition.name, Epoch(2)).unwrap();
        world.put_in_force(&TOML.replace("decimal(12,2)", CHANGED), Epoch(2)).await;
        world.rest(suffix).await;
        world.assert_true(suffix).await;
        assert_eq!(world.submitted("/fence"), fences, "{suffix}");
        assert_eq!(world.warehouse.ledger().len(), 1, "{suffix}: the old epoch's swap is refused");
        assert_eq!(world.announcer.alerts(), [], "{suffix}: nothing to tell");
    }
}

#[tokio::test]
async fn an_epoch_that_apply_has_raised_in_the_guard_row_alone_is_waited_for_ever_longer_and_people_are_told() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.warehouse.prepare(&world.definition.target, &stack(), &world.definition.name, Epoch(2)).unwrap();
    world.rounds(120).await;
    let asked = world.submitted("/stage") + world.submitted("/swap") + world.submitted("/fence");
    assert!(asked < 30, "an hour under an old epoch cost {asked} statements");
    assert!(world.item(DAY).parked.is_none());
    let alerts = world.announcer.alerts();
    assert_eq!(alerts.len(), 1, "an apply that died, or a state table that was restored: {alerts:?}");
    assert!(alerts[0].body.contains("epoch 2, newer than 1") && alerts[0].body.contains("`tidemark apply`"));
    world.set_head(&[("epoch", 2.into())]);
    world.rest("the head follows").await;
    world.assert_true("the head follows").await;
}

/// Parts of other names; a partition of the layout before isn't yielded any more.
fn other_layout() -> String {
    TOML.replace("dt={dt}/", "day={day}/").replace("[orders.partition.dt]", "[orders.partition.day]")
}

#[tokio::test]
async fn a_partition_that_the_layout_no_longer_yields_is_fenced_before_it_leaves() {
    for suffix in ["/stage", "/swap"] {
        let mut world = in_flight(suffix).await;
        world.warehouse.prepare(&world.definition.target, &stack(), &world.definition.name, Epoch(2)).unwrap();
        world.put_in_force(&other_layout(), Epoch(2)).await;
        world.rounds(60).await;
        assert_eq!((world.due().await, world.queue.is_empty()), (vec![], true), "{suffix}");
        let item = world.item(DAY);
        assert!(!item.unresolved && item.batch.is_none(), "{suffix}: {item:?}");
        assert_eq!(world.submitted("/fence"), usize::from(suffix == "/swap"), "{suffix}");
        assert!(world.rows().is_empty(), "{suffix}: the epoch shuts out what was out");
    }
}

/// A day of a table that is kept by months now: its name is one of a day in the month's partition.
#[tokio::test]
async fn an_item_whose_name_is_another_partitions_now_leaves_and_is_marked_by_nobody() {
    let days = TOML.replace("\"amount decimal(12,2)\"]", "\"amount decimal(12,2)\", \"sold_on date\"]");
    let ranged = |grain: &str| {
        let part = format!("[orders.partition.dt]\ntype = \"date\"\nrange_of = \"sold_on\"\ngrain = \"{grain}\"\n");
        let rest = days.split_once("[orders.partition.dt]").unwrap();
        let tail = rest.1.split_once("\n\n").map_or("", |(_, tail)| tail);
        format!("{}{part}\n{tail}", rest.0)
    };
    let mut world = World::new(&ranged("day")).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.put("dt=2026-11-02/a.csv", "2\n").await;
    world.mark().await;
    world.put_in_force(&ranged("month"), Epoch(2)).await;
    world.warehouse.prepare(&world.definition.target, &stack(), &world.definition.name, Epoch(2)).unwrap();
    world.rounds(30).await;
    assert!(world.item("dt=2026-11-02").batch.is_none());
    assert_eq!(world.due().await, [""; 0], "the day leaves, and nobody wakes it again");
    sweep(&world).await;
    world.clock.advance(Duration::from_mins(61));
    sweep(&world).await;
    world.rounds(30).await;
    assert_eq!(world.due().await, [""; 0], "look marks the month alone");
    assert_eq!(world.item("dt=2026-11-02").fence, Fence(0), "it is never taken");
}

/// What was parked, and marked since, is let go as well; once the dataset is back it is marked and heals.
#[tokio::test]
async fn what_was_parked_and_marked_since_is_let_go_with_its_dataset_and_comes_back_with_it() {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n1\n").await;
    world.rest("it parks").await;
    assert!(world.item(DAY).rests_parked());
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.mark().await;
    world.set_head(&[("mode", "retired".into())]);
    world.rounds(3).await;
    assert_eq!(world.due().await, [""; 0], "it left the index");
    world.set_head(&[("mode", "active".into())]);
    let mark = tidemark_domain::writes::mark(&world.id(DAY), 0, world.clock.now());
    tidemark_engine::ports::StateStore::write(&world.state, &[mark], "mark").await.unwrap();
    world.rest("it is back").await;
    world.assert_true("it is back").await;
}
