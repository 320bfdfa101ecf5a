//! RustCrypto's AEADs and header masks, used directly.

use aes::{Aes128Enc, Aes256Enc};
use aes_gcm::aead::AeadInOut;
use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::{AesGcm, KeyInit};
use ccm::Ccm;
use chacha20::cipher::{BlockCipherEncrypt, KeyIvInit, StreamCipherCore};
use chacha20poly1305::ChaCha20Poly1305;
use wireseal_quic::AeadAlgorithm;

use super::contender::{MaskContender, PacketContender};
use super::direct::{Direct, Library};
use super::ring::Octets;

/// An AEAD, and a function that makes masks.
struct RustCrypto<A, M> {
    aead: A,
    mask: M,
}

impl<A, M> Library for RustCrypto<A, M>
where
    A: AeadInOut<NonceSize = U12, TagSize = U16> + 'static,
    M: Fn(&[u8; 16]) -> [u8; 5] + 'static,
{
    #[inline]
    fn seal(&mut self, nonce: [u8; 12], header: &[u8], payload: &mut [u8]) -> [u8; 16] {
        self.aead.encrypt_inout_detached(&nonce.into(), header, payload.into()).expect("short").into()
    }

    #[inline]
    fn open(&mut self, nonce: [u8; 12], header: &[u8], payload_and_tag: &mut [u8]) -> bool {
        let (payload, tag) = payload_and_tag.split_last_chunk_mut::<16>().expect("long enough");
        let tag = (*tag).into();
        self.aead.decrypt_inout_detached(&nonce.into(), header, payload.into(), &tag).is_ok()
    }

    #[inline]
    fn mask(&mut self, sample: &[u8; 16]) -> [u8; 5] {
        (self.mask)(sample)
    }
}

/// Masks with a block cipher (RFC 9001 §5.4.3).
fn aes_mask<C>(key: &[u8]) -> impl Fn(&[u8; 16]) -> [u8; 5] + use<C>
where
    C: KeyInit + BlockCipherEncrypt<BlockSize = U16>,
{
    let cipher = C::new_from_slice(key).expect("the length of the algorithm");
    move |sample| {
        let mut block = (*sample).into();
        cipher.encrypt_block(&mut block);
        *block.first_chunk().expect("16 octets")
    }
}

/// Masks with ChaCha20 (RFC 9001 §5.4.4).
fn chacha20_mask(key: &[u8]) -> impl Fn(&[u8; 16]) -> [u8; 5] + use<> {
    let key: [u8; 32] = key.try_into().expect("32 octets");
    move |sample| {
        let (counter, nonce) = sample.split_first_chunk().expect("16 octets");
        let nonce: &[u8; 12] = nonce.try_into().expect("12 octets");
        let mut core =
            chacha20::ChaChaCore::<chacha20::R20, chacha20::variants::Ietf>::new(&key.into(), nonce.into());
        core.set_block_pos(u32::from_le_bytes(*counter));
        let mut block = Default::default();
        core.write_keystream_block(&mut block);
        *block.first_chunk().expect("64 octets")
    }
}

fn contender<A, M>(octets: &Octets, mask: impl Fn(&[u8]) -> M) -> PacketContender
where
    A: KeyInit + AeadInOut<NonceSize = U12, TagSize = U16> + 'static,
    M: Fn(&[u8; 16]) -> [u8; 5] + 'static,
{
    let keys = || {
        let aead = A::new_from_slice(&octets.key).expect("the length of the algorithm");
        Direct::new(RustCrypto { aead, mask: mask(&octets.header_key) }, octets.iv)
    };
    Direct::packets("rustcrypto", keys(), keys())
}

pub(super) fn packets(algorithm: AeadAlgorithm) -> PacketContender {
    let octets = Octets::of(algorithm, true);
    match algorithm {
        AeadAlgorithm::Aes128Gcm => contender::<AesGcm<Aes128Enc, U12>, _>(&octets, aes_mask::<Aes128Enc>),
        AeadAlgorithm::Aes256Gcm => contender::<AesGcm<Aes256Enc, U12>, _>(&octets, aes_mask::<Aes256Enc>),
        AeadAlgorithm::ChaCha20Poly1305 => contender::<ChaCha20Poly1305, _>(&octets, chacha20_mask),
        AeadAlgorithm::Aes128Ccm => contender::<Ccm<Aes128Enc, U16, U12>, _>(&octets, aes_mask::<Aes128Enc>),
    }
}

pub(super) fn mask_contender(algorithm: AeadAlgorithm) -> MaskContender {
    let key = Octets::of(algorithm, true).header_key;
    match algorithm {
        AeadAlgorithm::Aes128Gcm | AeadAlgorithm::Aes128Ccm => {
            MaskContender::one_by_one("rustcrypto", aes_mask::<Aes128Enc>(&key))
        }
        AeadAlgorithm::Aes256Gcm => MaskContender::one_by_one("rustcrypto", aes_mask::<Aes256Enc>(&key)),
        AeadAlgorithm::ChaCha20Poly1305 => MaskContender::one_by_one("rustcrypto", chacha20_mask(&key)),
    }
}
