//! Puts a file of definitions in force: looks at everything first, then does what the plan says.
//!
//! [`survey`] changes nothing. [`carry_out`] keeps the order of [`tidemark_domain::apply`]; where it breaks off, a second apply
//! goes on.

mod carry_out;
mod sample;
mod source;
mod survey;

use std::collections::BTreeSet;

use tidemark_domain::apply::{Comparison, Ownership, Status};
use tidemark_domain::dataset::Head;
use tidemark_domain::definition::Definition;
use tidemark_domain::id::{DatasetName, PartitionName, StackName};
use tidemark_domain::sql::SqlError;
use tidemark_domain::sql::rows::RowError;

use crate::init::InitError;
use crate::ports::{ObjectError, QueueError, StateError};
use crate::run::RunError;

pub use carry_out::{Done, carry_out};
pub use sample::{Misfit, Sample};
pub use survey::survey;

/// What is to be put in force, and how.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// All datasets of the file.
    pub definitions: &'a [Definition],
    /// The stack that owns the targets.
    pub stack: &'a StackName,
    /// Datasets that may take their target from another owner.
    pub take_over: &'a BTreeSet<DatasetName>,
    /// Whether partitions are marked.
    pub mark: bool,
    /// Where a job keeps which partitions it marks: more than 50 of a dataset are left to one.
    pub control_bucket: &'a str,
    /// Who wishes it.
    pub by: &'a str,
}

/// What will be done, and what speaks against it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Dataset by dataset, in the order of their names.
    pub datasets: Vec<DatasetPlan>,
    /// What speaks against it; while there is any of it, nothing is done.
    pub problems: Vec<String>,
    catalog: Catalogs,
}

/// The catalog as it was read, and as it will be.
#[derive(Debug, Clone, Default, PartialEq)]
struct Catalogs {
    read: Option<String>,
    new: String,
}

/// What will be done about one dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetPlan {
    /// How the file differs from what is stored.
    pub comparison: Comparison,
    /// What the file says; `None` where it doesn't say anything any more.
    pub definition: Option<Definition>,
    /// The head as it was read.
    pub head: Option<Head>,
    /// Under which epoch it goes on; `None` for a dataset that is retired.
    pub ownership: Option<Ownership>,
    /// Partitions that will be marked.
    pub marks: Vec<PartitionName>,
    /// Partitions that have been built and stay as they are, since they lie before the lookback.
    pub stay: Vec<PartitionName>,
    /// So many partitions have been built that the layout no longer yields; their rows stay.
    pub not_yielded: usize,
    /// What a look at the files of the partitions that will be marked showed; `None` where nothing about them changes.
    pub sample: Option<Sample>,
    /// Partitions of the target with rows that nobody of ours wrote.
    pub foreign: Vec<ForeignRows>,
    /// Not all of the target was looked at for such rows.
    pub foreign_cut: bool,
}

/// Rows of a partition that nobody of ours wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignRows {
    /// The partition.
    pub partition: PartitionName,
    /// How many.
    pub rows: u64,
}

impl Plan {
    /// Whether everything stands as the file says.
    pub fn is_empty(&self) -> bool {
        self.datasets.iter().all(DatasetPlan::is_empty) && !self.writes_catalog()
    }

    fn writes_catalog(&self) -> bool {
        self.catalog.read.as_ref() != Some(&self.catalog.new)
    }
}

impl DatasetPlan {
    /// Whether nothing is to be done about it.
    pub fn is_empty(&self) -> bool {
        let stands = self.ownership.is_none_or(|ownership| !ownership.write_guard && !ownership.write_head);
        self.comparison.status == Status::Unchanged && !self.comparison.marks && stands
    }
}

/// Why apply broke off.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ApplyError {
    /// The state table.
    #[error(transparent)]
    State(#[from] StateError),
    /// S3.
    #[error(transparent)]
    Objects(#[from] ObjectError),
    /// The partitions queue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Redshift.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Redshift, before anything else.
    #[error(transparent)]
    Init(#[from] InitError),
    /// No SQL could be made.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// The files could not be looked at.
    #[error("a file could not be looked at: {0}")]
    Files(String),
    /// The job that marks the partitions couldn't be made.
    #[error("the job that marks the partitions could not be made: {0}; apply again")]
    Job(String),
    /// An answer that wasn't asked for.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A stored item that this release doesn't understand.
    #[error("{what} can't be read: {why}; was it written by a newer release?")]
    Stored {
        /// Which.
        what: String,
        /// Why.
        why: String,
    },
    /// Somebody else applied meanwhile.
    #[error("somebody else changed the datasets meanwhile; look at the difference again and apply again")]
    Raced,
}
