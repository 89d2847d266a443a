//! AWS Glue's writer: appends under a new name each run, and leaves folder markers.

use anyhow::{Result, ensure};

use super::lake::{DAY, Lake, rows};

pub(super) async fn play(lake: Lake<'_>) -> Result<()> {
    lake.put(&format!("{DAY}_$folder$"), Vec::new()).await?;
    lake.write(&format!("{DAY}/run-1793491200000-part-r-00000.snappy.parquet"), rows(0..40, "first")).await?;
    lake.wait_rows(DAY, &[rows(0..40, "first")]).await?;

    // The job runs again, without bookmarks: the same rows in a second file.
    let again = format!("{DAY}/run-1793494800000-part-r-00000.snappy.parquet");
    lake.write(&again, rows(0..40, "again")).await?;
    let message = lake.wait_parked(DAY, "duplicate_keys").await?;
    ensure!(message.contains("40 staged rows repeat the key (id)"), "{message}");
    ensure!(lake.target(DAY).await?.len() == 40, "the target keeps the rows of the first run");

    lake.delete(&again).await?;
    lake.wait_rows(DAY, &[rows(0..40, "first")]).await?;
    // What is there then is what was committed: it is found unchanged.
    lake.ensure_rebuilds(DAY, 1..=1).await
}
