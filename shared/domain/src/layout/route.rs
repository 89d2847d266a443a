//! From a key to its partition, and from a partition to the folders that spell it.
//!
//! **Invariant:** a key is of a partition exactly if walking the levels with the partition's values accepts each of its
//! folders. Events and listings therefore never disagree on what a partition holds.

use std::fmt;

use jiff::civil::{Date, DateTime};

use super::{Layout, Level, Slot};
use crate::definition::{Grain, Part, PartKind};
use crate::id::PartitionName;
use crate::object_key::{HIVE_NULL, TableFormat, is_hidden, is_hidden_folder, value_decoded};
use crate::partition_value::{BadValue, Partition, PartitionValue, canonical_name, civil_date, digits, moment};

/// Why an object below a root is of no partition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unroutable {
    /// Never data, and no fault: counted nowhere.
    #[error("is hidden: below the root, what begins with `_` or `.`, ends in `_$folder$` or ends in `/` is never data")]
    Hidden,
    /// The root is one of a table with a log of its own: a fault of the configuration.
    #[error("belongs to a {0} table, whose files can't be loaded as they lie; export it first")]
    TableFormat(TableFormat),
    /// `//` below the root.
    #[error("has an empty folder name")]
    EmptySegment,
    /// Not directly in a folder of the last level.
    #[error("lies {found} folders below the root; the layout has {expected}")]
    WrongDepth {
        /// Levels of the layout.
        expected: usize,
        /// Folders between the root and the object.
        found: usize,
    },
    /// A folder that belongs to another level.
    #[error("has {found:?} where the layout has `{expected}/`: the levels are in another order")]
    OtherOrder {
        /// The layout's level.
        expected: String,
        /// The key's folder.
        found: String,
    },
    /// A folder that the level doesn't allow.
    #[error("has {found:?} where the layout has `{expected}/`")]
    UnexpectedSegment {
        /// The layout's level.
        expected: String,
        /// The key's folder.
        found: String,
    },
    /// A folder whose value can't be one of its part.
    #[error("value {text:?} of {part} {why}")]
    Value {
        /// The part's name.
        part: String,
        /// The text as in the key.
        text: String,
        /// What is wrong with it.
        why: BadValue,
    },
    /// The partition's canonical name is longer than a DynamoDB key can hold.
    #[error("gives a partition name of {0} bytes, of which there may be 1000")]
    NameTooLong(usize),
    /// Not the ending that the layout asks for.
    #[error("doesn't end in `{0}` as the layout asks")]
    OtherSuffix(String),
}

impl Unroutable {
    /// A stable word for metrics and logs.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Hidden => "hidden",
            Self::TableFormat(_) => "table_format",
            Self::EmptySegment => "empty_segment",
            Self::WrongDepth { .. } => "wrong_depth",
            Self::OtherOrder { .. } => "other_order",
            Self::UnexpectedSegment { .. } => "unexpected_segment",
            Self::Value { why: BadValue::Null, .. } => "null_partition",
            Self::Value { why: BadValue::Date, .. } => "impossible_date",
            Self::Value { why: BadValue::Integer, .. } => "impossible_integer",
            Self::Value { why: BadValue::Timestamp, .. } => "impossible_timestamp",
            Self::Value { why: BadValue::Text, .. } => "impossible_text",
            Self::Value { why: BadValue::TrailingBlank, .. } => "trailing_blank",
            Self::Value { why: BadValue::Skipped, .. } => "skipped_by_clocks",
            Self::NameTooLong(_) => "name_too_long",
            Self::OtherSuffix(_) => "other_suffix",
        }
    }
}

/// The pieces of a date as far as they were read; those that the layout doesn't have stay at the beginning of what it has.
struct Pieces {
    year: i16,
    month: i16,
    day: i16,
    hour: i16,
}

impl Layout {
    /// The partition of an object, by its key without the root. `parts` are those of the same definition.
    pub fn partition_of(&self, parts: &[Part], below: &str) -> Result<Partition, Unroutable> {
        if let Some(format) = TableFormat::of(below) {
            return Err(Unroutable::TableFormat(format));
        }
        if is_hidden(below) {
            return Err(Unroutable::Hidden);
        }
        let (folders, object) = below.rsplit_once('/').map_or(("", below), |(folders, object)| (folders, object));
        let folders: Vec<&str> = if object.len() == below.len() { Vec::new() } else { folders.split('/').collect() };
        if folders.contains(&"") {
            return Err(Unroutable::EmptySegment);
        }
        if folders.len() != self.levels.len() {
            return Err(Unroutable::WrongDepth { expected: self.levels.len(), found: folders.len() });
        }
        let partition = self.partition(parts, &folders)?;
        self.check_object(object)?;
        Ok(partition)
    }

    /// Whether an object directly in a partition's folder is data, by its name alone.
    pub fn check_object(&self, name: &str) -> Result<(), Unroutable> {
        if is_hidden(name) {
            return Err(Unroutable::Hidden);
        }
        match &self.suffix {
            Some(suffix) if !name.ends_with(suffix.as_str()) => Err(Unroutable::OtherSuffix(suffix.clone())),
            _ => Ok(()),
        }
    }

    /// Whether `segment`, a folder's name without its `/` at `level` (0 is directly below the root), is a spelling of what
    /// the partition with these values has there. Values are compared typed: `month=1` and `month=01` both match.
    pub fn match_level(&self, parts: &[Part], values: &[PartitionValue], level: usize, segment: &str) -> bool {
        let (Some(level), false) = (self.levels.get(level), is_hidden_folder(segment)) else {
            return false;
        };
        let Level::Value { key, slot } = level else {
            return *level == Level::Literal(segment.to_owned());
        };
        let Some(text) = value_text(key.as_deref(), segment) else {
            return false;
        };
        let part = self.part_of(slot, parts);
        let Some((part, value)) = part.and_then(|place| Some((parts.get(place)?, values.get(place)?))) else {
            return false;
        };
        if matches!(slot, Slot::Part(_)) {
            return read_value(part, key.is_some(), text).as_ref() == Ok(value);
        }
        let Some(at) = moment_of(value) else { return false };
        let grain = part.range.as_ref().map(|range| range.grain);
        if *slot == Slot::Date {
            let Ok(day) = read_day(key.is_some(), text) else { return false };
            return match grain {
                Some(Grain::Year) => day.year() == at.year(),
                Some(Grain::Month) => (day.year(), day.month()) == (at.year(), at.month()),
                _ => day == at.date(),
            };
        }
        let Ok(piece) = read_piece(slot, key.is_some(), text) else { return false };
        match slot {
            Slot::Part(_) | Slot::Date => false,
            Slot::Year => piece == at.year(),
            // What is finer than the part is only a folder of it, but must make a date all the same.
            Slot::Month if grain == Some(Grain::Year) => civil_date(at.year(), piece, 1).is_some(),
            Slot::Month => piece == i16::from(at.month()),
            Slot::Day if grain == Some(Grain::Month) => civil_date(at.year(), at.month().into(), piece).is_some(),
            Slot::Day => piece == i16::from(at.day()),
            Slot::Hour => part.kind == PartKind::Date || piece == i16::from(at.hour()),
        }
    }

    /// One prefix below the root that spells the partition with these values, the plain one; others may too.
    pub fn prefix_of(&self, parts: &[Part], values: &[PartitionValue]) -> String {
        let mut prefix = String::new();
        for level in &self.levels {
            let (key, slot) = match level {
                Level::Literal(text) => {
                    prefix.push_str(text);
                    prefix.push('/');
                    continue;
                }
                Level::Value { key, slot } => (key, slot),
            };
            if let Some(key) = key {
                prefix.push_str(key);
                prefix.push('=');
            }
            if let Some(value) = self.part_of(slot, parts).and_then(|place| values.get(place)) {
                prefix.push_str(&plain_spelling(slot, key.is_some(), value));
            }
            prefix.push('/');
        }
        prefix
    }

    /// Whether an object can be of the partition with these values at all.
    pub fn yields(&self, parts: &[Part], values: &[PartitionValue]) -> bool {
        let key = format!("{}x{}", self.prefix_of(parts, values), self.suffix.as_deref().unwrap_or(""));
        self.partition_of(parts, &key).is_ok_and(|partition| partition.values == values)
    }

    fn partition(&self, parts: &[Part], folders: &[&str]) -> Result<Partition, Unroutable> {
        let mut values: Vec<Option<PartitionValue>> = vec![None; parts.len()];
        let mut pieces = Pieces { year: 0, month: 1, day: 1, hour: 0 };
        for (level, segment) in self.levels.iter().zip(folders) {
            let Level::Value { key, slot } = level else {
                if *level == Level::Literal((*segment).to_owned()) {
                    continue;
                }
                return Err(self.unexpected(level, segment));
            };
            let text = value_text(key.as_deref(), segment).ok_or_else(|| self.unexpected(level, segment))?;
            let place = self.part_of(slot, parts).ok_or_else(|| self.unexpected(level, segment))?;
            let part = &parts[place];
            let bad = |why| Unroutable::Value { part: part.name.clone(), text: text.to_owned(), why };
            if matches!(slot, Slot::Part(_)) {
                values[place] = Some(read_value(part, key.is_some(), text).map_err(bad)?);
                continue;
            }
            if *slot == Slot::Date {
                let day = read_day(key.is_some(), text).map_err(bad)?;
                (pieces.year, pieces.month, pieces.day) = (day.year(), day.month().into(), day.day().into());
                continue;
            }
            let piece = read_piece(slot, key.is_some(), text).map_err(bad)?;
            match slot {
                Slot::Part(_) | Slot::Date => {}
                Slot::Year => pieces.year = piece,
                Slot::Month => pieces.month = piece,
                Slot::Day => pieces.day = piece,
                Slot::Hour => pieces.hour = piece,
            }
        }
        if let Some(place) = self.part_of(&Slot::Date, parts) {
            values[place] = Some(pieces.value(&parts[place])?);
        }
        let values: Vec<PartitionValue> = values.into_iter().flatten().collect();
        named(parts, values)
    }

    /// The place of the part that a slot belongs to: the one it names, or for a piece of a date the one no level names.
    fn part_of(&self, slot: &Slot, parts: &[Part]) -> Option<usize> {
        match slot {
            Slot::Part(name) => parts.iter().position(|part| part.name == *name),
            _ if !self.has_date_pieces() => None,
            _ => parts.iter().position(|part| !self.named_parts().any(|name| name == part.name)),
        }
    }

    fn unexpected(&self, level: &Level, found: &str) -> Unroutable {
        let key = found.split_once('=').map(|(key, _)| key);
        let elsewhere = self.levels.iter().any(|other| match other {
            Level::Literal(text) => text == found,
            Level::Value { key: Some(other), .. } => key.is_some_and(|key| key.eq_ignore_ascii_case(other)),
            Level::Value { key: None, .. } => false,
        });
        let (expected, found) = (level.to_string(), found.to_owned());
        if elsewhere {
            Unroutable::OtherOrder { expected, found }
        } else {
            Unroutable::UnexpectedSegment { expected, found }
        }
    }
}

impl Pieces {
    fn value(&self, part: &Part) -> Result<PartitionValue, Unroutable> {
        let date = civil_date(self.year, self.month, self.day);
        let value = match part.kind {
            PartKind::Timestamp => date
                .and_then(|date| moment(date, self.hour, 0, 0))
                .map(PartitionValue::Timestamp)
                .ok_or(BadValue::Timestamp),
            _ => date.filter(|_| self.hour < 24).map(PartitionValue::Date).ok_or(BadValue::Date),
        };
        value.and_then(|value| part.holding(value)).map_err(|why| Unroutable::Value {
            part: part.name.clone(),
            text: self.to_string(),
            why,
        })
    }
}

impl fmt::Display for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)?;
        if self.hour == 0 { Ok(()) } else { write!(f, " {:02}:00", self.hour) }
    }
}

/// Names the values; they must be one per part.
pub(crate) fn named(parts: &[Part], values: Vec<PartitionValue>) -> Result<Partition, Unroutable> {
    let name = canonical_name(parts, &values);
    let bytes = name.len();
    match PartitionName::new(name) {
        Ok(name) => Ok(Partition { name, values }),
        Err(_) => Err(Unroutable::NameTooLong(bytes)),
    }
}

/// The text of a value in a folder's name: what stands after the key, compared without case, or all of it.
fn value_text<'s>(key: Option<&str>, segment: &'s str) -> Option<&'s str> {
    let Some(key) = key else {
        return Some(segment);
    };
    let (found, text) = segment.split_once('=')?;
    found.eq_ignore_ascii_case(key).then_some(text)
}

/// A `key=value` is percent-decoded, once; a bare folder never.
fn read_value(part: &Part, keyed: bool, text: &str) -> Result<PartitionValue, BadValue> {
    if keyed { part.read_encoded(text) } else { part.read(text) }
}

/// A whole day in one level, `YYYY-MM-DD` and nothing else.
fn read_day(keyed: bool, text: &str) -> Result<Date, BadValue> {
    let text = if keyed { value_decoded(text).map_err(|_| BadValue::Date)? } else { text.to_owned() };
    if text == HIVE_NULL {
        return Err(BadValue::Null);
    }
    let mut pieces = text.split('-');
    let mut piece = |length: usize| digits(pieces.next().filter(|piece| piece.len() == length)?.as_bytes());
    let date = piece(4).zip(piece(2)).zip(piece(2)).and_then(|((year, month), day)| civil_date(year, month, day));
    date.filter(|_| pieces.next().is_none()).ok_or(BadValue::Date)
}

/// Four digits of a year, one or two of a month, day or hour. Whether they make a date is seen once all are there.
fn read_piece(slot: &Slot, keyed: bool, text: &str) -> Result<i16, BadValue> {
    let text = if keyed { value_decoded(text).map_err(|_| BadValue::Date)? } else { text.to_owned() };
    if text == HIVE_NULL {
        return Err(BadValue::Null);
    }
    let length_fits = if *slot == Slot::Year { text.len() == 4 } else { text.len() <= 2 };
    let number = digits(text.as_bytes()).filter(|number| length_fits && (*slot != Slot::Hour || *number < 24));
    number.ok_or(if *slot == Slot::Hour { BadValue::Timestamp } else { BadValue::Date })
}

fn moment_of(value: &PartitionValue) -> Option<DateTime> {
    match value {
        PartitionValue::Date(date) => Some(Date::to_datetime(*date, jiff::civil::Time::midnight())),
        PartitionValue::Timestamp(at) => Some(*at),
        PartitionValue::Integer(_) | PartitionValue::Text(_) => None,
    }
}

fn plain_spelling(slot: &Slot, keyed: bool, value: &PartitionValue) -> String {
    let piece = |piece: fn(DateTime) -> String| moment_of(value).map(piece).unwrap_or_default();
    match slot {
        Slot::Part(_) => match value {
            PartitionValue::Text(text) if !keyed => text.clone(),
            _ => value.to_string(),
        },
        Slot::Date => piece(|at| at.date().to_string()),
        Slot::Year => piece(|at| format!("{:04}", at.year())),
        Slot::Month => piece(|at| format!("{:02}", at.month())),
        Slot::Day => piece(|at| format!("{:02}", at.day())),
        Slot::Hour => piece(|at| format!("{:02}", at.hour())),
    }
}
