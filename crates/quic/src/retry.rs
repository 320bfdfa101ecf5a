//! Retry packets and their integrity tag (RFC 9000 §17.2.5, RFC 9001 §5.8).

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128Enc, Block};
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use subtle::ConstantTimeEq;
use wireseal_algorithms::AeadAlgorithm;

use crate::codec::{ConnectionId, LongStart, Reader, TypeBits, long_start, write_parts};
use crate::error::{HeaderError, SealError};
use crate::header::LONG_FORM;
use crate::version::Version;

/// The unused bits of the first octet. They are set, as in the vectors of RFC 9001 and RFC 9369.
const UNUSED: u8 = 0x0f;
const TAG: usize = AeadAlgorithm::TAG_LENGTH;

/// A Retry packet (RFC 9000 §17.2.5): written by a server, or read and verified by a client.
///
/// The packets that follow it are protected by [`InitialKeys`](crate::InitialKeys) from `source`, and their numbers continue after
/// those of the first Initial packets (RFC 9001 §5.2, RFC 9000 §17.2.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry<'a> {
    /// The version of the connection.
    pub version: Version,
    /// The client's connection ID.
    pub destination: ConnectionId,
    /// The connection ID that the server chose.
    pub source: ConnectionId,
    /// The token that the client must return: at least one octet.
    pub token: &'a [u8],
}

impl<'a> Retry<'a> {
    /// Writes the packet with its integrity tag to the start of `out` and returns its length in octets: 23 plus those of the
    /// token and the two connection IDs. `original_destination` is the destination connection ID of the Initial packet that it
    /// answers.
    ///
    /// # Errors
    ///
    /// [`SealError`], with nothing written, if `out` is too short, the token is empty, or the connection ID is not new.
    pub fn encode(&self, original_destination: &ConnectionId, out: &mut [u8]) -> Result<usize, SealError> {
        if self.token.is_empty() {
            return Err(SealError::NoToken);
        }
        if self.source == *original_destination {
            return Err(SealError::SameConnectionId);
        }
        let first = self.version.type_bits(TypeBits::Retry) | UNUSED;
        let length = write_parts(
            out,
            &[
                &long_start(first, self.version),
                &[self.destination.length_octet()],
                &self.destination,
                &[self.source.length_octet()],
                &self.source,
                self.token,
                &[0; TAG],
            ],
        )?;
        let (packet, tag) = out[..length].split_at_mut(length - TAG);
        tag.copy_from_slice(&retry_integrity_tag(self.version, original_destination, packet));
        Ok(length)
    }

    /// Reads a Retry packet, which fills a datagram, and checks its integrity tag in constant time. `version` and
    /// `original_destination` are those of the client's first Initial packet. The fixed bit is yours to check, as for
    /// [other packets](crate::Protected::fixed_bit).
    ///
    /// # Errors
    ///
    /// [`HeaderError`]: the client must drop the packet (RFC 9000 §17.2.5.2).
    pub fn open(
        version: Version,
        original_destination: &ConnectionId,
        datagram: &'a [u8],
    ) -> Result<Self, HeaderError> {
        if datagram.first().is_some_and(|first| first & LONG_FORM == 0) {
            return Err(HeaderError::NotRetry);
        }
        let mut reader = Reader { octets: datagram, at: 0 };
        let start = LongStart::read(&mut reader)?;
        if start.type_bits != TypeBits::Retry {
            return Err(HeaderError::NotRetry);
        }
        if start.version != version {
            return Err(HeaderError::OtherVersion { expected: version, got: start.version });
        }
        let truncated = HeaderError::Truncated { needed: reader.at + 1 + TAG, got: datagram.len() };
        let (packet, tag) = datagram.split_last_chunk::<TAG>().ok_or(truncated)?;
        // RFC 9000 §17.2.5.2: "A client MUST discard a Retry packet with a zero-length Retry Token field."
        let token = packet.get(reader.at..).filter(|token| !token.is_empty()).ok_or(truncated)?;
        let computed = retry_integrity_tag(version, original_destination, packet);
        if !bool::from(computed.ct_eq(tag)) {
            return Err(HeaderError::RetryTag);
        }
        let id = |range| ConnectionId::new(&datagram[range]);
        let (destination, source) = (id(start.destination)?, id(start.source)?);
        // RFC 9000 §17.2.5.1: "A client MUST discard a Retry packet that contains a Source Connection ID field that is identical to the
        // Destination Connection ID field of its Initial packet."
        if source == *original_destination {
            return Err(HeaderError::SameConnectionId);
        }
        Ok(Self { version, destination, source, token })
    }
}

/// The integrity tag of a Retry packet, given its octets up to the tag: AES-128-GCM with a public key over the Retry pseudo-packet
/// (RFC 9001 §5.8, RFC 9369 §3.3.3).
///
/// It detects damage, and forgeries by attackers who have not seen the Initial packet. Tokens of any length need no buffer.
#[must_use]
pub fn retry_integrity_tag(
    version: Version,
    original_destination: &ConnectionId,
    retry_without_tag: &[u8],
) -> [u8; TAG] {
    let secrets = version.retry_key();
    let cipher = Aes128Enc::new(&secrets.key.into());
    let mut hash_key = Block::default();
    cipher.encrypt_block(&mut hash_key);
    let mut ghash = GHash::new(&hash_key);

    // GCM with associated data alone (SP 800-38D §7.1): the data, zeros to a whole block, and its length in bits.
    let mut block = [0; 16];
    let mut length = 0_usize;
    let pseudo_packet = [&[original_destination.length_octet()], &**original_destination, retry_without_tag];
    for octet in pseudo_packet.into_iter().flatten() {
        block[length % 16] = *octet;
        length += 1;
        if length.is_multiple_of(16) {
            ghash.update(&[block.into()]);
            block = [0; 16];
        }
    }
    if !length.is_multiple_of(16) {
        ghash.update(&[block.into()]);
    }
    let bits = u128::from(8 * length as u64) << 64;
    ghash.update(&[bits.to_be_bytes().into()]);

    let mut counter = Block::default();
    counter[..12].copy_from_slice(&secrets.nonce);
    counter[15] = 1;
    cipher.encrypt_block(&mut counter);
    let tag = u128::from_be_bytes(ghash.finalize().into()) ^ u128::from_be_bytes(counter.into());
    tag.to_be_bytes()
}
