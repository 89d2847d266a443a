//! A part that owns rows by a moment in them: `range_of`, `grain` and `timezone`.
//!
//! The part's value is the beginning of its hour, day, month or year, on the clocks of its time zone; the rows of it are those
//! whose moment lies between there and the beginning of the next, as instants. So an hour that the clocks show twice is one
//! partition of two hours, a day may have 23 or 25, and what the clocks skip is no partition. The column is never converted.

use std::fmt;

use jiff::civil::{DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};
use serde::{Deserialize, Serialize};

use super::Flaw;
use crate::partition_value::{BadValue, PartitionValue};

/// The range of moments that a part's value stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// How long it is.
    pub grain: Grain,
    /// Whose clocks say where it begins; `None`: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<Zone>,
}

/// How much time a partition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grain {
    /// From one full hour to the next.
    Hour,
    /// From one midnight to the next.
    Day,
    /// From a month's first midnight to the next month's.
    Month,
    /// From a year's first midnight to the next year's.
    Year,
}

/// A time zone of the IANA database other than UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Zone(TimeZone);

/// From the first moment to just before the second, both without time zone, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The first moment of it.
    pub from: DateTime,
    /// The first moment after it.
    pub before: DateTime,
}

impl Range {
    /// The value of the part that holds this date or moment: the beginning of its hour, day, month or year. The error says why
    /// there is none.
    pub fn holding(&self, value: PartitionValue) -> Result<PartitionValue, BadValue> {
        let value = match value {
            PartitionValue::Date(day) => PartitionValue::Date(self.grain.beginning(day.at(0, 0, 0, 0)).date()),
            PartitionValue::Timestamp(at) => PartitionValue::Timestamp(self.grain.beginning(at)),
            other => other,
        };
        self.bounds(&value)?;
        Ok(value)
    }

    /// The moments that the part's value stands for. The error says why there are none.
    pub fn bounds(&self, value: &PartitionValue) -> Result<Bounds, BadValue> {
        let (local, beyond) = match value {
            PartitionValue::Date(day) => (day.to_datetime(Time::midnight()), BadValue::Date),
            PartitionValue::Timestamp(at) => (*at, BadValue::Timestamp),
            PartitionValue::Integer(_) | PartitionValue::Text(_) => return Err(BadValue::Timestamp),
        };
        let next = self.grain.next(local).ok_or(beyond)?;
        let (from, before) = match &self.timezone {
            None => (local, next),
            Some(zone) => (zone.first(local).ok_or(beyond)?, zone.first(next).ok_or(beyond)?),
        };
        if from < before { Ok(Bounds { from, before }) } else { Err(BadValue::Skipped) }
    }
}

impl Grain {
    fn beginning(self, at: DateTime) -> DateTime {
        let day = match self {
            Self::Hour => return at.date().at(at.hour(), 0, 0, 0),
            Self::Day => at.date(),
            Self::Month => at.date().first_of_month(),
            Self::Year => at.date().first_of_year(),
        };
        day.to_datetime(Time::midnight())
    }

    fn next(self, at: DateTime) -> Option<DateTime> {
        let span = match self {
            Self::Hour => 1.hour(),
            Self::Day => 1.day(),
            Self::Month => 1.month(),
            Self::Year => 1.year(),
        };
        at.checked_add(span).ok()
    }
}

/// As the owner writes it.
impl fmt::Display for Grain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
            Self::Year => "year",
        })
    }
}

impl Zone {
    /// Reads a name such as `Europe/Berlin`, in any case; `None` is UTC.
    pub fn parse(name: &str) -> Result<Option<Self>, Flaw> {
        let unknown = || {
            let remedy = "write a name of the IANA database, such as \"Europe/Berlin\"";
            Flaw::new(format!("time zone {name:?} is unknown"), remedy)
        };
        let zone = TimeZone::get(name).map_err(|_| unknown())?;
        match zone.iana_name() {
            Some("UTC" | "Etc/UTC") => Ok(None),
            Some("Etc/Unknown") | None => Err(unknown()),
            Some(_) => Ok(Some(Self(zone))),
        }
    }

    /// The first instant at which its clocks show this, or where they skip it the instant they do so; in UTC.
    fn first(&self, local: DateTime) -> Option<DateTime> {
        let instant = match self.0.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok()?,
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok()?,
            AmbiguousOffset::Gap { before, .. } => {
                let reached: Timestamp = before.to_timestamp(local).ok()?;
                let after = reached.checked_add(SignedDuration::from_nanos(1)).ok()?;
                self.0.preceding(after).next()?.timestamp()
            }
        };
        Some(TimeZone::UTC.to_datetime(instant))
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.iana_name().unwrap_or_default())
    }
}

impl TryFrom<String> for Zone {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::parse(&name).map_err(|flaw| flaw.to_string())?.ok_or_else(|| format!("time zone {name:?} is UTC"))
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> Self {
        zone.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::definition::PartKind;

    fn range(grain: Grain, zone: &str) -> Range {
        Range { grain, timezone: Zone::parse(zone).unwrap() }
    }

    fn read(kind: PartKind, text: &str) -> PartitionValue {
        PartitionValue::parse(kind, text).unwrap()
    }

    /// Beginning and end in UTC, or why there are none.
    fn told(grain: Grain, zone: &str, text: &str) -> String {
        let kind = if grain == Grain::Hour { PartKind::Timestamp } else { PartKind::Date };
        let range = range(grain, zone);
        match range.holding(read(kind, text)).and_then(|value| range.bounds(&value)) {
            Ok(Bounds { from, before }) => format!("{from} {before}"),
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn a_range_is_half_open_and_ends_where_the_next_begins() {
        for (grain, text, expected) in [
            (Grain::Hour, "2026-11-01 23:30", "2026-11-01T23:00:00 2026-11-02T00:00:00"),
            (Grain::Day, "2028-02-28", "2028-02-28T00:00:00 2028-02-29T00:00:00"),
            (Grain::Month, "2028-02-29", "2028-02-01T00:00:00 2028-03-01T00:00:00"),
            (Grain::Year, "2026-11-01", "2026-01-01T00:00:00 2027-01-01T00:00:00"),
        ] {
            assert_eq!(told(grain, "UTC", text), expected);
        }
        assert_eq!(told(Grain::Day, "UTC", "9999-12-31"), BadValue::Date.to_string());
    }

    #[test]
    fn c059_a_local_day_has_the_hours_that_the_clocks_give_it() {
        for (text, expected) in [
            ("2026-11-01", "2026-10-31T23:00:00 2026-11-01T23:00:00"),
            ("2026-03-29", "2026-03-28T23:00:00 2026-03-29T22:00:00"),
            ("2026-10-25", "2026-10-24T22:00:00 2026-10-25T23:00:00"),
        ] {
            assert_eq!(told(Grain::Day, "Europe/Berlin", text), expected);
        }
        assert_eq!(told(Grain::Month, "europe/berlin", "2026-03-29"), "2026-02-28T23:00:00 2026-03-31T22:00:00");
        assert_eq!(told(Grain::Year, "America/New_York", "2026-01-01"), "2026-01-01T05:00:00 2027-01-01T05:00:00");
    }

    #[test]
    fn an_hour_that_occurs_twice_is_two_hours_and_one_that_is_skipped_is_none() {
        for (zone, text, expected) in [
            ("Europe/Berlin", "2026-10-25 01:00", "2026-10-24T23:00:00 2026-10-25T00:00:00"),
            ("Europe/Berlin", "2026-10-25 02:00", "2026-10-25T00:00:00 2026-10-25T02:00:00"),
            ("Europe/Berlin", "2026-10-25 03:00", "2026-10-25T02:00:00 2026-10-25T03:00:00"),
            ("Europe/Berlin", "2026-03-29 01:00", "2026-03-29T00:00:00 2026-03-29T01:00:00"),
            ("Europe/Berlin", "2026-03-29 02:00", "never occurs: the clocks of its time zone skip it"),
            ("Europe/Berlin", "2026-03-29 03:00", "2026-03-29T01:00:00 2026-03-29T02:00:00"),
            // The clocks go by half an hour.
            ("Australia/Lord_Howe", "2026-10-04 02:00", "2026-10-03T15:30:00 2026-10-03T16:00:00"),
            ("Australia/Lord_Howe", "2026-04-05 01:00", "2026-04-04T14:00:00 2026-04-04T15:30:00"),
            // Midnight occurs twice.
            ("America/Havana", "2024-11-03 00:00", "2024-11-03T04:00:00 2024-11-03T06:00:00"),
        ] {
            assert_eq!(told(Grain::Hour, zone, text), expected, "{zone} {text}");
        }
        // Samoa went over the date line without this day.
        let skipped = BadValue::Skipped.to_string();
        assert_eq!(told(Grain::Day, "Pacific/Apia", "2011-12-30"), skipped);
        assert_eq!(told(Grain::Day, "Pacific/Apia", "2011-12-31"), "2011-12-30T10:00:00 2011-12-31T10:00:00");
    }

    #[test]
    fn zones_are_names_of_the_database() {
        assert_eq!(Zone::parse("europe/berlin").unwrap().unwrap().to_string(), "Europe/Berlin");
        assert_eq!(Zone::parse("UTC"), Ok(None));
        for unknown in ["CEST+1", "Europe/Berlin ", "", "Etc/Unknown", "../etc/passwd"] {
            assert!(Zone::parse(unknown).is_err(), "{unknown}");
        }
    }

    proptest! {
        /// Each instant is in exactly one hour and one day of its zone: ranges neither overlap nor leave anything out.
        #[test]
        fn each_instant_is_in_the_range_that_the_clocks_show(
            second in -2_000_000_000_i64..4_000_000_000,
            zone in prop::sample::select(vec![
                "Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "Asia/Kolkata",
            ]),
            grain in prop::sample::select(vec![Grain::Hour, Grain::Day, Grain::Month, Grain::Year]),
        ) {
            let instant = Timestamp::from_second(second).unwrap();
            let range = range(grain, zone);
            let local = range.timezone.as_ref().unwrap().0.to_datetime(instant);
            let value = if grain == Grain::Hour { PartitionValue::Timestamp(local) } else { PartitionValue::Date(local.date()) };
            let value = range.holding(value).unwrap();
            let Bounds { from, before } = range.bounds(&value).unwrap();
            let utc = TimeZone::UTC.to_datetime(instant);
            let shown = range.timezone.as_ref().unwrap();
            // Where clocks go back over a range's beginning, what they repeat of the range before is of this one too.
            let repeated = shown.first(local).unwrap() != utc;
            prop_assert!(repeated || (from <= utc && utc < before), "{utc} shows {local}: {from} to {before}");
        }
    }
}
