//! The typed values of a partition.

use jiff::civil::{Date, DateTime};

use crate::id::PartitionName;

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
