//! What a real invocation writes to its log: metrics in CloudWatch's embedded format, and the line of each batch.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use tidemark_kit::{Dataset, World, orders};
use tidemark_local::wait_until;

/// The newest line of rebuild's log with this message and status, once it is there.
async fn line(world: &World, message: &str, status: &str) -> Result<Value> {
    let function = world.stack.output("RebuildFunctionName")?;
    wait_until(&format!("the line {message:?}, {status}"), Duration::from_mins(1), async || {
        let lines = world.stack.function_logs(function).await?;
        let told = lines.iter().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Ok(told.into_iter().find(|line| line["message"] == message && line["status"] == status))
    })
    .await
}

#[tokio::test]
async fn a_rebuild_writes_its_metrics_beside_its_batch() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 50)).await?;
    world.wait_true(&day).await?;
    let line = line(&world, "take ended", "committed").await?;
    let directive = &line["_aws"]["CloudWatchMetrics"][0];
    assert_eq!(directive["Namespace"], "Tidemark");
    for metric in directive["Metrics"].as_array().into_iter().flatten() {
        let name = metric["Name"].as_str().unwrap_or_default();
        assert!(line[name].is_number(), "{name} has no value: {line}");
    }
    assert_eq!((&line["Rebuilds"], &line["staged_rows"], &line["target_rows"]), (&1.0.into(), &50.into(), &50.into()));
    assert_eq!((&line["Stack"], &line["Dataset"]), (&world.stack.name().into(), &"orders".into()));
    for name in ["RebuildTime", "SwapTime", "RowVariance", "invocation", "batch"] {
        assert!(line.get(name).is_some(), "{name} is missing: {line}");
    }
    Ok(())
}

/// Each field that a recovery by hand asks for, of a batch that committed, one that was unchanged and one that parked.
#[tokio::test]
async fn each_batch_ends_in_a_line_with_all_that_a_recovery_asks_for() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 50)).await?;
    world.wait_true(&day).await?;
    let committed = line(&world, "batch ended", "committed").await?;
    let in_time = |name: &str| -> Result<jiff::Timestamp> { Ok(committed[name].as_str().context("a text")?.parse()?) };
    assert!(in_time("merge_started_at")? < in_time("merge_ended_at")?, "{committed}");
    for (name, value) in [
        ("dataset", "orders".into()),
        ("partition", "dt=2026-11-01".into()),
        ("phase", "swapping".into()),
        ("source_objects", 1.into()),
        ("source_rows", 50.into()),
        ("staged_rows", 50.into()),
        ("target_rows", 50.into()),
        ("lookback_seconds", Value::from(3 * 24 * 3600)),
    ] {
        assert_eq!(committed[name], value, "{name}: {committed}");
    }
    assert!(committed["generation"].is_u64() && committed["fence"].is_u64(), "{committed}");
    assert_eq!(committed["batch"].as_str().map(str::len), Some(36), "{committed}");
    // Everything else of its invocation is found by its id.
    let invocation = committed["invocation"].as_str().context("its invocation")?;
    let lines = world.stack.function_logs(world.stack.output("RebuildFunctionName")?).await?;
    assert!(lines.iter().filter(|told| told.contains(invocation)).count() > 2, "{invocation}: {lines:#?}");

    world.tidemark_well(&["replay", "orders", "dt=2026-11-01", "--reason", "looks again", "--no-force"]).await?;
    let unchanged = line(&world, "batch ended", "unchanged").await?;
    assert_eq!((&unchanged["source_objects"], &unchanged["source_rows"]), (&1.into(), &50.into()), "{unchanged}");
    assert_eq!(unchanged["lookback_seconds"], committed["lookback_seconds"]);

    world.delete(&day.file("a.parquet")).await?;
    world.tidemark_well(&["replay", "orders", "dt=2026-11-01", "--reason", "at once"]).await?;
    let parked = line(&world, "batch ended", "parked").await?;
    assert_eq!((&parked["source_objects"], &parked["phase"]), (&0.into(), &"listing".into()), "{parked}");
    assert_eq!((parked.get("staged_rows"), parked.get("target_rows")), (None, None), "nothing was staged: {parked}");
    Ok(())
}
