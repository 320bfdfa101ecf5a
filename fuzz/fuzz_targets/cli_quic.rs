//! A key log and a capture of any octets: every packet is opened or has a reason, and nothing but Initial packets opens without
//! the log.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| wireseal_fuzz::capture::check_quic(input));
