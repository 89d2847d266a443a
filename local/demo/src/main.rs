//! The main job, shown on the local cloud: files land in S3, and partitions are rebuilt in a warehouse that really
//! executes SQL, by the very function binaries that run on AWS.
//!
//! Exit status 0 only if everything that was shown is true at the end.

mod acts;
mod proof;
mod stage;
mod tell;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use stage::Stage;
use tell::Teller;

/// Files land in S3, partitions are rebuilt in a warehouse; shown from beginning to end in about a minute.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Leave everything up at the end, tell how to reach it, and wait for Ctrl-C
    #[arg(long, conflicts_with = "lifecycle")]
    keep: bool,
    /// Deploy what `sam build` made, instead of debug builds: its folder, .aws-sam/build
    #[arg(long, value_name = "FOLDER")]
    artifacts: Option<PathBuf>,
    /// At the end update the stack in place and delete it, while work is in flight, and let another take over
    #[arg(long)]
    lifecycle: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut teller = Teller::new();
    match show(&arguments, &mut teller).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            teller.failed(&error);
            ExitCode::FAILURE
        }
    }
}

async fn show(arguments: &Arguments, teller: &mut Teller) -> Result<bool> {
    let stage = Stage::set(arguments.artifacts.as_deref(), teller).await?;
    let played = acts::play(&stage, teller).await;
    if let Err(error) = &played {
        teller.failed(error);
    }
    let proven = played.is_ok() && proof::show(&stage.world, teller).await?;
    if arguments.lifecycle && proven {
        let world = acts::play_lifecycle(&stage, teller).await?;
        return proof::show_orders(&world, teller).await;
    }
    if arguments.keep {
        stage.tell_how_to_reach(teller)?;
        tokio::signal::ctrl_c().await?;
    }
    Ok(proven)
}
