//! The primitives, from whichever library was chosen when this crate was built.

#[cfg(feature = "kernels")]
mod kernels;
#[cfg(feature = "ring")]
mod ring;
mod rustcrypto;

use wireseal_algorithms::AeadAlgorithm;

#[cfg(not(any(feature = "ring", feature = "rustcrypto")))]
compile_error!("wireseal-quic needs one of its features `ring` and `rustcrypto`");

/// Where AES-GCM and ChaCha20-Poly1305 come from. AES-128-CCM is RustCrypto's in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Wireseal's own routines where the processor has the instructions: AES-GCM together with its header mask,
    /// ChaCha20-Poly1305, and header masks; feature `kernels`. The rest comes from the next of [`Backend::ALL`]. Which of them serves is decided as a key is
    /// made.
    #[cfg(feature = "kernels")]
    Kernels,
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
        #[cfg(feature = "kernels")]
        Self::Kernels,
        #[cfg(feature = "ring")]
        Self::Ring,
        #[cfg(feature = "rustcrypto")]
        Self::RustCrypto,
    ];

    /// The one that serves where the kernels do not.
    #[cfg(feature = "kernels")]
    const BEHIND_KERNELS: Self = Self::ALL[1];

    /// The one that keys are for unless another is asked for: the first that was built in.
    #[must_use]
    pub const fn active() -> Self {
        Self::ALL[0]
    }

    /// The library's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "kernels")]
            Self::Kernels => "Wireseal",
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
    #[cfg(feature = "kernels")]
    Kernels(kernels::AeadKey),
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
            #[cfg(feature = "kernels")]
            $enum::Kernels($key) => $body,
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
            #[cfg(feature = "kernels")]
            (Backend::Kernels, _) => match kernels::AeadKey::new(algorithm, key) {
                Some(key) => Self::Kernels(key),
                None => return Self::new(Backend::BEHIND_KERNELS, algorithm, key),
            },
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

    /// The processor's instructions, or the library.
    pub(crate) fn served_by(&self) -> &'static str {
        match self {
            #[cfg(feature = "kernels")]
            Self::Kernels(key) => key.path().name(),
            #[cfg(feature = "ring")]
            Self::Ring(_) => Backend::Ring.name(),
            _ => "RustCrypto",
        }
    }

    /// Encrypts `payload` where it lies and returns the tag, or `None` with nothing changed if it is too long for the AEAD.
    #[inline]
    pub(crate) fn seal(&self, nonce: [u8; 12], aad: &[u8], payload: &mut [u8]) -> Option<[u8; 16]> {
        each!(Self, self, key => key.seal(nonce, aad, payload))
    }

    /// Encrypts the payload that `body` is but for its last 16 octets, writes the tag there, and returns the mask that the sample
    /// at `sample` in `body` gives; `None` as with [`seal`](Self::seal).
    #[inline]
    pub(crate) fn seal_packet(
        &self,
        mask_key: &MaskKey,
        nonce: [u8; 12],
        aad: &[u8],
        body: &mut [u8],
        sample: usize,
    ) -> Option<[u8; 5]> {
        #[cfg(feature = "kernels")]
        if let (Self::Kernels(key), MaskKey::Kernels(mask_key)) = (self, mask_key)
            && let Some(mask) = key.seal_packet(mask_key, nonce, aad, body, sample)
        {
            return Some(mask);
        }
        let (payload, tag) = body.split_last_chunk_mut()?;
        *tag = self.seal(nonce, aad, payload)?;
        Some(mask_key.mask(body.get(sample..)?.first_chunk()?))
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
    #[cfg(feature = "kernels")]
    Kernels(kernels::MaskKey),
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
            #[cfg(feature = "kernels")]
            (Backend::Kernels, _) => match kernels::MaskKey::new(algorithm, key) {
                Some(key) => Self::Kernels(key),
                None => return Self::new(Backend::BEHIND_KERNELS, algorithm, key),
            },
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

    #[inline(always)]
    pub(crate) fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
        match self {
            #[cfg(feature = "ring")]
            Self::Ring(key) => key.mask(sample),
            #[cfg(feature = "kernels")]
            Self::Kernels(key) => key.mask(sample),
            Self::Aes128(key) => key.mask(sample),
            #[cfg(feature = "rustcrypto")]
            Self::Aes256(key) => key.mask(sample),
            #[cfg(feature = "rustcrypto")]
            Self::ChaCha20(key) => key.mask(sample),
        }
    }
}
