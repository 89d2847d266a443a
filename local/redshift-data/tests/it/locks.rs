//! Writers take turns, readers never wait, and a snapshot is taken after the wait.

use aws_sdk_redshiftdata::types::StatusString;
use tidemark_redshift_data::Isolation;

use crate::world::World;

const SWAP: [&str; 4] = [
    "LOCK TABLE fence",
    "DELETE FROM t WHERE day = 1",
    "INSERT INTO t SELECT 1, max(n) + 1 FROM log",
    "INSERT INTO log SELECT max(n) + 1 FROM log",
];

async fn tables(world: &World) {
    world
        .must(&[
            "CREATE TABLE fence (n int)",
            "CREATE TABLE t (day int, n int)",
            "CREATE TABLE log (n int)",
            "INSERT INTO log VALUES (0)",
        ])
        .await;
}

#[tokio::test]
async fn two_swaps_at_once_both_succeed_one_after_the_other() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let world = World::with(isolation).await;
        tables(&world).await;
        let guard = world.postgres().await;
        guard.batch_execute("BEGIN; LOCK TABLE log IN EXCLUSIVE MODE").await.unwrap();
        // The first holds the fence and waits at its last statement; the second waits at its first.
        let first = world.submit(&SWAP).await;
        world.waiting(1).await;
        let second = world.submit(&SWAP).await;
        world.waiting(2).await;
        guard.batch_execute("COMMIT").await.unwrap();
        for id in [first, second] {
            let told = world.end(&id).await;
            assert_eq!(told.status(), Some(&StatusString::Finished), "{isolation:?}: {:?}", told.error());
        }
        // The second saw what the first had committed.
        assert_eq!(world.rows("SELECT day, n FROM t").await, [["1", "2"]]);
    }
}

#[tokio::test]
async fn a_delete_waits_for_another_and_then_succeeds() {
    let world = World::new().await;
    tables(&world).await;
    world.must(&["INSERT INTO t VALUES (1, 1)"]).await;
    let guard = world.postgres().await;
    guard.batch_execute("BEGIN; DELETE FROM t WHERE day = 1; INSERT INTO t VALUES (1, 2)").await.unwrap();
    let id = world.submit(&["DELETE FROM t WHERE day = 1", "INSERT INTO t VALUES (1, 3)"]).await;
    world.waiting(1).await;
    // Readers see the old rows meanwhile.
    assert_eq!(world.rows("SELECT n FROM t").await, [["1"]]);
    guard.batch_execute("COMMIT").await.unwrap();
    let told = world.end(&id).await;
    assert_eq!(told.status(), Some(&StatusString::Finished), "{:?}", told.error());
    assert_eq!(world.rows("SELECT n FROM t").await, [["3"]]);
}

#[tokio::test]
async fn a_snapshot_taken_before_the_lock_is_a_1023() {
    let world = World::new().await;
    tables(&world).await;
    world.must(&["INSERT INTO t VALUES (1, 1)"]).await;
    let guard = world.postgres().await;
    guard.batch_execute("BEGIN; DELETE FROM t WHERE day = 1").await.unwrap();
    let id = world.submit(&["SELECT count(*) FROM t", "LOCK TABLE t", "DELETE FROM t WHERE day = 1"]).await;
    world.waiting(1).await;
    guard.batch_execute("COMMIT").await.unwrap();
    let told = world.end(&id).await;
    let error = told.error().unwrap();
    assert!(error.starts_with("ERROR: 1023\n  Detail: Serializable isolation violation on table - "), "{error}");
}

#[tokio::test]
async fn a_procedure_locks_what_it_writes_before_its_snapshot() {
    let world = World::new().await;
    tables(&world).await;
    world
        .must(&[
            "INSERT INTO fence VALUES (1)",
            "CREATE PROCEDURE claim(p bigint) AS $$ DECLARE v integer; BEGIN \
             UPDATE fence SET n = p WHERE n < p; GET DIAGNOSTICS v := ROW_COUNT; \
             IF v <> 1 THEN RAISE EXCEPTION 'SUPERSEDED by %', p; END IF; END; $$ LANGUAGE plpgsql",
        ])
        .await;
    let guard = world.postgres().await;
    guard.batch_execute("BEGIN; UPDATE fence SET n = 5").await.unwrap();
    let id = world.submit(&["CALL claim(6)"]).await;
    world.waiting(1).await;
    guard.batch_execute("COMMIT").await.unwrap();
    let told = world.end(&id).await;
    assert_eq!(told.status(), Some(&StatusString::Finished), "{:?}", told.error());
    let error = world.error("CALL claim(6)").await;
    assert!(error.starts_with("ERROR: SUPERSEDED by 6\n  Where: PL/pgSQL function claim(bigint)"), "{error}");
}

#[tokio::test]
async fn a_deadlock_has_one_victim() {
    let world = World::new().await;
    tables(&world).await;
    let guard = world.postgres().await;
    guard.batch_execute("BEGIN; LOCK TABLE log IN EXCLUSIVE MODE").await.unwrap();
    let first = world.submit(&["DELETE FROM t", "INSERT INTO log VALUES (1)", "DELETE FROM fence"]).await;
    let second = world.submit(&["DELETE FROM fence", "INSERT INTO log VALUES (1)", "DELETE FROM t"]).await;
    world.waiting(2).await;
    guard.batch_execute("COMMIT").await.unwrap();
    let (first, second) = (world.end(&first).await, world.end(&second).await);
    let failed: Vec<_> = [&first, &second].into_iter().filter_map(|told| told.error()).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].starts_with("ERROR: deadlock detected"), "{failed:?}");
}

#[tokio::test]
async fn truncate_commits_what_came_before_it() {
    let world = World::new().await;
    tables(&world).await;
    world.must(&["INSERT INTO t VALUES (1, 1)"]).await;
    let told = world.run(&["INSERT INTO log VALUES (7)", "TRUNCATE t", "SELECT nothing FROM t"]).await;
    assert_eq!(told.status(), Some(&StatusString::Failed));
    assert_eq!(world.rows("SELECT count(*) FROM t").await, [["0"]]);
    assert_eq!(world.rows("SELECT max(n) FROM log").await, [["7"]]);
}

#[tokio::test]
async fn a_statement_time_out_is_told_as_redshift_tells_it() {
    let world = World::new().await;
    tables(&world).await;
    let guard = world.postgres().await;
    guard.batch_execute("BEGIN; LOCK TABLE t IN EXCLUSIVE MODE").await.unwrap();
    let told = world.run(&["SET statement_timeout TO 200", "DELETE FROM t"]).await;
    guard.batch_execute("COMMIT").await.unwrap();
    assert_eq!(told.status(), Some(&StatusString::Failed));
    let error = told.error().unwrap();
    assert!(error.starts_with("ERROR: Query (") && error.ends_with("canceled on user's request"), "{error}");
}
