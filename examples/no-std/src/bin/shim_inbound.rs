//! Processes a packet of any length from the link.
#![no_std]
#![no_main]

#[path = "../start.rs"]
mod start;

use core::hint::black_box;
use core::time::Duration;

use wireseal_tcp_ao::shim::{PeerSlot, Shim, ShimSlot};

fn operation() {
    let mut buffer = [0; 1500];
    let Some(mut shim) = black_box(None::<Shim<[PeerSlot; 2], [ShimSlot; 8]>>) else { return };
    let packet: &mut [u8] = black_box(&mut buffer);
    _ = black_box(shim.inbound(black_box(Duration::ZERO), packet));
}
