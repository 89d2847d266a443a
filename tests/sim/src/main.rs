//! `cargo sim`: nights by seed, each held against the oracle; then the same with rules weakened. Ends in one line.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{available_parallelism, scope};
use std::time::Instant;

use clap::Parser;
use tidemark_sim::flaw::Flaw;
use tidemark_sim::run::{Told, run};

/// Seeds that are tried at most for a flaw.
const SEEDS_OF_A_FLAW: u64 = 2_000;

/// Simulates nights full of faults on the engine that ships, and holds them against an oracle.
#[derive(Parser)]
#[command(name = "cargo sim", version, after_help = "Exits 1 when anything didn't hold or a flaw wasn't seen.")]
struct Arguments {
    /// So many seeds; 100000 are a long run, of hours.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Replays this seed only, and tells its trace.
    #[arg(long)]
    seed: Option<u64>,
    /// With this rule weakened, as in `SwapWithoutClaim`.
    #[arg(long)]
    flaw: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let began = Instant::now();
    let flaw = Flaw::ALL.into_iter().find(|flaw| arguments.flaw.as_deref() == Some(&format!("{flaw:?}")));
    if let (Some(name), None) = (&arguments.flaw, flaw) {
        eprintln!("no flaw is named {name}; there are {:?}", Flaw::ALL);
        return ExitCode::FAILURE;
    }
    if let Some(seed) = arguments.seed {
        return replay(seed, flaw);
    }
    for seed in arguments.from..arguments.from + 3 {
        if run(seed, flaw).trace != run(seed, flaw).trace {
            println!("seed {seed}: the same seed twice gives two traces");
            return ExitCode::FAILURE;
        }
    }
    let sums = Sums::default();
    let seeds = if flaw.is_some() { 0 } else { arguments.seeds };
    let failed = nights(arguments.from..arguments.from + seeds, None, &sums);
    for told in &failed {
        println!("seed {}: {}", told.seed, told.broken.as_deref().unwrap_or_default());
        println!("  cargo sim -- --seed {}", told.seed);
    }
    if let Some(first) = failed.first() {
        println!("the trace of seed {}:\n{}", first.seed, first.trace.join("\n"));
    }
    let flaws = flaw.as_ref().map_or(&Flaw::ALL[..], std::slice::from_ref);
    let seen = flaws.iter().filter(|flaw| is_seen(**flaw)).count();
    println!(
        "{seeds} seeds, {} calls, {} faults, {} commits, {} failed, {seen} of {} flaws seen, {:.0} s",
        sums.steps.load(Ordering::Relaxed),
        sums.faults.load(Ordering::Relaxed),
        sums.commits.load(Ordering::Relaxed),
        failed.len(),
        flaws.len(),
        began.elapsed().as_secs_f32()
    );
    if failed.is_empty() && seen == flaws.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a weakened rule is seen, and at which seed.
fn is_seen(flaw: Flaw) -> bool {
    let seen = nights(1..SEEDS_OF_A_FLAW, Some(flaw), &Sums::default());
    match seen.first() {
        Some(told) => {
            let broken: String = told.broken.iter().flat_map(|broken| broken.chars()).take(100).collect();
            println!("{flaw:?}: seen at seed {}: {broken}", told.seed);
        }
        None => println!("{flaw:?}: not seen"),
    }
    !seen.is_empty()
}

#[derive(Default)]
struct Sums {
    steps: AtomicU64,
    faults: AtomicU64,
    commits: AtomicU64,
}

/// Runs the seeds, each in one thread, on all cores; gives those that failed, by seed. With a flaw the first that fails ends it.
fn nights(seeds: std::ops::Range<u64>, flaw: Option<Flaw>, sums: &Sums) -> Vec<Told> {
    let next = AtomicU64::new(seeds.start);
    let failed = Mutex::new(Vec::new());
    scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let told = run(seed, flaw);
                    sums.steps.fetch_add(told.steps, Ordering::Relaxed);
                    sums.faults.fetch_add(told.faults, Ordering::Relaxed);
                    sums.commits.fetch_add(told.commits, Ordering::Relaxed);
                    if told.broken.is_some()
                        && let Ok(mut failed) = failed.lock()
                    {
                        failed.push(told);
                        if flaw.is_some() {
                            next.store(seeds.end, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap_or_default();
    failed.sort_by_key(|told: &Told| told.seed);
    failed
}

fn replay(seed: u64, flaw: Option<Flaw>) -> ExitCode {
    let told = run(seed, flaw);
    println!("{}", told.trace.join("\n"));
    println!("seed {seed}: {} calls, {} faults, {} commits", told.steps, told.faults, told.commits);
    match told.broken {
        None => ExitCode::SUCCESS,
        Some(broken) => {
            println!("seed {seed}: {broken}");
            ExitCode::FAILURE
        }
    }
}
