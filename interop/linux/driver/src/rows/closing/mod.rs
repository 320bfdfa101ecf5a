//! How connections end: in order, by a reset, in TIME-WAIT, at a closed port, and with one end that has lost its memory.

pub mod closed_port;
mod ending;
pub mod half_open;
pub mod orderly;
pub mod time_wait;
