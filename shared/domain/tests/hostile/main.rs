//! Hostile input: whatever others can write (messages, keys, values, files) or damage (what is stored) meets the functions
//! that read it. None may panic, none may take it for something else than it is.
//!
//! A failure prints its input, shrunk, and keeps its seed in `proptest-regressions`, from where the next run plays it first.
//! `PROPTEST_RNG_SEED=7 PROPTEST_CASES=1000000 cargo test -p tidemark-domain --test hostile` plays a long run that can be repeated.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails the test")]

mod damage;
mod definitions;
mod events;
mod footers;
mod inventories;
mod keys;
mod values;

use proptest::test_runner::Config;

/// So many cases unless `PROPTEST_CASES` says otherwise.
fn cases(number: u32) -> Config {
    let config = Config::default();
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    Config { cases: if asked { config.cases } else { number }, ..config }
}
