//! Two ends of a QUIC connection, and whatever arrives in between: only what the peer has sealed is opened, and opened once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::quic::ends::Ends;

fuzz_target!(|script: &[u8]| Ends::run(script));
