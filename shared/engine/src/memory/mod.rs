//! In-memory twins of the ports: real semantics, time by a clock that the test moves, nothing lost and nothing random.
//!
//! Each twin is a handle: clones share one state. Each passes the contract suite of its port (feature
//! `contract`), so that what holds on the twin holds on the service.

mod announcer;
mod clock;
mod faults;
mod objects;
mod queue;
mod redshift;
mod state;
mod telemetry;
mod warehouse;

pub use announcer::MemoryAnnouncer;
pub use clock::ManualClock;
pub use faults::{Fault, Faulty, Plan, Step};
pub use objects::{MemoryObjects, ObjectChange};
pub use queue::{DeadLetter, Delivery, MemoryQueue};
pub use redshift::{FileError, FileReader, FileRow, lines};
pub use state::MemoryState;
pub use telemetry::MemoryTelemetry;
pub use warehouse::{Backup, End, Ending, MemoryWarehouse, Pace, Running};

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

/// Locks; a test that failed while it held the lock doesn't spoil what comes after.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets others run.
async fn yield_once() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
