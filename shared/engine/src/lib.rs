//! Drives: observe, decide, one effect, record; then again. Owns the ports through which the world is seen and changed.
//!
//! **Invariants:** no SDK, no environment; decisions are the domain's; recovery is the same loop entered again.

pub mod ports;
