//! Contention: sixteen real invocations at once on one table, whose lock only one may hold, while files land and functions
//! are killed at random.
//!
//! Right is an end at which every partition is right as the oracle says (no row twice, no mark lost, nobody waits for ever), and
//! no statement ended in a deadlock.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::Value;
use tidemark_kit::state::Queue;
use tidemark_kit::story::View;
use tidemark_kit::{Dataset, Partition, Settings, World, orders};

use crate::lane::COMES_BACK_SECONDS;
use crate::oracle::{Before, Seen};
use crate::plan::now;

/// So many invocations have to be seen at the same time.
const AT_ONCE: usize = 16;
/// Messages kept on their way, each in a group of its own, so that the queue holds none of them back. Most of them wait: what
/// finds the lock busy comes back after some seconds.
const MESSAGES: u64 = 80;
/// Partitions of the table.
const DAYS: usize = 8;
/// Rows of each file.
const ROWS: usize = 10;
/// Between two files, on average.
const FILE_EVERY: Duration = Duration::from_millis(700);
/// Between two kills, on average.
const KILL_EVERY: Duration = Duration::from_secs(4);

/// What a minute of it came to.
#[derive(Debug, Default, Serialize)]
struct Figures {
    seed: u64,
    files: i64,
    kills: u64,
    /// Processes of rebuild at the same time: the most, and in the median of all looks.
    processes: usize,
    median_processes: usize,
    /// Invocations that ended by themselves.
    invocations: usize,
    /// Times the lock was taken.
    takes: i64,
    /// Times it was busy: the message went back to wait.
    waits: usize,
    /// Invocations that found nothing to do.
    wasted: usize,
    /// Rebuilds that landed.
    landed: usize,
    seconds_to_rest: f64,
}

/// Runs it for `seconds` and tells what came of it.
pub(crate) async fn run(seconds: u64, seed: Option<u64>, report: &Path) -> Result<()> {
    let seed = seed.unwrap_or_else(|| u64::try_from(now().as_millis()).unwrap_or(0));
    println!(
        "seed {seed} (`cargo crash --contention --seed {seed}`; what the machine does in between is chance all the same)"
    );
    let orders_alone = Settings::default().definitions;
    let settings = Settings {
        definitions: orders_alone.replacen("concurrency = \"partition\"", "concurrency = \"table\"", 1),
        lease_margin_seconds: 2,
        ..Settings::default()
    };
    let world = World::with(&settings).await?;
    for queue in [Queue::Events, Queue::Partitions] {
        world.come_back_after(queue, COMES_BACK_SECONDS).await?;
    }
    let days: Vec<Partition> = (1..=DAYS).map(|day| Dataset::Orders.day(&format!("2026-11-{day:02}"))).collect();
    let mut figures = Figures { seed, ..Figures::default() };
    contend(&world, &days, Duration::from_secs(seconds), &mut figures).await?;
    let stopped = Instant::now();
    let views = rest(&world, &days).await?;
    figures.seconds_to_rest = stopped.elapsed().as_secs_f64();
    for (day, view) in days.iter().zip(views) {
        figures.takes += view.item.number("fence");
        figures.landed += view.landed.len();
        let seen = Seen::of(&world, day, view, &Before { fence: 0, landed: 0 }).await?;
        seen.is_right(false).with_context(|| day.to_string())?;
    }
    let deadlocks = "SELECT count(*) FROM redshift_local.query_history WHERE error_message ILIKE '%deadlock%'";
    let deadlocks = world.count(deadlocks).await?;
    ensure!(deadlocks == 0, "{deadlocks} statements ended in a deadlock");
    let processes = figures.processes;
    ensure!(processes >= AT_ONCE, "no more than {processes} invocations ran at the same time");
    let dead = world.depth(Queue::EventsDlq).await? + world.depth(Queue::PartitionsDlq).await?;
    ensure!(dead == 0, "{dead} messages were given up");
    count_log(&world, &mut figures).await?;
    std::fs::write(report, format!("{:#}\n", serde_json::to_value(&figures)?)).context("cannot write the report")?;
    println!("report: {}", report.display());
    println!(
        "{} files in {DAYS} partitions, {} kills, up to {} processes at once, {} in the median: {} lock takes, {} waits, {} invocations of which \
         {} found nothing to do, {} rebuilds landed; every partition right {:.0} s after the last kill",
        figures.files,
        figures.kills,
        figures.processes,
        figures.median_processes,
        figures.takes,
        figures.waits,
        figures.invocations,
        figures.wasted,
        figures.landed,
        figures.seconds_to_rest
    );
    Ok(())
}

async fn contend(world: &World, days: &[Partition], during: Duration, figures: &mut Figures) -> Result<()> {
    let rebuild = world.stack.output("RebuildFunctionName")?;
    let mut dice = Dice(figures.seed);
    let began = Instant::now();
    let (mut next_file, mut next_kill) = (Duration::ZERO, KILL_EVERY);
    let mut tick = tokio::time::interval(Duration::from_millis(250));
    let mut looks = Vec::new();
    while began.elapsed() < during {
        tick.tick().await;
        let pids = world.stack.function_pids(rebuild);
        looks.push(pids.len());
        if began.elapsed() >= next_file {
            next_file += dice.about(FILE_EVERY);
            figures.files += 1;
            let day = &days[dice.below(days.len())];
            let rows = orders::orders(figures.files * 100, ROWS);
            world.put_orders(&day.file(&format!("{}.parquet", figures.files)), &rows).await?;
        }
        if began.elapsed() >= next_kill && !pids.is_empty() {
            next_kill += dice.about(KILL_EVERY);
            let pid = pids[dice.below(pids.len())];
            // It may be gone by itself.
            figures.kills += u64::from(Command::new("kill").args(["-KILL", &pid.to_string()]).status()?.success());
        }
        for _ in world.depth(Queue::Partitions).await?..MESSAGES {
            world.look(&days[dice.below(days.len())]).await?;
        }
    }
    looks.sort_unstable();
    figures.processes = looks.last().copied().unwrap_or(0);
    figures.median_processes = looks.get(looks.len() / 2).copied().unwrap_or(0);
    Ok(())
}

/// Waits until every partition is at rest and true. Where only sweep's wake is left, its minutes are cut short.
async fn rest(world: &World, days: &[Partition]) -> Result<Vec<View>> {
    let mut views = Vec::new();
    for day in days {
        let probe = || async {
            let Some(item) = world.item(day).await? else { return Ok(None) };
            if item.rests() {
                return Ok(world.view(day).await?.filter(View::is_true));
            }
            world.wake(day).await?;
            Ok(None)
        };
        views.push(world.wait("rest and truth", day, probe).await?);
    }
    Ok(views)
}

/// What only the log tells: waits, and invocations that found nothing to do.
async fn count_log(world: &World, figures: &mut Figures) -> Result<()> {
    for line in world.stack.function_logs(world.stack.output("RebuildFunctionName")?).await? {
        let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
        match line["message"].as_str() {
            Some("busy") => figures.waits += 1,
            Some("answered") => {
                figures.invocations += 1;
                let answer = line["answer"].as_str().unwrap_or_default();
                figures.wasted += usize::from(answer.contains("built already") || answer.contains("never marked"));
            }
            _ => {}
        }
    }
    ensure!(figures.invocations > 0, "the log tells of no invocation");
    Ok(())
}

/// Chance from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.roll() % u64::try_from(bound.max(1)).unwrap_or(1)).unwrap_or(0)
    }

    /// Between half of it and one and a half.
    fn about(&mut self, time: Duration) -> Duration {
        time / 2 + time.mul_f64(f64::from(u32::try_from(self.roll() % 1_000).unwrap_or(0)) / 1_000.0)
    }
}
