//! `cargo shapes`: every format × compression × layout, every mode with each of them, and every producer, on the local cloud
//! with the real functions; ends in one line.
//!
//! A combination is a dataset. What its owner may not write is right if the definition is refused for the reason it should
//! be. All others are applied to one stack and loaded twice: two files and a neighbouring partition, then one file
//! overwritten. Right is a combination whose target holds, typed, just the rows that its mode leaves of those written, after both
//! loads; and whose partitions are at rest. The rows expected are those given to the writers of the kit, and never what a reader of the
//! product made of the files; the rows found are read from the PostgreSQL below Redshift.

mod combination;
mod lake;
mod layout;
mod mode;
mod play;
mod produce;
mod report;
mod rows;
mod stage;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use tidemark_kit::Producer;
use tidemark_local::workspace_root;

use combination::{Combination, Validity};
use report::{Outcome, Report};

/// Plays every shape of data, and looks whether the target holds just what was written.
#[derive(Debug, Parser)]
#[command(name = "cargo shapes", version, after_help = "Exits 1 when a combination isn't right.")]
struct Arguments {
    /// Only combinations that have this in their name, such as `csv_gzip`, `hour`, `replace`, `producer`
    #[arg(long, default_value = "")]
    only: String,
    /// Where the report goes, as JSON
    #[arg(long)]
    report: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match shapes(&Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn shapes(arguments: &Arguments) -> Result<bool> {
    let began = Instant::now();
    let mut report = Report::default();
    let mut valid = Vec::new();
    for combination in Combination::all().into_iter().filter(|one| one.name().contains(&arguments.only)) {
        match combination.check() {
            Validity::Valid => valid.push(combination),
            Validity::Refused => report.add(&combination, Outcome::Refused),
            Validity::Wrong(why) => report.add(&combination, Outcome::Wrong(why)),
        }
    }
    play::play(&valid, &mut report).await?;
    let producers =
        Producer::ALL.into_iter().filter(|one| format!("producer {}", one.name()).contains(&arguments.only));
    produce::play(&producers.collect::<Vec<_>>(), &mut report).await?;
    let path = arguments.report.clone().unwrap_or_else(|| workspace_root().join(".local/shapes.json"));
    report.write(&path)?;
    println!("{}", report.table());
    println!("report: {}, {:.0} s", path.display(), began.elapsed().as_secs_f64());
    println!("{}", report.line());
    Ok(report.is_right())
}
