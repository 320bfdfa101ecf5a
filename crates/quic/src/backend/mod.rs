//! The primitives, from whichever library was chosen when this crate was built.

#[cfg(feature = "ring")]
mod ring;
mod rustcrypto;

use wireseal_algorithms::AeadAlgorithm;

#[cfg(not(any(feature = "ring", feature = "rustcrypto")))]
compile_error!("wireseal-quic needs one of its features `ring` and `rustcrypto`");

/// A library that AES-GCM and ChaCha20-Poly1305 come from. AES-128-CCM is RustCrypto's in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// ring: the faster, with assembly for x86-64 and AArch64; feature `ring`.
    #[cfg(feature = "ring")]
    Ring,
    /// RustCrypto: Rust alone, for any target; feature `rustcrypto`.
    #[cfg(feature = "rustcrypto")]
    RustCrypto,
}

impl Backend {
    /// The backends of this build, the active one first.
    pub const ALL: &[Self] = &[
        #[cfg(feature = "ring")]
        Self::Ring,
        #[cfg(feature = "rustcrypto")]
        Self::RustCrypto,
    ];

    /// The one that keys are for unless another is asked for: ring where it was built in.
    #[must_use]
    pub const fn active() -> Self {
        Self::ALL[0]
    }

    /// The library's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "ring")]
            Self::Ring => "ring",
            #[cfg(feature = "rustcrypto")]
            Self::RustCrypto => "RustCrypto",
        }
    }
}

/// An AEAD key of any algorithm and backend. The lengths have been checked by whoever calls.
///
/// The larger variants are not boxed, because there is no heap.
#[allow(clippy::large_enum_variant)]
pub(crate) enum AeadKey {
    #[cfg(feature = "ring")]
    Ring(ring::AeadKey),
    #[cfg(feature = "rustcrypto")]
    Aes128Gcm(rustcrypto::Aes128Gcm),
    #[cfg(feature = "rustcrypto")]
    Aes256Gcm(rustcrypto::Aes256Gcm),
    #[cfg(feature = "rustcrypto")]
    ChaCha20Poly1305(rustcrypto::ChaCha20Poly1305),
    Aes128Ccm(rustcrypto::Aes128Ccm),
}

/// Runs `$body` with the key of whichever variant as `$key`.
macro_rules! each {
    ($enum:ident, $self:expr, $key:ident => $body:expr) => {
        match $self {
            #[cfg(feature = "ring")]
            $enum::Ring($key) => $body,
            #[cfg(feature = "rustcrypto")]
            $enum::Aes128Gcm($key) => $body,
            #[cfg(feature = "rustcrypto")]
            $enum::Aes256Gcm($key) => $body,
            #[cfg(feature = "rustcrypto")]
            $enum::ChaCha20Poly1305($key) => $body,
            $enum::Aes128Ccm($key) => $body,
        }
    };
}

impl AeadKey {
    /// `None` for a key that is not of the algorithm's length.
    pub(crate) fn new(backend: Backend, algorithm: AeadAlgorithm, key: &[u8]) -> Option<Self> {
        Some(match (backend, algorithm) {
            (_, AeadAlgorithm::Aes128Ccm) => Self::Aes128Ccm(rustcrypto::Aes128Ccm::new(key)?),
            #[cfg(feature = "ring")]
            (Backend::Ring, _) => Self::Ring(ring::AeadKey::new(algorithm, key)?),
            #[cfg(feature = "rustcrypto")]
            (Backend::RustCrypto, AeadAlgorithm::Aes128Gcm) => {
                Self::Aes128Gcm(rustcrypto::Aes128Gcm::new(key)?)
            }
            #[cfg(feature = "rustcrypto")]
            (Backend::RustCrypto, AeadAlgorithm::Aes256Gcm) => {
                Self::Aes256Gcm(rustcrypto::Aes256Gcm::new(key)?)
            }
            #[cfg(feature = "rustcrypto")]
            (Backend::RustCrypto, AeadAlgorithm::ChaCha20Poly1305) => {
                Self::ChaCha20Poly1305(rustcrypto::ChaCha20Poly1305::new(key)?)
            }
        })
    }

    /// Encrypts `payload` where it lies and returns the tag, or `None` with nothing changed if it is too long for the AEAD.
    #[inline]
    pub(crate) fn seal(&self, nonce: [u8; 12], aad: &[u8], payload: &mut [u8]) -> Option<[u8; 16]> {
        each!(Self, self, key => key.seal(nonce, aad, payload))
    }

    /// Decrypts `payload` where it lies; `false` if the tag is wrong, with anything in `payload`.
    #[inline]
    #[must_use]
    pub(crate) fn open(&self, nonce: [u8; 12], aad: &[u8], payload: &mut [u8], tag: &[u8; 16]) -> bool {
        each!(Self, self, key => key.open(nonce, aad, payload, tag))
    }
}

/// A header protection key of any algorithm and backend.
#[allow(clippy::large_enum_variant)]
pub(crate) enum MaskKey {
    #[cfg(feature = "ring")]
    Ring(ring::MaskKey),
    Aes128(rustcrypto::Aes128Mask),
    #[cfg(feature = "rustcrypto")]
    Aes256(rustcrypto::Aes256Mask),
    #[cfg(feature = "rustcrypto")]
    ChaCha20(rustcrypto::ChaCha20Mask),
}

impl MaskKey {
    /// `None` for a key that is not of the algorithm's length.
    pub(crate) fn new(backend: Backend, algorithm: AeadAlgorithm, key: &[u8]) -> Option<Self> {
        Some(match (backend, algorithm) {
            (_, AeadAlgorithm::Aes128Ccm) => Self::Aes128(rustcrypto::Aes128Mask::new(key)?),
            #[cfg(feature = "ring")]
            (Backend::Ring, _) => Self::Ring(ring::MaskKey::new(algorithm, key)?),
            #[cfg(feature = "rustcrypto")]
            (Backend::RustCrypto, AeadAlgorithm::Aes128Gcm) => {
                Self::Aes128(rustcrypto::Aes128Mask::new(key)?)
            }
            #[cfg(feature = "rustcrypto")]
            (Backend::RustCrypto, AeadAlgorithm::Aes256Gcm) => {
                Self::Aes256(rustcrypto::Aes256Mask::new(key)?)
            }
            #[cfg(feature = "rustcrypto")]
            (Backend::RustCrypto, AeadAlgorithm::ChaCha20Poly1305) => {
                Self::ChaCha20(rustcrypto::ChaCha20Mask::new(key)?)
            }
        })
    }

    #[inline]
    pub(crate) fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
        match self {
            #[cfg(feature = "ring")]
            Self::Ring(key) => key.mask(sample),
            Self::Aes128(key) => key.mask(sample),
            #[cfg(feature = "rustcrypto")]
            Self::Aes256(key) => key.mask(sample),
            #[cfg(feature = "rustcrypto")]
            Self::ChaCha20(key) => key.mask(sample),
        }
    }

    /// The masks of at most 16 samples at once; each sample's first five octets become its mask.
    #[inline]
    pub(crate) fn mask_batch(&self, samples: &mut [[u8; 16]]) {
        match self {
            Self::Aes128(key) => key.mask_batch(samples),
            #[cfg(feature = "rustcrypto")]
            Self::Aes256(key) => key.mask_batch(samples),
            #[allow(unreachable_patterns)]
            _ => {
                for sample in samples {
                    let mask = self.mask(sample);
                    sample[..5].copy_from_slice(&mask);
                }
            }
        }
    }
}
