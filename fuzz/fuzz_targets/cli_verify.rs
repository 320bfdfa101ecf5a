//! Packets of any octets, checked against keys: every one is counted once, and what failed is diagnosed without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| wireseal_fuzz::verify::check(input));
