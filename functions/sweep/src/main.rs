//! The sweep function.

fn main() {}
