//! The SQL that Tidemark runs in Redshift, and what comes back from it.
//!
//! **Invariants:** values enter SQL only through [`literal`], names only through [`identifier`]; a [`Batch`] keeps the Data
//! API's limits and never holds a statement that would end or split its transaction.
//!
//! - [`install`]: schema, ledger, procedures; per target a fence table and its procedures.
//! - [`rebuild`]: the transactions of a batch: fence, stage, swap.
//! - [`ledger`]: what sweep asks of the ledger, and which files it books there.
//! - [`lookup`]: what is asked outside of them.
//! - [`survey`]: what apply asks before it changes anything.
//! - [`doctor`]: what is asked of the rights that a rebuild needs.
//! - [`arrivals`]: when files came.
//! - [`rows`]: the results, typed.
//! - [`runbook`]: what an operator asks.

pub mod arrivals;
mod copy;
mod count;
pub mod doctor;
pub mod identifier;
pub mod install;
pub mod ledger;
pub mod literal;
pub mod lookup;
pub mod rebuild;
pub mod rows;
pub mod runbook;
mod statements;
pub mod survey;
mod upsert;

pub use statements::{Batch, MAX_NAME_BYTES, MAX_STATEMENT_BYTES, MAX_STATEMENTS, SqlError, SubStatement};

#[cfg(test)]
pub(crate) mod tests;
