//! The tests of this crate, except those that count allocations.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

mod arrivals;
mod captures;
mod errors;
mod header;
mod key_phase_forged;
mod key_update;
mod keys;
mod limits;
mod no_panic;
mod open;
mod packet_number;
mod pair;
mod seal;
mod secrets;
mod support;
mod texts;
mod tokens;
mod unprotected;
mod vectors;
