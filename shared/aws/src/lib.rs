//! Adapts: the ports on the AWS SDK. The only crate that knows it.
//!
//! **Invariants:** nothing is decided here. Each adapter keeps the guarantees written on its port, turns the service's
//! answers into the port's outcomes and errors, and retries only what surely had no effect or is safe to repeat. Errors
//! are classified in one place, `error`; the environment is read in one place, [`config`].

pub mod clients;
pub mod config;
pub mod examine;
#[cfg(feature = "failpoints")]
pub mod failpoints;
pub mod lambda;
pub mod telemetry;

mod announce;
mod clock;
mod dead_letters;
mod dynamodb;
mod error;
mod not_configured;
mod redshift;
mod retry;
mod s3;
mod sqs;
#[cfg(test)]
mod stub;

pub use announce::AwsAnnouncer;
pub use clock::SystemClock;
pub use dead_letters::{DeadLetters, Letter};
pub use dynamodb::StateTable;
pub use redshift::RedshiftWarehouse;
pub use s3::S3Objects;
pub use sqs::SqsPartitionQueue;
