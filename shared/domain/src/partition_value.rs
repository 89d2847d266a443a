//! The typed values of a partition: how their text is read, strictly, and how they are written, in one way.
//!
//! The canonical name is `part=value` for each part in order, joined by `/`. In a text value `/`, `=`, `%` and control
//! characters are written `%XX`, so that no two partitions have one name. Integers have no leading zeros; timestamps are
//! `YYYY-MM-DDTHH:MM:SS`.

use std::fmt::{self, Write as _};

use jiff::civil::{Date, DateTime};

use crate::definition::{Part, PartKind};
use crate::id::PartitionName;
use crate::object_key::{HIVE_NULL, value_decoded};

/// A partition: its canonical name and its typed values, in the order of the definition's parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Partition {
    /// Canonical, made from the values.
    pub name: PartitionName,
    /// One per part.
    pub values: Vec<PartitionValue>,
}

/// One typed value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartitionValue {
    /// A day.
    Date(Date),
    /// A number.
    Integer(i64),
    /// A text, never empty and without trailing blanks.
    Text(String),
    /// A moment without time zone.
    Timestamp(DateTime),
}

/// Why a text is no value of its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadValue {
    /// Hive's and Spark's name for null.
    #[error("is the null partition ({HIVE_NULL})")]
    Null,
    /// No day of the calendar, or not written so.
    #[error("is no date of the form YYYY-MM-DD")]
    Date,
    /// No integer of 64 bits.
    #[error("is no decimal integer of 64 bits")]
    Integer,
    /// No moment, or not written so.
    #[error("is no timestamp of the form YYYY-MM-DD HH:MM[:SS]")]
    Timestamp,
    /// Empty, or with a NUL character, or no UTF-8 once decoded: Redshift can't hold it.
    #[error("is empty, holds a NUL character or is no UTF-8")]
    Text,
    /// To Redshift it equals the same text without the blanks.
    #[error("ends in a blank, which Redshift doesn't tell from the same text without it")]
    TrailingBlank,
    /// The hour or day that the clocks of the part's time zone skip.
    #[error("never occurs: the clocks of its time zone skip it")]
    Skipped,
}

impl PartitionValue {
    /// Reads a value that is not encoded any more.
    pub fn parse(kind: PartKind, text: &str) -> Result<Self, BadValue> {
        if text == HIVE_NULL {
            return Err(BadValue::Null);
        }
        match kind {
            PartKind::Date => date(text).map(Self::Date).ok_or(BadValue::Date),
            PartKind::Integer => integer(text).map(Self::Integer).ok_or(BadValue::Integer),
            PartKind::Timestamp => timestamp(text).map(Self::Timestamp).ok_or(BadValue::Timestamp),
            PartKind::Text if text.is_empty() || text.contains('\0') => Err(BadValue::Text),
            PartKind::Text if text.ends_with(' ') => Err(BadValue::TrailingBlank),
            PartKind::Text => Ok(Self::Text(text.to_owned())),
        }
    }

    /// Reads a value as it stands in a `key=value` segment or in a canonical name: percent-decoded, once.
    pub fn parse_encoded(kind: PartKind, text: &str) -> Result<Self, BadValue> {
        Self::parse(kind, &value_decoded(text).map_err(|_| BadValue::Text)?)
    }
}

/// The value as it stands in a canonical name.
impl fmt::Display for PartitionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Date(date) => write!(f, "{date}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Timestamp(at) => write!(f, "{}", at.strftime("%Y-%m-%dT%H:%M:%S")),
            Self::Text(text) => text.chars().try_for_each(|c| {
                if c.is_control() || matches!(c, '/' | '=' | '%') {
                    c.encode_utf8(&mut [0; 4]).bytes().try_for_each(|byte| write!(f, "%{byte:02X}"))
                } else {
                    f.write_char(c)
                }
            }),
        }
    }
}

/// The canonical name as text; it may be longer than a partition's name may be.
pub(crate) fn canonical_name(parts: &[Part], values: &[PartitionValue]) -> String {
    let mut name = String::new();
    for (part, value) in parts.iter().zip(values) {
        let slash = if name.is_empty() { "" } else { "/" };
        // Writing to a String can't fail.
        let _ = write!(name, "{slash}{}={value}", part.name);
    }
    name
}

/// `YYYY-MM-DD`, digit by digit; the year from 1 on, since Redshift has no year 0.
fn date(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    civil_date(digits(&bytes[..4])?, digits(&bytes[5..7])?, digits(&bytes[8..])?)
}

/// A day of the calendar, from year 1 on.
pub(crate) fn civil_date(year: i16, month: i16, day: i16) -> Option<Date> {
    let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    (year >= 1).then_some(date)
}

/// `YYYY-MM-DD HH:MM[:SS]`, the blank may be a `T`. A leap second is none.
fn timestamp(text: &str) -> Option<DateTime> {
    let (day, time) = text.split_once([' ', 'T'])?;
    let bytes = time.as_bytes();
    let shaped = match bytes.len() {
        5 => bytes[2] == b':',
        8 => bytes[2] == b':' && bytes[5] == b':',
        _ => false,
    };
    if !shaped {
        return None;
    }
    let second = if bytes.len() == 8 { digits(&bytes[6..])? } else { 0 };
    moment(date(day)?, digits(&bytes[..2])?, digits(&bytes[3..5])?, second)
}

/// A moment of a day, to the second.
pub(crate) fn moment(date: Date, hour: i16, minute: i16, second: i16) -> Option<DateTime> {
    let (hour, minute, second) = (i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, i8::try_from(second).ok()?);
    DateTime::new(date.year(), date.month(), date.day(), hour, minute, second, 0).ok()
}

/// One to four ASCII digits and nothing else.
pub(crate) fn digits(bytes: &[u8]) -> Option<i16> {
    let few = (1..=4).contains(&bytes.len());
    if !few || !bytes.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(bytes.iter().fold(0, |number, byte| number * 10 + i16::from(byte - b'0')))
}

/// Decimal digits, a minus before them if need be; leading zeros don't matter. `-0` is 0.
fn integer(text: &str) -> Option<i64> {
    let number = text.strip_prefix('-').unwrap_or(text);
    let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(kind: PartKind, text: &str) -> Result<String, BadValue> {
        PartitionValue::parse(kind, text).map(|value| value.to_string())
    }

    #[test]
    fn c051_an_invalid_date_is_refused_never_null() {
        for text in
            ["2026-02-30", "2026-13-01", "2026-11-01T00", "20261101", "2026-1-1", "+2026-11-01", "0000-01-01", ""]
        {
            assert_eq!(read(PartKind::Date, text), Err(BadValue::Date), "{text}");
        }
        assert_eq!(read(PartKind::Date, "2028-02-29").unwrap(), "2028-02-29");
        assert_eq!(read(PartKind::Date, "２026-11-01"), Err(BadValue::Date));
    }

    #[test]
    fn integers_are_one_value_however_padded() {
        assert_eq!(read(PartKind::Integer, "007").unwrap(), "7");
        assert_eq!(read(PartKind::Integer, "-0").unwrap(), "0");
        assert_eq!(read(PartKind::Integer, "-9223372036854775808").unwrap(), "-9223372036854775808");
        for text in ["", "-", "+7", "7.0", "1e3", "9223372036854775808", " 7", "٣"] {
            assert_eq!(read(PartKind::Integer, text), Err(BadValue::Integer), "{text}");
        }
    }

    #[test]
    fn timestamps_are_read_in_both_forms_and_written_in_one() {
        assert_eq!(read(PartKind::Timestamp, "2026-11-01 07:30").unwrap(), "2026-11-01T07:30:00");
        assert_eq!(read(PartKind::Timestamp, "2026-11-01T07:30:09").unwrap(), "2026-11-01T07:30:09");
        for text in ["2026-11-01", "2026-11-01T07", "2026-11-01T24:00", "2026-11-01T07:30:60", "2026-11-01T07:30Z"] {
            assert_eq!(read(PartKind::Timestamp, text), Err(BadValue::Timestamp), "{text}");
        }
    }

    #[test]
    fn texts_that_redshift_could_not_tell_apart_or_hold_are_refused() {
        assert_eq!(read(PartKind::Text, "eu "), Err(BadValue::TrailingBlank));
        assert_eq!(read(PartKind::Text, ""), Err(BadValue::Text));
        assert_eq!(PartitionValue::parse_encoded(PartKind::Text, "a%00b"), Err(BadValue::Text));
        assert_eq!(PartitionValue::parse_encoded(PartKind::Text, "%FF"), Err(BadValue::Text));
        assert_eq!(PartitionValue::parse_encoded(PartKind::Date, "__HIVE_DEFAULT_PARTITION%5F_"), Err(BadValue::Null));
    }

    #[test]
    fn a_name_is_unambiguous() {
        assert_eq!(read(PartKind::Text, "a/b=c%d\n").unwrap(), "a%2Fb%3Dc%25d%0A");
        assert_eq!(read(PartKind::Text, "O'Brien 雪").unwrap(), "O'Brien 雪");
    }

    proptest! {
        #[test]
        fn a_text_survives_its_canonical_form(text in "[^\0]{0,60}[^ \0]") {
            let value = PartitionValue::parse(PartKind::Text, &text).unwrap();
            prop_assert_eq!(&value, &PartitionValue::Text(text));
            prop_assert_eq!(PartitionValue::parse_encoded(PartKind::Text, &value.to_string()), Ok(value));
        }

        #[test]
        fn no_text_is_a_panic(text in any::<String>()) {
            for kind in [PartKind::Date, PartKind::Integer, PartKind::Text, PartKind::Timestamp] {
                if let Ok(value) = PartitionValue::parse_encoded(kind, &text) {
                    prop_assert_eq!(PartitionValue::parse_encoded(kind, &value.to_string()), Ok(value));
                }
            }
        }
    }
}
