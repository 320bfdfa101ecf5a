//! Reads and writes connection IDs, variable-length integers, and the header fields that protection needs (RFC 9000 §16 and §17, RFC 9369
//! §3.2).

use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::{Deref, Range};

use wireseal_algorithms::AeadAlgorithm;

use crate::error::{HeaderError, SealError};
use crate::header::LONG_FORM;
use crate::packet_number::{MAX_PACKET_NUMBER, NumberLength};
use crate::version::Version;

/// The fixed bit, set in every packet whose sender does not grease it (RFC 9000 §17.2, RFC 9287).
pub(crate) const FIXED: u8 = 0x40;
/// The spin bit of a short header (RFC 9000 §17.4).
const SPIN: u8 = 0x20;

/// A connection ID of 0 to 20 octets (RFC 9000 §5.1 and §17.2).
#[derive(Clone, Copy)]
pub struct ConnectionId {
    octets: [u8; Self::MAX_LENGTH],
    length: u8,
}

impl ConnectionId {
    /// The maximum length in octets, the same in all known versions (RFC 9000 §17.2).
    pub const MAX_LENGTH: usize = 20;

    /// A connection ID of these octets.
    ///
    /// # Errors
    ///
    /// [`HeaderError::ConnectionIdTooLong`] for more than 20 octets.
    pub fn new(octets: &[u8]) -> Result<Self, HeaderError> {
        let mut id = Self { octets: [0; Self::MAX_LENGTH], length: octets.len() as u8 };
        let too_long = HeaderError::ConnectionIdTooLong { maximum: Self::MAX_LENGTH, got: octets.len() };
        id.octets.get_mut(..octets.len()).ok_or(too_long)?.copy_from_slice(octets);
        Ok(id)
    }

    /// The length as the one octet that a long header puts before a connection ID.
    pub(crate) const fn length_octet(&self) -> u8 {
        self.length
    }
}

impl Deref for ConnectionId {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }
}

impl PartialEq for ConnectionId {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for ConnectionId {}

impl Hash for ConnectionId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionId({self})")
    }
}

/// In hexadecimal, as QUIC logs write it.
impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// Reads the variable-length integer at the start of `octets`. Returns its value and its length in octets, 1 to 8 (RFC 9000
/// §16 and §A.1), or `None` if it is truncated.
#[must_use]
pub fn decode_varint(octets: &[u8]) -> Option<(u64, usize)> {
    let length = 1 << (octets.first()? >> 6);
    let mut wide = [0; 8];
    wide[8 - length..].copy_from_slice(octets.get(..length)?);
    // The top two bits are the length.
    Some((u64::from_be_bytes(wide) & (u64::MAX >> (66 - 8 * length)), length))
}

/// Writes `value` to the start of `out` in as few octets as possible, and returns how many: 1 to 8 (RFC 9000 §16). `None`, with nothing
/// written, if `value` is above 2^62-1 or `out` is too short.
fn encode_varint(value: u64, out: &mut [u8]) -> Option<usize> {
    let exponent = match value {
        0..0x40 => 0,
        0x40..0x4000 => 1,
        0x4000..0x4000_0000 => 2,
        0x4000_0000..=MAX_PACKET_NUMBER => 3,
        _ => return None,
    };
    encode_varint_as(value, exponent, out)
}

/// Writes `value`, which must fit, in 2^`exponent` octets.
fn encode_varint_as(value: u64, exponent: usize, out: &mut [u8]) -> Option<usize> {
    let length = 1 << exponent;
    let tagged = value | (exponent as u64) << (8 * length - 2);
    out.get_mut(..length)?.copy_from_slice(&tagged.to_be_bytes()[8 - length..]);
    Some(length)
}

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
        match ((first >> 4) + 4 - self.type_shift()) % 4 {
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

/// The unprotected fields of a header. The header was parsed before, so all of them lie inside the packet.
pub(crate) struct Fields<'p> {
    pub(crate) packet: &'p [u8],
    pub(crate) packet_type: PacketType,
    pub(crate) number_offset: usize,
}

impl<'p> Fields<'p> {
    pub(crate) fn destination(&self) -> &'p [u8] {
        match self.packet_type {
            PacketType::OneRtt => &self.packet[1..self.number_offset],
            // After the first octet and the version.
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

    /// The connection ID after the length octet at `length`.
    fn id_at(&self, length: usize) -> &'p [u8] {
        &self.packet[length + 1..][..usize::from(self.packet[length])]
    }
}

/// The accessors of a header, for types with a field `version` and a method that returns its [`Fields`].
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
    /// Skips `length` octets and returns their range.
    fn take(&mut self, length: u64) -> Result<Range<usize>, HeaderError> {
        let needed = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        let needed = needed.unwrap_or(usize::MAX);
        if needed > self.octets.len() {
            return Err(HeaderError::Truncated { needed, got: self.octets.len() });
        }
        let range = self.at..needed;
        self.at = needed;
        Ok(range)
    }

    fn octet(&mut self) -> Result<u8, HeaderError> {
        Ok(self.octets[self.take(1)?.start])
    }

    fn varint(&mut self) -> Result<u64, HeaderError> {
        let got = self.octets.len();
        let rest = self.octets.get(self.at..).unwrap_or_default();
        let (value, length) = decode_varint(rest).ok_or(HeaderError::Truncated { needed: got + 1, got })?;
        self.at += length;
        Ok(value)
    }

    fn connection_id(&mut self) -> Result<Range<usize>, HeaderError> {
        let (maximum, got) = (ConnectionId::MAX_LENGTH, usize::from(self.octet()?));
        if got > maximum {
            return Err(HeaderError::ConnectionIdTooLong { maximum, got });
        }
        self.take(got as u64)
    }
}

/// A long header to write (RFC 9000 §17.2), with the fixed bit set. Clear that bit in the first octet before sealing if the peer accepts
/// packets without it (RFC 9287 §3.1).
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
    /// The token of an Initial packet: empty, or from a Retry packet or a NEW_TOKEN frame. Ignored for other types, which have none.
    pub token: &'a [u8],
}

impl LongHeader<'_> {
    /// The size of the packet without its payload, in octets: this header, the packet number and the tag. A datagram of 1200 octets (RFC
    /// 9000 §14.1) has room for a payload of 1200 minus this. For payloads of about 16,300 octets or more it is two more.
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
    /// [`SealError`], with nothing written, if `out` is too short or a value too large for its field.
    pub fn encode(
        &self,
        out: &mut [u8],
        number_length: NumberLength,
        payload_length: usize,
    ) -> Result<usize, SealError> {
        let length = number_length.octets() + AeadAlgorithm::TAG_LENGTH;
        let length = payload_length.checked_add(length).ok_or(SealError::FieldTooLong)? as u64;
        let exponent = match length {
            0..0x4000 => 1,
            0x4000..0x4000_0000 => 2,
            _ => return Err(SealError::FieldTooLong),
        };
        let mut token_length = [0; 8];
        let (token_length, token): (&[u8], &[u8]) = if self.packet_type == LongType::Initial {
            let octets = encode_varint(self.token.len() as u64, &mut token_length);
            (&token_length[..octets.ok_or(SealError::FieldTooLong)?], self.token)
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
    /// [`SealError::BufferTooSmall`], with nothing written.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, SealError> {
        write_parts(out, &[&[FIXED | if self.spin { SPIN } else { 0 }], &self.destination])
    }
}

/// Writes all parts one after another, or nothing if `out` is too small. Returns their length.
pub(crate) fn write_parts(out: &mut [u8], parts: &[&[u8]]) -> Result<usize, SealError> {
    let needed = parts.iter().map(|part| part.len()).sum();
    let got = out.len();
    let mut rest = out.get_mut(..needed).ok_or(SealError::BufferTooSmall { needed, got })?;
    for part in parts {
        let (place, behind) = rest.split_at_mut(part.len());
        place.copy_from_slice(part);
        rest = behind;
    }
    Ok(needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 9000 §A.1, except the one that is longer than necessary, and the smallest and largest value of each length.
    #[test]
    fn varints_have_as_few_octets_as_possible() {
        let examples = [(151_288_809_941_952_652, 8), (494_878_333, 4), (15_293, 2), (37, 1)];
        let edges = [(0, 1), (0x3f, 1), (0x40, 2), (0x3fff, 2), (0x4000, 4), (0x3fff_ffff, 4), (1 << 30, 8)];
        for (value, length) in examples.into_iter().chain(edges).chain([(MAX_PACKET_NUMBER, 8)]) {
            let mut out = [0xa5; 9];
            assert_eq!(encode_varint(value, &mut out), Some(length));
            assert_eq!((decode_varint(&out), out[length]), (Some((value, length)), 0xa5));
            assert_eq!(encode_varint(value, &mut out[..length - 1]), None);
        }
        assert_eq!(encode_varint(MAX_PACKET_NUMBER + 1, &mut [0; 9]), None);
    }
}
