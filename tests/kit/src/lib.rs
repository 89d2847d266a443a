//! A world to try Tidemark in: the local cloud with a deployed stack, files to put there, and eyes of our own.
//!
//! Demo and system tests share it. What it tells of S3, state and target it reads itself, with nobody's code but the
//! libraries': a fault of the product can't hide in its own mirror.
//!
//! - [`world`]: a stack of one's own in the one cloud of the process, the operator's command;
//! - [`faults`], [`hurry`], [`wake`]: what goes wrong on purpose, and what takes hours, cut short;
//! - [`dataset`], [`orders`], [`files`]: what is put into S3;
//! - [`grants`]: what the database user of the product is given;
//! - [`producers`]: jobs and services that write lakes, each as its calls of S3;
//! - [`source`], [`state`], [`target`]: what is seen of S3, of table and queues, of Redshift;
//! - [`story`]: waiting for what must become true, and everything that helps when it doesn't.

pub mod dataset;
pub mod faults;
pub mod files;
pub mod grants;
pub mod hurry;
pub mod orders;
pub mod producers;
pub mod source;
pub mod state;
pub mod story;
pub mod target;
pub mod wake;
pub mod world;

pub use dataset::{Dataset, Partition};
pub use orders::{Order, Return};
pub use producers::Producer;
pub use story::PATIENCE;
pub use tidemark_local::LocalCloud;
pub use world::{Settings, Told, World};
