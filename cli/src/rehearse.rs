//! `tidemark replay --rehearse`: what a rebuild would come to.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};
use tidemark_domain::verify::GuardKind;
use tidemark_engine::rehearse::Rehearsal;
use tidemark_engine::selection::Chosen;

use crate::cloud::{Cloud, Known, unavailable};
use crate::console::{self, BAD, FAINT, GOOD, NAME, PLAIN, WARN};
use crate::exit::{Failure, Outcome};
use crate::file::count;
use crate::moment;

/// Rehearses them one by one. One that wouldn't land is a problem.
pub(crate) async fn run(
    cloud: &Cloud,
    known: &Known,
    chosen: &[Chosen],
    kinds: &BTreeSet<GuardKind>,
    json: bool,
) -> Result<Outcome, Failure> {
    let mut told = Vec::new();
    let mut outcome = Outcome::Done;
    for chosen in chosen {
        let id = known.id(&chosen.partition.name);
        let rehearsal = cloud.engine.rehearse(&id, kinds).await.map_err(|error| unavailable(error).about(&id))?;
        if !rehearsal.is_good() {
            outcome = Outcome::Problems;
        }
        if json {
            told.push(in_json(&rehearsal));
        } else {
            console::print(&in_words(&rehearsal))?;
        }
    }
    if json {
        console::print_json(&Value::Array(told))?;
    } else if chosen.is_empty() {
        console::print("nothing to do: no partition is meant\n")?;
    }
    Ok(outcome)
}

fn in_words(rehearsal: &Rehearsal) -> String {
    let good = rehearsal.is_good();
    let (colour, word) = if good { (GOOD, "would land") } else { (BAD, "would not land") };
    let took = moment::length(rehearsal.seconds);
    let mut text =
        format!("{NAME}{}{PLAIN}: {colour}{word}{PLAIN} {FAINT}(rehearsed in {took}){PLAIN}\n", rehearsal.id);
    let mut line = |label: &str, told: String| {
        // Writing to a String can't fail.
        let _ = writeln!(text, "  {label:<11}{told}");
    };
    if let Some(listed) = &rehearsal.listed {
        let rows = listed.rows.map(|rows| format!(", {rows} rows by their footers")).unwrap_or_default();
        let objects = count(usize::try_from(listed.objects).unwrap_or(usize::MAX), "object");
        let same = if rehearsal.unchanged { "; what was committed last" } else { "" };
        line("listed", format!("{objects}, {} bytes{rows}{same} (digest {})", listed.bytes, listed.digest));
    }
    if let Some(counts) = &rehearsal.counts {
        let rejected = rehearsal.loads.map(|loads| format!(", {} rejected", loads.rejected_rows)).unwrap_or_default();
        line("staged", format!("{} rows{rejected}, {} duplicates", counts.staged_rows, counts.duplicate_rows));
        let foreign = match counts.foreign_rows {
            0 => String::new(),
            rows => format!(", {rows} of them written by no batch of ours"),
        };
        line("target", format!("{} rows of the partition now{foreign}", counts.target_rows));
    }
    if let Some(failure) = &rehearsal.failure {
        line("failure", failure.clone());
    }
    if !rehearsal.verdict.is_good() {
        line("verdict", rehearsal.verdict.message());
    }
    if let Some(table) = &rehearsal.left {
        line("left", format!("{WARN}{table}{PLAIN} couldn't be dropped; sweep does it after seven days"));
    }
    line("touched", "nothing: the partition and its target are as they were".to_owned());
    text
}

fn in_json(rehearsal: &Rehearsal) -> Value {
    let problems: Vec<Value> = rehearsal
        .verdict
        .problems
        .iter()
        .map(|problem| {
            json!({
                "kind": problem.kind.name(), "measured": problem.measured, "allowed": problem.allowed,
                "told": problem.sentence, "remedy": problem.remedy,
            })
        })
        .collect();
    json!({
        "dataset": rehearsal.id.dataset,
        "partition": rehearsal.id.partition,
        "would_land": rehearsal.is_good(),
        "unchanged": rehearsal.unchanged,
        "listed": rehearsal.listed,
        "staged_rows": rehearsal.counts.as_ref().map(|counts| counts.staged_rows),
        "duplicate_rows": rehearsal.counts.as_ref().map(|counts| counts.duplicate_rows),
        "target_rows": rehearsal.counts.as_ref().map(|counts| counts.target_rows),
        "foreign_rows": rehearsal.counts.as_ref().map(|counts| counts.foreign_rows),
        "rejected_rows": rehearsal.loads.map(|loads| loads.rejected_rows),
        "problems": problems,
        "failure": rehearsal.failure,
        "left": rehearsal.left,
        "seconds": rehearsal.seconds,
    })
}
