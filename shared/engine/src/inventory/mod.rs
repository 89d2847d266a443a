//! Listing a partition: sorted, streamed, resumable; its inventory and manifest go to the control bucket.
//!
//! Memory holds one part (1,000 entries) at a time, whatever the partition's size. How far it was listed is kept in an object
//! of its own when an invocation runs out of time, and the next goes on from there. Everything a batch writes stands in its own
//! folder, `inventory/<dataset>/<batch>/`, under names that tell what it holds (`sealed.rs`).

mod build;
mod footers;
mod glance;
mod lister;
mod parts;
mod previous;
mod recheck;
mod sealed;
mod walk;

pub use build::{Built, Listing, Whole, build, manifest, manifest_url};
pub use footers::{Drifted, misfit};
pub use glance::glance;
pub use lister::Lister;
pub use parts::{Parts, put_part, seal};
pub use recheck::{Recheck, recheck};
pub use walk::{folders, with_data};
