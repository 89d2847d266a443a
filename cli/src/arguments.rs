//! What may be written on the command line.

#![expect(clippy::doc_markdown, reason = "these comments are the help that a terminal shows")]

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::backfill::Backfill;
use crate::completions::Completions;
use crate::dlq::Dlq;
use crate::doctor::Doctor;
use crate::files::Files;
use crate::history::History;
use crate::lateness::Lateness;
use crate::pause::{Pause, Resume};
use crate::replay::Replay;
use crate::report::Report;
use crate::runbook::Runbook;
use crate::show::Show;
use crate::status::Status;
use crate::watermark::Watermark;

const EXIT_CODES: &str = "\
Exit codes:
  0  done, or nothing to do
  1  refused, or problems were found
  2  the command line is wrong
  3  AWS or Redshift can't be reached, refuses, or isn't set up

Where a command needs AWS, credentials and region come from where AWS's own tools have them, and the stack from
TIDEMARK_STACK, TIDEMARK_TABLE, TIDEMARK_PARTITIONS_QUEUE_URL, TIDEMARK_CONTROL_BUCKET, TIDEMARK_REDSHIFT_WORKGROUP (or
TIDEMARK_REDSHIFT_CLUSTER), TIDEMARK_REDSHIFT_DATABASE and so on, as the functions have them.";

/// Keeps Redshift tables true to the files in S3, partition by partition.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// A file of NAME=VALUE lines that are put into the environment first, such as the local cloud writes
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) env_file: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tell everything that is wrong with a datasets.toml
    Validate(Validate),
    /// Tell which partition an object is of, or why of none
    Explain(Explain),
    /// Print each statement that a rebuild of a partition would run
    Sql(Sql),
    /// Make Tidemark's schemas, tables and procedures in Redshift, where they aren't there yet
    Init(Init),
    /// Put a datasets.toml in force, after showing what changes
    Apply(Apply),
    /// Have partitions rebuilt
    Replay(Replay),
    /// Have many partitions rebuilt by a job, a few at a time
    Backfill(Backfill),
    /// Tell what lies in the dead-letter queues, and send back what can be worked on
    Dlq(Dlq),
    /// Look whether everything is set up that a rebuild needs, with a remedy for what isn't
    Doctor(Doctor),
    /// Let marks gather: nothing of a dataset is rebuilt until it is resumed
    Pause(Pause),
    /// Go on with a dataset that was paused, or halted for a repair
    Resume(Resume),
    Show(Show),
    Status(Status),
    Lateness(Lateness),
    Report(Report),
    History(History),
    Files(Files),
    Watermark(Watermark),
    Runbook(Runbook),
    Completions(Completions),
}

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// The datasets.toml
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The datasets.toml
    pub(crate) file: PathBuf,
    /// The object, as s3://BUCKET/KEY; it is read as a plain key, and also as events write it (form-encoded)
    pub(crate) object: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Sql {
    /// The datasets.toml
    pub(crate) file: PathBuf,
    /// Which partition of which dataset; the dataset may be left out where the file has just one
    #[arg(value_names = ["DATASET", "PARTITION"], num_args = 1..=2, required = true)]
    pub(crate) of: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line are just that")]
pub(crate) struct Apply {
    /// The datasets.toml
    pub(crate) file: PathBuf,
    /// Do it; without this it is only shown, and where the output is no terminal that is an error
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only show it, also where the output is no terminal
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Take a dataset's target from the dataset or stack that owns it; may be given many times
    #[arg(long, value_name = "DATASET")]
    pub(crate) take_over: Vec<String>,
    /// Mark no partitions: files that are there already aren't looked at until they change or are replayed
    #[arg(long)]
    pub(crate) no_mark: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
