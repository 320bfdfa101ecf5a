//! The ciphers, from the library chosen when a key is created.

#[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
mod like_ring;
mod rustcrypto;

use wireseal_algorithms::AeadAlgorithm;
#[cfg(feature = "kernels")]
use wireseal_kernels::{
    aes::AesMaskKey, chacha20::ChaCha20MaskKey, chacha20_poly1305::ChaCha20Poly1305Key, gcm::GcmKey,
};

#[cfg(feature = "aws-lc-rs")]
use like_ring::aws_lc;
#[cfg(feature = "ring")]
use like_ring::ring;

#[cfg(not(any(feature = "ring", feature = "aws-lc-rs", feature = "rustcrypto")))]
compile_error!("wireseal-quic needs its feature `ring`, `aws-lc-rs` or `rustcrypto`");

/// The library that AES-GCM and ChaCha20-Poly1305 come from. AES-128-CCM is always RustCrypto's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Wireseal's own routines, if the processor has the instructions: AES-GCM together with its header mask, ChaCha20-Poly1305, and header
    /// masks; feature `kernels`. If it lacks them, the key comes from the next of [`Backend::ALL`].
    #[cfg(feature = "kernels")]
    Kernels,
    /// ring, faster than RustCrypto, with assembly for x86-64 and AArch64; feature `ring`.
    #[cfg(feature = "ring")]
    Ring,
    /// aws-lc-rs, for programs that link it anyway; feature `aws-lc-rs`. Its keys are on the heap.
    #[cfg(feature = "aws-lc-rs")]
    AwsLc,
    /// RustCrypto, in Rust alone, for any target; feature `rustcrypto`.
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
        #[cfg(feature = "aws-lc-rs")]
        Self::AwsLc,
        #[cfg(feature = "rustcrypto")]
        Self::RustCrypto,
    ];

    /// The backend for keys that the kernels have no routine for.
    #[cfg(feature = "kernels")]
    const BEHIND_KERNELS: Self = Self::ALL[1];

    /// The default for new keys: the first of [`Backend::ALL`].
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
            #[cfg(feature = "aws-lc-rs")]
            Self::AwsLc => "aws-lc-rs",
            #[cfg(feature = "rustcrypto")]
            Self::RustCrypto => "RustCrypto",
        }
    }
}

/// An AEAD key of any algorithm and backend. The largest variants are not boxed, because there is no heap.
#[allow(clippy::large_enum_variant)]
pub(crate) enum AeadKey {
    #[cfg(feature = "kernels")]
    KernelGcm(GcmKey),
    #[cfg(feature = "kernels")]
    KernelChaCha20Poly1305(ChaCha20Poly1305Key),
    #[cfg(feature = "ring")]
    Ring(ring::AeadKey),
    #[cfg(feature = "aws-lc-rs")]
    AwsLc(aws_lc::AeadKey),
    #[cfg(feature = "rustcrypto")]
    Aes128Gcm(rustcrypto::Aes128Gcm),
    #[cfg(feature = "rustcrypto")]
    Aes256Gcm(rustcrypto::Aes256Gcm),
    #[cfg(feature = "rustcrypto")]
    ChaCha20Poly1305(rustcrypto::ChaCha20Poly1305),
    Aes128Ccm(rustcrypto::Aes128Ccm),
}

impl AeadKey {
    /// `None` if the key is not of the algorithm's length.
    pub(crate) fn new(backend: Backend, algorithm: AeadAlgorithm, key: &[u8]) -> Option<Self> {
        if key.len() != algorithm.key_length() {
            return None;
        }
        Some(match (backend, algorithm) {
            (_, AeadAlgorithm::Aes128Ccm) => Self::Aes128Ccm(rustcrypto::Aes128Ccm::new(key)?),
            #[cfg(feature = "kernels")]
            (Backend::Kernels, _) => match Self::of_kernels(algorithm, key) {
                Some(key) => key,
                None => return Self::new(Backend::BEHIND_KERNELS, algorithm, key),
            },
            #[cfg(feature = "ring")]
            (Backend::Ring, _) => Self::Ring(ring::AeadKey::new(algorithm, key)?),
            #[cfg(feature = "aws-lc-rs")]
            (Backend::AwsLc, _) => Self::AwsLc(aws_lc::AeadKey::new(algorithm, key)?),
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

    /// `None` if the processor lacks the instructions.
    #[cfg(feature = "kernels")]
    fn of_kernels(algorithm: AeadAlgorithm, key: &[u8]) -> Option<Self> {
        if algorithm == AeadAlgorithm::ChaCha20Poly1305 {
            ChaCha20Poly1305Key::new(key.try_into().ok()?).map(Self::KernelChaCha20Poly1305)
        } else {
            GcmKey::new(key).map(Self::KernelGcm)
        }
    }

    /// The instruction set or the library that computes the AEAD.
    pub(crate) fn served_by(&self) -> &'static str {
        match self {
            #[cfg(feature = "kernels")]
            Self::KernelGcm(key) => key.path().name(),
            #[cfg(feature = "kernels")]
            Self::KernelChaCha20Poly1305(key) => key.path().name(),
            #[cfg(feature = "ring")]
            Self::Ring(_) => Backend::Ring.name(),
            #[cfg(feature = "aws-lc-rs")]
            Self::AwsLc(_) => Backend::AwsLc.name(),
            _ => "RustCrypto",
        }
    }

    /// Encrypts `payload` in place and returns the tag.
    #[inline]
    pub(crate) fn seal(&self, nonce: &[u8; 12], aad: &[u8], payload: &mut [u8]) -> [u8; 16] {
        match self {
            #[cfg(feature = "kernels")]
            Self::KernelGcm(key) => key.seal_detached(nonce, aad, payload),
            #[cfg(feature = "kernels")]
            Self::KernelChaCha20Poly1305(key) => key.seal_detached(nonce, aad, payload),
            #[cfg(feature = "ring")]
            Self::Ring(key) => key.seal(nonce, aad, payload),
            #[cfg(feature = "aws-lc-rs")]
            Self::AwsLc(key) => key.seal(nonce, aad, payload),
            #[cfg(feature = "rustcrypto")]
            Self::Aes128Gcm(key) => key.seal(nonce, aad, payload),
            #[cfg(feature = "rustcrypto")]
            Self::Aes256Gcm(key) => key.seal(nonce, aad, payload),
            #[cfg(feature = "rustcrypto")]
            Self::ChaCha20Poly1305(key) => key.seal(nonce, aad, payload),
            Self::Aes128Ccm(key) => key.seal(nonce, aad, payload),
        }
    }

    /// Encrypts all of `body` but its last 16 octets in place, writes the tag to those, and returns the header mask for the
    /// sample at `sample` in `body`.
    #[inline]
    pub(crate) fn seal_with_mask(
        &self,
        mask_key: &MaskKey,
        nonce: &[u8; 12],
        aad: &[u8],
        body: &mut [u8],
        sample: usize,
    ) -> [u8; 5] {
        #[cfg(feature = "kernels")]
        if let (Self::KernelGcm(key), MaskKey::KernelAes(mask_key)) = (self, mask_key) {
            // Payload, tag and mask in one pass.
            let [a, b, c, d, e, ..] = key.seal(nonce, aad, body, Some((mask_key, sample)));
            return [a, b, c, d, e];
        }
        let (payload, tag) = body.split_last_chunk_mut().expect("there is room for the tag");
        *tag = self.seal(nonce, aad, payload);
        mask_key.mask(body[sample..].first_chunk().expect("the packet is long enough for a sample"))
    }

    /// Decrypts all of `body` but its last 16 octets, the tag, in place. `false` if the tag is wrong or missing; the payload is then
    /// undefined.
    #[inline]
    #[must_use]
    pub(crate) fn open(&self, nonce: &[u8; 12], aad: &[u8], body: &mut [u8]) -> bool {
        match self {
            #[cfg(feature = "kernels")]
            Self::KernelGcm(key) => key.open(nonce, aad, body),
            #[cfg(feature = "kernels")]
            Self::KernelChaCha20Poly1305(key) => match body.split_last_chunk_mut() {
                Some((payload, tag)) => key.open_detached(nonce, aad, payload, tag),
                None => false,
            },
            #[cfg(feature = "ring")]
            Self::Ring(key) => key.open(nonce, aad, body),
            #[cfg(feature = "aws-lc-rs")]
            Self::AwsLc(key) => key.open(nonce, aad, body),
            #[cfg(feature = "rustcrypto")]
            Self::Aes128Gcm(key) => key.open(nonce, aad, body),
            #[cfg(feature = "rustcrypto")]
            Self::Aes256Gcm(key) => key.open(nonce, aad, body),
            #[cfg(feature = "rustcrypto")]
            Self::ChaCha20Poly1305(key) => key.open(nonce, aad, body),
            Self::Aes128Ccm(key) => key.open(nonce, aad, body),
        }
    }
}

/// A header protection key of any algorithm and backend.
#[allow(clippy::large_enum_variant)]
pub(crate) enum MaskKey {
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
}

impl MaskKey {
    /// `None` if the key is not of the algorithm's length.
    pub(crate) fn new(backend: Backend, algorithm: AeadAlgorithm, key: &[u8]) -> Option<Self> {
        if key.len() != algorithm.header_protection_key_length() {
            return None;
        }
        Some(match (backend, algorithm) {
            #[cfg(feature = "kernels")]
            (Backend::Kernels, _) => match Self::of_kernels(algorithm, key) {
                Some(key) => key,
                None => return Self::new(Backend::BEHIND_KERNELS, algorithm, key),
            },
            (_, AeadAlgorithm::Aes128Ccm) => Self::Aes128(rustcrypto::Aes128Mask::new(key)?),
            #[cfg(feature = "ring")]
            (Backend::Ring, AeadAlgorithm::ChaCha20Poly1305) if !ring::CHACHA20_HAS_ASSEMBLY => {
                Self::ChaCha20(rustcrypto::ChaCha20Mask::new(key)?)
            }
            #[cfg(feature = "ring")]
            (Backend::Ring, _) => Self::Ring(ring::MaskKey::new(algorithm, key)?),
            #[cfg(feature = "aws-lc-rs")]
            (Backend::AwsLc, _) => Self::AwsLc(aws_lc::MaskKey::new(algorithm, key)?),
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

    /// `None` if the processor lacks the instructions.
    #[cfg(feature = "kernels")]
    fn of_kernels(algorithm: AeadAlgorithm, key: &[u8]) -> Option<Self> {
        if algorithm == AeadAlgorithm::ChaCha20Poly1305 {
            Some(Self::KernelChaCha20(ChaCha20MaskKey::new(key.try_into().ok()?)))
        } else {
            AesMaskKey::new(key).map(Self::KernelAes)
        }
    }

    // See `HeaderKey::mask`.
    #[inline(always)]
    pub(crate) fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
        match self {
            #[cfg(feature = "kernels")]
            Self::KernelAes(key) => {
                let [a, b, c, d, e, ..] = key.mask(sample);
                [a, b, c, d, e]
            }
            #[cfg(feature = "kernels")]
            Self::KernelChaCha20(key) => key.mask(sample),
            #[cfg(feature = "ring")]
            Self::Ring(key) => key.mask(sample),
            #[cfg(feature = "aws-lc-rs")]
            Self::AwsLc(key) => key.mask(sample),
            Self::Aes128(key) => key.mask(sample),
            #[cfg(feature = "rustcrypto")]
            Self::Aes256(key) => key.mask(sample),
            #[cfg(any(feature = "ring", feature = "rustcrypto"))]
            Self::ChaCha20(key) => key.mask(sample),
        }
    }
}
