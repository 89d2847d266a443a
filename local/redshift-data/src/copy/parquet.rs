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
    let nanoseconds: Vec<bool> = schema.iter().map(|field| is_nanoseconds(field)).collect();
    let (mut rows, mut buffer) = (0, Vec::with_capacity(super::CHUNK * 2));
    for row in reader.get_row_iter(None).map_err(unreadable)? {
        let row = row.map_err(unreadable)?;
        let mut values = row.get_column_iter();
        for (index, column) in target.columns.iter().enumerate() {
            if index > 0 {
                buffer.push(b'\t');
            }
            let field = values.next().map_or(&Field::Null, |(_, field)| field);
            let nanos = nanoseconds.get(index).copied().unwrap_or(false);
            let text = value_of(field, column.kind, nanos, command)
                .map_err(|bad| bad.told(&column.name, rows + 1, url, query_id))?;
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

fn is_nanoseconds(field: &Type) -> bool {
    matches!(logical(field), Some(LogicalType::Timestamp(stamp)) if stamp.unit == TimeUnit::NANOS)
}

/// Whether a file's column can fill the table's. Spectrum reads no integer as a wider one.
fn fits(field: &Type, kind: Kind) -> bool {
    use parquet::basic::ConvertedType as Converted;
    if !field.is_primitive()
        || field.get_basic_info().has_repetition() && field.get_basic_info().repetition() == Repetition::REPEATED
    {
        return false;
    }
    let converted = field.get_basic_info().converted_type();
    let decimal = converted == Converted::DECIMAL || matches!(logical(field), Some(LogicalType::Decimal(_)));
    let date = converted == Converted::DATE || matches!(logical(field), Some(LogicalType::Date));
    let timestamp = matches!(converted, Converted::TIMESTAMP_MILLIS | Converted::TIMESTAMP_MICROS)
        || matches!(logical(field), Some(LogicalType::Timestamp(_)));
    match (kind, field.get_physical_type()) {
        (Kind::Decimal { .. }, _) => decimal,
        (Kind::SmallInt | Kind::Integer, Physical::INT32) => !decimal && !date,
        (Kind::BigInt, Physical::INT64) => !decimal && !timestamp,
        (Kind::Date, Physical::INT32) => date,
        (Kind::Timestamp | Kind::TimestampTz, Physical::INT64) => timestamp,
        (Kind::Char { .. } | Kind::Varchar { .. } | Kind::Super, Physical::BYTE_ARRAY) => !decimal,
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

fn value_of(field: &Field, kind: Kind, nanoseconds: bool, command: &CopyCommand) -> Result<Option<String>, Bad> {
    let bad = |text: &str| Bad::Value(text.to_owned());
    let moment = |at: Result<jiff::Timestamp, jiff::Error>| {
        at.map(|at| Some(moment::utc(at, kind == Kind::TimestampTz))).map_err(|error| Bad::Value(error.to_string()))
    };
    match field {
        Field::Null => Ok(None),
        Field::Bool(value) => Ok(Some(if *value { "t" } else { "f" }.to_owned())),
        Field::Float(value) => Ok(Some(value.to_string())),
        Field::Double(value) => Ok(Some(value.to_string())),
        Field::Long(value) if nanoseconds => moment(jiff::Timestamp::from_nanosecond(i128::from(*value))),
        Field::TimestampMillis(value) => moment(jiff::Timestamp::from_millisecond(*value)),
        Field::TimestampMicros(value) => moment(jiff::Timestamp::from_microsecond(*value)),
        Field::Date(days) => jiff::civil::date(1970, 1, 1)
            .checked_add(jiff::Span::new().try_days(*days).map_err(|error| Bad::Value(error.to_string()))?)
            .map(|date| Some(date.to_string()))
            .map_err(|error| Bad::Value(error.to_string())),
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
