//! Two hosts, a script of what their stacks send, and an attacker who alters and forges packets.
//!
//! The input is the script (see [`Hosts::run`]). Nothing that the peer has not signed may reach a stack.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::hosts::Hosts;

fuzz_target!(|script: &[u8]| Hosts::run(script));
