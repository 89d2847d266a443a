//! What happens to a partition after something went wrong: the table of failures, as one function.
//!
//! A guard with patience holds, then parks; contention and outages hold and never park; what an engineer must mend parks;
//! what an operator must mend halts the dataset.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use crate::failure::FailureKind;
use crate::partition::{Accept, Batch, Holds, Listed, PartitionItem};
use crate::verify::{GuardKind, Verdict};

/// The longest back-off of a hold.
const LONGEST_HOLD: SignedDuration = SignedDuration::from_mins(15);
/// Holds in a row for an outage, for contention or for an epoch that is over, before people are told.
const ALARM_AFTER_HOLDS: u32 = 5;
/// What is to be done where the guard row stays ahead of the head.
const APPLY_AGAIN: &str = "An apply goes on, or one died, or the state table was restored: `tidemark apply` it again.";
/// The longest message kept in a parked item, in bytes.
const MESSAGE_AT_MOST: usize = 1400;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// HOLD until then. `keep`: the batch is continued, with a new try where a terminal failure was seen.
    Hold {
        /// The kind, for the count of holds in a row.
        kind: String,
        /// Until when.
        until: Timestamp,
        /// Whether the batch is kept.
        keep: bool,
        /// Whether people are told.
        alert: bool,
        /// What they read.
        message: String,
    },
    /// PARK until a new mark.
    Park {
        /// The kind.
        kind: String,
        /// What an engineer reads.
        message: String,
    },
    /// Halt the dataset; the batch is kept.
    Halt(String),
    /// Somebody newer has the partition, or the table was restored: the fences tell which.
    Superseded,
}

/// After a failure in Redshift or of one of the services.
///
/// `jitter` is a random part below one, in thousandths, so that those who failed together don't come back together.
pub fn failure(item: &PartitionItem, kind: FailureKind, message: &str, now: Timestamp, jitter: u32) -> Settlement {
    let held = holds_in_a_row(item, kind.name());
    let message = match kind {
        FailureKind::EpochOver => told(&format!("{message}\n{APPLY_AGAIN}")),
        _ => told(message),
    };
    let hold = |until: Timestamp, keep: bool, alert: bool| Settlement::Hold {
        kind: kind.name().to_owned(),
        until,
        keep,
        alert,
        message: message.clone(),
    };
    match kind {
        FailureKind::Contended => {
            let pause = spread(SignedDuration::from_secs(2).saturating_mul(1 << held.min(4)), jitter);
            hold(now + pause, true, held >= ALARM_AFTER_HOLDS)
        }
        FailureKind::Unavailable => {
            let pause = spread(SignedDuration::from_secs(5).saturating_mul(1 << held.min(8)), jitter);
            hold(now + pause.min(LONGEST_HOLD), true, held >= ALARM_AFTER_HOLDS)
        }
        FailureKind::SourceChanged | FailureKind::EpochOver => {
            // Shortly; ever longer where it goes on so, since each time costs Redshift a statement.
            let pause = SignedDuration::from_secs(5).saturating_mul(1 << held.min(5));
            hold(now + spread(pause, jitter), false, kind == FailureKind::EpochOver && held >= ALARM_AFTER_HOLDS)
        }
        FailureKind::TooSlow if held == 0 => hold(now + spread(SignedDuration::from_secs(30), jitter), false, true),
        FailureKind::TooSlow
        | FailureKind::RejectedData
        | FailureKind::ForeignRows
        | FailureKind::Stuck
        | FailureKind::Bug => Settlement::Park { kind: kind.name().to_owned(), message },
        FailureKind::Misconfigured => Settlement::Halt(message),
        FailureKind::Superseded => Settlement::Superseded,
    }
}

/// After a verdict that isn't good: hold while patience lasts and waiting may help, else park.
///
/// A forced rebuild has no patience: the operator gets the verdict at once. Listing guards look again after 1, 2, 4…
/// minutes; `row_drop`, which costs a staging, looks again once, at the end.
pub fn verdict(
    item: &PartitionItem,
    batch: &Batch,
    verdict: &Verdict,
    patience: SignedDuration,
    now: Timestamp,
) -> Settlement {
    let kind = verdict.kind().map_or("verify", GuardKind::name);
    let over = item.marked_at + patience;
    if batch.forced || !verdict.may_heal() || now >= over {
        return Settlement::Park { kind: kind.to_owned(), message: verdict.message_within(MESSAGE_AT_MOST) };
    }
    let listing_only = verdict.problems.iter().all(|p| p.kind != GuardKind::RowDrop);
    let next = now + SignedDuration::from_mins(1).saturating_mul(1 << holds_in_a_row(item, kind).min(8));
    let until = if listing_only { next.min(over) } else { over };
    let message = verdict.message_within(MESSAGE_AT_MOST);
    Settlement::Hold { kind: kind.to_owned(), until, keep: false, alert: false, message }
}

/// The guards that `accept` lifts for what was listed: all it names, if the digest is the one the operator saw.
pub fn accepted(accept: Option<&Accept>, listed: Option<&Listed>) -> BTreeSet<GuardKind> {
    let Some(accept) = accept else { return BTreeSet::new() };
    let seen = accept.digest.is_none() || accept.digest.as_ref() == listed.map(|l| &l.digest);
    accept.kinds.iter().copied().filter(|kind| seen || !kind.accepted_with_digest()).collect()
}

/// What is told where something was accepted, but another listing was found than the operator saw: both digests. Nothing,
/// where what the digest goes with isn't broken anyway.
pub fn accepted_something_else(accept: Option<&Accept>, listed: &Listed, verdict: &Verdict) -> Option<String> {
    let seen = accept?.digest.as_ref().filter(|seen| **seen != listed.digest)?;
    let concerned = |kind: &GuardKind| kind.accepted_with_digest() && verdict.problems.iter().any(|p| p.kind == *kind);
    let kinds: Vec<&str> = accept?.kinds.iter().filter(|kind| concerned(kind)).map(|kind| kind.name()).collect();
    (!kinds.is_empty()).then(|| {
        format!(
            "{} was accepted for digest {seen}, but now {} is listed, so it is not let pass",
            kinds.join(", "),
            listed.digest
        )
    })
}

/// The count after one more hold of a kind.
pub fn one_more(item: &PartitionItem, kind: &str) -> Holds {
    Holds { kind: kind.to_owned(), count: holds_in_a_row(item, kind) + 1 }
}

fn holds_in_a_row(item: &PartitionItem, kind: &str) -> u32 {
    item.holds.as_ref().filter(|holds| holds.kind == kind).map_or(0, |holds| holds.count)
}

fn spread(pause: SignedDuration, thousandths: u32) -> SignedDuration {
    pause + pause.saturating_mul(i32::try_from(thousandths.min(999)).unwrap_or(0)) / 1000
}

fn told(message: &str) -> String {
    message[..message.floor_char_boundary(MESSAGE_AT_MOST)].to_owned()
}
