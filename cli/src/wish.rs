//! What `replay` and `backfill` ask of each partition, and how it is written.

#![expect(clippy::doc_markdown, reason = "these comments are the help that a terminal shows")]

use clap::Args;
use tidemark_domain::partition::REASON_BYTES;

use crate::accept::Accepted;
use crate::exit::Failure;
use crate::which::Ends;

#[derive(Debug, Args)]
pub(crate) struct Wish {
    #[command(flatten)]
    pub(crate) ends: Ends,
    /// The parked partitions: all of them, or those in the range
    #[arg(long)]
    pub(crate) parked: bool,
    /// Why, for the record: `show` and `history` tell it
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub(crate) reason: Option<String>,
    /// Rebuild only where the files differ from those of the last rebuild
    #[arg(long)]
    pub(crate) no_force: bool,
    /// Let these pass, this once: missing_objects, empty_source, row_drop, foreign_rows
    #[arg(long, value_name = "KIND", value_delimiter = ',', conflicts_with = "no_force")]
    accept: Vec<String>,
    /// What you looked at and accept: of one partition the digest that `show` tells, of several the one that a dry run tells
    #[arg(long, requires = "accept")]
    digest: Option<String>,
}

impl Wish {
    /// What may pass, and of which listings.
    pub(crate) fn accepted(&self) -> Result<Accepted, Failure> {
        Accepted::read(&self.accept, self.digest.as_deref())
    }
}

/// A reason that is kept as it is.
fn reason(text: &str) -> Result<String, String> {
    if text.len() > REASON_BYTES {
        return Err(format!("it has {} bytes, and {REASON_BYTES} are kept; write less", text.len()));
    }
    Ok(text.to_owned())
}
