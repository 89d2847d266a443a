//! ORC files: columns by position, each file's schema held against the table first.
//!
//! Columns of every encoding that Hive, Spark and the C++ library write. Nested ones fill a SUPER, as [`nested`] says.
//! Source: the ORC specification, version 1.

mod file;
mod nested;
mod runs;

use std::fs::File;
use std::io::Read as _;

use jiff::civil::date;

use self::file::{Column, Orc, Stripe};
use super::parquet::{Bad, characters, nested_refused};
use super::target::Target;
use super::value::{self, Kind};
use super::{moment, spectrum};
use crate::dialect::copy::CopyCommand;
use crate::failure::Failure;

/// `Type.Kind` of the specification.
pub(super) mod kind {
    pub(crate) const BOOLEAN: u64 = 0;
    pub(crate) const BYTE: u64 = 1;
    pub(crate) const SHORT: u64 = 2;
    pub(crate) const INT: u64 = 3;
    pub(crate) const LONG: u64 = 4;
    pub(crate) const FLOAT: u64 = 5;
    pub(crate) const DOUBLE: u64 = 6;
    pub(crate) const STRING: u64 = 7;
    pub(crate) const BINARY: u64 = 8;
    pub(crate) const TIMESTAMP: u64 = 9;
    pub(crate) const LIST: u64 = 10;
    pub(crate) const MAP: u64 = 11;
    pub(crate) const STRUCT: u64 = 12;
    pub(crate) const DECIMAL: u64 = 14;
    pub(crate) const DATE: u64 = 15;
    pub(crate) const VARCHAR: u64 = 16;
    pub(crate) const CHAR: u64 = 17;
    pub(crate) const INSTANT: u64 = 18;
    /// As messages name them.
    pub(crate) const NAMES: [&str; 19] = [
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "string",
        "binary",
        "timestamp",
        "list",
        "map",
        "struct",
        "union",
        "decimal",
        "date",
        "varchar",
        "char",
        "timestamp with local time zone",
    ];
}

const UNION: u64 = 13;

/// Moments count from 2015-01-01, of the writer's zone; only UTC is read.
const EPOCH_SECONDS: i64 = 1_420_070_400;

/// Reads a file on a blocking thread; `emit` gets the rows in PostgreSQL's text form, many at a time, and says whether to
/// go on. Gives the number of rows.
pub(super) fn read(
    mut file: File,
    url: &str,
    target: &Target,
    command: &CopyCommand,
    query_id: i64,
    mut emit: impl FnMut(Vec<u8>) -> bool,
) -> Result<u64, Failure> {
    let unreadable = |why: &str| {
        spectrum(15_001, &format!("File '{url}' has an invalid version number or is damaged: {why}"), query_id)
    };
    let mut bytes = Vec::new();
    std::io::Seek::rewind(&mut file)
        .and_then(|()| file.read_to_end(&mut bytes))
        .map_err(|error| unreadable(&error.to_string()))?;
    let orc = Orc::read(&bytes).ok_or_else(|| unreadable("it is no ORC file"))?;
    check_schema(&orc, url, target, command, query_id)?;
    let mut rows = 0;
    for place in &orc.stripes {
        let stripe = orc.stripe(&bytes, place).ok_or_else(|| unreadable("a stripe's footer can't be read"))?;
        let mut columns = Vec::with_capacity(target.columns.len());
        for (index, column) in target.columns.iter().enumerate() {
            if index >= orc.columns.len() {
                columns.push(vec![Ok(None); place.rows]);
                continue;
            }
            let values = values(&stripe, &orc.columns[index], place.rows, column.kind, command);
            columns.push(values.ok_or_else(|| unreadable(&format!("column {} can't be read", column.name)))?);
        }
        let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
        let mut buffer = Vec::with_capacity(super::CHUNK * 2);
        for _ in 0..place.rows {
            for (index, column) in target.columns.iter().enumerate() {
                if index > 0 {
                    buffer.push(b'\t');
                }
                let text = columns[index]
                    .next()
                    .unwrap_or(Ok(None))
                    .map_err(|bad: Bad| bad.told(&column.name, rows + 1, url, query_id))?;
                if text.is_none() && column.not_null {
                    return Err(Failure::new(format!("Cannot insert a NULL value into column {}", column.name))
                        .with_detail(super::source::block("NULL value in ORC data", 1213, url, query_id)));
                }
                value::encode(&mut buffer, text.as_deref());
            }
            buffer.push(b'\n');
            rows += 1;
            if buffer.len() > super::CHUNK
                && !emit(std::mem::replace(&mut buffer, Vec::with_capacity(super::CHUNK * 2)))
            {
                return Ok(rows);
            }
        }
        if !emit(buffer) {
            return Ok(rows);
        }
    }
    Ok(rows)
}

fn check_schema(orc: &Orc, url: &str, target: &Target, command: &CopyCommand, query_id: i64) -> Result<(), Failure> {
    let (table, file) = (target.columns.len(), orc.columns.len());
    if file > table || file < table && !command.fill_record {
        let text = format!(
            "Unmatched number of columns between table and file. Table columns: {table}, Data columns: {file}, File name: {url}"
        );
        return Err(spectrum(15_007, &text, query_id));
    }
    for (found, column) in orc.columns.iter().zip(&target.columns) {
        if !found.parts.is_empty() && (column.kind != Kind::Super || !command.serialize_to_json) {
            return Err(nested_refused(query_id));
        }
        if !fits(found.kind, column.kind) {
            let name = usize::try_from(found.kind).ok().and_then(|kind| kind::NAMES.get(kind)).unwrap_or(&"unknown");
            let text = format!(
                "File '{url}' has an incompatible ORC schema for column '{}'. Column type: {}, ORC schema: {name} {}",
                column.name,
                column.kind.name().to_ascii_uppercase(),
                found.name
            );
            return Err(spectrum(15_007, &text, query_id));
        }
    }
    Ok(())
}

/// Whether a file's column can fill the table's.
fn fits(found: u64, column: Kind) -> bool {
    match column {
        Kind::SmallInt => matches!(found, kind::BYTE | kind::SHORT),
        Kind::Integer => found == kind::INT,
        Kind::BigInt => found == kind::LONG,
        Kind::Decimal { .. } => found == kind::DECIMAL,
        Kind::Real => found == kind::FLOAT,
        Kind::Double => found == kind::DOUBLE,
        Kind::Boolean => found == kind::BOOLEAN,
        Kind::Date => found == kind::DATE,
        Kind::Timestamp | Kind::TimestampTz => matches!(found, kind::TIMESTAMP | kind::INSTANT),
        Kind::Char { .. } | Kind::Varchar { .. } => {
            matches!(found, kind::STRING | kind::VARCHAR | kind::CHAR | kind::BINARY)
        }
        Kind::Super => found != UNION,
        Kind::Time => false,
    }
}

type Value = Result<Option<String>, Bad>;

/// A stripe's values of one column, NULLs between them; none where the streams don't hold them.
fn values(stripe: &Stripe, column: &Column, rows: usize, kind: Kind, command: &CopyCommand) -> Option<Vec<Value>> {
    let present = match stripe.stream(column.id, file::PRESENT) {
        Some(bytes) => runs::bits(bytes, rows)?,
        None => vec![true; rows],
    };
    let count = present.iter().filter(|present| **present).count();
    let mut found = match kind {
        Kind::Super => nested::present(stripe, column, count, command)?,
        _ => present_values(stripe, column, count, kind, command)?,
    }
    .into_iter();
    present.into_iter().map(|present| if present { found.next() } else { Some(Ok(None)) }).collect()
}

fn present_values(
    stripe: &Stripe,
    column: &Column,
    count: usize,
    target: Kind,
    command: &CopyCommand,
) -> Option<Vec<Value>> {
    let stream = |kind| stripe.stream(column.id, kind).unwrap_or(&[]);
    let (data, second) = (stream(file::DATA), stream(file::SECONDARY));
    let v2 = stripe.is_v2(column.id);
    let plain = |text: String| Ok(Some(text));
    Some(match column.kind {
        kind::BOOLEAN => {
            runs::bits(data, count)?.into_iter().map(|value| plain(if value { "t" } else { "f" }.to_owned())).collect()
        }
        kind::BYTE => {
            runs::bytes(data, count)?.into_iter().map(|value| plain(value.cast_signed().to_string())).collect()
        }
        kind::SHORT | kind::INT | kind::LONG => {
            runs::integers(data, count, true, v2)?.into_iter().map(|value| plain(value.to_string())).collect()
        }
        kind::FLOAT => {
            let values = data.as_chunks::<4>().0.get(..count)?;
            values.iter().map(|value| plain(f32::from_le_bytes(*value).to_string())).collect()
        }
        kind::DOUBLE => {
            let values = data.as_chunks::<8>().0.get(..count)?;
            values.iter().map(|value| plain(f64::from_le_bytes(*value).to_string())).collect()
        }
        kind::DATE => runs::integers(data, count, true, v2)?.into_iter().map(day).collect(),
        kind::DECIMAL => {
            let scales = runs::integers(second, count, true, v2)?;
            let mut rest = data;
            let unscaled: Option<Vec<i128>> = scales.iter().map(|_| runs::zigzag128(&mut rest)).collect();
            let text = |(unscaled, of): (i128, i64)| {
                let (precision, scale) = match target {
                    Kind::Decimal { precision, scale } => (precision, scale),
                    // Into a SUPER, as it is.
                    _ => (38, u32::try_from(of).unwrap_or(0)),
                };
                value::decimal(&format!("{unscaled}e-{of}"), precision, scale, false)
                    .map(Some)
                    .map_err(|problem| Bad::Value(problem.message))
            };
            unscaled?.into_iter().zip(scales).map(text).collect()
        }
        kind::TIMESTAMP | kind::INSTANT => {
            let (seconds, nanos) = (runs::integers(data, count, true, v2)?, runs::integers(second, count, false, v2)?);
            seconds.into_iter().zip(nanos).map(|(seconds, nanos)| at(seconds, nanos, target)).collect()
        }
        kind::STRING | kind::VARCHAR | kind::CHAR | kind::BINARY => {
            let texts = texts(stripe, column.id, count, v2)?;
            texts.into_iter().map(|bytes| characters(bytes, target, command)).collect()
        }
        _ => return None,
    })
}

fn day(days: i64) -> Value {
    let span = jiff::Span::new().try_days(days).map_err(|error| Bad::Value(error.to_string()))?;
    date(1970, 1, 1).checked_add(span).map(|day| Some(day.to_string())).map_err(|error| Bad::Value(error.to_string()))
}

fn at(seconds: i64, nanos: i64, target: Kind) -> Value {
    let noughts = u32::try_from(nanos & 7).unwrap_or(0);
    let nanos = (nanos >> 3) * if noughts == 0 { 1 } else { 10_i64.pow(noughts + 1) };
    let mut seconds = seconds.saturating_add(EPOCH_SECONDS);
    // Before 1970 the writers cut the seconds towards nought.
    if seconds < 0 && nanos > 999_999 {
        seconds -= 1;
    }
    let at = jiff::Timestamp::from_nanosecond(i128::from(seconds) * 1_000_000_000 + i128::from(nanos));
    at.map(|at| Some(moment::utc(at, target == Kind::TimestampTz))).map_err(|error| Bad::Value(error.to_string()))
}

fn texts<'s>(stripe: &'s Stripe, column: u64, count: usize, v2: bool) -> Option<Vec<&'s [u8]>> {
    let stream = |kind| stripe.stream(column, kind).unwrap_or(&[]);
    let cut = |mut bytes: &'s [u8], lengths: Vec<i64>| -> Option<Vec<&'s [u8]>> {
        lengths
            .into_iter()
            .map(|length| {
                let (text, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
                bytes = rest;
                Some(text)
            })
            .collect()
    };
    let Some(size) = stripe.dictionary(column) else {
        return cut(stream(file::DATA), runs::integers(stream(file::LENGTH), count, false, v2)?);
    };
    let words = cut(stream(file::DICTIONARY), runs::integers(stream(file::LENGTH), size, false, v2)?)?;
    let places = runs::integers(stream(file::DATA), count, false, v2)?;
    places.into_iter().map(|place| words.get(usize::try_from(place).ok()?).copied()).collect()
}
