//! Spark: its two ways to overwrite, and a committer that renames nothing.

use anyhow::{Result, ensure};

use super::lake::{DAY, Lake, NEXT, rows};

/// A job that writes its files below `staging` and renames them into their partition, with a checksum beside each.
async fn commit(lake: Lake<'_>, staging: &str, partition: &str, file: &str, body: Vec<u8>) -> Result<()> {
    let name = format!("{partition}/{file}");
    let staged = format!("{staging}/{name}");
    lake.put(&staged, body).await?;
    lake.rename(&staged, &name).await?;
    lake.put(&format!("{partition}/.{file}.crc"), b"crc\0".to_vec()).await
}

/// `df.write.mode("overwrite")`: everything below the path is deleted, the job runs, its files are renamed into place.
pub(super) async fn overwrite(lake: Lake<'_>) -> Result<()> {
    let staging = "_temporary/0/_temporary/attempt_202611010700_0001_m_000000_1";
    let runs = [
        ["part-00000-aa.c000.snappy.parquet", "part-00001-aa.c000.snappy.parquet"],
        ["part-00000-bb.c000.snappy.parquet", "part-00001-bb.c000.snappy.parquet"],
    ];
    for (file, ids) in runs[0].iter().zip([0..40, 40..80]) {
        commit(lake, staging, DAY, file, rows(ids, "first").parquet()?).await?;
    }
    lake.put("_SUCCESS", Vec::new()).await?;
    lake.wait_rows(DAY, &[rows(0..80, "first")]).await?;
    let before = lake.rebuilds(DAY).await?;

    for file in runs[0] {
        lake.delete(&format!("{DAY}/{file}")).await?;
        lake.delete(&format!("{DAY}/.{file}.crc")).await?;
    }
    lake.delete("_SUCCESS").await?;
    lake.wait_held(DAY, "empty_source").await?;
    ensure!(lake.target(DAY).await?.len() == 80, "while the job runs, the rows of the last run stay");

    for (file, ids) in runs[1].iter().zip([0..50, 50..100]) {
        commit(lake, staging, DAY, file, rows(ids, "second").parquet()?).await?;
    }
    lake.put("_SUCCESS", Vec::new()).await?;
    lake.wait_rows(DAY, &[rows(0..100, "second")]).await?;
    lake.ensure_rebuilds(DAY, before + 1..=before + 2).await
}

/// `spark.sql.sources.partitionOverwriteMode=dynamic`: only the partitions that the job wrote are replaced.
pub(super) async fn dynamic_overwrite(lake: Lake<'_>) -> Result<()> {
    let staging = ".spark-staging-4b1d";
    for (partition, ids) in [(DAY, 0..40), (NEXT, 40..80)] {
        commit(lake, staging, partition, "part-00000-aa.parquet", rows(ids, "first").parquet()?).await?;
    }
    lake.wait_rows(DAY, &[rows(0..40, "first")]).await?;
    lake.wait_rows(NEXT, &[rows(40..80, "first")]).await?;
    lake.ensure_rebuilds(DAY, 1..=1).await?;

    let staged = format!("{staging}/{DAY}/part-00000-bb.parquet");
    lake.write(&staged, rows(0..30, "second")).await?;
    lake.delete(&format!("{DAY}/part-00000-aa.parquet")).await?;
    lake.rename(&staged, &format!("{DAY}/part-00000-bb.parquet")).await?;
    lake.wait_rows(DAY, &[rows(0..30, "second")]).await?;
    lake.ensure_rebuilds(DAY, 2..=2).await?;
    lake.ensure_rebuilds(NEXT, 1..=1).await
}

/// The magic committer keeps its book inside the partition; the files appear when the job completes their uploads.
pub(super) async fn magic_committer(lake: Lake<'_>) -> Result<()> {
    let magic = format!("{DAY}/__magic_job-1/tasks/attempt_1/__base");
    let file = format!("{DAY}/part-00000.parquet");
    let upload = lake.begin_upload(&file, &rows(0..60, "first").parquet()?).await?;
    lake.put(&format!("{magic}/part-00000.parquet"), Vec::new()).await?;
    lake.put(&format!("{magic}/part-00000.parquet.pending"), b"{}".to_vec()).await?;
    // Another partition says whether events of hidden keys mark: one that nothing else is written to.
    lake.put(&format!("{NEXT}/__magic_job-1/tasks/attempt_2/__base/part-00000.parquet"), Vec::new()).await?;
    ensure!(lake.item(DAY).await?.is_none(), "nothing is there before the job commits");

    lake.complete(&file, upload).await?;
    lake.delete(&format!("{magic}/part-00000.parquet")).await?;
    lake.delete(&format!("{magic}/part-00000.parquet.pending")).await?;
    lake.wait_rows(DAY, &[rows(0..60, "first")]).await?;
    lake.ensure_rebuilds(DAY, 1..=1).await?;
    ensure!(lake.item(NEXT).await?.is_none(), "the committer's own files mark nothing");
    Ok(())
}
