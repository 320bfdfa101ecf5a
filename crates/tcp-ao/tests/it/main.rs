//! Tests of the crate through its public API.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

mod allocations;
mod batch;
mod captures;
mod connection;
mod hostile;
mod icmp;
mod ip;
mod kdf;
mod keys;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod memory_secrets;
mod option;
mod pair;
mod requests;
mod secrets;
mod segment;
mod shim;
mod shim_attacks;
mod shim_batch;
mod shim_events;
mod shim_events_hostile;
mod shim_icmp;
mod shim_migration;
mod shim_options;
mod shim_pair;
mod shim_peers;
mod shim_places;
mod shim_replays;
mod shim_support;
mod shim_table;
mod sne;
mod state;
mod support;
mod traits;
mod vector;
mod vectors;
