//! The tests of this crate.

mod handshake;
mod keys;
mod provider;
mod quinn;
mod records;
mod support;
mod virtual_time;
