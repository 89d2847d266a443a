//! The main job, shown on the local cloud.

fn main() {}
