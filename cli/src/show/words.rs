//! A partition's state in words. What happens next is asked of the very function by which rebuild decides.

use jiff::{SignedDuration, Timestamp};
use tidemark_domain::dataset::{Head, Mode};
use tidemark_domain::definition::Definition;
use tidemark_domain::id::BatchId;
use tidemark_domain::partition::{Batch, Committed, Parked, PartitionItem};
use tidemark_domain::take::{Decision, Reason, View, decide};

use crate::moment::when;
use crate::words::asked as asked_in_words;

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
        let label = if item.rests_parked() { "parked" } else { "was parked" };
        lines.push((label, parked_line(parked, item, now)));
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
    if let Some(asked) = item.is_asked() {
        lines.push(("asked for", format!("{}, {}", when(asked.at, now), asked_in_words(asked))));
    }
    if item.is_forced() {
        lines.push(("forced", "it is rebuilt whether its files changed or not".to_owned()));
    }
    if item.tries > 1 {
        lines.push(("tries", format!("the last {} takes wrote nothing; the newest may be at work", item.tries)));
    }
    lines.push((
        "last",
        item.last.as_ref().map_or_else(|| "nothing was committed yet".to_owned(), |last| last_line(last, now)),
    ));
    Story { state: state(item, now), lines, next: next(head, definition, item, settle, now) }
}

/// How a partition stands.
pub(crate) fn state(item: &PartitionItem, now: Timestamp) -> State {
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

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};
    use tidemark_domain::definition::parse;

    use super::*;

    const ORDERS: &str = r#"
[orders]
source = "s3://lake-raw/orders/"
layout = "dt={dt}/"
format = "parquet"
target = "sales.orders"
columns = ["order_id bigint"]
[orders.partition.dt]
type = "date"
"#;
    const MINUTE: i64 = 60_000;

    /// Ten minutes after 1970 began, of an item with these fields over the plainest there is.
    fn told(mode: &str, fields: &Value) -> String {
        let definition = parse(ORDERS).unwrap().remove(0);
        let head = json!({
            "hash": definition.hash(), "epoch": 1, "mode": mode, "concurrency": "table", "since": 0, "by": "alice",
        });
        let head: Head = serde_json::from_value(head).unwrap();
        let mut item = json!({ "marked": 3, "built": 2, "marked_at": 5 * MINUTE, "fence": 4 });
        item.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let item: PartitionItem = serde_json::from_value(item).unwrap();
        let now = Timestamp::from_millisecond(10 * MINUTE).unwrap();
        let story = story(&head, &definition, Some(&item), SignedDuration::from_secs(30), now);
        let mut lines = vec![story.state.name().to_owned()];
        lines.extend(story.lines.iter().map(|(label, line)| format!("{label}: {line}")));
        lines.push(format!("next: {}", story.next));
        lines.join("\n")
    }

    #[test]
    fn a_partition_at_rest() {
        let last = json!({
            "batch": "01936000-0000-7000-8000-000000000001", "generation": 3, "fence": 4, "digest": "d", "inventory": "i",
            "rows": 10, "took_seconds": 7, "committed_at": 6 * MINUTE,
        });
        expect![[r#"
            clean
            marked: 3 times, last 1970-01-01T00:05:00Z (5 minutes ago); built up to 3
            last: batch 01936000-0000-7000-8000-000000000001 of generation 3: 10 rows, committed 1970-01-01T00:06:00Z (4 minutes ago), took 7 s
            next: nothing, until a file changes or it is replayed"#]].assert_eq(&told("active", &json!({ "built": 3, "last": last })));
    }

    #[test]
    fn a_dirty_partition() {
        let due = json!({ "work": "orders", "due_at": 11 * MINUTE, "dirty_since": 5 * MINUTE });
        expect![[r#"
            dirty
            marked: 3 times, last 1970-01-01T00:05:00Z (5 minutes ago); built up to 2
            last: nothing was committed yet
            next: a rebuild, as soon as a worker has its message; sweep wakes it 1970-01-01T00:11:00Z (in 60 seconds)"#]].assert_eq(&told("active", &due));
        expect![[r#"
            dirty
            dataset: paused by alice, 1970-01-01T00:00:00Z (10 minutes ago)
            marked: 3 times, last 1970-01-01T00:05:00Z (5 minutes ago); built up to 2
            last: nothing was committed yet
            next: nothing, until the dataset is resumed"#]]
        .assert_eq(&told("paused", &due));
    }

    #[test]
    fn a_partition_that_somebody_asked_for() {
        let asked = json!({
            "work": "orders", "due_at": 11 * MINUTE, "dirty_since": 5 * MINUTE, "forced": 3,
            "asked": { "generation": 3, "at": 5 * MINUTE, "reason": "late files", "by": "jane" },
        });
        expect![[r#"
            dirty
            marked: 3 times, last 1970-01-01T00:05:00Z (5 minutes ago); built up to 2
            asked for: 1970-01-01T00:05:00Z (5 minutes ago), by jane: late files
            forced: it is rebuilt whether its files changed or not
            last: nothing was committed yet
            next: a rebuild, as soon as a worker has its message; sweep wakes it 1970-01-01T00:11:00Z (in 60 seconds)"#]].assert_eq(&told("active", &asked));
    }

    #[test]
    fn a_partition_that_is_held() {
        let held = json!({
            "work": "orders", "due_at": 12 * MINUTE, "dirty_since": 5 * MINUTE, "not_before": 12 * MINUTE,
            "holds": { "kind": "empty_source", "count": 2 }, "unresolved": true,
        });
        expect![[r#"
            held
            marked: 3 times, last 1970-01-01T00:05:00Z (5 minutes ago); built up to 2
            held: for empty_source, 2 times in a row, until 1970-01-01T00:12:00Z (in 2 minutes)
            unresolved: a batch ended whose swap may still land; it is shut out before anything else
            last: nothing was committed yet
            next: a rebuild, 1970-01-01T00:12:00Z (in 2 minutes)"#]]
        .assert_eq(&told("active", &held));
    }

    #[test]
    fn a_parked_partition() {
        let parked = json!({
            "parked": { "generation": 3, "digest": "ab", "kind": "empty_source", "message": "nothing is listed" },
            "parked_work": "orders", "parked_since": 9 * MINUTE,
        });
        expect![[r#"
            parked
            marked: 3 times, last 1970-01-01T00:05:00Z (5 minutes ago); built up to 2
            parked: 1970-01-01T00:09:00Z (60 seconds ago), at generation 3, for empty_source: nothing is listed (digest ab)
            last: nothing was committed yet
            next: nothing, until a file changes or it is replayed: mend the files, or `tidemark replay` with --accept"#]].assert_eq(&told("active", &parked));
    }

    #[test]
    fn a_partition_being_built() {
        let batch = json!({
            "id": "01936000-0000-7000-8000-000000000002", "fence": 4, "covers": 3, "phase": "staging", "attempt": 1,
            "definition": parse(ORDERS).unwrap()[0].hash(), "epoch": 1, "began_at": 8 * MINUTE,
            "statement_timeout_seconds": 1800,
            "listed": { "digest": "d", "inventory": "i", "objects": 2, "bytes": 99 },
            "statement": { "token": "t", "submitted_at": 9 * MINUTE, "id": "s-1" },
        });
        let building = json!({
            "batch": batch, "work": "orders", "due_at": 13 * MINUTE, "dirty_since": 5 * MINUTE, "tries": 2,
        });
        expect![[r#"
            building
            marked: 3 times, last 1970-01-01T00:05:00Z (5 minutes ago); built up to 2
            batch: 01936000-0000-7000-8000-000000000002 staging, covers generation 3, begun 1970-01-01T00:08:00Z (2 minutes ago), 2 objects of 99 bytes, its statement s-1 submitted 1970-01-01T00:09:00Z (60 seconds ago)
            tries: the last 2 takes wrote nothing; the newest may be at work
            last: nothing was committed yet
            next: the batch goes on, as soon as a worker has its message; sweep wakes it 1970-01-01T00:13:00Z (in 3 minutes)"#]].assert_eq(&told("active", &building));
    }
}
