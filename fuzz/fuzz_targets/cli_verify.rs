//! Packets checked against keys: each is counted once, and failures are diagnosed without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| wireseal_fuzz::cli::check_verification(input));
