//! `tidemark history DATASET [PARTITION]`: the batches that ended, newest first.

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidemark_domain::id::{BatchId, PartitionName};
use tidemark_domain::story::{KEPT_FOR, Outcome, Story};
use tidemark_engine::read::stories::{Found, Wanted, newest};

use crate::cloud::{Cloud, unavailable};
use crate::console::{self, BAD, FAINT, GOOD, PLAIN, WARN};
use crate::exit::{Failure, Outcome as Ended};
use crate::moment::{length, since, to_second};
use crate::table::{Cell, table};
use crate::words::{asked, failure_state, outcome};

/// Stories of a dataset that are read before the search is given up.
const READ_AT_MOST: usize = 50_000;
/// Of a reason, so much is shown in the table; JSON has all of it.
const WHY_AT_MOST: usize = 100;

/// List the batches of a dataset or partition that ended, the newest first
#[derive(Debug, Args)]
pub(crate) struct History {
    /// The dataset
    pub(crate) dataset: String,
    /// Only this partition, such as dt=2026-11-01
    pub(crate) partition: Option<String>,
    /// Only batches begun since then: a length of time such as 7d or 12h, a day, or a moment such as 2026-11-01T07:00:00Z
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Lists them. That there are none is no problem.
pub(crate) async fn run(arguments: &History) -> Result<Ended, Failure> {
    let cloud = Cloud::connect().await?;
    let (dataset, partition) = match &arguments.partition {
        Some(partition) => {
            let seen = cloud.look(&arguments.dataset, partition).await?;
            (seen.id.dataset, Some(seen.id.partition))
        }
        None => (cloud.dataset(&arguments.dataset).await?.dataset, None),
    };
    let now = cloud.ports.clock.now();
    let oldest = now - KEPT_FOR;
    let from = arguments.since.as_deref().map(|text| since(text, now)).transpose().map_err(Failure::Usage)?;
    let from = from.unwrap_or(oldest).max(oldest);
    let wanted =
        Wanted { partition: partition.as_ref(), since: from, limit: arguments.limit, read_at_most: READ_AT_MOST };
    let found = newest(&cloud.ports, &dataset, wanted).await.map_err(unavailable)?;
    if arguments.json {
        console::print_json(&json!({
            "dataset": dataset,
            "partition": partition,
            "since": to_second(found.since.max(from)),
            "batches": found.stories.iter().map(as_json).collect::<Vec<_>>(),
        }))?;
    } else {
        console::print(&shown(&found, partition.as_ref(), from))?;
    }
    Ok(Ended::Done)
}

fn shown(found: &Found, partition: Option<&PartitionName>, from: Timestamp) -> String {
    let back_to = to_second(found.since.max(from));
    if found.stories.is_empty() {
        return format!("no batch ended since {back_to}\n");
    }
    format!("{}{FAINT}looked back to {back_to}{PLAIN}\n", batches(&found.stories, partition.is_none()))
}

/// The table of these batches.
pub(crate) fn batches(stories: &[(BatchId, Story)], with_partition: bool) -> String {
    let mut headings =
        vec!["ended", "outcome", "objects", "rows", "listing", "staging", "swap", "total", "recovered from"];
    if with_partition {
        headings.push("partition");
    }
    headings.extend(["batch", "asked for", "why"]);
    table(&headings, stories.iter().map(|(batch, story)| row(*batch, story, with_partition)).collect())
}

fn row(batch: BatchId, story: &Story, with_partition: bool) -> Vec<Cell> {
    let style = match story.outcome {
        Outcome::Committed => GOOD,
        Outcome::Unchanged => FAINT,
        Outcome::Parked => BAD,
        Outcome::GivenUp => WARN,
    };
    let number = |value: Option<u64>| Cell::number(&value.map_or_else(|| "-".to_owned(), |value| value.to_string()));
    let time = |length: Option<SignedDuration>| Cell::number(&length.map_or_else(|| "-".to_owned(), took));
    let recovered = story.recovered_from.map_or("-", failure_state);
    let [listing, staging, swap, total] = phases(story);
    let mut row = vec![
        Cell::text(to_second(story.ended_at)),
        Cell::text(outcome(story.outcome)).styled(style),
        number(story.objects),
        number(story.rows),
        time(listing),
        time(staging),
        time(swap),
        time(total),
        Cell::text(recovered),
    ];
    if with_partition {
        row.push(Cell::text(story.partition.to_string()));
    }
    let cut = |text: &str| {
        let dots = if text.len() > WHY_AT_MOST { "…" } else { "" };
        Cell::text(format!("{}{dots}", &text[..text.floor_char_boundary(WHY_AT_MOST)]))
    };
    row.push(Cell::text(batch.to_string()));
    row.push(cut(&story.asked.as_ref().map_or_else(|| "-".to_owned(), asked)));
    row.push(cut(story.why.as_deref().unwrap_or("-")));
    row
}

/// What listing, staging and swap took, and all of it; each as far as both its ends are known.
fn phases(story: &Story) -> [Option<SignedDuration>; 4] {
    let between = |from: Option<Timestamp>, to: Option<Timestamp>| Some(to?.duration_since(from?));
    let ended = Some(story.ended_at);
    let swap_ended = ended.filter(|_| story.outcome == Outcome::Committed);
    [
        between(story.began_at, story.listed_at),
        between(story.listed_at, story.staged_at),
        between(story.swap_at, swap_ended),
        between(story.began_at, ended),
    ]
}

/// A length of time in a column: `0.4s`, `12s`, `3 minutes`.
fn took(length_of: SignedDuration) -> String {
    let seconds = length_of.as_secs_f64().max(0.0);
    match seconds {
        seconds if seconds < 10.0 => format!("{seconds:.1}s"),
        seconds if seconds < 120.0 => format!("{seconds:.0}s"),
        _ => length(length_of.as_secs().unsigned_abs()),
    }
}

/// A story as programs read it: the stored fields, times as text.
pub(crate) fn as_json((batch, story): &(BatchId, Story)) -> Value {
    let time = |at: Option<Timestamp>| at.map(to_second);
    let [listing, staging, swap, total] = phases(story).map(|took| took.map(|took| took.as_secs_f64()));
    json!({
        "batch": batch.to_string(),
        "partition": story.partition,
        "outcome": story.outcome,
        "phase": story.phase,
        "generation": story.generation.0,
        "fence": story.fence.0,
        "began_at": time(story.began_at),
        "listed_at": time(story.listed_at),
        "staged_at": time(story.staged_at),
        "swap_at": time(story.swap_at),
        "ended_at": to_second(story.ended_at),
        "listing_seconds": listing,
        "staging_seconds": staging,
        "swap_seconds": swap,
        "total_seconds": total,
        "objects": story.objects,
        "bytes": story.bytes,
        "rows": story.rows,
        "counts": story.counts,
        "recovered_from": story.recovered_from,
        "forced": story.forced,
        "asked": story.asked.as_ref().map(|asked| {
            json!({ "by": asked.by, "reason": asked.reason, "at": to_second(asked.at) })
        }),
        "why": story.why,
        "digest": story.digest,
        "inventory": story.inventory,
    })
}
