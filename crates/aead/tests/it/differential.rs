//! Every length of a packet's payload with every length of associated data, against two other implementations of each AEAD: ring and
//! RustCrypto, or for CCM, which ring lacks, RustCrypto and a model of SP 800-38C.

use aes::Aes128;
use aes::cipher::BlockCipherEncrypt;
use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::aead::{AeadInOut, KeyInit};
use ring::aead::{Aad, LessSafeKey, Nonce, UnboundKey};
use wireseal_aead::{AeadAlgorithm, AeadKey, Backend};

use crate::TURN;

const MAX_PAYLOAD: usize = 1500;
const MAX_AAD: usize = 64;

const IV: [u8; 12] = *b"twelve octet";

/// Octets whose pattern does not repeat with a block.
fn octets<const N: usize>(step: usize) -> [u8; N] {
    std::array::from_fn(|at| (at * step + at / 251) as u8)
}

/// Encrypts in place under a nonce, with associated data, and returns the tag.
type Seal = Box<dyn Fn([u8; 12], &[u8], &mut [u8]) -> [u8; 16]>;

fn ring(algorithm: &'static ring::aead::Algorithm, key: &[u8]) -> Seal {
    let key = LessSafeKey::new(UnboundKey::new(algorithm, key).unwrap());
    Box::new(move |nonce, aad, payload| {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(aad), payload).unwrap();
        tag.as_ref().try_into().unwrap()
    })
}

fn rust_crypto<A: KeyInit + AeadInOut<NonceSize = U12, TagSize = U16> + 'static>(key: &[u8]) -> Seal {
    let key = A::new_from_slice(key).unwrap();
    Box::new(move |nonce, aad, payload| {
        key.encrypt_inout_detached(&nonce.into(), aad, payload.into()).unwrap().into()
    })
}

/// Seals the n-th pair of lengths under nonce n. The other two implementations and every backend must produce the same octets, and
/// every backend must open them.
fn compare(algorithm: AeadAlgorithm, key: &[u8], others: [Seal; 2]) {
    let plaintext = octets::<MAX_PAYLOAD>(7);
    let aad = octets::<MAX_AAD>(13);
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let backends: Vec<AeadKey> =
        Backend::ALL.iter().map(|&backend| AeadKey::with_backend(backend, algorithm, key).unwrap()).collect();
    let mut number: u64 = 0;
    let [mut expected, mut packet] = [[0; MAX_PAYLOAD + 16]; 2];
    for payload_length in 0..=MAX_PAYLOAD {
        let plaintext = &plaintext[..payload_length];
        let [expected, packet] =
            [&mut expected, &mut packet].map(|octets| &mut octets[..payload_length + 16]);
        for aad_length in 0..=MAX_AAD {
            let aad = &aad[..aad_length];
            let mut nonce = IV;
            nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(octet, number)| *octet ^= number);
            let seal = |packet: &mut [u8], seal: &dyn Fn(&mut [u8]) -> [u8; 16]| {
                let (payload, tag) = packet.split_at_mut(payload_length);
                payload.copy_from_slice(plaintext);
                tag.copy_from_slice(&seal(payload));
            };
            seal(expected, &|payload| others[0](nonce, aad, payload));
            seal(packet, &|payload| others[1](nonce, aad, payload));
            assert_eq!(packet, expected, "the others, {payload_length} and {aad_length} octets");
            for (key, backend) in backends.iter().zip(Backend::ALL) {
                seal(packet, &|payload| key.seal_detached(&nonce, aad, payload).unwrap());
                assert_eq!(packet, expected, "{backend:?}, {payload_length} and {aad_length} octets");
                let opened = key.open(&nonce, aad, packet);
                assert_eq!(
                    opened.as_deref(),
                    Ok(plaintext),
                    "{backend:?}, {payload_length} and {aad_length}"
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
    let others = [ring(&ring::aead::AES_128_GCM, &key), rust_crypto::<aes_gcm::Aes128Gcm>(&key)];
    compare(AeadAlgorithm::Aes128Gcm, &key, others);
}

#[test]
fn q_24_aes_256_gcm() {
    let key = octets::<32>(3);
    let others = [ring(&ring::aead::AES_256_GCM, &key), rust_crypto::<aes_gcm::Aes256Gcm>(&key)];
    compare(AeadAlgorithm::Aes256Gcm, &key, others);
}

#[test]
fn q_24_chacha20_poly1305() {
    let key = octets::<32>(3);
    let others =
        [ring(&ring::aead::CHACHA20_POLY1305, &key), rust_crypto::<chacha20poly1305::ChaCha20Poly1305>(&key)];
    compare(AeadAlgorithm::ChaCha20Poly1305, &key, others);
}

#[test]
fn q_24_aes_128_ccm() {
    let key = octets::<16>(3);
    let model: Seal = Box::new(move |nonce, aad, payload| seal_by_model(key, nonce, aad, payload));
    compare(AeadAlgorithm::Aes128Ccm, &key, [rust_crypto::<ccm::Ccm<aes::Aes128, U16, U12>>(&key), model]);
}

/// AES-128-CCM block by block, as in SP 800-38C: encrypts `payload` in place and returns the tag of 16 octets.
pub(crate) fn seal_by_model(key: [u8; 16], nonce: [u8; 12], aad: &[u8], payload: &mut [u8]) -> [u8; 16] {
    Model { cipher: Aes128::new(&key.into()), nonce }.seal(aad, payload)
}

/// Parameters of RFC 5116 §5.3: t = 16 octets of tag, q = 3 octets of length, n = 12 octets of nonce.
struct Model {
    cipher: Aes128,
    nonce: [u8; 12],
}

impl Model {
    fn seal(&self, aad: &[u8], payload: &mut [u8]) -> [u8; 16] {
        // §6.1: the MAC of the plaintext, counter mode from counter 1 on, and counter 0 to encrypt the MAC.
        let mac = self.cbc_mac(aad, payload);
        for (counter, block) in (1..).zip(payload.chunks_mut(16)) {
            let keystream = self.encrypt(self.with_nonce(2, counter));
            block.iter_mut().zip(keystream).for_each(|(octet, key)| *octet ^= key);
        }
        xor(mac, self.encrypt(self.with_nonce(2, 0)))
    }

    /// §A.2, and §6.1, steps 2 and 3.
    fn cbc_mac(&self, aad: &[u8], payload: &[u8]) -> [u8; 16] {
        let has_aad = u8::from(!aad.is_empty());
        let flags = (has_aad << 6) | (((16 - 2) / 2) << 3) | (3 - 1);
        let mut mac = self.encrypt(self.with_nonce(flags, payload.len().try_into().unwrap()));
        if !aad.is_empty() {
            let length = match aad.len() {
                length @ ..0xff00 => (length as u16).to_be_bytes().to_vec(),
                length => [&[0xff, 0xfe][..], &u32::try_from(length).unwrap().to_be_bytes()].concat(),
            };
            mac = self.chain(mac, &[&length, aad].concat());
        }
        self.chain(mac, payload)
    }

    /// Continues the CBC-MAC with `octets`, padded with zeros.
    fn chain(&self, mac: [u8; 16], octets: &[u8]) -> [u8; 16] {
        octets.chunks(16).fold(mac, |mac, chunk| {
            let mut block = [0; 16];
            block[..chunk.len()].copy_from_slice(chunk);
            self.encrypt(xor(mac, block))
        })
    }

    /// Flags, nonce, and three octets of a length or a counter.
    fn with_nonce(&self, flags: u8, last: u32) -> [u8; 16] {
        let mut block = [0; 16];
        block[12..].copy_from_slice(&last.to_be_bytes());
        block[0] = flags;
        block[1..13].copy_from_slice(&self.nonce);
        block
    }

    fn encrypt(&self, block: [u8; 16]) -> [u8; 16] {
        let mut block = block.into();
        self.cipher.encrypt_block(&mut block);
        block.into()
    }
}

fn xor(left: [u8; 16], right: [u8; 16]) -> [u8; 16] {
    (u128::from_ne_bytes(left) ^ u128::from_ne_bytes(right)).to_ne_bytes()
}
