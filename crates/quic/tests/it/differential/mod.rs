//! Every length of payload with every length of associated data, against two other implementations of each AEAD: ring and
//! RustCrypto, and for CCM, which ring has not, RustCrypto and a model of SP 800-38C.

mod ccm_model;

use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::aead::{AeadInOut, KeyInit};
use ring::aead::{Aad, LessSafeKey, Nonce, UnboundKey};
use wireseal_quic::hazmat::{PacketKey, PathId};
use wireseal_quic::{AeadAlgorithm, Backend};

const MAX_PAYLOAD: usize = 1500;
const MAX_AAD: usize = 64;

const IV: [u8; 12] = *b"twelve octet";

/// Octets whose pattern does not repeat with a block.
fn octets<const N: usize>(step: usize) -> [u8; N] {
    std::array::from_fn(|at| (at * step + at / 251) as u8)
}

/// Encrypts in place under a nonce, with associated data, and returns the tag.
trait Seal {
    fn seal(&self, nonce: [u8; 12], aad: &[u8], payload: &mut [u8]) -> [u8; 16];
}

struct Ring(LessSafeKey);

impl Ring {
    fn new(algorithm: &'static ring::aead::Algorithm, key: &[u8]) -> Self {
        Self(LessSafeKey::new(UnboundKey::new(algorithm, key).expect("the key's length")))
    }
}

impl Seal for Ring {
    fn seal(&self, nonce: [u8; 12], aad: &[u8], payload: &mut [u8]) -> [u8; 16] {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(aad), payload);
        tag.expect("a short payload").as_ref().try_into().expect("16 octets")
    }
}

struct RustCrypto<A>(A);

impl<A: KeyInit> RustCrypto<A> {
    fn new(key: &[u8]) -> Self {
        Self(A::new_from_slice(key).expect("the key's length"))
    }
}

impl<A: AeadInOut<NonceSize = U12, TagSize = U16>> Seal for RustCrypto<A> {
    fn seal(&self, nonce: [u8; 12], aad: &[u8], payload: &mut [u8]) -> [u8; 16] {
        let tag = self.0.encrypt_inout_detached(&nonce.into(), aad, payload.into());
        tag.expect("a short payload").into()
    }
}

struct Model([u8; 16]);

impl Seal for Model {
    fn seal(&self, nonce: [u8; 12], aad: &[u8], payload: &mut [u8]) -> [u8; 16] {
        ccm_model::seal(self.0, nonce, aad, payload)
    }
}

/// The n-th pair of lengths is sealed as packet number n: both others must come to the same octets, and every backend must
/// as well, and open them.
fn compare(algorithm: AeadAlgorithm, key: &[u8], others: [&dyn Seal; 2]) {
    let plaintext = octets::<MAX_PAYLOAD>(7);
    let aad = octets::<MAX_AAD>(13);
    let backends: Vec<PacketKey> = Backend::ALL
        .iter()
        .map(|&backend| PacketKey::with_backend(backend, algorithm, key, &IV).expect("the key's length"))
        .collect();
    let mut number: u64 = 0;
    let mut expected = [0; MAX_PAYLOAD + 16];
    let mut packet = [0; MAX_PAYLOAD + 16];
    for payload_length in 0..=MAX_PAYLOAD {
        let plaintext = &plaintext[..payload_length];
        let expected = &mut expected[..payload_length + 16];
        let packet = &mut packet[..payload_length + 16];
        for aad_length in 0..=MAX_AAD {
            let aad = &aad[..aad_length];
            let mut nonce = IV;
            nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(octet, number)| *octet ^= number);
            let seal = |packet: &mut [u8], seal: &mut dyn FnMut(&mut [u8]) -> [u8; 16]| {
                let (payload, tag) = packet.split_at_mut(payload_length);
                payload.copy_from_slice(plaintext);
                tag.copy_from_slice(&seal(payload));
            };
            seal(expected, &mut |payload| others[0].seal(nonce, aad, payload));
            seal(packet, &mut |payload| others[1].seal(nonce, aad, payload));
            assert_eq!(packet, expected, "the others, {payload_length} and {aad_length} octets");
            for (key, backend) in backends.iter().zip(Backend::ALL) {
                seal(packet, &mut |payload| {
                    key.seal(PathId(0), number, aad, payload).expect("a short payload")
                });
                assert_eq!(packet, expected, "{backend:?}, {payload_length} and {aad_length} octets");
                let opened = key.open(PathId(0), number, aad, packet);
                assert_eq!(
                    opened.as_deref(),
                    Some(plaintext),
                    "{backend:?}, {payload_length} and {aad_length} octets"
                );
            }
            number += 1;
        }
    }
    assert_eq!(number, 1501 * 65);
}

#[test]
fn q_24_aes_128_gcm() {
    let key = octets::<16>(3);
    let others: [&dyn Seal; 2] =
        [&Ring::new(&ring::aead::AES_128_GCM, &key), &RustCrypto::<aes_gcm::Aes128Gcm>::new(&key)];
    compare(AeadAlgorithm::Aes128Gcm, &key, others);
}

#[test]
fn q_24_aes_256_gcm() {
    let key = octets::<32>(3);
    let others: [&dyn Seal; 2] =
        [&Ring::new(&ring::aead::AES_256_GCM, &key), &RustCrypto::<aes_gcm::Aes256Gcm>::new(&key)];
    compare(AeadAlgorithm::Aes256Gcm, &key, others);
}

#[test]
fn q_24_chacha20_poly1305() {
    let key = octets::<32>(3);
    let others: [&dyn Seal; 2] = [
        &Ring::new(&ring::aead::CHACHA20_POLY1305, &key),
        &RustCrypto::<chacha20poly1305::ChaCha20Poly1305>::new(&key),
    ];
    compare(AeadAlgorithm::ChaCha20Poly1305, &key, others);
}

#[test]
fn q_24_aes_128_ccm() {
    let key = octets::<16>(3);
    let others: [&dyn Seal; 2] = [&RustCrypto::<ccm::Ccm<aes::Aes128, U16, U12>>::new(&key), &Model(key)];
    compare(AeadAlgorithm::Aes128Ccm, &key, others);
}
