//! A dataset's definition, checked: what `datasets.toml` says, as types that can't say anything invalid.
//!
//! `parse` makes it from text, or tells every problem with line, column and remedy.

mod column;
mod copy;
mod duration;
mod expression;
mod options;
mod parse;
mod partition;
mod parts;
mod problem;
mod range;
mod reader;
mod root;
mod text;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::DatasetName;
use crate::layout::Layout;
use crate::object_key::value_decoded;
use crate::partition_value::{BadValue, PartitionValue};

pub use copy::{Compression, CopyOptions, Encoding, Paths, Switch};
pub use expression::Expression;
pub use parse::{Checks, parse, parse_with};
pub use partition::NotAPartition;
pub use problem::{Flaw, Problem};
pub use range::{Bounds, Grain, Range, Zone};

/// One dataset: one S3 root with a layout, feeding one target table.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The table of `datasets.toml` it stands in.
    pub name: DatasetName,
    /// Where its objects are.
    pub source: Root,
    /// How the keys below the root tell the partition.
    pub layout: Layout,
    /// What its objects are.
    pub format: Format,
    /// The target's database, where the owner names it; else the stack's.
    pub database: Option<String>,
    /// The table it feeds; no other dataset writes it.
    pub target: TableName,
    /// The columns as in the files, in the files' order.
    pub columns: Vec<Column>,
    /// The business key, for the duplicate check. May be empty.
    pub key: Vec<ColumnName>,
    /// Columns that must not be null.
    pub required: Vec<ColumnName>,
    /// How staged rows get into the target.
    pub write: WriteMode,
    /// Upsert only: of rows with one key the one with the greatest value here wins; a null loses.
    pub order_by: Option<ColumnName>,
    /// What goes into the target in a column's place, in the columns' order; the others pass through.
    pub select: Vec<(ColumnName, Expression)>,
    /// The scope of the lock.
    pub concurrency: Concurrency,
    /// How far back the sweep looks; `None` where the layout has no date.
    pub lookback: Option<Duration>,
    /// The least time between two rebuilds of one partition.
    pub interval: Interval,
    /// How long the statements of one rebuild may take in all before they are cancelled.
    pub load_window: Duration,
    /// The parts of the partition, in the layout's order.
    pub parts: Vec<Part>,
    /// Target columns that say where a row came from.
    pub provenance: Provenance,
    /// COPY options, as the format has them.
    pub copy: CopyOptions,
    /// What is let pass.
    pub tolerance: Tolerance,
}

/// An S3 location that ends in `/` (or is a whole bucket, with an empty prefix).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Root {
    /// The bucket's name.
    pub bucket: String,
    /// Empty, or ends in `/`.
    pub prefix: String,
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.prefix)
    }
}

/// A file format that COPY reads and Tidemark checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Apache Parquet; row counts are known before COPY, from the footers.
    Parquet,
    /// Apache ORC; row counts are known before COPY, from the footers.
    Orc,
    /// Comma-separated values; row counts are not known before COPY.
    Csv,
    /// Objects of JSON, one after another; row counts are not known before COPY.
    Json,
    /// Avro's container files; row counts are not known before COPY.
    Avro,
}

impl Format {
    /// Each of them.
    pub const ALL: [Self; 5] = [Self::Parquet, Self::Orc, Self::Csv, Self::Json, Self::Avro];

    /// Whether COPY reads it by columns: mapped by position, each file with a schema and a number of rows of its own, hardly
    /// an option, and all or nothing.
    pub fn is_columnar(self) -> bool {
        matches!(self, Self::Parquet | Self::Orc)
    }

    /// As the owner writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Orc => "orc",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Avro => "avro",
        }
    }
}

/// `schema.table`, both valid identifiers in lower case, as Redshift folds them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TableName {
    /// The schema.
    pub schema: String,
    /// The table in it.
    pub table: String,
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

/// A column's name: 1 to 127 bytes, lower case as Redshift folds it; quoted wherever it stands in SQL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ColumnName(pub String);

impl fmt::Display for ColumnName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A column of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name in staging and target.
    pub name: ColumnName,
    /// Its Redshift type.
    pub sql_type: SqlType,
}

/// The Redshift types a column may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlType {
    /// `smallint`, `int2`.
    SmallInt,
    /// `integer`, `int`, `int4`.
    Integer,
    /// `bigint`, `int8`.
    BigInt,
    /// `decimal(p,s)`, `numeric(p,s)`; 1 to 38 digits.
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// `real`, `float4`.
    Real,
    /// `double precision`, `float8`, `float`.
    Double,
    /// `boolean`, `bool`.
    Boolean,
    /// `char(n)`, n bytes, 1 to 4,096.
    Char(u16),
    /// `varchar(n)`, n bytes, 1 to 65,535.
    Varchar(u16),
    /// `date`.
    Date,
    /// `timestamp`, without time zone.
    Timestamp,
    /// `timestamptz`.
    TimestampTz,
    /// `time`, a time of day without zone.
    Time,
    /// `super`: whatever JSON can say, at most 16 MB.
    Super,
}

/// How staged rows get into the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteMode {
    /// Delete the partition's rows and insert the staged ones.
    Replace,
    /// Delete the rows of staged keys and insert the staged rows; rows whose keys are staged no more stay.
    Upsert,
}

/// The scope of the lock under which a partition is rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Concurrency {
    /// One rebuild of the target at a time.
    Table,
    /// One rebuild of each partition at a time.
    Partition,
}

/// The least time between two rebuilds of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interval {
    /// Four times what the last rebuild took, 15 minutes at most.
    Auto,
    /// As given.
    Fixed(Duration),
}

/// One part of a partition: what its text in the path means, and which rows it owns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its name in the layout: `dt` in `dt={dt}/`, or the date part's own name.
    pub name: String,
    /// How its text is read.
    pub kind: PartKind,
    /// The target column that equals its value for every row of the partition, or lies in its range.
    pub column: ColumnName,
    /// Whether the files hold the column; else the value is written from the path.
    pub in_files: bool,
    /// The range of moments in the column that its value stands for; `None`: the column equals the value. Only with `in_files`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Range>,
}

impl Part {
    /// Reads a value that is not encoded any more: what the partition is called that holds it.
    pub fn read(&self, text: &str) -> Result<PartitionValue, BadValue> {
        let Some(range) = &self.range else {
            return PartitionValue::parse(self.kind, text);
        };
        let whole = match (range.grain, text.len()) {
            (Grain::Month, 7) => format!("{text}-01"),
            (Grain::Year, 4) => format!("{text}-01-01"),
            _ => text.to_owned(),
        };
        range.holding(PartitionValue::parse(self.kind, &whole)?)
    }

    /// Reads a value as it stands in a `key=value` segment or in a canonical name: percent-decoded, once.
    pub fn read_encoded(&self, text: &str) -> Result<PartitionValue, BadValue> {
        self.read(&value_decoded(text).map_err(|_| BadValue::Text)?)
    }

    /// The partition that holds a date or moment that was read in pieces.
    pub(crate) fn holding(&self, value: PartitionValue) -> Result<PartitionValue, BadValue> {
        match &self.range {
            Some(range) => range.holding(value),
            None => Ok(value),
        }
    }
}

/// How a part's text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// `YYYY-MM-DD`.
    Date,
    /// A decimal integer of 64 bits.
    Integer,
    /// Text, equal byte for byte.
    Text,
    /// `YYYY-MM-DD HH:MM[:SS]`, also with `T`; without time zone, in UTC.
    Timestamp,
}

/// As the owner writes it.
impl fmt::Display for PartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Date => "date",
            Self::Integer => "integer",
            Self::Text => "text",
            Self::Timestamp => "timestamp",
        })
    }
}

/// Optional target columns that say where a row came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Gets the batch's id as text; makes `foreign_rows` exact.
    pub batch_id: Option<ColumnName>,
    /// Gets the time of the swap (timestamp, UTC).
    pub loaded_at: Option<ColumnName>,
}

/// What is let pass, decided before an incident.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// The greatest |source rows - staged rows|, where the source count is known.
    pub row_variance: u64,
    /// The greatest number of rows COPY may refuse, 0 to 99,999: it gives up at MAXERROR, which is one more.
    pub rejected_rows: u32,
    /// The greatest number of staged rows whose key another staged row has.
    pub duplicate_keys: u64,
    /// Objects of the last inventory are gone.
    pub missing_objects: MissingObjects,
    /// Nothing is listed at all.
    pub empty_source: EmptySource,
    /// Fewer rows than the target's partition holds now.
    pub row_drop: RowDrop,
    /// The swap would delete rows that no batch of ours wrote.
    pub foreign_rows: ForeignRows,
    /// How long after the last mark guards hold before they park.
    pub patience: Duration,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self {
            row_variance: 0,
            rejected_rows: 0,
            duplicate_keys: 0,
            missing_objects: MissingObjects::Told,
            empty_source: EmptySource::Refuse,
            row_drop: RowDrop::UpTo(0.10),
            foreign_rows: ForeignRows::Refuse,
            patience: Duration::from_mins(15),
        }
    }
}

/// What to do when objects of the last inventory are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingObjects {
    /// No more may be gone than ObjectRemoved events said.
    Told,
    /// None may be gone.
    Refuse,
    /// Any may be gone.
    Accept,
}

/// What to do when nothing is listed at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptySource {
    /// Hold, then park.
    Refuse,
    /// Empty the partition.
    Delete,
}

/// What to do when fewer rows are staged than the target's partition holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowDrop {
    /// Up to this share (0 to 1) may go.
    UpTo(f64),
    /// None may go.
    Refuse,
    /// Any may go.
    Accept,
}

/// What to do when the swap would delete rows that no batch of ours wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignRows {
    /// Park.
    Refuse,
    /// Delete them with the partition.
    Accept,
}

#[cfg(test)]
mod tests;
