//! The engine, simulated: one seed is one night, in which everything goes wrong that can, and the morning after.
//!
//! A night runs in one thread, on the in-memory twins, by a clock that the seed moves; so a seed repeats its night step by step.
//! [`night`], `ambush`, `echo` and `restores` are what may happen, [`workers`] who works, `operators` who interferes, [`morning`] how it comes to rest, [`chaos`] what
//! goes wrong in a call, [`eye`] what must hold after every step, [`world`] what there is and what must hold at rest, [`reached`] what
//! nights have to come to; [`flaw`] weakens a rule, to show that its loss is seen; [`run`] is a whole night.

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a simulator that can't build its world fails")]

mod ambush;
pub mod chance;
pub mod chaos;
mod echo;
pub mod eye;
pub mod flaw;
pub mod morning;
pub mod night;
mod operators;
pub mod ports;
pub mod reached;
mod restores;
pub mod run;
pub mod watched;
pub mod workers;
pub mod world;
