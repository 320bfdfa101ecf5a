//! Tests of the crate through its public API.

mod handshake;
mod keys;
mod provider;
mod quinn;
mod support;
