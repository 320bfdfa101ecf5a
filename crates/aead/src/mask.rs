//! Masks of packet numbers and headers, from a sample of the ciphertext.

use core::alloc::Layout;
use core::fmt;

use wireseal_algorithms::AeadAlgorithm;
#[cfg(feature = "kernels")]
use wireseal_kernels::{aes::AesMaskKey, chacha20::ChaCha20MaskKey};
use zeroize::{ZeroizeOnDrop, optimization_barrier};

use crate::backend::Backend;
use crate::error::AeadError;
#[cfg(feature = "aws-lc-rs")]
use crate::like_ring::aws_lc;
#[cfg(feature = "ring")]
use crate::like_ring::ring;
use crate::rustcrypto;
use crate::wiped::octets_but_tag;

/// A key for masks over packet numbers: QUIC's header protection (RFC 9001 §5.4), and DTLS 1.3's protection of record numbers (RFC 9147
/// §4.2.3), which is the same function of the sample. Wiped on drop.
///
/// A mask is a block of AES, or the start of a ChaCha20 block, from 16 octets of ciphertext. The protocol says which bits it covers.
pub struct MaskKey(pub(crate) State);

#[allow(clippy::large_enum_variant, reason = "a heap is what this crate does without")]
pub(crate) enum State {
    #[cfg(feature = "kernels")]
    KernelAes(AesMaskKey),
    #[cfg(feature = "kernels")]
    KernelChaCha20(ChaCha20MaskKey),
    #[cfg(feature = "ring")]
    Ring(ring::MaskKey),
    #[cfg(feature = "aws-lc-rs")]
    AwsLc(aws_lc::MaskKey),
    Aes128(rustcrypto::Aes128Mask),
    #[cfg(feature = "rustcrypto")]
    Aes256(rustcrypto::Aes256Mask),
    #[cfg(any(feature = "ring", feature = "rustcrypto"))]
    ChaCha20(rustcrypto::ChaCha20Mask),
    /// A dropped key: no call sees it.
    #[allow(dead_code, reason = "only its octets in memory count")]
    Wiped([u8; OCTETS]),
}

const OCTETS: usize = octets_but_tag(&[
    #[cfg(feature = "kernels")]
    Layout::new::<(u8, AesMaskKey)>(),
    #[cfg(feature = "kernels")]
    Layout::new::<(u8, ChaCha20MaskKey)>(),
    #[cfg(feature = "ring")]
    Layout::new::<(u8, ring::MaskKey)>(),
    #[cfg(feature = "aws-lc-rs")]
    Layout::new::<(u8, aws_lc::MaskKey)>(),
    Layout::new::<(u8, rustcrypto::Aes128Mask)>(),
    #[cfg(feature = "rustcrypto")]
    Layout::new::<(u8, rustcrypto::Aes256Mask)>(),
    #[cfg(any(feature = "ring", feature = "rustcrypto"))]
    Layout::new::<(u8, rustcrypto::ChaCha20Mask)>(),
]);

impl MaskKey {
    /// A key for the active backend. `algorithm` is that of the payload.
    ///
    /// # Errors
    ///
    /// [`AeadError::KeyLength`] if `key` does not have [`AeadAlgorithm::header_protection_key_length`] octets.
    pub fn new(algorithm: AeadAlgorithm, key: &[u8]) -> Result<Self, AeadError> {
        Self::with_backend(Backend::active(), algorithm, key)
    }

    /// A key for a given backend.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn with_backend(backend: Backend, algorithm: AeadAlgorithm, key: &[u8]) -> Result<Self, AeadError> {
        let expected = algorithm.header_protection_key_length();
        let state = if key.len() == expected { State::new(backend, algorithm, key) } else { None };
        state.map(Self).ok_or(AeadError::KeyLength { algorithm, expected, got: key.len() })
    }

    /// The mask of a sample.
    // Inlined: as a call, it makes opening a QUIC packet of 64 octets 5 % slower.
    #[inline(always)]
    #[must_use]
    pub fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
        // One number for each mask: the compiler would otherwise handle the five octets separately, which is slower.
        let number = |[a, b, c, d, e]: [u8; 5]| u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]);
        let mask = match &self.0 {
            #[cfg(feature = "kernels")]
            State::KernelAes(key) => {
                let [a, b, c, d, e, f, g, h, ..] = key.mask(sample);
                u64::from_le_bytes([a, b, c, d, e, f, g, h])
            }
            #[cfg(feature = "kernels")]
            State::KernelChaCha20(key) => number(key.mask(sample)),
            #[cfg(feature = "ring")]
            State::Ring(key) => number(key.mask(sample)),
            #[cfg(feature = "aws-lc-rs")]
            State::AwsLc(key) => number(key.mask(sample)),
            State::Aes128(key) => number(key.mask(sample)),
            #[cfg(feature = "rustcrypto")]
            State::Aes256(key) => number(key.mask(sample)),
            #[cfg(any(feature = "ring", feature = "rustcrypto"))]
            State::ChaCha20(key) => number(key.mask(sample)),
            State::Wiped(_) => 0,
        };
        let [a, b, c, d, e, ..] = mask.to_le_bytes();
        [a, b, c, d, e]
    }
}

impl State {
    /// `None` if the key is not of the algorithm's length.
    fn new(backend: Backend, algorithm: AeadAlgorithm, key: &[u8]) -> Option<Self> {
        match (backend, algorithm) {
            #[cfg(feature = "kernels")]
            (Backend::Kernels, _) => Self::of_kernels(algorithm, key)
                .or_else(|| Self::new(Backend::BEHIND_KERNELS, algorithm, key)),
            (_, AeadAlgorithm::Aes128Ccm) => rustcrypto::Aes128Mask::new(key).map(Self::Aes128),
            #[cfg(feature = "ring")]
            (Backend::Ring, AeadAlgorithm::ChaCha20Poly1305) if !ring::CHACHA20_HAS_ASSEMBLY => {
                rustcrypto::ChaCha20Mask::new(key).map(Self::ChaCha20)
            }
            #[cfg(feature = "ring")]
            (Backend::Ring, _) => ring::MaskKey::new(algorithm, key).map(Self::Ring),
            #[cfg(feature = "aws-lc-rs")]
            (Backend::AwsLc, _) => aws_lc::MaskKey::new(algorithm, key).map(Self::AwsLc),
            #[cfg(feature = "rustcrypto")]
            (Backend::RustCrypto, AeadAlgorithm::Aes128Gcm) => {
                rustcrypto::Aes128Mask::new(key).map(Self::Aes128)
            }
            #[cfg(feature = "rustcrypto")]
            (Backend::RustCrypto, AeadAlgorithm::Aes256Gcm) => {
                rustcrypto::Aes256Mask::new(key).map(Self::Aes256)
            }
            #[cfg(feature = "rustcrypto")]
            (Backend::RustCrypto, AeadAlgorithm::ChaCha20Poly1305) => {
                rustcrypto::ChaCha20Mask::new(key).map(Self::ChaCha20)
            }
        }
    }

    /// `None` if the processor lacks the instructions.
    #[cfg(feature = "kernels")]
    fn of_kernels(algorithm: AeadAlgorithm, key: &[u8]) -> Option<Self> {
        if algorithm == AeadAlgorithm::ChaCha20Poly1305 {
            key.try_into().ok().map(|key| Self::KernelChaCha20(ChaCha20MaskKey::new(key)))
        } else {
            AesMaskKey::new(key).map(Self::KernelAes)
        }
    }
}

impl Drop for MaskKey {
    fn drop(&mut self) {
        self.0 = State::Wiped([0; OCTETS]);
        optimization_barrier(&self.0);
    }
}

impl ZeroizeOnDrop for MaskKey {}

/// Omits the key.
impl fmt::Debug for MaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaskKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zeros_of_a_dropped_key_cover_all_but_the_tag() {
        assert_eq!(size_of::<State>(), OCTETS + 1);
    }
}
