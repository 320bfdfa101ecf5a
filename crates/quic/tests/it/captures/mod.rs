//! Real connections of other stacks, replayed at both ends: every packet opens, and is sealed again to the same octets.

mod recording;
mod replay;

use std::fs;
use std::time::Duration;

use recording::key_log;
use replay::{Contents, Seen, replay};
use wireseal_quic::AeadAlgorithm::{self, Aes128Ccm, Aes128Gcm, Aes256Gcm, ChaCha20Poly1305};
use wireseal_quic::{Backend, PacketType, Version};

use crate::support::{Side, for_each_backend};

struct Capture {
    name: &'static str,
    algorithm: AeadAlgorithm,
    /// How many microseconds the client's datagrams travelled. It matters where a key update crosses packets of the server.
    latency: u64,
}

const fn capture(name: &'static str, algorithm: AeadAlgorithm, latency: u64) -> Capture {
    Capture { name, algorithm, latency }
}

const AIOQUIC_AES_128_GCM: Capture = capture("quic-aioquic-v1-aes128-ku", Aes128Gcm, 0);
const AIOQUIC_V2_AES_256_GCM: Capture = capture("quic-aioquic-v2-aes256-ku", Aes256Gcm, 0);
const NGTCP2_CHACHA20_POLY1305: Capture = capture("quic-ngtcp2-v1-chacha-ku", ChaCha20Poly1305, 0);
const NGTCP2_AES_128_CCM: Capture = capture("quic-ngtcp2-v1-ccm-ku", Aes128Ccm, 500);
const NGTCP2_RETRY_0RTT: Capture = capture("quic-ngtcp2-retry-0rtt", Aes128Gcm, 0);

impl Capture {
    fn replay(&self, backend: Backend) -> Contents {
        let path = |extension: &str| format!("tests/data/captures/{}.{extension}", self.name);
        let (packets, keys) = (fs::read(path("pcap")).unwrap(), fs::read_to_string(path("keys")).unwrap());
        replay(backend, self.algorithm, &packets, &key_log(&keys), Duration::from_micros(self.latency))
    }
}

#[test]
fn q_26_every_packet_of_other_stacks_opens_and_is_sealed_to_the_same_octets() {
    for (capture, version, packets, updates) in [
        (AIOQUIC_AES_128_GCM, Version::V1, 53, 3),
        (AIOQUIC_V2_AES_256_GCM, Version::V2, 44, 2),
        (NGTCP2_CHACHA20_POLY1305, Version::V1, 76, 1),
        (NGTCP2_AES_128_CCM, Version::V1, 131, 1),
        (NGTCP2_RETRY_0RTT, Version::V1, 138, 0),
    ] {
        for_each_backend(|backend| {
            let contents = capture.replay(backend);
            assert_eq!((contents.packets.len(), contents.updates), (packets, [updates; 2]));
            let mut one_rtt = contents.packets.iter().filter(|seen| seen.packet_type == PacketType::OneRtt);
            assert!(one_rtt.all(|seen| seen.version == version));
        });
    }
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
