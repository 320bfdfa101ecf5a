//! Makes keys, and seals a packet of any level but 1-RTT.
#![no_std]
#![no_main]

#[path = "../start.rs"]
mod start;

use core::hint::black_box;

use wireseal_quic::{
    AeadAlgorithm, Keys, NumberLength, Outgoing, PacketNumberCounter, PacketType, Sealer, TrafficSecret,
    Version,
};

fn operation() {
    let mut buffer = [0; 1500];
    // Made here, because keys hold pointers to the kernels' functions, which are not linked otherwise.
    let Ok(secret) = TrafficSecret::new(black_box(AeadAlgorithm::Aes128Gcm), black_box(&[0; 32])) else {
        return;
    };
    let keys = black_box(Keys::new(black_box(Version::V1), black_box(PacketType::Initial), secret));
    let Some(counter) = black_box(None::<PacketNumberCounter>) else { return };
    let mut sealer = black_box(Sealer::new(keys, counter));
    let packet: &mut [u8] = black_box(&mut buffer);
    let number_length = black_box(NumberLength::One);
    _ = black_box(sealer.seal(Outgoing { packet, number_offset: black_box(0), number_length }));
}
