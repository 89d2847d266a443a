//! A file that is written anew under the same name, while COPY reads it.

use anyhow::{Result, ensure};

use super::lake::{DAY, Lake, rows};

pub(super) async fn play(lake: Lake<'_>) -> Result<()> {
    let file = format!("{DAY}/export.parquet");
    lake.world.slow_copy(3).await?;
    lake.write(&file, rows(0..40, "first")).await?;
    lake.wait("a COPY to run", DAY, || async {
        Ok(lake.item(DAY).await?.filter(crate::state::Item::is_loading).map(|_| ()))
    })
    .await?;
    lake.write(&file, rows(0..50, "second")).await?;
    lake.world.slow_copy(0).await?;
    lake.wait_rows(DAY, &[rows(0..50, "second")]).await?;
    // Nothing of the first version ever landed, and nobody had to act.
    lake.ensure_rebuilds(DAY, 1..=1).await?;
    let told = lake.item(DAY).await?.is_some_and(|item| item.0.get("alerted").is_some());
    ensure!(!told, "nobody was alerted");
    Ok(())
}
