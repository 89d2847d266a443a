//! A partition's state in words. What happens next is asked of the very function by which rebuild decides.

use jiff::{SignedDuration, Timestamp, Unit};
use tidemark_domain::dataset::{Head, Mode};
use tidemark_domain::definition::Definition;
use tidemark_domain::id::BatchId;
use tidemark_domain::partition::{Batch, Committed, Parked, PartitionItem};
use tidemark_domain::take::{Decision, Reason, View, decide};

/// How a partition stands, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Never marked.
    Unknown,
    /// Built up to its newest mark.
    Clean,
    /// Marked, not begun.
    Dirty,
    /// A batch is in progress.
    Building,
    /// Put off after something failed.
    Held,
    /// Set aside until a new mark.
    Parked,
}

impl State {
    /// The word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Clean => "clean",
            Self::Dirty => "dirty",
            Self::Building => "building",
            Self::Held => "held",
            Self::Parked => "parked",
        }
    }
}

/// All that is told of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Story {
    /// In one word.
    pub(crate) state: State,
    /// What is known, a label and a sentence each.
    pub(crate) lines: Vec<(&'static str, String)>,
    /// What happens next.
    pub(crate) next: String,
}

/// Tells a partition's story.
pub(crate) fn story(
    head: &Head,
    definition: &Definition,
    item: Option<&PartitionItem>,
    settle: SignedDuration,
    now: Timestamp,
) -> Story {
    let mut lines = Vec::new();
    if head.mode != Mode::Active {
        lines.push(("dataset", mode(head, now)));
    }
    let Some(item) = item else {
        let next =
            "nothing: no file of it was seen; a file that lands marks it, and so does `tidemark replay`".to_owned();
        return Story { state: State::Unknown, lines, next };
    };
    lines.push((
        "marked",
        format!("{} times, last {}; built up to {}", item.marked, when(item.marked_at, now), item.built),
    ));
    if let Some(parked) = &item.parked {
        lines.push(("parked", parked_line(parked, item, now)));
    }
    if let Some(holds) = &item.holds {
        let until = item.not_before.map(|at| format!(", until {}", when(at, now))).unwrap_or_default();
        let times = if holds.count == 1 { "once".to_owned() } else { format!("{} times in a row", holds.count) };
        lines.push(("held", format!("for {}, {times}{until}", holds.kind)));
    }
    if let Some(batch) = &item.batch {
        lines.push(("batch", batch_line(batch, now)));
    }
    if item.unresolved {
        lines.push((
            "unresolved",
            "a batch ended whose swap may still land; it is shut out before anything else".to_owned(),
        ));
    }
    if item.is_forced() {
        lines.push(("forced", "it is rebuilt whether its files changed or not".to_owned()));
    }
    if item.tries > 0 {
        lines.push(("tries", format!("{} takes in a row died without a trace", item.tries)));
    }
    lines.push((
        "last",
        item.last.as_ref().map_or_else(|| "nothing was committed yet".to_owned(), |last| last_line(last, now)),
    ));
    Story { state: state(item, now), lines, next: next(head, definition, item, settle, now) }
}

fn state(item: &PartitionItem, now: Timestamp) -> State {
    if item.rests_parked() {
        State::Parked
    } else if item.at_rest() {
        State::Clean
    } else if item.holds.is_some() && item.not_before.is_some_and(|at| at > now) {
        State::Held
    } else if item.batch.is_some() {
        State::Building
    } else {
        State::Dirty
    }
}

fn next(head: &Head, definition: &Definition, item: &PartitionItem, settle: SignedDuration, now: Timestamp) -> String {
    let view = View { item, head, definition: Some(definition), settle, now };
    match decide(&view, BatchId(uuid::Uuid::nil())) {
        Decision::Nothing(Reason::Built) => "nothing, until a file changes or it is replayed".to_owned(),
        Decision::Nothing(Reason::Parked) => {
            "nothing, until a file changes or it is replayed: mend the files, or `tidemark replay` with --accept"
                .to_owned()
        }
        Decision::Nothing(Reason::Paused) => "nothing, until the dataset is resumed".to_owned(),
        Decision::Nothing(Reason::Halted) => {
            let at = head.probe_at.map(|at| format!(": {}", when(at, now))).unwrap_or_default();
            format!("nothing, until the dataset is mended; it is probed every 15 minutes{at}")
        }
        Decision::SendAgain => "a rebuild, within a minute".to_owned(),
        Decision::PutOff(at) => format!("a rebuild, {}", when(at, now)),
        Decision::Leave => "it is let go: its dataset is retired".to_owned(),
        Decision::Take(take) => {
            let what = match (item.batch.is_some(), take.stuck) {
                (_, true) => "it parks as stuck",
                (true, false) => "the batch goes on",
                (false, false) => "a rebuild",
            };
            let woken = item.due_at.map(|at| format!("; sweep wakes it {}", when(at, now))).unwrap_or_default();
            format!("{what}, as soon as a worker has its message{woken}")
        }
    }
}

fn mode(head: &Head, now: Timestamp) -> String {
    let word = match head.mode {
        Mode::Active => "active",
        Mode::Paused => "paused",
        Mode::Halted => "halted",
        Mode::Retired => "retired",
    };
    let why = head.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    format!("{word} by {}, {}{why}", head.by, when(head.since, now))
}

fn parked_line(parked: &Parked, item: &PartitionItem, now: Timestamp) -> String {
    let since = item.parked_since.map(|at| format!("{}, ", when(at, now))).unwrap_or_default();
    let digest = parked.digest.as_ref().map(|digest| format!(" (digest {digest})")).unwrap_or_default();
    format!("{since}at generation {}, for {}: {}{digest}", parked.generation, parked.kind, parked.message)
}

fn batch_line(batch: &Batch, now: Timestamp) -> String {
    let statement = batch.statement.as_ref().map(|statement| {
        let id = statement.id.as_ref().map(|id| format!(" {id}")).unwrap_or_default();
        format!(", its statement{id} submitted {}", when(statement.submitted_at, now))
    });
    let listed = batch.listed.as_ref().map(|listed| format!(", {} objects of {} bytes", listed.objects, listed.bytes));
    format!(
        "{} {}, covers generation {}, begun {}{}{}",
        batch.id,
        batch.phase.as_str(),
        batch.covers,
        when(batch.began_at, now),
        listed.unwrap_or_default(),
        statement.unwrap_or_default()
    )
}

fn last_line(last: &Committed, now: Timestamp) -> String {
    format!(
        "batch {} of generation {}: {} rows, committed {}, took {} s",
        last.batch,
        last.generation,
        last.rows,
        when(last.committed_at, now),
        last.took_seconds
    )
}

/// A time to the second, and how far off it is in its greatest unit: `2026-11-01T07:00:00Z (3 minutes ago)`.
fn when(at: Timestamp, now: Timestamp) -> String {
    let rounded = at.round(Unit::Second).unwrap_or(at);
    let seconds = at.duration_since(now).as_secs();
    let (size, unit) = match seconds.unsigned_abs() {
        size @ 0..=119 => (size, "second"),
        size @ 120..=7_199 => (size / 60, "minute"),
        size @ 7_200..=172_799 => (size / 3_600, "hour"),
        size => (size / 86_400, "day"),
    };
    let plural = if size == 1 { "" } else { "s" };
    match seconds {
        0 => format!("{rounded} (now)"),
        1.. => format!("{rounded} (in {size} {unit}{plural})"),
        _ => format!("{rounded} ({size} {unit}{plural} ago)"),
    }
}
