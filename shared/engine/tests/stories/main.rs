//! The engine on the in-memory twins: the main job, and every fault at every step of it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test whose world breaks fails")]

mod faults;
mod overtaken;
mod rebuild;
mod simulation;
mod world;
