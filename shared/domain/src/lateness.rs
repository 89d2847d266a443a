//! How long after its partition was over an object came: arrival delays, their distribution, and what a window would catch.
//!
//! A partition is over at the end of its range; without one at the end of its first date's day, or of its first timestamp's
//! hour, in UTC. A whole number named `hour` beside that date (`dt=2026-11-01/hour=07`) makes it an hour of the day. Without
//! date or timestamp nothing is late.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::apply::in_lookback;
use crate::definition::{Definition, Grain, Range};
use crate::partition_value::{Partition, PartitionValue};

/// Delays are told apart to ten minutes: any window that is a multiple of it is counted exactly, since partitions end on one.
pub const STEP: SignedDuration = SignedDuration::from_mins(10);
/// How a whole number that is the hour of its partition's day is named.
const HOUR: &str = "hour";

/// The time that a partition stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The day it begins on, on its own clocks: where a calendar shows it.
    pub day: Date,
    /// The first moment after it.
    pub end: Timestamp,
}

/// The time that a partition stands for; `None` where it stands for none.
pub fn span(definition: &Definition, partition: &Partition) -> Option<Span> {
    let parts = || definition.parts.iter().zip(&partition.values);
    let (part, value, day) = parts().find_map(|(part, value)| match value {
        PartitionValue::Date(day) => Some((part, value, *day)),
        PartitionValue::Timestamp(moment) => Some((part, value, moment.date())),
        PartitionValue::Integer(_) | PartitionValue::Text(_) => None,
    })?;
    let hour = parts().find_map(|(part, value)| match value {
        PartitionValue::Integer(hour @ 0..=23) if part.name == HOUR => i8::try_from(*hour).ok(),
        _ => None,
    });
    let grain = part.range.as_ref().map(|range| range.grain);
    let (grain, value) = match (value, grain, hour) {
        (PartitionValue::Date(_), None | Some(Grain::Day), Some(hour)) => {
            (Grain::Hour, PartitionValue::Timestamp(day.at(hour, 0, 0, 0)))
        }
        (value, Some(grain), _) => (grain, value.clone()),
        (PartitionValue::Timestamp(_), None, _) => (Grain::Hour, value.clone()),
        (value, None, _) => (Grain::Day, value.clone()),
    };
    let timezone = part.range.as_ref().and_then(|range| range.timezone.clone());
    let before = Range { grain, timezone }.bounds(&value).ok()?.before;
    Some(Span { day, end: TimeZone::UTC.to_timestamp(before).ok()? })
}

/// When an object came, against its partition's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Before it.
    InTime,
    /// After it, while lookback reached the partition.
    InWindow,
    /// After it, when lookback didn't reach the partition any more.
    OutsideWindow,
}

/// When an object last `modified` then came.
pub fn arrival(definition: &Definition, partition: &Partition, modified: Timestamp) -> Arrival {
    match span(definition, partition) {
        Some(span) if modified >= span.end => {
            if in_lookback(definition, partition, modified) {
                Arrival::InWindow
            } else {
                Arrival::OutsideWindow
            }
        }
        _ => Arrival::InTime,
    }
}

/// A month of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month {
    year: i16,
    month: i8,
}

impl Month {
    /// The month of a day.
    pub fn of(day: Date) -> Self {
        Self { year: day.year(), month: day.month() }
    }

    /// Its first moment and the first after it, in UTC.
    pub fn bounds(self) -> (Timestamp, Timestamp) {
        let first = jiff::civil::date(self.year, self.month, 1);
        let next = first.last_of_month().tomorrow().unwrap_or(Date::MAX);
        let utc = |day: Date| TimeZone::UTC.to_timestamp(day.at(0, 0, 0, 0)).unwrap_or(Timestamp::MAX);
        (utc(first), utc(next))
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

/// Not a month.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no month; write it as 2026-11")]
pub struct NotAMonth(String);

impl FromStr for Month {
    type Err = NotAMonth;

    fn from_str(text: &str) -> Result<Self, NotAMonth> {
        let day = format!("{text}-01").parse::<Date>();
        day.ok().map(Self::of).filter(|month| month.to_string() == text).ok_or_else(|| NotAMonth(text.to_owned()))
    }
}

/// How many objects came how late: a count per [`STEP`] after the partition's end. Steps before it are negative.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delays(BTreeMap<i64, u64>);

impl Delays {
    /// Counts `objects` that came at `came`, of a partition that ended at `end`.
    pub fn add(&mut self, came: Timestamp, end: Timestamp, objects: u64) {
        let step = came.duration_since(end).as_secs().div_euclid(STEP.as_secs());
        *self.0.entry(step).or_default() += objects;
    }

    /// Counts what another one counted.
    pub fn merge(&mut self, other: &Self) {
        for (step, objects) in &other.0 {
            *self.0.entry(*step).or_default() += objects;
        }
    }

    /// All of them.
    pub fn objects(&self) -> u64 {
        self.0.values().sum()
    }

    /// Those that came before their partition's end.
    pub fn in_time(&self) -> u64 {
        self.before(SignedDuration::ZERO)
    }

    /// Those that came before so long after their partition's end: what a window of that length would catch.
    pub fn before(&self, window: SignedDuration) -> u64 {
        // A window that ends within a step doesn't reach the whole of it.
        self.0.range(..window.as_secs().div_euclid(STEP.as_secs())).map(|(_, objects)| objects).sum()
    }

    /// Those that came from so long after the end on, and before so long after it.
    pub fn between(&self, from: SignedDuration, before: SignedDuration) -> u64 {
        self.before(before) - self.before(from)
    }

    /// The share that a window of that length would catch, 0 to 1; 1 where there are none.
    pub fn caught(&self, window: SignedDuration) -> f64 {
        share(self.before(window), self.objects())
    }

    /// The smallest window that misses at most this share, to the next full step; `None` where there are no objects.
    pub fn smallest_window(&self, miss: f64) -> Option<SignedDuration> {
        let objects = self.objects();
        let mut caught = 0;
        for (step, count) in &self.0 {
            caught += count;
            if share(objects - caught, objects) <= miss {
                return Some(STEP.saturating_mul(i32::try_from((step + 1).max(0)).unwrap_or(i32::MAX)));
            }
        }
        None
    }

    /// By when the latest of them had come, to the next full step; negative where all came before the end.
    pub fn latest(&self) -> Option<SignedDuration> {
        let (step, _) = self.0.last_key_value()?;
        Some(STEP.saturating_mul(i32::try_from(step + 1).unwrap_or(i32::MAX)))
    }
}

/// A part of a whole, 0 to 1; 1 of nothing.
#[expect(clippy::cast_precision_loss, reason = "shares are told to a few digits")]
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

/// The arrival delays of a dataset's objects, each counted once, by the month of its partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// By month.
    pub months: BTreeMap<Month, Delays>,
    /// Objects of partitions that stand for no time, or that the definition in force doesn't yield.
    pub timeless: u64,
    /// Inventories that can't be read, each with the reason: files that only these tell of aren't counted.
    pub unread: Vec<String>,
}

impl Arrivals {
    /// Counts `objects` that came at `came`, of a partition, by its stored name.
    pub fn add(&mut self, span: Option<Span>, came: Timestamp, objects: u64) {
        match span {
            Some(span) => self.months.entry(Month::of(span.day)).or_default().add(came, span.end, objects),
            None => self.timeless += objects,
        }
    }

    /// All months together.
    pub fn all(&self) -> Delays {
        let mut all = Delays::default();
        for month in self.months.values() {
            all.merge(month);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::definition::parse;
    use crate::id::PartitionName;

    fn definition(layout: &str, parts: &str) -> Definition {
        let toml = format!(
            "[orders]\nsource = \"s3://lake/orders/\"\nlayout = \"{layout}\"\nformat = \"csv\"\ntarget = \"sales.orders\"\n\
             columns = [\"id bigint\", \"at timestamp\"]\n{parts}"
        );
        parse(&toml).unwrap().remove(0)
    }

    fn end(definition: &Definition, name: &str) -> Option<String> {
        let partition = definition.partition(&PartitionName::new(name).unwrap()).unwrap();
        span(definition, &partition).map(|span| format!("{} {}", span.day, span.end))
    }

    #[test]
    fn a_partition_is_over_where_its_values_say() {
        let day = definition("dt={dt}/", "[orders.partition.dt]\ntype = \"date\"");
        assert_eq!(end(&day, "dt=2026-11-01").unwrap(), "2026-11-01 2026-11-02T00:00:00Z");
        let hours = "[orders.partition.dt]\ntype = \"date\"\n[orders.partition.hour]\ntype = \"integer\"";
        let hourly = definition("dt={dt}/hour={hour}/", hours);
        assert_eq!(end(&hourly, "dt=2026-11-01/hour=23").unwrap(), "2026-11-01 2026-11-02T00:00:00Z");
        assert_eq!(end(&hourly, "dt=2026-11-01/hour=7").unwrap(), "2026-11-01 2026-11-01T08:00:00Z");
        assert_eq!(end(&hourly, "dt=2026-11-01/hour=24").unwrap(), "2026-11-01 2026-11-02T00:00:00Z", "no hour");
        let pieces = definition("{yyyy}/{mm}/{dd}/{hh}/", "[orders.partition.at_hour]\ntype = \"timestamp\"");
        assert_eq!(end(&pieces, "at_hour=2026-11-01T07:00:00").unwrap(), "2026-11-01 2026-11-01T08:00:00Z");
        let text = definition("region={region}/", "[orders.partition.region]\ntype = \"text\"");
        assert_eq!(end(&text, "region=eu"), None);
    }

    #[test]
    fn a_range_is_over_by_its_own_clocks() {
        let range = |grain: &str, zone: &str| {
            let part = format!(
                "[orders.partition.dt]\ntype = \"date\"\nrange_of = \"at\"\ngrain = \"{grain}\"\ntimezone = \"{zone}\""
            );
            definition("dt={dt}/", &part)
        };
        let told = |definition: &Definition| end(definition, "dt=2026-11-01").unwrap();
        assert_eq!(told(&range("day", "Europe/Berlin")), "2026-11-01 2026-11-01T23:00:00Z");
        assert_eq!(told(&range("day", "America/New_York")), "2026-11-01 2026-11-02T05:00:00Z");
        assert_eq!(told(&range("month", "Europe/Berlin")), "2026-11-01 2026-11-30T23:00:00Z");
        assert_eq!(told(&range("year", "UTC")), "2026-01-01 2027-01-01T00:00:00Z");
    }

    #[test]
    fn an_object_is_late_from_the_end_on_and_outside_once_lookback_is_over() {
        let hours =
            "lookback = \"3d\"\n[orders.partition.dt]\ntype = \"date\"\n[orders.partition.hour]\ntype = \"integer\"";
        let hourly = definition("dt={dt}/hour={hour}/", hours);
        let partition = hourly.partition(&PartitionName::new("dt=2026-11-01/hour=7").unwrap()).unwrap();
        for (modified, expected) in [
            ("2026-11-01T07:59:59Z", Arrival::InTime),
            ("2026-11-01T08:00:00Z", Arrival::InWindow),
            ("2026-11-04T23:59:59Z", Arrival::InWindow),
            ("2026-11-05T00:00:00Z", Arrival::OutsideWindow),
        ] {
            assert_eq!(arrival(&hourly, &partition, modified.parse().unwrap()), expected, "{modified}");
        }
    }

    fn delays(minutes: &[i64]) -> Delays {
        let mut delays = Delays::default();
        let end = Timestamp::UNIX_EPOCH;
        for late in minutes {
            delays.add(end + SignedDuration::from_mins(*late), end, 1);
        }
        delays
    }

    #[test]
    fn a_window_catches_what_came_before_its_end() {
        let delays = delays(&[-61, -1, 0, 59, 60, 25 * 60]);
        assert_eq!((delays.objects(), delays.in_time()), (6, 2));
        assert_eq!(delays.before(SignedDuration::from_hours(1)), 4);
        assert_eq!(delays.between(SignedDuration::from_hours(1), SignedDuration::from_hours(24)), 1);
        assert_eq!(delays.smallest_window(0.0), Some(SignedDuration::from_mins(25 * 60 + 10)));
        assert_eq!(delays.smallest_window(0.17), Some(SignedDuration::from_mins(70)));
        assert_eq!(delays.smallest_window(0.9), Some(SignedDuration::ZERO), "no window at all");
        assert_eq!(Delays::default().smallest_window(0.0), None);
        assert_eq!(delays.latest(), Some(SignedDuration::from_mins(25 * 60 + 10)));
    }

    #[test]
    fn months_are_read_strictly() {
        let month: Month = "2028-02".parse().unwrap();
        let (from, before) = month.bounds();
        assert_eq!(format!("{month} {from} {before}"), "2028-02 2028-02-01T00:00:00Z 2028-03-01T00:00:00Z");
        for text in ["", "2026-13", "2026-1", "26-01", "2026-11-01", "2026-11 "] {
            assert!(text.parse::<Month>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_smallest_window_is_enough_and_one_step_less_is_not(
            minutes in prop::collection::vec(-10_000_i64..100_000, 1..50), percent in 0_u8..100,
        ) {
            let (delays, miss) = (delays(&minutes), f64::from(percent) / 100.0);
            let window = delays.smallest_window(miss).unwrap();
            let missed = |window: SignedDuration| share(delays.objects() - delays.before(window), delays.objects());
            prop_assert!(missed(window) <= miss);
            prop_assert!(window.is_zero() || missed(window - STEP) > miss);
        }
    }
}
