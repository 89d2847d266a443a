//! What sweep asks of the ledger and writes there: which files the committed batches loaded, each partition's newest batch,
//! the staging tables that are left over.
//!
//! Only sweep writes `tidemark.files`. Two loads of it at once (a sweep was killed, its statement runs on) wait for each other
//! at `tidemark.booking`, a table nobody reads; each deletes what it is about to write: however often a batch is booked, it
//! stands there once.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::rebuild::CopyRole;
use super::rows::{self, Field, LedgerRow, Reader, RowError};
use super::{Batch, SqlError, identifier, literal};
use crate::id::{BatchId, DatasetName, PartitionName, StackName};
use crate::inventory::Entry;
use crate::partition::millis;

/// Batches booked by one statement at most: their ids stand in it.
pub const BOOKED_AT_ONCE: usize = 500;
/// The longest a statement of sweep may take, queueing and waiting for locks included.
const STATEMENT_TIMEOUT: Duration = Duration::from_mins(15);
/// So many staging tables are dropped in one transaction.
pub const DROPPED_AT_ONCE: usize = 30;
/// Bytes of names that one question may hold; the service takes 100,000 in all.
const NAMES_BYTES: usize = 80_000;

/// A committed batch whose files the ledger doesn't tell yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unbooked {
    /// The batch.
    pub batch: BatchId,
    /// Where its inventory is.
    pub inventory_key: String,
    /// How many objects it loaded; at least one.
    pub objects: u64,
}

/// The first `most` committed batches after `after`, in the order of their ids, whose files aren't booked; of those that
/// landed since `since`, where that is given. Rows of [`read_unbooked`].
pub fn unbooked(
    stack: &StackName,
    since: Option<Timestamp>,
    after: Option<BatchId>,
    most: usize,
) -> Result<Batch, SqlError> {
    let mut conditions =
        vec![format!("b.stack = {}", literal::text(stack.as_str())?), "b.source_objects > 0".to_owned()];
    if let Some(since) = since {
        conditions.push(format!("b.swapped_at >= {}", literal::timestamp(TimeZone::UTC.to_datetime(since))?));
    }
    if let Some(after) = after {
        conditions.push(format!("b.batch_id > {}", literal::text(&after.to_string())?));
    }
    let sql = format!(
        "SELECT b.batch_id, b.inventory_key, b.source_objects\nFROM tidemark.batches AS b\nWHERE {}\n\
         AND NOT EXISTS (SELECT 1 FROM tidemark.files AS f WHERE f.batch_id = b.batch_id)\n\
         ORDER BY b.batch_id LIMIT {}",
        conditions.join(" AND "),
        most.min(BOOKED_AT_ONCE)
    );
    ask("unbooked", sql)
}

/// Reads the rows of [`unbooked`].
pub fn read_unbooked(rows: &[Vec<Field>]) -> Result<Vec<Unbooked>, RowError> {
    let read = |row: &Vec<Field>| {
        let mut row = Reader::new("batches to book", row);
        Ok(Unbooked {
            batch: row.batch("batch_id")?,
            inventory_key: row.text("inventory_key")?,
            objects: row.count("source_objects")?,
        })
    };
    rows.iter().map(read).collect()
}

/// A line of what is booked: a row of `tidemark.files`, its members named as the columns.
#[derive(Debug, Serialize)]
struct FileLine<'a> {
    batch_id: BatchId,
    key: &'a str,
    etag: &'a str,
    size: u64,
    #[serde(with = "millis")]
    last_modified: Timestamp,
}

/// The lines of these objects of a batch, as [`book`] loads them.
pub fn file_lines(batch: BatchId, entries: &[Entry]) -> String {
    let mut lines = String::new();
    for Entry { key, etag, size, modified, .. } in entries {
        let line = FileLine { batch_id: batch, key, etag, size: *size, last_modified: *modified };
        lines.push_str(&serde_json::to_string(&line).unwrap_or_default());
        lines.push('\n');
    }
    lines
}

/// Loads the files of these batches, [`BOOKED_AT_ONCE`] at most, from a manifest of [`file_lines`].
pub fn book(batches: &[BatchId], manifest_url: &str, role: &CopyRole) -> Result<Batch, SqlError> {
    let mut ids = Vec::new();
    for batch in batches {
        ids.push(literal::text(&batch.to_string())?);
    }
    let mut statements = settings();
    statements.push("LOCK TABLE tidemark.booking".to_owned());
    statements.push(format!("DELETE FROM tidemark.files WHERE batch_id IN ({})", ids.join(", ")));
    statements.push(format!(
        "COPY tidemark.files (batch_id, key, etag, size, last_modified)\nFROM {}\nIAM_ROLE {} MANIFEST\n\
         FORMAT AS JSON 'auto'\nTIMEFORMAT AS 'epochmillisecs'\nCOMPUPDATE OFF STATUPDATE OFF",
        literal::text(manifest_url)?,
        super::copy::role(role)?,
    ));
    Batch::new("tidemark/book", statements)
}

/// The newest ledger row, by fence, of each partition of a dataset whose name lies after `after` and not after `last`. Rows of
/// [`read_newest`]. Names are compared as the database compares them, which may be otherwise than ours.
pub fn newest_between(
    stack: &StackName,
    dataset: &DatasetName,
    after: Option<&PartitionName>,
    last: Option<&PartitionName>,
) -> Result<Batch, SqlError> {
    let mut condition = String::new();
    for (operator, bound) in [(">", after), ("<=", last)] {
        if let Some(bound) = bound {
            condition = format!("{condition} AND b.partition_name {operator} {}", literal::text(bound.as_str())?);
        }
    }
    newest(stack, dataset, &condition)
}

/// The same of the first of these partitions, as many as one statement may name; how many those are.
pub fn newest_of(
    stack: &StackName,
    dataset: &DatasetName,
    names: &[PartitionName],
) -> Result<(Batch, usize), SqlError> {
    let (mut list, mut named) = (String::new(), 0);
    for name in names {
        let name = literal::text(name.as_str())?;
        if named > 0 && list.len() + name.len() > NAMES_BYTES {
            break;
        }
        list = if named == 0 { name } else { format!("{list}, {name}") };
        named += 1;
    }
    Ok((newest(stack, dataset, &format!(" AND b.partition_name IN ({list})"))?, named))
}

fn newest(stack: &StackName, dataset: &DatasetName, condition: &str) -> Result<Batch, SqlError> {
    let columns = rows::LEDGER_COLUMNS;
    let sql = format!(
        "SELECT n.partition_name, {}\nFROM (SELECT b.*, ROW_NUMBER() OVER (PARTITION BY b.partition_name ORDER BY b.fence DESC) \
         AS place\nFROM tidemark.batches AS b WHERE b.stack = {} AND b.dataset = {}{condition}) AS n\nWHERE n.place = 1",
        columns.map(|column| format!("n.{column}")).join(", "),
        literal::text(stack.as_str())?,
        literal::text(dataset.as_str())?,
    );
    ask("newest", sql)
}

/// Reads the rows of [`newest_between`] and [`newest_of`].
pub fn read_newest(found: &[Vec<Field>]) -> Result<Vec<(PartitionName, LedgerRow)>, RowError> {
    let read = |row: &Vec<Field>| {
        let mut row = Reader::new("newest batches", row);
        let name = row.text("partition_name")?;
        let name = PartitionName::new(&name)
            .map_err(|_| row.wrong("partition_name", "a partition's name", Field::Text(name)))?;
        let batch = row.batch("batch_id")?;
        Ok((name, rows::read_ledger_row(&mut row, batch)?))
    };
    found.iter().map(read).collect()
}

/// The staging tables that are there. Rows of [`read_staging_tables`].
pub fn staging_tables() -> Result<Batch, SqlError> {
    let sql = format!(
        "SELECT CAST(table_name AS varchar(128)) FROM information_schema.tables WHERE table_schema = {} ORDER BY 1",
        literal::text(identifier::STAGING_SCHEMA)?
    );
    ask("staging-tables", sql)
}

/// Reads the rows of [`staging_tables`]: batches, and the names of their tables. A table of another name is left out.
pub fn read_staging_tables(rows: &[Vec<Field>]) -> Result<Vec<(BatchId, String)>, RowError> {
    let name = |row: &Vec<Field>| Reader::new("staging tables", row).text("table_name");
    let names: Result<Vec<String>, RowError> = rows.iter().map(name).collect();
    Ok(names?.into_iter().filter_map(|name| Some((identifier::batch_of_staging(&name)?, name))).collect())
}

/// Drops the staging tables of these names, [`DROPPED_AT_ONCE`] at most.
pub fn drop_staging<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Batch, SqlError> {
    let mut statements = settings();
    for name in names {
        statements.push(format!("DROP TABLE IF EXISTS {}", identifier::staging(name)?));
    }
    Batch::new("tidemark/drop-left-over", statements)
}

fn ask(what: &str, sql: String) -> Result<Batch, SqlError> {
    let mut statements = settings();
    statements.push(sql);
    Batch::new(format!("tidemark/{what}"), statements)
}

fn settings() -> Vec<String> {
    let milliseconds = STATEMENT_TIMEOUT.as_millis();
    vec![format!("SET statement_timeout TO {milliseconds}"), "SET timezone TO 'UTC'".to_owned()]
}
