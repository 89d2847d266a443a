//! Firehose: a folder per hour of arrival, gzip, a prefix for what it couldn't process, retries that come late.

use std::io::Write as _;

use anyhow::{Result, ensure};
use flate2::{Compression, write::GzEncoder};

use super::lake::{Lake, Rows, rows};

async fn deliver(lake: Lake<'_>, key: &str, rows: Rows) -> Result<()> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(rows.csv("").as_bytes())?;
    lake.put(key, encoder.finish()?).await
}

pub(super) async fn play(lake: Lake<'_>) -> Result<()> {
    let [seven, eight] = ["hour=2026-11-01T07:00:00", "hour=2026-11-01T08:00:00"];
    deliver(lake, "2026/11/01/07/clicks-1-2026-11-01-07-01-09-5f6a.gz", rows(0..20, "in time")).await?;
    deliver(lake, "2026/11/01/07/clicks-1-2026-11-01-07-06-09-6b70.gz", rows(20..40, "in time")).await?;
    deliver(lake, "2026/11/01/08/clicks-1-2026-11-01-08-01-09-7c81.gz", rows(40..60, "in time")).await?;
    lake.put("processing-failed/2026/11/01/08/clicks-1-2026-11-01-08-02-00-8d92", b"{\"rawData\":\"e30=\"}\n".to_vec())
        .await?;
    lake.wait_rows(seven, &[rows(0..40, "in time")]).await?;
    lake.wait_rows(eight, &[rows(40..60, "in time")]).await?;
    let before = lake.rebuilds(seven).await?;
    lake.ensure_rebuilds(seven, 1..=2).await?;
    lake.ensure_rebuilds(eight, 1..=1).await?;

    deliver(lake, "2026/11/01/07/clicks-1-2026-11-01-07-58-00-9ea3.gz", rows(60..65, "late")).await?;
    lake.wait_rows(seven, &[rows(0..40, "in time"), rows(60..65, "late")]).await?;
    lake.ensure_rebuilds(seven, before + 1..=before + 1).await?;
    lake.ensure_rebuilds(eight, 1..=1).await?;
    let eight = lake.item(eight).await?;
    ensure!(eight.is_some_and(|item| item.rests()), "what couldn't be processed is no file of the hour");
    Ok(())
}
