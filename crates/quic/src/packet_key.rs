//! The two keys of one direction: for the payload, and for the header.

use core::fmt;
use core::ops::Range;

use wireseal_aead::{AeadKey, Backend, MaskKey};
use wireseal_algorithms::AeadAlgorithm;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::error::KeyError;
use crate::header::{self, MASK_LENGTH, SAMPLE_LENGTH, SAMPLE_OFFSET};
use crate::packet_number::MAX_PACKET_NUMBER;
use crate::secret::Expander;
use crate::version::Version;

/// The maximum payload in octets: more than a UDP datagram carries.
pub const MAX_PAYLOAD_LENGTH: usize = u16::MAX as usize;

/// A path of a multipath connection (draft-ietf-quic-multipath §4). A connection with one path uses path 0, and so the nonce of
/// RFC 9001.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(
    /// The path identifier, 32 bits.
    pub u32,
);

/// An AEAD key with its IV (RFC 9001 §5.3).
///
/// It accepts any packet number, and sealing two packets with the same number breaks the AEAD. A [`Sealer`](crate::Sealer) or a
/// [`OneRtt`](crate::OneRtt) uses each number once.
pub struct PacketKey {
    aead: AeadKey,
    iv: [u8; AeadAlgorithm::NONCE_LENGTH],
    algorithm: AeadAlgorithm,
}

impl PacketKey {
    /// A key from its octets and its IV, for a given backend.
    ///
    /// # Errors
    ///
    /// [`KeyError::WrongLength`] if `key` does not have [`AeadAlgorithm::key_length`] octets.
    pub fn with_backend(
        backend: Backend,
        algorithm: AeadAlgorithm,
        key: &[u8],
        iv: &[u8; 12],
    ) -> Result<Self, KeyError> {
        let aead = AeadKey::with_backend(backend, algorithm, key).map_err(|_| KeyError::WrongLength {
            algorithm,
            expected: algorithm.key_length(),
            got: key.len(),
        })?;
        Ok(Self { aead, iv: *iv, algorithm })
    }

    /// With the labels "quic key" and "quic iv", or "quicv2 key" and "quicv2 iv" (RFC 9001 §5.1, RFC 9369 §3.3.2).
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

    /// Where its AEAD comes from: the processor's instructions (by [`Backend::Kernels`]) or a library.
    #[must_use]
    pub fn served_by(&self) -> &'static str {
        self.aead.served_by()
    }

    /// Encrypts `payload` in place and returns the tag. Length and number have been checked.
    #[inline]
    pub(crate) fn seal_checked(
        &self,
        path: PathId,
        number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> [u8; 16] {
        self.aead.seal_detached(&self.nonce(path, number), header, payload).expect(SHORT)
    }

    /// Seals a packet in place and masks its header. `number_octets` is the range of the packet number; the payload starts where it ends.
    /// Lengths and number have been checked.
    #[inline]
    pub(crate) fn seal_packet_checked(
        &self,
        header_key: &HeaderKey,
        path: PathId,
        number: u64,
        packet: &mut [u8],
        number_octets: Range<usize>,
    ) {
        let (header, body) = packet.split_at_mut(number_octets.end);
        let sample = number_octets.start + SAMPLE_OFFSET - number_octets.end;
        let nonce = self.nonce(path, number);
        let mask = self.aead.seal_with_mask(&header_key.mask, &nonce, header, body, sample).expect(SHORT);
        let (before, octets) = packet.split_at_mut(number_octets.start);
        header::protect(mask, &mut before[0], octets);
    }

    /// Decrypts a payload in place, with `header` as associated data, and returns it without the tag, the last 16 octets (RFC
    /// 9001 §5.3).
    ///
    /// `None` if it is not authentic, shorter than a tag, or numbered above 2^62-1. The payload is then zeros, and the tag
    /// unchanged.
    #[inline]
    #[must_use]
    pub fn open<'a>(
        &self,
        path: PathId,
        number: u64,
        header: &[u8],
        payload_and_tag: &'a mut [u8],
    ) -> Option<&'a mut [u8]> {
        if number > MAX_PACKET_NUMBER {
            let (payload, _) = payload_and_tag.split_last_chunk_mut::<{ AeadAlgorithm::TAG_LENGTH }>()?;
            payload.fill(0);
            return None;
        }
        self.aead.open(&self.nonce(path, number), header, payload_and_tag).ok()
    }

    /// IV xor number (RFC 9001 §5.3), with the path identifier in the 32 bits above the number
    /// (draft-ietf-quic-multipath, "Nonce Calculation").
    #[inline]
    fn nonce(&self, path: PathId, number: u64) -> [u8; 12] {
        let [a, b, c, d, e, f, g, h, low @ ..] = self.iv;
        let high = u64::from_be_bytes([a, b, c, d, e, f, g, h]) ^ (u64::from(path.0) << 32 | number >> 32);
        let low = u32::from_be_bytes(low) ^ number as u32;
        // Two stores, as wide as the AEADs' loads, which would stall on octets stored one by one.
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

/// A header protection key (RFC 9001 §5.4). Key updates do not change it (RFC 9001 §6.1).
pub struct HeaderKey {
    mask: MaskKey,
    pub(crate) algorithm: AeadAlgorithm,
}

impl HeaderKey {
    /// A key from its octets, for a given backend.
    ///
    /// # Errors
    ///
    /// [`KeyError::WrongLength`] if `key` does not have [`AeadAlgorithm::header_protection_key_length`] octets.
    pub fn with_backend(backend: Backend, algorithm: AeadAlgorithm, key: &[u8]) -> Result<Self, KeyError> {
        let mask = MaskKey::with_backend(backend, algorithm, key).map_err(|_| KeyError::WrongLength {
            algorithm,
            expected: algorithm.header_protection_key_length(),
            got: key.len(),
        })?;
        Ok(Self { mask, algorithm })
    }

    /// With the label "quic hp" or "quicv2 hp" (RFC 9001 §5.1, RFC 9369 §3.3.2).
    pub(crate) fn derive(backend: Backend, version: Version, secret: &Expander) -> Self {
        let (key, algorithm) = (expand_key(secret, version.labels().header_protection), secret.algorithm);
        Self::with_backend(backend, algorithm, &key[..algorithm.key_length()]).expect(KEY_LONG)
    }

    /// The mask for a sample (RFC 9001 §5.4.3 and §5.4.4): one octet for the first octet of the header, then four for the packet
    /// number.
    // Inlined: as a call, it makes opening 64 octets 5 % slower.
    #[inline(always)]
    #[must_use]
    pub fn mask(&self, sample: &[u8; SAMPLE_LENGTH]) -> [u8; MASK_LENGTH] {
        self.mask.mask(sample)
    }
}

/// A key of the algorithm's length, followed by zeros.
fn expand_key(secret: &Expander, label: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    secret.expand(label, &mut key[..secret.algorithm.key_length()]);
    key
}

const SHORT: &str = "the packet has room for its tag and its sample, and is short enough for any AEAD";
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
