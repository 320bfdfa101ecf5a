//! Keys that take any packet number, for stacks that count for themselves, for several paths, and for observers.
//!
//! Two packets sealed with the same number and path under the same [`PacketKey`] give away both their contents and the key that
//! authenticates. [`Sealer`](crate::Sealer) and [`OneRtt`](crate::OneRtt) rule that out; here it is up to the caller, who also
//! counts packets against the [limits](AeadAlgorithm::confidentiality_limit).
//!
//! ```
//! use wireseal_quic::AeadAlgorithm;
//! use wireseal_quic::hazmat::{PacketKey, PathId};
//!
//! let key = PacketKey::new(AeadAlgorithm::Aes128Gcm, &[1; 16], &[2; 12])?;
//! let mut packet = *b"payload, and room for a tag.....";
//! let (payload, tag) = packet.split_at_mut(16);
//! tag.copy_from_slice(&key.seal(PathId(0), 7, b"header", payload)?);
//! assert_eq!(key.open(PathId(0), 7, b"header", &mut packet).as_deref(), Some(&b"payload, and roo"[..]));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

use wireseal_algorithms::AeadAlgorithm;

use crate::backend::Backend;
use crate::header::{self, SAMPLE_LENGTH};
use crate::keys::Keys;
pub use crate::packet_key::{HeaderKey, MAX_PAYLOAD_LENGTH, PacketKey, PathId, WrongKeyLength};
use crate::seal::SealError;
use crate::secret::TrafficSecret;
use crate::version::Version;

impl Keys {
    /// The two keys, for stacks that have their own numbers but not their own key schedule.
    #[must_use]
    pub fn into_parts(self) -> (PacketKey, HeaderKey) {
        (self.packet_key, self.header_key)
    }
}

impl TrafficSecret {
    /// The secret of the next key phase, as of [`next`](Self::next), beside this one: for observers, who see the packets of
    /// both directions and of several phases in any order.
    #[must_use]
    pub fn peek_next(&self, version: Version) -> Self {
        self.following(version)
    }
}

impl PacketKey {
    /// A key for the active backend from its octets and the IV.
    ///
    /// # Errors
    ///
    /// [`WrongKeyLength`] if `key` has not [`AeadAlgorithm::key_length`] octets.
    pub fn new(algorithm: AeadAlgorithm, key: &[u8], iv: &[u8; 12]) -> Result<Self, WrongKeyLength> {
        Self::with_backend(Backend::active(), algorithm, key, iv)
    }

    /// Encrypts `payload` where it lies, with `header` as associated data, and returns the tag (RFC 9001, section 5.3).
    ///
    /// # Errors
    ///
    /// [`SealError::TooLong`] above [`MAX_PAYLOAD_LENGTH`] and [`SealError::NumbersExhausted`] for a number above 2^62-1;
    /// nothing is written then.
    #[inline]
    pub fn seal(
        &self,
        path: PathId,
        number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<[u8; 16], SealError> {
        if number > crate::MAX_PACKET_NUMBER {
            return Err(SealError::NumbersExhausted);
        }
        let too_long = SealError::TooLong { expected: MAX_PAYLOAD_LENGTH, got: payload.len() };
        if payload.len() > MAX_PAYLOAD_LENGTH {
            return Err(too_long);
        }
        self.aead.seal(self.nonce(path, number), header, payload).ok_or(too_long)
    }
}

impl HeaderKey {
    /// A key for the active backend from its octets.
    ///
    /// # Errors
    ///
    /// [`WrongKeyLength`] if `key` has not [`AeadAlgorithm::header_protection_key_length`] octets.
    pub fn new(algorithm: AeadAlgorithm, key: &[u8]) -> Result<Self, WrongKeyLength> {
        Self::with_backend(Backend::active(), algorithm, key)
    }

    /// The AEAD of the suite, which says how masks are made.
    #[must_use]
    pub const fn algorithm(&self) -> AeadAlgorithm {
        self.algorithm
    }

    /// Masks the first octet of a header and its packet number (RFC 9001, section 5.4.1). The first octet says how long the
    /// number is; `number` starts with it, and what it has beyond stays as it is.
    #[inline]
    pub fn protect(&self, sample: &[u8; SAMPLE_LENGTH], first: &mut u8, number: &mut [u8]) {
        header::protect(self.mask(sample), first, number);
    }

    /// Removes what [`protect`](Self::protect) did.
    ///
    /// Nothing of what appears may be acted upon before the packet was opened (RFC 9001, section 9.5).
    #[inline]
    pub fn unprotect(&self, sample: &[u8; SAMPLE_LENGTH], first: &mut u8, number: &mut [u8]) {
        header::unprotect(self.mask(sample), first, number);
    }
}
