//! `tidemark status [DATASET]...`: one screen of how every dataset stands, and what somebody has to look at.

mod month;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::Args;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidemark_domain::dataset::Mode;
use tidemark_domain::id::DatasetName;
use tidemark_engine::read::datasets::{self, Dataset};
use tidemark_engine::read::gauges::{self, Count, Gauges};

use crate::cloud::{Cloud, unavailable};
use crate::console::{self, BAD, FAINT, GOOD, NAME, PLAIN, WARN};
use crate::exit::{Failure, Outcome};
use crate::moment::{length, to_second, when};
use crate::table::{Cell, table};

/// Datasets asked for at once.
const AT_ONCE: usize = 16;
/// More datasets than this are shown only where there is something to see.
const ONE_SCREEN: usize = 20;
/// Sweep comes each minute; a task of it that waits longer than this tells that it doesn't.
const SWEEP_MAY_WAIT: SignedDuration = SignedDuration::from_mins(30);
/// Parked partitions named of a dataset.
const NAMED: usize = 3;

/// Tell how every dataset stands: what is dirty, building, parked, how old, and what is to be looked at
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Only these datasets
    #[arg(value_name = "DATASET")]
    pub(crate) datasets: Vec<String>,
    /// Also datasets with nothing to tell, where there are more than twenty
    #[arg(long)]
    pub(crate) all: bool,
    /// The five measures of a month instead, such as 2026-11; of the current one where none is given
    #[arg(long, value_name = "MONTH", num_args = 0..=1, default_missing_value = "current")]
    pub(crate) month: Option<month::Wanted>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A dataset and its gauges.
struct Stand {
    dataset: Dataset,
    gauges: Gauges,
    /// The first partition that isn't built, and whether that was counted now, or is as sweep last wrote it.
    watermark: Option<String>,
}

/// What somebody has to look at.
struct Problem {
    dataset: Option<DatasetName>,
    kind: &'static str,
    text: String,
    page: &'static str,
}

/// Shows it. Anything parked or halted, and a sweep that doesn't come, is a problem: exit code 1.
pub(crate) async fn run(arguments: &Status) -> Result<Outcome, Failure> {
    let cloud = Cloud::connect().await?;
    let chosen = chosen(&cloud, &arguments.datasets).await?;
    if let Some(month) = arguments.month {
        return month::run(&cloud, chosen, month, arguments.json).await;
    }
    let stands: Vec<Stand> =
        stream::iter(chosen).map(|dataset| stand(&cloud, dataset)).buffered(AT_ONCE).try_collect().await?;
    let now = cloud.ports.clock.now();
    let mut problems: Vec<Problem> = stands.iter().flat_map(|stand| problems(stand, now)).collect();
    problems.extend(sweep(&cloud, &stands, now).await?);
    if arguments.json {
        console::print_json(&as_json(&cloud, &stands, &problems, now))?;
    } else {
        console::print(&screen(&cloud, &stands, &problems, arguments.all, now))?;
    }
    Ok(if problems.is_empty() { Outcome::Done } else { Outcome::Problems })
}

/// The datasets of these names, or all.
pub(crate) async fn chosen(cloud: &Cloud, wanted: &[String]) -> Result<Vec<Dataset>, Failure> {
    let all = datasets::all(&cloud.ports).await.map_err(unavailable)?;
    if wanted.is_empty() {
        return Ok(all);
    }
    let find = |name: &String| {
        let found = all.iter().find(|dataset| dataset.name.as_str() == name).cloned();
        found.ok_or_else(|| cloud.no_dataset(name))
    };
    wanted.iter().map(find).collect()
}

async fn stand(cloud: &Cloud, dataset: Dataset) -> Result<Stand, Failure> {
    let gauges = gauges::of(&cloud.ports, &dataset.name).await.map_err(unavailable)?;
    let watermark = if gauges.unbuilt.is_empty() {
        None
    } else if gauges.is_whole() {
        let definition = cloud.definition(&dataset.name, &dataset.head).await?;
        gauges.watermark(&definition).map(|first| first.name.to_string())
    } else {
        dataset.head.watermark.clone()
    };
    Ok(Stand { dataset, gauges, watermark })
}

fn problems(stand: &Stand, now: Timestamp) -> Vec<Problem> {
    let (Dataset { name, head }, gauges) = (&stand.dataset, &stand.gauges);
    let mut problems = Vec::new();
    if head.mode == Mode::Halted {
        let why = head.why.as_deref().unwrap_or("no reason is stored");
        let probe = head.probe_at.map(|at| format!("; it is probed {}", when(at, now))).unwrap_or_default();
        let text = format!("halted since {}: {why}{probe}", when(head.since, now));
        problems.push(Problem { dataset: Some(name.clone()), kind: "halted", text, page: "halted" });
    }
    if gauges.parked.found > 0 {
        let kinds = kinds(&gauges.parked_kinds);
        let named: Vec<&str> = gauges.parked_first.iter().take(NAMED).map(|(name, _)| name.as_str()).collect();
        let more = gauges.parked.found.saturating_sub(named.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let text = format!("{} parked ({kinds}): {}{more}", shown(gauges.parked), named.join(", "));
        problems.push(Problem { dataset: Some(name.clone()), kind: "parked", text, page: "parked" });
    }
    problems
}

/// Sweep comes each minute: a task that has long been due tells that it doesn't.
async fn sweep(cloud: &Cloud, stands: &[Stand], now: Timestamp) -> Result<Option<Problem>, Failure> {
    let waits = gauges::sweep_waits_since(&cloud.ports).await.map_err(unavailable)?;
    let late = waits.filter(|since| !stands.is_empty() && now.duration_since(*since) > SWEEP_MAY_WAIT);
    Ok(late.map(|since| Problem {
        dataset: None,
        kind: "sweep",
        text: format!("sweep has had something to do since {}, and hasn't come", when(since, now)),
        page: "sweep-missing",
    }))
}

fn kinds(kinds: &BTreeMap<String, usize>) -> String {
    kinds.iter().map(|(kind, number)| format!("{number} {kind}")).collect::<Vec<_>>().join(", ")
}

fn shown(count: Count) -> String {
    format!("{}{}", count.found, if count.more { "+" } else { "" })
}

/// The mode, as it is shown and stored.
pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Active => "active",
        Mode::Paused => "paused",
        Mode::Halted => "halted",
        Mode::Retired => "retired",
    }
}

fn screen(cloud: &Cloud, stands: &[Stand], problems: &[Problem], all: bool, now: Timestamp) -> String {
    let mut text = format!("{NAME}{}{PLAIN} {FAINT}{}{PLAIN}\n", cloud.config.stack, to_second(now));
    if stands.is_empty() {
        text += "no dataset is in force; write a datasets.toml, then `tidemark apply datasets.toml`\n";
        return text;
    }
    let quiet = |stand: &&Stand| stand.gauges.unbuilt.is_empty() && stand.dataset.head.mode == Mode::Active;
    let gone = |stand: &&Stand| stand.gauges.unbuilt.is_empty() && stand.dataset.head.mode == Mode::Retired;
    let hides = stands.len() > ONE_SCREEN && !all;
    let (hidden, seen): (Vec<&Stand>, Vec<&Stand>) =
        stands.iter().partition(|stand| hides && (quiet(stand) || gone(stand)));
    if !seen.is_empty() {
        let rows = seen.iter().map(|stand| row(stand, now)).collect();
        text.push('\n');
        text += &table(&["dataset", "mode", "dirty", "building", "held", "parked", "oldest", "not built from"], rows);
    }
    // Writing to a String can't fail.
    if !hidden.is_empty() {
        let _ = writeln!(text, "\n{} more datasets have nothing to do (--all shows them)", hidden.len());
    }
    for stand in seen.iter().filter(|stand| stand.dataset.head.mode == Mode::Paused) {
        let head = &stand.dataset.head;
        let why = head.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let name = &stand.dataset.name;
        let _ =
            writeln!(text, "\n{WARN}paused{PLAIN} {NAME}{name}{PLAIN} by {}, {}{why}", head.by, when(head.since, now));
    }
    for problem in problems {
        let whose = problem.dataset.as_ref().map(|name| format!("{NAME}{name}{PLAIN} ")).unwrap_or_default();
        let _ = writeln!(text, "\n{BAD}{}{PLAIN} {whose}{}", problem.kind, problem.text);
        let _ = writeln!(text, "  {FAINT}tidemark runbook {}{PLAIN}", problem.page);
    }
    if problems.is_empty() {
        let _ = writeln!(text, "\n{GOOD}nothing waits for anybody{PLAIN}");
    }
    text
}

fn row(stand: &Stand, now: Timestamp) -> Vec<Cell> {
    let (gauges, head) = (&stand.gauges, &stand.dataset.head);
    let style = match head.mode {
        Mode::Active => GOOD,
        Mode::Paused => WARN,
        Mode::Halted => BAD,
        Mode::Retired => FAINT,
    };
    let oldest = gauges.oldest.as_ref().map(|(_, since)| length(now.duration_since(*since).as_secs().unsigned_abs()));
    let parked = Cell::number(&shown(gauges.parked));
    vec![
        Cell::text(stand.dataset.name.to_string()),
        Cell::text(mode(head.mode)).styled(style),
        Cell::number(&shown(gauges.dirty)),
        Cell::number(&shown(gauges.building)),
        Cell::number(&gauges.held.values().sum::<usize>()),
        if gauges.parked.found > 0 { parked.styled(BAD) } else { parked },
        Cell::text(oldest.unwrap_or_else(|| "-".to_owned())),
        Cell::text(stand.watermark.clone().unwrap_or_else(|| "-".to_owned())),
    ]
}

fn as_json(cloud: &Cloud, stands: &[Stand], problems: &[Problem], now: Timestamp) -> Value {
    let dataset = |stand: &Stand| {
        let (Dataset { name, head }, gauges) = (&stand.dataset, &stand.gauges);
        let oldest = gauges.oldest.as_ref();
        json!({
            "dataset": name,
            "mode": head.mode,
            "why": head.why,
            "since": to_second(head.since),
            "by": head.by,
            "probe_at": head.probe_at.map(to_second),
            "dirty": gauges.dirty.found,
            "building": gauges.building.found,
            "held": gauges.held,
            "parked": gauges.parked.found,
            "parked_kinds": gauges.parked_kinds,
            "counted": gauges.is_whole(),
            "oldest_dirty": oldest.map(|(name, _)| name),
            "oldest_dirty_seconds": oldest.map(|(_, since)| now.duration_since(*since).as_secs()),
            "not_built_from": stand.watermark,
        })
    };
    let problem = |problem: &Problem| json!({ "dataset": problem.dataset, "kind": problem.kind, "text": problem.text, "runbook": problem.page });
    json!({
        "stack": cloud.config.stack.as_str(),
        "at": to_second(now),
        "datasets": stands.iter().map(dataset).collect::<Vec<_>>(),
        "problems": problems.iter().map(problem).collect::<Vec<_>>(),
    })
}
