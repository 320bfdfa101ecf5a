//! Seals a 1-RTT packet, and derives the keys of the next phase if there are none.
#![no_std]
#![no_main]

#[path = "../start.rs"]
mod start;

use core::hint::black_box;

use wireseal_quic::{NumberLength, OneRtt, Outgoing};

fn operation() {
    let mut buffer = [0; 1500];
    let Some(mut end) = black_box(None::<OneRtt>) else { return };
    let packet: &mut [u8] = black_box(&mut buffer);
    let number_length = black_box(NumberLength::One);
    _ = black_box(end.seal(Outgoing { packet, number_offset: black_box(0), number_length }));
}
