//! Received packets, parsed as far as possible without keys.

use core::fmt;

use crate::codec::{ConnectionId, FIXED, Fields, LongPacket, PacketType, header_accessors};
use crate::error::HeaderError;
use crate::header::LONG_FORM;
use crate::version::Version;

/// One packet of a received datagram, still protected: nothing in it is authentic.
///
/// [`Keys::open`](crate::Keys::open) and [`OneRtt::open`](crate::OneRtt::open) turn it into an [`Opened`](crate::Opened)
/// packet, which is authentic.
pub struct Protected<'a> {
    pub(crate) octets: &'a mut [u8],
    pub(crate) number_offset: usize,
    pub(crate) packet_type: PacketType,
    pub(crate) version: Option<Version>,
}

impl<'a> Protected<'a> {
    /// Splits the first packet off a datagram. The second value is what follows: another packet, or nothing (RFC 9000 §12.2).
    /// `connection_id_length` is the length of our own connection IDs, because a short header does not say it.
    ///
    /// The fixed bit is [yours to check](Self::fixed_bit). A packet with a short header takes the whole rest of the datagram.
    ///
    /// # Errors
    ///
    /// [`HeaderError`]. The packets after it cannot be found either.
    #[inline]
    pub fn split_first(
        datagram: &'a mut [u8],
        connection_id_length: usize,
    ) -> Result<(Self, &'a mut [u8]), HeaderError> {
        let Bounds { number_offset, end, packet_type, version } =
            Bounds::read(datagram, connection_id_length)?;
        let got = datagram.len();
        // Cannot fail: the bounds are those of this datagram.
        let (octets, rest) =
            datagram.split_at_mut_checked(end).ok_or(HeaderError::Truncated { needed: end, got })?;
        Ok((Self { octets, number_offset, packet_type, version }, rest))
    }

    /// The packets of a datagram, one after another. A packet for another connection ID than the first gives an error, and the
    /// iterator continues with the next packet (RFC 9000 §12.2); any other error ends it. The fixed bit is
    /// [yours to check](Self::fixed_bit).
    #[must_use]
    pub fn split(datagram: &'a mut [u8], connection_id_length: usize) -> Coalesced<'a> {
        Coalesced { rest: datagram, connection_id_length, destination: None }
    }

    /// Whether keys for this type and version can open it. A short header names no version.
    #[inline]
    pub(crate) fn is_for(&self, packet_type: PacketType, version: Version) -> bool {
        self.packet_type == packet_type && self.version.is_none_or(|named| named == version)
    }

    fn fields(&self) -> Fields<'_> {
        Fields { packet: self.octets, packet_type: self.packet_type, number_offset: self.number_offset }
    }

    /// The type, which says which keys the packet needs.
    #[must_use]
    pub const fn packet_type(&self) -> PacketType {
        self.packet_type
    }

    header_accessors!();

    /// The fixed bit. This crate never checks it, because only the endpoint knows whether it must be set: drop a packet without it (RFC
    /// 9000 §17.2 and §17.3.1), unless this end sends the transport parameter `grease_quic_bit` (RFC 9287 §3). It is not masked.
    #[must_use]
    pub fn fixed_bit(&self) -> bool {
        self.octets.first().is_some_and(|first| first & FIXED != 0)
    }

    /// The whole packet as it was received.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        self.octets
    }
}

/// Omits the octets, so that a log shows no packet and no plaintext that a buffer still holds.
impl fmt::Debug for Protected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Protected")
            .field("packet_type", &self.packet_type)
            .field("version", &self.version)
            .field("length", &self.octets.len())
            .finish_non_exhaustive()
    }
}

/// Where the first packet of a datagram has its number, and where it ends, with its type.
struct Bounds {
    number_offset: usize,
    end: usize,
    packet_type: PacketType,
    version: Option<Version>,
}

impl Bounds {
    #[inline]
    fn read(datagram: &[u8], connection_id_length: usize) -> Result<Self, HeaderError> {
        let end = datagram.len();
        let first = *datagram.first().ok_or(HeaderError::Truncated { needed: 1, got: 0 })?;
        if first & LONG_FORM != 0 {
            return Self::read_long(datagram);
        }
        let number_offset = connection_id_length.saturating_add(1);
        if end < number_offset {
            return Err(HeaderError::Truncated { needed: number_offset, got: end });
        }
        Ok(Self { number_offset, end, packet_type: PacketType::OneRtt, version: None })
    }

    /// A separate function, so that [`read`](Self::read) stays small for short headers, the most frequent.
    fn read_long(datagram: &[u8]) -> Result<Self, HeaderError> {
        let LongPacket { version, packet_type, body } = LongPacket::read(datagram)?;
        let packet_type = packet_type.into();
        Ok(Self { number_offset: body.start, end: body.end, packet_type, version: Some(version) })
    }
}

/// The fields of a received packet that no key covers, for whoever only reads: to choose a connection or keys, or to observe. Nothing in it is
/// authentic.
pub struct PacketHeader<'a> {
    octets: &'a [u8],
    number_offset: usize,
    packet_type: PacketType,
    version: Option<Version>,
}

impl<'a> PacketHeader<'a> {
    /// Reads the first packet of a datagram, as [`Protected::split_first`] does.
    ///
    /// # Errors
    ///
    /// [`HeaderError`]. For [`UnknownVersion`](HeaderError::UnknownVersion), [`Retry`](HeaderError::Retry) and
    /// [`VersionNegotiation`](HeaderError::VersionNegotiation), [`AnyLongHeader`](crate::AnyLongHeader) reads the connection IDs.
    pub fn read(datagram: &'a [u8], connection_id_length: usize) -> Result<Self, HeaderError> {
        let Bounds { number_offset, end, packet_type, version } =
            Bounds::read(datagram, connection_id_length)?;
        Ok(Self { octets: &datagram[..end], number_offset, packet_type, version })
    }

    fn fields(&self) -> Fields<'a> {
        Fields { packet: self.octets, packet_type: self.packet_type, number_offset: self.number_offset }
    }

    /// The type, which says which keys the packet needs.
    #[must_use]
    pub const fn packet_type(&self) -> PacketType {
        self.packet_type
    }

    header_accessors!();

    /// The whole packet, which may be followed by another in its datagram.
    #[must_use]
    pub const fn octets(&self) -> &'a [u8] {
        self.octets
    }
}

/// Omits the octets, like [`Protected`].
impl fmt::Debug for PacketHeader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketHeader")
            .field("packet_type", &self.packet_type)
            .field("version", &self.version)
            .field("length", &self.octets.len())
            .finish_non_exhaustive()
    }
}

/// The packets of one datagram; see [`Protected::split`].
pub struct Coalesced<'a> {
    rest: &'a mut [u8],
    connection_id_length: usize,
    destination: Option<ConnectionId>,
}

/// Omits the octets, like [`Protected`].
impl fmt::Debug for Coalesced<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coalesced").field("rest", &self.rest.len()).finish_non_exhaustive()
    }
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
        // RFC 9000 §12.2: "Receivers SHOULD ignore any subsequent packets with a different Destination Connection ID than the first packet
        // in the datagram."
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
