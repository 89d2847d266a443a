//! The operator's reading commands on a deployed stack, as somebody on call runs them.

use anyhow::{Context, Result};
use serde_json::Value;
use tidemark_kit::{Dataset, World, orders};

/// A file whose second line is no row of `returns`.
const BAD: &[u8] = b"return_id,order_id,reason,quantity\n1,1,torn,1\n2,2,torn,many\n";

#[tokio::test]
async fn status_tells_on_one_screen_what_waits_for_somebody() -> Result<()> {
    let world = World::new().await?;
    let (good, bad) = (Dataset::Orders.day("2026-11-01"), Dataset::Returns.day("2026-11-01"));
    let quiet = world.tidemark(&["status"]).await?;
    assert_eq!(quiet.code(), Some(0), "{quiet:?}");
    // A new stack: its first sweep comes within a minute.
    let words = ["nothing waits for anybody", "sweep hasn't run yet: it comes each minute"];
    assert!(words.iter().any(|words| quiet.out.contains(words)), "{quiet:?}");
    assert!(!quiet.out.contains('\u{1b}'), "no colours where there is no terminal: {quiet:?}");

    world.put_orders(&good.file("a.parquet"), &orders::orders(0, 10)).await?;
    world.put(&bad.file("a.csv"), BAD.to_vec()).await?;
    world.wait_true(&good).await?;
    world.wait_parked(&bad).await?;
    let told = world.tidemark(&["status"]).await?;
    assert_eq!(told.code(), Some(1), "something waits for somebody: {told:?}");
    for words in ["returns  active      0         0     0       1", "1 parked (1 rejected_data): dt=2026-11-01"] {
        assert!(told.out.contains(words), "{words}: {}", told.out);
    }
    assert!(told.out.contains("tidemark runbook parked"), "{told:?}");
    let told = world.tidemark(&["status", "--json"]).await?.json()?;
    let returns = &told["datasets"][1];
    assert_eq!((&returns["dataset"], &returns["parked"]), (&"returns".into(), &1.into()), "{told:#}");
    assert_eq!(returns["not_built_from"], "dt=2026-11-01", "{told:#}");
    assert_eq!(told["problems"][0]["runbook"], "parked", "{told:#}");

    let orders = world.tidemark(&["status", "orders"]).await?;
    assert_eq!(orders.code(), Some(0), "the other dataset is none of its business: {orders:?}");
    let nobody = world.tidemark(&["status", "nobody"]).await?;
    assert_eq!(nobody.code(), Some(1), "{nobody:?}");
    assert!(nobody.err.contains("has no dataset nobody"), "{nobody:?}");
    Ok(())
}

#[tokio::test]
async fn history_files_watermark_and_runbook_tell_a_partition_from_all_sides() -> Result<()> {
    let world = World::new().await?;
    let (day, next) = (Dataset::Orders.day("2026-11-01"), Dataset::Orders.day("2026-11-02"));
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 10)).await?;
    world.wait_true(&day).await?;
    world.put_orders(&day.file("b é.parquet"), &orders::orders(10, 5)).await?;
    let view = world.wait_landed(&day, 1).await?;
    let [first, last] = [0, 1].map(|n| view.landed[n].batch.clone());

    let history = world.tidemark_well(&["history", "orders", "dt=2026-11-01", "--json"]).await?.json()?;
    let batches = history["batches"].as_array().context("no batches")?;
    let told: Vec<_> = batches.iter().map(|batch| (batch["batch"].as_str(), batch["rows"].as_u64())).collect();
    assert_eq!(told, [(Some(last.as_str()), Some(15)), (Some(first.as_str()), Some(10))], "{history:#}");
    for phase in ["listing_seconds", "staging_seconds", "swap_seconds", "total_seconds"] {
        assert!(batches[0][phase].as_f64().is_some_and(|seconds| seconds >= 0.0), "{phase}: {history:#}");
    }
    let one = world.tidemark_well(&["history", "orders", "--limit", "1", "--since", "1h"]).await?;
    assert!(one.out.contains(&last) && !one.out.contains(&first), "{one:?}");

    let files = world.tidemark_well(&["files", "orders", "dt=2026-11-01", "--json"]).await?.json()?;
    let keys = |files: &Value| -> Vec<(String, u64)> {
        let files = files["files"].as_array().into_iter().flatten();
        files
            .map(|file| (file["key"].as_str().unwrap_or_default().to_owned(), file["rows"].as_u64().unwrap_or(0)))
            .collect()
    };
    let [a, b] = ["a.parquet", "b é.parquet"].map(|name| day.file(name));
    assert_eq!(keys(&files), [(a.clone(), 10), (b, 5)], "{files:#}");
    let before =
        world.tidemark_well(&["files", "orders", "dt=2026-11-01", "--batch", &first, "--json"]).await?.json()?;
    assert_eq!(keys(&before), [(a, 10)], "{before:#}");
    let nobody =
        world.tidemark(&["files", "orders", "dt=2026-11-01", "--batch", &uuid::Uuid::nil().to_string()]).await?;
    assert!(nobody.err.contains("`tidemark history` lists them"), "{nobody:?}");

    // As book would have it, within the hour.
    let unbooked = world.tidemark(&["files", "orders", "dt=2026-11-01", "--ledger"]).await?;
    assert!(unbooked.err.contains("within the hour"), "{unbooked:?}");
    for file in files["files"].as_array().into_iter().flatten() {
        let text = |name: &str| file[name].as_str().unwrap_or_default().to_owned();
        let (key, etag, modified, size) =
            (text("key"), text("etag"), text("modified"), file["size"].as_u64().unwrap_or(0));
        let row = format!("('{last}', '{key}', '{etag}', {size}, '{}')", modified.trim_end_matches('Z'));
        let columns = "batch_id, key, etag, size, last_modified";
        world.execute(&format!("INSERT INTO tidemark.files ({columns}) VALUES {row}")).await?;
    }
    let booked = world.tidemark_well(&["files", "orders", "dt=2026-11-01", "--ledger", "--json"]).await?.json()?;
    for (ledger, inventory) in
        booked["files"].as_array().into_iter().flatten().zip(files["files"].as_array().into_iter().flatten())
    {
        for name in ["key", "etag", "size", "modified"] {
            assert_eq!(ledger[name], inventory[name], "{booked:#}");
        }
    }

    let all = world.tidemark_well(&["watermark", "orders", "--through", "dt=2026-11-01"]).await?;
    assert!(all.out.contains("every known partition is built") && all.out.contains("built through"), "{all:?}");
    let unknown = world.tidemark(&["watermark", "orders", "--through", "dt=2026-11-02"]).await?;
    assert_eq!(unknown.code(), Some(1), "{unknown:?}");
    world.put(&next.file("a.parquet"), b"no parquet".to_vec()).await?;
    world.wait_parked(&next).await?;
    let told = world.tidemark_well(&["watermark", "orders", "--json"]).await?.json()?;
    assert_eq!((&told["not_built_from"], &told["unbuilt"]), (&"dt=2026-11-02".into(), &1.into()), "{told:#}");

    let page = world.tidemark_well(&["runbook", "orders", "dt=2026-11-02"]).await?;
    assert!(page.out.starts_with("# Partitions are parked") && page.out.contains("'dt=2026-11-02'"), "{page:?}");
    Ok(())
}

/// The runbook's six queries, filled in by the command and run as an operator would run them: in Redshift. Each gives its
/// number.
#[tokio::test]
async fn the_six_queries_of_the_runbook_answer_in_redshift() -> Result<()> {
    let world = World::new().await?;
    let (day, next) = (Dataset::Orders.day("2026-11-01"), Dataset::Orders.day("2026-11-02"));
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 10)).await?;
    world.wait_true(&day).await?;
    world.put_orders(&day.file("b.parquet"), &orders::orders(10, 5)).await?;
    let view = world.wait_landed(&day, 1).await?;
    let [first, last] = [0, 1].map(|n| view.landed[n].batch.clone());
    // Staged, not let in: an order is there twice.
    let twice = [orders::orders(0, 3), orders::orders(0, 1)].concat();
    world.put_orders(&next.file("a.parquet"), &twice).await?;
    world.wait_parked(&next).await?;

    let answer = async |query: &str, partition: &str| -> Result<Vec<Vec<String>>> {
        let told = world.tidemark_well(&["runbook", "parked", "orders", partition, "--query", query]).await?;
        ask(&world, &told.out).await.with_context(|| told.out)
    };
    let state = answer("batch-state", "dt=2026-11-01").await?;
    let batches: Vec<&str> = state.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(batches, [&last, &first], "the newest first: {state:?}");
    assert_eq!((state[0][3].as_str(), state[0][5].as_str(), state[0][10].as_str()), ("2", "15", "15"), "{state:?}");
    assert_eq!(answer("batch-state", "dt=2026-11-02").await?, Vec::<Vec<String>>::new(), "it isn't here: no change");

    assert_eq!(answer("staged-count", "dt=2026-11-02").await?, [["4"]]);
    let dropped = answer("staged-count", "dt=2026-11-01").await;
    assert!(format!("{dropped:?}").contains("does not exist"), "as its comment says: {dropped:?}");

    assert_eq!(answer("target-count", "dt=2026-11-01").await?[0][..3], ["15", "15", "0"]);
    assert!(answer("duplicate-keys", "dt=2026-11-01").await?.is_empty());
    // Somebody else's hands: one order once more, past tidemark.
    world
        .execute("INSERT INTO sales.orders SELECT * FROM sales.orders WHERE order_id = 3 AND dt = DATE '2026-11-01'")
        .await?;
    assert_eq!(answer("target-count", "dt=2026-11-01").await?[0][..3], ["16", "15", "1"]);
    assert_eq!(answer("duplicate-keys", "dt=2026-11-01").await?, [["3", "2"]]);

    // As book would have it. The day was over at the 2nd's midnight; three days later lookback doesn't reach it.
    let files = [("in-time", "2026-11-01 23:59:59"), ("late", "2026-11-02 00:00:00"), ("later", "2026-11-05 00:00:00")];
    for (key, modified) in files {
        let row = format!("('{last}', 'orders/dt=2026-11-01/{key}', 'e', 1, '{modified}')");
        let columns = "batch_id, key, etag, size, last_modified";
        world.execute(&format!("INSERT INTO tidemark.files ({columns}) VALUES {row}")).await?;
    }
    let objects = answer("source-objects", "dt=2026-11-01").await?;
    assert_eq!(objects.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), files.map(|(key, _)| day.file(key)));
    let late = answer("late-files", "dt=2026-11-01").await?;
    let late: Vec<(&str, &str)> = late.iter().map(|row| (row[0].as_str(), row[4].as_str())).collect();
    let [_, within, outside] = files.map(|(key, _)| day.file(key));
    assert_eq!(late, [(within.as_str(), "within lookback"), (outside.as_str(), "outside lookback")]);
    Ok(())
}

/// Asks through the local Data API, which refuses what Redshift doesn't have; each value as text.
async fn ask(world: &World, sql: &str) -> Result<Vec<Vec<String>>> {
    let environment: std::collections::HashMap<_, _> = world.environment()?.into_iter().collect();
    let config = world.cloud.sdk_config(world.stack.account()).await;
    let config = aws_sdk_redshiftdata::config::Builder::from(&config).endpoint_url(world.cloud.redshift_endpoint());
    let client = aws_sdk_redshiftdata::Client::from_conf(config.build());
    let submit = client.execute_statement().workgroup_name("local").sql(sql.trim_end().trim_end_matches(';'));
    let id = submit.database(&environment["TIDEMARK_REDSHIFT_DATABASE"]).send().await?.id.context("no id")?;
    let told = tidemark_local::wait_until("the query", std::time::Duration::from_secs(30), async || {
        let told = client.describe_statement().id(&id).send().await?;
        let status = told.status().map(|status| status.as_str().to_owned()).unwrap_or_default();
        Ok(["FINISHED", "FAILED", "ABORTED"].contains(&status.as_str()).then_some(told))
    })
    .await?;
    anyhow::ensure!(told.status().is_some_and(|status| status.as_str() == "FINISHED"), "{:?}", told.error());
    let result = client.get_statement_result().id(&id).send().await?;
    let text = |field: &aws_sdk_redshiftdata::types::Field| match field {
        aws_sdk_redshiftdata::types::Field::StringValue(text) => text.clone(),
        aws_sdk_redshiftdata::types::Field::LongValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    Ok(result.records().iter().map(|row| row.iter().map(text).collect()).collect())
}
