//! Typed literals: the only door by which a value enters SQL.

use jiff::civil::{Date, DateTime};

use crate::partition_value::PartitionValue;

/// Why a value has no literal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLiteral {
    /// Redshift can't hold U+0000 in a text.
    #[error("text {0:?} holds a NUL byte, which Redshift can't store")]
    Nul(String),
    /// Redshift's dates are of the years 1 to 9999 here.
    #[error("date {0} is outside the years 1 to 9999")]
    Year(Date),
}

/// A value's literal, by its type.
pub fn value(value: &PartitionValue) -> Result<String, InvalidLiteral> {
    match value {
        PartitionValue::Date(day) => date(*day),
        PartitionValue::Integer(number) => Ok(integer(*number)),
        PartitionValue::Text(content) => text(content),
        PartitionValue::Timestamp(moment) => timestamp(*moment),
    }
}

/// `'…'`: quotes and backslashes are doubled, since Redshift reads a backslash as the start of an escape.
pub fn text(content: &str) -> Result<String, InvalidLiteral> {
    if content.contains('\0') {
        return Err(InvalidLiteral::Nul(content.to_owned()));
    }
    Ok(format!("'{}'", content.replace('\\', "\\\\").replace('\'', "''")))
}

/// A text, or `NULL`.
pub fn text_or_null(content: Option<&str>) -> Result<String, InvalidLiteral> {
    content.map_or_else(|| Ok("NULL".to_owned()), text)
}

/// A whole number.
pub fn integer(number: i64) -> String {
    number.to_string()
}

/// `DATE 'YYYY-MM-DD'`.
pub fn date(day: Date) -> Result<String, InvalidLiteral> {
    in_years(day)?;
    Ok(format!("DATE '{}'", day.strftime("%Y-%m-%d")))
}

/// `TIMESTAMP 'YYYY-MM-DD HH:MM:SS[.ffffff]'`, cut to microseconds, without time zone.
pub fn timestamp(moment: DateTime) -> Result<String, InvalidLiteral> {
    in_years(moment.date())?;
    let micros = moment.subsec_nanosecond() / 1_000;
    let fraction = if micros == 0 { String::new() } else { format!(".{micros:06}") };
    Ok(format!("TIMESTAMP '{}{fraction}'", moment.strftime("%Y-%m-%d %H:%M:%S")))
}

fn in_years(day: Date) -> Result<(), InvalidLiteral> {
    if day.year() < 1 { Err(InvalidLiteral::Year(day)) } else { Ok(()) }
}
