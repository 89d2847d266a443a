//! A target's fence table and the procedures that write it: claim, fence off, own.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::text::{literal, raised};

/// Who may swap into a target, under which epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Guard {
    stack: String,
    dataset: String,
    epoch: i64,
}

/// The fence table of a target.
#[derive(Debug, Clone, Default)]
pub(super) struct FenceTable {
    pub(super) guard: Option<Guard>,
    pub(super) fences: BTreeMap<String, i64>,
}

/// The arguments of `claim` and `fence_off`.
struct Arguments {
    partition: String,
    fence: i64,
    guard: Guard,
}

fn arguments(arguments: &[&str]) -> Option<Arguments> {
    let [partition, fence, stack, dataset, epoch] = arguments else { return None };
    let guard = Guard { stack: literal(stack)?, dataset: literal(dataset)?, epoch: epoch.parse().ok()? };
    Some(Arguments { partition: literal(partition)?, fence: fence.parse().ok()?, guard })
}

fn unreadable(given: &[&str]) -> String {
    format!("ERROR: the twin can't read the arguments {given:?}")
}

impl FenceTable {
    /// `claim`: raises unless the guard row is ours and the stored fence is older.
    pub(super) fn claim(&mut self, procedure: &str, given: &[&str]) -> Result<(), String> {
        let Arguments { partition, fence, guard } = arguments(given).ok_or_else(|| unreadable(given))?;
        self.check(procedure, &guard)?;
        if let Some(stored) = self.fences.get(&partition).filter(|stored| **stored >= fence) {
            return Err(raised(procedure, "TIDEMARK-SUPERSEDED", &[&partition, stored, &fence]));
        }
        self.fences.insert(partition, fence);
        Ok(())
    }

    /// `fence_off`: raises unless the guard row is ours; the stored fence is the greater one then.
    pub(super) fn fence_off(&mut self, procedure: &str, given: &[&str]) -> Result<(), String> {
        let Arguments { partition, fence, guard } = arguments(given).ok_or_else(|| unreadable(given))?;
        self.check(procedure, &guard)?;
        let stored = self.fences.entry(partition).or_insert(fence);
        *stored = fence.max(*stored);
        Ok(())
    }

    /// `own`: writes the guard row.
    pub(super) fn own(&mut self, procedure: &str, given: &[&str]) -> Result<(), String> {
        let read = || {
            let [stack, dataset, epoch, take_over] = given else { return None };
            let guard = Guard { stack: literal(stack)?, dataset: literal(dataset)?, epoch: epoch.parse().ok()? };
            Some((guard, take_over.parse().ok()?))
        };
        let (guard, take_over): (Guard, bool) = read().ok_or_else(|| unreadable(given))?;
        if let Some(stored) = &self.guard {
            if !stored.is_of(&guard) && !take_over {
                return Err(raised(procedure, "TIDEMARK-OWNER", &[&stored.dataset, &stored.stack]));
            }
            if stored.is_of(&guard) && stored.epoch > guard.epoch {
                return Err(raised(procedure, "TIDEMARK-EPOCH", &[&stored.epoch, &guard.epoch]));
            }
        }
        self.guard = Some(guard);
        Ok(())
    }

    fn check(&self, procedure: &str, guard: &Guard) -> Result<(), String> {
        let Some(stored) = &self.guard else {
            return Err(raised(procedure, "TIDEMARK-OWNER", &[&"<NULL>", &"<NULL>", &0]));
        };
        if !stored.is_of(guard) {
            return Err(raised(procedure, "TIDEMARK-OWNER", &[&stored.dataset, &stored.stack, &0]));
        }
        match stored.epoch.cmp(&guard.epoch) {
            Ordering::Equal => Ok(()),
            Ordering::Greater => Err(raised(procedure, "TIDEMARK-EPOCH", &[&stored.epoch, &guard.epoch])),
            Ordering::Less => Err(raised(procedure, "TIDEMARK-REWOUND", &[&stored.epoch, &guard.epoch])),
        }
    }
}

impl Guard {
    fn is_of(&self, other: &Self) -> bool {
        self.stack == other.stack && self.dataset == other.dataset
    }
}
