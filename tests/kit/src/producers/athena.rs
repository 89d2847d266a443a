//! Athena: names without an ending, results beside the data; a CTAS needs an empty folder.

use anyhow::Result;

use super::lake::{DAY, Lake, NEXT, rows};

pub(super) async fn play(lake: Lake<'_>) -> Result<()> {
    let ctas = format!("{DAY}/20261101_070001_00012_8f3xk_1c0de9a2-4c1b");
    lake.write(&ctas, rows(0..40, "ctas")).await?;
    // What Athena keeps of the query itself lies in its own folder, which no dataset claims.
    lake.world.put("athena-results/1c0de9a2.csv.metadata", b"\x08".to_vec()).await?;
    lake.world.put("athena-results/1c0de9a2-manifest.csv", format!("s3://{ctas}").into_bytes()).await?;
    lake.wait_rows(DAY, &[rows(0..40, "ctas")]).await?;

    let insert = format!("{DAY}/20261101_080001_00044_8f3xk_77aa0b1e-9d20");
    lake.write(&insert, rows(40..60, "insert")).await?;
    lake.write(&format!("{NEXT}/20261101_080001_00044_8f3xk_77aa0b1e-9d21"), rows(60..70, "insert")).await?;
    lake.wait_rows(DAY, &[rows(0..40, "ctas"), rows(40..60, "insert")]).await?;
    lake.wait_rows(NEXT, &[rows(60..70, "insert")]).await?;
    lake.ensure_rebuilds(DAY, 2..=2).await?;

    // DROP TABLE leaves the files; whoever makes the table again deletes them first.
    lake.delete(&ctas).await?;
    lake.delete(&insert).await?;
    lake.write(&format!("{DAY}/20261101_090001_00007_8f3xk_b2b2b2b2-0001"), rows(0..60, "again")).await?;
    lake.wait_rows(DAY, &[rows(0..60, "again")]).await?;
    lake.ensure_rebuilds(DAY, 3..=3).await?;
    lake.ensure_rebuilds(NEXT, 1..=1).await
}
