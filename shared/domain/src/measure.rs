//! What is measured: the metrics there are, and what one take of a partition says in them.
//!
//! Names and units are an interface: alarms and dashboards ask for them. A take tells its measures once, when it has left the
//! partition; a worker that is killed tells none, the one that finds its batch tells of the recovery. That a batch ends is
//! told before it is written, so at least once.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::definition::Definition;
use crate::failure::FailureKind;
use crate::id::PartitionId;
use crate::partition::{Batch, FailureState, Listed, Phase};
use crate::settle::Settlement;
use crate::sql::rows::LedgerRow;
use crate::step::Next;
use crate::verify::{LoadCounts, StageCounts};

/// Units of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count,
    /// A time.
    Seconds,
    /// A share, 0 to 100; more where a limit was passed.
    Percent,
}

/// Who tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teller {
    /// The function that marks.
    Mark,
    /// The function that rebuilds.
    Rebuild,
    /// The function that sweeps.
    Sweep,
}

impl Teller {
    /// The name, as the dimension `Function` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mark => "mark",
            Self::Rebuild => "rebuild",
            Self::Sweep => "sweep",
        }
    }
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Who tells it.
    pub by: Teller,
}

/// One measured value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measure {
    /// Of what.
    pub metric: Metric,
    /// The value.
    pub value: f64,
}

macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $constant:ident = $name:literal, $unit:ident, $by:ident;)+) => {
        $($(#[doc = $doc])+ pub const $constant: Metric = Metric { name: $name, unit: Unit::$unit, by: Teller::$by };)+
        /// Every metric there is.
        pub const ALL: &[Metric] = &[$($constant),+];
    };
}

metrics! {
    /// Partitions marked.
    MARKED = "Marked", Count, Mark;
    /// Records that marked nothing, for whatever reason.
    IGNORED = "Ignored", Count, Mark;
    /// Of them, keys that no dataset claims.
    UNCLAIMED = "Unclaimed", Count, Mark;
    /// Messages reported failed.
    FAILED = "Failed", Count, Mark;
    /// Marks whose message couldn't be sent; wake sends it.
    UNSENT = "Unsent", Count, Mark;

    /// Partitions with anything to do.
    DIRTY = "Dirty", Count, Sweep;
    /// Partitions set aside.
    PARKED = "Parked", Count, Sweep;
    /// Messages sent for what was due.
    WOKEN = "Woken", Count, Sweep;
    /// Partitions that files came to and no event told so, as look saw it.
    MISSED = "Missed", Count, Sweep;
    /// Tasks of sweep (look, book, tidy, staging) that have failed for six hours or longer; nothing where there is none.
    TASKS_FAILING = "TasksFailing", Count, Sweep;
    /// Age of what is dirty longest.
    OLDEST_DIRTY_AGE = "OldestDirtyAge", Seconds, Sweep;
    /// 1 while a dataset waits for a repair.
    HALTED = "Halted", Count, Sweep;

    /// Batches that committed.
    REBUILDS = "Rebuilds", Count, Rebuild;
    /// From the batch's birth to its commit.
    REBUILD_TIME = "RebuildTime", Seconds, Rebuild;
    /// From the submission of its swap to its commit; not told where the swap ended while nobody watched.
    SWAP_TIME = "SwapTime", Seconds, Rebuild;
    /// The swap's share of the rebuild.
    SWAP_SHARE = "SwapShare", Percent, Rebuild;
    /// Batches that found what was committed last.
    UNCHANGED = "Unchanged", Count, Rebuild;
    /// Takes that put the partition off.
    HOLDS = "Holds", Count, Rebuild;
    /// Takes that set the partition aside.
    PARKS = "Parks", Count, Rebuild;
    /// Takes that ran out of time and handed on.
    HAND_OFFS = "HandOffs", Count, Rebuild;
    /// |source rows - staged rows|, where the files tell their rows.
    ROW_VARIANCE = "RowVariance", Count, Rebuild;
    /// Rows that COPY refused.
    REJECTED_ROWS = "RejectedRows", Count, Rebuild;
    /// Staged rows beyond the first of each business key.
    DUPLICATE_KEYS = "DuplicateKeys", Count, Rebuild;
    /// Objects that a commit brought to a partition built before, written after that was over, within lookback of it. Each is
    /// counted once: by the commit that brought it.
    LATE_IN_WINDOW = "LateInWindow", Count, Rebuild;
    /// The same, written when lookback didn't reach the partition any more.
    LATE_OUTSIDE_WINDOW = "LateOutsideWindow", Count, Rebuild;
    /// Share of the load window that the batch's statements have used.
    LOAD_WINDOW_USED = "LoadWindowUsed", Percent, Rebuild;
    /// Takes that found the lock busy, or gave way to somebody else's locks in Redshift.
    LOCK_CONTENTION = "LockContention", Count, Rebuild;
    /// Replays asked for.
    MANUAL_REPLAYS = "ManualReplays", Count, Rebuild;
    /// Takes that found a batch whose worker died: nothing of it in Redshift.
    RECOVERED_BEFORE_STAGING = "RecoveredBeforeStaging", Count, Rebuild;
    /// The same: staging left nothing or a whole table.
    RECOVERED_DURING_STAGING = "RecoveredDuringStaging", Count, Rebuild;
    /// The same: verified, the target untouched.
    RECOVERED_BEFORE_COMMIT = "RecoveredBeforeCommit", Count, Rebuild;
    /// The same: it had landed, and was not confirmed.
    RECOVERED_AFTER_COMMIT = "RecoveredAfterCommit", Count, Rebuild;
    /// From the dead worker's last sign of life to the moment its batch's state was known and recorded.
    FAILURE_TO_CONFIRMED_TIME = "FailureToConfirmedTime", Seconds, Rebuild;
}

impl Metric {
    /// So many of it.
    #[expect(clippy::cast_precision_loss, reason = "metrics are floating point anyway")]
    pub fn count(self, value: u64) -> Measure {
        Measure { metric: self, value: value as f64 }
    }

    fn seconds(self, value: SignedDuration) -> Measure {
        Measure { metric: self, value: value.as_secs_f64().max(0.0) }
    }

    fn share(self, part: SignedDuration, whole: SignedDuration) -> Option<Measure> {
        let whole = whole.as_secs_f64();
        (whole > 0.0).then(|| Measure { metric: self, value: 100.0 * part.as_secs_f64().max(0.0) / whole })
    }
}

/// What a worker saw on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The state it found its batch in, where a worker before it died.
    pub found: Option<FailureState>,
    /// That worker's last sign of life.
    pub failed_at: Option<Timestamp>,
    /// What it listed itself, and how many objects of that were in an archive tier.
    pub listing: Option<(Listed, u64)>,
    /// What was counted in Redshift.
    pub staged: Option<(StageCounts, Option<LoadCounts>)>,
    /// When the swap was submitted and when it was seen committed, where it was watched.
    pub swap: Option<(Timestamp, Timestamp)>,
    /// The rows of the partition, once committed.
    pub target_rows: Option<u64>,
    /// How the worker left the partition; see [`status`].
    pub status: &'static str,
    /// That the batch ends was told.
    pub end_told: bool,
    /// It gave way to somebody else's locks.
    pub contended: bool,
    /// How long the batch has been in statements.
    pub in_statements: SignedDuration,
}

impl Observed {
    /// Nothing yet, but what the take found of `batch`.
    pub fn at_take(found: Option<FailureState>, batch: Option<&Batch>) -> Self {
        Self {
            found,
            failed_at: batch.filter(|_| found.is_some()).map(Batch::sign_of_life),
            listing: None,
            staged: None,
            swap: None,
            target_rows: None,
            status: "failed",
            end_told: false,
            contended: false,
            in_statements: SignedDuration::ZERO,
        }
    }

    /// How the worker is about to leave.
    pub fn leaves(&mut self, next: &Next) {
        self.status = status(next);
        let Next::Settle { settlement: Settlement::Hold { kind, .. }, .. } = next else { return };
        self.contended = kind == FailureKind::Contended.name();
    }
}

/// The word for a way out of a partition.
pub fn status(next: &Next) -> &'static str {
    match next {
        Next::Confirm { last: Some(_) } => "committed",
        Next::Confirm { last: None } => "unchanged",
        Next::Settle { settlement: Settlement::Hold { .. }, .. } => "held",
        Next::Settle { settlement: Settlement::Park { .. }, .. } => "parked",
        Next::Settle { settlement: Settlement::Halt(_), .. } => "halted",
        Next::Settle { settlement: Settlement::Superseded, .. } | Next::Overtaken => "overtaken",
        Next::HandOff { .. } => "handed_off",
        Next::Denied => "stopped",
        Next::Restored { .. } => "restored",
        Next::Enter(_) | Next::Looked { .. } => "going_on",
    }
}

/// The message of a batch that ends, told before that is written: at least once, and the newest counts.
pub const BATCH_ENDED: &str = "batch ended";
/// The message of a take that has left its partition, with its measures: at most once.
pub const TAKE_ENDED: &str = "take ended";

/// What a batch, or one take of it, came to, for the log: all that a recovery by hand would ask for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// [`BATCH_ENDED`] or [`TAKE_ENDED`].
    pub message: &'static str,
    /// `dataset` and `partition`.
    #[serde(flatten)]
    pub id: PartitionId,
    /// The batch.
    pub batch: String,
    /// The generation it covers.
    pub generation: u64,
    /// The fence it was born with.
    pub fence: u64,
    /// The phase it was left in.
    pub phase: &'static str,
    /// How it was left.
    pub status: &'static str,
    /// What was found of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovered_from: Option<FailureState>,
    /// Objects listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_objects: Option<u64>,
    /// Their rows, where the files tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_rows: Option<u64>,
    /// Rows staged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged_rows: Option<u64>,
    /// Rows of the target's partition after the swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_rows: Option<u64>,
    /// When the swap was submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge_started_at: Option<Timestamp>,
    /// When it was seen committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge_ended_at: Option<Timestamp>,
    /// The lookback window of the definition it used, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookback_seconds: Option<u64>,
}

/// What one take says once it has left: its summary and its measures. `now` is when it left.
pub fn take(
    id: &PartitionId,
    batch: &Batch,
    definition: &Definition,
    seen: &Observed,
    now: Timestamp,
) -> (Summary, Vec<Measure>) {
    let summary = Summary { message: TAKE_ENDED, ..ends(id, batch, definition, seen, now) };
    let mut measures = outcome(batch, seen, now);
    measures.extend(quality(batch, seen));
    let window = SignedDuration::try_from(definition.load_window).unwrap_or(SignedDuration::MAX);
    if seen.in_statements > SignedDuration::ZERO {
        measures.extend(LOAD_WINDOW_USED.share(seen.in_statements, window));
    }
    (summary, measures)
}

/// What is told of a batch that ends with a take, before that is written.
pub fn ends(id: &PartitionId, batch: &Batch, definition: &Definition, seen: &Observed, now: Timestamp) -> Summary {
    let told = of_batch(id, batch, Some(definition));
    let listed = seen.listing.as_ref().map(|(listed, _)| listed);
    Summary {
        status: seen.status,
        recovered_from: seen.found,
        source_objects: told.source_objects.or(listed.map(|listed| listed.objects)),
        source_rows: told.source_rows.or(listed.and_then(|listed| listed.rows)),
        staged_rows: seen.staged.as_ref().map(|(counts, _)| counts.staged_rows).or(told.staged_rows),
        target_rows: seen.target_rows,
        merge_ended_at: seen.swap.map(|(_, to)| to).or((seen.status == "committed").then_some(now)),
        ..told
    }
}

/// What is told of a batch that a take didn't go on with: its definition or epoch changed, or nobody knows its outcome.
/// `definition` is the one it began with.
pub fn given_up(
    id: &PartitionId,
    batch: &Batch,
    definition: Option<&Definition>,
    found: Option<FailureState>,
) -> Summary {
    Summary { recovered_from: found, ..of_batch(id, batch, definition) }
}

/// What is told of a batch whose swap was found to have landed after it was given up, by its ledger row: it ended unseen.
pub fn landed(id: &PartitionId, row: &LedgerRow) -> Summary {
    let utc = |time: jiff::civil::DateTime| TimeZone::UTC.to_timestamp(time).ok();
    Summary {
        message: BATCH_ENDED,
        id: id.clone(),
        batch: row.batch.to_string(),
        generation: row.generation.0,
        fence: row.fence.0,
        phase: Phase::Swapping.as_str(),
        status: "committed",
        recovered_from: Some(FailureState::AfterCommit),
        source_objects: Some(row.source.objects),
        source_rows: row.source.rows,
        staged_rows: Some(row.counts.staged_rows),
        target_rows: Some(row.counts.target_rows),
        merge_started_at: None,
        merge_ended_at: utc(row.swapped_at),
        lookback_seconds: None,
    }
}

/// What the item knows of a batch that ends.
fn of_batch(id: &PartitionId, batch: &Batch, definition: Option<&Definition>) -> Summary {
    let listed = batch.listed.as_ref();
    let swap = batch.statement.as_ref().filter(|_| batch.phase == Phase::Swapping);
    Summary {
        message: BATCH_ENDED,
        id: id.clone(),
        batch: batch.id.to_string(),
        generation: batch.covers.0,
        fence: batch.fence.0,
        phase: batch.phase.as_str(),
        status: "given_up",
        recovered_from: None,
        source_objects: listed.map(|listed| listed.objects),
        source_rows: listed.and_then(|listed| listed.rows),
        staged_rows: batch.verified.as_ref().map(|verified| verified.staged_rows),
        target_rows: None,
        merge_started_at: swap.map(|statement| statement.submitted_at),
        merge_ended_at: None,
        lookback_seconds: definition.and_then(|definition| definition.lookback).map(|lookback| lookback.as_secs()),
    }
}

fn outcome(batch: &Batch, seen: &Observed, now: Timestamp) -> Vec<Measure> {
    let mut measures = Vec::new();
    let one = match seen.status {
        "committed" => {
            let took = now.duration_since(batch.began_at);
            measures.push(REBUILD_TIME.seconds(took));
            if let Some((from, to)) = seen.swap {
                let swap = to.duration_since(from);
                measures.push(SWAP_TIME.seconds(swap));
                measures.extend(SWAP_SHARE.share(swap, took));
            }
            Some(REBUILDS)
        }
        "unchanged" => Some(UNCHANGED),
        "held" => Some(HOLDS),
        "parked" => Some(PARKS),
        "handed_off" => Some(HAND_OFFS),
        _ => None,
    };
    measures.extend(one.map(|metric| metric.count(1)));
    if seen.contended {
        measures.push(LOCK_CONTENTION.count(1));
    }
    // An overtaken worker, or one that could not leave in order, confirmed nothing.
    if let (Some(state), false) = (seen.found, ["overtaken", "failed"].contains(&seen.status)) {
        let recovered = match state {
            FailureState::BeforeStaging => RECOVERED_BEFORE_STAGING,
            FailureState::DuringStaging => RECOVERED_DURING_STAGING,
            FailureState::BeforeCommit => RECOVERED_BEFORE_COMMIT,
            FailureState::AfterCommit => RECOVERED_AFTER_COMMIT,
        };
        measures.push(recovered.count(1));
        measures.extend(seen.failed_at.map(|at| FAILURE_TO_CONFIRMED_TIME.seconds(now.duration_since(at))));
    }
    measures
}

fn quality(batch: &Batch, seen: &Observed) -> Vec<Measure> {
    let mut measures = Vec::new();
    if let Some((counts, loads)) = &seen.staged {
        let source = batch.listed.as_ref().and_then(|listed| listed.rows);
        measures.extend(source.map(|rows| ROW_VARIANCE.count(rows.abs_diff(counts.staged_rows))));
        measures.extend(loads.map(|loads| REJECTED_ROWS.count(loads.rejected_rows)));
        measures.push(DUPLICATE_KEYS.count(counts.duplicate_rows));
    }
    // Until a commit the next batch would find the same objects new again.
    let late =
        batch.listed.as_ref().filter(|_| seen.status == "committed").map(|listed| listed.late).unwrap_or_default();
    measures.extend((late.in_window > 0).then(|| LATE_IN_WINDOW.count(late.in_window)));
    measures.extend((late.outside_window > 0).then(|| LATE_OUTSIDE_WINDOW.count(late.outside_window)));
    measures
}
