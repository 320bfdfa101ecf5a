//! Wireseal's own routines, for what the processor has the instructions for.

use wireseal_algorithms::AeadAlgorithm;
use wireseal_kernels::aes::AesMaskKey;
use wireseal_kernels::chacha20::ChaCha20MaskKey;
use wireseal_kernels::chacha20_poly1305::ChaCha20Poly1305Key;
use wireseal_kernels::cpu::Path;
use wireseal_kernels::gcm::GcmKey;

/// AES-GCM, or ChaCha20-Poly1305.
///
/// The larger variant is not boxed, because there is no heap.
#[allow(clippy::large_enum_variant)]
pub(crate) enum AeadKey {
    Gcm(GcmKey),
    ChaCha20Poly1305(ChaCha20Poly1305Key),
}

impl AeadKey {
    /// `None` where another library has to serve: for other algorithms, and where the processor has no path.
    pub(crate) fn new(algorithm: AeadAlgorithm, key: &[u8]) -> Option<Self> {
        match algorithm {
            AeadAlgorithm::Aes128Gcm | AeadAlgorithm::Aes256Gcm if key.len() == algorithm.key_length() => {
                GcmKey::new(key).map(Self::Gcm)
            }
            AeadAlgorithm::ChaCha20Poly1305 => {
                ChaCha20Poly1305Key::new(key.try_into().ok()?).map(Self::ChaCha20Poly1305)
            }
            _ => None,
        }
    }

    /// The processor's instructions that it uses.
    pub(crate) fn path(&self) -> Path {
        match self {
            Self::Gcm(key) => key.path(),
            Self::ChaCha20Poly1305(key) => key.path(),
        }
    }

    #[inline]
    pub(crate) fn seal(&self, nonce: [u8; 12], aad: &[u8], payload: &mut [u8]) -> Option<[u8; 16]> {
        Some(match self {
            Self::Gcm(key) => key.seal_detached(&nonce, aad, payload),
            Self::ChaCha20Poly1305(key) => key.seal_detached(&nonce, aad, payload),
        })
    }

    /// Payload, tag and mask in one pass; `None`, with nothing done, if there is none for this pair of keys.
    #[inline]
    pub(crate) fn seal_packet(
        &self,
        mask_key: &MaskKey,
        nonce: [u8; 12],
        aad: &[u8],
        body: &mut [u8],
        sample: usize,
    ) -> Option<[u8; 5]> {
        let (Self::Gcm(key), MaskKey::Aes(mask_key)) = (self, mask_key) else { return None };
        let [a, b, c, d, e, ..] = key.seal(&nonce, aad, body, Some((mask_key, sample)));
        Some([a, b, c, d, e])
    }

    #[inline]
    pub(crate) fn open(&self, nonce: [u8; 12], aad: &[u8], payload: &mut [u8], tag: &[u8; 16]) -> bool {
        match self {
            Self::Gcm(key) => key.open_detached(&nonce, aad, payload, tag),
            Self::ChaCha20Poly1305(key) => key.open_detached(&nonce, aad, payload, tag),
        }
    }
}

/// Header masks of every algorithm.
#[allow(clippy::large_enum_variant)]
pub(crate) enum MaskKey {
    Aes(AesMaskKey),
    ChaCha20(ChaCha20MaskKey),
}

impl MaskKey {
    /// `None` where another library has to serve.
    pub(crate) fn new(algorithm: AeadAlgorithm, key: &[u8]) -> Option<Self> {
        if key.len() != algorithm.header_protection_key_length() {
            return None;
        }
        match algorithm {
            AeadAlgorithm::ChaCha20Poly1305 => {
                Some(Self::ChaCha20(ChaCha20MaskKey::new(key.try_into().ok()?)))
            }
            _ => AesMaskKey::new(key).map(Self::Aes),
        }
    }

    #[inline(always)]
    pub(crate) fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
        match self {
            Self::Aes(key) => {
                let [a, b, c, d, e, ..] = key.mask(sample);
                [a, b, c, d, e]
            }
            Self::ChaCha20(key) => key.mask(sample),
        }
    }
}
