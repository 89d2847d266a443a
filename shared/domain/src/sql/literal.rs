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

/// `TIMESTAMPTZ 'YYYY-MM-DD HH:MM:SS[.ffffff]+00'` of a moment in UTC, cut to microseconds.
pub fn timestamptz(moment: DateTime) -> Result<String, InvalidLiteral> {
    let literal = timestamp(moment)?.replacen("TIMESTAMP", "TIMESTAMPTZ", 1);
    Ok(format!("{}+00'", literal.trim_end_matches('\'')))
}

fn in_years(day: Date) -> Result<(), InvalidLiteral> {
    if day.year() < 1 { Err(InvalidLiteral::Year(day)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date as day_of;
    use proptest::prelude::*;
    use sqlparser::dialect::RedshiftSqlDialect;
    use sqlparser::tokenizer::{Token, Tokenizer};

    use super::*;

    fn tokens(sql: &str) -> Vec<Token> {
        Tokenizer::new(&RedshiftSqlDialect {}, sql).tokenize().unwrap()
    }

    #[test]
    fn c174_values_are_literals_of_their_type() {
        assert_eq!(date(day_of(2026, 11, 1)).unwrap(), "DATE '2026-11-01'");
        assert_eq!(date(day_of(7, 1, 2)).unwrap(), "DATE '0007-01-02'");
        assert_eq!(timestamp(day_of(2026, 11, 1).at(7, 5, 0, 0)).unwrap(), "TIMESTAMP '2026-11-01 07:05:00'");
        let precise = day_of(2026, 11, 1).at(23, 59, 59, 1_002_003);
        assert_eq!(timestamp(precise).unwrap(), "TIMESTAMP '2026-11-01 23:59:59.001002'");
        assert_eq!(timestamptz(day_of(2026, 11, 1).at(7, 5, 0, 0)).unwrap(), "TIMESTAMPTZ '2026-11-01 07:05:00+00'");
        assert_eq!(integer(i64::MIN), "-9223372036854775808");
        assert_eq!(text("O'Brien\\").unwrap(), r"'O''Brien\\'");
        assert_eq!(text_or_null(None).unwrap(), "NULL");
    }

    #[test]
    fn c141_nul_bytes_have_no_literal() {
        assert_eq!(
            text("a\0b").unwrap_err().to_string(),
            "text \"a\\0b\" holds a NUL byte, which Redshift can't store"
        );
    }

    #[test]
    fn years_before_the_first_have_no_literal() {
        assert!(date(day_of(0, 12, 31)).is_err());
        assert!(timestamp(day_of(-1, 1, 1).at(0, 0, 0, 0)).is_err());
    }

    proptest! {
        /// One token, which is the text itself.
        #[test]
        fn any_text_is_one_string(content in r"([^\x00]|['\\\n;$-]){0,40}") {
            let expected = vec![Token::SingleQuotedString(content.clone())];
            prop_assert_eq!(tokens(&text(&content).unwrap()), expected);
        }

        /// The literal never changes what stands around it, whether or not the reader takes backslashes for escapes.
        #[test]
        fn any_text_leaves_the_statement_as_it_is(content in r"([^\x00]|['\\\n;$-]){0,40}") {
            let literal = text(&content).unwrap();
            let sql = format!("DELETE FROM t WHERE a = {literal} AND b = 'c'");
            let without = tokens("DELETE FROM t WHERE a = 'x' AND b = 'c'");
            let with = tokens(&sql);
            prop_assert_eq!(with.len(), without.len());
            let inner = &literal[1..literal.len() - 1];
            prop_assert!(!inner.replace("''", "").contains('\''));
        }
    }
}
