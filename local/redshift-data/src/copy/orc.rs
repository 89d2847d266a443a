//! ORC files, read by orc-rust: columns by position, each file's schema held against the table first.
//!
//! Moments are read as decimals of nanoseconds, since Arrow's own type ends in 2262 and lakes hold the year 9999.

use std::fs::File;
use std::sync::Arc;

use arrow::array::{Array, AsArray as _};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Fields, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Schema,
};
use orc_rust::ArrowReaderBuilder;
use orc_rust::schema::{DataType as Orc, NamedColumn};

use super::columnar::{self, Bad, Rows, Source, Value, characters, quote, write_between};
use super::moment;
use super::value::Kind;
use crate::dialect::copy::CopyCommand;
use crate::failure::Failure;

/// Reads a file on a blocking thread; `emit` gets the rows in PostgreSQL's text form, many at a time, and says whether to
/// go on. Gives the number of rows.
pub(super) fn read(file: File, source: Source<'_>, emit: impl FnMut(Vec<u8>) -> bool) -> Result<u64, Failure> {
    let reader = ArrowReaderBuilder::try_new(file).map_err(|error| source.damaged(error))?;
    let columns = reader.file_metadata().root_data_type().children().to_vec();
    check_schema(&columns, &source)?;
    let reader = reader.with_schema(Arc::new(Schema::new(fields(&columns)))).build();
    let mut rows = Rows::new(source, emit);
    for batch in reader {
        let batch = batch.map_err(|error| source.damaged(error))?;
        for row in 0..batch.num_rows() {
            let found = columns.iter().zip(batch.columns()).zip(&source.target.columns);
            let values = found
                .map(|((found, values), column)| value(found.data_type(), values, row, column.kind, source.command));
            if !rows.write(values)? {
                return Ok(rows.written());
            }
        }
    }
    Ok(rows.end())
}

fn check_schema(columns: &[NamedColumn], source: &Source<'_>) -> Result<(), Failure> {
    source.check_number_of_columns(columns.len())?;
    for (found, column) in columns.iter().zip(&source.target.columns) {
        let kind = found.data_type();
        if matches!(kind, Orc::Struct { .. } | Orc::List { .. } | Orc::Map { .. } | Orc::Union { .. }) {
            source.check_nested(column)?;
        }
        if !fits(kind, column.kind) {
            return Err(source.incompatible(column, &format!("{} {}", name(kind), found.name())));
        }
    }
    Ok(())
}

/// Whether a file's column can fill the table's.
fn fits(found: &Orc, column: Kind) -> bool {
    match column {
        Kind::SmallInt => matches!(found, Orc::Byte { .. } | Orc::Short { .. }),
        Kind::Integer => matches!(found, Orc::Int { .. }),
        Kind::BigInt => matches!(found, Orc::Long { .. }),
        Kind::Decimal { .. } => matches!(found, Orc::Decimal { .. }),
        Kind::Real => matches!(found, Orc::Float { .. }),
        Kind::Double => matches!(found, Orc::Double { .. }),
        Kind::Boolean => matches!(found, Orc::Boolean { .. }),
        Kind::Date => matches!(found, Orc::Date { .. }),
        Kind::Timestamp | Kind::TimestampTz => {
            matches!(found, Orc::Timestamp { .. } | Orc::TimestampWithLocalTimezone { .. })
        }
        Kind::Char { .. } | Kind::Varchar { .. } => {
            matches!(found, Orc::String { .. } | Orc::Varchar { .. } | Orc::Char { .. } | Orc::Binary { .. })
        }
        Kind::Super => !matches!(found, Orc::Union { .. }),
        Kind::Time => false,
    }
}

/// A type as messages name it.
fn name(kind: &Orc) -> &'static str {
    match kind {
        Orc::Boolean { .. } => "boolean",
        Orc::Byte { .. } => "tinyint",
        Orc::Short { .. } => "smallint",
        Orc::Int { .. } => "int",
        Orc::Long { .. } => "bigint",
        Orc::Float { .. } => "float",
        Orc::Double { .. } => "double",
        Orc::String { .. } => "string",
        Orc::Varchar { .. } => "varchar",
        Orc::Char { .. } => "char",
        Orc::Binary { .. } => "binary",
        Orc::Decimal { .. } => "decimal",
        Orc::Timestamp { .. } => "timestamp",
        Orc::TimestampWithLocalTimezone { .. } => "timestamp with local time zone",
        Orc::Date { .. } => "date",
        Orc::Struct { .. } => "struct",
        Orc::List { .. } => "list",
        Orc::Map { .. } => "map",
        Orc::Union { .. } => "union",
    }
}

fn fields(columns: &[NamedColumn]) -> Fields {
    columns.iter().map(|column| Field::new(column.name(), arrow_type(column.data_type()), true)).collect()
}

/// What the reader is asked for: its own choice, but for moments.
fn arrow_type(kind: &Orc) -> DataType {
    match kind {
        Orc::Timestamp { .. } | Orc::TimestampWithLocalTimezone { .. } => DataType::Decimal128(38, 9),
        Orc::Struct { children, .. } => DataType::Struct(fields(children)),
        Orc::List { child, .. } => DataType::new_list(arrow_type(child), true),
        Orc::Map { key, value, .. } => {
            let entry = vec![Field::new("keys", arrow_type(key), false), Field::new("values", arrow_type(value), true)];
            DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entry.into()), false)), false)
        }
        other => other.to_arrow_data_type(),
    }
}

/// The value of a row.
fn value(kind: &Orc, values: &dyn Array, row: usize, target: Kind, command: &CopyCommand) -> Value {
    if values.is_null(row) {
        return Ok(None);
    }
    if target == Kind::Super {
        let mut text = String::new();
        return write_json(kind, values, row, command, &mut text).map(|()| Some(text));
    }
    let text = match kind {
        Orc::Boolean { .. } => if values.as_boolean().value(row) { "t" } else { "f" }.to_owned(),
        Orc::Byte { .. } => values.as_primitive::<Int8Type>().value(row).to_string(),
        Orc::Short { .. } => values.as_primitive::<Int16Type>().value(row).to_string(),
        Orc::Int { .. } => values.as_primitive::<Int32Type>().value(row).to_string(),
        Orc::Long { .. } => values.as_primitive::<Int64Type>().value(row).to_string(),
        Orc::Float { .. } => values.as_primitive::<Float32Type>().value(row).to_string(),
        Orc::Double { .. } => values.as_primitive::<Float64Type>().value(row).to_string(),
        Orc::String { .. } | Orc::Varchar { .. } | Orc::Char { .. } => {
            return characters(values.as_string::<i32>().value(row).as_bytes(), target, command);
        }
        Orc::Binary { .. } => return characters(values.as_binary::<i32>().value(row), target, command),
        Orc::Decimal { scale, .. } => {
            // Into a SUPER goes what stands in the file.
            let (precision, wanted) = match target {
                Kind::Decimal { precision, scale } => (precision, scale),
                _ => (38, *scale),
            };
            let unscaled = values.as_primitive::<Decimal128Type>().value(row);
            return columnar::decimal(&format!("{unscaled}e-{scale}"), precision, wanted);
        }
        Orc::Timestamp { .. } | Orc::TimestampWithLocalTimezone { .. } => {
            let at = jiff::Timestamp::from_nanosecond(values.as_primitive::<Decimal128Type>().value(row));
            moment::utc(at.map_err(Bad::value)?, target == Kind::TimestampTz)
        }
        Orc::Date { .. } => columnar::day(values.as_primitive::<Date32Type>().value(row))?,
        Orc::Struct { .. } | Orc::List { .. } | Orc::Map { .. } | Orc::Union { .. } => {
            return Err(Bad::value("nested data"));
        }
    };
    Ok(Some(text))
}

/// What SERIALIZETOJSON makes of a value: structs and maps become objects, lists arrays, days and moments texts.
fn write_json(kind: &Orc, values: &dyn Array, row: usize, command: &CopyCommand, out: &mut String) -> Result<(), Bad> {
    if values.is_null(row) {
        out.push_str("null");
        return Ok(());
    }
    match kind {
        Orc::Struct { children, .. } => {
            let members = children.iter().zip(values.as_struct().columns()).map(Ok);
            write_between(['{', '}'], members, out, |(member, values), out| {
                quote(member.name(), out);
                out.push(':');
                write_json(member.data_type(), values, row, command, out)
            })
        }
        Orc::List { child, .. } => {
            let elements = values.as_list::<i32>().value(row);
            write_between(['[', ']'], (0..elements.len()).map(Ok), out, |at, out| {
                write_json(child, &elements, at, command, out)
            })
        }
        Orc::Map { key, value, .. } => {
            let entries = values.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            write_between(['{', '}'], (0..entries.len()).map(Ok), out, |at, out| {
                let mut name = String::new();
                write_json(key, keys, at, command, &mut name)?;
                // A number becomes a name too.
                if name.starts_with('"') {
                    out.push_str(&name);
                } else {
                    quote(&name, out);
                }
                out.push(':');
                write_json(value, values, at, command, out)
            })
        }
        Orc::Boolean { .. } => {
            out.push_str(if values.as_boolean().value(row) { "true" } else { "false" });
            Ok(())
        }
        scalar => {
            let text = value(scalar, values, row, Kind::Varchar { bytes: usize::MAX }, command)?.unwrap_or_default();
            if is_number(scalar, &text) {
                out.push_str(&text);
            } else {
                quote(&text, out);
            }
            Ok(())
        }
    }
}

/// Whether JSON has it as a number: not where it is infinite or none.
fn is_number(kind: &Orc, text: &str) -> bool {
    match kind {
        Orc::Byte { .. } | Orc::Short { .. } | Orc::Int { .. } | Orc::Long { .. } | Orc::Decimal { .. } => true,
        Orc::Float { .. } | Orc::Double { .. } => text.parse::<f64>().is_ok_and(f64::is_finite),
        _ => false,
    }
}
