//! What passes here would pass in Redshift; what wouldn't is refused.

use crate::world::World;

#[tokio::test]
async fn foreign_statements_fail_and_change_nothing() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (a int, b varchar(5))"]).await;
    for (sql, text) in [
        ("INSERT INTO t VALUES (1, 'x') RETURNING a", "ERROR: syntax error at or near \"RETURNING\"\n  Position: 31"),
        ("INSERT INTO t VALUES (1, 'x') ON CONFLICT DO NOTHING", "near \"CONFLICT\""),
        ("CREATE INDEX i ON t (a)", "near \"INDEX\""),
        ("SELECT a FROM t WHERE a IS DISTINCT FROM 1", "near \"DISTINCT\""),
        ("SELECT string_agg(b, ',') FROM t", "function string_agg() does not exist"),
        ("SAVEPOINT s", "near \"SAVEPOINT\""),
        ("VACUUM t; SELECT 1", "multiple commands"),
    ] {
        let error = world.error(sql).await;
        assert!(error.contains(text), "{sql}: {error}");
    }
    assert_eq!(world.rows("SELECT count(*) FROM t").await, [["0"]]);
    world.execute("VACUUM t").await;
    let told = world.run(&["VACUUM t"]).await;
    assert_eq!(told.error(), Some("ERROR: VACUUM cannot run inside a transaction block"));
}

#[tokio::test]
async fn lengths_are_bytes_also_in_a_table_like_another() {
    let world = World::new().await;
    world.must(&["CREATE TABLE t (a varchar(5), PRIMARY KEY (a))", "CREATE TABLE u (LIKE t)"]).await;
    for table in ["t", "u"] {
        world.must(&[&format!("INSERT INTO {table} VALUES ('ééa'), ('ééa')")]).await;
        let error = world.error(&format!("INSERT INTO {table} VALUES ('ééé')")).await;
        assert_eq!(error, "ERROR: value too long for type character varying(5)");
        let error = world.error(&format!("INSERT INTO {table} VALUES ('abcdef')")).await;
        assert!(error.contains("value too long for type character varying(5)"), "{error}");
    }
}

#[tokio::test]
async fn names_fold_and_redshifts_functions_work() {
    let world = World::new().await;
    world
        .must(&[
            "CREATE TABLE \"T1\" (\"Order\" int, at timestamp DEFAULT getdate())",
            "INSERT INTO t1 (\"order\") VALUES (1)",
        ])
        .await;
    let rows = world
        .rows(
            "SELECT \"ORDER\", nvl(NULL, 'x'), dateadd(day, 1, TIMESTAMP '2026-10-31 00:00:00'), \
             datediff(hour, TIMESTAMP '2026-11-01 00:30:00', TIMESTAMP '2026-11-01 02:00:00'), len('éa'), \
             sysdate >= at, 'it\\'s' FROM t1",
        )
        .await;
    assert_eq!(rows, [["1", "x", "2026-11-01 00:00:00.0", "2", "2", "true", "it's"]]);
}

#[tokio::test]
async fn a_temporary_table_lives_in_its_batch() {
    let world = World::new().await;
    world
        .must(&[
            "CREATE TEMP TABLE counts (n bigint)",
            "INSERT INTO counts SELECT 5",
            "CREATE PROCEDURE seal() AS $$ DECLARE v bigint; BEGIN SELECT INTO v max(n) FROM counts; \
             IF v <> 5 THEN RAISE EXCEPTION 'SEAL %', v; END IF; END; $$ LANGUAGE plpgsql",
            "CALL seal()",
        ])
        .await;
    assert!(world.error("SELECT n FROM counts").await.contains("relation \"counts\" does not exist"));
    assert!(world.error("CALL seal()").await.contains("relation \"counts\" does not exist"));
}
