//! What protects a packet, with every step on the way, for debugging an implementation.

pub mod quic;
mod tcp_ao;

pub use tcp_ao::{DeriveError, Field, Octets, Step, ao_of, context_of, kdf, mac_input, names_of, segment};
