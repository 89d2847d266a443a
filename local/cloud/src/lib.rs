//! The local cloud: everything Tidemark needs of AWS, on loopback, on free ports, ended with the program that started it.
//!
//! [`LocalCloud::start`] brings up the emulator (S3, SQS, DynamoDB, SNS, EventBridge, CloudFormation, Lambda), PostgreSQL and
//! the Redshift Data API on it; [`LocalCloud::deploy`] creates the product's own `infra/template.yaml` there, with the
//! function binaries of this workspace, or with what `sam build` made ([`Options::artifacts`]). It needs Rust, Python 3.10 or later and the package registries; no Docker, no
//! account, no root.
//!
//! One server serves many tests at once: an emulated account is an access key of twelve digits
//! ([`LocalCloud::fresh_account`]), and a database is one `CREATE DATABASE` ([`LocalCloud::create_database`]).
//!
//! Servers are run by `guard.py`, which ends them when this process is gone, however it went: there is nothing to clean
//! up, and a `static` cloud ([`LocalCloud::shared`]) is ended too. Logs stay in `.local/run/<id>/`.

mod cloud;
mod code;
mod emulator;
mod listeners;
mod packages;
mod postgres;
mod processes;
mod redshift;
mod self_check;
mod server;
mod stack;
mod template;
mod venv;
mod wait;
mod workspace;

pub use cloud::{LocalCloud, Options};
pub use listeners::Listener;
pub use postgres::Postgres;
pub use stack::{Stack, StackEvent, StackOptions};
pub use template::Template;
pub use venv::Venv;
pub use wait::wait_until;
pub use workspace::{Run, workspace_root};
