//! Can panic: if `no-panic` finds nothing here, the check does not work.
#![no_std]
#![no_main]

#[path = "../start.rs"]
mod start;

use core::hint::black_box;

fn operation() {
    let buffer: &[u8] = black_box(&[0; 16]);
    black_box(last(buffer));
}

fn last(octets: &[u8]) -> u8 {
    octets[octets.len() - 1]
}
