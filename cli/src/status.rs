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
use tidemark_engine::read::gauges::{self, Comes, Count, Gauges, Sweep};

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
/// A stack whose datasets are younger than this may not have had its first sweep yet.
const FIRST_SWEEP_MAY_TAKE: SignedDuration = SignedDuration::from_mins(5);
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

/// Shows it. Anything parked or halted, and a sweep that doesn't come or whose tasks fail, is a problem: exit code 1.
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
    let sweep = gauges::sweep(&cloud.ports).await.map_err(unavailable)?;
    problems.extend(sweep_problem(sweep.comes, &stands, now));
    problems.extend(failing(&sweep, now));
    let swept = sweep.comes != Comes::Never;
    let told = Screen { cloud: &cloud, stands: &stands, problems: &problems, swept, now };
    if arguments.json {
        console::print_json(&as_json(&told))?;
    } else {
        console::print(&screen(&told, arguments.all))?;
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
    if gauges.parked.found > 0 && head.mode != Mode::Retired {
        let kinds = kinds(&gauges.parked_kinds);
        let named: Vec<&str> = gauges.parked_first.iter().take(NAMED).map(|(name, _)| name.as_str()).collect();
        let more = gauges.parked.found.saturating_sub(named.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let text = format!("{} parked ({kinds}): {}{more}", shown(gauges.parked), named.join(", "));
        problems.push(Problem { dataset: Some(name.clone()), kind: "parked", text, page: "parked" });
    }
    problems
}

/// Sweep comes each minute: a task that has long been due tells that it doesn't, and so does a stack without any.
fn sweep_problem(sweep: Comes, stands: &[Stand], now: Timestamp) -> Option<Problem> {
    let oldest = stands.iter().map(|stand| stand.dataset.head.since).min()?;
    let text = match sweep {
        Comes::WaitsSince(since) if now.duration_since(since) > SWEEP_MAY_WAIT => {
            format!("sweep has had something to do since {}, and hasn't come", when(since, now))
        }
        Comes::Never if now.duration_since(oldest) > FIRST_SWEEP_MAY_TAKE => format!(
            "sweep has never run here, though a dataset is in force since {}: what was put off or lost is never woken. Is the \
             schedule there and enabled, may it invoke the function, and does that not fail at once?",
            when(oldest, now)
        ),
        Comes::Never | Comes::InTime | Comes::WaitsSince(_) => return None,
    };
    Some(Problem { dataset: None, kind: "sweep", text, page: "sweep-missing" })
}

/// Tasks of sweep that fail, and have for long.
fn failing(sweep: &Sweep, now: Timestamp) -> impl Iterator<Item = Problem> {
    sweep.failing.iter().map(move |(task, dataset, failing)| {
        let text =
            format!("sweep's {} has failed since {}, last: {}", task.as_str(), when(failing.since, now), failing.why);
        Problem { dataset: dataset.clone(), kind: "sweep", text, page: "sweep-tasks-failing" }
    })
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

/// All that is told.
struct Screen<'a> {
    cloud: &'a Cloud,
    stands: &'a [Stand],
    problems: &'a [Problem],
    /// Sweep has been there.
    swept: bool,
    now: Timestamp,
}

fn screen(told: &Screen<'_>, all: bool) -> String {
    let &Screen { cloud, stands, problems, swept, now } = told;
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
    if problems.is_empty() && !swept {
        let _ = writeln!(
            text,
            "\n{WARN}sweep hasn't run yet{PLAIN}: it comes each minute; nothing that waits for it moves before"
        );
    } else if problems.is_empty() {
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

fn as_json(told: &Screen<'_>) -> Value {
    let &Screen { cloud, stands, problems, swept, now } = told;
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
        "swept": swept,
        "datasets": stands.iter().map(dataset).collect::<Vec<_>>(),
        "problems": problems.iter().map(problem).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    /// What is told of sweep, where a dataset is in force for so many minutes.
    fn told(sweep: Comes, minutes: i64) -> String {
        let head = json!({
            "hash": "0".repeat(64), "epoch": 1, "mode": "active", "concurrency": "table", "since": 0, "by": "alice",
        });
        let dataset =
            Dataset { name: DatasetName::new("orders").unwrap(), head: serde_json::from_value(head).unwrap() };
        let stand = Stand { dataset, gauges: Gauges::default(), watermark: None };
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
        let problem = sweep_problem(sweep, &[stand], now);
        problem.map_or_else(|| "nothing".to_owned(), |problem| format!("{}: {}", problem.page, problem.text))
    }

    #[test]
    fn a_sweep_that_never_came_or_comes_no_more_is_told() {
        let due = Comes::WaitsSince(Timestamp::UNIX_EPOCH);
        assert_eq!([told(Comes::InTime, 600), told(due, 29), told(Comes::Never, 4)], ["nothing"; 3]);
        expect![
            "sweep-missing: sweep has had something to do since 1970-01-01T00:00:00Z (31 minutes ago), and hasn't come"
        ]
        .assert_eq(&told(due, 31));
        expect!["sweep-missing: sweep has never run here, though a dataset is in force since 1970-01-01T00:00:00Z (6 minutes ago): what was put off or lost is never woken. Is the schedule there and enabled, may it invoke the function, and does that not fail at once?"].assert_eq(&told(Comes::Never, 6));
    }
}
