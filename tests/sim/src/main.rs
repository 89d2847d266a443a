//! `cargo sim`: nights by seed, each held against the oracle; then the same with rules weakened. Ends in one line.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{available_parallelism, scope};
use std::time::Instant;

use clap::Parser;
use tidemark_sim::flaw::Flaw;
use tidemark_sim::reached::Reached;
use tidemark_sim::run::{Told, run};

/// Seeds that are tried at most for a flaw.
const SEEDS_OF_A_FLAW: u64 = 400;
/// After so many nights of a long run a line says how far it is.
const TOLD_EACH: u64 = 5_000;
/// From so many seeds on every kind of fault has to be reached.
const ENOUGH_SEEDS: u64 = 200;

/// Simulates nights full of faults on the engine that ships, and holds them against an oracle.
#[derive(Parser)]
#[command(
    name = "cargo sim",
    version,
    after_help = "Exits 1 when anything didn't hold, a flaw wasn't seen, or a kind of fault was never reached."
)]
struct Arguments {
    /// So many seeds; 100000 are the long run
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Replays this seed only, and tells its trace
    #[arg(long)]
    seed: Option<u64>,
    /// With this rule weakened, as in `SwapWithoutClaim`: the first night that sees it
    #[arg(long)]
    flaw: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let flaw = Flaw::ALL.into_iter().find(|flaw| arguments.flaw.as_deref() == Some(&format!("{flaw:?}")));
    if let (Some(name), None) = (&arguments.flaw, flaw) {
        eprintln!("no flaw is named {name}; there are {:?}", Flaw::ALL);
        return ExitCode::FAILURE;
    }
    let good = match (arguments.seed, flaw) {
        (Some(seed), flaw) => replay(seed, flaw),
        (None, Some(flaw)) => repeats(1) && is_seen(flaw),
        (None, None) => all(arguments.from, arguments.seeds),
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The seeds, then each flaw; ends in the line with the figures.
fn all(from: u64, seeds: u64) -> bool {
    let began = Instant::now();
    if !(from..from + 3).all(repeats) {
        return false;
    }
    let nights = nights(from..from + seeds, None);
    for told in &nights.failed {
        println!("seed {}: {}", told.seed, told.broken.as_deref().unwrap_or_default());
        println!("  cargo sim -- --seed {}", told.seed);
    }
    if let Some(first) = nights.failed.first() {
        println!("the trace of seed {}:\n{}", first.seed, first.trace.join("\n"));
    }
    println!("what {seeds} nights came to, in {:.0} s:\n{}", began.elapsed().as_secs_f32(), nights.reached.table());
    let missing = if seeds < ENOUGH_SEEDS { vec![] } else { nights.reached.missing() };
    for kind in &missing {
        println!("never reached: {}", kind.words());
    }
    let seen = Flaw::ALL.into_iter().filter(|flaw| is_seen(*flaw)).count();
    println!(
        "{seeds} seeds, {} calls, {} commits, {} failed, {} of {} kinds of fault reached, {seen} of {} flaws seen, {:.0} s",
        nights.steps,
        nights.commits,
        nights.failed.len(),
        tidemark_sim::reached::Kind::ALL.len() - missing.len(),
        tidemark_sim::reached::Kind::ALL.len(),
        Flaw::ALL.len(),
        began.elapsed().as_secs_f32()
    );
    nights.failed.is_empty() && missing.is_empty() && seen == Flaw::ALL.len()
}

/// The same seed twice gives the same trace.
fn repeats(seed: u64) -> bool {
    let same = run(seed, None).trace == run(seed, None).trace;
    if !same {
        println!("seed {seed}: the same seed twice gives two traces");
    }
    same
}

/// Whether a weakened rule is seen, at which seed and by what.
fn is_seen(flaw: Flaw) -> bool {
    let seen = nights(1..SEEDS_OF_A_FLAW + 1, Some(flaw));
    match seen.failed.first() {
        Some(told) => {
            let broken: String = told.broken.iter().flat_map(|broken| broken.chars()).take(100).collect();
            println!("{flaw:?}: seen at seed {}: {broken}", told.seed);
        }
        None => println!("{flaw:?}: not seen"),
    }
    !seen.failed.is_empty()
}

#[derive(Default)]
struct Nights {
    failed: Vec<Told>,
    ended: u64,
    steps: u64,
    commits: u64,
    reached: Reached,
}

/// Runs the seeds, each in one thread, on all cores; tells those that failed, by seed. With a flaw the first that fails ends it.
fn nights(seeds: std::ops::Range<u64>, flaw: Option<Flaw>) -> Nights {
    let next = AtomicU64::new(seeds.start);
    let nights = Mutex::new(Nights::default());
    scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let told = run(seed, flaw);
                    let mut nights = nights.lock().unwrap_or_else(PoisonError::into_inner);
                    nights.steps += told.steps;
                    nights.commits += told.commits;
                    nights.reached.add(&told.reached);
                    nights.ended += 1;
                    if nights.ended.is_multiple_of(TOLD_EACH) {
                        eprintln!("{} nights, {} failed", nights.ended, nights.failed.len());
                    }
                    if let Some(broken) = &told.broken {
                        if flaw.is_none() {
                            eprintln!("seed {}: {broken}", told.seed);
                        }
                        nights.failed.push(told);
                        if flaw.is_some() {
                            next.store(seeds.end, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let mut nights = nights.into_inner().unwrap_or_else(PoisonError::into_inner);
    nights.failed.sort_by_key(|told: &Told| told.seed);
    nights
}

fn replay(seed: u64, flaw: Option<Flaw>) -> bool {
    let told = run(seed, flaw);
    println!("{}", told.trace.join("\n"));
    println!("seed {seed}: {} calls, {} commits", told.steps, told.commits);
    told.broken.iter().for_each(|broken| println!("seed {seed}: {broken}"));
    told.broken.is_none()
}
