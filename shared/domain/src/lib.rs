//! Decides: everything Tidemark knows and does, as pure functions over plain data.
//!
//! **Invariant:** nothing here is async, reads a clock or the environment, does I/O or knows an SDK. What a function needs,
//! the time included, comes in as an argument; what is to be done goes out as data.

pub mod alert;
pub mod apply;
pub mod cursor;
pub mod dataset;
pub mod definition;
pub mod doctor;
mod drift;
pub mod explain;
pub mod failure;
pub mod footer;
pub mod guards;
pub mod header;
pub mod id;
pub mod invariants;
pub mod inventory;
pub mod job;
pub mod lateness;
pub mod layout;
pub mod lock;
pub mod measure;
pub mod message;
pub mod month;
pub mod object_key;
pub mod partition;
pub mod partition_value;
pub mod route;
pub mod s3_event;
pub mod selection;
pub mod settle;
pub mod sql;
pub mod step;
pub mod story;
pub mod sweep;
pub mod take;
pub mod update;
pub mod verify;
pub mod watermark;
pub mod writes;
