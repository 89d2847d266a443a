//! Listing a partition: sorted, streamed, resumable; its inventory and manifest go to the control bucket.
//!
//! Memory holds one part (1,000 entries) at a time, whatever the partition's size. What was listed so far is kept in
//! `progress.json` when an invocation runs out of time, and the next goes on from there.

mod build;
mod footers;
mod glance;
mod lister;
mod parts;
mod recheck;
mod walk;

pub use build::{Built, Listing, Whole, build, manifest, manifest_url};
pub use footers::{Drifted, misfit};
pub use glance::glance;
pub use lister::Lister;
pub use parts::Parts;
pub use recheck::{Recheck, recheck};
pub use walk::{folders, with_data};
