//! The two keys of one direction: of the payload, and of the header.

use core::fmt;

use wireseal_algorithms::AeadAlgorithm;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::backend::{AeadKey, Backend, MaskKey};
use crate::header;
use crate::seal::SealError;
use crate::secret::Expander;
use crate::version::Version;

/// The most octets of payload that one call seals: more than a UDP datagram carries.
pub const MAX_PAYLOAD_LENGTH: usize = u16::MAX as usize;

/// A path of a multipath connection (draft-ietf-quic-multipath, section 4, "Path Identifier"). Where there is one path
/// only, it is path 0, and the nonce that of RFC 9001.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(
    /// The identifier, of 32 bits.
    pub u32,
);

/// An AEAD key with its IV (RFC 9001, section 5.3).
///
/// It takes whatever number it is given, and a number given twice breaks the AEAD: a [`Sealer`](crate::Sealer) or an
/// [`OneRtt`](crate::OneRtt) gives each once.
pub struct PacketKey {
    pub(crate) aead: AeadKey,
    iv: [u8; AeadAlgorithm::NONCE_LENGTH],
    algorithm: AeadAlgorithm,
}

impl PacketKey {
    /// A key for a backend of the caller's choice from its octets and the IV.
    ///
    /// # Errors
    ///
    /// [`WrongKeyLength`] if `key` has not [`AeadAlgorithm::key_length`] octets.
    pub fn with_backend(
        backend: Backend,
        algorithm: AeadAlgorithm,
        key: &[u8],
        iv: &[u8; 12],
    ) -> Result<Self, WrongKeyLength> {
        let aead = AeadKey::new(backend, algorithm, key).ok_or(WrongKeyLength {
            algorithm,
            expected: algorithm.key_length(),
            got: key.len(),
        })?;
        Ok(Self { aead, iv: *iv, algorithm })
    }

    /// "quic key" and "quic iv" (RFC 9001, section 5.1), or those of version 2.
    pub(crate) fn derive(backend: Backend, version: Version, secret: &Expander) -> Self {
        let labels = version.labels();
        let mut iv = Zeroizing::new([0; AeadAlgorithm::NONCE_LENGTH]);
        secret.expand(labels.iv, &mut *iv);
        let key = expand_key(secret, labels.key);
        let algorithm = secret.algorithm;
        Self::with_backend(backend, algorithm, &key[..algorithm.key_length()], &iv).expect(KEY_LONG)
    }

    /// The AEAD.
    #[must_use]
    pub const fn algorithm(&self) -> AeadAlgorithm {
        self.algorithm
    }

    /// What serves it: the processor's instructions, by [`Backend::Kernels`], or a library.
    #[must_use]
    pub fn served_by(&self) -> &'static str {
        self.aead.served_by()
    }

    /// Seals the payload that `body` is but for its last 16 octets, which become the tag, and returns the mask of the header;
    /// number and length have been checked.
    #[inline]
    pub(crate) fn seal_packet(
        &self,
        header_key: &HeaderKey,
        number: u64,
        header: &[u8],
        body: &mut [u8],
        sample: usize,
    ) -> Result<[u8; header::MASK_LENGTH], SealError> {
        let got = body.len() - AeadAlgorithm::TAG_LENGTH;
        self.aead
            .seal_packet(&header_key.mask, self.nonce(PathId(0), number), header, body, sample)
            .ok_or(SealError::TooLong { expected: MAX_PAYLOAD_LENGTH, got })
    }

    /// Decrypts the payload where it lies, with `header` as associated data, and returns it without the 16 octets of the tag
    /// that follow it (RFC 9001, section 5.3).
    ///
    /// `None` if it is not authentic, shorter than a tag, or numbered above 2^62-1; what was the payload is then zeros, and
    /// the tag as it was.
    #[inline]
    #[must_use]
    pub fn open<'a>(
        &self,
        path: PathId,
        number: u64,
        header: &[u8],
        payload_and_tag: &'a mut [u8],
    ) -> Option<&'a mut [u8]> {
        let (payload, tag) = payload_and_tag.split_last_chunk_mut()?;
        if number <= crate::MAX_PACKET_NUMBER
            && self.aead.open(self.nonce(path, number), header, payload, tag)
        {
            Some(payload)
        } else {
            payload.fill(0);
            None
        }
    }

    /// IV xor number (RFC 9001, section 5.3), with the path's identifier in the 32 bits before (draft-ietf-quic-multipath,
    /// section "Nonce Calculation").
    #[inline]
    pub(crate) fn nonce(&self, path: PathId, number: u64) -> [u8; 12] {
        let [a, b, c, d, e, f, g, h, low @ ..] = self.iv;
        let high = u64::from_be_bytes([a, b, c, d, e, f, g, h]) ^ (u64::from(path.0) << 32 | number >> 32);
        let low = u32::from_be_bytes(low) ^ number as u32;
        // In two words, as AEADs load them: octets that were stored one by one would have to be waited for.
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&high.to_be_bytes());
        nonce[8..].copy_from_slice(&low.to_be_bytes());
        nonce
    }
}

impl Drop for PacketKey {
    fn drop(&mut self) {
        self.iv.zeroize();
    }
}

impl ZeroizeOnDrop for PacketKey {}

/// A header protection key (RFC 9001, section 5.4), which stays the same when keys are updated (section 6.1).
pub struct HeaderKey {
    mask: MaskKey,
    pub(crate) algorithm: AeadAlgorithm,
}

impl HeaderKey {
    /// A key for a backend of the caller's choice from its octets.
    ///
    /// # Errors
    ///
    /// [`WrongKeyLength`] if `key` has not [`AeadAlgorithm::header_protection_key_length`] octets.
    pub fn with_backend(
        backend: Backend,
        algorithm: AeadAlgorithm,
        key: &[u8],
    ) -> Result<Self, WrongKeyLength> {
        let mask = MaskKey::new(backend, algorithm, key).ok_or(WrongKeyLength {
            algorithm,
            expected: algorithm.header_protection_key_length(),
            got: key.len(),
        })?;
        Ok(Self { mask, algorithm })
    }

    /// "quic hp" (RFC 9001, section 5.1), or that of version 2.
    pub(crate) fn derive(backend: Backend, version: Version, secret: &Expander) -> Self {
        let key = expand_key(secret, version.labels().header_protection);
        let algorithm = secret.algorithm;
        let length = algorithm.header_protection_key_length();
        Self::with_backend(backend, algorithm, &key[..length]).expect(KEY_LONG)
    }

    /// The mask that a sample gives (RFC 9001, section 5.4.3 and 5.4.4): its first octet for the first octet of the header,
    /// the others for up to four octets of packet number.
    #[inline(always)]
    #[must_use]
    pub fn mask(&self, sample: &[u8; header::SAMPLE_LENGTH]) -> [u8; header::MASK_LENGTH] {
        self.mask.mask(sample)
    }
}

/// Key octets of the algorithm's length, then zeros.
fn expand_key(secret: &Expander, label: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    secret.expand(label, &mut key[..secret.algorithm.key_length()]);
    key
}

const KEY_LONG: &str = "the key was derived with the length of its algorithm";

impl ZeroizeOnDrop for HeaderKey {}

impl fmt::Debug for PacketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

impl fmt::Debug for HeaderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeaderKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// A key of a length that its algorithm does not have; the caller is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WrongKeyLength {
    /// The AEAD it should have been for.
    pub algorithm: AeadAlgorithm,
    /// The octets that its keys have.
    pub expected: usize,
    /// The octets that were given.
    pub got: usize,
}

impl fmt::Display for WrongKeyLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { algorithm, expected, got } = self;
        write!(f, "a key of {algorithm} has {expected} octets, not {got}")
    }
}

impl core::error::Error for WrongKeyLength {}
