//! The rebuild function.

fn main() {}
