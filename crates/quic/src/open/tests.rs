//! Opening where packet numbers end, which no connection lives to see.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

use super::{AuthenticationFailures, OpenError, ReceiveSpace};
use crate::{
    AeadAlgorithm, Backend, ConnectionId, Keys, MAX_PACKET_NUMBER, NumberLength, Outgoing,
    PacketNumberCounter, PacketType, Protected, Sealer, ShortHeader, TrafficSecret, Version,
};

fn keys(backend: Backend, algorithm: AeadAlgorithm) -> Keys {
    let secret = TrafficSecret::new(algorithm, &[7; 48][..algorithm.secret_length()]).unwrap();
    Keys::with_backend(backend, Version::V1, PacketType::OneRtt, secret)
}

/// A packet of 11 octets of payload with a number of `octets` octets.
fn packet(backend: Backend, algorithm: AeadAlgorithm, number: u64, number_length: NumberLength) -> [u8; 32] {
    let mut packet = [0x11; 32];
    let header = ShortHeader { destination: ConnectionId::new(&[]).unwrap(), spin: false };
    let number_offset = header.encode(&mut packet).unwrap();
    let counter = PacketNumberCounter::starting_at(number).unwrap();
    let outgoing = Outgoing { packet: &mut packet, number_offset, number_length };
    Sealer::new(keys(backend, algorithm), counter).seal(outgoing).unwrap();
    packet
}

#[test]
fn q_17_the_last_packet_number_is_opened_and_none_after_it() {
    for &backend in Backend::ALL {
        for algorithm in AeadAlgorithm::ALL {
            let mut space = ReceiveSpace { largest: Some(MAX_PACKET_NUMBER - 2), ..ReceiveSpace::new() };
            let mut failures = AuthenticationFailures::new();
            let mut open = |mut packet: [u8; 32]| {
                let (protected, _) = Protected::split_first(&mut packet, 0).unwrap();
                let opened = keys(backend, algorithm).open(protected, &mut space, &mut failures);
                let number = opened.map(|opened| opened.number);
                (number, space.largest(), packet)
            };
            for number_length in
                [NumberLength::One, NumberLength::Two, NumberLength::Three, NumberLength::Four]
            {
                let packet = |number| packet(backend, algorithm, number, number_length);
                let back = number_length.octets() as u64;
                let earlier = MAX_PACKET_NUMBER - 10 - back;
                assert_eq!(open(packet(earlier)).0, Ok(earlier));
                let last = open(packet(MAX_PACKET_NUMBER));
                let expected = if back == 1 { Ok(MAX_PACKET_NUMBER) } else { Err(OpenError::Duplicate) };
                assert_eq!((last.0, last.1), (expected, Some(MAX_PACKET_NUMBER)));
                // The octets of 0 would now mean 2^62; what was the payload is wiped like that of any forgery.
                let (error, largest, left) = open(packet(0));
                assert_eq!((error, largest), (Err(OpenError::AuthenticationFailed), Some(MAX_PACKET_NUMBER)));
                assert!(left[1 + number_length.octets()..16].iter().all(|&octet| octet == 0));
            }
            assert_eq!(failures.count(), 4);
        }
    }
}
