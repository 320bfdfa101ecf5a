//! A TCP segment by itself, header and payload, without the addresses that it travels between.

use core::net::IpAddr;

use crate::option::{AoOption, OptionError, TCP_HEADER_LENGTH};
use crate::segment::{Flags, ParseError};
use crate::types::{Endpoint, SeqNum};

/// Where the fields of a TCP header stand (RFC 9293 §3.1).
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

/// Octets of the header as it says itself; those of a header are there.
#[inline(always)]
pub(crate) fn header_length(octets: &[u8]) -> usize {
    usize::from(octets[field::DATA_OFFSET] >> 4) * 4
}

/// The octets, of which there are as many as the header says that it has, and where the header ends.
///
/// Addresses are no part of it, because whoever has a connection has them there already, and what is copied for each
/// segment costs as much as a block of the MAC.
#[derive(Clone, Copy)]
pub(crate) struct Tcp<'a> {
    octets: &'a [u8],
    header_length: usize,
}

impl<'a> Tcp<'a> {
    /// Views a segment that comes from this address, as [`Segment::from_tcp`](crate::Segment::from_tcp) says.
    #[inline(always)]
    pub(crate) fn parse(source: &IpAddr, octets: &'a [u8]) -> Result<Self, ParseError> {
        if octets.len() < TCP_HEADER_LENGTH {
            return Err(ParseError::TcpTooShort);
        }
        if octets.len() > usize::from(u16::MAX) && source.to_canonical().is_ipv4() {
            return Err(ParseError::TcpTooLong);
        }
        let header_length = header_length(octets);
        if header_length < TCP_HEADER_LENGTH {
            return Err(ParseError::DataOffset);
        }
        if octets.len() < header_length {
            return Err(ParseError::TcpTooShort);
        }
        Ok(Self { octets, header_length })
    }

    /// Header and payload.
    #[inline(always)]
    pub(crate) const fn octets(self) -> &'a [u8] {
        self.octets
    }

    #[inline(always)]
    pub(crate) fn header(self) -> &'a [u8] {
        &self.octets[..self.header_length]
    }

    #[inline(always)]
    pub(crate) fn option_octets(self) -> &'a [u8] {
        &self.octets[TCP_HEADER_LENGTH..self.header_length]
    }

    #[inline(always)]
    pub(crate) fn payload(self) -> &'a [u8] {
        &self.octets[self.header_length..]
    }

    #[inline(always)]
    pub(crate) fn ao_option(self) -> Result<Option<AoOption<'a>>, OptionError> {
        AoOption::find(self.option_octets())
    }

    #[inline(always)]
    pub(crate) fn source_port(self) -> u16 {
        self.u16_at(field::SOURCE_PORT)
    }

    #[inline(always)]
    pub(crate) fn destination_port(self) -> u16 {
        self.u16_at(field::DESTINATION_PORT)
    }

    /// Whether the ports are those of a segment from the one end to the other.
    #[inline(always)]
    pub(crate) fn is_between(self, source: &Endpoint, destination: &Endpoint) -> bool {
        self.source_port() == source.port() && self.destination_port() == destination.port()
    }

    #[inline(always)]
    pub(crate) fn sequence(self) -> SeqNum {
        SeqNum(self.u32_at(field::SEQUENCE))
    }

    #[inline(always)]
    pub(crate) fn acknowledgment(self) -> SeqNum {
        SeqNum(self.u32_at(field::ACKNOWLEDGMENT))
    }

    #[inline(always)]
    pub(crate) fn flags(self) -> Flags {
        Flags(self.octets[field::FLAGS])
    }

    /// Whether it is a SYN that opens a connection, which has a key of its own.
    #[inline(always)]
    pub(crate) fn opens(self) -> bool {
        self.flags().syn() && !self.flags().ack()
    }

    #[inline(always)]
    fn u16_at(self, at: usize) -> u16 {
        u16::from_be_bytes([self.octets[at], self.octets[at + 1]])
    }

    #[inline(always)]
    fn u32_at(self, at: usize) -> u32 {
        u32::from_be_bytes([self.octets[at], self.octets[at + 1], self.octets[at + 2], self.octets[at + 3]])
    }
}
