//! Avro's container files: each record as an object of JSON, which is then loaded as JSON is.
//!
//! COPY knows no logical types, so a date is the number it is written as.

use apache_avro::Reader;
use apache_avro::types::Value;
use serde_json::{Map, Number, Value as Json};

/// The file's records, as text of JSON each.
pub(super) fn records(bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let reader = Reader::new(bytes).map_err(|error| error.to_string())?;
    let mut records = Vec::new();
    for record in reader {
        let value = json(record.map_err(|error| error.to_string())?);
        if !value.is_object() {
            return Err("its schema is no record".to_owned());
        }
        records.push(value.to_string().into_bytes());
    }
    Ok(records)
}

fn json(value: Value) -> Json {
    let float = |value: f64| Number::from_f64(value).map_or_else(|| Json::String(value.to_string()), Json::Number);
    match value {
        Value::Null => Json::Null,
        Value::Boolean(value) => Json::Bool(value),
        Value::Int(value) | Value::Date(value) | Value::TimeMillis(value) => Json::from(value),
        Value::Long(value)
        | Value::TimeMicros(value)
        | Value::TimestampMillis(value)
        | Value::TimestampMicros(value)
        | Value::TimestampNanos(value)
        | Value::LocalTimestampMillis(value)
        | Value::LocalTimestampMicros(value)
        | Value::LocalTimestampNanos(value) => Json::from(value),
        // By its own shortest text: widened, 0.1 would be 0.10000000149011612.
        Value::Float(value) => value.to_string().parse::<f64>().map_or(Json::Null, float),
        Value::Double(value) => float(value),
        Value::String(text) | Value::Enum(_, text) => Json::String(text),
        Value::Uuid(id) => Json::String(id.to_string()),
        Value::Bytes(bytes) | Value::Fixed(_, bytes) => Json::String(String::from_utf8_lossy(&bytes).into_owned()),
        Value::Union(_, inner) => json(*inner),
        Value::Array(values) => Json::Array(values.into_iter().map(json).collect()),
        Value::Map(members) => Json::Object(members.into_iter().map(|(name, value)| (name, json(value))).collect()),
        Value::Record(fields) => {
            Json::Object(fields.into_iter().map(|(name, value)| (name, json(value))).collect::<Map<_, _>>())
        }
        other => Json::String(format!("{other:?}")),
    }
}
