//! The keys of a library with ring's interface, which the module above calls `library`.

use wireseal_algorithms::AeadAlgorithm;

use super::library::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey, quic};

pub(crate) struct AeadKey(pub(super) LessSafeKey);

impl AeadKey {
    pub(crate) fn new(algorithm: AeadAlgorithm, key: &[u8]) -> Option<Self> {
        let algorithm = match algorithm {
            AeadAlgorithm::Aes128Gcm => &aead::AES_128_GCM,
            AeadAlgorithm::Aes256Gcm => &aead::AES_256_GCM,
            AeadAlgorithm::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
            AeadAlgorithm::Aes128Ccm => return None,
        };
        Some(Self(LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?)))
    }

    #[inline]
    pub(crate) fn seal(&self, nonce: &[u8; 12], aad: &[u8], payload: &mut [u8]) -> [u8; 16] {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(aad), payload);
        let tag = tag.expect("a payload has at most 65,535 octets");
        *tag.as_ref().first_chunk().expect("a tag has 16 octets")
    }

    #[inline]
    pub(crate) fn open(&self, nonce: &[u8; 12], aad: &[u8], body: &mut [u8]) -> bool {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        self.0.open_in_place(nonce, Aad::from(aad), body).is_ok()
    }
}

pub(crate) struct MaskKey(pub(super) quic::HeaderProtectionKey);

impl MaskKey {
    pub(crate) fn new(algorithm: AeadAlgorithm, key: &[u8]) -> Option<Self> {
        let algorithm = match algorithm {
            AeadAlgorithm::Aes128Gcm => &quic::AES_128,
            AeadAlgorithm::Aes256Gcm => &quic::AES_256,
            AeadAlgorithm::ChaCha20Poly1305 => &quic::CHACHA20,
            AeadAlgorithm::Aes128Ccm => return None,
        };
        Some(Self(quic::HeaderProtectionKey::new(algorithm, key).ok()?))
    }

    #[inline]
    pub(crate) fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
        self.0.new_mask(sample).expect("a sample has 16 octets")
    }
}
