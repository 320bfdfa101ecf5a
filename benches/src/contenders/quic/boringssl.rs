//! BoringSSL: EVP_AEAD, and AES block by block for masks, with prepared keys. No safe interface has ChaCha20 alone, so its masks come
//! from the header keys of boring-rustls-provider, which calls CRYPTO_chacha_20.

use boring::aead::{AeadCtx, Algorithm};
use boring::symm::{Cipher, Crypter, Mode};
use wireseal_bench_peers::Aes;
use wireseal_quic::AeadAlgorithm;

use super::contender::{MaskContender, PacketContender};
use super::direct::{Direct, Library};
use super::ring::Octets;
use super::rustls_keys;

struct Keys<M> {
    aead: AeadCtx,
    mask: M,
}

impl<M: FnMut(&[u8; 16]) -> [u8; 5] + 'static> Library for Keys<M> {
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

fn aes_mask(key: &[u8]) -> impl FnMut(&[u8; 16]) -> [u8; 5] + use<> {
    let aes = Aes::new(key).expect("the algorithm's length");
    move |sample| *aes.encrypt(sample).first_chunk().expect("16 octets")
}

fn chacha20_mask() -> impl FnMut(&[u8; 16]) -> [u8; 5] + use<> {
    let keys = rustls_keys::client(&boring_rustls_provider::tls13::CHACHA20_POLY1305_SHA256);
    move |sample| rustls_keys::mask(&keys, sample)
}

fn contender<M>(octets: &Octets, aead: Algorithm, mask: impl Fn() -> M) -> PacketContender
where
    M: FnMut(&[u8; 16]) -> [u8; 5] + 'static,
{
    let keys = || {
        let aead = AeadCtx::new_default_tag(&aead, &octets.key).expect("the algorithm's length");
        Direct::new(Keys { aead, mask: mask() }, octets.iv)
    };
    Direct::packets("boringssl", keys(), keys())
}

pub(super) fn packets(algorithm: AeadAlgorithm) -> Option<PacketContender> {
    let octets = Octets::of(algorithm, true);
    let aes = || aes_mask(&octets.header_key);
    match algorithm {
        AeadAlgorithm::Aes128Gcm => Some(contender(&octets, Algorithm::aes_128_gcm(), aes)),
        AeadAlgorithm::Aes256Gcm => Some(contender(&octets, Algorithm::aes_256_gcm(), aes)),
        AeadAlgorithm::ChaCha20Poly1305 => {
            Some(contender(&octets, Algorithm::chacha20_poly1305(), chacha20_mask))
        }
        // BoringSSL has it only for Bluetooth and Matter, and the crate not at all.
        AeadAlgorithm::Aes128Ccm => None,
    }
}

pub(super) fn mask_contender(algorithm: AeadAlgorithm) -> MaskContender {
    let cipher = match algorithm {
        AeadAlgorithm::Aes128Gcm | AeadAlgorithm::Aes128Ccm => Cipher::aes_128_ecb(),
        AeadAlgorithm::Aes256Gcm => Cipher::aes_256_ecb(),
        AeadAlgorithm::ChaCha20Poly1305 => return MaskContender::one_by_one("boringssl", chacha20_mask()),
    };
    let octets = Octets::of(algorithm, true);
    let mut mask = aes_mask(&octets.header_key);
    let mut many =
        Crypter::new(cipher, Mode::Encrypt, &octets.header_key, None).expect("the algorithm's length");
    many.pad(false);
    // Many samples in one call of ECB; EVP_EncryptUpdate needs room for another block.
    let mut blocks = vec![[0; 16]; 101];
    let masks = move |samples: &[[u8; 16]], masks: &mut [[u8; 5]]| {
        if let ([sample], [to]) = (samples, &mut *masks) {
            *to = mask(sample);
            return;
        }
        many.update(samples.as_flattened(), blocks[..=samples.len()].as_flattened_mut())
            .expect("whole blocks");
        for (block, to) in blocks.iter().zip(masks) {
            *to = *block.first_chunk().expect("16 octets");
        }
    };
    MaskContender { name: "boringssl", masks: Box::new(masks) }
}
