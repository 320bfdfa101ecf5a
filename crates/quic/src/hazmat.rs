//! Keys that accept any packet number: for stacks that number packets themselves, for multipath, and for observers.
//!
//! Two packets sealed with the same number and path under the same [`PacketKey`] reveal both plaintexts and the authentication
//! key. [`Sealer`](crate::Sealer) and [`OneRtt`](crate::OneRtt) prevent that; here it is up to you, and so is counting packets
//! against the [limits](AeadAlgorithm::confidentiality_limit).
//!
//! | task | call |
//! |---|---|
//! | both keys from a secret of TLS | [`Keys::new`](crate::Keys::new), then [`Keys::into_parts`](crate::Keys::into_parts) |
//! | secrets and the octets of keys, for a stack that stores them itself | [`initial_secrets`], [`next_secret`], [`TrafficSecret::octets`], [`KeyOctets::derive`] |
//! | seal a whole packet and mask its header | [`PacketKey::seal_packet`] |
//! | remove the mask, choose the key, open | [`HeaderKey::unmask`], [`Unmasked::open_by`] |
//! | each step alone, for a stack that separates them | [`PacketKey::seal`], [`PacketKey::open`], [`HeaderKey::protect`], [`HeaderKey::unprotect`] |
//!
//! All of them take `&self`, so any number of threads can use one key. Whole packets are faster than the steps: the mask comes out
//! of the same pass over the packet.
//!
//! ```
//! use wireseal_quic::hazmat::PathId;
//! use wireseal_quic::{AeadAlgorithm, ConnectionId, Keys, PacketType, Protected, ShortHeader, TrafficSecret, Version};
//!
//! # fn keys() -> Result<Keys, wireseal_quic::KeyError> {
//! let secret = TrafficSecret::new(AeadAlgorithm::Aes128Gcm, &[7; 32])?; // from TLS
//! let keys = Keys::new(Version::V1, PacketType::OneRtt, secret);
//! # Ok(keys)
//! # }
//! # let keys = keys()?;
//! let (packet_key, header_key) = keys.into_parts();
//!
//! // Packet 300, its number in two octets, as the low bits of the first octet say; ten octets of payload; room for the tag.
//! let destination = ConnectionId::new(&[1, 2, 3, 4])?;
//! let mut packet = [0; 1 + 4 + 2 + 10 + 16];
//! let number_offset = ShortHeader { destination, spin: false }.encode(&mut packet)?;
//! packet[0] |= 0b01;
//! packet[number_offset..][..2].copy_from_slice(&300_u16.to_be_bytes());
//! packet_key.seal_packet(&header_key, PathId(0), 300, &mut packet, number_offset + 2)?;
//!
//! // Packet 299 was the largest so far.
//! let (protected, _) = Protected::split_first(&mut packet, destination.len())?;
//! let unmasked = header_key.unmask(protected, Some(299))?;
//! assert_eq!((unmasked.number(), unmasked.key_phase()), (300, false));
//! let opened = unmasked.open_by(&packet_key, PathId(0))?;
//! assert_eq!(opened.payload, [0; 10]);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

use core::fmt;

use wireseal_aead::Backend;
use wireseal_algorithms::AeadAlgorithm;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::codec::ConnectionId;
use crate::error::{KeyError, OpenError, SealError};
use crate::header::{self, Covered, SAMPLE_LENGTH};
use crate::keys::Keys;
use crate::open::Opened;
pub use crate::open::Unmasked;
pub use crate::packet_key::{HeaderKey, MAX_PAYLOAD_LENGTH, PacketKey, PathId};
use crate::packet_number::{MAX_PACKET_NUMBER, NumberLength};
use crate::protected::Protected;
use crate::seal::Outgoing;
use crate::secret::{Expander, TrafficSecret};
use crate::version::Version;

impl Keys {
    /// The two keys, for stacks that count packet numbers themselves but use this key schedule.
    #[must_use]
    pub fn into_parts(self) -> (PacketKey, HeaderKey) {
        (self.packet_key, self.header_key)
    }
}

impl TrafficSecret {
    /// The secret of the next key phase (RFC 9001 §6.1), without consuming this one: for stacks that update keys themselves, and for
    /// observers, who see packets of several phases in any order.
    #[must_use]
    pub fn peek_next(&self, version: Version) -> Self {
        self.following(version)
    }

    /// The octets of the secret: 48 for AES-256-GCM, 32 for the others.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        self.as_octets()
    }
}

/// The secrets of the client's and of the server's Initial packets (RFC 9001 §5.2, RFC 9369 §3.3.1), for AES-128-GCM. Anyone who sees the
/// packets can derive them.
#[must_use]
pub fn initial_secrets(version: Version, destination: &ConnectionId) -> [TrafficSecret; 2] {
    TrafficSecret::initial(version, destination)
}

/// Writes the secret of the next key phase (RFC 9001 §6.1) to `next`, for stacks that keep secrets as octets. Unlike
/// [`TrafficSecret::peek_next`], it makes no copies of the secret that the caller has.
///
/// # Errors
///
/// [`KeyError::WrongLength`], with nothing written, if `secret` or `next` does not have [`AeadAlgorithm::secret_length`] octets.
pub fn next_secret(
    version: Version,
    algorithm: AeadAlgorithm,
    secret: &[u8],
    next: &mut [u8],
) -> Result<(), KeyError> {
    let expected = algorithm.secret_length();
    for got in [secret.len(), next.len()] {
        if got != expected {
            return Err(KeyError::WrongLength { algorithm, expected, got });
        }
    }
    Expander::keyed(algorithm, secret).expand(version.labels().key_update, next);
    Ok(())
}

/// The octets of the keys of one direction (RFC 9001 §5.1), for a stack whose interface carries them as octets. Wiped on drop.
pub struct KeyOctets {
    algorithm: AeadAlgorithm,
    /// Keys shorter than 32 octets are followed by zeros.
    key: [u8; 32],
    iv: [u8; 12],
    header_protection: [u8; 32],
}

impl KeyOctets {
    /// Derives them with the labels of the version (RFC 9001 §5.1, RFC 9369 §3.3.2). After a key update the header protection key stays the
    /// one of the first secret (RFC 9001 §6.1).
    #[must_use]
    pub fn derive(version: Version, secret: &TrafficSecret) -> Self {
        let (algorithm, labels, expander) = (secret.algorithm(), version.labels(), secret.expander());
        let mut octets = Self { algorithm, key: [0; 32], iv: [0; 12], header_protection: [0; 32] };
        expander.expand(labels.key, &mut octets.key[..algorithm.key_length()]);
        expander.expand(labels.iv, &mut octets.iv);
        let length = algorithm.header_protection_key_length();
        expander.expand(labels.header_protection, &mut octets.header_protection[..length]);
        octets
    }

    /// The packet protection key: [`AeadAlgorithm::key_length`] octets.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key[..self.algorithm.key_length()]
    }

    /// The IV, which the packet number is combined with.
    #[must_use]
    pub const fn iv(&self) -> &[u8; 12] {
        &self.iv
    }

    /// The header protection key: [`AeadAlgorithm::header_protection_key_length`] octets.
    #[must_use]
    pub fn header_protection_key(&self) -> &[u8] {
        &self.header_protection[..self.algorithm.header_protection_key_length()]
    }
}

impl Drop for KeyOctets {
    fn drop(&mut self) {
        self.key.zeroize();
        self.iv.zeroize();
        self.header_protection.zeroize();
    }
}

impl ZeroizeOnDrop for KeyOctets {}

/// Without the octets.
impl fmt::Debug for KeyOctets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyOctets").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

impl PacketKey {
    /// A key from its octets and its IV, for the active backend.
    ///
    /// # Errors
    ///
    /// [`KeyError::WrongLength`] if `key` does not have [`AeadAlgorithm::key_length`] octets.
    pub fn new(algorithm: AeadAlgorithm, key: &[u8], iv: &[u8; 12]) -> Result<Self, KeyError> {
        Self::with_backend(Backend::active(), algorithm, key, iv)
    }

    /// Encrypts `payload` in place, with `header` as associated data, and returns the tag (RFC 9001 §5.3). This is the AEAD alone, so it
    /// also seals an empty payload; but a QUIC packet must have frames (RFC 9000 §12.4).
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
            return Err(SealError::TooLong { maximum: MAX_PAYLOAD_LENGTH, got: payload.len() });
        }
        Ok(self.seal_checked(path, number, header, payload))
    }

    /// Seals a whole packet in place: encrypts the payload, writes the tag, and masks the header (RFC 9001 §5.3 and §5.4), in one pass over
    /// the packet if the processor's instructions serve the key.
    ///
    /// `packet` holds the header, the payload from `payload_offset` on, and 16 octets of room for the tag. Write the header as it will be
    /// authenticated, with reserved bits, key phase and packet number. The two low bits of the first octet give the length of the number,
    /// which ends where the payload starts. A long header's Length field includes the tag.
    ///
    /// You must ensure that `number` was never used under this key and path.
    ///
    /// # Errors
    ///
    /// [`SealError`], with nothing written: [`NoHeader`](SealError::NoHeader), [`BufferTooSmall`](SealError::BufferTooSmall),
    /// [`NoFrames`](SealError::NoFrames), [`TooShortForSample`](SealError::TooShortForSample), [`TooLong`](SealError::TooLong),
    /// [`NumbersExhausted`](SealError::NumbersExhausted) for a number above 2^62-1, and [`OtherHeader`](SealError::OtherHeader) if the header
    /// does not end with the low octets of `number`, or the header key is of another AEAD: the peer could not open the packet.
    #[inline]
    pub fn seal_packet(
        &self,
        header_key: &HeaderKey,
        path: PathId,
        number: u64,
        packet: &mut [u8],
        payload_offset: usize,
    ) -> Result<(), SealError> {
        if number > MAX_PACKET_NUMBER {
            return Err(SealError::NumbersExhausted);
        }
        let first = *packet.first().ok_or(SealError::NoHeader)?;
        let number_length = NumberLength::from_bits(first);
        let number_offset = payload_offset.checked_sub(number_length.octets()).ok_or(SealError::NoHeader)?;
        let payload_offset = Outgoing { packet, number_offset, number_length }.payload_offset()?;
        // Cannot be `None`: four octets come before the sample, which fits.
        let written = Covered::read(packet, number_offset).map(|covered| covered.truncated_number());
        let expected = number as u32 & u32::MAX >> (32 - 8 * number_length.octets());
        if written != Some(expected) || header_key.algorithm != self.algorithm() {
            return Err(SealError::OtherHeader);
        }
        self.seal_packet_checked(header_key, path, number, packet, number_offset..payload_offset);
        Ok(())
    }
}

impl HeaderKey {
    /// A key from its octets, for the active backend.
    ///
    /// # Errors
    ///
    /// [`KeyError::WrongLength`] if `key` does not have [`AeadAlgorithm::header_protection_key_length`] octets.
    pub fn new(algorithm: AeadAlgorithm, key: &[u8]) -> Result<Self, KeyError> {
        Self::with_backend(Backend::active(), algorithm, key)
    }

    /// The AEAD of the cipher suite, which determines how masks are computed.
    #[must_use]
    pub const fn algorithm(&self) -> AeadAlgorithm {
        self.algorithm
    }

    /// Masks the first octet of a header and its packet number (RFC 9001 §5.4.1). The first octet gives the length of the number. `number`
    /// starts with it; octets after it are unchanged.
    #[inline]
    pub fn protect(&self, sample: &[u8; SAMPLE_LENGTH], first: &mut u8, number: &mut [u8]) {
        header::protect(self.mask(sample), first, number);
    }

    /// Undoes [`protect`](Self::protect). Do not act on what it reveals before the packet is opened (RFC 9001 §9.5).
    #[inline]
    pub fn unprotect(&self, sample: &[u8; SAMPLE_LENGTH], first: &mut u8, number: &mut [u8]) {
        header::unprotect(self.mask(sample), first, number);
    }

    /// Removes the mask of a packet and decodes its number, given the largest number opened so far on its path (RFC 9000 §17.1). The packet
    /// itself changes only when it is opened. The fixed bit is [yours to check](Protected::fixed_bit).
    ///
    /// # Errors
    ///
    /// [`OpenError::Undecryptable`], if the packet is too short for a sample.
    #[inline]
    pub fn unmask<'a>(&self, packet: Protected<'a>, largest: Option<u64>) -> Result<Unmasked<'a>, OpenError> {
        Unmasked::of(packet, self, largest)
    }
}

impl<'a> Unmasked<'a> {
    /// The packet number.
    #[inline]
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Opens the packet with `key`, which you choose by its number and key phase, and checks the reserved bits and that there are frames
    /// (RFC 9001 §5.5, RFC 9000 §12.4). [`Opened::generation`](crate::Opened::generation) is 0.
    ///
    /// The other duties of an endpoint are yours: detect duplicates, count failures against the [integrity
    /// limit](AeadAlgorithm::integrity_limit), and check that key phases come in order.
    ///
    /// # Errors
    ///
    /// [`OpenError::AuthenticationFailed`]: the header is as it was, the payload zeros. [`OpenError::ReservedBits`] and
    /// [`OpenError::NoFrames`]: payload and tag are zeros.
    #[inline]
    pub fn open_by(self, key: &PacketKey, path: PathId) -> Result<Opened<'a>, OpenError> {
        self.open_with(key, path, 0).ok_or(OpenError::AuthenticationFailed)?.judge_alone()
    }
}
