//! What every implementation of a port has to pass: one suite per port, run on its in-memory twin and on the real server.
//!
//! Each guarantee that a port's documentation gives is a function here that panics, saying which guarantee failed. A suite
//! needs an own table, bucket or queue only as far as it says; names are fresh in every run, so that a server may be shared.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a guarantee that fails is a panic: these are tests")]
#![expect(clippy::missing_panics_doc, reason = "every function here panics where its guarantee fails")]

pub mod announcer;
pub mod objects;
pub mod queue;
pub mod state;
pub mod warehouse;

use uuid::Uuid;

/// A text that no earlier run used.
fn fresh() -> String {
    Uuid::now_v7().simple().to_string()
}
