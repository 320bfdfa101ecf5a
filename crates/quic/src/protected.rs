//! Packets as they come from the network: taken apart as far as can be done without keys.

use core::ops::Range;

use crate::codec::{HeaderError, LongType, TypeBits};
use crate::connection_id::{ConnectionId, ConnectionIdTooLong};
use crate::header::LONG_FORM;
use crate::varint::decode_varint;
use crate::version::Version;

/// What protects a packet: which keys it needs (RFC 9001, section 4 and 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketType {
    /// A long header, and keys from the connection ID.
    Initial,
    /// A long header, and keys of early data.
    ZeroRtt,
    /// A long header, and keys of the handshake.
    Handshake,
    /// A short header, and keys that may be updated.
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

/// One packet of a received datagram, still protected.
///
/// [`Keys::open`](crate::Keys::open) and [`OneRtt::open`](crate::OneRtt::open) turn it into an [`Opened`](crate::Opened), and
/// nothing else does: whoever holds an `Opened` knows that it is authentic.
#[derive(Debug)]
pub struct Protected<'a> {
    pub(crate) octets: &'a mut [u8],
    pub(crate) number_offset: usize,
    pub(crate) packet_type: PacketType,
    pub(crate) version: Option<Version>,
    destination: Range<usize>,
    source: Range<usize>,
    token: Range<usize>,
}

impl<'a> Protected<'a> {
    /// Takes the first packet off a datagram, and returns the octets behind it, which are empty or another packet (RFC 9000,
    /// section 12.2). `connection_id_length` is that of our own connection IDs, since a short header does not say it.
    ///
    /// The fixed bit is not judged, because peers may grease it (RFC 9287). A short header takes all octets that are left.
    ///
    /// # Errors
    ///
    /// [`HeaderError`]; nothing behind such a packet can be found either.
    #[inline]
    pub fn split_first(
        datagram: &'a mut [u8],
        connection_id_length: usize,
    ) -> Result<(Self, &'a mut [u8]), HeaderError> {
        let first = *datagram.first().ok_or(HeaderError::Truncated { expected: 1, got: 0 })?;
        if first & LONG_FORM == 0 {
            let number_offset = connection_id_length.saturating_add(1);
            if datagram.len() < number_offset {
                return Err(HeaderError::Truncated { expected: number_offset, got: datagram.len() });
            }
            let packet = Self {
                octets: datagram,
                number_offset,
                packet_type: PacketType::OneRtt,
                version: None,
                destination: 1..number_offset,
                source: 0..0,
                token: 0..0,
            };
            return Ok((packet, &mut []));
        }
        Self::split_long(datagram)
    }

    /// [`split_first`](Self::split_first) for a long header, which is rarer: apart, so that the other stays small.
    fn split_long(datagram: &'a mut [u8]) -> Result<(Self, &'a mut [u8]), HeaderError> {
        let (head, body) = LongHead::read_packet(datagram)?;
        let (octets, rest) = datagram.split_at_mut(body.end);
        let packet = Self {
            octets,
            number_offset: body.start,
            packet_type: head.packet_type.into(),
            version: Some(head.version),
            destination: head.destination,
            source: head.source,
            token: head.token,
        };
        Ok((packet, rest))
    }

    /// Whether keys for this type and version are those it needs; a short header names no version.
    #[inline]
    pub(crate) fn is_for(&self, packet_type: PacketType, version: Version) -> bool {
        self.packet_type == packet_type && self.version.is_none_or(|named| named == version)
    }

    /// The packets of a datagram one after another, as far as they can be told apart. A packet for another connection ID than
    /// the first is an error, and those behind it follow (RFC 9000, section 12.2); with any other error the iterator ends.
    #[must_use]
    pub fn split(datagram: &'a mut [u8], connection_id_length: usize) -> Coalesced<'a> {
        Coalesced { rest: datagram, connection_id_length, destination: None }
    }

    /// Which keys it needs.
    #[must_use]
    pub const fn packet_type(&self) -> PacketType {
        self.packet_type
    }

    /// The version that a long header names; `None` for a short header.
    #[must_use]
    pub const fn version(&self) -> Option<Version> {
        self.version
    }

    /// The destination connection ID.
    #[must_use]
    pub fn destination(&self) -> &[u8] {
        &self.octets[self.destination.clone()]
    }

    /// The source connection ID of a long header; empty for a short one.
    #[must_use]
    pub fn source(&self) -> &[u8] {
        &self.octets[self.source.clone()]
    }

    /// The token of an Initial packet; empty for others.
    #[must_use]
    pub fn token(&self) -> &[u8] {
        &self.octets[self.token.clone()]
    }

    /// The whole packet as it was received.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        self.octets
    }
}

/// The packets of one datagram; see [`Protected::split`].
#[derive(Debug)]
pub struct Coalesced<'a> {
    rest: &'a mut [u8],
    connection_id_length: usize,
    destination: Option<ConnectionId>,
}

impl<'a> Iterator for Coalesced<'a> {
    type Item = Result<Protected<'a>, HeaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        let datagram = core::mem::take(&mut self.rest);
        if datagram.is_empty() {
            return None;
        }
        let (packet, rest) = match Protected::split_first(datagram, self.connection_id_length) {
            Ok(split) => split,
            Err(error) => return Some(Err(error)),
        };
        self.rest = rest;
        match (self.destination, ConnectionId::new(packet.destination())) {
            (Some(first), _) if *first != *packet.destination() => {
                return Some(Err(HeaderError::OtherDestination));
            }
            (None, Ok(destination)) => self.destination = Some(destination),
            _ => {}
        }
        Some(Ok(packet))
    }
}

/// What all long headers begin with (RFC 9000, section 17.2).
pub(crate) struct LongStart {
    pub(crate) version: Version,
    pub(crate) packet_type: TypeBits,
    pub(crate) destination: Range<usize>,
    pub(crate) source: Range<usize>,
}

impl LongStart {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, HeaderError> {
        let first = reader.octets[reader.take(1)?][0];
        let version = reader.take(4)?.start;
        let version = reader.octets[version..].first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets));
        if version == 0 {
            return Err(HeaderError::VersionNegotiation);
        }
        let version = Version::from_wire(version).map_err(HeaderError::UnknownVersion)?;
        let destination = reader.connection_id()?;
        let source = reader.connection_id()?;
        Ok(Self { version, packet_type: version.long_type(first), destination, source })
    }
}

/// A long header up to its Length field, of a packet that is protected by keys (RFC 9000, section 17.2).
pub(crate) struct LongHead {
    pub(crate) version: Version,
    pub(crate) packet_type: LongType,
    pub(crate) destination: Range<usize>,
    pub(crate) source: Range<usize>,
    pub(crate) token: Range<usize>,
}

impl LongHead {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, HeaderError> {
        let LongStart { version, packet_type, destination, source } = LongStart::read(reader)?;
        let TypeBits::Protected(packet_type) = packet_type else { return Err(HeaderError::Retry) };
        let token = if packet_type == LongType::Initial {
            let length = reader.varint()?;
            reader.take(length)?
        } else {
            0..0
        };
        Ok(Self { version, packet_type, destination, source, token })
    }

    /// With where the packet number starts, and where the packet ends by its Length field.
    pub(crate) fn read_packet(octets: &[u8]) -> Result<(Self, Range<usize>), HeaderError> {
        let mut reader = Reader { octets, at: 0 };
        let head = Self::read(&mut reader)?;
        let length = reader.varint()?;
        Ok((head, reader.take(length)?))
    }
}

/// Reads fields from the front of a packet.
pub(crate) struct Reader<'a> {
    pub(crate) octets: &'a [u8],
    pub(crate) at: usize,
}

impl Reader<'_> {
    /// Where the next `length` octets are, which are then behind.
    pub(crate) fn take(&mut self, length: u64) -> Result<Range<usize>, HeaderError> {
        let expected = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        let expected = expected.unwrap_or(usize::MAX);
        if expected > self.octets.len() {
            return Err(HeaderError::Truncated { expected, got: self.octets.len() });
        }
        let range = self.at..expected;
        self.at = expected;
        Ok(range)
    }

    fn varint(&mut self) -> Result<u64, HeaderError> {
        let got = self.octets.len();
        let (value, length) = decode_varint(&self.octets[self.at..])
            .ok_or(HeaderError::Truncated { expected: got + 1, got })?;
        self.at += length;
        Ok(value)
    }

    fn connection_id(&mut self) -> Result<Range<usize>, HeaderError> {
        let length = usize::from(self.octets[self.take(1)?][0]);
        if length > ConnectionId::MAX_LENGTH {
            return Err(HeaderError::ConnectionIdTooLong(ConnectionIdTooLong { length }));
        }
        self.take(length as u64)
    }
}
