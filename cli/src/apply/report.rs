//! A plan in words, and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tidemark_domain::apply::{Ownership, Status};
use tidemark_domain::definition::ForeignRows;
use tidemark_domain::id::PartitionName;
use tidemark_domain::job::MARKED_AT_ONCE;
use tidemark_engine::apply::{DatasetPlan, Done, Misfit, Plan};

use crate::console::{BAD, FAINT, GOOD, NAME, PLAIN, WARN};
use crate::file::count;

/// Of a list of partitions so many are named.
const NAMED: usize = 5;

/// What will be done, dataset by dataset, and what speaks against it.
pub(super) fn plan(plan: &Plan) -> String {
    let mut text = String::new();
    for dataset in plan.datasets.iter().filter(|dataset| !dataset.is_empty()) {
        write_dataset(&mut text, dataset);
    }
    let unchanged: Vec<&str> = plan.datasets.iter().filter(|dataset| dataset.is_empty()).map(name).collect();
    if !unchanged.is_empty() {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{FAINT}unchanged: {}{PLAIN}", unchanged.join(", "));
    }
    for problem in &plan.problems {
        let _ = writeln!(text, "{BAD}problem{PLAIN}: {problem}");
    }
    text
}

fn name(dataset: &DatasetPlan) -> &str {
    dataset.comparison.dataset.as_str()
}

fn write_dataset(text: &mut String, dataset: &DatasetPlan) {
    let status = word(dataset.comparison.status);
    let colour = if dataset.comparison.status == Status::Retired { WARN } else { GOOD };
    let _ = write!(text, "{NAME}{}{PLAIN}: {colour}{status}{PLAIN}", name(dataset));
    if let Some(definition) = &dataset.definition {
        let _ = write!(text, ", {} into {}", definition.source, definition.target);
    }
    text.push('\n');
    for difference in &dataset.comparison.differences {
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "(not set)".to_owned());
        let (before, after) = (side(&difference.before), side(&difference.after));
        let _ = writeln!(text, "  {}: {before} -> {after}", difference.setting);
    }
    if let Some(ownership) = dataset.ownership {
        write_epoch(text, dataset, ownership);
    }
    if dataset.comparison.status == Status::Retired {
        text.push_str("  its marks are acknowledged and nothing of it is rebuilt any more; the rows stay\n");
    }
    write_partitions(text, dataset);
}

fn write_epoch(text: &mut String, dataset: &DatasetPlan, ownership: Ownership) {
    let before = dataset.head.as_ref().map(|head| head.epoch);
    let reasons = &dataset.comparison.raises_epoch;
    let why = if ownership.takes_over {
        "its target is taken from another owner".to_owned()
    } else if !reasons.is_empty() {
        format!("what a partition owns changes: {}", reasons.join(", "))
    } else {
        "head and guard row differed".to_owned()
    };
    match before {
        Some(before) if before != ownership.epoch => {
            let _ = writeln!(text, "  epoch: {before} -> {}, since {why}", ownership.epoch);
        }
        Some(_) if ownership.write_guard => {
            let _ = writeln!(text, "  epoch: the guard row is set to {}, since {why}", ownership.epoch);
        }
        Some(_) => {}
        None => {
            let taken = if ownership.takes_over { format!(", since {why}") } else { String::new() };
            let _ = writeln!(text, "  epoch: {}{taken}", ownership.epoch);
        }
    }
}

fn write_partitions(text: &mut String, dataset: &DatasetPlan) {
    if dataset.comparison.marks {
        let names: Vec<&str> = dataset.marks.iter().map(PartitionName::as_str).collect();
        let by = if names.len() > MARKED_AT_ONCE { ", by a job, so that new files never wait behind them" } else { "" };
        let _ = writeln!(text, "  marks {}{}{by}", count(names.len(), "partition"), named(&names));
    }
    if !dataset.stay.is_empty() {
        let names: Vec<&str> = dataset.stay.iter().map(PartitionName::as_str).collect();
        let partitions = count(names.len(), "partition");
        let _ = writeln!(text, "  leaves {partitions} that lie before the lookback as they are{}", named(&names));
    }
    write_sample(text, dataset);
    if dataset.not_yielded > 0 {
        let partitions = count(dataset.not_yielded, "partition");
        let _ = writeln!(text, "  {WARN}leaves{PLAIN} {partitions} that the layout no longer yields: their rows stay");
    }
    if dataset.foreign.is_empty() {
        return;
    }
    let rows: u64 = dataset.foreign.iter().map(|foreign| foreign.rows).sum();
    let names: Vec<&str> = dataset.foreign.iter().map(|foreign| foreign.partition.as_str()).collect();
    let accepts = dataset.definition.as_ref().is_some_and(|d| d.tolerance.foreign_rows == ForeignRows::Accept);
    let then = if accepts { "a rebuild deletes them" } else { "a rebuild parks for them (foreign_rows)" };
    let least = if dataset.foreign_cut { "at least " } else { "" };
    let _ = writeln!(
        text,
        "  {WARN}foreign rows{PLAIN}: {least}{rows} of {} in the target, written by no batch of ours; {then}{}",
        count(names.len(), "partition"),
        named(&names)
    );
}

/// What a look at some of the files showed, where the definition reads them otherwise than before.
fn write_sample(text: &mut String, dataset: &DatasetPlan) {
    let Some(sample) = dataset.sample.as_ref().filter(|_| !dataset.marks.is_empty()) else { return };
    if sample.files == 0 {
        text.push_str("  its files don't tell their columns; those that don't fit park their partition, by name\n");
        return;
    }
    let (files, partitions) = (count(sample.files, "file"), count(sample.partitions, "partition"));
    if !sample.headers.is_empty() {
        let differ = count(sample.headers.len(), "partition");
        let _ = writeln!(
            text,
            "  looked at the header of {files}: {WARN}it names other columns in {differ}{PLAIN}, which COPY passes over: it takes \
             columns by position"
        );
        write_misfits(text, &sample.headers);
        return;
    }
    let looked = format!("looked at {files} of {partitions}, the oldest and the newest of each");
    if sample.misfits.is_empty() {
        let _ = writeln!(text, "  {looked}: all fit");
        return;
    }
    let parks = count(sample.misfits.len(), "partition");
    let _ = writeln!(text, "  {looked}: {WARN}{parks} would be parked{PLAIN} for files that don't fit");
    write_misfits(text, &sample.misfits);
}

fn write_misfits(text: &mut String, misfits: &[Misfit]) {
    for misfit in misfits.iter().take(NAMED) {
        let _ = writeln!(text, "    {}: {}", misfit.partition, misfit.why);
    }
    if misfits.len() > NAMED {
        let _ = writeln!(text, "    and {} more", misfits.len() - NAMED);
    }
}

fn named(names: &[&str]) -> String {
    let (first, more) = names.split_at(names.len().min(NAMED));
    match (first.is_empty(), more.len()) {
        (true, _) => String::new(),
        (false, 0) => format!(": {}", first.join(", ")),
        (false, more) => format!(": {} and {more} more", first.join(", ")),
    }
}

fn word(status: Status) -> &'static str {
    match status {
        Status::New => "new",
        Status::Changed => "changed",
        Status::Returned => "back from retirement",
        Status::Unchanged => "unchanged, to be finished",
        Status::Retired => "retired",
    }
}

/// What was done.
pub(super) fn done(done: Done) -> String {
    let mut text = format!("{GOOD}done{PLAIN}: {} marked", count(done.marked, "partition"));
    let waiting = done.marked - done.sent - done.unsent;
    if waiting > 0 {
        let _ = write!(text, ", {waiting} of them had a message outstanding");
    }
    if done.unsent > 0 {
        let _ = write!(text, ", {} couldn't be sent a message: sweep wakes them within five minutes", done.unsent);
    }
    if done.by_jobs > 0 {
        let left = count(done.by_jobs, "partition");
        let _ = write!(text, "; {left} left to a job, a few a minute: `tidemark backfill --list` shows it");
    }
    text.push('\n');
    text
}

/// The plan, and what was done, for programs.
pub(super) fn json(plan: &Plan, will: bool, done: Done) -> Value {
    let datasets: Vec<Value> = plan.datasets.iter().map(dataset_json).collect();
    json!({
        "datasets": datasets,
        "problems": plan.problems,
        "applied": will,
        "marked": done.marked,
        "by_jobs": done.by_jobs,
        "sent": done.sent,
    })
}

fn dataset_json(dataset: &DatasetPlan) -> Value {
    let comparison = &dataset.comparison;
    let differences: Vec<Value> = comparison
        .differences
        .iter()
        .map(|d| json!({ "setting": d.setting, "before": d.before, "after": d.after }))
        .collect();
    let foreign: Vec<Value> =
        dataset.foreign.iter().map(|f| json!({ "partition": f.partition, "rows": f.rows })).collect();
    json!({
        "dataset": comparison.dataset,
        "status": match comparison.status {
            Status::New => "new",
            Status::Changed => "changed",
            Status::Returned => "returned",
            Status::Unchanged => "unchanged",
            Status::Retired => "retired",
        },
        "differences": differences,
        "raises_epoch": comparison.raises_epoch,
        "epoch": dataset.ownership.map(|ownership| ownership.epoch.0),
        "takes_over": dataset.ownership.is_some_and(|ownership| ownership.takes_over),
        "marks": dataset.marks,
        "stay": dataset.stay,
        "not_yielded": dataset.not_yielded,
        "sample": dataset.sample.as_ref().map(|sample| json!({
            "files": sample.files,
            "partitions": sample.partitions,
            "misfits": told(&sample.misfits),
            "headers": told(&sample.headers),
        })),
        "foreign_rows": foreign,
    })
}

fn told(misfits: &[Misfit]) -> Vec<Value> {
    misfits.iter().map(|misfit| json!({ "partition": misfit.partition, "why": misfit.why })).collect()
}
