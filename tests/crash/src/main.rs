//! `cargo crash`: the real functions on the local cloud, killed at every effect; ends in one line.
//!
//! A scenario is run once in peace, and the effects it made are its points. Each is then tried on its own: a function is
//! killed right before or right after it, killed twice in a row, stopped for longer than its lease and continued, or
//! Redshift's connection is broken. Right is a point after which, with no hand laid on, the partition is at rest, the target
//! holds the rows of the files as counted by the kit's own readers, no fence stands twice in the ledger, and no batch was
//! loaded twice. What is set short for it: rebuild's time-out 10 s, its lease 2 s longer, settling 1 s, the time after which
//! an unanswered message comes back 12 s; and where only sweep's wake is left, its five minutes are cut short.

mod contention;
mod lane;
mod oracle;
mod plan;
mod play;
mod points;
mod report;
mod rounds;
mod scenario;
mod trial;
mod worker;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use futures::future::{join_all, try_join_all};
use tidemark_kit::LocalCloud;
use tidemark_local::{Options, workspace_root};

use lane::Lane;
use points::{Point, Way};
use report::{Figures, Row};
use scenario::Scenario;

/// Kills the real functions at every effect, and looks whether everything ends right.
#[derive(Debug, Parser)]
#[command(
    name = "cargo crash",
    version,
    after_help = "Exits 1 when a point didn't end right. A row a point is told, and written as JSON."
)]
struct Arguments {
    /// Only points that have this in their name, such as `late file`, `submit swap`, `stopped`; more than once: any of them
    #[arg(long)]
    only: Vec<String>,
    /// Only tell the effects that scenarios make, and the points that would be tried
    #[arg(long)]
    list: bool,
    /// Stacks side by side
    #[arg(long, default_value_t = 10)]
    lanes: usize,
    /// Instead: sixteen invocations at once on one table, with random kills, for a minute
    #[arg(long)]
    contention: bool,
    /// With --contention: how long, in seconds
    #[arg(long, default_value_t = 100)]
    seconds: u64,
    /// With --contention: the seed of an earlier run
    #[arg(long)]
    seed: Option<u64>,
    /// Where the report goes; `.local/crash.json`, `.local/contention.json` where it isn't said
    #[arg(long)]
    report: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match crash(&Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn crash(arguments: &Arguments) -> Result<bool> {
    let cloud = LocalCloud::shared_with(Options { failpoints: true, ..Options::default() }).await?;
    println!("server logs: {}", cloud.logs().display());
    let name = if arguments.contention { "contention" } else { "crash" };
    let otherwise = || workspace_root().join(format!(".local/{name}.json"));
    let path = arguments.report.clone().unwrap_or_else(otherwise);
    if arguments.contention {
        contention::run(arguments.seconds, arguments.seed, &path).await?;
        return Ok(true);
    }
    worker::keep_binary(cloud)?;
    let began = Instant::now();
    let lanes = try_join_all((0..arguments.lanes.max(1)).map(|_| Lane::open())).await?;
    let traces = traces(&lanes).await;
    let in_peace = traces.len() == Scenario::ALL.len();
    let not_met = points::not_met(&traces)?;
    if !not_met.is_empty() {
        println!("effects that no scenario makes: {}", not_met.join(", "));
    }
    let mut points = points(&traces, &statements(&lanes).await?);
    let is_meant = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|part| name.contains(part));
    points.retain(|point| is_meant(&format!("{} {point}", point.scenario.name())));
    println!("{} points in {} lanes", points.len(), lanes.len());
    if arguments.list {
        for point in points {
            println!("{:<15} {point}", point.scenario.name());
        }
        return Ok(in_peace && not_met.is_empty());
    }
    let points = Mutex::new(VecDeque::from(points));
    println!("{}", report::HEAD);
    let rows = join_all(lanes.iter().map(|lane| work(lane, &points))).await;
    let rows: Vec<Row> = rows.into_iter().flatten().collect();
    let mut closed = true;
    for lane in &lanes {
        if let Err(error) = lane.close().await {
            println!("at the end: {error:#}");
            closed = false;
        }
    }
    let figures = Figures::of(&rows);
    report::write(&path, &rows, &figures, &not_met)?;
    println!("report: {}, {:.0} s", path.display(), began.elapsed().as_secs_f64());
    println!("{}", figures.line());
    Ok(closed && in_peace && not_met.is_empty() && figures.points > 0 && figures.right == figures.points)
}

/// The effects of each scenario, run in peace, side by side, in the order of the scenarios; one that fails is told and left out.
async fn traces(lanes: &[Lane]) -> Vec<(Scenario, Vec<String>)> {
    let left: Mutex<VecDeque<Scenario>> = Mutex::new(Scenario::ALL.into());
    let traced = lanes.iter().map(async |lane| {
        let mut traced = Vec::new();
        while let Some(scenario) = next(&left) {
            match lane.trace(scenario).await {
                Ok(effects) => {
                    println!("{}: {}", scenario.name(), effects.join(" > "));
                    traced.push((scenario, effects));
                }
                Err(error) => {
                    println!("{} failed in peace: {error:#}", scenario.name());
                    lane.start_over().await;
                }
            }
        }
        traced
    });
    let mut traces: Vec<_> = join_all(traced).await.into_iter().flatten().collect();
    traces.sort_unstable();
    traces
}

/// How many statements each submission has at most, by its name.
async fn statements(lanes: &[Lane]) -> Result<BTreeMap<String, usize>> {
    let mut most = BTreeMap::new();
    for lane in lanes {
        for (name, statements) in lane.world.submissions().await? {
            let known = most.entry(name).or_default();
            *known = statements.max(*known);
        }
    }
    Ok(most)
}

/// All points, those that take longest first.
fn points(traces: &[(Scenario, Vec<String>)], statements: &BTreeMap<String, usize>) -> Vec<Point> {
    let late = traces.iter().find(|(scenario, _)| *scenario == Scenario::Late).map_or(&[][..], |(_, late)| late);
    let mut all = points::twice(Scenario::Late, late);
    all.extend(points::zombies(Scenario::Late, late));
    all.extend(points::of_traces(traces).into_iter().rev());
    all.extend(points::broken(traces, statements));
    all.sort_by_key(|point| !point.is_slow());
    let other = [Way::BreakCopy, Way::BreakSwap, Way::LoseAnswer];
    all.extend(other.map(|way| Point { scenario: Scenario::Late, way }));
    all
}

fn next<T>(left: &Mutex<VecDeque<T>>) -> Option<T> {
    left.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

async fn work(lane: &Lane, points: &Mutex<VecDeque<Point>>) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Some(point) = next(points) {
        let row = lane.run(&point).await;
        println!("{}", row.line());
        rows.push(row);
    }
    rows
}
