//! Signs a segment of any length on a connection in any state.
#![no_std]
#![no_main]

#[path = "../start.rs"]
mod start;

use core::hint::black_box;

use wireseal_tcp_ao::Connection;

fn operation() {
    let mut buffer = [0; 1500];
    let Some(mut connection) = black_box(None::<Connection>) else { return };
    let segment: &mut [u8] = black_box(&mut buffer);
    _ = black_box(connection.sign(segment));
}
