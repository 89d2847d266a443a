//! What stands in Redshift: target rows and ledger, read straight from the PostgreSQL below it.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::dataset::Partition;
use crate::world::World;

/// A partition as it stands in its target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// Every row as text, sorted.
    pub rows: Vec<String>,
    /// Rows beyond the first of each business key.
    pub duplicates: usize,
}

/// A committed batch, as the ledger tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landed {
    /// The batch's id.
    pub batch: String,
    /// The generation it covered.
    pub generation: i64,
    /// Its fence.
    pub fence: i64,
    /// Objects it was made from.
    pub source_objects: i64,
    /// Rows it deleted.
    pub deleted_rows: i64,
    /// Rows of the partition after it.
    pub target_rows: i64,
    /// The key of its inventory's index in the control bucket.
    pub inventory: String,
}

impl World {
    /// A partition's rows in its target.
    pub async fn target(&self, partition: &Partition) -> Result<Target> {
        let dataset = partition.dataset;
        let day = format!("dt = DATE '{}'", partition.day);
        let statement = format!(
            "SELECT {} AS row, row_number() OVER (PARTITION BY {}) > 1 AS twice FROM {} WHERE {day} ORDER BY 1",
            dataset.row_expression(),
            dataset.key(),
            dataset.target(),
        );
        let mut target = Target::default();
        for row in self.sql.query(&statement, &[]).await.with_context(|| format!("cannot read {partition}"))? {
            target.rows.push(row.try_get("row")?);
            target.duplicates += usize::from(row.try_get::<_, bool>("twice")?);
        }
        // The database sorts by its collation, the other side by bytes.
        target.rows.sort_unstable();
        Ok(target)
    }

    /// The partition's committed batches, oldest first.
    pub async fn landed(&self, partition: &Partition) -> Result<Vec<Landed>> {
        let statement = "SELECT batch_id, generation, fence, source_objects, deleted_rows, target_rows, inventory_key \
             FROM tidemark.batches WHERE dataset = $1 AND partition_name = $2 ORDER BY fence";
        let rows = self.sql.query(statement, &[&partition.dataset.name(), &partition.name()]).await;
        let rows = rows.context("cannot read the ledger")?;
        let landed = rows.iter().map(|row| {
            Ok(Landed {
                batch: row.try_get("batch_id")?,
                generation: row.try_get("generation")?,
                fence: row.try_get("fence")?,
                source_objects: row.try_get("source_objects")?,
                deleted_rows: row.try_get("deleted_rows")?,
                target_rows: row.try_get("target_rows")?,
                inventory: row.try_get("inventory_key")?,
            })
        });
        landed.collect()
    }

    /// What the ledger answers to "which files?": key and `ETag`, from the inventory that a batch names.
    pub async fn inventory(&self, landed: &Landed) -> Result<BTreeMap<String, String>> {
        let bucket = self.stack.output("ControlBucketName")?;
        let mut files = BTreeMap::new();
        let index = self.object(bucket, &landed.inventory).await?;
        let index: Value = serde_json::from_slice(&index).context("the inventory's index is no JSON")?;
        let (folder, _) = landed.inventory.rsplit_once('/').context("the inventory's key has no folder")?;
        for (part, hash) in index["parts"].as_array().into_iter().flatten().enumerate() {
            let hash = hash.as_str().context("a part without its hash")?;
            let lines = self.object(bucket, &format!("{folder}/part-{part:06}-{hash}.jsonl")).await?;
            for entry in serde_json::Deserializer::from_slice(&lines).into_iter::<Value>() {
                let entry = entry.context("the inventory holds a line that is no JSON")?;
                let text = |name: &str| {
                    entry[name].as_str().map(str::to_owned).with_context(|| format!("no {name} in {entry}"))
                };
                files.insert(text("key")?, text("etag")?);
            }
        }
        Ok(files)
    }

    /// What sweep has booked of a batch: key and `ETag` of each file, in the order of the keys.
    pub async fn booked(&self, batch: &str) -> Result<Vec<(String, String)>> {
        let statement = "SELECT key, etag FROM tidemark.files WHERE batch_id = $1";
        let rows = self.sql.query(statement, &[&batch]).await.context("cannot read which files are booked")?;
        let booked = rows.iter().map(|row| Ok((row.try_get("key")?, row.try_get("etag")?)));
        let mut booked: Vec<(String, String)> = booked.collect::<Result<_>>()?;
        booked.sort_unstable();
        Ok(booked)
    }

    /// How many COPY statements have loaded a batch's staging table.
    pub async fn copies(&self, batch: &str) -> Result<i64> {
        let statement = "SELECT count(*) FROM redshift_local.load_history WHERE table_name LIKE '%' || $1 || '%'";
        let row = self.sql.query_one(statement, &[&batch]).await.context("cannot read the history of loads")?;
        Ok(row.try_get(0)?)
    }
}
