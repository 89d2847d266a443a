//! Whether an object came late: written after the day of its partition was over.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::apply::in_lookback;
use crate::definition::Definition;
use crate::partition_value::{Partition, PartitionValue};

/// When an object came, against its partition's day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Not after the day.
    InTime,
    /// After the day, while lookback reached it.
    InWindow,
    /// After the day, when lookback didn't reach it any more.
    OutsideWindow,
}

/// When an object last `modified` then came. The day is that of the partition's first date or timestamp, in UTC; without one
/// nothing is late.
pub fn arrival(definition: &Definition, partition: &Partition, modified: Timestamp) -> Arrival {
    let day = partition.values.iter().find_map(|value| match value {
        PartitionValue::Date(day) => Some(*day),
        PartitionValue::Timestamp(moment) => Some(moment.date()),
        PartitionValue::Integer(_) | PartitionValue::Text(_) => None,
    });
    match day {
        Some(day) if TimeZone::UTC.to_datetime(modified).date() > day => {
            if in_lookback(definition, partition, modified) { Arrival::InWindow } else { Arrival::OutsideWindow }
        }
        _ => Arrival::InTime,
    }
}
