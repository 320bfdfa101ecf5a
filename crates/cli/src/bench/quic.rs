//! 1-RTT packets, sealed and opened one by one.

use std::hint::black_box;
use std::time::Duration;

use serde::Serialize;
use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Keys, NumberLength, Outgoing, PacketNumberCounter, PacketType,
    Protected, ReceiveSpace, SealError, Sealer, TrafficSecret, Version,
};

use super::rate::per_second;

pub(super) const MEASURED: u32 = 2 * AeadAlgorithm::ALL.len() as u32;
/// Octets of a packet, and of its connection ID.
const PACKET: usize = 1200;
const CONNECTION_ID: usize = 8;
/// How many packets between two looks at the clock.
const AT_ONCE: u32 = 32;

/// The speed of one core with QUIC.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QuicFigure {
    /// The suite's name.
    pub suite: &'static str,
    /// What implements it: processor instructions or a library.
    pub served_by: &'static str,
    /// Octets of a packet.
    pub packet: usize,
    /// Gbit of packets sealed per second.
    pub sealed: f64,
    /// Gbit of packets opened per second, including a copy of each.
    pub opened: f64,
}

pub(super) fn run(window: Duration) -> Vec<QuicFigure> {
    AeadAlgorithm::ALL.into_iter().map(|algorithm| measure(algorithm, window)).collect()
}

fn measure(algorithm: AeadAlgorithm, window: Duration) -> QuicFigure {
    let keys = || {
        let secret = TrafficSecret::new(algorithm, &vec![0x5a; algorithm.secret_length()]);
        Keys::new(Version::V1, PacketType::OneRtt, secret.expect("the secret has the suite's length"))
    };
    let mut sealer = Sealer::new(keys(), PacketNumberCounter::new());
    let mut packet = [0x40; PACKET];
    let mut seal = |packet: &mut [u8; PACKET]| {
        loop {
            packet[0] = 0x40;
            let number_length = NumberLength::Four;
            let outgoing = Outgoing { packet, number_offset: 1 + CONNECTION_ID, number_length };
            match sealer.seal(outgoing) {
                // The most packets that one key may protect (RFC 9001 §6.6).
                Err(SealError::ConfidentialityLimit) => {
                    sealer = Sealer::new(keys(), PacketNumberCounter::new());
                }
                result => break result.expect("there is room for everything"),
            }
        }
    };
    let sealed = per_second(window, AT_ONCE, || {
        for _ in 0..AT_ONCE {
            seal(black_box(&mut packet));
        }
    });

    let (keys, mut space) = (keys(), ReceiveSpace::without_window());
    let mut failures = AuthenticationFailures::new();
    let mut received = [0; PACKET];
    let opened = per_second(window, AT_ONCE, || {
        for _ in 0..AT_ONCE {
            received.copy_from_slice(black_box(&packet));
            let (protected, _) =
                Protected::split_first(&mut received, CONNECTION_ID).expect("the header is well-formed");
            black_box(keys.open(protected, &mut space, &mut failures).expect("the packet is sealed"));
        }
    });
    let gbit = |packets: f64| packets * (PACKET * 8) as f64 / 1e9;
    QuicFigure {
        suite: algorithm.name(),
        served_by: keys.served_by(),
        packet: PACKET,
        sealed: gbit(sealed),
        opened: gbit(opened),
    }
}
