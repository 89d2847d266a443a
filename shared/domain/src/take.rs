//! What a worker does with a partition it is told to look at: leave it, put it off, or take it with which batch.
//!
//! The order of the rules matters: a retired partition is let go before anything else; one that needs nothing is told from
//! one that isn't ready; only then is it taken. An unfinished batch is continued, with its id, fence, inventory and tokens,
//! unless nothing can come of it any more.

use jiff::{SignedDuration, Timestamp};

use crate::dataset::{Head, Mode};
use crate::definition::{Definition, Interval};
use crate::id::BatchId;
use crate::partition::{Batch, Before, FailureState, PartitionItem, Phase};

/// Takes in a row that died without a write of their own before a partition is parked as stuck.
pub const TRIES: u32 = 10;
/// The outcome of a statement can be asked for 24 h; an hour is kept as a margin.
pub const OUTCOME_KNOWN_FOR: SignedDuration = SignedDuration::from_hours(23);
/// A client token lives 8 h; an hour is kept as a margin.
pub const TOKEN_VALID_FOR: SignedDuration = SignedDuration::from_hours(7);
/// A batch that is not over by then is given up: its manifest is kept for 45 days.
pub const BATCH_LIVES: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The longest interval between two rebuilds of a partition where the definition says `auto`.
const AUTO_INTERVAL_AT_MOST: SignedDuration = SignedDuration::from_mins(15);
/// A partition that is ready within this time is not put off until sweep wakes it.
const SOON: SignedDuration = SignedDuration::from_mins(1);

/// What is known when a worker looks.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The partition item, in one snapshot with the head.
    pub item: &'a PartitionItem,
    /// The dataset's head.
    pub head: &'a Head,
    /// The definition in force; `None` where it doesn't yield this partition.
    pub definition: Option<&'a Definition>,
    /// How long marks settle.
    pub settle: SignedDuration,
    /// The worker's clock.
    pub now: Timestamp,
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Acknowledge the message; nothing is owed.
    Nothing(Reason),
    /// Ready within a minute: send another message, acknowledge this one.
    SendAgain,
    /// Not ready: PUT OFF until then, acknowledge.
    PutOff(Timestamp),
    /// LEAVE the index, acknowledge.
    Leave,
    /// TAKE it.
    Take(Box<Take>),
}

/// Why nothing is owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Built up to its newest mark.
    Built,
    /// Parked, and no mark came since.
    Parked,
    /// Its dataset is paused.
    Paused,
    /// Its dataset is halted, and it isn't time for a probe.
    Halted,
}

impl Reason {
    /// In words, for the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Built => "built already",
            Self::Parked => "parked",
            Self::Paused => "the dataset is paused",
            Self::Halted => "the dataset is halted",
        }
    }
}

/// What a take writes, and what the worker may do under it.
#[derive(Debug, Clone, PartialEq)]
pub struct Take {
    /// The batch, continued or born.
    pub batch: Batch,
    /// Whether a batch before it may still land.
    pub unresolved: bool,
    /// What may be submitted.
    pub permission: Permission,
    /// What was found, where the take before died.
    pub found: Option<FailureState>,
    /// It is parked as stuck instead of worked on.
    pub stuck: bool,
    /// It is the probe of a halted dataset; the probe is claimed before.
    pub probe: bool,
}

/// What a worker may submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Whatever the batch needs.
    All,
    /// Nothing new: what is submitted is followed to its end.
    Follow,
    /// Nothing new but fencing; then the partition leaves the index.
    Retire,
}

impl Permission {
    /// Whether a statement of `phase` may be recorded and submitted.
    pub fn allows(self, phase: Phase) -> bool {
        match self {
            Self::All => true,
            Self::Follow => false,
            Self::Retire => phase == Phase::Fencing,
        }
    }
}

/// The least time between two rebuilds of the partition.
pub fn interval(item: &PartitionItem, definition: &Definition) -> SignedDuration {
    match definition.interval {
        Interval::Fixed(interval) => SignedDuration::try_from(interval).unwrap_or(SignedDuration::MAX),
        Interval::Auto => {
            let took = item.last.as_ref().map_or(0, |last| last.took_seconds);
            let four_times = i64::try_from(took.saturating_mul(4)).unwrap_or(i64::MAX);
            SignedDuration::from_secs(four_times).min(AUTO_INTERVAL_AT_MOST)
        }
    }
}

/// Decides by the rules above; `id` names a batch that may have to be born.
pub fn decide(view: &View<'_>, id: BatchId) -> Decision {
    let View { item, head, now, .. } = *view;
    let submitted = item.batch.as_ref().is_some_and(|batch| batch.statement.is_some());
    let (permission, definition, probe) = match (head.mode, view.definition) {
        (Mode::Retired, _) | (_, None) => {
            // A swap that was seen to fail may have had a first request that is on its way.
            if !submitted && !item.swap_may_be_out() {
                return if item.due_at.is_some() { Decision::Leave } else { Decision::Nothing(Reason::Built) };
            }
            (Permission::Retire, None, false)
        }
        (Mode::Active, Some(definition)) => (Permission::All, Some(definition), false),
        (Mode::Paused, Some(definition)) => {
            if !submitted {
                return Decision::Nothing(Reason::Paused);
            }
            (Permission::Follow, Some(definition), false)
        }
        (Mode::Halted, Some(definition)) => {
            let probe = head.probe_at.is_none_or(|at| at <= now);
            if !probe && !submitted {
                return Decision::Nothing(Reason::Halted);
            }
            (if probe { Permission::All } else { Permission::Follow }, Some(definition), probe)
        }
    };
    if item.at_rest() {
        return Decision::Nothing(Reason::Built);
    }
    if item.rests_parked() {
        return Decision::Nothing(Reason::Parked);
    }
    let interval = definition.map_or(SignedDuration::ZERO, |definition| interval(item, definition));
    let ready = item.ready_at(now, interval, view.settle);
    if ready > now {
        return if ready.duration_since(now) <= SOON { Decision::SendAgain } else { Decision::PutOff(ready) };
    }
    Decision::Take(Box::new(take(view, permission, probe, id)))
}

fn take(view: &View<'_>, permission: Permission, probe: bool, id: BatchId) -> Take {
    let item = view.item;
    let found = item.batch.as_ref().filter(|batch| !batch.left).map(failure_state);
    let stuck = item.tries >= TRIES;
    if let Some(batch) = &item.batch
        && (stuck || can_continue(batch, view))
    {
        let recovered = found.or(batch.recovered);
        let failed_at = batch.failed_at.or_else(|| found.map(|_| batch.sign_of_life()));
        let batch = Batch { recovered, failed_at, left: false, ..batch.clone() };
        return Take { batch, unresolved: item.unresolved, permission, found, stuck, probe };
    }
    let unresolved = item.swap_may_be_out();
    Take { batch: begin(view, unresolved, id), unresolved, permission, found, stuck, probe }
}

/// What a take finds of a batch left unfinished. Whether a swap landed shows when its statement is asked for.
pub fn failure_state(batch: &Batch) -> FailureState {
    match batch.phase {
        Phase::Fencing | Phase::Listing => FailureState::BeforeStaging,
        Phase::Staging => FailureState::DuringStaging,
        Phase::Swapping => FailureState::BeforeCommit,
    }
}

/// Whether an unfinished batch can still come to an end that is known.
fn can_continue(batch: &Batch, view: &View<'_>) -> bool {
    let swap_may_run = batch.phase == Phase::Swapping && batch.statement.is_some();
    let same_definition = batch.definition == view.head.hash || swap_may_run;
    let young = view.now.duration_since(batch.began_at) < BATCH_LIVES;
    same_definition && young && batch.epoch == view.head.epoch && outcome_can_be_known(batch, view.now)
}

/// Whether the recorded statement can still be asked for, or sent again under its token.
pub fn outcome_can_be_known(batch: &Batch, now: Timestamp) -> bool {
    batch.statement.as_ref().is_none_or(|statement| {
        let age = now.duration_since(statement.submitted_at);
        age < if statement.id.is_some() { OUTCOME_KNOWN_FOR } else { TOKEN_VALID_FOR }
    })
}

fn begin(view: &View<'_>, unresolved: bool, id: BatchId) -> Batch {
    let View { item, head, now, .. } = *view;
    let forced = item.is_forced();
    Batch {
        id,
        fence: item.fence.next(),
        covers: item.marked,
        phase: if unresolved { Phase::Fencing } else { Phase::Listing },
        definition: head.hash.clone(),
        epoch: head.epoch,
        began_at: now,
        forced,
        accept: item.accept.clone().filter(|_| forced),
        asked: item.is_asked().cloned(),
        before: before(item),
        statement_timeout_seconds: view.definition.map_or(3600, |definition| definition.load_window.as_secs()),
        removed: item.removed,
        progress: None,
        listed: None,
        spent_seconds: 0,
        attempt: 1,
        statement: None,
        verified: None,
        recovered: None,
        failed_at: None,
        left: false,
    }
}

/// What the target's partition should hold before the swap.
pub fn before(item: &PartitionItem) -> Option<Before> {
    item.last.as_ref().map(|last| Before { batch: last.batch, rows: last.rows })
}

#[cfg(test)]
mod tests;
