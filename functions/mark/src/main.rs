//! The mark function.

fn main() {}
