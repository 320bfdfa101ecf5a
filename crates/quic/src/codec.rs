//! Reading and writing the parts of headers that protection needs (RFC 9000 §17, RFC 9369 §3.2).

use core::ops::Range;

use wireseal_algorithms::AeadAlgorithm;

use crate::connection_id::ConnectionId;
use crate::error::{EncodeError, HeaderError};
use crate::header::LONG_FORM;
use crate::packet_number::NumberLength;
use crate::varint::{decode_varint, encode_varint, encode_varint_as};
use crate::version::Version;

/// The fixed bit, set in every packet whose sender does not grease it (RFC 9000 §17.2, RFC 9287).
pub(crate) const FIXED: u8 = 0x40;
/// The spin bit of a short header (RFC 9000 §17.4).
const SPIN: u8 = 0x20;

/// A packet with a long header that is protected by keys (RFC 9000 §17.2). Retry and Version Negotiation packets are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LongType {
    /// The first packets of a connection. They carry a token.
    Initial,
    /// Early data.
    ZeroRtt,
    /// The rest of the TLS handshake.
    Handshake,
}

/// The type of a packet, which says which keys protect it (RFC 9001 §4 and §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketType {
    /// Long header; keys from the connection ID.
    Initial,
    /// Long header; keys of early data.
    ZeroRtt,
    /// Long header; keys of the handshake.
    Handshake,
    /// Short header; keys that can be updated.
    OneRtt,
}

impl From<LongType> for PacketType {
    fn from(long: LongType) -> Self {
        match long {
            LongType::Initial => Self::Initial,
            LongType::ZeroRtt => Self::ZeroRtt,
            LongType::Handshake => Self::Handshake,
        }
    }
}

/// The two type bits of a long header.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypeBits {
    Protected(LongType),
    Retry,
}

impl Version {
    /// The version with this number in the version field of a long header (RFC 9000 §17.2).
    ///
    /// # Errors
    ///
    /// [`HeaderError::UnknownVersion`] for versions that this build does not support, and
    /// [`HeaderError::VersionNegotiation`] for 0, which marks such a packet (RFC 9000 §17.2.1).
    pub fn from_wire(version: u32) -> Result<Self, HeaderError> {
        let known = Self::ALL.iter().copied().find(|known| known.to_wire() == version);
        known.ok_or(match version {
            0 => HeaderError::VersionNegotiation,
            _ => HeaderError::UnknownVersion(version),
        })
    }

    /// The type bits in their place in the first octet. Version 2 numbers the types one higher (RFC 9369 §3.2).
    pub(crate) const fn type_bits(self, packet: TypeBits) -> u8 {
        let v1 = match packet {
            TypeBits::Protected(LongType::Initial) => 0,
            TypeBits::Protected(LongType::ZeroRtt) => 1,
            TypeBits::Protected(LongType::Handshake) => 2,
            TypeBits::Retry => 3,
        };
        ((v1 + self.type_shift()) % 4) << 4
    }

    const fn long_type(self, first: u8) -> TypeBits {
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

/// The start of every long header (RFC 9000 §17.2).
pub(crate) struct LongStart {
    pub(crate) version: Version,
    pub(crate) type_bits: TypeBits,
    pub(crate) destination: Range<usize>,
    pub(crate) source: Range<usize>,
}

impl LongStart {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, HeaderError> {
        let first = reader.octet()?;
        let version = reader.take(4)?.start;
        let version = reader.octets[version..].first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets));
        let version = Version::from_wire(version)?;
        let destination = reader.connection_id()?;
        let source = reader.connection_id()?;
        Ok(Self { version, type_bits: version.long_type(first), destination, source })
    }
}

/// A packet with a long header that is protected by keys.
pub(crate) struct LongPacket {
    pub(crate) version: Version,
    pub(crate) packet_type: LongType,
    /// From the packet number to the end of the packet.
    pub(crate) body: Range<usize>,
}

impl LongPacket {
    pub(crate) fn read(octets: &[u8]) -> Result<Self, HeaderError> {
        let mut reader = Reader { octets, at: 0 };
        let LongStart { version, type_bits, .. } = LongStart::read(&mut reader)?;
        let TypeBits::Protected(packet_type) = type_bits else { return Err(HeaderError::Retry) };
        if packet_type == LongType::Initial {
            let length = reader.varint()?;
            reader.take(length)?;
        }
        let length = reader.varint()?;
        let body = reader.take(length)?;
        Ok(Self { version, packet_type, body })
    }
}

/// The fields of a header that are not protected. The header has been read before, so they are where they should be.
pub(crate) struct Fields<'p> {
    pub(crate) packet: &'p [u8],
    pub(crate) packet_type: PacketType,
    pub(crate) number_offset: usize,
}

impl<'p> Fields<'p> {
    pub(crate) fn destination(&self) -> &'p [u8] {
        match self.packet_type {
            PacketType::OneRtt => &self.packet[1..self.number_offset],
            // Behind the first octet and the version.
            _ => self.id_at(5),
        }
    }

    pub(crate) fn source(&self) -> &'p [u8] {
        match self.packet_type {
            PacketType::OneRtt => &[],
            _ => self.id_at(6 + self.destination().len()),
        }
    }

    pub(crate) fn token(&self) -> &'p [u8] {
        if self.packet_type != PacketType::Initial {
            return &[];
        }
        let behind_ids = &self.packet[7 + self.destination().len() + self.source().len()..];
        decode_varint(behind_ids).map_or(&[], |(length, start)| &behind_ids[start..][..length as usize])
    }

    /// A connection ID behind its length.
    fn id_at(&self, length: usize) -> &'p [u8] {
        &self.packet[length + 1..][..usize::from(self.packet[length])]
    }
}

/// What the header of a packet says, for types with a `version` and a method that returns its [`Fields`].
macro_rules! header_accessors {
    () => {
        /// The version of a long header; `None` for a short header.
        #[must_use]
        pub const fn version(&self) -> Option<Version> {
            self.version
        }

        /// The destination connection ID.
        #[must_use]
        pub fn destination(&self) -> &[u8] {
            self.fields().destination()
        }

        /// The source connection ID of a long header; empty for a short header.
        #[must_use]
        pub fn source(&self) -> &[u8] {
            self.fields().source()
        }

        /// The token of an Initial packet; empty for other packets.
        #[must_use]
        pub fn token(&self) -> &[u8] {
            self.fields().token()
        }
    };
}

pub(crate) use header_accessors;

/// Reads fields from the front of a packet.
pub(crate) struct Reader<'a> {
    pub(crate) octets: &'a [u8],
    pub(crate) at: usize,
}

impl Reader<'_> {
    /// Moves past the next `length` octets and returns where they are.
    fn take(&mut self, length: u64) -> Result<Range<usize>, HeaderError> {
        let expected = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        let expected = expected.unwrap_or(usize::MAX);
        if expected > self.octets.len() {
            return Err(HeaderError::Truncated { expected, got: self.octets.len() });
        }
        let range = self.at..expected;
        self.at = expected;
        Ok(range)
    }

    fn octet(&mut self) -> Result<u8, HeaderError> {
        Ok(self.octets[self.take(1)?.start])
    }

    fn varint(&mut self) -> Result<u64, HeaderError> {
        let got = self.octets.len();
        let rest = self.octets.get(self.at..).unwrap_or_default();
        let (value, length) = decode_varint(rest).ok_or(HeaderError::Truncated { expected: got + 1, got })?;
        self.at += length;
        Ok(value)
    }

    fn connection_id(&mut self) -> Result<Range<usize>, HeaderError> {
        let (expected, got) = (ConnectionId::MAX_LENGTH, usize::from(self.octet()?));
        if got > expected {
            return Err(HeaderError::ConnectionIdTooLong { expected, got });
        }
        self.take(got as u64)
    }
}

/// A long header to write (RFC 9000 §17.2), with the fixed bit. Clear that in the first octet before sealing if the peer takes packets
/// without it (RFC 9287 §3.1).
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
    /// The token of an Initial packet: empty, or from a Retry packet or a NEW_TOKEN frame. Other types have no token, and this
    /// is ignored.
    pub token: &'a [u8],
}

impl LongHeader<'_> {
    /// The octets of a packet apart from its payload: this header, the packet number and the tag. A datagram of 1200 octets
    /// (RFC 9000 §14.1) has room for a payload of as many fewer. From payloads of about 16,300 octets on it is two more.
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

    /// Writes the header to the start of `out`, up to the packet number, and returns where the packet number starts: the value
    /// for [`Outgoing::number_offset`](crate::Outgoing). `payload_length` counts neither packet number nor tag. The Length
    /// field has two octets, or four if it is 16,384 or more.
    ///
    /// # Errors
    ///
    /// [`EncodeError`], with nothing written, if `out` is too short or a value too large for its field.
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
        let (token_length, token): (&[u8], &[u8]) = if self.packet_type == LongType::Initial {
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

/// A short header to write (RFC 9000 §17.3.1), with the fixed bit, like [`LongHeader`]. Sealing adds the key phase and the packet number.
#[derive(Clone, Copy, Debug)]
pub struct ShortHeader {
    /// The peer's connection ID.
    pub destination: ConnectionId,
    /// The spin bit (RFC 9000 §17.4).
    pub spin: bool,
}

impl ShortHeader {
    /// Writes the header to the start of `out`, up to the packet number, and returns where the packet number starts.
    ///
    /// # Errors
    ///
    /// [`EncodeError::BufferTooSmall`], with nothing written.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        write_parts(out, &[&[FIXED | if self.spin { SPIN } else { 0 }], &self.destination])
    }
}

/// Writes all parts one after another, or nothing, and returns their length.
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
