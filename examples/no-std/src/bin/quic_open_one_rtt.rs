//! Opens a 1-RTT packet out of a datagram of any length.
#![no_std]
#![no_main]

#[path = "../start.rs"]
mod start;

use core::hint::black_box;

use wireseal_quic::{AuthenticationFailures, Now, OneRtt, Protected, ReceiveSpace};

fn operation() {
    let mut buffer = [0; 1500];
    let Some(mut end) = black_box(None::<OneRtt>) else { return };
    let Some(now) = black_box(None::<Now>) else { return };
    let Some(mut space) = black_box(None::<ReceiveSpace>) else { return };
    let Some(mut failures) = black_box(None::<AuthenticationFailures>) else { return };
    let datagram: &mut [u8] = black_box(&mut buffer);
    let Ok((packet, rest)) = Protected::split_first(datagram, black_box(0)) else { return };
    _ = black_box((end.open(packet, now, &mut space, &mut failures), rest));
}
