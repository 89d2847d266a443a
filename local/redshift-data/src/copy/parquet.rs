//! Parquet files: columns by position, each file's schema held against the table first.

use std::fs::File;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;

use super::columnar::{self, Bad, Rows, Source, Value, characters, day, quote, write_between};
use super::value::Kind;
use super::{moment, spectrum};
use crate::dialect::copy::CopyCommand;
use crate::failure::Failure;

/// Reads a file on a blocking thread; `emit` gets the rows in PostgreSQL's text form, many at a time, and says whether to
/// go on. Gives the number of rows.
pub(super) fn read(file: File, source: Source<'_>, emit: impl FnMut(Vec<u8>) -> bool) -> Result<u64, Failure> {
    let reader = SerializedFileReader::new(file).map_err(|error| source.damaged(error))?;
    check_schema(reader.metadata().file_metadata().schema().get_fields(), &source)?;
    let mut rows = Rows::new(source, emit);
    for row in reader.get_row_iter(None).map_err(|error| source.damaged(error))? {
        let row = row.map_err(|error| source.damaged(error))?;
        let found = row.get_column_iter().zip(&source.target.columns);
        let values = found.map(|((_, field), column)| value_of(field, column.kind, source.command));
        if !rows.write(values)? {
            return Ok(rows.written());
        }
    }
    Ok(rows.end())
}

fn check_schema(fields: &[std::sync::Arc<Type>], source: &Source<'_>) -> Result<(), Failure> {
    source.check_number_of_columns(fields.len())?;
    for (field, column) in fields.iter().zip(&source.target.columns) {
        if let Some(why) = decimal_problem(field, column.kind) {
            let text = format!("File '{}' column '{}' {why}", source.url, field.name());
            return Err(spectrum(15_001, &text, source.query_id));
        }
        if is_nested(field) {
            source.check_nested(column)?;
        }
        if !fits(field, column.kind) {
            return Err(source.incompatible(column, &describe(field)));
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

fn value_of(field: &Field, kind: Kind, command: &CopyCommand) -> Value {
    if kind == Kind::Super && *field != Field::Null {
        let mut text = String::new();
        write_json(field, &mut text)?;
        return Ok(Some(text));
    }
    let moment = |at: Result<jiff::Timestamp, jiff::Error>| {
        at.map(|at| Some(moment::utc(at, kind == Kind::TimestampTz))).map_err(Bad::value)
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
            let Kind::Decimal { precision, scale } = kind else { return Err(Bad::value("a decimal")) };
            columnar::decimal(&Field::Decimal(number.clone()).to_string(), precision, scale)
        }
        Field::Str(text) => characters(text.as_bytes(), kind, command),
        Field::Bytes(bytes) => characters(bytes.data(), kind, command),
        Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => Err(Bad::value("nested data")),
        number => {
            let text = number.to_string();
            if kind == Kind::SmallInt && text.parse::<i16>().is_err() {
                return Err(Bad::Value(format!("{text} is out of range for SMALLINT")));
            }
            Ok(Some(text))
        }
    }
}

/// What SERIALIZETOJSON makes of a value: structs and maps become objects, lists arrays, days and moments texts.
fn write_json(field: &Field, out: &mut String) -> Result<(), Bad> {
    let at = |at: Result<jiff::Timestamp, jiff::Error>| at.map(|at| moment::utc(at, false)).map_err(Bad::value);
    let member = |(name, value): (String, &Field), out: &mut String| {
        quote(&name, out);
        out.push(':');
        write_json(value, out)
    };
    match field {
        Field::Null => out.push_str("null"),
        Field::Group(row) => {
            let members = row.get_column_iter().map(|(name, value)| Ok((name.clone(), value)));
            write_between(['{', '}'], members, out, member)?;
        }
        Field::MapInternal(map) => {
            let key = |key: &Field| match key {
                Field::Str(text) => Ok(text.clone()),
                other => {
                    let mut text = String::new();
                    write_json(other, &mut text).map(|()| text.trim_matches('"').to_owned())
                }
            };
            let members = map.entries().iter().map(|(name, value)| Ok((key(name)?, value)));
            write_between(['{', '}'], members, out, member)?;
        }
        Field::ListInternal(list) => write_between(['[', ']'], list.elements().iter().map(Ok), out, write_json)?,
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
