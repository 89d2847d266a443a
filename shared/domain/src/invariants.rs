//! What must hold, as predicates: the invariants by the ids they have in the design, in code and in tests.
//!
//! Pure, over stored items, ledger rows and what was seen; the model, the simulator and assertions use the same ones. Each
//! gives the [`Broken`] invariant, so that whoever finds it can say which.
//!
//! Not here: I10 (a swap touches only its own partition's rows) is a property of SQL and held by tests on a real server; I12
//! (rest can be reached from every state) is a property of all states together, which the model holds.

use std::fmt;

use crate::id::{BatchId, Fence, Generation};
use crate::partition::{Committed, PartitionItem};

/// An invariant that doesn't hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Broken {
    /// A swap committed after one of a newer fence of its partition.
    I1,
    /// Two swaps committed for a partition and fence.
    I2,
    /// At rest, the target doesn't hold what was listed last, or the partition isn't built up to its mark.
    I3,
    /// With no swap recorded and nothing unresolved, `last` isn't the newest ledger row.
    I4,
    /// A committed batch isn't in the ledger exactly once.
    I5,
    /// A partition with anything to do isn't in the index *due*.
    I6,
    /// A batch listed before the mark it covers.
    I7,
    /// A new mark doesn't wake a parked partition.
    I8,
    /// A statement of unknown outcome was sent under a new token while the old one was valid.
    I9,
    /// A COPY was made twice though it didn't fail, its batch wasn't given up and its token hadn't expired.
    I11,
    /// A generation that was to be rebuilt for real was not.
    Forced,
}

impl Broken {
    /// Its id, as in the design.
    pub fn id(self) -> &'static str {
        match self {
            Self::I1 => "I1",
            Self::I2 => "I2",
            Self::I3 => "I3",
            Self::I4 => "I4",
            Self::I5 => "I5",
            Self::I6 => "I6",
            Self::I7 => "I7",
            Self::I8 => "I8",
            Self::I9 => "I9",
            Self::I11 => "I11",
            Self::Forced => "forced",
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// `Ok`, or which invariant is broken.
pub type Holds = Result<(), Broken>;

fn holds(holds: bool, or: Broken) -> Holds {
    if holds { Ok(()) } else { Err(or) }
}

/// I1 and I2, as a swap commits: its fence is newer than that of every row the partition has in the ledger.
pub fn commits_in_order(ledger: impl IntoIterator<Item = Fence>, fence: Fence) -> Holds {
    let newest = ledger.into_iter().max();
    holds(newest != Some(fence), Broken::I2)?;
    holds(newest < Some(fence), Broken::I1)
}

/// I3, of a partition at rest that is neither parked nor held back by its dataset: it is built up to its newest mark, and the
/// target holds what is in the source (`target_is_source`).
pub fn rests_built(item: &PartitionItem, target_is_source: bool) -> Holds {
    holds(target_is_source && item.built == item.marked && item.batch.is_none() && !item.unresolved, Broken::I3)
}

/// I4: with no swap recorded and nothing unresolved, `last` is the partition's newest ledger row.
pub fn last_is_newest(item: &PartitionItem, newest: Option<BatchId>) -> Holds {
    let last = item.last.as_ref().map(|last| last.batch);
    holds(item.swap_may_be_out() || last == newest, Broken::I4)
}

/// I5: what the item says was committed is in the ledger exactly once, with the same generation, fence and digest.
pub fn committed_once<'a>(last: &Committed, ledger: impl IntoIterator<Item = &'a Committed>) -> Holds {
    let same = |row: &&Committed| row.batch == last.batch;
    let mut rows = ledger.into_iter().filter(same);
    let row = rows.next();
    let as_told =
        |row: &Committed| row.generation == last.generation && row.fence == last.fence && row.digest == last.digest;
    holds(row.is_some_and(as_told) && rows.next().is_none(), Broken::I5)
}

/// I5 too: the files that the newest ledger row tells of are those the target's rows are from.
pub fn row_tells_its_files<T: PartialEq>(told: &T, loaded: &T) -> Holds {
    holds(told == loaded, Broken::I5)
}

/// What holds of an item by itself, whatever its dataset does and whoever reads or wrote it: I6, I7 and I8 as far as the item
/// tells. Whether it has to be due hangs on its dataset: a retired one lets it go.
pub fn item_alone(item: &PartitionItem) -> Holds {
    in_due_wholly(item)?;
    item.batch.as_ref().map_or(Ok(()), |batch| lists_after_mark(batch.covers, item.marked))?;
    not_listed_as_parked(item)
}

/// I6, of a partition whose dataset is active and yields it: if there is anything to do it is in *due*, unless it is parked at
/// its newest mark; and the attributes of the index live and die together.
pub fn due_if_work(item: &PartitionItem) -> Holds {
    in_due_wholly(item)?;
    holds(item.due_at.is_some() || item.at_rest() || item.rests_parked(), Broken::I6)
}

/// I6 too: the attributes of the index live and die together.
fn in_due_wholly(item: &PartitionItem) -> Holds {
    let due = [item.work.is_some(), item.due_at.is_some(), item.dirty_since.is_some()];
    holds(due.iter().all(|there| *there == due[0]), Broken::I6)
}

/// I7, as a batch lists: the mark it covers had been made.
pub fn lists_after_mark(covers: Generation, marked: Generation) -> Holds {
    holds(covers <= marked, Broken::I7)
}

/// I8, of a partition whose dataset is active and yields it: if it was marked since it was parked it is due, and isn't in the
/// index *parked*.
pub fn mark_wakes(item: &PartitionItem) -> Holds {
    not_listed_as_parked(item)?;
    holds(!marked_since_parked(item) || item.due_at.is_some(), Broken::I8)
}

/// I8 too: what was marked since it was parked isn't in the index *parked*.
fn not_listed_as_parked(item: &PartitionItem) -> Holds {
    let listed_as_parked = item.parked_work.is_some() || item.parked_since.is_some();
    holds(!marked_since_parked(item) || !listed_as_parked, Broken::I8)
}

fn marked_since_parked(item: &PartitionItem) -> bool {
    item.parked.as_ref().is_some_and(|parked| parked.generation < item.marked)
}

/// I9, as a statement goes out under a token that wasn't used before: none of its batch and phase is out under a token that is
/// still valid, its outcome unknown.
pub fn token_is_due(unknown_under_valid_token: bool) -> Holds {
    holds(!unknown_under_valid_token, Broken::I9)
}

/// I11: how many COPYs the holders of the partition made since there last was a reason for one (a batch begun, a failure seen,
/// a token expired).
pub fn copied_once(copies: u32) -> Holds {
    holds(copies <= 1, Broken::I11)
}

/// A generation that an operator wanted rebuilt for real is built only by a swap.
pub fn forced_is_real(item: &PartitionItem, forced: Generation, newest: Generation) -> Holds {
    holds(item.built < forced || newest >= forced, Broken::Forced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_commits_after_older_fences_only() {
        let ledger = || [Fence(3), Fence(5)];
        assert_eq!(commits_in_order(ledger(), Fence(6)), Ok(()));
        assert_eq!(commits_in_order(ledger(), Fence(5)), Err(Broken::I2));
        assert_eq!(commits_in_order(ledger(), Fence(4)), Err(Broken::I1));
        assert_eq!(commits_in_order([], Fence(1)), Ok(()));
    }

    #[test]
    fn a_batch_lists_after_its_mark_and_copies_once() {
        assert_eq!(lists_after_mark(Generation(2), Generation(2)), Ok(()));
        assert_eq!(lists_after_mark(Generation(3), Generation(2)), Err(Broken::I7));
        assert_eq!(copied_once(1), Ok(()));
        assert_eq!(copied_once(2), Err(Broken::I11));
        assert_eq!(token_is_due(true), Err(Broken::I9));
    }
}
