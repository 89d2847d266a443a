//! How many partitions of a dataset may be on their way at once, and up to where all are built.

use jiff::Timestamp;

use crate::dataset::{Head, Mode};
use crate::definition::{Concurrency, Definition};
use crate::id::PartitionName;
use crate::partition_value::Partition;

/// How many messages of a dataset may be outstanding; `None`: it isn't woken at all.
///
/// A halted one gets one, for its probe, when that is due. A retired one is let go.
pub fn budget(head: &Head, now: Timestamp) -> Option<usize> {
    match (head.mode, head.concurrency) {
        (Mode::Active, Concurrency::Table) | (Mode::Retired, _) => Some(10),
        (Mode::Active, Concurrency::Partition) => Some(100),
        (Mode::Halted, _) if head.probe_at.is_none_or(|at| at <= now) => Some(1),
        (Mode::Halted | Mode::Paused, _) => None,
    }
}

/// How many of what is due are woken: within the budget, but always one, so that nothing waits for ever.
pub fn to_wake(budget: usize, outstanding: usize, due: usize) -> usize {
    budget.saturating_sub(outstanding).max(1).min(due)
}

/// How many more a job may mark: what is left of the budget of an active dataset. None at all while a live mark is due.
pub fn to_mark(head: &Head, budget: usize, outstanding: usize, due: usize) -> usize {
    if head.mode == Mode::Active { budget.saturating_sub(outstanding + due) } else { 0 }
}

/// The watermark: the first partition, by its values, of those that aren't built. Every known one before it is. `None`: all
/// known ones are built. Names that the layout doesn't yield say nothing.
pub fn watermark<'n>(definition: &Definition, unbuilt: impl Iterator<Item = &'n PartitionName>) -> Option<Partition> {
    unbuilt.filter_map(|name| definition.partition(name).ok()).min_by(|a, b| a.values.cmp(&b.values))
}
