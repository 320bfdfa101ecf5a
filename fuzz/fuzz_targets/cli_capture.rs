//! Captures: packets are numbered in order, no longer than on the wire, and the same at any reading speed; they end at damage.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| wireseal_fuzz::cli::check_capture(file));
