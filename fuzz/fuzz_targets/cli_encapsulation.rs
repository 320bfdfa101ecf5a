//! Packets in tunnels and fragments: each is counted once, and what is found in a packet is in it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| wireseal_fuzz::cli::check_encapsulation(input));
