//! Drives: observe, decide, one effect, record; then again. Owns the ports through which the world is seen and changed.
//!
//! **Invariants:** no SDK, no environment; decisions are the domain's; recovery is the same loop entered again.

#[cfg(feature = "contract")]
pub mod contract;
#[cfg(feature = "memory")]
pub mod memory;
pub mod ports;
