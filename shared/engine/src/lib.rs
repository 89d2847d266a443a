//! Drives: observe, decide, one effect, record; owns the ports.
