//! The ports: what the engine needs of the world, each with the guarantees it relies on.
//!
//! Contention is an outcome, never an error. Every port has an in-memory twin with real semantics and one contract suite
//! that is run against both.

mod announcer;
mod clock;
mod objects;
mod queue;
mod state;
mod telemetry;
mod warehouse;

pub use announcer::{Alert, Announcer, Event};
pub use clock::Clock;
pub use objects::{ListedObject, ObjectError, Objects, Page, PartUpload};
pub use queue::{Outgoing, PartitionQueue, QueueError};
pub use state::{DueEntry, Index, Refusal, StateError, StateStore, Written};
pub use telemetry::{Telemetry, Untold};
pub use warehouse::{Execution, ExecutionStatus, StatementResult, SubStatement, Submission, Warehouse, WarehouseError};

/// Whether a failed call may have had its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It surely had none.
    NotApplied,
    /// It may have had it.
    Unknown,
}
