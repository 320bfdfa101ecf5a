//! Tests of the crate through its public API.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

mod allocations;
mod batch;
mod connection;
mod ip;
mod keys;
#[cfg(target_os = "linux")]
mod memory;
mod pair;
mod requests;
mod secrets;
mod segment;
mod shim;
mod shim_batch;
mod shim_events;
mod shim_icmp;
mod shim_keys;
mod shim_migration;
mod shim_options;
mod shim_peers;
mod shim_places;
mod shim_replays;
mod shim_support;
mod shim_table;
mod state;
mod support;
mod texts;
mod traits;
mod vector;
mod vectors;
