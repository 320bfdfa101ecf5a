//! Makes keys, and opens a packet of any level but 1-RTT, out of a datagram of any length.
#![no_std]
#![no_main]

#[path = "../start.rs"]
mod start;

use core::hint::black_box;

use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Keys, PacketType, Protected, ReceiveSpace, TrafficSecret, Version,
};

fn operation() {
    let mut buffer = [0; 1500];
    // Made here, because keys hold pointers to the kernels' functions, which are not linked otherwise.
    let Ok(secret) = TrafficSecret::new(black_box(AeadAlgorithm::Aes128Gcm), black_box(&[0; 32])) else {
        return;
    };
    let keys = black_box(Keys::new(black_box(Version::V1), black_box(PacketType::Initial), secret));
    let Some(mut space) = black_box(None::<ReceiveSpace>) else { return };
    let Some(mut failures) = black_box(None::<AuthenticationFailures>) else { return };
    let datagram: &mut [u8] = black_box(&mut buffer);
    let Ok((packet, rest)) = Protected::split_first(datagram, black_box(0)) else { return };
    _ = black_box((keys.open(packet, &mut space, &mut failures), rest));
}
