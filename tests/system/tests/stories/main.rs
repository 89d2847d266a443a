//! The main job, end to end on the local cloud: the real template, the real functions, a warehouse that executes SQL.
//!
//! Each story has a stack, an account and a database of its own, so that they run side by side.

mod bad_input;
mod bad_night;
mod bad_source;
mod checks;
mod deployment;
mod doctor;
mod emptied;
mod faults;
mod formats;
mod grants;
mod guards;
mod hostile_keys;
mod insights;
mod lock_scope;
mod mails;
mod main_job;
mod manual;
mod operator;
mod producers;
mod replays;
mod restored;
mod telemetry;
