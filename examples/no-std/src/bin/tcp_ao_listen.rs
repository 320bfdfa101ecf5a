//! Verifies a SYN and makes a connection of it.
#![no_std]
#![no_main]

#[path = "../start.rs"]
mod start;

use core::hint::black_box;

use wireseal_tcp_ao::{Connection, MktSet, Segment};

fn operation() {
    let Some(mkts) = black_box(None::<MktSet<2>>) else { return };
    let packet: &[u8] = black_box(&[0; 1500]);
    let Ok(segment) = Segment::parse(packet) else { return };
    let Ok(syn) = mkts.verify_syn(segment) else { return };
    black_box(Connection::passive(&syn));
}
