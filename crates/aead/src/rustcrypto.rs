//! Keys from RustCrypto, which wipe themselves on drop.

use aes::cipher::{
    BlockCipherEncrypt, KeyInit,
    consts::{U12, U16},
};
use aes::{Aes128Enc, Block};
use ccm::aead::AeadInOut;

/// A RustCrypto AEAD with nonces of 12 octets and tags of 16.
#[derive(Clone)]
pub(crate) struct Aead<A>(A);

pub(crate) type Aes128Ccm = Aead<ccm::Ccm<Aes128Enc, U16, U12>>;
#[cfg(feature = "rustcrypto")]
pub(crate) type Aes128Gcm = Aead<aes_gcm::AesGcm<Aes128Enc, U12>>;
#[cfg(feature = "rustcrypto")]
pub(crate) type Aes256Gcm = Aead<aes_gcm::AesGcm<aes::Aes256Enc, U12>>;
#[cfg(feature = "rustcrypto")]
pub(crate) type ChaCha20Poly1305 = Aead<chacha20poly1305::ChaCha20Poly1305>;

impl<A: KeyInit + AeadInOut<NonceSize = U12, TagSize = U16>> Aead<A> {
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        A::new_from_slice(key).ok().map(Self)
    }

    // `seal` and `open` are not inlined, so that the `match` over the libraries is small enough to be inlined itself.
    /// `None` if the text is too long.
    #[inline(never)]
    pub(crate) fn seal(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> Option<[u8; 16]> {
        self.0.encrypt_inout_detached(nonce.into(), aad, text.into()).ok().map(Into::into)
    }

    #[inline(never)]
    pub(crate) fn open(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; 16]) -> bool {
        self.0.decrypt_inout_detached(nonce.into(), aad, text.into(), tag.into()).is_ok()
    }
}

/// A block cipher that makes masks (RFC 9001 §5.4.3).
pub(crate) struct BlockMask<C>(C);

pub(crate) type Aes128Mask = BlockMask<Aes128Enc>;
#[cfg(feature = "rustcrypto")]
pub(crate) type Aes256Mask = BlockMask<aes::Aes256Enc>;

impl<C: KeyInit + BlockCipherEncrypt<BlockSize = U16>> BlockMask<C> {
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        C::new_from_slice(key).ok().map(Self)
    }

    #[inline(never)]
    pub(crate) fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
        let mut block = Block::from(*sample);
        self.0.encrypt_block(&mut block);
        [block[0], block[1], block[2], block[3], block[4]]
    }
}

/// ChaCha20 for masks (RFC 9001 §5.4.4).
#[cfg(any(feature = "ring", feature = "rustcrypto"))]
pub(crate) struct ChaCha20Mask(zeroize::Zeroizing<[u8; 32]>);

#[cfg(any(feature = "ring", feature = "rustcrypto"))]
impl ChaCha20Mask {
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        key.try_into().ok().map(|key: &[u8; 32]| Self(zeroize::Zeroizing::new(*key)))
    }

    #[inline(never)]
    pub(crate) fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
        use chacha20::cipher::{KeyIvInit, StreamCipherCore};

        let [c0, c1, c2, c3, nonce @ ..] = sample;
        // The bare core, because its wrapper refuses to use the last counter, 0xffffffff.
        let mut core = chacha20::ChaChaCore::<chacha20::R20, chacha20::variants::Ietf>::new(
            (&*self.0).into(),
            nonce.into(),
        );
        core.set_block_pos(u32::from_le_bytes([*c0, *c1, *c2, *c3]));
        let mut block = Default::default();
        core.write_keystream_block(&mut block);
        [block[0], block[1], block[2], block[3], block[4]]
    }
}

#[cfg(test)]
mod tests {
    use core::mem::needs_drop;

    use super::*;

    #[test]
    fn q_47_keys_of_rustcrypto_wipe_themselves() {
        assert!(needs_drop::<Aes128Ccm>() && needs_drop::<Aes128Mask>());
        #[cfg(feature = "rustcrypto")]
        {
            assert!(needs_drop::<Aes128Gcm>() && needs_drop::<Aes256Gcm>() && needs_drop::<Aes256Mask>());
            assert!(needs_drop::<ChaCha20Poly1305>() && needs_drop::<ChaCha20Mask>());
        }
    }
}
