//! The engine on the in-memory twins: the main job, every fault at every step of it, and what goes wrong around it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test whose world breaks fails")]

mod alerts;
mod asked;
mod bad_dataset;
mod book;
mod cases;
mod contracts;
mod every_step;
mod faults;
mod guards;
mod hostile;
mod inventories;
mod lateness;
mod limits;
mod lines;
mod measures;
mod modes;
mod outages;
mod overtaken;
mod parquet;
mod quiet;
mod read;
mod rebuild;
mod replays;
mod scopes;
mod slices;
mod sweep;
mod sweep_steps;
mod tidy;
mod troubles;
mod watermark;
mod world;
