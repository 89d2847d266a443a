//! DMS: a full load at the table's root, change files with operation and time in front below date folders.

use anyhow::{Result, ensure};

use super::lake::{DAY, Lake, rows};

pub(super) async fn play(lake: Lake<'_>) -> Result<()> {
    // Not deep enough for the layout: the full load is counted with its reason, and belongs to another dataset.
    lake.put("LOAD00000001.csv", rows(0..100, "load").csv("").into_bytes()).await?;
    let inserts = rows(200..220, "inserted").csv("I,2026-11-01 07:00:00,");
    let update = "U,2026-11-01 07:00:01,200,updated\nD,2026-11-01 07:00:02,201,inserted\n";
    lake.put("2026/11/01/20261101-070000123.csv", format!("{inserts}{update}").into_bytes()).await?;
    let changes = [rows(200..220, "inserted"), rows(200..201, "updated"), rows(201..202, "inserted")];
    lake.wait_rows(DAY, &changes).await?;
    lake.ensure_rebuilds(DAY, 1..=1).await?;

    // Side by side: the columns of a full load don't fit the change files.
    lake.put("2026/11/01/LOAD00000002.csv", rows(300..310, "load").csv("").into_bytes()).await?;
    let message = lake.wait_parked(DAY, "rejected_data").await?;
    for named in ["LOAD00000002.csv", "line 1"] {
        ensure!(message.contains(named), "{named} is missing in: {message}");
    }
    ensure!(lake.target(DAY).await?.len() == 22, "the target keeps the changes");

    lake.delete("2026/11/01/LOAD00000002.csv").await?;
    lake.wait_rows(DAY, &changes).await?;
    lake.ensure_rebuilds(DAY, 1..=1).await
}
