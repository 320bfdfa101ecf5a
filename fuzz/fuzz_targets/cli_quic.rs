//! A key log and a capture: every packet opens or has a reason, and without the log only Initial packets open.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| wireseal_fuzz::capture::check_quic(input));
