//! The stand-in over real HTTP, asked by the real SDK, on a real PostgreSQL.

mod control;
mod copy;
mod dialect;
mod locks;
mod statements;
mod world;
