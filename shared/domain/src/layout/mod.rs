//! How the keys below a root tell the partition.
//!
//! A layout is a row of levels, each ending in `/`: a literal (`data/`), a value (`dt={dt}/`, or the bare `{dt}/`), or a
//! piece of a date (`{yyyy}/{mm}/{dd}/`, also `year={yyyy}/`, or `dt={yyyy-mm-dd}/`). The pieces together make the one part that no level names:
//! of type `date`, or with `{hh}` of type `timestamp`. With `{hh}` and type `date` the hours are only folders of the day; so
//! are the days of a month, for a part of that grain, which needs no `{dd}`.
//! It may end in `*.parquet`: then only objects with that ending are data.

mod parse;
mod route;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::definition::Grain;

pub(crate) use parse::is_part_name;
pub use route::Unroutable;
pub(crate) use route::named;

/// A dataset's layout: the levels of the path between the root and the object's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Layout {
    levels: Vec<Level>,
    suffix: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Level {
    Literal(String),
    /// `key={slot}` or the bare `{slot}`; keys are lower case and compared without case.
    Value {
        key: Option<String>,
        slot: Slot,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Slot {
    /// The whole value of the part of that name.
    Part(String),
    /// A whole day, `2026-11-01`: the pieces up to the day in one level.
    Date,
    Year,
    Month,
    Day,
    Hour,
}

impl Layout {
    /// The number of folders between the root and an object.
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// The ending that an object's name must have to be data, where one is asked for.
    pub fn suffix(&self) -> Option<&str> {
        self.suffix.as_deref()
    }

    /// The parts that a level names, in order. A date made of pieces has no name here.
    pub fn named_parts(&self) -> impl Iterator<Item = &str> {
        self.slots().filter_map(|slot| if let Slot::Part(name) = slot { Some(name.as_str()) } else { None })
    }

    /// The number of parts that a definition with this layout has.
    pub fn parts(&self) -> usize {
        self.named_parts().count() + usize::from(self.has_date_pieces())
    }

    /// Whether a date is made of `{yyyy}`, `{mm}` and `{dd}`.
    pub fn has_date_pieces(&self) -> bool {
        self.slots().any(|slot| matches!(slot, Slot::Date | Slot::Year))
    }

    /// How much time the pieces of the date tell apart; `None` where there are none.
    pub fn date_grain(&self) -> Option<Grain> {
        let grains = [
            (Slot::Hour, Grain::Hour),
            (Slot::Date, Grain::Day),
            (Slot::Day, Grain::Day),
            (Slot::Month, Grain::Month),
            (Slot::Year, Grain::Year),
        ];
        grains.into_iter().find(|(piece, _)| self.slots().any(|slot| slot == piece)).map(|(_, grain)| grain)
    }

    /// How many named parts stand before the first piece of the date: its place among the parts.
    pub(crate) fn place_of_date(&self) -> usize {
        self.slots().take_while(|slot| matches!(slot, Slot::Part(_))).count()
    }

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.levels.iter().filter_map(|level| if let Level::Value { slot, .. } = level { Some(slot) } else { None })
    }
}

/// Normalised: keys and placeholders in lower case.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for level in &self.levels {
            write!(f, "{level}/")?;
        }
        self.suffix.as_ref().map_or(Ok(()), |suffix| write!(f, "*{suffix}"))
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(text) => f.write_str(text),
            Self::Value { key: Some(key), slot } => write!(f, "{key}={{{slot}}}"),
            Self::Value { key: None, slot } => write!(f, "{{{slot}}}"),
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Part(name) => name,
            Self::Date => "yyyy-mm-dd",
            Self::Year => "yyyy",
            Self::Month => "mm",
            Self::Day => "dd",
            Self::Hour => "hh",
        })
    }
}

impl From<Layout> for String {
    fn from(layout: Layout) -> Self {
        layout.to_string()
    }
}
