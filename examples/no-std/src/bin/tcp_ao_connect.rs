//! Makes a connection that this end opens, and puts the option into a header.
#![no_std]
#![no_main]

#[path = "../start.rs"]
mod start;

use core::hint::black_box;

use wireseal_tcp_ao::{Connection, Isn, MktSet, SocketPair};

fn operation() {
    let mut options = [0; 40];
    let Some(mkts) = black_box(None::<MktSet<2>>) else { return };
    let Some(pair) = black_box(None::<SocketPair>) else { return };
    let Ok(connection) = Connection::active(pair, Isn(black_box(0)), &mkts) else { return };
    let options: &mut [u8] = black_box(&mut options);
    _ = black_box(connection.append_ao(options, black_box(0)));
    black_box(connection);
}
