//! What comes next in a batch, after what was seen: of its statement, of the ledger, of the source, of a refused write.
//!
//! The driver asks, does one effect, tells what came of it and asks again; a crash anywhere enters the same questions anew.
//! The order matters: a swap that didn't end FINISHED is looked up before its error counts, and a failed COPY is held against
//! the source before it is blamed on the data.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use crate::definition::Definition;
use crate::failure::FailureKind;
use crate::id::{Fence, Generation, PartitionId};
use crate::partition::{Batch, Before, Committed, Listed, Parked, PartitionItem, Phase, Statement};
use crate::settle::{self, Settlement};
use crate::sql::rebuild::Verified;
use crate::take::{self, Permission, outcome_can_be_known};
use crate::update::Update;
use crate::verify::Verdict;
use crate::writes::{self, Keep, Taken};

/// A hold that ends within this time isn't left to sweep: a message is sent at once.
pub const SOON: SignedDuration = SignedDuration::from_mins(1);

/// What a phase says comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Go on with the batch, which enters its next phase: it is recorded together with its statement, before that is
    /// submitted, since nothing happens in between.
    Enter(Batch),
    /// RECORD what the look after fencing found, go on.
    Looked {
        /// The batch, listing next.
        batch: Batch,
        /// The newest ledger row, where it isn't known already.
        newest: Option<Box<Committed>>,
    },
    /// Committed (or, without `last`, found unchanged): CONFIRM.
    Confirm {
        /// What was committed.
        last: Option<Box<Committed>>,
    },
    /// Something went wrong.
    Settle {
        /// What is to be done.
        settlement: Settlement,
        /// The batch as it goes on where it is kept.
        keep: Batch,
    },
    /// Time is up; the statement with this id runs on.
    HandOff {
        /// Its id, where there is one.
        statement: Option<String>,
    },
    /// Nothing new may be submitted.
    Denied,
    /// Redshift is ahead of the item: RESTORED.
    Restored {
        /// The newest generation in the ledger.
        ledger: Generation,
        /// The fence that is stored there.
        stored: Fence,
    },
    /// Somebody else has the partition.
    Overtaken,
}

/// What is to be done about the statement of the phase.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one short-lived value a step")]
pub enum Submit {
    /// RECORD it, then submit it.
    Record(Batch),
    /// It was submitted, perhaps: the same request again under the same token finds the execution it made.
    Again,
    /// Its id is known: ask for it.
    Describe(String),
    /// The same request can't be sent again: the batch is given up.
    Lost,
    /// It may not be submitted.
    Denied,
}

/// What to do about the statement of the batch's phase, whose request has this token.
pub fn submit(batch: &Batch, permission: Permission, token: &str, now: Timestamp) -> Submit {
    match &batch.statement {
        None if permission.allows(batch.phase) => Submit::Record(batch.recorded(token.to_owned(), now)),
        None => Submit::Denied,
        Some(Statement { id: Some(id), .. }) => Submit::Describe(id.clone()),
        // The settings that enter its text have changed, or its token may be over.
        Some(statement) if statement.token != token || !outcome_can_be_known(batch, now) => Submit::Lost,
        Some(_) => Submit::Again,
    }
}

/// What the look after fencing says.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one short-lived value a step")]
pub enum Fenced {
    /// Redshift knows more than the item: see [`ahead`].
    Ahead(Generation, Fence),
    /// The batch goes on to listing; `landed` is a swap that nobody recorded.
    Looked {
        /// The batch, listing next, with what the target holds now.
        batch: Batch,
        /// The newest ledger row, where it isn't `last` already.
        landed: Option<Committed>,
    },
}

/// After the fence has FINISHED and the look was had: which swap landed, and what the target holds.
///
/// `item` is as it was taken.
pub fn fenced(item: &PartitionItem, batch: &Batch, stored: Fence, newest: Option<Committed>) -> Fenced {
    let ledger = newest.as_ref().map(|row| row.generation).unwrap_or_default();
    if stored >= batch.fence || ledger > item.marked {
        return Fenced::Ahead(ledger, stored);
    }
    let known = item.last.as_ref().map(|last| last.batch);
    let landed = newest.filter(|newest| Some(newest.batch) != known);
    let before = landed.as_ref().or(item.last.as_ref());
    let before = before.map(|last| Before { batch: last.batch, rows: last.rows });
    Fenced::Looked { batch: Batch { before, ..batch.enter(Phase::Listing) }, landed }
}

/// Redshift has a fence or a generation that the item, as taken under `fence`, doesn't know: if the item is still ours, it was
/// restored from a backup.
pub fn ahead(fence: Fence, found: Option<&PartitionItem>, ledger: Generation, stored: Fence) -> Next {
    let ours = found.is_some_and(|item| item.fence == fence);
    if ours { Next::Restored { ledger, stored } } else { Next::Overtaken }
}

/// After a swap was refused for rows that no batch of ours wrote, as far as the item knows: whether the ledger knows one. Then
/// the item was restored from a backup, and so many takes came to nothing since that the claim didn't tell.
pub fn wrote_unknown_to_item(batch: &Batch, newest: Option<&Committed>) -> bool {
    let before = batch.before.as_ref().map(|before| before.batch);
    newest.is_some_and(|newest| Some(newest.batch) != before)
}

/// After listing: nothing to do where that is what was committed last, else the guards' verdict, else staging.
pub fn listed(
    item: &PartitionItem,
    batch: &Batch,
    listed: Listed,
    verdict: &Verdict,
    patience: SignedDuration,
    now: Timestamp,
) -> Next {
    let unchanged = item.last.as_ref().is_some_and(|last| last.digest == listed.digest);
    if unchanged && !batch.forced {
        return Next::Confirm { last: None };
    }
    if verdict.is_good() {
        return Next::Enter(Batch { listed: Some(listed), ..batch.enter(Phase::Staging) });
    }
    let settlement = settle::verdict(item, batch, verdict, patience, now);
    // What was listed is shown with the partition, so that an operator can accept just that.
    Next::Settle { settlement, keep: Batch { listed: Some(listed), ..batch.clone() } }
}

/// After staging, with the source as it was listed: swapping, if the verdict is good.
pub fn staged(
    item: &PartitionItem,
    batch: &Batch,
    verdict: &Verdict,
    verified: Verified,
    patience: SignedDuration,
    now: Timestamp,
) -> Next {
    if verdict.is_good() {
        return Next::Enter(Batch { verified: Some(verified), ..batch.enter(Phase::Swapping) });
    }
    Next::Settle { settlement: settle::verdict(item, batch, verdict, patience, now), keep: batch.clone() }
}

/// Whether a COPY that failed so may have failed because the source changed: list again before anything is said of the data.
pub fn may_be_the_source(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::RejectedData | FailureKind::SourceChanged | FailureKind::Bug)
}

/// What a failed COPY comes to once the source was listed again.
pub fn copy_failure(kind: FailureKind, source_changed: bool) -> FailureKind {
    match kind {
        kind if may_be_the_source(kind) && source_changed => FailureKind::SourceChanged,
        // Redshift missed an object that is there: it may not see it yet.
        FailureKind::SourceChanged => FailureKind::Unavailable,
        kind => kind,
    }
}

/// What the ledger says of a swap.
#[derive(Debug, Clone, PartialEq)]
pub enum Swapped {
    /// It landed.
    Committed(Committed),
    /// It didn't; a fence is stored that is not older than its own: see [`ahead`].
    Ahead(Fence),
    /// It didn't; its error decides.
    Failed,
    /// It is FINISHED, but its ledger row is not there.
    Missing,
}

/// After a swap that didn't end FINISHED, or whose result isn't kept any more, was looked up in the ledger.
pub fn swapped(batch: &Batch, own: Option<Committed>, stored: Fence, finished: bool) -> Swapped {
    match own {
        Some(own) => Swapped::Committed(own),
        None if stored >= batch.fence => Swapped::Ahead(stored),
        None if finished => Swapped::Missing,
        None => Swapped::Failed,
    }
}

/// After a failure of a port, or of something stored: settled by its kind; the batch goes on as it is.
pub fn failed(
    item: &PartitionItem,
    batch: &Batch,
    kind: FailureKind,
    message: &str,
    now: Timestamp,
    jitter: u32,
) -> Next {
    Next::Settle { settlement: settle::failure(item, kind, message, now, jitter), keep: batch.clone() }
}

/// After a terminal failure of the phase's statement was *seen*: the batch goes on, if at all, with its next try. One that gave way to
/// others has its whole load window again: what it waited for them is no work of its own.
pub fn statement_failed(
    item: &PartitionItem,
    batch: &Batch,
    kind: FailureKind,
    message: &str,
    now: Timestamp,
    jitter: u32,
) -> Next {
    let spent_seconds = if kind == FailureKind::Contended { 0 } else { batch.spent_seconds };
    let keep = Batch { spent_seconds, ..batch.next_try() };
    Next::Settle { settlement: settle::failure(item, kind, message, now, jitter), keep }
}

/// The batch as a hand-off records it: with the id of the statement that runs on.
#[must_use]
pub fn handed_off(batch: &Batch, id: Option<String>) -> Batch {
    let statement = batch.statement.clone().map(|recorded| Statement { id: id.or(recorded.id.clone()), ..recorded });
    Batch { statement, ..batch.left_in_order() }
}

/// CONFIRM B, after A found the item marked since: what comes next waits its interval, as any other mark.
#[expect(clippy::too_many_arguments, reason = "all that the write hangs on")]
pub fn confirm_again(
    id: &PartitionId,
    taken: &Taken,
    batch: &Batch,
    last: Option<&Committed>,
    found: PartitionItem,
    definition: &Definition,
    settle: SignedDuration,
    now: Timestamp,
) -> Update {
    let last_then = last.cloned().or(found.last.clone());
    let after = PartitionItem { batch: None, not_before: None, last: last_then, dirty_since: Some(now), ..found };
    let due_at = after.ready_at(now, take::interval(&after, definition), settle).max(now);
    writes::confirm_again(id, taken, batch, last, due_at, now)
}

/// HOLD, of `item` as it was taken, under a kind: the batch is kept, or ends.
pub fn hold(
    id: &PartitionId,
    taken: &Taken,
    item: &PartitionItem,
    kind: &str,
    until: Timestamp,
    keep: Keep<'_>,
    alerted: &BTreeSet<String>,
) -> Update {
    writes::hold(id, taken, &settle::one_more(item, kind), until, keep, alerted)
}

/// What a park leaves word of.
pub fn parked(batch: &Batch, kind: &str, message: &str) -> Parked {
    let digest = batch.listed.as_ref().map(|listed| listed.digest.clone());
    Parked { generation: batch.covers, digest, kind: kind.to_owned(), message: message.to_owned() }
}

/// PARK B, after A found the item marked since: what was tried may be mended already. A hold with back-off; until when it
/// holds is told with it.
pub fn park_again(
    id: &PartitionId,
    taken: &Taken,
    item: &PartitionItem,
    batch: &Batch,
    kind: &str,
    alerted: &BTreeSet<String>,
    now: Timestamp,
) -> (Update, Timestamp) {
    let count = settle::one_more(item, kind).count;
    let until = now + SignedDuration::from_secs(5).saturating_mul(1 << count.min(7));
    (hold(id, taken, item, kind, until, Keep::End(batch), alerted), until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_copy_is_held_against_the_source_before_it_is_blamed_on_the_data() {
        use FailureKind::{Bug, RejectedData, SourceChanged, TooSlow, Unavailable};
        for (kind, source_changed, comes_to) in [
            (RejectedData, true, SourceChanged),
            (RejectedData, false, RejectedData),
            (Bug, true, SourceChanged),
            (SourceChanged, true, SourceChanged),
            (SourceChanged, false, Unavailable), // Redshift doesn't see the object yet
            (TooSlow, true, TooSlow),
        ] {
            assert_eq!(copy_failure(kind, source_changed), comes_to, "{kind} {source_changed}");
        }
    }
}
