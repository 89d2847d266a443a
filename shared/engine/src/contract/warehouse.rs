//! The guarantees of the warehouse port.
