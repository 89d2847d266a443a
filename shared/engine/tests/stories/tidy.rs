//! Tidy: a warehouse restored from a snapshot and a table restored from a backup heal, and people are told once.

use std::time::Duration;

use tidemark_domain::id::BatchId;
use tidemark_domain::job::Kind;
use tidemark_domain::partition::PartitionItem;
use tidemark_domain::sql::identifier::staging_name;
use tidemark_engine::memory::Pace;
use tidemark_engine::ports::Clock as _;

use super::sweep::{all_jobs, day, sweep};
use super::world::{TOML, World};

/// A day passes, and a sweep in which tidy has its turn; then what it marked comes to rest.
async fn tomorrow(world: &mut World) {
    sweep(world).await;
    world.clock.advance(Duration::from_hours(25));
    for _ in 0..3 {
        sweep(world).await;
        world.rest("tidied").await;
    }
}

fn told(world: &World) -> Vec<String> {
    world.announcer.alerts().into_iter().map(|alert| alert.subject).collect()
}

/// Three days, of which the first two are rebuilt after the moment that is restored, and a fourth comes after it.
async fn before(days: i64) -> World {
    let mut world = World::new(TOML).await;
    for n in 0..days {
        world.put(&format!("{}/a.csv", day(n)), "1\n2\n").await;
    }
    world.rest("").await;
    world
}

async fn after(world: &mut World, days: i64) {
    for n in 0..days - 1 {
        world.put(&format!("{}/b.csv", day(n)), "3\n").await;
    }
    world.put(&format!("{}/a.csv", day(days)), "4\n").await;
    world.rest("").await;
}

/// The rows of the lake, each batch told, item and ledger agree; batches that a restore took away were told as well.
async fn assert_healed(world: &World, context: &str) {
    assert!(world.items().values().all(|item| item.parked.is_none()), "{context}");
    world.assert_rows(context).await;
}

#[tokio::test]
async fn a_warehouse_restored_from_a_snapshot_heals_and_one_mail_tells() {
    let mut world = before(3).await;
    let snapshot = world.warehouse.backup();
    after(&mut world, 3).await;
    world.restore_warehouse(&snapshot);
    tomorrow(&mut world).await;
    assert_healed(&world, "the warehouse was restored").await;
    assert_eq!(told(&world), ["restored: orders is rebuilt"]);
    assert!(world.announcer.alerts()[0].body.contains("the warehouse is older"), "{:?}", world.announcer.alerts());
    let swaps = world.submitted("/swap");
    tomorrow(&mut world).await;
    assert_eq!((world.submitted("/swap"), told(&world).len()), (swaps, 1), "and that was it");
}

#[tokio::test]
async fn a_state_table_restored_from_a_backup_heals_and_one_mail_tells() {
    let mut world = before(3).await;
    let backup = world.partition_items();
    after(&mut world, 3).await;
    world.restore_partitions(&backup);
    tomorrow(&mut world).await;
    assert_healed(&world, "the state table was restored").await;
    assert_eq!(told(&world), ["restored: orders is rebuilt"]);
    assert!(world.announcer.alerts()[0].body.contains("the state table is older"), "{:?}", world.announcer.alerts());
    assert_eq!(world.submitted("/fence"), 3, "each of the three that differed was fenced first");
    world.assert_ledger("the state table was restored");
}

#[tokio::test]
async fn more_than_fifty_that_differ_are_left_to_a_job() {
    let mut world = before(70).await;
    let snapshot = world.warehouse.backup();
    after(&mut world, 70).await;
    world.restore_warehouse(&snapshot);
    sweep(&world).await;
    world.clock.advance(Duration::from_hours(25));
    sweep(&world).await;
    let job = all_jobs(&world).await.remove(0);
    assert_eq!((job.kind, job.total), (Kind::Restored, 70));
    while all_jobs(&world).await[0].is_open() {
        world.rest("the job goes on").await;
        sweep(&world).await;
    }
    world.rest("").await;
    assert_healed(&world, "all were healed").await;
    assert_eq!(told(&world).len(), 1);
}

#[tokio::test]
async fn what_goes_on_while_it_compares_is_not_taken_for_restored() {
    let mut world = before(3).await;
    world.put(&format!("{}/b.csv", day(0)), "9\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(31));
    world.warehouse.set_pace("/swap", Pace::After(Duration::from_hours(26)));
    world.rebuild().await;
    sweep(&world).await;
    world.clock.advance(Duration::from_hours(25));
    sweep(&world).await;
    assert_eq!(told(&world), [""; 0], "it is on its way");
}

#[tokio::test]
async fn a_partition_that_cannot_be_read_does_not_stop_the_others() {
    let mut world = before(3).await;
    let snapshot = world.warehouse.backup();
    after(&mut world, 3).await;
    world.restore_warehouse(&snapshot);
    let bad = PartitionItem::key(&world.id(&day(0)));
    let item = world.state.item(&bad).unwrap();
    world.state.put(bad.clone(), [("marked".to_owned(), "not a number".into())].into());
    sweep(&world).await;
    world.clock.advance(Duration::from_hours(25));
    sweep(&world).await;
    assert_eq!(world.due().await.len(), 2, "the others are marked");
    world.state.put(bad, item);
    tomorrow(&mut world).await;
    assert_healed(&world, "it was mended").await;
}

#[tokio::test]
async fn old_staging_tables_whose_batch_is_over_are_dropped() {
    let mut world = before(1).await;
    let born = |days: i64| {
        let at = world.clock.now() - jiff::SignedDuration::from_hours(24 * days);
        let seconds = u64::try_from(at.as_second()).unwrap();
        let time = uuid::Timestamp::from_unix(uuid::NoContext, seconds, 0);
        BatchId(uuid::Uuid::new_v7(time))
    };
    let (old, young) = (born(9), born(5));
    for batch in [old, young] {
        world.warehouse.put_staging(&format!("batch_{batch}"));
    }
    world.warehouse.put_staging("somebodys_own");
    // One that goes on, though it is old.
    world.put(&format!("{}/b.csv", day(0)), "9\n").await;
    world.mark().await;
    world.clock.advance(Duration::from_secs(31));
    world.warehouse.set_pace("/swap", Pace::ByHand);
    world.rebuild().await;
    let open = world.item(&day(0)).batch.unwrap();
    let open = staging_name(open.id, open.listed.as_ref().map(|listed| &listed.digest));
    sweep(&world).await;
    world.clock.advance(Duration::from_hours(25));
    sweep(&world).await;
    let left = world.warehouse.staging_tables();
    assert!(!left.contains(&format!("batch_{old}")), "{left:?}");
    assert_eq!(left.len(), 3, "{left:?}");
    world.clock.advance(Duration::from_hours(24 * 7));
    sweep(&world).await;
    let left = world.warehouse.staging_tables();
    assert_eq!(left, [open, "somebodys_own".to_owned()], "the young one is old now");
}

/// The state table was restored, and so many takes came to nothing since that the fence is past the one that Redshift has: the
/// claim passes, and the rows that the item knows nothing of look like somebody else's. The ledger says whose they are.
#[tokio::test]
async fn rows_of_a_batch_that_a_restored_item_does_not_know_are_not_taken_for_somebody_elses() {
    let mut world = before(1).await;
    let backup = world.partition_items();
    world.put(&format!("{}/b.csv", day(0)), "3\n").await;
    world.rest("after the backup").await;
    world.restore_partitions(&backup);
    let key = PartitionItem::key(&world.id(&day(0)));
    let mut item = world.state.item(&key).unwrap();
    item.insert("fence".to_owned(), 40.into());
    world.state.put(key, item);
    world.put(&format!("{}/c.csv", day(0)), "4\n").await;
    world.rest("marked since").await;
    world.assert_true("it was found to be restored").await;
    assert_eq!(told(&world), [format!("restored: orders {}", day(0))]);
}
