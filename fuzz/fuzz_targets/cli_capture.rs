//! Captures of any octets: packets are numbered in order, no longer than what there was, and the same however the file is read;
//! damage ends them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| wireseal_fuzz::capture::check(file));
