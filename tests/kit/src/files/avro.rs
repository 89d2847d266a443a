//! Avro's container files, as those who load them into Redshift write them: every field a union with null, and numbers with a
//! point, days and moments as text, since COPY knows no logical types.

use anyhow::{Result, bail};
use apache_avro::types::Value;
use apache_avro::{Codec, DeflateSettings, Schema, Writer};
use serde_json::json;

use super::{Cell, Compression, Table, Type};

/// What parts the blocks; random in the wild.
const MARKER: [u8; 16] = *b"tidemark-marker.";

pub(super) fn write(table: &Table, compression: Compression) -> Result<Vec<u8>> {
    let codec = match compression {
        Compression::Plain => Codec::Null,
        Compression::Deflate => Codec::Deflate(DeflateSettings::default()),
        Compression::Snappy => Codec::Snappy,
        other => bail!("no avro file that Redshift reads is compressed with {}", other.name()),
    };
    let fields: Vec<_> = table
        .columns
        .iter()
        .map(|(name, kind)| json!({ "name": name, "type": ["null", avro_type(*kind)], "default": null }))
        .collect();
    let schema = Schema::parse(&json!({ "type": "record", "name": "row", "fields": fields }))?;
    let mut writer = Writer::builder().schema(&schema).writer(Vec::new()).codec(codec).marker(MARKER).build()?;
    for row in &table.rows {
        let fields = table.columns.iter().zip(row).map(|((name, kind), cell)| (name.clone(), value(cell, *kind)));
        writer.append_value(Value::Record(fields.collect()))?;
    }
    Ok(writer.into_inner()?)
}

fn avro_type(kind: Type) -> &'static str {
    match kind {
        Type::SmallInt | Type::Integer => "int",
        Type::BigInt => "long",
        Type::Real => "float",
        Type::Double => "double",
        Type::Boolean => "boolean",
        Type::Decimal(..) | Type::Varchar(_) | Type::Date | Type::Timestamp | Type::TimestampTz => "string",
    }
}

fn value(cell: &Cell, kind: Type) -> Value {
    let value = match (cell, kind) {
        (Cell::Null, _) => return Value::Union(0, Box::new(Value::Null)),
        (Cell::Bool(value), _) => Value::Boolean(*value),
        (Cell::Int(value), Type::BigInt) => Value::Long(*value),
        (Cell::Int(value), _) => i32::try_from(*value).map_or(Value::Long(*value), Value::Int),
        #[expect(clippy::cast_possible_truncation, reason = "a `real` holds no more")]
        (Cell::Float(value), Type::Real) => Value::Float(*value as f32),
        (Cell::Float(value), _) => Value::Double(*value),
        (other, _) => Value::String(other.text().unwrap_or_default()),
    };
    Value::Union(1, Box::new(value))
}
