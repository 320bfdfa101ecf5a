//! Parses a packet of any length and verifies it on a connection in any state.
#![no_std]
#![no_main]

#[path = "../start.rs"]
mod start;

use core::hint::black_box;

use wireseal_tcp_ao::{Connection, Segment};

fn operation() {
    let Some(mut connection) = black_box(None::<Connection>) else { return };
    let packet: &[u8] = black_box(&[0; 1500]);
    let Ok(segment) = Segment::parse(packet) else { return };
    _ = black_box(connection.verify(&segment));
}
