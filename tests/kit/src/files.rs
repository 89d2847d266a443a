//! Files of every format, made from typed rows: what a producer would write, byte for byte the same each time.
//!
//! The rows are the oracle's: what stands in the target is held against them, and never against what a reader of the product
//! made of the files.

mod avro;
mod orc;

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int16Array, Int32Array,
    Int64Array, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::record_batch::RecordBatch;
use flate2::write::GzEncoder;
use jiff::civil::{Date, DateTime, date};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression as Codec;
use parquet::file::properties::WriterProperties;

/// What a file is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Apache ORC.
    Orc,
    /// Comma-separated values with a header of one line.
    Csv,
    /// An object a line.
    Json,
    /// Avro's container files, of plain types: Redshift knows no logical ones.
    Avro,
}

/// How its bytes are made fewer: of Parquet, ORC and Avro parts of the file, of text the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// gzip.
    Gzip,
    /// bzip2.
    Bzip2,
    /// Deflate: what ORC calls zlib.
    Deflate,
    /// Snappy: the usual one of columnar files.
    Snappy,
    /// Zstandard.
    Zstd,
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// `smallint`
    SmallInt,
    /// `integer`
    Integer,
    /// `bigint`
    BigInt,
    /// `decimal(p,s)`
    Decimal(u8, u8),
    /// `real`
    Real,
    /// `double precision`
    Double,
    /// `boolean`
    Boolean,
    /// `varchar(n)`, bytes.
    Varchar(u16),
    /// `date`
    Date,
    /// `timestamp`
    Timestamp,
    /// `timestamptz`
    TimestampTz,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// NULL, of any type.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a point: `Decimal(1205, 2)` is 12.05.
    Decimal(i128, u8),
    /// A number of `real` or `double precision`.
    Float(f64),
    /// A text.
    Text(String),
    /// A day.
    Date(Date),
    /// A moment, without zone or in UTC; microseconds.
    Timestamp(DateTime),
}

/// Rows under their columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Names and types, in the files' order.
    pub columns: Vec<(String, Type)>,
    /// As many cells a row as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

impl Format {
    /// Each of them.
    pub const ALL: [Self; 5] = [Self::Parquet, Self::Orc, Self::Csv, Self::Json, Self::Avro];

    /// As `format` of a definition has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Orc => "orc",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Avro => "avro",
        }
    }

    /// The compressions that its files have in lakes.
    pub fn compressions(self) -> &'static [Compression] {
        match self {
            Self::Parquet => &[Compression::Plain, Compression::Snappy, Compression::Gzip, Compression::Zstd],
            Self::Orc => &[Compression::Plain, Compression::Deflate, Compression::Snappy, Compression::Zstd],
            Self::Csv | Self::Json => &[Compression::Plain, Compression::Gzip, Compression::Bzip2, Compression::Zstd],
            Self::Avro => &[Compression::Plain, Compression::Deflate, Compression::Snappy],
        }
    }
}

impl Compression {
    /// As `compression` of a definition has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "none",
            Self::Gzip => "gzip",
            Self::Bzip2 => "bzip2",
            Self::Deflate => "deflate",
            Self::Snappy => "snappy",
            Self::Zstd => "zstd",
        }
    }
}

impl Type {
    /// As SQL has it.
    pub fn sql(self) -> String {
        match self {
            Self::SmallInt => "smallint".to_owned(),
            Self::Integer => "integer".to_owned(),
            Self::BigInt => "bigint".to_owned(),
            Self::Decimal(precision, scale) => format!("decimal({precision},{scale})"),
            Self::Real => "real".to_owned(),
            Self::Double => "double precision".to_owned(),
            Self::Boolean => "boolean".to_owned(),
            Self::Varchar(bytes) => format!("varchar({bytes})"),
            Self::Date => "date".to_owned(),
            Self::Timestamp => "timestamp".to_owned(),
            Self::TimestampTz => "timestamptz".to_owned(),
        }
    }
}

impl Cell {
    /// The value as text, as CSV has it; `None` for NULL.
    pub fn text(&self) -> Option<String> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Decimal(unscaled, scale) => decimal_text(*unscaled, *scale),
            Self::Float(value) => value.to_string(),
            Self::Text(text) => text.clone(),
            Self::Date(day) => day.to_string(),
            Self::Timestamp(at) => at.to_string().replace('T', " "),
        })
    }
}

fn decimal_text(unscaled: i128, scale: u8) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let width = usize::from(scale) + 1;
    let digits = format!("{:0width$}", unscaled.unsigned_abs());
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    let point = if scale == 0 { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

/// A file with these rows.
pub fn write(format: Format, compression: Compression, table: &Table) -> Result<Vec<u8>> {
    match format {
        Format::Parquet => parquet(table, compression),
        Format::Orc => orc::write(table, compression),
        // NULL is `\N`, as Redshift has it unless told otherwise.
        Format::Csv => write_csv_as(compression, table, b',', b'"', "\\N"),
        Format::Json => compressed(&json(table)?, compression),
        Format::Avro => avro::write(table, compression),
    }
}

/// A whole file, compressed as COPY's options know it.
pub fn compressed(bytes: &[u8], compression: Compression) -> Result<Vec<u8>> {
    match compression {
        Compression::Plain => Ok(bytes.to_vec()),
        Compression::Gzip => gzip(bytes),
        Compression::Bzip2 => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
            encoder.write_all(bytes)?;
            Ok(encoder.finish()?)
        }
        Compression::Zstd => Ok(zstd::encode_all(bytes, 0)?),
        Compression::Snappy | Compression::Deflate => bail!("no whole file is compressed with {}", compression.name()),
    }
}

/// An object a line: numbers and truth values bare, all else as strings, null for NULL.
fn json(table: &Table) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for row in &table.rows {
        let mut before = '{';
        for ((name, _), cell) in table.columns.iter().zip(row) {
            write!(out, "{before}{}:", serde_json::to_string(name)?)?;
            before = ',';
            match (cell, cell.text()) {
                (_, None) => write!(out, "null")?,
                (Cell::Bool(_) | Cell::Int(_) | Cell::Decimal(..) | Cell::Float(_), Some(text)) => {
                    write!(out, "{text}")?;
                }
                (_, Some(text)) => write!(out, "{}", serde_json::to_string(&text)?)?,
            }
        }
        writeln!(out, "}}")?;
    }
    Ok(out)
}

/// A CSV file with a delimiter, a quote and a text for NULL of one's own.
pub fn write_csv_as(compression: Compression, table: &Table, delimiter: u8, quote: u8, null: &str) -> Result<Vec<u8>> {
    let mut writer = ::csv::WriterBuilder::new().delimiter(delimiter).quote(quote).from_writer(Vec::new());
    writer.write_record(table.columns.iter().map(|(name, _)| name))?;
    for row in &table.rows {
        writer.write_record(row.iter().map(|cell| cell.text().unwrap_or_else(|| null.to_owned())))?;
    }
    compressed(&writer.into_inner()?, compression)
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn parquet(table: &Table, compression: Compression) -> Result<Vec<u8>> {
    let codec = match compression {
        Compression::Plain => Codec::UNCOMPRESSED,
        Compression::Gzip => Codec::GZIP(parquet::basic::GzipLevel::default()),
        Compression::Snappy => Codec::SNAPPY,
        Compression::Zstd => Codec::ZSTD(parquet::basic::ZstdLevel::default()),
        Compression::Bzip2 | Compression::Deflate => bail!("no parquet file is compressed with {}", compression.name()),
    };
    let batch = record_batch(table)?;
    let properties = WriterProperties::builder().set_compression(codec).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    Ok(writer.into_inner()?)
}

/// The rows as Arrow has them, every column nullable, as Spark and Athena write them.
fn record_batch(table: &Table) -> Result<RecordBatch> {
    let fields = table.columns.iter().map(|(name, kind)| Field::new(name, arrow_type(*kind), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = table.columns.iter().enumerate().map(|(place, (name, kind))| {
        let cells: Vec<&Cell> = table.rows.iter().filter_map(|row| row.get(place)).collect();
        column(*kind, &cells).with_context(|| format!("column {name}"))
    });
    Ok(RecordBatch::try_new(schema, columns.collect::<Result<_>>()?)?)
}

fn arrow_type(kind: Type) -> DataType {
    match kind {
        Type::SmallInt => DataType::Int16,
        Type::Integer => DataType::Int32,
        Type::BigInt => DataType::Int64,
        Type::Decimal(precision, scale) => DataType::Decimal128(precision, i8::try_from(scale).unwrap_or(i8::MAX)),
        Type::Real => DataType::Float32,
        Type::Double => DataType::Float64,
        Type::Boolean => DataType::Boolean,
        Type::Varchar(_) => DataType::Utf8,
        Type::Date => DataType::Date32,
        Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
    }
}

fn column(kind: Type, cells: &[&Cell]) -> Result<ArrayRef> {
    let integers = || each(cells, |cell| if let Cell::Int(value) = cell { Some(*value) } else { None });
    let floats = || each(cells, |cell| if let Cell::Float(value) = cell { Some(*value) } else { None });
    let micros = || {
        let micros = |cell: &Cell| match cell {
            Cell::Timestamp(at) => Some(jiff::tz::TimeZone::UTC.to_timestamp(*at).ok()?.as_microsecond()),
            _ => None,
        };
        each(cells, micros)
    };
    Ok(match kind {
        Type::SmallInt => {
            let values = integers()?.into_iter().map(|value| value.map(i16::try_from).transpose());
            Arc::new(values.collect::<Result<Int16Array, _>>()?)
        }
        Type::Integer => {
            let values = integers()?.into_iter().map(|value| value.map(i32::try_from).transpose());
            Arc::new(values.collect::<Result<Int32Array, _>>()?)
        }
        Type::BigInt => Arc::new(Int64Array::from(integers()?)),
        Type::Decimal(precision, scale) => {
            let unscaled = |cell: &Cell| match cell {
                Cell::Decimal(unscaled, of) if *of == scale => Some(*unscaled),
                _ => None,
            };
            let array = Decimal128Array::from(each(cells, unscaled)?);
            Arc::new(array.with_precision_and_scale(precision, i8::try_from(scale)?)?)
        }
        #[expect(clippy::cast_possible_truncation, reason = "a `real` holds no more")]
        Type::Real => {
            Arc::new(floats()?.into_iter().map(|value| value.map(|value| value as f32)).collect::<Float32Array>())
        }
        Type::Double => Arc::new(Float64Array::from(floats()?)),
        Type::Boolean => {
            let truths = each(cells, |cell| if let Cell::Bool(value) = cell { Some(*value) } else { None })?;
            Arc::new(BooleanArray::from(truths))
        }
        Type::Varchar(_) => {
            let texts = each(cells, |cell| if let Cell::Text(text) = cell { Some(text.clone()) } else { None })?;
            Arc::new(StringArray::from(texts))
        }
        Type::Date => {
            let days = |cell: &Cell| match cell {
                Cell::Date(day) => date(1970, 1, 1).until(*day).ok().map(|span| span.get_days()),
                _ => None,
            };
            Arc::new(Date32Array::from(each(cells, days)?))
        }
        Type::Timestamp => Arc::new(TimestampMicrosecondArray::from(micros()?)),
        Type::TimestampTz => Arc::new(TimestampMicrosecondArray::from(micros()?).with_timezone("UTC")),
    })
}

/// The values of a column; a cell of another type is an error.
fn each<T>(cells: &[&Cell], value: impl Fn(&Cell) -> Option<T>) -> Result<Vec<Option<T>>> {
    let of = |cell: &&Cell| match cell {
        Cell::Null => Ok(None),
        cell => value(cell).map(Some).with_context(|| format!("{cell:?} is of another type")),
    };
    cells.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_their_point_in_its_place() {
        assert_eq!(decimal_text(1205, 2), "12.05");
        assert_eq!(decimal_text(-5, 2), "-0.05");
        assert_eq!(decimal_text(7, 0), "7");
    }

    #[test]
    fn a_cell_of_another_type_is_no_null() {
        let table =
            Table { columns: vec![("a".to_owned(), Type::BigInt)], rows: vec![vec![Cell::Text("7".to_owned())]] };
        assert!(write(Format::Parquet, Compression::Plain, &table).is_err());
    }

    #[test]
    fn every_format_is_written_in_every_compression_of_it() {
        let cells = vec![Cell::Int(7), Cell::Text("a,\"b\"\n".to_owned()), Cell::Null];
        let names = [("a", Type::BigInt), ("b", Type::Varchar(20)), ("c", Type::Timestamp)];
        let columns = names.map(|(name, kind)| (name.to_owned(), kind)).to_vec();
        let table = Table { columns, rows: vec![cells] };
        for format in Format::ALL {
            for compression in format.compressions() {
                assert!(!write(format, *compression, &table).unwrap().is_empty());
            }
        }
        assert_eq!(write(Format::Csv, Compression::Plain, &table).unwrap(), b"a,b,c\n7,\"a,\"\"b\"\"\n\",\\N\n");
    }
}
