//! Checks that only a warehouse that executes SQL can be held to: what was loaded, what is staged, what stands in the target.

use anyhow::Result;
use tidemark_kit::state::Item;
use tidemark_kit::{Dataset, Settings, World, orders};

/// A dataset whose files hold their partition's column, without patience.
const CHECKED: &str = r#"
[checked]
source = "s3://lake-raw/checked/"
layout = "dt={dt}/"
format = "csv"
target = "sales.checked"
columns = ["id bigint", "note varchar(40)", "dt date"]
key = ["id"]
required = ["id", "note"]
concurrency = "partition"
interval = "0s"

[checked.partition.dt]
type = "date"
in_files = true

[checked.csv]
null_as = "NULL"

[checked.tolerance]
patience = "0s"
"#;

async fn checked_world() -> Result<World> {
    let world = World::deploy(&Settings::default()).await?;
    world.execute("CREATE SCHEMA sales; CREATE TABLE sales.checked (id bigint, note varchar(40), dt date)").await?;
    world.tidemark_well(&["init"]).await?;
    world.apply(CHECKED).await?;
    Ok(world)
}

/// Kind and message once the partition is parked.
async fn parked(world: &World) -> Result<(String, String)> {
    let told = || async {
        let item = world.item_named("checked", "dt=2026-11-01").await?;
        Ok(item.and_then(|item| item.parked().map(|(kind, message)| (kind.to_owned(), message.to_owned()))))
    };
    world.wait("to be parked", &Dataset::Orders.day("2026-11-01"), told).await
}

#[tokio::test]
async fn every_broken_rule_is_told_in_one_message_and_the_target_stays() -> Result<()> {
    let world = checked_world().await?;
    world
        .execute("INSERT INTO sales.checked SELECT n, 'by hand', DATE '2026-11-01' FROM generate_series(1, 9) n")
        .await?;
    let lines = "1,a,2026-11-01\n1,b,2026-11-01\n2,NULL,2026-11-01\n3,c,2026-11-02\n4,d,NULL\n";
    world.put("checked/dt=2026-11-01/a.csv", lines.as_bytes().to_vec()).await?;
    let (kind, message) = parked(&world).await?;
    assert_eq!(kind, "required_null", "{message}");
    for words in [
        "5 rules are broken",
        "required_null: note is null in 1 staged rows, 0 may; ",
        "duplicate_keys: 1 staged rows repeat the key (id) of another, 0 may; ",
        "other_partition: 2 staged rows belong to another partition by their own columns, 0 may; ",
        "row_drop: 5 rows are staged where the target's partition holds 9: 4 fewer, 0 may go; ",
        "foreign_rows: 9 of the target's 9 rows were written by no batch, 0 may; ",
    ] {
        assert!(message.contains(words), "{words}: {message}");
    }
    let kept: i64 = world.count("SELECT count(*) FROM sales.checked WHERE note = 'by hand'").await?;
    assert_eq!(kept, 9);
    Ok(())
}

/// A replay that accepts another listing than the operator saw lets nothing pass, and tells both digests.
#[tokio::test]
async fn what_was_accepted_must_be_what_is_there() -> Result<()> {
    let world = checked_world().await?;
    let file = "checked/dt=2026-11-01/a.csv";
    world.put(file, b"1,a,2026-11-01\n2,b,2026-11-01\n3,c,2026-11-01\n".to_vec()).await?;
    let built = || async { Ok(world.item_named("checked", "dt=2026-11-01").await?.filter(Item::rests).map(|_| ())) };
    world.wait("to be built", &Dataset::Orders.day("2026-11-01"), built).await?;
    world.put(file, b"1,a,2026-11-01\n".to_vec()).await?;
    let (kind, _) = parked(&world).await?;
    assert_eq!(kind, "row_drop");
    let item = world.item_named("checked", "dt=2026-11-01").await?.unwrap();
    let (shown, seen) = (item.0["parked"]["digest"].as_str().unwrap_or_default().to_owned(), "ab".repeat(32));
    let replay = ["replay", "checked", "dt=2026-11-01", "--accept", "row_drop"];
    let told = world.tidemark(&[&replay[..], &["--digest", &seen]].concat()).await?;
    assert!(!told.status.success() && told.err.contains(&seen) && told.err.contains(&shown), "{told:?}");

    // Without one, nothing is sent: what is there by now may not be what was looked at.
    let told = world.tidemark(&replay).await?;
    let says = told.err.contains("nothing was sent") && told.err.contains(&format!("add --digest {shown}"));
    assert!(told.code() == Some(1) && says && told.out.contains("would send"), "{told:?}");
    assert_eq!(world.item_named("checked", "dt=2026-11-01").await?.unwrap().number("marked"), item.number("marked"));

    // The same past the command, by message.
    let body = format!(
        r#"{{"version":1,"dataset":"checked","partition":"dt=2026-11-01","accept":["row_drop"],"digest":"{seen}"}}"#
    );
    world.send(tidemark_kit::state::Queue::Partitions, &body).await?;
    let refused = || async {
        let item = world.item_named("checked", "dt=2026-11-01").await?;
        let message = item.and_then(|item| item.parked().map(|(_, message)| message.to_owned()));
        Ok(message.filter(|message| message.contains("was accepted for digest")))
    };
    let message = world.wait("both digests to be told", &Dataset::Orders.day("2026-11-01"), refused).await?;
    assert!(message.contains(&seen) && message.contains(&shown), "{message}");
    world.accept("checked", "dt=2026-11-01", "row_drop").await?;
    world.wait("to be built", &Dataset::Orders.day("2026-11-01"), built).await?;
    assert_eq!(world.count("SELECT count(*) FROM sales.checked").await?, 1);
    Ok(())
}

/// A warehouse that loses a row on its way into staging, as far as anybody can see from outside.
#[tokio::test]
async fn rows_that_are_lost_on_the_way_are_noticed_against_the_footers() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world
        .execute(
            "CREATE FUNCTION public.lose() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN IF NEW.order_id = 7 THEN RETURN NULL; END IF; RETURN NEW; END $$; \
             CREATE FUNCTION public.lose_of_staged() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS \
             $$ DECLARE made record; BEGIN FOR made IN SELECT * FROM pg_event_trigger_ddl_commands() \
             WHERE command_tag = 'CREATE TABLE' AND schema_name = 'tidemark_staging' LOOP \
             EXECUTE format('CREATE TRIGGER lose BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION public.lose()', \
             made.object_identity); END LOOP; END $$; \
             CREATE EVENT TRIGGER lose_rows ON ddl_command_end EXECUTE FUNCTION public.lose_of_staged()",
        )
        .await?;
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 20)).await?;
    let (kind, message) = world.wait_parked(&day).await?;
    assert_eq!(kind, "row_variance", "{message}");
    assert!(message.contains("the files hold 20 rows, 19 are staged: 1 differ, 0 may"), "{message}");
    assert!(world.target(&day).await?.rows.is_empty());

    world.execute("DROP EVENT TRIGGER lose_rows").await?;
    world.tidemark_well(&["replay", "orders", &day.name()]).await?;
    assert_eq!(world.wait_true(&day).await?.target.rows.len(), 20);
    Ok(())
}

/// C119: COPY ends well and says nothing, but one of the files isn't among those it loaded.
#[tokio::test]
async fn c119_a_file_that_copy_does_not_report_as_loaded_is_noticed() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world
        .execute(
            "ALTER VIEW redshift_local.sys_load_detail RENAME TO all_load_detail; \
             CREATE VIEW redshift_local.sys_load_detail AS SELECT * FROM redshift_local.all_load_detail \
             WHERE file_name NOT LIKE '%unreported%'; GRANT SELECT ON redshift_local.sys_load_detail TO PUBLIC",
        )
        .await?;
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 20)).await?;
    world.put_orders(&day.file("unreported.parquet"), &orders::orders(100, 20)).await?;
    let (kind, message) = world.wait_parked(&day).await?;
    assert_eq!(kind, "loaded_files", "{message}");
    assert!(message.contains("COPY loaded 1 files") && message.contains("2 stand in its manifest"), "{message}");
    Ok(())
}
