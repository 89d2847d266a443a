//! What lies in S3: putting and deleting files, and reading them back independently of the product.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Decimal128Type, Int64Type, TimestampMicrosecondType};
use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::dataset::{Dataset, Partition};
use crate::orders::{self, Order, Return};
use crate::world::World;

/// A partition as it lies in S3.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// `ETag` by key, without quotes.
    pub files: BTreeMap<String, String>,
    /// Every row as text, sorted.
    pub rows: Vec<String>,
}

impl World {
    /// Puts an object into the data bucket.
    pub async fn put(&self, key: &str, body: Vec<u8>) -> Result<()> {
        let put = self.s3.put_object().bucket(self.stack.data_bucket()).key(key);
        put.body(ByteStream::from(body)).send().await.with_context(|| format!("cannot put {key:?}"))?;
        Ok(())
    }

    /// Puts orders as a Parquet file.
    pub async fn put_orders(&self, key: &str, orders: &[Order]) -> Result<()> {
        self.put(key, orders::parquet(orders)?).await
    }

    /// Puts returns as a CSV file.
    pub async fn put_returns(&self, key: &str, returns: &[Return]) -> Result<()> {
        self.put(key, orders::csv(returns)?).await
    }

    /// Deletes an object of the data bucket.
    pub async fn delete(&self, key: &str) -> Result<()> {
        let delete = self.s3.delete_object().bucket(self.stack.data_bucket()).key(key);
        delete.send().await.with_context(|| format!("cannot delete {key:?}"))?;
        Ok(())
    }

    /// Key and `ETag` of each object of a partition.
    pub async fn files(&self, partition: &Partition) -> Result<BTreeMap<String, String>> {
        let list = self.s3.list_objects_v2().bucket(self.stack.data_bucket()).prefix(partition.prefix());
        let mut pages = list.into_paginator().send();
        let mut files = BTreeMap::new();
        while let Some(page) = pages.next().await {
            for object in page?.contents() {
                let etag = object.e_tag().unwrap_or_default().trim_matches('"');
                files.insert(object.key().unwrap_or_default().to_owned(), etag.to_owned());
            }
        }
        Ok(files)
    }

    /// A partition, read from its files.
    pub async fn source(&self, partition: &Partition) -> Result<Source> {
        let files = self.files(partition).await?;
        let mut rows = Vec::new();
        for key in files.keys() {
            let body = self.object(self.stack.data_bucket(), key).await?;
            let read = match partition.dataset {
                Dataset::Orders => rows_of_parquet(body),
                Dataset::Returns => rows_of_csv(&body),
            };
            rows.extend(read.with_context(|| format!("cannot read {key:?}"))?);
        }
        rows.sort_unstable();
        Ok(Source { files, rows })
    }

    pub(crate) async fn object(&self, bucket: &str, key: &str) -> Result<Bytes> {
        let got = self.s3.get_object().bucket(bucket).key(key).send().await;
        let got = got.with_context(|| format!("cannot get s3://{bucket}/{key}"))?;
        Ok(got.body.collect().await?.into_bytes())
    }
}

fn rows_of_csv(body: &[u8]) -> Result<Vec<String>> {
    let mut reader = csv::Reader::from_reader(body);
    let rows = reader.records().map(|record| Ok(record?.iter().collect::<Vec<_>>().join("|")));
    rows.collect()
}

fn rows_of_parquet(body: Bytes) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(body)?.build()? {
        rows_of_batch(&batch?, &mut rows)?;
    }
    Ok(rows)
}

fn rows_of_batch(batch: &RecordBatch, rows: &mut Vec<String>) -> Result<()> {
    let [ids, customers, amounts, times] = batch.columns() else { bail!("{} columns", batch.num_columns()) };
    let ids = ids.as_primitive_opt::<Int64Type>().context("order_id is no int64")?;
    let customers = customers.as_string_opt::<i32>().context("customer is no text")?;
    let amounts = amounts.as_primitive_opt::<Decimal128Type>().context("amount is no decimal")?;
    let times = times.as_primitive_opt::<TimestampMicrosecondType>().context("ordered_at is no timestamp")?;
    for row in 0..batch.num_rows() {
        let at = times.value_as_datetime(row).context("ordered_at is out of range")?.format("%Y-%m-%d %H:%M:%S");
        let line = format!("{}|{}|{}|{at}", ids.value(row), customers.value(row), amounts.value_as_string(row));
        rows.push(line);
    }
    debug_assert_eq!(ids.null_count(), 0, "no order here has a null");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_read_back_as_written() {
        let order = Order { order_id: 7, customer: "O'Hara".to_owned(), cents: 1205, ordered_at: 1_793_491_261 };
        let rows = rows_of_parquet(orders::parquet(&[order]).unwrap().into()).unwrap();
        assert_eq!(rows, ["7|O'Hara|12.05|2026-11-01 00:01:01"]);
        let row = Return { return_id: 1, order_id: 7, reason: "a, \"b\"".to_owned(), quantity: 2 };
        assert_eq!(rows_of_csv(&orders::csv(&[row]).unwrap()).unwrap(), ["1|7|a, \"b\"|2"]);
    }
}
