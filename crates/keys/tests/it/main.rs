//! Tests of the crate through its public API.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

mod another_text;
mod bird;
mod convert;
mod damage;
mod embedded;
mod ends;
mod ends_edges;
mod eos;
mod errors;
mod every_word;
mod followed_chain;
mod formats;
mod gobgp;
mod hostile;
mod ios_xe;
mod ios_xe_lines;
mod ios_xr;
mod ios_xr_bgp;
mod ios_xr_flat;
mod junos;
mod junos_groups;
mod junos_write;
mod key_files;
mod lifetimes;
mod limits;
#[cfg(unix)]
mod loading;
mod losses;
mod losses_of_neighbors;
#[cfg(target_os = "linux")]
#[path = "../../../tcp-ao/tests/it/memory.rs"]
#[allow(dead_code, reason = "the tests of tcp-ao need more of it")]
mod memory;
#[cfg(target_os = "linux")]
mod memory_files;
mod netconf;
mod openconfig;
mod outages;
mod rare_texts;
mod roll;
mod roll_bird;
mod roll_commands;
mod roll_gobgp;
mod roll_refused;
mod routers;
mod same_keys;
mod shapes;
#[path = "../../../tcp-ao/tests/it/shim_support.rs"]
#[allow(dead_code, reason = "the tests of tcp-ao need more of it")]
mod shim_support;
mod sr_linux;
mod sr_os;
mod sr_os_write;
mod statements;
#[path = "../../../tcp-ao/tests/it/support.rs"]
#[allow(dead_code, reason = "the tests of tcp-ao need more of it")]
mod support;
mod vendor_blocks;
mod vendor_lines;
mod vrp;
mod whole_routers;
