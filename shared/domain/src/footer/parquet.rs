//! What a Parquet file's columns are called, and which columns of Redshift they may fill.

use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::schema::types::Type;

use super::{Family, FileColumn};

/// One top-level column.
pub(super) fn column(field: &Type) -> FileColumn {
    let (described, fills) = told(field);
    FileColumn { name: field.name().to_owned(), described, fills }
}

fn told(field: &Type) -> (String, &'static [Family]) {
    let info = field.get_basic_info();
    let repeated = info.has_repetition() && info.repetition() == Repetition::REPEATED;
    if !field.is_primitive() || repeated {
        return ("nested".to_owned(), &[Family::Super]);
    }
    let (logical, converted) = (info.logical_type_ref(), info.converted_type());
    let physical = field.get_physical_type();
    let plain = physical.to_string().to_lowercase();
    let as_what = |what: &str| format!("{plain} ({what})");
    if converted == ConvertedType::DECIMAL || matches!(logical, Some(LogicalType::Decimal(_))) {
        let (precision, scale) = match field {
            Type::PrimitiveType { precision, scale, .. } => (*precision, *scale),
            Type::GroupType { .. } => (0, 0),
        };
        return (as_what(&format!("decimal({precision},{scale})")), &[Family::Decimal]);
    }
    let date = converted == ConvertedType::DATE || matches!(logical, Some(LogicalType::Date));
    let timestamp = matches!(converted, ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIMESTAMP_MICROS)
        || matches!(logical, Some(LogicalType::Timestamp(_)));
    match physical {
        Physical::INT32 if date => (as_what("date"), &[Family::Date]),
        Physical::INT32 => (plain, &[Family::SmallInt, Family::Integer]),
        Physical::INT64 if timestamp => (as_what("timestamp"), &[Family::Timestamp]),
        Physical::INT64 => (plain, &[Family::BigInt]),
        Physical::INT96 => (as_what("timestamp"), &[Family::Timestamp]),
        Physical::FLOAT => (plain, &[Family::Real]),
        Physical::DOUBLE => (plain, &[Family::Double]),
        Physical::BOOLEAN => (plain, &[Family::Boolean]),
        Physical::BYTE_ARRAY => (plain, &[Family::Text, Family::Super]),
        Physical::FIXED_LEN_BYTE_ARRAY => (plain, &[]),
    }
}
