//! Decides: what Tidemark knows and does, pure, without I/O or a clock.
