//! A seed, from dusk to rest.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::flaw::Flaw;
use crate::night::Night;
use crate::reached::Reached;

/// What happens in a night.
const ACTIONS: usize = 500;
/// Rounds of 20 s after which a world that isn't at rest never will be: nearly three hours.
const ROUNDS: usize = 500;

/// How a seed ended.
#[derive(Debug, Clone)]
pub struct Told {
    /// The seed.
    pub seed: u64,
    /// What didn't hold, if anything.
    pub broken: Option<String>,
    /// Everything that happened, in order.
    pub trace: Vec<String>,
    /// Calls that were made.
    pub steps: u64,
    /// What it came to.
    pub reached: Reached,
    /// Batches that committed.
    pub commits: u64,
}

/// Runs a seed, with a rule weakened if one is given.
pub fn run(seed: u64, flaw: Option<Flaw>) -> Told {
    let mut night = Night::new(seed, flaw);
    let broken =
        catch_unwind(AssertUnwindSafe(|| through(&mut night))).unwrap_or_else(|panic| panicked(&night, &*panic)).err();
    let scene = &night.world.scene;
    let (steps, reached, trace) = (scene.steps(), scene.reached(), scene.take_trace());
    Told { seed, broken, trace, steps, reached, commits: night.world.warehouse.ledger().len() as u64 }
}

fn through(night: &mut Night) -> Result<(), String> {
    for _ in 0..ACTIONS {
        night.act();
        seen(night)?;
    }
    night.dawn()?;
    rest(night)?;
    for _ in 0..2 {
        night.hours_later()?;
        rest(night)?;
    }
    night.world.count_told();
    night.world.check_rest(true)?;
    night.mend();
    rest(night)?;
    night.world.check_rest(false)
}

fn rest(night: &mut Night) -> Result<(), String> {
    for _ in 0..ROUNDS {
        night.quiet_round()?;
        seen(night)?;
        if night.world.events.is_empty()
            && night.world.queue.is_empty()
            && night.world.due().is_empty()
            && night.world.open_jobs() == 0
        {
            return Ok(());
        }
    }
    Err(format!("I12: not at rest; due: {:?}, {:?}", night.world.due(), night.world.items()))
}

/// An assertion of the engine doesn't hold. Where a write went wrong the eye has seen it first, and says it better.
fn panicked(night: &Night, panic: &(dyn std::any::Any + Send)) -> Result<(), String> {
    seen(night)?;
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    Err(format!("panicked: {}", text.unwrap_or("no words")))
}

fn seen(night: &Night) -> Result<(), String> {
    night.world.eye.broken().map_or(Ok(()), Err)
}
