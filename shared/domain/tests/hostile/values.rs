//! Partition values: text ↔ value ↔ canonical name ↔ folder ↔ SQL literal, each way back to where it came from.

use jiff::civil::{Date, DateTime};
use proptest::prelude::*;
use sqlparser::dialect::RedshiftSqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer};
use tidemark_domain::definition::PartKind;
use tidemark_domain::partition_value::PartitionValue;
use tidemark_domain::sql::literal;

use crate::cases;
use crate::keys::hostile_text;

const KINDS: [PartKind; 4] = [PartKind::Date, PartKind::Integer, PartKind::Text, PartKind::Timestamp];

pub(crate) fn days() -> impl Strategy<Value = Date> {
    (1_i16..=9_999, 1_i8..=12, 1_i8..=31).prop_filter_map("a day of the calendar", |(y, m, d)| Date::new(y, m, d).ok())
}

pub(crate) fn moments() -> impl Strategy<Value = DateTime> {
    (days(), 0_i8..24, 0_i8..60, 0_i8..60).prop_map(|(day, hour, minute, second)| day.at(hour, minute, second, 0))
}

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    fn a_value_is_read_back_from_its_name(day in days(), number in any::<i64>(), at in moments(), text in hostile_text()) {
        let text = PartitionValue::parse(PartKind::Text, &text).ok();
        let values = [Some(PartitionValue::Date(day)), Some(PartitionValue::Integer(number)), text, Some(PartitionValue::Timestamp(at))];
        let kinds = [PartKind::Date, PartKind::Integer, PartKind::Text, PartKind::Timestamp];
        for (kind, value) in kinds.into_iter().zip(values) {
            let Some(value) = value else { continue };
            prop_assert_eq!(PartitionValue::parse_encoded(kind, &value.to_string()), Ok(value));
        }
    }

    /// Any text is of one value at most, and refused or read, never both depending on who asks.
    #[test]
    fn any_text_is_one_value_or_none(text in prop_oneof![hostile_text(), any::<String>(), "[0-9T :+-]{0,20}"]) {
        for kind in KINDS {
            if let Ok(value) = PartitionValue::parse(kind, &text) {
                let name = value.to_string();
                prop_assert!(!name.contains('/') && !name.contains('='), "{}", name);
                prop_assert_eq!(PartitionValue::parse_encoded(kind, &name), Ok(value));
            }
        }
    }

    /// The literal of a value is tokens of its type and nothing else, whatever it holds.
    #[test]
    fn a_value_is_one_literal(text in hostile_text(), day in days(), number in any::<i64>(), at in moments()) {
        for value in [PartitionValue::Text(text.replace('\0', "")), PartitionValue::Date(day), PartitionValue::Integer(number), PartitionValue::Timestamp(at)] {
            let sql = literal::value(&value).unwrap();
            let tokens = Tokenizer::new(&RedshiftSqlDialect {}, &sql).tokenize().unwrap();
            let tokens: Vec<&Token> = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
            let expected = match &value {
                PartitionValue::Integer(number) if *number < 0 => matches!(tokens[..], [Token::Minus, Token::Number(..)]),
                PartitionValue::Integer(_) => matches!(tokens[..], [Token::Number(..)]),
                PartitionValue::Text(_) => matches!(tokens[..], [Token::SingleQuotedString(_)]),
                PartitionValue::Date(_) | PartitionValue::Timestamp(_) => {
                    matches!(tokens[..], [Token::Word(_), Token::SingleQuotedString(_)])
                }
            };
            prop_assert!(expected, "{sql}: {tokens:?}");
        }
    }
}
