//! `tidemark show DATASET PARTITION`: all that is known of a partition, and what happens next.

pub(crate) mod words;

use std::fmt::Write as _;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use tidemark_domain::guards::{Guard, guards};
use tidemark_domain::id::BatchId;
use tidemark_domain::partition::{FailureState, PartitionItem};
use tidemark_domain::story::Story;
use tidemark_engine::read::hands::{self, Hands};
use tidemark_engine::read::stories::{Wanted, newest, of_batch};

use crate::cloud::{Cloud, Seen, unavailable};
use crate::console::{self, BAD, FAINT, GOOD, NAME, PLAIN, WARN};
use crate::exit::{Failure, Outcome};
use crate::history::{as_json as story_as_json, batches};
use crate::moment::when;
use crate::runbook::{in_a_shell, ledger_has, page_of_state};
use crate::table::{Cell, table};
use crate::words::{failure_state, remedy};

/// Batches of the partition that are shown.
const BATCHES: usize = 5;
/// Stories of the dataset that are read to find them.
const READ_AT_MOST: usize = 2_000;

/// Tell how a partition stands, what it went through, and what happens next
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The dataset
    pub(crate) dataset: String,
    /// The partition, such as dt=2026-11-01
    pub(crate) partition: String,
    /// Also ask the ledger in Redshift whether the batch in progress has committed
    #[arg(long)]
    pub(crate) ledger: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// All that is told.
struct Told {
    story: words::Story,
    hands: Hands,
    /// What somebody may do, and the runbook's page.
    remedy: Option<(&'static str, &'static str)>,
    /// The newest batches that ended, newest first.
    batches: Vec<(BatchId, Story)>,
    /// Of the newest of them that measured anything.
    guards: Vec<Guard>,
}

/// Tells it.
pub(crate) async fn run(arguments: &Show) -> Result<Outcome, Failure> {
    let cloud = Cloud::connect().await?;
    let seen = cloud.look(&arguments.dataset, &arguments.partition).await?;
    let now = cloud.ports.clock.now();
    let told = gather(&cloud, &seen, arguments.ledger, now).await?;
    if arguments.json {
        console::print_json(&as_json(&seen, &told))?;
    } else {
        console::print(&screen(&seen, &told, now))?;
    }
    Ok(Outcome::Done)
}

async fn gather(cloud: &Cloud, seen: &Seen, ledger: bool, now: Timestamp) -> Result<Told, Failure> {
    let story = words::story(&seen.head, &seen.definition, seen.item.as_ref(), cloud.config.settle, now);
    let Some(item) = &seen.item else {
        return Ok(Told { story, hands: Hands::NoBatch, remedy: None, batches: Vec::new(), guards: Vec::new() });
    };
    let mut hands = hands::of(&cloud.ports, &seen.head, &seen.id, item).await.map_err(unavailable)?;
    if let (true, Some(batch)) = (ledger, &item.batch)
        && ledger_has(cloud, seen, batch.id).await?
    {
        hands = Hands::Died(FailureState::AfterCommit);
    }
    let batches = ended(cloud, seen, item).await?;
    let measured = batches.iter().find(|(_, story)| !story.counts.is_empty());
    let guards = measured.map_or_else(Vec::new, |(_, story)| guards(&seen.definition, story.objects, &story.counts));
    Ok(Told { story, hands, remedy: what_to_do(item, hands), batches, guards })
}

/// The newest batches that ended: those among the dataset's newest, and the last that committed, however old.
async fn ended(cloud: &Cloud, seen: &Seen, item: &PartitionItem) -> Result<Vec<(BatchId, Story)>, Failure> {
    let (dataset, partition) = (&seen.id.dataset, &seen.id.partition);
    let since = Timestamp::UNIX_EPOCH;
    let wanted = Wanted { partition: Some(partition), since, limit: BATCHES, read_at_most: READ_AT_MOST };
    let mut batches = newest(&cloud.ports, dataset, wanted).await.map_err(unavailable)?.stories;
    if let Some(last) = item.last.as_ref().filter(|_| batches.len() < BATCHES)
        && batches.iter().all(|(batch, _)| *batch != last.batch)
        && let Some(story) = of_batch(&cloud.ports, dataset, last.batch).await.map_err(unavailable)?
    {
        batches.push((last.batch, story));
    }
    Ok(batches)
}

fn what_to_do(item: &PartitionItem, hands: Hands) -> Option<(&'static str, &'static str)> {
    if let Some(parked) = item.parked.as_ref().filter(|_| item.rests_parked()) {
        return Some(remedy(&parked.kind));
    }
    if let Hands::Died(state) = hands {
        return Some(("nothing: the next worker goes on with it", page_of_state(state)));
    }
    item.holds.as_ref().map(|holds| remedy(&holds.kind))
}

fn hands_line(hands: Hands, now: Timestamp) -> Option<String> {
    Some(match hands {
        Hands::NoBatch => return None,
        Hands::Left => "left in order by its worker, to be gone on with".to_owned(),
        Hands::AtWork { lease } => {
            format!("at it, or dead since a moment ago: its lease is over {}", when(lease, now))
        }
        Hands::Died(state) => {
            let what = match state {
                FailureState::BeforeStaging => "nothing of the batch is in redshift",
                FailureState::DuringStaging => "its staging left nothing, or a whole table; the target is untouched",
                FailureState::BeforeCommit => {
                    "verified, and the target is untouched, unless its swap has landed meanwhile: --ledger asks"
                }
                FailureState::AfterCommit => "its rows are in the target; only the confirmation is missing",
            };
            format!("died {NAME}{}{PLAIN}: {what}", failure_state(state))
        }
    })
}

fn screen(seen: &Seen, told: &Told, now: Timestamp) -> String {
    let story = &told.story;
    let colour = match story.state {
        words::State::Clean => GOOD,
        words::State::Parked => BAD,
        words::State::Unknown => NAME,
        words::State::Building | words::State::Held | words::State::Dirty => WARN,
    };
    let mut text = format!("{NAME}{}{PLAIN}: {colour}{}{PLAIN}\n", seen.id, story.state.name());
    let mut line = |label: &str, told: &str| {
        // Writing to a String can't fail.
        let _ = writeln!(text, "  {label:<11}{told}");
    };
    for (label, told) in &story.lines {
        line(label, told);
    }
    if let Some(worker) = hands_line(told.hands, now) {
        line("worker", &worker);
    }
    line("next", &story.next);
    if let Some((remedy, page)) = told.remedy {
        line("remedy", remedy);
        line("runbook", &format!("tidemark runbook {page} {}", in_a_shell(&seen.id)));
    }
    if !told.guards.is_empty() {
        let _ = write!(text, "\n{}", guard_table(&told.guards));
    }
    if !told.batches.is_empty() {
        let _ = write!(text, "\n{}", batches(&told.batches, false));
    }
    text
}

fn guard_table(guards: &[Guard]) -> String {
    let row = |guard: &Guard| {
        let number = |value: Option<u64>, none: &str| value.map_or_else(|| none.to_owned(), |value| value.to_string());
        let (word, style) = match guard.is_met() {
            Some(true) => ("met", GOOD),
            Some(false) => ("broken", BAD),
            None => ("not known", FAINT),
        };
        vec![
            Cell::text(guard.kind.name()),
            Cell::number(&number(guard.measured, "-")),
            Cell::number(&number(guard.allowed, "any")),
            Cell::text(guard.unit),
            Cell::text(word).styled(style),
            Cell::text(guard.rule.clone()),
        ]
    };
    table(&["guard", "measured", "allowed", "of", "", "rule"], guards.iter().map(row).collect())
}

fn as_json(seen: &Seen, told: &Told) -> Value {
    let guard = |guard: &Guard| {
        json!({
            "guard": guard.kind.name(), "measured": guard.measured, "allowed": guard.allowed, "of": guard.unit,
            "met": guard.is_met(), "rule": guard.rule,
        })
    };
    let died = match told.hands {
        Hands::Died(state) => Some(state),
        Hands::NoBatch | Hands::Left | Hands::AtWork { .. } => None,
    };
    json!({
        "dataset": seen.id.dataset,
        "partition": seen.id.partition,
        "state": told.story.state.name(),
        "failure_state": died,
        "next": told.story.next,
        "remedy": told.remedy.map(|(remedy, _)| remedy),
        "runbook": told.remedy.map(|(_, page)| page),
        "digest": seen.item.as_ref().and_then(crate::accept::shown_digest),
        "guards": told.guards.iter().map(guard).collect::<Vec<_>>(),
        "batches": told.batches.iter().map(story_as_json).collect::<Vec<_>>(),
        "head": seen.head,
        "item": seen.item,
    })
}
