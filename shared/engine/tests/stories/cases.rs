//! Faults that others have reported, each as a story; named after their number.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use tidemark_domain::definition::Concurrency;
use tidemark_domain::lock::Scope;
use tidemark_domain::message::PartitionMessage;
use tidemark_domain::partition::{FailureState, Phase};
use tidemark_engine::memory::{End, Fault, Plan};
use tidemark_engine::ports::{Clock as _, StateStore as _};
use tidemark_engine::rebuild::{Answer, Work};

use super::overtaken::{Stepwise, in_phase, marked};
use super::world::{TOML, World};

const DAY: &str = "dt=2026-11-01";

fn lock(world: &World) -> Scope {
    Scope::of(&world.id(DAY), Concurrency::Table)
}

/// The URLs of the manifest of the newest commit.
fn manifest(world: &World, partition: &str) -> Vec<String> {
    let inventory = world.item(partition).last.unwrap().inventory;
    let (bytes, _) = world.objects.object("control", &inventory.replacen("inventory/", "manifest/", 1)).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    manifest["entries"].as_array().unwrap().iter().map(|entry| entry["url"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn c090_a_lock_left_behind_is_taken_over_and_the_old_statement_is_found_again() {
    let mut world = marked().await;
    let quiet = Plan::quiet();
    world.plan = quiet.clone();
    let submit = {
        let probe = marked().await;
        let mut probe = World { plan: quiet.clone(), ..probe };
        probe.rebuild().await.unwrap();
        probe.plan = Plan::quiet();
        quiet.steps().into_iter().find(|step| step.call == "warehouse.submit").unwrap().number
    };
    world.plan = Plan::at(submit, Fault::DieAfter);
    assert_eq!(world.rebuild().await, Some(None), "it dies with its COPY out");
    world.plan = Plan::quiet();
    assert!(world.state.item(&lock(&world).key()).unwrap().contains_key("holder"), "its lock stays");
    world.rest("").await;
    world.assert_true("taken over").await;
    assert_eq!(world.submitted("/stage"), 1, "the COPY that was out is the one that counts");
    let story = world.story(DAY);
    assert_eq!(story["recovered_from"], serde_json::to_value(FailureState::DuringStaging).unwrap());
}

#[tokio::test]
async fn c091_a_lock_without_work_and_work_without_a_lock_both_heal() {
    let mut world = marked().await;
    let now = world.clock.now();
    world.state.write(&[lock(&world).acquire("nobody", now, now + SignedDuration::from_mins(16))], "a").await.unwrap();
    world.rest("a lock of nobody").await;
    world.assert_true("a lock of nobody").await;
    let mut world = marked().await;
    let mut worker = Stepwise::begin(&mut world);
    worker.until(&world, in_phase(Phase::Staging));
    drop(worker);
    world.state.put(lock(&world).key(), std::collections::BTreeMap::default());
    world.rest("a batch without a lock").await;
    world.assert_true("a batch without a lock").await;
}

#[tokio::test]
async fn c092_a_lock_that_never_opens_costs_one_try_an_invocation_and_drops_nothing() {
    let mut world = marked().await;
    let now = world.clock.now();
    world.state.write(&[lock(&world).acquire("other", now, now + SignedDuration::from_hours(1))], "a").await.unwrap();
    for _ in 0..20 {
        let plan = Plan::quiet();
        world.plan = plan.clone();
        assert_eq!(world.rebuild().await, Some(Some(Answer::Back)), "busy is no error");
        let tries = plan.steps().iter().filter(|step| step.call == "state.write").count();
        assert_eq!(tries, 1, "no loop against a door that stays shut");
        world.clock.advance(Duration::from_secs(11));
    }
    world.plan = Plan::quiet();
    assert_eq!((world.item(DAY).fence.0, world.queue.len()), (0, 1));
    world.clock.advance(Duration::from_hours(1));
    world.rest("").await;
    world.assert_true("the lease was over").await;
}

#[tokio::test]
async fn c094_c189_a_mark_whose_message_is_lost_is_woken_and_its_age_is_told() {
    for refused in [true, false] {
        let mut world = World::new(TOML).await;
        world.put(&format!("{DAY}/a.csv"), "1\n").await;
        world.queue.refuse_next(usize::from(refused) * 10);
        world.mark().await;
        world.queue.refuse_next(0);
        world.queue.lose_all();
        world.clock.advance(Duration::from_mins(20));
        let swept = world.engine().sweep(world.clock.now() + SignedDuration::from_mins(1)).await.unwrap();
        assert_eq!((swept[0].dirty, swept[0].woken, swept[0].oldest_dirty_seconds), (1, 1, 20 * 60));
        world.rest("").await;
        world.assert_true("woken").await;
    }
}

#[tokio::test]
async fn c097_a_write_that_a_client_made_twice_is_ours() {
    let quiet = Plan::quiet();
    let mut world = marked().await;
    world.plan = quiet.clone();
    world.rebuild().await.unwrap();
    let writes = quiet.steps().into_iter().filter(|step| step.call == "state.write");
    for step in writes {
        let mut world = marked().await;
        world.plan = Plan::at(step.number, Fault::Repeat);
        let answer = world.rebuild().await.unwrap();
        assert_eq!(answer, Some(Answer::Done("rebuilt")), "step {}: no stranger was seen", step.number);
        world.plan = Plan::quiet();
        world.rest("").await;
        world.assert_true("written twice").await;
    }
}

#[tokio::test]
async fn c099_c192_of_two_who_come_at_once_one_works_and_the_other_leaves() {
    let mut world = marked().await;
    world.plan = Plan::quiet().taking_turns();
    let body = PartitionMessage::look(world.id(DAY), world.item(DAY).marked).body();
    let deadline = world.clock.now() + SignedDuration::from_secs(120);
    let work = Work { body: &body, receipt: None, deadline };
    let (first, second) = (world.engine(), world.engine());
    let (first, second) = tokio::join!(first.rebuild(work), second.rebuild(work));
    let answers = [first, second];
    assert!(answers.contains(&Answer::Done("rebuilt")), "{answers:?}");
    assert!(answers.contains(&Answer::Back) || answers.contains(&Answer::Done("built already")), "{answers:?}");
    world.plan = Plan::quiet();
    world.rest("").await;
    world.assert_true("two at once").await;
    assert_eq!((world.submitted("/stage"), world.warehouse.ledger().len()), (1, 1));
}

#[tokio::test]
async fn c108_a_dead_lease_is_picked_up_though_nothing_new_ever_arrives() {
    let mut world = marked().await;
    let mut worker = Stepwise::begin(&mut world);
    worker.until(&world, in_phase(Phase::Listing));
    drop(worker);
    world.queue.lose_all();
    world.rest("").await;
    world.assert_true("no new event, no message").await;
}

#[tokio::test]
async fn c112_a_condition_that_cant_come_true_again_is_not_tried_again() {
    let mut world = marked().await;
    let mut worker = Stepwise::begin(&mut world);
    worker.until(&world, in_phase(Phase::Listing));
    let key = tidemark_domain::partition::PartitionItem::key(&world.id(DAY));
    let mut item = world.state.item(&key).unwrap();
    item.insert("fence".to_owned(), 7.into());
    world.state.put(key, item);
    let before = worker.writes();
    worker.until_it_ends(&world);
    assert_eq!(worker.writes() - before, 2, "the write that is refused, and its lock given back");
    assert!(world.warehouse.submitted().is_empty());
}

#[tokio::test]
async fn c115_siblings_of_a_prefix_are_not_of_the_partition() {
    let mut world = World::new(TOML).await;
    for sibling in
        ["dt=2026-11-010/s.csv", "dt=2026-11-01.bak/s.csv", "dt=2026-11-01/deeper/s.csv", "dt=2026-11-0/s.csv"]
    {
        world.put(sibling, "sibling\n").await;
    }
    world.objects.put_unseen("lake", &format!("orders_v2/{DAY}/s.csv"), "sibling\n");
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.rest("").await;
    assert_eq!(world.rows()[DAY], ["1"]);
    assert_eq!(manifest(&world, DAY), [format!("s3://lake/orders/{DAY}/a.csv")]);
}

#[tokio::test]
async fn c115_c124_two_spellings_are_one_partition_and_no_file_is_loaded_twice() {
    let toml = TOML.replace("dt={dt}/", "m={m}/").replace(
        "[orders.partition.dt]\ntype = \"date\"\ncolumn = \"dt\"",
        "[orders.partition.m]\ntype = \"integer\"\ncolumn = \"m\"",
    );
    let mut world = World::new(&toml).await;
    world.objects.set_page_size(1);
    for (n, name) in ["m=1/a.csv", "m=01/a.csv", "m=01/b.csv", "m=10/a.csv", "m=11/a.csv"].iter().enumerate() {
        world.put(name, &format!("{n}\n")).await;
    }
    world.rest("").await;
    assert_eq!(world.rows()["\"m\" = 1"], ["0", "1", "2"]);
    let urls = manifest(&world, "m=1");
    assert_eq!((urls.len(), urls.iter().collect::<BTreeSet<_>>().len()), (3, 3), "{urls:?}");
    assert_eq!(world.rows()["\"m\" = 10"], ["3"]);
}

#[tokio::test]
async fn c126_every_page_of_a_listing_is_loaded() {
    for objects in [1_000, 1_001, 2_000, 2_501] {
        let mut world = World::new(TOML).await;
        for n in 0..objects {
            world.objects.put_unseen("lake", &format!("orders/{DAY}/{n:04}.csv"), &format!("{n}\n"));
        }
        world.put(&format!("{DAY}/0000.csv"), "0\n").await;
        world.rest("").await;
        let urls: BTreeSet<String> = manifest(&world, DAY).into_iter().collect();
        assert_eq!((urls.len(), world.rows()[DAY].len()), (objects, objects));
    }
}

#[tokio::test]
async fn c179_an_accepted_statement_that_fails_is_no_success() {
    let mut world = marked().await;
    world.warehouse.end_next("/swap", End::Fail("ERROR: disk full".to_owned()));
    assert_eq!(world.rebuild().await, Some(Some(Answer::Done("held"))));
    assert!(world.item(DAY).last.is_none() && world.rows().is_empty() && world.announcer.events().is_empty());
    world.rest("").await;
    world.assert_true("tried again").await;
}

#[tokio::test]
async fn c186_a_file_that_is_older_than_the_last_commit_is_loaded() {
    let mut world = World::new(TOML).await;
    let long_ago = world.clock.now();
    world.clock.advance(Duration::from_mins(20));
    world.put(&format!("{DAY}/small.csv"), "1\n").await;
    world.rest("").await;
    world.put(&format!("{DAY}/large.csv"), "2\n").await;
    world.objects.set_modified("lake", &format!("orders/{DAY}/large.csv"), long_ago);
    world.rest("").await;
    world.assert_true("an upload that took long").await;
}

#[tokio::test]
async fn c187_a_replay_rebuilds_what_is_unchanged_and_without_force_says_so() {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.rest("").await;
    world.replay(DAY, &json!({"force": false}));
    world.rest("").await;
    assert_eq!((world.warehouse.ledger().len(), world.item(DAY).built.0), (1, 2));
    assert_eq!(world.story(DAY)["outcome"], "unchanged");
    world.replay(DAY, &json!({"force": true}));
    world.rest("").await;
    world.assert_true("rebuilt").await;
    assert_eq!(world.warehouse.ledger().len(), 2);
}

#[tokio::test]
async fn c191_rows_of_a_deleted_file_go() {
    let mut world = World::new(TOML).await;
    world.put(&format!("{DAY}/a.csv"), "1\n").await;
    world.put(&format!("{DAY}/b.csv"), "2\n").await;
    world.rest("").await;
    world.delete(&format!("{DAY}/a.csv"));
    world.rest("").await;
    world.assert_true("deleted").await;
    assert_eq!(world.rows()[DAY], ["2"]);
}
