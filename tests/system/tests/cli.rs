//! The operator's command on a deployed stack: init, apply, show, replay.

use anyhow::{Context, Result};
use serde_json::Value;
use tidemark_kit::{Dataset, Settings, World, orders};

/// A stack and targets; neither `init` nor `apply`.
async fn bare() -> Result<World> {
    let world = World::deploy(&Settings::default()).await?;
    world.create_targets().await?;
    Ok(world)
}

#[tokio::test]
async fn init_prepares_redshift_once_and_apply_needs_it() -> Result<()> {
    let world = bare().await?;
    let file = world.write_definitions(&Settings::default().definitions)?;
    let early = world.tidemark(&["apply", &file, "--yes"]).await?;
    assert_eq!(early.code(), Some(1), "{early:?}");
    assert!(early.out.contains("run `tidemark init`"), "{early:?}");
    assert!(world.tidemark_well(&["init"]).await?.out.ends_with(": made\n"));
    assert!(world.tidemark_well(&["init"]).await?.out.ends_with(": found, nothing changed\n"));
    let told = world.tidemark_well(&["init", "--json"]).await?.json()?;
    assert_eq!((&told["did"], &told["from"]), (&"unchanged".into(), &Value::Null), "{told}");
    Ok(())
}

#[tokio::test]
async fn apply_shows_then_does_then_has_nothing_to_do() -> Result<()> {
    let world = bare().await?;
    world.tidemark_well(&["init"]).await?;
    let today = jiff::tz::TimeZone::UTC.to_datetime(jiff::Timestamp::now()).date().to_string();
    let day = Dataset::Orders.day(&today);
    // Nobody marks it but apply: the catalog is empty when its event comes.
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 10)).await?;
    world.execute(&format!("INSERT INTO sales.returns VALUES (1, 1, 'by hand', 1, '{today}')")).await?;
    let file = world.write_definitions(&Settings::default().definitions)?;

    let shown = world.tidemark(&["apply", &file, "--json"]).await?;
    assert_eq!(shown.code(), Some(1), "without a terminal it is said aloud that nothing was done: {shown:?}");
    let plan = shown.json()?;
    assert_eq!((&plan["applied"], &plan["problems"]), (&Value::Bool(false), &Value::Array(vec![])), "{plan:#}");
    let [orders, returns] = [&plan["datasets"][0], &plan["datasets"][1]];
    assert_eq!((&orders["status"], &orders["marks"]), (&"new".into(), &vec![day.name()].into()), "{plan:#}");
    assert_eq!(returns["foreign_rows"][0]["rows"], 1, "{plan:#}");
    assert!(world.item(&day).await?.is_none_or(|item| item.number("marked") == 0), "a dry run changes nothing");
    assert_eq!(world.tidemark(&["apply", &file, "--dry-run"]).await?.code(), Some(0));

    let done = world.tidemark_well(&["apply", &file, "--yes"]).await?;
    assert!(done.out.contains("done: 1 partition marked"), "{done:?}");
    let view = world.wait_true(&day).await?;
    assert_eq!(view.landed.len(), 1);
    let again = world.tidemark_well(&["apply", &file]).await?;
    assert!(again.out.contains("nothing to do"), "{again:?}");
    Ok(())
}

#[tokio::test]
async fn apply_tells_everything_that_speaks_against_it() -> Result<()> {
    let world = bare().await?;
    world.tidemark_well(&["init"]).await?;
    world
        .execute(
            "ALTER TABLE sales.orders DROP COLUMN amount; DROP TABLE sales.returns; \
             ALTER TABLE sales.orders ALTER COLUMN customer TYPE varchar(32), ALTER COLUMN ordered_at TYPE date",
        )
        .await?;
    world.put("returns/_delta_log/00000000000000000000.json", b"{}".to_vec()).await?;
    let file = world.write_definitions(&Settings::default().definitions)?;
    let told = world.tidemark(&["apply", &file, "--yes"]).await?;
    assert_eq!(told.code(), Some(1), "{told:?}");
    for words in [
        "no column `amount`; add it to the table as decimal(12,2)",
        "`customer` of sales.orders is varchar(32), which is narrower than the varchar(64) of the files; alter the table",
        "`ordered_at` of sales.orders is date, which is narrower than the timestamp of the files",
        "no table sales.returns",
        "Delta Lake table",
    ] {
        assert!(told.out.contains(words), "{words}: {told:?}");
    }
    assert!(told.err.contains("5 problems, so nothing was changed"), "{told:?}");
    assert!(world.tidemark(&["show", "orders", "dt=2026-11-01"]).await?.err.contains("has no dataset orders"));
    Ok(())
}

/// First roll-out on a table that somebody filled before: listed, refused day by day, and replaced once that is accepted.
#[tokio::test]
async fn a_filled_target_is_rolled_out_on_day_by_day() -> Result<()> {
    let world = bare().await?;
    world.tidemark_well(&["init"]).await?;
    let today = jiff::tz::TimeZone::UTC.to_datetime(jiff::Timestamp::now()).date();
    let [old, new] = [today.yesterday()?, today].map(|day| Dataset::Orders.day(&day.to_string()));
    for day in [&old, &new] {
        world.put_orders(&day.file("a.parquet"), &orders::orders(0, 20)).await?;
    }
    let by_hand = format!("SELECT n, 'by hand', 1, NULL, DATE '{}' FROM generate_series(1, 30) n", old.day);
    world.execute(&format!("INSERT INTO sales.orders (order_id, customer, amount, ordered_at, dt) {by_hand}")).await?;
    let file = world.write_definitions(&Settings::default().definitions)?;

    let shown = world.tidemark_well(&["apply", &file, "--dry-run"]).await?;
    let listed = "foreign rows: 30 of 1 partition in the target, written by no batch of ours";
    assert!(shown.out.contains(listed) && shown.out.contains(&old.name()), "{shown:?}");
    assert!(shown.out.contains("a rebuild parks for them (foreign_rows)"), "{shown:?}");
    world.tidemark_well(&["apply", &file, "--yes"]).await?;

    world.wait_true(&new).await?;
    // Fewer rows than there are waits first, then both are told.
    let (kind, message) = world.wait_parked(&old).await?;
    assert_eq!(kind, "foreign_rows", "{message}");
    assert!(message.contains("2 rules are broken"), "{message}");
    for words in ["row_drop: 20 rows are staged where the target's partition holds 30", "30 of the target's 30 rows"] {
        assert!(message.contains(words), "{words}: {message}");
    }
    assert_eq!(world.target(&old).await?.rows.len(), 30, "somebody's rows are kept");

    world.accept("orders", &old.name(), "foreign_rows,row_drop").await?;
    let view = world.wait_true(&old).await?;
    assert_eq!((view.landed.len(), view.landed[0].deleted_rows), (1, 30));
    let again = world.tidemark_well(&["apply", &file]).await?;
    assert!(again.out.contains("nothing to do"), "{again:?}");
    Ok(())
}

/// A changed definition tells what is rebuilt, what stays, and which old files its new column would park.
#[tokio::test]
async fn a_new_column_is_shown_with_the_files_it_would_park() -> Result<()> {
    let world = World::new().await?;
    let today = jiff::tz::TimeZone::UTC.to_datetime(jiff::Timestamp::now()).date();
    let [past, recent] = ["2026-01-01", &today.to_string()].map(|day| Dataset::Orders.day(day));
    for day in [&past, &recent] {
        world.put_orders(&day.file("a.parquet"), &orders::orders(0, 20)).await?;
        world.wait_true(day).await?;
    }
    let before = world.landed(&past).await?;
    world.execute("ALTER TABLE sales.orders ADD COLUMN channel varchar(16)").await?;
    let wider = Settings::default()
        .definitions
        .replace("\"ordered_at timestamp\"]", "\"ordered_at timestamp\", \"channel varchar(16)\"]");
    let file = world.write_definitions(&wider)?;
    let shown = world.tidemark_well(&["apply", &file, "--dry-run"]).await?;
    for words in [
        format!("marks 1 partition: {}", recent.name()),
        format!("leaves 1 partition that lie before the lookback as they are: {}", past.name()),
        "looked at 1 file of 1 partition, the oldest and the newest of each: 1 partition would be parked".to_owned(),
        "a.parquet: 4 columns".to_owned(),
    ] {
        assert!(shown.out.contains(&words), "{words}: {shown:?}");
    }

    world.tidemark_well(&["apply", &file, "--yes"]).await?;
    let (_, message) = world.wait_parked(&recent).await?;
    assert!(message.contains("a.parquet"), "as it was told: {message}");
    assert_eq!(world.landed(&past).await?, before, "what lies before the lookback stays");
    Ok(())
}

#[tokio::test]
async fn a_target_changes_hands_only_when_told() -> Result<()> {
    let world = World::new().await?;
    let renamed = Settings::default().definitions.replace("[orders", "[purchases");
    let file = world.write_definitions(&renamed)?;
    let refused = world.tidemark(&["apply", &file, "--yes"]).await?;
    assert!(refused.out.contains("belongs to dataset orders of stack tidemark"), "{refused:?}");
    let taken = world.tidemark_well(&["apply", &file, "--yes", "--take-over", "purchases"]).await?;
    assert!(taken.out.contains("orders: retired") && taken.out.contains("epoch: 2"), "{taken:?}");
    assert!(world.tidemark(&["replay", "orders", "dt=2026-11-01"]).await?.err.contains("retired"));
    Ok(())
}

#[tokio::test]
async fn show_follows_a_partition_and_replay_rebuilds_it() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    let show = ["show", "orders", "dt=2026-11-01"];
    assert!(world.tidemark_well(&show).await?.out.starts_with("orders dt=2026-11-01: unknown\n"));
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 10)).await?;
    world.wait_true(&day).await?;
    let clean = world.tidemark_well(&show).await?;
    assert!(clean.out.starts_with("orders dt=2026-11-01: clean\n") && clean.out.contains(": 10 rows"), "{clean:?}");

    let sent = world.tidemark_well(&["replay", "orders", "dt=2026-11-01", "--reason", "a test", "--json"]).await?;
    let message = &sent.json()?["messages"][0];
    assert_eq!((&message["force"], &message["reason"]), (&true.into(), &"a test".into()), "{message:#}");
    let view = world.wait_landed(&day, 1).await?;
    assert_eq!(view.landed.len(), 2);
    let state = world.tidemark_well(&[&show[..], &["--json"]].concat()).await?.json()?;
    assert_eq!(state["item"]["last"]["rows"], 10, "{state:#}");

    let unlisted = world.tidemark(&["replay", "orders", "dt=2026-11-01", "--accept", "empty_source"]).await?;
    assert_eq!(unlisted.code(), Some(1), "{unlisted:?}");
    assert!(unlisted.err.contains("there is no listing to accept"), "{unlisted:?}");
    let nonsense = world.tidemark(&["replay", "orders", "dt=yesterday"]).await?;
    assert!(nonsense.err.contains("is no date"), "{nonsense:?}");
    Ok(())
}

/// Late files are counted once each, by the ledger, by the inventories, by the month's figures and on the page.
#[tokio::test]
async fn lateness_figures_of_a_month_and_report_tell_of_the_same_files() -> Result<()> {
    let world = World::new().await?;
    let today = jiff::tz::TimeZone::UTC.to_datetime(jiff::Timestamp::now()).date();
    let [old, new] =
        [today - jiff::SignedDuration::from_hours(24 * 9), today].map(|day| Dataset::Orders.day(&day.to_string()));
    for day in [&old, &new] {
        world.put_orders(&day.file("a.parquet"), &orders::orders(0, 10)).await?;
        world.wait_true(day).await?;
    }
    // Comes too late; then again as it was, which is the same file.
    for _ in 0..2 {
        world.put_orders(&old.file("late.parquet"), &orders::orders(10, 5)).await?;
        world.wait_true(&old).await?;
    }
    world.tidemark_well(&["replay", "orders", &old.name()]).await?;
    world.wait_landed(&old, 2).await?;

    let offline = ["lateness", "orders", "--offline", "--json"];
    let told = world.tidemark_well(&offline).await?.json()?;
    assert_eq!((&told["files"], &told["in_time"]), (&3.into(), &1.into()), "{told:#}");
    assert_eq!((&told["lookback"]["caught"], &told["lookback"]["missed"]), (&1.into(), &2.into()), "{told:#}");
    let enough = told["smallest_window_seconds"].as_i64().context("no window")?;
    assert!((8 * 86_400..=9 * 86_400).contains(&enough), "{told:#}");
    let early = world.tidemark_well(&[&offline[..], &["--month", "2001-01"]].concat()).await?.json()?;
    assert_eq!(early["files"], 0);
    let plot = world.tidemark_well(&["lateness", "orders", "--offline", "--miss", "70%"]).await?;
    assert!(
        plot.out.contains("3 files, of which 1 came before") && plot.out.contains("at most 70.00 %: 0"),
        "{plot:?}"
    );

    // The ledger has a file again for each batch that listed it, as sweep books it; what was there before makes way.
    let listed = "SELECT b.batch_id, k.key, k.etag, 1, b.swapped_at - k.before \
         FROM tidemark.batches b JOIN (VALUES \
         ('orders/late', 'e1', interval '0'), ('orders/late', 'e1', interval '1 hour'), ('orders/late', 'e2', interval '0')) \
         AS k(key, etag, before) ON true";
    world
        .execute(&format!(
            "DELETE FROM tidemark.files; INSERT INTO tidemark.files {listed} WHERE b.partition_name = '{}'",
            old.name()
        ))
        .await?;
    let told = world.tidemark_well(&["lateness", "orders", "--json"]).await?.json()?;
    assert_eq!((&told["files"], &told["in_time"]), (&2.into(), &0.into()), "{told:#}");

    let month = world.tidemark_well(&["status", "orders", "--month", "--json"]).await?.json()?;
    let figures = &month["datasets"][0];
    let told = ["late_outside_window", "late_in_window", "manual_recoveries", "variance_rows"]
        .map(|name| figures[name].as_i64());
    assert_eq!(told, [Some(1), Some(0), Some(1), Some(0)], "{figures:#}");
    let (source, committed) = (figures["source_rows"].as_i64(), figures["batches"]["committed"].as_i64());
    assert!(source >= Some(10 + 10 + 15 + 15) && committed >= Some(4), "{figures:#}");
    assert!(figures["merge_share"].as_f64().is_some_and(|share| share > 0.0 && share < 1.0), "{figures:#}");

    let page = world.definitions.with_extension("html");
    let told = world.tidemark_well(&["report", "--out", &page.display().to_string()]).await?;
    assert!(told.out.contains(": 2 datasets, "), "{told:?}");
    let told = world.tidemark_well(&["report", "--json", "--out", &page.display().to_string()]).await?.json()?;
    assert_eq!((&told["datasets"], told["bytes"].as_u64()), (&2.into(), Some(std::fs::metadata(&page)?.len())));
    let page = std::fs::read_to_string(page)?;
    let data = page.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script>").next()).context("no data")?;
    let data: Value = serde_json::from_str(data)?;
    let orders = &data["datasets"][0];
    let partition = |name: &str| orders["partitions"].as_array().into_iter().flatten().find(|p| p["name"] == name);
    let old = partition(&old.name()).context("it isn't shown")?;
    assert_eq!((&old["state"], &old["rows"]), (&"clean".into(), &15.into()), "{old:#}");
    assert_eq!(
        (&orders["arrivals"]["files"], &orders["figures"]["late_outside_window"]),
        (&2.into(), &1.into()),
        "{orders:#}"
    );
    Ok(())
}
