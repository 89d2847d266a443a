//! The protocol, model-checked: a world of one partition, whose moves call the functions that are shipped.
//!
//! [`world`] is what there is, [`worker`] and [`redshift`] what they do, [`moves`] what may happen and go wrong, [`rules`] where the
//! shipped functions are called and, for the mutations, weakened; [`check`] and [`rest`] what must hold.

pub mod carrier;
pub mod check;
pub mod explore;
pub mod memo;
pub mod model;
pub mod moves;
pub mod redshift;
pub mod rest;
pub mod rules;
pub mod runs;
pub mod worker;
pub mod world;
