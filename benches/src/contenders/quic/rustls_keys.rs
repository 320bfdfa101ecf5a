//! The QUIC keys of rustls providers, through rustls' trait objects.

use rustls::crypto::CryptoProvider;
use rustls::quic::{DirectionalKeys, Keys, Version};
use rustls::{CipherSuite, Side, Tls13CipherSuite};
use wireseal_quic::AeadAlgorithm;

use super::contender::{InitialContender, MaskContender, PacketContender};
use super::packet::{CONNECTION_ID, FIRST, INITIAL_FIRST, INITIAL_NUMBER, NUMBER, PAYLOAD};

fn suite(provider: &CryptoProvider, algorithm: AeadAlgorithm) -> Option<&'static Tls13CipherSuite> {
    let wanted = CipherSuite::from(algorithm.tls_cipher_suite());
    provider
        .cipher_suites
        .iter()
        .filter_map(rustls::SupportedCipherSuite::tls13)
        .find(|suite| suite.common.suite == wanted)
}

fn keys(suite: &'static Tls13CipherSuite, connection_id: &[u8]) -> Keys {
    suite.quic_suite().expect("with QUIC").keys(connection_id, Side::Client, Version::V1)
}

/// The client's keys of a suite.
pub(super) fn client(suite: &'static Tls13CipherSuite) -> DirectionalKeys {
    keys(suite, &CONNECTION_ID).local
}

/// Seals a packet as a QUIC stack does, with `first` for its first octet and a number of four octets at the offset `AT`.
#[inline]
fn seal<const AT: usize>(keys: &DirectionalKeys, first: u8, number: u64, packet: &mut [u8]) {
    packet[0] = first;
    packet[AT..AT + 4].copy_from_slice(&(number as u32).to_be_bytes());
    let (header, body) = packet.split_at_mut(AT + 4);
    let (payload, to) = body.split_at_mut(body.len() - keys.packet.tag_len());
    let tag = keys.packet.encrypt_in_place(number, header, payload).expect("a short payload");
    to.copy_from_slice(tag.as_ref());
    let (header, sample) = packet.split_at_mut(AT + 4);
    let (first, rest) = header.split_at_mut(1);
    let sample = &sample[..keys.header.sample_len()];
    keys.header.encrypt_in_place(sample, &mut first[0], &mut rest[AT - 1..]).expect("a sample");
}

/// Only for numbers that fit four octets, which need no decoding.
fn open(keys: &DirectionalKeys, packet: &mut [u8]) -> bool {
    let (header, sample) = packet.split_at_mut(NUMBER + 4);
    let (first, rest) = header.split_at_mut(1);
    let sample = &sample[..keys.header.sample_len()];
    keys.header.decrypt_in_place(sample, &mut first[0], &mut rest[NUMBER - 1..]).expect("a sample");
    let (header, body) = packet.split_at_mut(PAYLOAD);
    let number = u64::from(u32::from_be_bytes(*header.last_chunk().expect("four octets of number")));
    keys.packet.decrypt_in_place(number, header, body).is_ok()
}

fn packet_contender(name: &'static str, suite: &'static Tls13CipherSuite) -> PacketContender {
    let (sender, receiver, mut number) = (client(suite), client(suite), 0);
    PacketContender {
        name,
        seal: Box::new(move |packet| {
            seal::<NUMBER>(&sender, FIRST, number, packet);
            number += 1;
        }),
        open: Box::new(move |packet| open(&receiver, packet)),
    }
}

/// The mask, without the bits of the first octet that a header key does not touch: what it makes of an empty header.
pub(super) fn mask(keys: &DirectionalKeys, sample: &[u8; 16]) -> [u8; 5] {
    let (mut first, mut number) = (0x43, [0; 4]);
    keys.header.encrypt_in_place(sample, &mut first, &mut number).expect("a sample");
    let [a, b, c, d] = number;
    [first ^ 0x43, a, b, c, d]
}

/// The providers by name. BoringSSL's is left out: the AES header keys of boring-rustls-provider 5.0.1 panic at the first sample.
fn providers() -> [(&'static str, CryptoProvider); 2] {
    let ring = rustls::crypto::ring::default_provider;
    [("rustls on ring", ring()), ("rustls on wireseal", wireseal_rustls::provider(ring()))]
}

fn suites(algorithm: AeadAlgorithm) -> impl Iterator<Item = (&'static str, &'static Tls13CipherSuite)> {
    providers().into_iter().filter_map(move |(name, provider)| Some((name, suite(&provider, algorithm)?)))
}

pub(super) fn packets(algorithm: AeadAlgorithm) -> Vec<PacketContender> {
    suites(algorithm).map(|(name, suite)| packet_contender(name, suite)).collect()
}

pub(super) fn mask_contenders(algorithm: AeadAlgorithm) -> Vec<MaskContender> {
    let contender = |(name, suite)| {
        let keys = client(suite);
        MaskContender::one_by_one(name, move |sample| mask(&keys, sample))
    };
    suites(algorithm).map(contender).collect()
}

pub(super) fn initial_contenders() -> Vec<InitialContender> {
    let contender = |(name, suite)| {
        let set_up = move |connection_id: &[u8]| {
            let Keys { local, remote } = keys(suite, connection_id);
            [local, remote]
        };
        InitialContender::new(name, set_up, |keys, packet| {
            seal::<INITIAL_NUMBER>(&keys, INITIAL_FIRST, 0, packet);
        })
    };
    suites(AeadAlgorithm::Aes128Gcm).map(contender).collect()
}
