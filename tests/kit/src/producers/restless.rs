//! A stream of small files that never ends: the interval bounds the rebuilds, and the partition is rebuilt all the same.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::lake::{DAY, Lake, Rows, rows};

/// The least time between two rebuilds, in seconds.
pub(super) const INTERVAL_SECONDS: i64 = 3;
/// Rebuilds that are waited for while files come.
const REBUILDS: i64 = 3;

pub(super) async fn play(lake: Lake<'_>) -> Result<()> {
    let began = Instant::now();
    let mut written: Vec<Rows> = Vec::new();
    let mut seen = 0;
    // A file lands whenever a rebuild begins, and whenever one has landed: the partition is never clean.
    while seen < REBUILDS {
        let first = i64::try_from(written.len())? * 5;
        let file = rows(first..first + 5, "small");
        lake.write(&format!("{DAY}/{first:06}.parquet"), file.clone()).await?;
        written.push(file);
        let batch = batch_in_progress(lake).await?;
        seen = lake
            .wait("a rebuild to begin or to land", DAY, || async {
                let (rebuilds, now) = (lake.rebuilds(DAY).await?, batch_in_progress(lake).await?);
                Ok((rebuilds > seen || (now.is_some() && now != batch)).then_some(rebuilds))
            })
            .await?;
    }
    let elapsed = i64::try_from(began.elapsed().as_secs())?;
    lake.wait_rows(DAY, &written).await?;
    let most = elapsed / INTERVAL_SECONDS + 2;
    let rebuilds = lake.rebuilds(DAY).await?;
    ensure!(
        rebuilds <= most + 1,
        "{rebuilds} rebuilds of {} files in {elapsed} s: at most {most}, and one for the last",
        written.len()
    );
    Ok(())
}

async fn batch_in_progress(lake: Lake<'_>) -> Result<Option<String>> {
    Ok(lake.item(DAY).await?.and_then(|item| item.0["batch"]["id"].as_str().map(str::to_owned)))
}
