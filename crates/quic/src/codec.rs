//! Headers as far as protection needs them: written, and taken apart (RFC 9000, section 17; RFC 9369, section 3.2).

use core::fmt;

use wireseal_algorithms::AeadAlgorithm;

use crate::connection_id::{ConnectionId, ConnectionIdTooLong};
use crate::header::LONG_FORM;
use crate::packet_number::NumberLength;
use crate::varint::{encode_varint, encode_varint_as};
use crate::version::{UnknownVersion, Version};

/// The fixed bit, set in every packet that does not grease it (RFC 9000, section 17.2; RFC 9287).
const FIXED: u8 = 0x40;
/// The spin bit of a short header (RFC 9000, section 17.4).
const SPIN: u8 = 0x20;

/// A packet with a long header that is protected by keys (RFC 9000, section 17.2). Retry and Version Negotiation packets
/// are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LongType {
    /// The first packets of a connection, which have a token.
    Initial,
    /// Early data.
    ZeroRtt,
    /// The rest of the TLS handshake.
    Handshake,
}

/// What a long header says in its two type bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypeBits {
    Protected(LongType),
    Retry,
}

impl Version {
    /// The type bits of a long header: version 2 has them one further on (RFC 9369, section 3.2).
    pub(crate) const fn type_bits(self, packet: TypeBits) -> u8 {
        let v1 = match packet {
            TypeBits::Protected(LongType::Initial) => 0,
            TypeBits::Protected(LongType::ZeroRtt) => 1,
            TypeBits::Protected(LongType::Handshake) => 2,
            TypeBits::Retry => 3,
        };
        ((v1 + self.type_shift()) % 4) << 4
    }

    pub(crate) const fn long_type(self, first: u8) -> TypeBits {
        match ((first >> 4) % 4 + 4 - self.type_shift()) % 4 {
            0 => TypeBits::Protected(LongType::Initial),
            1 => TypeBits::Protected(LongType::ZeroRtt),
            2 => TypeBits::Protected(LongType::Handshake),
            _ => TypeBits::Retry,
        }
    }

    const fn type_shift(self) -> u8 {
        match self {
            Self::V1 => 0,
            Self::V2 => 1,
            #[cfg(feature = "draft-29")]
            Self::Draft29 => 0,
        }
    }
}

/// A long header to be written (RFC 9000, section 17.2).
#[derive(Clone, Copy, Debug)]
pub struct LongHeader<'a> {
    /// The version of the connection.
    pub version: Version,
    /// The type of the packet.
    pub packet_type: LongType,
    /// The peer's connection ID.
    pub destination: ConnectionId,
    /// Our connection ID.
    pub source: ConnectionId,
    /// The token of an Initial packet: empty, or from a Retry or a NEW_TOKEN frame. Other packets have none, and it is not
    /// written for them.
    pub token: &'a [u8],
}

impl LongHeader<'_> {
    /// How many octets a packet has beside its payload: this header, the packet number and the tag. A datagram of 1200 octets
    /// (RFC 9000, section 14.1) has room for a payload of as many less. From a payload of about 16,300 octets on it is two
    /// octets more.
    #[must_use]
    pub fn overhead(&self, number_length: NumberLength) -> usize {
        let token = match (self.packet_type, self.token.len()) {
            (LongType::Initial, length) => encode_varint(length as u64, &mut [0; 8]).unwrap_or(8) + length,
            (LongType::ZeroRtt | LongType::Handshake, _) => 0,
        };
        let ids = 1 + self.destination.len() + 1 + self.source.len();
        // First octet and version, and a Length field of two octets.
        5 + ids + token + 2 + number_length.octets() + AeadAlgorithm::TAG_LENGTH
    }

    /// Writes the header to the start of `out` up to the packet number, whose offset it returns: what
    /// [`Outgoing::number_offset`](crate::Outgoing) asks for. `payload_length` counts the octets of the payload without the
    /// packet number and without the tag. The Length field takes two octets, or four from 16,384 on.
    ///
    /// # Errors
    ///
    /// [`EncodeError`], with nothing written, where `out` or a field has no room.
    pub fn encode(
        &self,
        out: &mut [u8],
        number_length: NumberLength,
        payload_length: usize,
    ) -> Result<usize, EncodeError> {
        let length = number_length.octets() + AeadAlgorithm::TAG_LENGTH;
        let length = payload_length.checked_add(length).ok_or(EncodeError::PayloadTooLong)? as u64;
        let exponent = match length {
            0..0x4000 => 1,
            0x4000..0x4000_0000 => 2,
            _ => return Err(EncodeError::PayloadTooLong),
        };
        let mut token_length = [0; 8];
        let initial = self.packet_type == LongType::Initial;
        let (token_length, token): (&[u8], &[u8]) = if initial {
            let octets = encode_varint(self.token.len() as u64, &mut token_length);
            (&token_length[..octets.ok_or(EncodeError::PayloadTooLong)?], self.token)
        } else {
            (&[], &[])
        };
        let mut length_field = [0; 4];
        let octets = encode_varint_as(length, exponent, &mut length_field).unwrap_or(0);
        let first = self.version.type_bits(TypeBits::Protected(self.packet_type));
        write_parts(
            out,
            &[
                &long_start(first, self.version),
                &[self.destination.length_octet()],
                &self.destination,
                &[self.source.length_octet()],
                &self.source,
                token_length,
                token,
                &length_field[..octets],
            ],
        )
    }
}

/// The first octet and the version field.
pub(crate) fn long_start(type_bits: u8, version: Version) -> [u8; 5] {
    let [a, b, c, d] = version.to_wire().to_be_bytes();
    [LONG_FORM | FIXED | type_bits, a, b, c, d]
}

/// A short header to be written (RFC 9000, section 17.3.1). Key phase and number are written when it is sealed.
#[derive(Clone, Copy, Debug)]
pub struct ShortHeader {
    /// The peer's connection ID.
    pub destination: ConnectionId,
    /// The spin bit (RFC 9000, section 17.4).
    pub spin: bool,
}

impl ShortHeader {
    /// Writes the header to the start of `out` up to the packet number, whose offset it returns.
    ///
    /// # Errors
    ///
    /// [`EncodeError::BufferTooSmall`], with nothing written.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        write_parts(out, &[&[FIXED | if self.spin { SPIN } else { 0 }], &self.destination])
    }
}

/// Writes all parts one after another, or nothing.
pub(crate) fn write_parts(out: &mut [u8], parts: &[&[u8]]) -> Result<usize, EncodeError> {
    let expected = parts.iter().map(|part| part.len()).sum();
    let got = out.len();
    let mut rest = out.get_mut(..expected).ok_or(EncodeError::BufferTooSmall { expected, got })?;
    for part in parts {
        let (place, behind) = rest.split_at_mut(part.len());
        place.copy_from_slice(part);
        rest = behind;
    }
    Ok(expected)
}

/// A header or a Retry packet could not be written; the caller is to blame, and nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EncodeError {
    /// The buffer has no room.
    BufferTooSmall {
        /// The octets that are needed.
        expected: usize,
        /// The octets that there are.
        got: usize,
    },
    /// The payload is longer than a Length field of four octets can say, or a token longer than its own.
    PayloadTooLong,
    /// A Retry packet has a token of at least one octet (RFC 9000, section 17.2.5).
    NoToken,
    /// A Retry packet has another source connection ID than the destination of the packet it answers (RFC 9000, section
    /// 17.2.5.1).
    SameConnectionId,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferTooSmall { expected, got } => {
                write!(f, "the buffer has room for {got} octets, and {expected} are needed")
            }
            Self::PayloadTooLong => {
                f.write_str("the payload or the token is longer than its length field can say")
            }
            Self::NoToken => f.write_str("a Retry packet needs a token"),
            Self::SameConnectionId => f.write_str("a Retry packet has to change the connection ID"),
        }
    }
}

impl core::error::Error for EncodeError {}

/// Why octets are no packet that keys could open. The peer sent it; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeaderError {
    /// A Retry packet, which has an integrity tag instead of protection: see [`Retry`](crate::Retry).
    Retry,
    /// A Version Negotiation packet, which has no protection (RFC 9000, section 17.2.1).
    VersionNegotiation,
    /// A version that this build protects no packets of. What a server may answer, a Version Negotiation packet, is not
    /// protected and not made here (RFC 8999, section 6).
    UnknownVersion(UnknownVersion),
    /// A connection ID of more than 20 octets in a known version (RFC 9000, section 17.2): the packet must be dropped.
    ConnectionIdTooLong(ConnectionIdTooLong),
    /// The packet ends within its header, or before the end that its Length field gives.
    Truncated {
        /// The least number of octets it should have had.
        expected: usize,
        /// The octets that there are.
        got: usize,
    },
    /// A coalesced packet for another connection ID than the first of its datagram (RFC 9000, section 12.2).
    OtherDestination,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry => f.write_str("a Retry packet is not protected by keys"),
            Self::VersionNegotiation => f.write_str("a Version Negotiation packet is not protected"),
            Self::UnknownVersion(error) => error.fmt(f),
            Self::ConnectionIdTooLong(error) => error.fmt(f),
            Self::Truncated { expected, got } => {
                write!(f, "the packet should have at least {expected} octets and has {got}")
            }
            Self::OtherDestination => {
                f.write_str("a coalesced packet has another destination connection ID than the first")
            }
        }
    }
}

impl core::error::Error for HeaderError {}
