//! Parquet files: columns by position, each file's schema held against the table first.

use std::fs::File;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;

use super::moment;
use super::spectrum;
use super::target::Target;
use super::value::{self, Kind};
use crate::dialect::copy::CopyCommand;
use crate::failure::Failure;

/// Reads a file on a blocking thread; `emit` gets the rows in PostgreSQL's text form, many at a time, and says whether to
/// go on. Gives the number of rows.
pub(crate) fn read(
    file: File,
    url: &str,
    target: &Target,
    command: &CopyCommand,
    query_id: i64,
    mut emit: impl FnMut(Vec<u8>) -> bool,
) -> Result<u64, Failure> {
    let unreadable = |error: parquet::errors::ParquetError| {
        spectrum(15_001, &format!("File '{url}' has an invalid version number or is damaged: {error}"), query_id)
    };
    let reader = SerializedFileReader::new(file).map_err(unreadable)?;
    let schema = reader.metadata().file_metadata().schema().get_fields().to_vec();
    check_schema(&schema, url, target, command, query_id)?;
    let (mut rows, mut buffer) = (0, Vec::with_capacity(super::CHUNK * 2));
    for row in reader.get_row_iter(None).map_err(unreadable)? {
        let row = row.map_err(unreadable)?;
        let mut values = row.get_column_iter();
        for (index, column) in target.columns.iter().enumerate() {
            if index > 0 {
                buffer.push(b'\t');
            }
            let field = values.next().map_or(&Field::Null, |(_, field)| field);
            let text =
                value_of(field, column.kind, command).map_err(|bad| bad.told(&column.name, rows + 1, url, query_id))?;
            if text.is_none() && column.not_null {
                return Err(Failure::new(format!("Cannot insert a NULL value into column {}", column.name))
                    .with_detail(super::source::block("NULL value in Parquet data", 1213, url, query_id)));
            }
            value::encode(&mut buffer, text.as_deref());
        }
        buffer.push(b'\n');
        rows += 1;
        if buffer.len() > super::CHUNK && !emit(std::mem::replace(&mut buffer, Vec::with_capacity(super::CHUNK * 2))) {
            return Ok(rows);
        }
    }
    emit(buffer);
    Ok(rows)
}

fn check_schema(
    fields: &[std::sync::Arc<Type>],
    url: &str,
    target: &Target,
    command: &CopyCommand,
    query_id: i64,
) -> Result<(), Failure> {
    let (table, file) = (target.columns.len(), fields.len());
    if file > table || file < table && !command.fill_record {
        return Err(spectrum(
            15_007,
            &format!(
                "Unmatched number of columns between table and file. Table columns: {table}, Data columns: {file}, File \
                 name: {url}"
            ),
            query_id,
        ));
    }
    for (field, column) in fields.iter().zip(&target.columns) {
        if let Some(why) = decimal_problem(field, column.kind) {
            let name = field.name();
            return Err(spectrum(15_001, &format!("File '{url}' column '{name}' {why}"), query_id));
        }
        if is_nested(field) && (column.kind != Kind::Super || !command.serialize_to_json) {
            return Err(nested_refused(query_id));
        }
        if !fits(field, column.kind) {
            return Err(spectrum(
                15_007,
                &format!(
                    "File '{url}' has an incompatible Parquet schema for column '{}'. Column type: {}, Parquet schema: {}",
                    column.name,
                    column.kind.name().to_ascii_uppercase(),
                    describe(field)
                ),
                query_id,
            ));
        }
    }
    Ok(())
}

fn describe(field: &Type) -> String {
    let optional = match field.get_basic_info().has_repetition().then(|| field.get_basic_info().repetition()) {
        Some(Repetition::OPTIONAL) => "optional",
        Some(Repetition::REPEATED) => "repeated",
        _ => "required",
    };
    let kind =
        if field.is_primitive() { field.get_physical_type().to_string().to_lowercase() } else { "group".to_owned() };
    format!("{optional} {kind} {}", field.name())
}

fn logical(field: &Type) -> Option<LogicalType> {
    field.get_basic_info().logical_type_ref().cloned()
}

fn is_nested(field: &Type) -> bool {
    let info = field.get_basic_info();
    !field.is_primitive() || info.has_repetition() && info.repetition() == Repetition::REPEATED
}

/// What a COPY without SERIALIZETOJSON says to nested columns.
pub(super) fn nested_refused(query_id: i64) -> Failure {
    Failure::new("Assert").with_detail(super::source::block(
        "Assert",
        1000,
        "Unreachable - Invalid type: 4000",
        query_id,
    ))
}

/// A decimal is read as it was written: its scale, and where it is bytes their number, must be the column's.
fn decimal_problem(field: &Type, kind: Kind) -> Option<String> {
    let Kind::Decimal { precision, scale } = kind else { return None };
    let Type::PrimitiveType { physical_type, type_length, scale: found, precision: written, .. } = field else {
        return None;
    };
    if *written <= 0 {
        return None;
    }
    let expected = decimal_bytes(precision);
    if *physical_type == Physical::FIXED_LEN_BYTE_ARRAY && usize::try_from(*type_length).ok() != Some(expected) {
        return Some(format!("has an invalid type length. Expecting: {expected} len in file: {type_length}"));
    }
    (u32::try_from(*found).ok() != Some(scale)).then(|| {
        format!(
            "has a scale that does not match the table metadata scale. File metadata scale: {found} Table metadata \
             scale: {scale}"
        )
    })
}

/// The fewest bytes that hold every number of so many digits, with its sign.
fn decimal_bytes(precision: u32) -> usize {
    let greatest = 10_u128.pow(precision.min(38)) - 1;
    usize::try_from((129 - greatest.leading_zeros()).div_ceil(8)).unwrap_or(16)
}

/// Whether a file's column can fill the table's. Spectrum reads no integer as a wider one, and a SUPER takes anything.
fn fits(field: &Type, kind: Kind) -> bool {
    use parquet::basic::ConvertedType as Converted;
    if kind == Kind::Super || is_nested(field) {
        return kind == Kind::Super;
    }
    let converted = field.get_basic_info().converted_type();
    let decimal = converted == Converted::DECIMAL || matches!(logical(field), Some(LogicalType::Decimal(_)));
    let date = converted == Converted::DATE || matches!(logical(field), Some(LogicalType::Date));
    let timestamp = matches!(converted, Converted::TIMESTAMP_MILLIS | Converted::TIMESTAMP_MICROS)
        || matches!(logical(field), Some(LogicalType::Timestamp(stamp)) if stamp.unit != TimeUnit::NANOS);
    match (kind, field.get_physical_type()) {
        (Kind::Decimal { .. }, _) => decimal,
        (Kind::SmallInt | Kind::Integer, Physical::INT32) => !decimal && !date,
        (Kind::BigInt, Physical::INT64) => !decimal && !timestamp,
        (Kind::Date, Physical::INT32) => date,
        (Kind::Timestamp | Kind::TimestampTz, Physical::INT64) => timestamp,
        (Kind::Char { .. } | Kind::Varchar { .. }, Physical::BYTE_ARRAY) => !decimal,
        (Kind::Real, Physical::FLOAT)
        | (Kind::Double, Physical::DOUBLE)
        | (Kind::Boolean, Physical::BOOLEAN)
        | (Kind::Timestamp | Kind::TimestampTz, Physical::INT96) => true,
        _ => false,
    }
}

#[derive(Debug, Clone)]
pub(super) enum Bad {
    TooLong { limit: usize, found: usize },
    Value(String),
}

impl Bad {
    /// As the layer that reads columnar files tells it.
    pub(super) fn told(self, column: &str, row: u64, url: &str, query_id: i64) -> Failure {
        let text = match self {
            Self::TooLong { limit, found } => format!(
                "The length of the data column {column} is longer than the length defined in the table. Table: {limit}, \
                 Data: {found}, File name: {url}"
            ),
            Self::Value(text) => format!("Invalid value for column {column} in row {row}: {text}, File name: {url}"),
        };
        spectrum(15_001, &text, query_id)
    }
}

fn value_of(field: &Field, kind: Kind, command: &CopyCommand) -> Result<Option<String>, Bad> {
    let bad = |text: &str| Bad::Value(text.to_owned());
    if kind == Kind::Super && *field != Field::Null {
        let mut text = String::new();
        write_json(field, &mut text)?;
        return Ok(Some(text));
    }
    let moment = |at: Result<jiff::Timestamp, jiff::Error>| {
        at.map(|at| Some(moment::utc(at, kind == Kind::TimestampTz))).map_err(|error| Bad::Value(error.to_string()))
    };
    match field {
        Field::Null => Ok(None),
        Field::Bool(value) => Ok(Some(if *value { "t" } else { "f" }.to_owned())),
        Field::Float(value) => Ok(Some(value.to_string())),
        Field::Double(value) => Ok(Some(value.to_string())),
        Field::TimestampMillis(value) => moment(jiff::Timestamp::from_millisecond(*value)),
        Field::TimestampMicros(value) => moment(jiff::Timestamp::from_microsecond(*value)),
        Field::Date(days) => day(*days).map(Some),
        Field::Decimal(number) => {
            let Kind::Decimal { precision, scale } = kind else { return Err(bad("a decimal")) };
            value::decimal(&Field::Decimal(number.clone()).to_string(), precision, scale, false)
                .map(Some)
                .map_err(|problem| Bad::Value(problem.message))
        }
        Field::Str(text) => characters(text.as_bytes(), kind, command),
        Field::Bytes(bytes) => characters(bytes.data(), kind, command),
        Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => Err(bad("nested data")),
        number => {
            let text = number.to_string();
            if kind == Kind::SmallInt && text.parse::<i16>().is_err() {
                return Err(Bad::Value(format!("{text} is out of range for SMALLINT")));
            }
            Ok(Some(text))
        }
    }
}

fn day(days: i32) -> Result<String, Bad> {
    let span = jiff::Span::new().try_days(days).map_err(|error| Bad::Value(error.to_string()))?;
    let day = jiff::civil::date(1970, 1, 1).checked_add(span).map_err(|error| Bad::Value(error.to_string()))?;
    Ok(day.to_string())
}

/// What SERIALIZETOJSON makes of a value: structs and maps become objects, lists arrays, days and moments texts.
fn write_json(field: &Field, out: &mut String) -> Result<(), Bad> {
    let at = |at: Result<jiff::Timestamp, jiff::Error>| {
        at.map(|at| moment::utc(at, false)).map_err(|error| Bad::Value(error.to_string()))
    };
    match field {
        Field::Null => out.push_str("null"),
        Field::Group(row) => write_members(row.get_column_iter().map(|(name, value)| Ok((name.clone(), value))), out)?,
        Field::MapInternal(map) => {
            let key = |key: &Field| match key {
                Field::Str(text) => Ok(text.clone()),
                other => {
                    let mut text = String::new();
                    write_json(other, &mut text).map(|()| text.trim_matches('"').to_owned())
                }
            };
            write_members(map.entries().iter().map(|(name, value)| Ok((key(name)?, value))), out)?;
        }
        Field::ListInternal(list) => {
            out.push('[');
            for (index, element) in list.elements().iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(element, out)?;
            }
            out.push(']');
        }
        Field::Str(text) => quote(text, out),
        Field::Bytes(bytes) => quote(&String::from_utf8_lossy(bytes.data()), out),
        Field::Date(days) => quote(&day(*days)?, out),
        Field::TimestampMillis(value) => quote(&at(jiff::Timestamp::from_millisecond(*value))?, out),
        Field::TimestampMicros(value) => quote(&at(jiff::Timestamp::from_microsecond(*value))?, out),
        Field::Float(value) if !value.is_finite() => quote(&value.to_string(), out),
        Field::Double(value) if !value.is_finite() => quote(&value.to_string(), out),
        number => out.push_str(&number.to_string()),
    }
    Ok(())
}

fn write_members<'f>(
    members: impl Iterator<Item = Result<(String, &'f Field), Bad>>,
    out: &mut String,
) -> Result<(), Bad> {
    out.push('{');
    for (index, member) in members.enumerate() {
        let (name, value) = member?;
        if index > 0 {
            out.push(',');
        }
        quote(&name, out);
        out.push(':');
        write_json(value, out)?;
    }
    out.push('}');
    Ok(())
}

/// A text as JSON has it.
pub(super) fn quote(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

pub(super) fn characters(bytes: &[u8], kind: Kind, command: &CopyCommand) -> Result<Option<String>, Bad> {
    value::text(bytes, kind, command).map(|text| Some(text.into_owned())).map_err(|problem| {
        match (problem.code, kind) {
            (value::code::TOO_LONG, Kind::Char { bytes: limit } | Kind::Varchar { bytes: limit }) => {
                Bad::TooLong { limit, found: bytes.len() }
            }
            _ => Bad::Value(problem.message),
        }
    })
}
