//! The stand-in over real HTTP, asked by the real SDK, on a real PostgreSQL.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a helper that fails fails the test")]

mod control;
mod copy;
mod dialect;
mod formats;
mod locks;
mod parquet;
mod statements;
mod world;
