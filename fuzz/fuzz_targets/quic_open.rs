//! Two ends of a QUIC connection and an attacker between them: only packets that the peer sealed open, and only once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::quic::Ends;

fuzz_target!(|script: &[u8]| Ends::run(script));
