//! A producer's own corner of the world: its folder, its partitions, its table.

use std::future::Future;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;

use super::Producer;
use crate::state::Item;
use crate::world::World;

/// The day most of them write.
pub(super) const DAY: &str = "dt=2026-11-01";
/// The day after.
pub(super) const NEXT: &str = "dt=2026-11-02";

/// Where a producer writes, and what becomes of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lake<'a> {
    pub(super) world: &'a World,
    pub(super) producer: Producer,
}

/// Rows with these ids, all with one note: which run wrote them.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    ids: std::ops::Range<i64>,
    note: &'static str,
}

/// Rows with these ids and this note.
pub(super) fn rows(ids: std::ops::Range<i64>, note: &'static str) -> Rows {
    Rows { ids, note }
}

impl Rows {
    /// As a Parquet file.
    pub(super) fn parquet(&self) -> Result<Vec<u8>> {
        let fields =
            [("id", DataType::Int64), ("note", DataType::Utf8)].map(|(name, kind)| Field::new(name, kind, true));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let ids = Int64Array::from_iter_values(self.ids.clone());
        let notes = StringArray::from_iter_values(self.ids.clone().map(|_| self.note));
        let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(ids), Arc::new(notes)])?;
        let mut writer = ArrowWriter::try_new(Vec::new(), schema, None)?;
        writer.write(&batch)?;
        Ok(writer.into_inner()?)
    }

    /// As lines of CSV, each with `before` in front.
    pub(super) fn csv(&self, before: &str) -> String {
        let mut lines: Vec<String> = self.ids.clone().map(|id| format!("{before}{id},{}", self.note)).collect();
        lines.push(String::new());
        lines.join("\n")
    }
}

impl Lake<'_> {
    fn name(&self) -> &'static str {
        self.producer.name()
    }

    /// The key of what lies below the producer's folder.
    pub(super) fn key(&self, below: &str) -> String {
        format!("{}/{below}", self.name())
    }

    pub(super) fn bucket(&self) -> &str {
        self.world.stack.data_bucket()
    }

    /// Puts an object below the producer's folder.
    pub(super) async fn put(&self, below: &str, body: Vec<u8>) -> Result<()> {
        self.world.put(&self.key(below), body).await
    }

    /// Puts rows as a Parquet file.
    pub(super) async fn write(&self, below: &str, rows: Rows) -> Result<()> {
        self.put(below, rows.parquet()?).await
    }

    /// Deletes an object below the producer's folder.
    pub(super) async fn delete(&self, below: &str) -> Result<()> {
        self.world.delete(&self.key(below)).await
    }

    /// Renames as S3's file systems do: a copy, and a delete of the old key.
    pub(super) async fn rename(&self, from: &str, to: &str) -> Result<()> {
        let source = format!("{}/{}", self.bucket(), self.key(from)).replace('=', "%3D");
        let copy = self.world.s3.copy_object().bucket(self.bucket()).key(self.key(to)).copy_source(source);
        copy.send().await.with_context(|| format!("cannot copy {from:?} to {to:?}"))?;
        self.delete(from).await
    }

    /// A partition's item.
    pub(super) async fn item(&self, partition: &str) -> Result<Option<Item>> {
        self.world.item_named(self.name(), partition).await
    }

    /// How often a partition was rebuilt: its rows in the ledger.
    pub(super) async fn rebuilds(&self, partition: &str) -> Result<i64> {
        let count = "SELECT count(*) FROM tidemark.batches WHERE dataset = $1 AND partition_name = $2";
        let row =
            self.world.sql.query_one(count, &[&self.name(), &partition]).await.context("cannot read the ledger")?;
        Ok(row.try_get(0)?)
    }

    /// A partition's rows in the target, by id.
    pub(super) async fn target(&self, partition: &str) -> Result<Vec<(i64, String)>> {
        let (part, value) = partition.split_once('=').context("a partition has a part and a value")?;
        let select = format!("SELECT id, note FROM shapes.{} WHERE {part} = '{value}' ORDER BY 1, 2", self.name());
        let found = self.world.sql.query(&select, &[]).await.context("cannot read the target")?;
        found.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Waits until a probe gives a value, as [`World::wait_named`] does.
    pub(super) async fn wait<T, F, Fut>(&self, what: &str, partition: &str, probe: F) -> Result<T>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<Option<T>>>,
    {
        match self.world.wait_named(what, self.name(), partition, probe).await {
            Ok(value) => Ok(value),
            Err(error) => Err(error.context(format!("rows of the target: {}", self.target(partition).await?.len()))),
        }
    }

    /// Waits until a partition is at rest with just these rows in the target; minutes that it is put off for pass at once.
    pub(super) async fn wait_rows(&self, partition: &str, expected: &[Rows]) -> Result<()> {
        let pairs = expected.iter().flat_map(|rows| rows.ids.clone().map(|id| (id, rows.note.to_owned())));
        let mut pairs: Vec<(i64, String)> = pairs.collect();
        pairs.sort_unstable();
        self.wait(&format!("{} rows", pairs.len()), partition, || async {
            let item = self.item(partition).await?;
            if item.as_ref().is_some_and(|item| item.held().is_some()) {
                self.minutes_pass(partition).await?;
            }
            let rests = item.is_some_and(|item| item.rests());
            Ok((rests && self.target(partition).await? == pairs).then_some(()))
        })
        .await
    }

    /// Waits until a partition is put off for a reason.
    pub(super) async fn wait_held(&self, partition: &str, kind: &str) -> Result<()> {
        self.wait(&format!("to be held for {kind}"), partition, || async {
            Ok(self.item(partition).await?.filter(|item| item.held() == Some(kind)).map(|_| ()))
        })
        .await
    }

    /// Waits until a partition is parked for a reason; gives the message.
    pub(super) async fn wait_parked(&self, partition: &str, kind: &str) -> Result<String> {
        let (found, message) = self
            .wait("to be parked", partition, || async {
                let item = self.item(partition).await?;
                Ok(item.and_then(|item| item.parked().map(|(kind, message)| (kind.to_owned(), message.to_owned()))))
            })
            .await?;
        ensure!(found == kind, "{partition} is parked for {found}, not for {kind}: {message}");
        Ok(message)
    }

    /// Lets the minutes pass that a partition is put off for.
    pub(super) async fn minutes_pass(&self, partition: &str) -> Result<()> {
        self.world.make_due_named(self.name(), partition).await?;
        self.world.sweep().await
    }

    /// That a partition was rebuilt so many times.
    pub(super) async fn ensure_rebuilds(&self, partition: &str, expected: std::ops::RangeInclusive<i64>) -> Result<()> {
        let rebuilds = self.rebuilds(partition).await?;
        ensure!(expected.contains(&rebuilds), "{partition} was rebuilt {rebuilds} times, not {expected:?}");
        Ok(())
    }
}
