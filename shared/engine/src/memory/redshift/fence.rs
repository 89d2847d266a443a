//! A target's fence table and the procedures that write it: claim, fence off, own.

use std::collections::BTreeMap;

use super::text::literal;

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
    pub(super) fn claim(&mut self, given: &[&str]) -> Result<(), String> {
        let Arguments { partition, fence, guard } = arguments(given).ok_or_else(|| unreadable(given))?;
        self.check(&guard)?;
        match self.fences.get(&partition) {
            Some(stored) if *stored >= fence => Err(format!(
                "ERROR: TIDEMARK-SUPERSEDED partition {partition} is at fence {stored}, not older than {fence}"
            )),
            _ => {
                self.fences.insert(partition, fence);
                Ok(())
            }
        }
    }

    /// `fence_off`: raises unless the guard row is ours; the stored fence is the greater one then.
    pub(super) fn fence_off(&mut self, given: &[&str]) -> Result<(), String> {
        let Arguments { partition, fence, guard } = arguments(given).ok_or_else(|| unreadable(given))?;
        self.check(&guard)?;
        let stored = self.fences.entry(partition).or_insert(fence);
        *stored = fence.max(*stored);
        Ok(())
    }

    /// `own`: writes the guard row.
    pub(super) fn own(&mut self, given: &[&str]) -> Result<(), String> {
        let read = || {
            let [stack, dataset, epoch, take_over] = given else { return None };
            let guard = Guard { stack: literal(stack)?, dataset: literal(dataset)?, epoch: epoch.parse().ok()? };
            Some((guard, take_over.parse().ok()?))
        };
        let (guard, take_over): (Guard, bool) = read().ok_or_else(|| unreadable(given))?;
        if let Some(stored) = &self.guard {
            let ours = stored.stack == guard.stack && stored.dataset == guard.dataset;
            if !ours && !take_over {
                return Err(stored.not_ours());
            }
            if ours && stored.epoch > guard.epoch {
                return Err(stored.newer_than(&guard));
            }
        }
        self.guard = Some(guard);
        Ok(())
    }

    fn check(&self, guard: &Guard) -> Result<(), String> {
        let Some(stored) = &self.guard else {
            return Err("ERROR: TIDEMARK-OWNER the target belongs to dataset <NULL> of stack <NULL>".to_owned());
        };
        if stored.stack != guard.stack || stored.dataset != guard.dataset {
            return Err(stored.not_ours());
        }
        match stored.epoch.cmp(&guard.epoch) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => Err(stored.newer_than(guard)),
            std::cmp::Ordering::Less => Err(format!(
                "ERROR: TIDEMARK-REWOUND the target is at epoch {}, older than {}",
                stored.epoch, guard.epoch
            )),
        }
    }
}

impl Guard {
    fn not_ours(&self) -> String {
        let Self { stack, dataset, .. } = self;
        format!("ERROR: TIDEMARK-OWNER the target belongs to dataset {dataset} of stack {stack}")
    }

    fn newer_than(&self, other: &Self) -> String {
        format!("ERROR: TIDEMARK-EPOCH the target is at epoch {}, newer than {}", self.epoch, other.epoch)
    }
}
