//! Questions over the ports that change nothing: what an operator's command and a report ask.
//!
//! Each reads a bounded number of items, and says where it stopped.

pub mod datasets;
pub mod gauges;
pub mod hands;
pub mod lateness;
pub mod partitions;
pub mod stories;

use crate::error::Error;

/// A stored item that can't be read.
fn unreadable(what: impl Into<String>, why: &impl ToString) -> Error {
    Error::Stored { what: what.into(), why: format!("{}; was it written by a newer release?", why.to_string()) }
}
