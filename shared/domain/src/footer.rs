//! The footer of a Parquet or ORC file: how many rows, and which columns, without reading the rest.

mod frame;
mod orc;
mod parquet;

use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::ParquetMetaDataReader;

use crate::definition::{Column, Format, SqlType};
use crate::drift;

/// How many bytes of a file's end are read at first: enough for the footer of most files.
pub const FIRST_READ: u64 = 64 * 1024;

/// What a footer tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    /// Rows of all row groups or stripes.
    pub rows: u64,
    /// The top-level columns, in the file's order.
    pub columns: Vec<FileColumn>,
}

/// A column as the file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileColumn {
    /// Its name, in the file's own case.
    pub name: String,
    /// Its type, in the format's own words.
    pub described: String,
    /// Which columns COPY fills from it.
    pub fills: &'static [Family],
    /// How its decimals are written, where it holds any.
    pub decimals: Option<Decimals>,
}

/// Decimals of a file's column. COPY converts none: what it would cut, or read at another scale, is refused here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimals {
    /// Digits in all.
    pub precision: u64,
    /// Of them after the point.
    pub scale: u64,
    /// How many bytes each number has, where it isn't an integer. COPY expects the fewest for the column's precision.
    pub bytes: Option<u64>,
}

impl Decimals {
    /// Whether COPY fills a column of that type from them, whole.
    fn fill(self, precision: u8, scale: u8) -> bool {
        let greatest = 10_u128.pow(u32::from(precision.min(38))) - 1;
        let fewest_bytes = u64::from((129 - greatest.leading_zeros()).div_ceil(8));
        self.scale == u64::from(scale)
            && self.precision <= u64::from(precision)
            && self.bytes.is_none_or(|bytes| bytes == fewest_bytes)
    }
}

impl FileColumn {
    fn fill(&self, sql_type: SqlType) -> bool {
        let alike = self.fills.contains(&Family::of(sql_type));
        match (sql_type, self.decimals) {
            (SqlType::Decimal { precision, scale }, Some(decimals)) => alike && decimals.fill(precision, scale),
            _ => alike,
        }
    }
}

/// Types of Redshift that COPY fills alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the types are")]
pub enum Family {
    SmallInt,
    Integer,
    BigInt,
    Decimal,
    Real,
    Double,
    Boolean,
    Text,
    Date,
    Timestamp,
    Time,
    Super,
}

impl Family {
    fn of(sql_type: SqlType) -> Self {
        match sql_type {
            SqlType::SmallInt => Self::SmallInt,
            SqlType::Integer => Self::Integer,
            SqlType::BigInt => Self::BigInt,
            SqlType::Decimal { .. } => Self::Decimal,
            SqlType::Real => Self::Real,
            SqlType::Double => Self::Double,
            SqlType::Boolean => Self::Boolean,
            SqlType::Char(_) | SqlType::Varchar(_) => Self::Text,
            SqlType::Date => Self::Date,
            SqlType::Timestamp | SqlType::TimestampTz => Self::Timestamp,
            SqlType::Time => Self::Time,
            SqlType::Super => Self::Super,
        }
    }
}

impl Footer {
    /// How a file's columns differ from the definition's. COPY maps them by position, so name, place and type must agree;
    /// `fill` allows columns to lack at the end. Each difference is told, up to five.
    pub fn drift(&self, columns: &[Column], fill: bool) -> Option<String> {
        let mut differences = Vec::new();
        for (place, (found, expected)) in (1..).zip(self.columns.iter().zip(columns)) {
            if !found.name.eq_ignore_ascii_case(&expected.name.0) {
                let (found, expected) = (&found.name, &expected.name);
                differences.push(format!("column {place} is `{found}`, but the definition says `{expected}`"));
            } else if !found.fill(expected.sql_type) {
                let (name, wanted) = (&expected.name, expected.sql_type);
                let described = &found.described;
                differences.push(format!(
                    "column {place} `{name}` is {described}, from which COPY fills no {wanted} as the definition says"
                ));
            }
        }
        drift::told(differences, self.columns.len(), columns.len(), fill)
    }
}

/// Why a footer can't be had from these bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FooterError {
    /// The footer is longer: read this many bytes of the end.
    #[error("the footer needs the last {0} bytes")]
    NeedsMore(u64),
    /// Not a file of the format, or a broken one.
    #[error("not a readable {format} file: {why}")]
    Broken {
        /// The format.
        format: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

/// Reads the footer from the last bytes of a file of `size` bytes. Memory is bounded by the footer's own bytes.
pub fn read(format: Format, tail: &[u8], size: u64) -> Result<Footer, FooterError> {
    if format == Format::Orc { orc::read(tail, size) } else { read_parquet(tail, size) }
}

fn broken_parquet(why: impl Into<String>) -> FooterError {
    FooterError::Broken { format: "Parquet", why: why.into() }
}

fn read_parquet(tail: &[u8], size: u64) -> Result<Footer, FooterError> {
    let broken = |error: ParquetError| broken_parquet(error.to_string());
    let essentials = frame::essentials(frame::footer(tail, size)?)?;
    let metadata = ParquetMetaDataReader::decode_metadata(&essentials).map_err(broken)?;
    let file = metadata.file_metadata();
    let rows = u64::try_from(file.num_rows())
        .map_err(|_| broken_parquet(format!("{} rows in its footer", file.num_rows())))?;
    let columns = file.schema().get_fields().iter().map(|field| parquet::column(field)).collect();
    Ok(Footer { rows, columns })
}
