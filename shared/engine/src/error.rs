//! What can stop a driver: a port that failed, or something stored that can't be read.

use tidemark_domain::failure::FailureKind;
use tidemark_domain::object_key::TableFormat;
use tidemark_domain::sql::SqlError;
use tidemark_domain::sql::rows::RowError;

use crate::ports::{ObjectError, QueueError, StateError};

/// A driver stopped. Nothing is lost: what was recorded is continued by the next take.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The state table.
    #[error(transparent)]
    State(#[from] StateError),
    /// S3.
    #[error(transparent)]
    Objects(#[from] ObjectError),
    /// The partitions queue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// An event or alert couldn't be told.
    #[error("could not announce: {0}")]
    Announce(String),
    /// SQL that can't be made from a definition.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// A result that isn't what was asked for.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A stored item or object that can't be read.
    #[error("{what} can't be read: {why}")]
    Stored {
        /// Which.
        what: String,
        /// Why.
        why: String,
    },
    /// An object of a batch in the control bucket that is gone or damaged.
    #[error("{key} can't be read: {why}; put it back, or replay, which lists anew")]
    Sealed {
        /// Its URL.
        key: String,
        /// Why.
        why: String,
    },
    /// The root is a table of another format: its listing isn't its content.
    #[error(
        "{root} is a table of {format} (it holds {sign}): its files are not its rows; name another root, or export it"
    )]
    TableFormat {
        /// The dataset's root.
        root: String,
        /// The format.
        format: TableFormat,
        /// What tells.
        sign: String,
    },
    /// A call of Redshift's Data API failed.
    #[error("{message}")]
    Warehouse {
        /// What kind of failure it is.
        kind: FailureKind,
        /// The service's words.
        message: String,
    },
}

impl Error {
    /// The kind of failure, by which it is settled.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::State(StateError::Unavailable { .. })
            | Self::Objects(ObjectError::Unavailable { .. })
            | Self::Queue(QueueError::Unavailable { .. })
            | Self::Announce(_) => FailureKind::Unavailable,
            Self::State(StateError::Misconfigured(_))
            | Self::Queue(QueueError::Misconfigured(_))
            | Self::Objects(ObjectError::Misconfigured { .. })
            | Self::TableFormat { .. } => FailureKind::Misconfigured,
            Self::Objects(ObjectError::Changed { .. }) => FailureKind::SourceChanged,
            Self::Objects(ObjectError::Archived { .. }) => FailureKind::RejectedData,
            Self::Sql(_) | Self::Row(_) | Self::Stored { .. } | Self::Sealed { .. } => FailureKind::Bug,
            Self::Warehouse { kind, .. } => *kind,
        }
    }
}
