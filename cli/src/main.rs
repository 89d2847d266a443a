//! `tidemark`, the operator's command: reads definitions, prepares Redshift, applies, replays, shows.
//!
//! It decides nothing by itself: what is right is said by the domain, what is done is done by the engine, and this prints it.
//! Results go to standard output, everything else to standard error; a reader who closes the pipe ends it quietly.

mod accept;
mod apply;
mod arguments;
mod backfill;
mod cloud;
mod completions;
mod console;
mod dlq;
mod doctor;
mod env_file;
mod exit;
mod explain;
mod file;
mod files;
mod history;
mod init;
mod lateness;
mod moment;
mod pause;
mod rehearse;
mod replay;
mod report;
mod runbook;
mod show;
mod sql;
mod status;
mod table;
mod validate;
mod watermark;
mod which;
mod wish;
mod words;

use std::process::ExitCode;

use clap::Parser as _;

use arguments::{Arguments, Command};
use exit::{Failure, Outcome};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments.env_file {
        Some(path) if !env_file::is_read() => env_file::start_again(path),
        _ => run(&arguments),
    };
    match result {
        Ok(outcome) => outcome.into(),
        Err(failure) => failure.tell(),
    }
}

fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match &arguments.command {
        Command::Validate(arguments) => validate::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Sql(arguments) => sql::run(arguments),
        Command::Init(arguments) => wait_for(init::run(arguments)),
        Command::Apply(arguments) => wait_for(apply::run(arguments)),
        Command::Replay(arguments) => wait_for(replay::run(arguments)),
        Command::Backfill(arguments) => wait_for(backfill::run(arguments)),
        Command::Doctor(arguments) => wait_for(doctor::run(arguments)),
        Command::Dlq(arguments) => wait_for(dlq::run(arguments)),
        Command::Pause(arguments) => wait_for(pause::pause(arguments)),
        Command::Resume(arguments) => wait_for(pause::resume(arguments)),
        Command::Show(arguments) => wait_for(show::run(arguments)),
        Command::Lateness(arguments) => wait_for(lateness::run(arguments)),
        Command::Report(arguments) => wait_for(report::run(arguments)),
        Command::Status(arguments) => wait_for(status::run(arguments)),
        Command::History(arguments) => wait_for(history::run(arguments)),
        Command::Files(arguments) => wait_for(files::run(arguments)),
        Command::Watermark(arguments) => wait_for(watermark::run(arguments)),
        Command::Runbook(arguments) => runbook::run(arguments),
        Command::Completions(arguments) => completions::run(arguments),
    }
}

fn wait_for(command: impl Future<Output = Result<Outcome, Failure>>) -> Result<Outcome, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::Refused(format!("can't start: {error}")))?.block_on(command)
}
