//! The rules of the protocol as the model asks for them: each is a shipped function, and a [`Flaw`] weakens what it gave.
//!
//! Without a flaw every function here is the shipped one, called as the engine calls it. A flaw edits a value that a shipped
//! function made (drops a condition of a write, forgets what a take decided); none exists in anything that is shipped.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use tidemark_domain::dataset::Head;
use tidemark_domain::id::{BatchId, Epoch, Fence, Generation};
use tidemark_domain::message::Replay;
use tidemark_domain::partition::{Batch, Committed, PartitionItem, Phase};
use tidemark_domain::step::{self, Next, Submit};
use tidemark_domain::take::{self, Decision, Permission, Take, View};
use tidemark_domain::update::{Change, Condition, Update};
use tidemark_domain::verify::{self, SourceCounts, StageCounts};
use tidemark_domain::writes::{self, Taken};

use crate::carrier::{MARKED, now};
use crate::world::{BAD, DEFINITION, Files, PARTITION, batch_id, born, small};

/// A rule made weaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flaw {
    /// The swap doesn't ask for the fence.
    SwapWithoutClaim,
    /// `claim` lets a fence pass that is stored already.
    ClaimTakesEqual,
    /// The look doesn't wait for a fence.
    LookWithoutFencing,
    /// The look asks for the batch that was replaced, not for the newest row.
    LookForTheBatchBefore,
    /// The look doesn't say what the target holds now.
    LookKeepsBefore,
    /// A take that begins anew forgets that a swap before may be out.
    UnresolvedForgottenAtTake,
    /// A park doesn't leave word that its swap may be out.
    UnresolvedNotSetByPark,
    /// A hold that ends a batch doesn't leave word of it either.
    UnresolvedNotSetByHold,
    /// A batch's writes don't ask for its fence.
    WritesUnfenced,
    /// Only the confirm doesn't.
    ConfirmUnfenced,
    /// A batch's writes ask for the fence, not for the batch as last written.
    WritesCompareFenceOnly,
    /// A take doesn't ask for the batch as read.
    TakeComparesFenceOnly,
    /// A take asks for the batch as read only.
    TakeComparesBatchOnly,
    /// `covers` is read after the list.
    CoversReadAfterList,
    /// The next try begins while the first may run.
    TryRaisedUnseen,
    /// An unfinished batch isn't continued.
    BeginInsteadOfContinue,
    /// An unchanged source is confirmed although the rebuild was forced.
    NoOpAlthoughForced,
    /// The source isn't listed again after COPY.
    NotListedAgain,
    /// What was parked counts for whatever was marked since.
    ParkAtMarked,
    /// A confirm takes the partition out of the index though it was marked since.
    ConfirmLeavesIndex,
    /// A park takes the partition out of the index though it was marked since.
    ParkLeavesIndex,
    /// Wake passes over what was parked.
    WakeSkipsParked,
    /// There is no wake.
    NoWake,
    /// A mark doesn't put the partition into the index.
    MarkWithoutIndex,
    /// A mark of a partition that is due already sends no message, and one that isn't neither.
    MarkSendsNothing,
    /// A swap that failed isn't looked up.
    FailedSwapNotLookedUp,
    /// A recorded swap whose definition changed is given up, and nothing is unresolved.
    GivenUpSwapForgotten,
    /// A worker decides by the definition that was in force at first.
    DefinitionCachedTooLong,
    /// A lock is given back whoever holds it.
    ReleaseAnybodysLock,
}

/// The shipped rules, perhaps with a flaw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    /// What is weakened.
    pub flaw: Option<Flaw>,
    /// A second weakness, for rules of which each covers the other.
    pub and: Option<Flaw>,
}

/// What remains of a write without what its worker holds of the item.
fn unfenced(update: Update) -> Update {
    without_batch(without(update, "fence"))
}

/// What remains of a write without the batch as its worker last wrote it.
fn without_batch(update: Update) -> Update {
    without(update, "batch")
}

fn without(mut update: Update, attribute: &str) -> Update {
    update.conditions.retain(|condition| !matches!(condition, Condition::Equals(name, _) if *name == attribute));
    update
}

fn without_marked(update: Update) -> Update {
    without(update, "marked")
}

/// The phase's request text: what it asks for, in place of its SQL.
fn token(batch: &Batch) -> String {
    batch.token(&[batch.phase.as_str().to_owned()])
}

impl Rules {
    /// Whether a rule is weakened so.
    pub fn has(self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw) || self.and == Some(flaw)
    }

    // ---- take

    /// What a worker that read `item` does, at a time.
    pub fn decide(self, item: &PartitionItem, head: &Head, at: Timestamp) -> Decision {
        let fresh = batch_id(small(item.fence.next().0));
        let shipped = decide(item, head, at, fresh);
        let Decision::Take(take) = shipped else { return shipped };
        Decision::Take(Box::new(self.weaken(*take, item, head, at, fresh)))
    }

    fn weaken(self, mut take: Take, item: &PartitionItem, head: &Head, at: Timestamp, fresh: BatchId) -> Take {
        if self.has(Flaw::BeginInsteadOfContinue) {
            let newer = Head { epoch: Epoch(head.epoch.0 + 1), ..head.clone() };
            if let Decision::Take(begun) = decide(item, &newer, at, fresh) {
                take = *begun;
                take.batch.epoch = if take.batch.id == fresh { head.epoch } else { take.batch.epoch };
            }
        }
        let begun = take.batch.id == fresh;
        let before = item.batch.as_ref().filter(|_| begun);
        let forgets = self.has(Flaw::UnresolvedForgottenAtTake) && before.is_some_and(|batch| !batch.swap_recorded())
            || self.has(Flaw::GivenUpSwapForgotten) && before.is_some_and(Batch::swap_recorded);
        if forgets && take.unresolved {
            take.unresolved = false;
            take.batch.phase = Phase::Listing;
        }
        if self.has(Flaw::LookForTheBatchBefore) && begun {
            // The shipped batch doesn't know which batch it replaces; the flawed one keeps that where nothing is decided by it.
            take.batch.statement_timeout_seconds = item.batch.as_ref().map_or(0, |batch| born(batch.id).into());
        }
        take
    }

    /// The write of a take.
    pub fn take(self, read: &PartitionItem, take: &Take) -> Update {
        let mut update = writes::take(&PARTITION, read, &take.batch, take.unresolved, now());
        let drops = |name: &str| {
            name == "batch" && self.has(Flaw::TakeComparesFenceOnly)
                || name == "fence" && self.has(Flaw::TakeComparesBatchOnly)
        };
        update.conditions.retain(|condition| match condition {
            Condition::Equals(name, _) | Condition::Absent(name) => !drops(name),
            _ => true,
        });
        update
    }

    // ---- what comes next

    /// What to do about the statement of the phase.
    pub fn submit(self, batch: &Batch) -> Submit {
        step::submit(batch, Permission::All, &token(batch), now())
    }

    /// After a listing.
    pub fn listed(self, taken: &PartitionItem, batch: &Batch, files: Files) -> Next {
        let last = taken.last.as_ref().map_or_else(Files::default, |last| Files::of(&last.digest));
        let missing = u64::from(last.a != 0 && files.a == 0) + u64::from(last.b != 0 && files.b == 0);
        let told = u64::try_from(batch.removed).unwrap_or(0);
        let listing = verify::Listing { objects: files.objects(), missing, told, ..verify::Listing::default() };
        let verdict = verify::listing(&DEFINITION, &BTreeSet::new(), &listing);
        let forced = batch.forced && !self.has(Flaw::NoOpAlthoughForced);
        let batch = Batch { forced, ..batch.clone() };
        step::listed(taken, &batch, files.listed(), &verdict, patience(), now())
    }

    /// After a COPY that ended well and a listing that showed the same objects: what was staged is verified.
    pub fn staged(self, taken: &PartitionItem, batch: &Batch, rows: Files) -> Next {
        let (objects, staged_rows) = (rows.objects(), rows.objects());
        let source = SourceCounts { objects, bytes: objects, rows: None };
        let counts = StageCounts {
            staged_rows,
            other_partition_rows: 0,
            duplicate_rows: u64::from(rows.b == BAD),
            target_rows: staged_rows,
            foreign_rows: 0,
            elsewhere_rows: 0,
            nulls: vec![],
        };
        let verdict = verify::staged(&DEFINITION, &BTreeSet::new(), &source, &counts, None);
        let verified = tidemark_domain::sql::rebuild::Verified {
            staged_rows,
            rejected_rows: 0,
            duplicate_rows: counts.duplicate_rows,
            staged_at: MARKED,
            ..Default::default()
        };
        step::staged(taken, batch, &verdict, verified, patience(), now())
    }

    /// After fence and look.
    pub fn fenced(self, taken: &PartitionItem, batch: &Batch, stored: Fence, newest: Committed) -> step::Fenced {
        let replaced = batch.statement_timeout_seconds;
        let seen = !self.has(Flaw::LookForTheBatchBefore) || u64::from(born(newest.batch)) == replaced;
        let fenced = step::fenced(taken, batch, stored, Some(newest).filter(|_| seen));
        match fenced {
            step::Fenced::Looked { batch: looked, landed } if self.has(Flaw::LookKeepsBefore) => {
                step::Fenced::Looked { batch: Batch { before: batch.before.clone(), ..looked }, landed }
            }
            fenced => fenced,
        }
    }

    /// After a swap was looked up.
    pub fn swapped(self, batch: &Batch, own: Option<Committed>, stored: Fence) -> step::Swapped {
        if self.has(Flaw::FailedSwapNotLookedUp) {
            return step::swapped(batch, None, Fence(0), false);
        }
        step::swapped(batch, own, stored, false)
    }

    // ---- writes

    /// RECORD, and RECORD of what the look found.
    pub fn record(self, held: &Taken, batch: &Batch) -> Update {
        self.fenced_write(writes::record(&PARTITION, held, batch))
    }

    /// RECORD of what the look found.
    pub fn record_look(self, held: &Taken, batch: &Batch, newest: Option<&Committed>) -> Update {
        self.fenced_write(writes::record_look(&PARTITION, held, batch, newest))
    }

    /// CONFIRM A.
    pub fn confirm_rest(self, held: &Taken, batch: &Batch, last: Option<&Committed>) -> Update {
        let update = writes::confirm_rest(&PARTITION, held, batch, last);
        let update = if self.has(Flaw::ConfirmLeavesIndex) { without_marked(update) } else { update };
        let update = if self.has(Flaw::ConfirmUnfenced) { unfenced(update) } else { update };
        self.fenced_write(update)
    }

    /// CONFIRM B.
    pub fn confirm_again(self, held: &Taken, batch: &Batch, last: Option<&Committed>, found: PartitionItem) -> Update {
        let settle = SignedDuration::from_secs(30);
        let update = step::confirm_again(&PARTITION, held, batch, last, found, &DEFINITION, settle, now());
        let update = if self.has(Flaw::ConfirmUnfenced) { unfenced(update) } else { update };
        self.fenced_write(update)
    }

    /// HOLD.
    pub fn hold(
        self,
        held: &Taken,
        taken: &PartitionItem,
        kind: &str,
        until: Timestamp,
        keep: writes::Keep<'_>,
    ) -> Update {
        let mut update = step::hold(&PARTITION, held, taken, kind, until, keep, &BTreeSet::new());
        if self.has(Flaw::UnresolvedNotSetByHold) {
            forget_unresolved(&mut update);
        }
        self.fenced_write(update)
    }

    /// PARK A; `marked` is what the item says now.
    pub fn park(self, held: &Taken, batch: &Batch, kind: &str, marked: Generation) -> Update {
        let mut parked = step::parked(batch, kind, "");
        let mut update = if self.has(Flaw::ParkAtMarked) {
            parked.generation = marked;
            without_marked(writes::park(&PARTITION, held, batch, &parked, &BTreeSet::new(), now()))
        } else {
            writes::park(&PARTITION, held, batch, &parked, &BTreeSet::new(), now())
        };
        if self.has(Flaw::ParkLeavesIndex) {
            update = without_marked(update);
        }
        if self.has(Flaw::UnresolvedNotSetByPark) {
            forget_unresolved(&mut update);
        }
        self.fenced_write(update)
    }

    /// PARK B, and until when it holds.
    pub fn park_again(self, held: &Taken, taken: &PartitionItem, batch: &Batch, kind: &str) -> (Update, Timestamp) {
        let (mut update, until) = step::park_again(&PARTITION, held, taken, batch, kind, &BTreeSet::new(), now());
        if self.has(Flaw::UnresolvedNotSetByPark) {
            forget_unresolved(&mut update);
        }
        (self.fenced_write(update), until)
    }

    /// RESTORED.
    pub fn restored(self, held: &Taken, marked: Generation, ledger: Generation, stored: Fence) -> Update {
        self.fenced_write(writes::restored(&PARTITION, held, marked, ledger, stored, now()))
    }

    /// MARK.
    pub fn mark(self, removed: bool) -> Update {
        let mut update = writes::mark(&PARTITION, u64::from(removed), MARKED);
        if self.has(Flaw::MarkWithoutIndex) {
            let index = ["work", "due_at", "dirty_since"];
            update.changes.retain(|change| !matches!(change, Change::SetIfAbsent(name, _) if index.contains(name)));
        }
        update
    }

    /// REPLAY.
    pub fn replay(self, marked: Generation) -> Update {
        writes::replay(&PARTITION, Some(marked), &Replay { force: true, ..Replay::default() }, MARKED)
    }

    fn fenced_write(self, update: Update) -> Update {
        match () {
            () if self.has(Flaw::WritesUnfenced) => unfenced(update),
            () if self.has(Flaw::WritesCompareFenceOnly) => without_batch(update),
            () => update,
        }
    }
}

fn forget_unresolved(update: &mut Update) {
    update.changes.retain(|change| !matches!(change, Change::Set("unresolved", _)));
}

fn decide(item: &PartitionItem, head: &Head, at: Timestamp, fresh: BatchId) -> Decision {
    let settle = SignedDuration::from_secs(30);
    take::decide(&View { item, head, definition: Some(&DEFINITION), settle, now: at }, fresh)
}

fn patience() -> SignedDuration {
    SignedDuration::try_from(DEFINITION.tolerance.patience).unwrap_or(SignedDuration::ZERO)
}
