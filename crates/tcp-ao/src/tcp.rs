//! A TCP segment, header and payload, without its addresses.

use core::fmt;
use core::net::IpAddr;

use crate::error::{OptionError, ParseError};
use crate::option::{AoOption, TCP_HEADER_LENGTH};
use crate::types::{Endpoint, SeqNum};

/// Places of the fields in a TCP header (RFC 9293 §3.1).
pub(crate) mod field {
    use core::ops::Range;

    pub(crate) const SOURCE_PORT: usize = 0;
    pub(crate) const DESTINATION_PORT: usize = 2;
    pub(crate) const SEQUENCE: usize = 4;
    pub(crate) const ACKNOWLEDGMENT: usize = 8;
    pub(crate) const DATA_OFFSET: usize = 12;
    pub(crate) const FLAGS: usize = 13;
    pub(crate) const CHECKSUM: Range<usize> = 16..18;
}

/// The control bits of a TCP header that matter for authentication (RFC 9293 §3.1).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub(crate) u8);

impl Flags {
    /// FIN: no more data from the sender.
    #[inline]
    #[must_use]
    pub const fn fin(self) -> bool {
        self.0 & 0x01 != 0
    }

    /// SYN: synchronise sequence numbers.
    #[inline]
    #[must_use]
    pub const fn syn(self) -> bool {
        self.0 & 0x02 != 0
    }

    /// RST: reset the connection.
    #[inline]
    #[must_use]
    pub const fn rst(self) -> bool {
        self.0 & 0x04 != 0
    }

    /// ACK: the acknowledgment field is significant.
    #[inline]
    #[must_use]
    pub const fn ack(self) -> bool {
        self.0 & 0x10 != 0
    }

    /// Each flag, set or not, with its name.
    pub(crate) const fn named(self) -> [(bool, &'static str); 4] {
        [(self.syn(), "SYN"), (self.ack(), "ACK"), (self.fin(), "FIN"), (self.rst(), "RST")]
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.named().iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name))
            .finish()
    }
}

/// The flags by name.
#[cfg(feature = "defmt")]
impl defmt::Format for Flags {
    fn format(&self, f: defmt::Formatter<'_>) {
        for (is_set, name) in self.named() {
            if is_set {
                defmt::write!(f, "{=str} ", name);
            }
        }
    }
}

/// The part of a header that every segment has.
pub(crate) type FixedHeader = [u8; TCP_HEADER_LENGTH];

/// Octets of the header by its data offset.
#[inline]
pub(crate) fn header_length(header: &FixedHeader) -> usize {
    usize::from(header[field::DATA_OFFSET] >> 4) * 4
}

/// Whether an address is IPv4, possibly in IPv4-mapped form.
// Not inlined: otherwise the compiler copies each segment's addresses octet by octet, and reading them whole waits for those stores.
#[cold]
#[inline(never)]
fn is_ipv4(address: &IpAddr) -> bool {
    address.to_canonical().is_ipv4()
}

/// A segment that has all the octets its data offset promises.
///
/// It has no addresses: a connection has them already, and copying them for each segment costs as much as a block of the MAC.
#[derive(Clone, Copy)]
pub(crate) struct Tcp<'a> {
    octets: &'a [u8],
    /// The start of `octets`.
    fixed: &'a FixedHeader,
    /// The rest of the header.
    options: &'a [u8],
}

impl<'a> Tcp<'a> {
    /// As [`Segment::from_tcp`](crate::Segment::from_tcp).
    #[inline]
    pub(crate) fn parse(source: &IpAddr, octets: &'a [u8]) -> Result<Self, ParseError> {
        let fixed = octets.first_chunk().ok_or(ParseError::TcpTooShort)?;
        if octets.len() > usize::from(u16::MAX) && is_ipv4(source) {
            return Err(ParseError::TcpTooLong);
        }
        let header_length = header_length(fixed);
        if header_length < TCP_HEADER_LENGTH {
            return Err(ParseError::DataOffset);
        }
        let options = octets.get(TCP_HEADER_LENGTH..header_length).ok_or(ParseError::TcpTooShort)?;
        Ok(Self { octets, fixed, options })
    }

    /// Header and payload.
    #[inline]
    pub(crate) const fn octets(self) -> &'a [u8] {
        self.octets
    }

    #[inline]
    const fn header_length(self) -> usize {
        TCP_HEADER_LENGTH + self.options.len()
    }

    #[inline]
    pub(crate) fn header(self) -> &'a [u8] {
        // `parse` has checked the lengths, here and below.
        self.octets.get(..self.header_length()).unwrap_or_default()
    }

    #[inline]
    pub(crate) const fn option_octets(self) -> &'a [u8] {
        self.options
    }

    #[inline]
    pub(crate) fn payload(self) -> &'a [u8] {
        self.octets.get(self.header_length()..).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn ao_option(self) -> Result<Option<AoOption<'a>>, OptionError> {
        AoOption::find(self.option_octets())
    }

    #[inline]
    pub(crate) fn source_port(self) -> u16 {
        self.u16_at(field::SOURCE_PORT)
    }

    #[inline]
    pub(crate) fn destination_port(self) -> u16 {
        self.u16_at(field::DESTINATION_PORT)
    }

    /// Whether the ports are those of a segment from `source` to `destination`.
    #[inline]
    pub(crate) fn is_between(self, source: &Endpoint, destination: &Endpoint) -> bool {
        self.source_port() == source.port() && self.destination_port() == destination.port()
    }

    #[inline]
    pub(crate) fn sequence(self) -> SeqNum {
        SeqNum(self.u32_at(field::SEQUENCE))
    }

    #[inline]
    pub(crate) fn acknowledgment(self) -> SeqNum {
        SeqNum(self.u32_at(field::ACKNOWLEDGMENT))
    }

    #[inline]
    pub(crate) fn flags(self) -> Flags {
        Flags(self.fixed[field::FLAGS])
    }

    /// As [`Segment::end`](crate::Segment::end).
    #[inline]
    pub(crate) fn end(self) -> SeqNum {
        let flags = self.flags();
        let length = (self.octets.len() - self.header_length()) as u32;
        SeqNum(self.sequence().0.wrapping_add(length + u32::from(flags.syn()) + u32::from(flags.fin())))
    }

    /// Whether it is a SYN without ACK, which has a traffic key of its own.
    #[inline]
    pub(crate) fn opens(self) -> bool {
        self.flags().syn() && !self.flags().ack()
    }

    #[inline]
    fn u16_at(self, at: usize) -> u16 {
        u16::from_be_bytes([self.fixed[at], self.fixed[at + 1]])
    }

    #[inline]
    fn u32_at(self, at: usize) -> u32 {
        let header = self.fixed;
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    }
}
