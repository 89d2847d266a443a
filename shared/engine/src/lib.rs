//! Drives: observe, decide, one effect, record; then again. Owns the ports through which the world is seen and changed.
//!
//! **Invariants:** no SDK, no environment; decisions are the domain's; recovery is the same loop entered again.

use std::sync::Arc;

use jiff::SignedDuration;
use tidemark_domain::id::StackName;
use tidemark_domain::sql::rebuild::CopyRole;

mod alerts;
mod announce;
pub mod apply;
mod assertion;
#[cfg(feature = "contract")]
pub mod contract;
pub mod definitions;
pub mod error;
pub mod init;
pub mod inventory;
pub mod jobs;
pub mod mark;
#[cfg(feature = "memory")]
pub mod memory;
pub mod ports;
pub mod read;
pub mod rebuild;
pub mod rehearse;
pub mod resume;
pub mod run;
pub mod selection;
pub mod sweep;

/// The ports of one process.
#[derive(Clone)]
pub struct Ports {
    /// The state table.
    pub state: Arc<dyn ports::StateStore>,
    /// S3.
    pub objects: Arc<dyn ports::Objects>,
    /// Redshift.
    pub warehouse: Arc<dyn ports::Warehouse>,
    /// The partitions queue.
    pub queue: Arc<dyn ports::PartitionQueue>,
    /// Events and alerts.
    pub announcer: Arc<dyn ports::Announcer>,
    /// Time, ids, chance.
    pub clock: Arc<dyn ports::Clock>,
}

/// What the stack says, the same for all datasets.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The stack's name: the owner in guard rows.
    pub stack: StackName,
    /// Where inventories and manifests are.
    pub control_bucket: String,
    /// How long marks settle before a partition is rebuilt; also the queue's own delay.
    pub settle: SignedDuration,
    /// How long after a worker's deadline its lease and its message's invisibility last.
    pub lease_margin: SignedDuration,
    /// The role COPY assumes.
    pub copy_role: CopyRole,
}

/// Tidemark, with its ports.
#[derive(Clone)]
pub struct Engine {
    /// Through which it sees and changes the world.
    pub ports: Ports,
    /// What the stack says.
    pub settings: Settings,
    /// Definitions read so far.
    pub definitions: Arc<definitions::Definitions>,
    /// Who is told what is measured.
    pub telemetry: Arc<dyn ports::Telemetry>,
}

impl Engine {
    /// An engine that has read nothing yet, and tells nobody what it measures.
    pub fn new(ports: Ports, settings: Settings) -> Self {
        Self { ports, settings, definitions: Arc::default(), telemetry: Arc::new(ports::Untold) }
    }

    /// The same, telling `telemetry`.
    #[must_use]
    pub fn telling(self, telemetry: Arc<dyn ports::Telemetry>) -> Self {
        Self { telemetry, ..self }
    }
}
