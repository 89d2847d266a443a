//! What sweep decides: how many it wakes, what it marks that events missed, where state and ledger differ.

pub mod look;
pub mod tidy;
pub mod wake;
