//! The tests of this crate.

mod handshake;
mod keys;
mod provider;
mod quinn;
mod support;
