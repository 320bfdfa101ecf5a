//! A key of any algorithm, from the library chosen when it is created.

use core::alloc::Layout;
use core::fmt;

use wireseal_algorithms::AeadAlgorithm;
#[cfg(feature = "kernels")]
use wireseal_kernels::{chacha20_poly1305::ChaCha20Poly1305Key, gcm::GcmKey};
use zeroize::{ZeroizeOnDrop, optimization_barrier};

use crate::backend::Backend;
use crate::error::AeadError;
#[cfg(feature = "aws-lc-rs")]
use crate::like_ring::aws_lc;
#[cfg(feature = "ring")]
use crate::like_ring::ring;
use crate::mask::MaskKey;
#[cfg(feature = "kernels")]
use crate::mask::State as Mask;
use crate::rustcrypto;
use crate::wiped::octets_but_tag;

const TAG_LENGTH: usize = AeadAlgorithm::TAG_LENGTH;

/// Every algorithm takes texts up to this many octets, the maximum of AES-128-CCM.
const SHORT: usize = (1 << 24) - 1;

/// A key that seals and opens messages in place.
///
/// It takes any nonce: sealing two messages with the same nonce reveals the difference of their texts and lets anyone forge
/// ([limits](crate#limits-of-a-key)). All methods take `&self`, so any number of threads can use one key.
///
/// A key takes at most 576 octets, needs no heap but for [`Backend::AwsLc`](crate::Backend), and is wiped on drop. `Debug` shows its
/// algorithm.
#[derive(Clone)]
pub struct AeadKey(State);

// The algorithm lies beside the variant's tag, where there would be padding.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "a heap is what this crate does without")]
enum State {
    #[cfg(feature = "kernels")]
    KernelGcm(AeadAlgorithm, GcmKey),
    #[cfg(feature = "kernels")]
    KernelChaCha20Poly1305(ChaCha20Poly1305Key),
    #[cfg(feature = "ring")]
    Ring(AeadAlgorithm, ring::AeadKey),
    #[cfg(feature = "aws-lc-rs")]
    AwsLc(AeadAlgorithm, aws_lc::AeadKey),
    #[cfg(feature = "rustcrypto")]
    Aes128Gcm(rustcrypto::Aes128Gcm),
    #[cfg(feature = "rustcrypto")]
    Aes256Gcm(rustcrypto::Aes256Gcm),
    #[cfg(feature = "rustcrypto")]
    ChaCha20Poly1305(rustcrypto::ChaCha20Poly1305),
    Aes128Ccm(rustcrypto::Aes128Ccm),
    /// A dropped key: no call sees it.
    #[allow(dead_code, reason = "only its octets in memory count")]
    Wiped([u8; OCTETS]),
}

const OCTETS: usize = octets_but_tag(&[
    #[cfg(feature = "kernels")]
    Layout::new::<(u8, AeadAlgorithm, GcmKey)>(),
    #[cfg(feature = "kernels")]
    Layout::new::<(u8, ChaCha20Poly1305Key)>(),
    #[cfg(feature = "ring")]
    Layout::new::<(u8, AeadAlgorithm, ring::AeadKey)>(),
    #[cfg(feature = "aws-lc-rs")]
    Layout::new::<(u8, AeadAlgorithm, aws_lc::AeadKey)>(),
    #[cfg(feature = "rustcrypto")]
    Layout::new::<(u8, rustcrypto::Aes128Gcm)>(),
    #[cfg(feature = "rustcrypto")]
    Layout::new::<(u8, rustcrypto::Aes256Gcm)>(),
    #[cfg(feature = "rustcrypto")]
    Layout::new::<(u8, rustcrypto::ChaCha20Poly1305)>(),
    Layout::new::<(u8, rustcrypto::Aes128Ccm)>(),
]);

impl AeadKey {
    /// A key for the active backend.
    ///
    /// # Errors
    ///
    /// [`AeadError::KeyLength`] if `key` does not have [`AeadAlgorithm::key_length`] octets.
    pub fn new(algorithm: AeadAlgorithm, key: &[u8]) -> Result<Self, AeadError> {
        Self::with_backend(Backend::active(), algorithm, key)
    }

    /// A key for a given backend.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn with_backend(backend: Backend, algorithm: AeadAlgorithm, key: &[u8]) -> Result<Self, AeadError> {
        let expected = algorithm.key_length();
        let state = if key.len() == expected { State::new(backend, algorithm, key) } else { None };
        state.map(Self).ok_or(AeadError::KeyLength { algorithm, expected, got: key.len() })
    }

    /// The algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> AeadAlgorithm {
        match &self.0 {
            #[cfg(feature = "kernels")]
            State::KernelGcm(algorithm, _) => *algorithm,
            #[cfg(feature = "kernels")]
            State::KernelChaCha20Poly1305(_) => AeadAlgorithm::ChaCha20Poly1305,
            #[cfg(feature = "ring")]
            State::Ring(algorithm, _) => *algorithm,
            #[cfg(feature = "aws-lc-rs")]
            State::AwsLc(algorithm, _) => *algorithm,
            #[cfg(feature = "rustcrypto")]
            State::Aes128Gcm(_) => AeadAlgorithm::Aes128Gcm,
            #[cfg(feature = "rustcrypto")]
            State::Aes256Gcm(_) => AeadAlgorithm::Aes256Gcm,
            #[cfg(feature = "rustcrypto")]
            State::ChaCha20Poly1305(_) => AeadAlgorithm::ChaCha20Poly1305,
            State::Aes128Ccm(_) | State::Wiped(_) => AeadAlgorithm::Aes128Ccm,
        }
    }

    /// What computes the AEAD: the processor's instructions (by [`Backend::Kernels`](crate::Backend)) or a library.
    #[must_use]
    pub fn served_by(&self) -> &'static str {
        match &self.0 {
            #[cfg(feature = "kernels")]
            State::KernelGcm(_, key) => key.path().name(),
            #[cfg(feature = "kernels")]
            State::KernelChaCha20Poly1305(key) => key.path().name(),
            #[cfg(feature = "ring")]
            State::Ring(..) => Backend::Ring.name(),
            #[cfg(feature = "aws-lc-rs")]
            State::AwsLc(..) => Backend::AwsLc.name(),
            _ => "RustCrypto",
        }
    }

    /// Encrypts all of `message` but its last 16 octets in place, and writes the tag to those. `aad`, the associated data, is authenticated
    /// but not sent.
    ///
    /// # Errors
    ///
    /// [`AeadError::NoRoomForTag`] and [`AeadError::TooLong`], with nothing changed.
    #[inline]
    pub fn seal(&self, nonce: &[u8; 12], aad: &[u8], message: &mut [u8]) -> Result<(), AeadError> {
        let got = message.len();
        let (text, tag) =
            message.split_last_chunk_mut().ok_or(AeadError::NoRoomForTag { needed: TAG_LENGTH, got })?;
        *tag = self.seal_detached(nonce, aad, text)?;
        Ok(())
    }

    /// Encrypts `text` in place and returns the tag, for messages whose tag is elsewhere.
    ///
    /// # Errors
    ///
    /// [`AeadError::TooLong`], with nothing changed.
    #[inline]
    pub fn seal_detached(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        text: &mut [u8],
    ) -> Result<[u8; 16], AeadError> {
        self.check_length(text.len())?;
        let got = text.len();
        let tag = match &self.0 {
            #[cfg(feature = "kernels")]
            State::KernelGcm(_, key) => Some(key.seal_detached(nonce, aad, text)),
            #[cfg(feature = "kernels")]
            State::KernelChaCha20Poly1305(key) => Some(key.seal_detached(nonce, aad, text)),
            #[cfg(feature = "ring")]
            State::Ring(_, key) => key.seal(nonce, aad, text),
            #[cfg(feature = "aws-lc-rs")]
            State::AwsLc(_, key) => key.seal(nonce, aad, text),
            #[cfg(feature = "rustcrypto")]
            State::Aes128Gcm(key) => key.seal(nonce, aad, text),
            #[cfg(feature = "rustcrypto")]
            State::Aes256Gcm(key) => key.seal(nonce, aad, text),
            #[cfg(feature = "rustcrypto")]
            State::ChaCha20Poly1305(key) => key.seal(nonce, aad, text),
            State::Aes128Ccm(key) => key.seal(nonce, aad, text),
            State::Wiped(_) => None,
        };
        tag.ok_or_else(|| self.too_long(got))
    }

    /// [Seals](Self::seal) `message`, and returns the mask for the sample of 16 octets at `sample` in the sealed message. With AES-GCM by
    /// the kernels, the mask comes out of the same pass.
    ///
    /// # Errors
    ///
    /// [`AeadError::NoRoomForTag`], [`AeadError::TooLong`] and [`AeadError::SampleOutside`], with nothing changed.
    #[inline]
    pub fn seal_with_mask(
        &self,
        mask_key: &MaskKey,
        nonce: &[u8; 12],
        aad: &[u8],
        message: &mut [u8],
        sample: usize,
    ) -> Result<[u8; 5], AeadError> {
        let got = message.len();
        let length =
            got.checked_sub(TAG_LENGTH).ok_or(AeadError::NoRoomForTag { needed: TAG_LENGTH, got })?;
        if sample > length {
            return Err(AeadError::SampleOutside { needed: sample.saturating_add(16), got });
        }
        #[cfg(feature = "kernels")]
        if let (State::KernelGcm(_, key), Mask::KernelAes(mask_key)) = (&self.0, &mask_key.0) {
            self.check_length(length)?;
            // Text, tag and mask in one pass.
            let [a, b, c, d, e, ..] = key.seal(nonce, aad, message, Some((mask_key, sample)));
            return Ok([a, b, c, d, e]);
        }
        self.seal(nonce, aad, message)?;
        let sample = message[sample..].first_chunk().expect("the sample ends inside of the message");
        Ok(mask_key.mask(sample))
    }

    /// Decrypts all of `message` but its last 16 octets, the tag, in place, and returns the text.
    ///
    /// # Errors
    ///
    /// [`AeadError::NotAuthentic`]: the text is zeros, the tag unchanged. [`AeadError::Truncated`] and [`AeadError::TooLong`], with nothing
    /// changed.
    #[inline]
    pub fn open<'a>(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        message: &'a mut [u8],
    ) -> Result<&'a mut [u8], AeadError> {
        let got = message.len();
        let (text, tag) =
            message.split_last_chunk_mut().ok_or(AeadError::Truncated { needed: TAG_LENGTH, got })?;
        self.open_detached(nonce, aad, text, tag)?;
        Ok(text)
    }

    /// Decrypts `text` in place, for messages whose tag is elsewhere.
    ///
    /// # Errors
    ///
    /// [`AeadError::NotAuthentic`]: the text is zeros. [`AeadError::TooLong`], with nothing changed.
    #[inline]
    pub fn open_detached(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), AeadError> {
        self.check_length(text.len())?;
        let is_authentic = match &self.0 {
            #[cfg(feature = "kernels")]
            State::KernelGcm(_, key) => key.open_detached(nonce, aad, text, tag),
            #[cfg(feature = "kernels")]
            State::KernelChaCha20Poly1305(key) => key.open_detached(nonce, aad, text, tag),
            #[cfg(feature = "ring")]
            State::Ring(_, key) => key.open(nonce, aad, text, tag),
            #[cfg(feature = "aws-lc-rs")]
            State::AwsLc(_, key) => key.open(nonce, aad, text, tag),
            #[cfg(feature = "rustcrypto")]
            State::Aes128Gcm(key) => key.open(nonce, aad, text, tag),
            #[cfg(feature = "rustcrypto")]
            State::Aes256Gcm(key) => key.open(nonce, aad, text, tag),
            #[cfg(feature = "rustcrypto")]
            State::ChaCha20Poly1305(key) => key.open(nonce, aad, text, tag),
            State::Aes128Ccm(key) => key.open(nonce, aad, text, tag),
            State::Wiped(_) => false,
        };
        if is_authentic {
            return Ok(());
        }
        Err(refused(text))
    }

    /// A short text takes one comparison.
    #[inline]
    pub(crate) fn check_length(&self, length: usize) -> Result<(), AeadError> {
        if length > SHORT && length as u64 > self.algorithm().max_text_length() {
            return Err(self.too_long(length));
        }
        Ok(())
    }

    #[cold]
    fn too_long(&self, got: usize) -> AeadError {
        let algorithm = self.algorithm();
        AeadError::TooLong { algorithm, maximum: algorithm.max_text_length(), got }
    }
}

/// Zeros a text that is not authentic: some libraries leave the ciphertext, some zeros, some a wrong plaintext.
#[cold]
fn refused(text: &mut [u8]) -> AeadError {
    text.fill(0);
    AeadError::NotAuthentic
}

impl State {
    /// `None` if the key is not of the algorithm's length.
    fn new(backend: Backend, algorithm: AeadAlgorithm, key: &[u8]) -> Option<Self> {
        match (backend, algorithm) {
            (_, AeadAlgorithm::Aes128Ccm) => rustcrypto::Aes128Ccm::new(key).map(Self::Aes128Ccm),
            #[cfg(feature = "kernels")]
            (Backend::Kernels, _) => Self::of_kernels(algorithm, key)
                .or_else(|| Self::new(Backend::BEHIND_KERNELS, algorithm, key)),
            #[cfg(feature = "ring")]
            (Backend::Ring, _) => ring::AeadKey::new(algorithm, key).map(|key| Self::Ring(algorithm, key)),
            #[cfg(feature = "aws-lc-rs")]
            (Backend::AwsLc, _) => {
                aws_lc::AeadKey::new(algorithm, key).map(|key| Self::AwsLc(algorithm, key))
            }
            #[cfg(feature = "rustcrypto")]
            (Backend::RustCrypto, AeadAlgorithm::Aes128Gcm) => {
                rustcrypto::Aes128Gcm::new(key).map(Self::Aes128Gcm)
            }
            #[cfg(feature = "rustcrypto")]
            (Backend::RustCrypto, AeadAlgorithm::Aes256Gcm) => {
                rustcrypto::Aes256Gcm::new(key).map(Self::Aes256Gcm)
            }
            #[cfg(feature = "rustcrypto")]
            (Backend::RustCrypto, AeadAlgorithm::ChaCha20Poly1305) => {
                rustcrypto::ChaCha20Poly1305::new(key).map(Self::ChaCha20Poly1305)
            }
        }
    }

    /// `None` if the processor lacks the instructions.
    #[cfg(feature = "kernels")]
    fn of_kernels(algorithm: AeadAlgorithm, key: &[u8]) -> Option<Self> {
        if algorithm == AeadAlgorithm::ChaCha20Poly1305 {
            let key = key.try_into().ok().and_then(ChaCha20Poly1305Key::new);
            key.map(Self::KernelChaCha20Poly1305)
        } else {
            GcmKey::new(key).map(|key| Self::KernelGcm(algorithm, key))
        }
    }
}

impl Drop for AeadKey {
    fn drop(&mut self) {
        self.0 = State::Wiped([0; OCTETS]);
        optimization_barrier(&self.0);
    }
}

impl ZeroizeOnDrop for AeadKey {}

/// Omits the key.
impl fmt::Debug for AeadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AeadKey").field("algorithm", &self.algorithm()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zeros_of_a_dropped_key_cover_all_but_the_tag() {
        assert_eq!(size_of::<State>(), OCTETS + 1);
        assert!(size_of::<AeadKey>() <= 576);
    }
}
