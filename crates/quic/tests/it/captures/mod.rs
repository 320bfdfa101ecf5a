//! Real connections of other stacks, replayed at both ends: every packet opens, and is sealed again to the same octets.

mod handshake;
mod recording;
mod replay;

use std::time::Duration;

use recording::KeyLogFile;
use replay::{Contents, Seen, replay};
use wireseal_quic::{AeadAlgorithm, Backend, PacketType, Version};

use crate::support::{Side, for_each_backend};

struct Capture {
    packets: &'static [u8],
    keys: &'static str,
    /// How long the client's datagrams were on their way; it matters where a key update crosses packets of the server.
    latency: Duration,
}

macro_rules! capture {
    ($name:literal, $latency:expr) => {
        Capture {
            packets: include_bytes!(concat!("../../data/captures/", $name, ".pcap")),
            keys: include_str!(concat!("../../data/captures/", $name, ".keys")),
            latency: $latency,
        }
    };
}

const AIOQUIC_AES_128_GCM: Capture = capture!("quic-aioquic-v1-aes128-ku", Duration::ZERO);
const AIOQUIC_V2_AES_256_GCM: Capture = capture!("quic-aioquic-v2-aes256-ku", Duration::ZERO);
const NGTCP2_CHACHA20_POLY1305: Capture = capture!("quic-ngtcp2-v1-chacha-ku", Duration::ZERO);
const NGTCP2_AES_128_CCM: Capture = capture!("quic-ngtcp2-v1-ccm-ku", Duration::from_micros(500));
const NGTCP2_RETRY_0RTT: Capture = capture!("quic-ngtcp2-retry-0rtt", Duration::ZERO);

impl Capture {
    fn replay(&self, backend: Backend) -> Contents {
        replay(backend, self.packets, &KeyLogFile::parse(self.keys), self.latency)
    }

    #[track_caller]
    fn assert_replays(&self, version: Version, algorithm: AeadAlgorithm, packets: usize, updates: u64) {
        for_each_backend(|backend| {
            let contents = self.replay(backend);
            assert_eq!(contents.packets.len(), packets);
            assert_eq!(contents.updates, [updates; 2]);
            for seen in contents.packets.iter().filter(|seen| seen.packet_type == PacketType::OneRtt) {
                assert_eq!((seen.version, seen.algorithm), (version, Some(algorithm)));
            }
        });
    }
}

#[test]
fn q_26_aes_128_gcm_connection_with_three_key_updates() {
    AIOQUIC_AES_128_GCM.assert_replays(Version::V1, AeadAlgorithm::Aes128Gcm, 53, 3);
}

#[test]
fn q_26_aes_256_gcm_connection_of_version_2_with_two_key_updates() {
    AIOQUIC_V2_AES_256_GCM.assert_replays(Version::V2, AeadAlgorithm::Aes256Gcm, 44, 2);
}

#[test]
fn q_26_chacha20_poly1305_connection_with_a_key_update() {
    NGTCP2_CHACHA20_POLY1305.assert_replays(Version::V1, AeadAlgorithm::ChaCha20Poly1305, 76, 1);
}

#[test]
fn q_26_aes_128_ccm_connection_with_a_key_update() {
    NGTCP2_AES_128_CCM.assert_replays(Version::V1, AeadAlgorithm::Aes128Ccm, 131, 1);
}

#[test]
fn q_26_two_connections_with_retry_and_0_rtt() {
    NGTCP2_RETRY_0RTT.assert_replays(Version::V1, AeadAlgorithm::Aes128Gcm, 138, 0);
}

/// What a client sent, connection by connection.
fn client_numbers(packets: &[Seen], connection: usize, packet_type: PacketType) -> Vec<u64> {
    let of_client =
        packets.iter().filter(|seen| seen.connection == connection && seen.sender == Side::Client);
    of_client.filter(|seen| seen.packet_type == packet_type).map(|seen| seen.number).collect()
}

#[test]
fn q_08_packet_numbers_go_on_after_a_retry_and_after_0_rtt() {
    for_each_backend(|backend| {
        let Contents { packets, retries, .. } = NGTCP2_RETRY_0RTT.replay(backend);
        assert_eq!(retries, 2);
        for (connection, first) in [(0, 598_868_931), (1, 1_084_515_298)] {
            let initial = client_numbers(&packets, connection, PacketType::Initial);
            assert_eq!(initial, [first, first + 1, first + 2]);
        }
        let early = client_numbers(&packets, 1, PacketType::ZeroRtt);
        let late = client_numbers(&packets, 1, PacketType::OneRtt);
        assert_eq!(early.last().map(|last| last + 1), late.first().copied());
    });
}

#[test]
fn octets_of_zero_behind_the_last_packet_are_no_packet() {
    for_each_backend(|backend| {
        for (capture, padded) in [(&AIOQUIC_AES_128_GCM, 2), (&AIOQUIC_V2_AES_256_GCM, 2)] {
            assert_eq!(capture.replay(backend).padded, padded);
        }
    });
}

#[test]
fn packets_with_a_cleared_fixed_bit_open() {
    for_each_backend(|backend| {
        let greased = [&NGTCP2_CHACHA20_POLY1305, &NGTCP2_AES_128_CCM, &NGTCP2_RETRY_0RTT]
            .map(|capture| capture.replay(backend).greased);
        assert_eq!(greased, [57, 110, 56]);
    });
}
