//! Two hosts, a script of their stacks' packets, and an attacker who alters and forges packets.
//!
//! Input: the script (see [`Hosts::run`]). Only packets that the peer has signed may reach a stack.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::hosts::Hosts;

fuzz_target!(|script: &[u8]| Hosts::run(script));
