//! What a Parquet file's columns are called, and which columns of Redshift they may fill.

use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::schema::types::Type;

use super::{Decimals, Family, FileColumn};

/// One top-level column.
pub(super) fn column(field: &Type) -> FileColumn {
    let name = field.name().to_owned();
    let Some(decimals) = decimals(field) else {
        let (described, fills) = told(field);
        return FileColumn { name, described, fills, decimals: None };
    };
    let plain = field.get_physical_type().to_string().to_lowercase();
    let bytes = decimals.bytes.map_or_else(String::new, |bytes| format!(" of {bytes} bytes"));
    let described = format!("{plain}{bytes} (decimal({},{}))", decimals.precision, decimals.scale);
    FileColumn { name, described, fills: &[Family::Decimal, Family::Super], decimals: Some(decimals) }
}

fn is_nested(field: &Type) -> bool {
    let info = field.get_basic_info();
    !field.is_primitive() || info.has_repetition() && info.repetition() == Repetition::REPEATED
}

fn decimals(field: &Type) -> Option<Decimals> {
    let info = field.get_basic_info();
    let is_decimal = info.converted_type() == ConvertedType::DECIMAL
        || matches!(info.logical_type_ref(), Some(LogicalType::Decimal(_)));
    match field {
        Type::PrimitiveType { physical_type, type_length, precision, scale, .. } if is_decimal && !is_nested(field) => {
            let number = |value: i32| u64::try_from(value).unwrap_or(0);
            let fixed = *physical_type == Physical::FIXED_LEN_BYTE_ARRAY;
            let bytes = fixed.then(|| number(*type_length));
            Some(Decimals { precision: number(*precision), scale: number(*scale), bytes })
        }
        _ => None,
    }
}

/// What a column that holds no decimals is called, and what it may fill. Moments in nanoseconds and unsigned numbers of full
/// width fill nothing: Redshift reads both as other values than were written, and says nothing.
fn told(field: &Type) -> (String, &'static [Family]) {
    if is_nested(field) {
        return ("nested".to_owned(), &[Family::Super]);
    }
    let info = field.get_basic_info();
    let (logical, converted) = (info.logical_type_ref(), info.converted_type());
    let physical = field.get_physical_type();
    let plain = physical.to_string().to_lowercase();
    let as_what = |what: &str| format!("{plain} ({what})");
    let date = converted == ConvertedType::DATE || matches!(logical, Some(LogicalType::Date));
    let time = matches!(converted, ConvertedType::TIME_MILLIS | ConvertedType::TIME_MICROS)
        || matches!(logical, Some(LogicalType::Time(_)));
    let nanoseconds = matches!(logical, Some(LogicalType::Timestamp(stamp)) if stamp.unit == TimeUnit::NANOS);
    let timestamp = matches!(converted, ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIMESTAMP_MICROS)
        || matches!(logical, Some(LogicalType::Timestamp(_)));
    let unsigned = match (converted, logical) {
        (ConvertedType::UINT_32 | ConvertedType::UINT_64, _) => true,
        (_, Some(LogicalType::Integer(integer))) => !integer.is_signed && integer.bit_width >= 32,
        _ => false,
    };
    match physical {
        Physical::INT32 if date => (as_what("date"), &[Family::Date, Family::Super]),
        Physical::INT32 if time => (as_what("time"), &[Family::Integer]),
        Physical::INT64 if time => (as_what("time"), &[Family::BigInt]),
        Physical::INT32 | Physical::INT64 if unsigned => (as_what("unsigned"), &[]),
        Physical::INT32 => (plain, &[Family::SmallInt, Family::Integer, Family::Super]),
        Physical::INT64 if nanoseconds => (as_what("timestamp in nanoseconds"), &[]),
        Physical::INT64 if timestamp => (as_what("timestamp"), &[Family::Timestamp, Family::Super]),
        Physical::INT64 => (plain, &[Family::BigInt, Family::Super]),
        Physical::INT96 => (as_what("timestamp"), &[Family::Timestamp, Family::Super]),
        Physical::FLOAT => (plain, &[Family::Real, Family::Super]),
        Physical::DOUBLE => (plain, &[Family::Double, Family::Super]),
        Physical::BOOLEAN => (plain, &[Family::Boolean, Family::Super]),
        Physical::BYTE_ARRAY => (plain, &[Family::Text, Family::Super]),
        Physical::FIXED_LEN_BYTE_ARRAY => (plain, &[]),
    }
}

#[cfg(test)]
mod tests {
    use parquet::schema::parser::parse_message_type;

    use super::*;
    use crate::definition::Column;
    use crate::footer::Footer;

    /// Why a file with this one column doesn't fit a definition that says it is of that type.
    fn drift(field: &str, sql_type: &str) -> Option<String> {
        let end = if field.ends_with('}') { "" } else { ";" };
        let schema = parse_message_type(&format!("message m {{ {field}{end} }}")).unwrap();
        let columns = schema.get_fields().iter().map(|field| column(field)).collect();
        let expected = Column::parse(&format!("c {sql_type}")).unwrap();
        Footer { rows: 0, columns }.drift(&[expected], false)
    }

    #[test]
    fn decimals_fit_where_copy_reads_them_whole() {
        for (field, sql_type) in [
            ("optional int32 c (DECIMAL(8,2))", "decimal(8,2)"),
            ("optional int64 c (DECIMAL(12,2))", "decimal(18,2)"),
            ("optional fixed_len_byte_array(8) c (DECIMAL(18,9))", "decimal(18,9)"),
            ("optional fixed_len_byte_array(16) c (DECIMAL(38,0))", "decimal(38,0)"),
            ("optional fixed_len_byte_array(6) c (DECIMAL(12,2))", "decimal(13,2)"),
        ] {
            assert_eq!(drift(field, sql_type), None, "{field} into {sql_type}");
        }
        for (field, sql_type, described) in [
            ("optional int32 c (DECIMAL(8,3))", "decimal(8,2)", "int32 (decimal(8,3))"),
            ("optional int32 c (DECIMAL(8,2))", "decimal(12,4)", "int32 (decimal(8,2))"),
            ("optional int64 c (DECIMAL(12,2))", "decimal(10,2)", "int64 (decimal(12,2))"),
            (
                "optional fixed_len_byte_array(13) c (DECIMAL(29,9))",
                "decimal(38,9)",
                "fixed_len_byte_array of 13 bytes (decimal(29,9))",
            ),
        ] {
            let expected =
                format!("column 1 `c` is {described}, from which COPY fills no {sql_type} as the definition says");
            assert_eq!(drift(field, sql_type), Some(expected));
        }
    }

    #[test]
    fn what_redshift_would_read_as_other_values_fills_nothing() {
        for (field, sql_type) in [
            ("optional int64 c (TIMESTAMP(NANOS,true))", "timestamp"),
            ("optional int32 c (INTEGER(32,false))", "integer"),
            ("optional int64 c (UINT_64)", "bigint"),
            ("optional int32 c (TIME(MILLIS,true))", "time"),
        ] {
            assert!(drift(field, sql_type).is_some(), "{field} into {sql_type}");
        }
        assert_eq!(drift("optional int32 c (TIME(MILLIS,true))", "integer"), None, "the number itself");
        assert_eq!(drift("optional int32 c (INTEGER(16,false))", "integer"), None);
    }

    #[test]
    fn a_super_takes_what_can_be_told_in_json() {
        for field in [
            "optional int32 c",
            "optional binary c (UTF8)",
            "repeated int32 c",
            "optional group c { optional int64 a; }",
        ] {
            assert_eq!(drift(field, "super"), None, "{field}");
        }
        assert!(drift("optional group c { optional int64 a; }", "varchar(9)").unwrap().contains("is nested"));
    }
}
