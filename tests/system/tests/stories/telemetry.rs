//! What a real invocation writes to its log: metrics in CloudWatch's embedded format, with the batch they are of.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use tidemark_kit::{Dataset, World, orders};
use tidemark_local::wait_until;

#[tokio::test]
async fn a_rebuild_writes_its_metrics_beside_its_batch() -> Result<()> {
    let world = World::new().await?;
    let day = Dataset::Orders.day("2026-11-01");
    world.put_orders(&day.file("a.parquet"), &orders::orders(0, 50)).await?;
    world.wait_true(&day).await?;
    let function = world.stack.output("RebuildFunctionName")?;
    let line: Value = wait_until("the line of the take", Duration::from_secs(30), async || {
        let lines = world.stack.function_logs(function).await?;
        let told = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Ok(told.into_iter().find(|line| line["status"] == "committed" && line.get("_aws").is_some()))
    })
    .await?;
    let directive = &line["_aws"]["CloudWatchMetrics"][0];
    assert_eq!(directive["Namespace"], "Tidemark");
    for metric in directive["Metrics"].as_array().into_iter().flatten() {
        let name = metric["Name"].as_str().unwrap_or_default();
        assert!(line[name].is_number(), "{name} has no value: {line}");
    }
    assert_eq!((&line["Rebuilds"], &line["staged_rows"], &line["target_rows"]), (&1.0.into(), &50.into(), &50.into()));
    assert_eq!((&line["Stack"], &line["Dataset"]), (&world.stack.name().into(), &"orders".into()));
    for name in [
        "RebuildTime",
        "SwapTime",
        "RowVariance",
        "invocation",
        "batch",
        "source_objects",
        "merge_started_at",
        "merge_ended_at",
        "lookback_seconds",
        "generation",
        "fence",
    ] {
        assert!(line.get(name).is_some(), "{name} is missing: {line}");
    }
    // One line for the batch, whatever else is told of it.
    let lines = world.stack.function_logs(function).await?;
    let lines: Vec<Value> = lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let ended = lines.iter().filter(|told| told["message"] == "batch ended" && told["batch"] == line["batch"]);
    assert_eq!((ended.count(), &line["message"]), (1, &"batch ended".into()), "{lines:#?}");
    Ok(())
}
