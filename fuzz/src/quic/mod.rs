//! QUIC: a slow reader of headers, and two ends that protect their packets.

pub mod ends;
pub mod slow;
