//! Ten thousand partitions, slice by slice: each invocation makes so many calls and no more, the next one goes on where it stood,
//! also where it was killed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use tidemark_domain::cursor::{Cursor, Task};
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::sql::rows::Field;
use tidemark_engine::inventory::glance;
use tidemark_engine::memory::{Fault, Pace, Plan};
use tidemark_engine::ports::{Clock as _, Index, StateStore as _};

use super::sweep::{cursor, day, wide};
use super::world::{TOML, World};

const PARTITIONS: i64 = 10_000;

/// Calls of an invocation, by port.
type Calls = BTreeMap<&'static str, usize>;

/// A minute passes, and a sweep under the plan: what it called. The function's own time-out is 55 seconds.
async fn invoked(world: &mut World, plan: Plan) -> Calls {
    world.clock.advance(Duration::from_secs(5));
    world.plan = plan.clone();
    let engine = world.engine();
    let deadline = world.clock.now() + SignedDuration::from_secs(55);
    let _killed = plan.run(Box::pin(engine.sweep(deadline))).await;
    world.plan = Plan::quiet();
    let mut calls = Calls::new();
    for step in plan.steps() {
        *calls.entry(step.call).or_default() += 1;
    }
    calls
}

fn put_item(world: &World, n: i64, fields: &Value) {
    let mut item = json!({ "marked": 1, "built": 1, "marked_at": 0, "fence": 1 });
    item.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    world.state.put(PartitionItem::key(&world.id(&day(n))), serde_json::from_value(item).unwrap());
}

/// Of the tasks only this one is due.
async fn only(world: &World, task: Task) {
    for other in Task::ALL {
        let next = world.clock.now() + SignedDuration::from_hours(if other == task { 0 } else { 99 });
        let cursor = Cursor::new(next).store(other, other.is_per_dataset().then_some(&world.definition.name));
        world.state.write(&[cursor], &world.clock.id().to_string()).await.unwrap();
    }
}

fn last_of(n: i64, digest: &Value) -> Value {
    json!({ "batch": uuid::Uuid::from_u128(u128::try_from(n).unwrap()), "generation": 1, "fence": 1, "rows": 1, "digest": digest,
        "inventory": "i/", "took_seconds": 1, "committed_at": 0 })
}

#[tokio::test]
async fn ten_thousand_that_are_due_are_woken_a_hundred_a_minute_oldest_first_whoever_is_killed() {
    let mut world =
        World::new(&TOML.replace("interval = \"0s\"", "interval = \"0s\"\nconcurrency = \"partition\"")).await;
    let began = world.clock.now().as_millisecond();
    for n in 0..PARTITIONS {
        put_item(&world, n, &json!({ "marked": 2, "work": "orders", "due_at": began + n, "dirty_since": began }));
    }
    world.clock.advance(Duration::from_mins(1));
    only(&world, Task::Look).await;
    let look = Cursor::new(world.clock.now() + SignedDuration::from_hours(99));
    world.state.write(&[look.store(Task::Look, Some(&world.definition.name))], "no look").await.unwrap();
    let (mut woken, mut most) = (Vec::new(), 0);
    for minute in 0..6 {
        // In the third minute it is killed amid its claims.
        let calls = invoked(&mut world, if minute == 2 { Plan::at(60, Fault::DieAfter) } else { Plan::quiet() }).await;
        most = most.max(calls.values().sum::<usize>());
        assert!(calls["state.write"] <= 101, "{calls:?}");
        world.clock.advance(Duration::from_secs(31));
        while let Some(delivery) = world.queue.deliver() {
            let body: Value = serde_json::from_str(&delivery.body).unwrap();
            woken.push(body["partition"].as_str().unwrap().to_owned());
            // Rebuilt.
            let key = PartitionItem::key(&world.id(woken.last().unwrap()));
            world.state.put(
                key,
                serde_json::from_value(json!({ "marked": 2, "built": 2, "marked_at": 0, "fence": 1 })).unwrap(),
            );
            world.queue.delete(&delivery.receipt);
        }
    }
    println!("wake: at most {most} calls an invocation");
    assert!(most <= 115, "{most}");
    // What the killed one claimed counts as outstanding for five minutes.
    assert!((250..500).contains(&woken.len()), "{}", woken.len());
    assert_eq!(woken.iter().collect::<BTreeSet<_>>().len(), woken.len(), "none twice");
    assert_eq!(woken[..200], (0..200).map(day).collect::<Vec<_>>(), "the longest due first");
    let ever = jiff::Timestamp::UNIX_EPOCH..=jiff::Timestamp::MAX;
    let left = world.state.query(Index::Due, None, ever, 20_000).await.unwrap();
    assert_eq!(left.len() + woken.len(), usize::try_from(PARTITIONS).unwrap(), "nothing is lost");
}

#[tokio::test]
async fn a_look_over_ten_thousand_goes_on_where_the_last_slice_stood_also_after_one_that_was_killed() {
    let mut world = World::new(&wide()).await;
    for n in 0..PARTITIONS {
        world.objects.put_unseen("lake", &format!("orders/{}/a.csv", day(n)), "1\n");
        let partition = world.definition.partition(&world.id(&day(n)).partition).unwrap();
        let folder = format!("orders/{}/", day(n));
        let seen = glance(&world.objects, &world.definition, &partition, &[folder]).await.unwrap();
        put_item(&world, n, &json!({ "last": last_of(n, &json!(seen.digest)) }));
    }
    let changed = [10, 5_000, 9_990];
    for n in changed {
        world.objects.put_unseen("lake", &format!("orders/{}/b.csv", day(n)), "1\n");
    }
    only(&world, Task::Look).await;
    world.objects.set_page_time(Duration::from_millis(30));
    let (mut stood, mut lists, mut most) = (vec![String::new()], 0, 0);
    loop {
        // The third is killed.
        let killed = stood.len() == 3;
        let calls = invoked(&mut world, if killed { Plan::at(400, Fault::DieBefore) } else { Plan::quiet() }).await;
        lists += calls["objects.list"];
        most = most.max(calls.values().sum::<usize>());
        let cursor = cursor(&world, Task::Look);
        if killed {
            assert_eq!(
                cursor.after.as_deref(),
                stood.last().map(String::as_str),
                "it stands where the last slice stood"
            );
            stood.push(cursor.after.clone().unwrap());
        }
        match cursor.after {
            Some(after) if !killed => stood.push(after),
            None => break,
            _ => {}
        }
        assert!(stood.len() < 30, "{stood:?}");
    }
    println!("look: {} invocations, at most {most} calls each, {lists} listings in all", stood.len());
    assert!(stood.len() > 4, "{stood:?}");
    assert!(stood.is_sorted(), "slices follow each other: {stood:?}");
    assert!(most < 1_900, "what fits into 55 seconds: {most}");
    assert!(lists < 10_000 + 400 + 20 * 24, "what was looked at isn't looked at again: {lists}");
    assert_eq!(world.due().await.into_iter().collect::<BTreeSet<_>>(), changed.map(day).into(), "each marked once");
    assert!(changed.iter().all(|n| world.item(&day(*n)).marked.0 == 2));
}

#[tokio::test]
async fn a_tidy_over_ten_thousand_goes_on_where_the_last_slice_stood_also_after_one_that_was_killed() {
    let mut world = World::new(&wide()).await;
    let differing = [10, 5_000, 9_990];
    for n in 0..PARTITIONS {
        let last = if differing.contains(&n) { json!({ "last": last_of(n, &json!("d")) }) } else { json!({}) };
        put_item(&world, n, &last);
    }
    only(&world, Task::Tidy).await;
    world.warehouse.set_pace("tidemark/newest", Pace::After(Duration::from_secs(6)));
    let (mut stood, mut most) = (vec![String::new()], 0);
    loop {
        let killed = stood.len() == 2;
        let calls = invoked(&mut world, if killed { Plan::at(25, Fault::DieAfter) } else { Plan::quiet() }).await;
        most = most.max(calls.values().sum::<usize>());
        match cursor(&world, Task::Tidy).after {
            Some(after) => stood.push(after),
            None => break,
        }
        assert!(stood.len() < 30, "{stood:?}");
    }
    println!("tidy: {} invocations, at most {most} calls each", stood.len());
    assert!(stood.len() > 3 && stood.is_sorted(), "slices follow each other: {stood:?}");
    assert_eq!(stood[1], stood[2], "the one that was killed is made again");
    assert!(most < 70, "{most}");
    assert_eq!(
        world.due().await.into_iter().collect::<BTreeSet<_>>(),
        differing.map(day).into(),
        "each is healed once"
    );
    assert_eq!(world.announcer.alerts().len(), 1, "{:?}", world.announcer.alerts());
    // 20 pages, and no more than the killed slice again.
    let asked = world.submitted("tidemark/newest");
    assert!((20..35).contains(&asked), "{asked}");
}

/// Ten thousand batches in the ledger, each with the files of one inventory, and book alone is due.
async fn unbooked() -> World {
    let mut world = World::new(TOML).await;
    world.put("dt=2026-11-01/a.csv", "1\n").await;
    world.rest("").await;
    let landed = world.warehouse.ledger().remove(0);
    for n in 1..PARTITIONS {
        let mut row = landed.clone();
        let batch = uuid::Uuid::from_u128(u128::try_from(n).unwrap());
        row.insert("batch_id".to_owned(), Field::Text(batch.to_string()));
        row.insert("partition_name".to_owned(), Field::Text(day(n)));
        world.warehouse.put_ledger(row);
    }
    only(&world, Task::Book).await;
    world.warehouse.set_pace("tidemark/book", Pace::After(Duration::from_secs(12)));
    world
}

#[tokio::test]
async fn ten_thousand_batches_are_booked_each_once_also_where_a_load_is_killed() {
    // The second load is killed right after it was submitted, before it is written down that it was.
    let mut world = unbooked().await;
    let plan = Plan::quiet();
    invoked(&mut world, plan.clone()).await;
    let steps = plan.steps();
    let manifests = steps.iter().filter(|step| step.call == "objects.put");
    let second = manifests.map(|step| step.number + 1).nth(1).unwrap();
    assert_eq!(steps[second - 1].call, "warehouse.submit", "{:?}", steps[second - 1]);

    let mut world = unbooked().await;
    let (mut invocations, mut most) = (0, 0);
    loop {
        invocations += 1;
        let plan = if invocations == 1 { Plan::at(second, Fault::DieAfter) } else { Plan::quiet() };
        let calls = invoked(&mut world, plan).await;
        most = most.max(calls.values().sum::<usize>());
        if invocations == 1 {
            assert!(cursor(&world, Task::Book).loading.is_some(), "it stands at the first load");
        }
        if cursor(&world, Task::Book).began_at.is_none() {
            break;
        }
        assert!(invocations < 30);
    }
    let files = world.warehouse.files();
    let batches: BTreeSet<&String> = files.iter().map(|(batch, ..)| batch).collect();
    println!("book: {invocations} invocations, at most {most} calls each, {} loads", world.submitted("tidemark/book"));
    assert_eq!((files.len(), batches.len()), (10_000, 10_000), "each once");
    assert!(invocations > 4, "{invocations}");
    assert!(most < 5_100, "five loads of 500 batches, two reads an inventory: {most}");
    assert!((20..=21).contains(&world.submitted("tidemark/book")), "what the killed one booked isn't loaded again");
}
