//! The tests of this crate: those of `wireseal-rustls` that need no QUIC stack, on rustls 0.24.

#[path = "../../../rustls/tests/it/handshake.rs"]
mod handshake;
#[path = "../../../rustls/tests/it/keys.rs"]
mod keys;
#[path = "../../../rustls/tests/it/provider.rs"]
mod provider;
#[path = "../../../rustls/tests/it/records.rs"]
mod records;
#[path = "../../../rustls/tests/it/support.rs"]
mod support;

mod connect;
mod version;
