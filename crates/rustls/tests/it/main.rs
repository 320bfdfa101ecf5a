//! The tests of this crate.

mod connect;
mod counted;
mod ends;
mod handshake;
mod keys;
mod provider;
mod quinn;
mod records;
mod support;
mod version;
mod virtual_time;
