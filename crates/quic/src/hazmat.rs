//! Keys that accept any packet number, for stacks that count themselves, for several paths, and for observers.
//!
//! Two packets sealed with the same number and path under the same [`PacketKey`] reveal both plaintexts and the authentication
//! key. [`Sealer`](crate::Sealer) and [`OneRtt`](crate::OneRtt) prevent that; here it is up to you, and so is counting packets
//! against the [limits](AeadAlgorithm::confidentiality_limit).
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
use crate::error::SealError;
pub use crate::error::WrongKeyLength;
use crate::header::{self, SAMPLE_LENGTH};
use crate::keys::Keys;
pub use crate::packet_key::{HeaderKey, MAX_PAYLOAD_LENGTH, PacketKey, PathId};
use crate::packet_number::MAX_PACKET_NUMBER;
use crate::secret::TrafficSecret;
use crate::version::Version;

impl Keys {
    /// The two keys, for stacks that count packet numbers themselves but use this key schedule.
    #[must_use]
    pub fn into_parts(self) -> (PacketKey, HeaderKey) {
        (self.packet_key, self.header_key)
    }
}

impl TrafficSecret {
    /// The secret of the next key phase, without consuming this one: for observers, who see packets of several phases in any
    /// order.
    #[must_use]
    pub fn peek_next(&self, version: Version) -> Self {
        self.following(version)
    }
}

impl PacketKey {
    /// A key from its octets and its IV, for the active backend.
    ///
    /// # Errors
    ///
    /// [`WrongKeyLength`] if `key` does not have [`AeadAlgorithm::key_length`] octets.
    pub fn new(algorithm: AeadAlgorithm, key: &[u8], iv: &[u8; 12]) -> Result<Self, WrongKeyLength> {
        Self::with_backend(Backend::active(), algorithm, key, iv)
    }

    /// Encrypts `payload` in place, with `header` as associated data, and returns the tag (RFC 9001 §5.3).
    ///
    /// # Errors
    ///
    /// [`SealError::TooLong`] above [`MAX_PAYLOAD_LENGTH`] and [`SealError::NumbersExhausted`] for a number above 2^62-1, with
    /// nothing written.
    #[inline]
    pub fn seal(
        &self,
        path: PathId,
        number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<[u8; 16], SealError> {
        if number > MAX_PACKET_NUMBER {
            return Err(SealError::NumbersExhausted);
        }
        if payload.len() > MAX_PAYLOAD_LENGTH {
            return Err(SealError::TooLong { expected: MAX_PAYLOAD_LENGTH, got: payload.len() });
        }
        Ok(self.seal_checked(path, number, header, payload))
    }
}

impl HeaderKey {
    /// A key from its octets, for the active backend.
    ///
    /// # Errors
    ///
    /// [`WrongKeyLength`] if `key` does not have [`AeadAlgorithm::header_protection_key_length`] octets.
    pub fn new(algorithm: AeadAlgorithm, key: &[u8]) -> Result<Self, WrongKeyLength> {
        Self::with_backend(Backend::active(), algorithm, key)
    }

    /// The AEAD of the cipher suite, which determines how masks are made.
    #[must_use]
    pub const fn algorithm(&self) -> AeadAlgorithm {
        self.algorithm
    }

    /// Masks the first octet of a header and its packet number (RFC 9001 §5.4.1). The length of the number is in the first octet.
    /// `number` starts with it; further octets stay as they are.
    #[inline]
    pub fn protect(&self, sample: &[u8; SAMPLE_LENGTH], first: &mut u8, number: &mut [u8]) {
        header::protect(self.mask(sample), first, number);
    }

    /// Undoes [`protect`](Self::protect). Do not act on what it reveals before the packet is opened (RFC 9001 §9.5).
    #[inline]
    pub fn unprotect(&self, sample: &[u8; SAMPLE_LENGTH], first: &mut u8, number: &mut [u8]) {
        header::unprotect(self.mask(sample), first, number);
    }
}
