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
mod plan;
mod points;
mod report;
mod scenario;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use futures::future::{join_all, try_join_all};
use tidemark_kit::LocalCloud;
use tidemark_local::{Options, workspace_root};

use lane::Lane;
use points::{Point, Way};
use report::{Figures, Row};
use scenario::Scenario;

/// Rebuild's time-out in ordinary lanes: the least the template allows.
const TIMEOUT_SECONDS: u32 = 10;
/// Where a worker is stopped it has to outlive another's whole rebuild.
const ZOMBIE_TIMEOUT_SECONDS: u32 = 30;

/// Kills the real functions at every effect, and looks whether everything ends right.
#[derive(Debug, Parser)]
#[command(
    name = "cargo crash",
    version,
    after_help = "Exits 1 when a point didn't end right. A row a point is told, and written as JSON."
)]
struct Arguments {
    /// Only points that have this in their name, such as `twice`, `late file`, `submit swap`, `stopped`
    #[arg(long, default_value = "")]
    only: String,
    /// Stacks side by side
    #[arg(long, default_value_t = 6)]
    lanes: usize,
    /// Instead: sixteen invocations at once on one table, with random kills, for a minute
    #[arg(long)]
    contention: bool,
    /// With --contention: how long, in seconds
    #[arg(long, default_value_t = 60)]
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
    let began = Instant::now();
    let mut lanes = try_join_all((0..arguments.lanes.max(1)).map(|_| Lane::open(TIMEOUT_SECONDS))).await?;
    let mut zombies = Lane::open(ZOMBIE_TIMEOUT_SECONDS).await?;
    let traces = traces(&mut lanes).await?;
    let not_met = points::not_met(&traces)?;
    println!("effects that no scenario makes: {}", not_met.join(", "));
    let (mut ordinary, mut stopped) = points(&traces)?;
    for points in [&mut ordinary, &mut stopped] {
        points.retain(|point| format!("{} {point}", point.scenario.name()).contains(&arguments.only));
    }
    println!("{} points in {} lanes", ordinary.len() + stopped.len(), lanes.len() + 1);
    let (ordinary, stopped) = (Mutex::new(ordinary), Mutex::new(stopped));
    let mut all: Vec<_> = lanes.iter_mut().map(|lane| (lane, &ordinary)).collect();
    all.push((&mut zombies, &stopped));
    let rows = join_all(all.into_iter().map(|(lane, points)| work(lane, points))).await;
    let rows: Vec<Row> = rows.into_iter().flatten().collect();
    let mut closed = true;
    for lane in lanes.iter().chain([&zombies]) {
        if let Err(error) = lane.close().await {
            println!("at the end: {error:#}");
            closed = false;
        }
    }
    let figures = Figures::of(&rows);
    report::write(&path, &rows, &figures, &not_met)?;
    println!("report: {}, {:.0} s", path.display(), began.elapsed().as_secs_f64());
    println!("{}", figures.line());
    Ok(closed && figures.points > 0 && figures.right == figures.points)
}

/// The effects of each scenario, run in peace, side by side.
async fn traces(lanes: &mut [Lane]) -> Result<Vec<(Scenario, Vec<String>)>> {
    let mut traces = Vec::new();
    for scenarios in Scenario::ALL.chunks(lanes.len()) {
        let traced = scenarios.iter().zip(lanes.iter_mut()).map(async |(scenario, lane)| {
            let effects =
                lane.trace(*scenario).await.with_context(|| format!("{} failed in peace", scenario.name()))?;
            println!("{}: {}", scenario.name(), effects.join(" > "));
            anyhow::Ok((*scenario, effects))
        });
        traces.extend(try_join_all(traced).await?);
    }
    Ok(traces)
}

/// The points of ordinary lanes, those that take longest first, and those of zombies.
fn points(traces: &[(Scenario, Vec<String>)]) -> Result<(VecDeque<Point>, VecDeque<Point>)> {
    let (_, late) = traces.first().context("no scenario was traced")?;
    let mut ordinary = points::twice(Scenario::Late, late);
    let mut once = points::of_traces(traces);
    once.reverse();
    ordinary.extend(once);
    let other = [Way::BreakCopy, Way::BreakSwap, Way::LoseAnswer];
    ordinary.extend(other.map(|way| Point { scenario: Scenario::Late, way }));
    Ok((ordinary.into(), points::zombies(Scenario::Late, late).into()))
}

async fn work(lane: &mut Lane, points: &Mutex<VecDeque<Point>>) -> Vec<Row> {
    let next = || points.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let mut rows = Vec::new();
    while let Some(point) = next() {
        let row = lane.run(&point).await;
        println!("{}", row.line());
        rows.push(row);
    }
    rows
}
