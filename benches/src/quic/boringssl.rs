//! BoringSSL: its EVP_AEAD, and its AES for masks, with keys that are set up before. No safe interface has ChaCha20 as such,
//! so that its masks come from the header keys of boring-rustls-provider, which calls CRYPTO_chacha_20.

use boring::aead::{AeadCtx, Algorithm};
use boring::symm::{Cipher, Crypter, Mode};
use wireseal_quic::AeadAlgorithm;

use super::direct::{Direct, Library, Octets};
use super::masks::{MaskContender, one_by_one};
use super::{PacketContender, rustls_keys};

type Mask = Box<dyn FnMut(&[u8; 16]) -> [u8; 5]>;

struct Keys {
    aead: AeadCtx,
    mask: Mask,
}

impl Library for Keys {
    fn seal(&mut self, nonce: [u8; 12], header: &[u8], payload: &mut [u8]) -> [u8; 16] {
        let mut tag = [0; 16];
        self.aead.seal_in_place_mut(&nonce, payload, &mut tag, header).expect("a short payload");
        tag
    }

    fn open(&mut self, nonce: [u8; 12], header: &[u8], payload_and_tag: &mut [u8]) -> bool {
        let (payload, tag) = payload_and_tag.split_last_chunk_mut::<16>().expect("long enough");
        self.aead.open_in_place_mut(&nonce, payload, tag, header).is_ok()
    }

    fn mask(&mut self, sample: &[u8; 16]) -> [u8; 5] {
        (self.mask)(sample)
    }
}

fn aes(cipher: Cipher, key: &[u8]) -> Crypter {
    let mut crypter = Crypter::new(cipher, Mode::Encrypt, key, None).expect("the algorithm's length");
    crypter.pad(false);
    crypter
}

fn cipher(algorithm: AeadAlgorithm) -> Option<Cipher> {
    match algorithm {
        AeadAlgorithm::Aes128Gcm | AeadAlgorithm::Aes128Ccm => Some(Cipher::aes_128_ecb()),
        AeadAlgorithm::Aes256Gcm => Some(Cipher::aes_256_ecb()),
        AeadAlgorithm::ChaCha20Poly1305 => None,
    }
}

fn mask(octets: &Octets) -> Mask {
    let Some(cipher) = cipher(octets.algorithm) else {
        let keys = rustls_keys::client(&boring_rustls_provider::tls13::CHACHA20_POLY1305_SHA256);
        return Box::new(move |sample| rustls_keys::mask(&keys, sample));
    };
    let mut aes = aes(cipher, &octets.header_key);
    Box::new(move |sample| {
        // EVP_EncryptUpdate wants room for another block.
        let mut blocks = [0; 32];
        aes.update(sample, &mut blocks).expect("a whole block");
        *blocks.first_chunk().expect("32 octets")
    })
}

pub(super) fn packets(algorithm: AeadAlgorithm) -> Option<PacketContender> {
    let aead = match algorithm {
        AeadAlgorithm::Aes128Gcm => Algorithm::aes_128_gcm(),
        AeadAlgorithm::Aes256Gcm => Algorithm::aes_256_gcm(),
        AeadAlgorithm::ChaCha20Poly1305 => Algorithm::chacha20_poly1305(),
        // BoringSSL has it for Bluetooth and Matter only, and the crate not at all.
        AeadAlgorithm::Aes128Ccm => return None,
    };
    let octets = Octets::of(algorithm, true);
    let keys = || {
        let aead = AeadCtx::new_default_tag(&aead, &octets.key).expect("the algorithm's length");
        Direct::new(Keys { aead, mask: mask(&octets) }, octets.iv)
    };
    Some(Direct::packets("boringssl", keys(), keys()))
}

pub(super) fn mask_contenders(algorithm: AeadAlgorithm) -> Option<MaskContender> {
    let octets = Octets::of(algorithm, true);
    let Some(cipher) = cipher(algorithm) else {
        return Some(one_by_one("boringssl", mask(&octets)));
    };
    let mut aes = aes(cipher, &octets.header_key);
    // All samples in one call, as ECB does it.
    let mut blocks = vec![[0; 16]; 101];
    let masks = move |samples: &[[u8; 16]], masks: &mut [[u8; 5]]| {
        aes.update(samples.as_flattened(), blocks[..=samples.len()].as_flattened_mut())
            .expect("whole blocks");
        for (block, mask) in blocks.iter().zip(masks) {
            *mask = *block.first_chunk().expect("16 octets");
        }
    };
    Some(MaskContender { name: "boringssl", masks: Box::new(masks) })
}
