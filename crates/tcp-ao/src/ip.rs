//! Just enough IPv4 and IPv6 to find the TCP segment in a packet (RFC 791, RFC 8200).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::ParseError;

/// The IP protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// The IP protocol number of ICMPv6.
pub(crate) const PROTOCOL_ICMPV6: u8 = 58;
/// Octets of an IPv4 header without options.
pub const IPV4_HEADER_LENGTH: usize = 20;
/// Octets of an IPv6 header without extension headers.
pub const IPV6_HEADER_LENGTH: usize = 40;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION_HEADER: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
/// Destination options: padding of one octet (RFC 8200 §4.2), and a mobile node's home address (RFC 6275 §6.3).
const PAD1: u8 = 0;
const HOME_ADDRESS: u8 = 201;
const MOBILITY: u8 = 135;

/// The IP headers of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpHeader {
    /// The source address; that of a Home Address option, if there is one.
    pub source: IpAddr,
    /// The source field of the header itself; differs from `source` where a Home Address option takes its place.
    pub header_source: IpAddr,
    /// The final destination, past any routing header.
    pub destination: IpAddr,
    /// The destination field of the header itself; differs from `destination` where a routing header leads on.
    pub header_destination: IpAddr,
    /// The protocol after all headers; in a later fragment, the one its fragment header names.
    pub protocol: u8,
    /// Octets before the payload.
    pub payload_offset: usize,
    /// Octets of the packet, headers included, without link-layer padding.
    pub total_length: usize,
    /// Whether the packet holds only part of its payload.
    pub is_fragment: bool,
    /// Where that part begins in the payload, in octets.
    pub fragment_offset: usize,
}

impl IpHeader {
    /// Reads the headers of a whole packet.
    ///
    /// # Errors
    /// [`ParseError`] names the field that is wrong.
    pub fn parse(packet: &[u8]) -> Result<Self, ParseError> {
        let header = Self::read(packet)?;
        header.payload(packet)?;
        Ok(header)
    }

    /// Reads the headers of a packet that may be truncated after them: a quote in an ICMP error, or a captured packet.
    ///
    /// # Errors
    /// [`ParseError`] names the field that is wrong.
    pub fn read(octets: &[u8]) -> Result<Self, ParseError> {
        match octets.first().ok_or(ParseError::IpTooShort)? >> 4 {
            4 => Self::read_ipv4(octets),
            6 => Self::read_ipv6(octets),
            version => Err(ParseError::IpVersion(version)),
        }
    }

    /// The payload of the packet that this header was read from, without link-layer padding.
    ///
    /// # Errors
    /// [`ParseError::IpLength`] when the packet is shorter than the header says, or the payload ends before it begins.
    pub fn payload<'a>(&self, packet: &'a [u8]) -> Result<&'a [u8], ParseError> {
        packet.get(self.payload_offset..self.total_length).ok_or(ParseError::IpLength)
    }

    /// Whether all stacks agree on the addresses: no routing header names a further destination, and no Home Address option replaces the
    /// source.
    pub(crate) fn is_direct(&self) -> bool {
        (self.header_source, self.header_destination) == (self.source, self.destination)
    }

    fn read_ipv4(packet: &[u8]) -> Result<Self, ParseError> {
        let (header, _) = packet.split_first_chunk::<IPV4_HEADER_LENGTH>().ok_or(ParseError::IpTooShort)?;
        let payload_offset = usize::from(header[0] & 0x0f) * 4;
        let total_length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if payload_offset < IPV4_HEADER_LENGTH {
            return Err(ParseError::IpLength);
        }
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        let source = Ipv4Addr::new(header[12], header[13], header[14], header[15]).into();
        let destination = Ipv4Addr::new(header[16], header[17], header[18], header[19]).into();
        Ok(Self {
            source,
            header_source: source,
            destination,
            header_destination: destination,
            protocol: header[9],
            payload_offset,
            total_length,
            // "More fragments" or an offset; not the don't-fragment bit.
            is_fragment: fragment & 0x3fff != 0,
            fragment_offset: usize::from(fragment & 0x1fff) * 8,
        })
    }

    fn read_ipv6(packet: &[u8]) -> Result<Self, ParseError> {
        let (header, rest) = packet.split_first_chunk::<8>().ok_or(ParseError::IpTooShort)?;
        let (source, rest) = rest.split_first_chunk::<16>().ok_or(ParseError::IpTooShort)?;
        let (destination, mut extensions) = rest.split_first_chunk::<16>().ok_or(ParseError::IpTooShort)?;
        let payload_length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let [source, destination] = [source, destination].map(|address| IpAddr::from(*address));
        let mut has_home = false;
        let mut parsed = Self {
            source,
            header_source: source,
            destination,
            header_destination: destination,
            protocol: header[6],
            payload_offset: IPV6_HEADER_LENGTH,
            total_length: IPV6_HEADER_LENGTH + payload_length,
            is_fragment: false,
            fragment_offset: 0,
        };
        loop {
            let length = match parsed.protocol {
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY => {
                    (usize::from(*extensions.get(1).ok_or(ParseError::IpTooShort)?) + 1) * 8
                }
                AUTHENTICATION_HEADER => {
                    (usize::from(*extensions.get(1).ok_or(ParseError::IpTooShort)?) + 2) * 4
                }
                FRAGMENT => 8,
                _ => return Ok(parsed),
            };
            let extension = extensions.get(..length).ok_or(ParseError::IpTooShort)?;
            match parsed.protocol {
                ROUTING => {
                    if let Some(destination) = final_destination(extension)? {
                        parsed.destination = destination.into();
                    }
                }
                DESTINATION_OPTIONS => {
                    if let Some(home) = home_address(extension)? {
                        if core::mem::replace(&mut has_home, true) {
                            return Err(ParseError::HomeAddresses);
                        }
                        parsed.source = home.into();
                    }
                }
                FRAGMENT => {
                    // Offset in the upper 13 bits, "more fragments" in the lowest; an atomic fragment has neither.
                    let fragment = u16::from_be_bytes([extension[2], extension[3]]);
                    parsed.is_fragment |= fragment & 0xfff9 != 0;
                    parsed.fragment_offset = usize::from(fragment & 0xfff8);
                }
                _ => {}
            }
            parsed.protocol = extension[0];
            parsed.payload_offset += length;
            extensions = &extensions[length..];
            // A later fragment continues inside the payload; the first one holds all headers (RFC 7112 §5), and is read to the end.
            if parsed.fragment_offset != 0 {
                return Ok(parsed);
            }
        }
    }
}

/// The final destination in a routing header with segments left: the last address of types 0 and 2 (RFC 8200 §8.1,
/// RFC 6275 §6.4), the first of the segment list of type 4 (RFC 8754 §2).
fn final_destination(extension: &[u8]) -> Result<Option<Ipv6Addr>, ParseError> {
    let [_, _, kind, segments_left, ..] = *extension else { return Err(ParseError::IpTooShort) };
    if segments_left == 0 {
        return Ok(None);
    }
    let address = match kind {
        0 | 2 => extension
            .len()
            .checked_sub(16)
            .filter(|start| *start >= 8)
            .and_then(|start| extension.get(start..)),
        4 => extension.get(8..24),
        _ => return Err(ParseError::RoutingHeader(kind)),
    };
    address.and_then(ipv6_address).map(Some).ok_or(ParseError::IpLength)
}

/// The address in the Home Address option of a Destination Options header. The receiver replaces the source by it before TCP sees the
/// packet (RFC 6275 §9.3.1).
fn home_address(extension: &[u8]) -> Result<Option<Ipv6Addr>, ParseError> {
    let mut options = extension.get(2..).unwrap_or_default();
    let mut home = None;
    // A stack drops a packet with a truncated option, and reads nothing after it.
    while let Some((&kind, rest)) = options.split_first() {
        let Some((data, others)) = (match rest.split_first() {
            _ if kind == PAD1 => Some((&[][..], rest)),
            Some((&length, rest)) => rest.split_at_checked(usize::from(length)),
            None => None,
        }) else {
            break;
        };
        if kind == HOME_ADDRESS && home.replace(ipv6_address(data).ok_or(ParseError::IpLength)?).is_some() {
            return Err(ParseError::HomeAddresses);
        }
        options = others;
    }
    Ok(home)
}

fn ipv6_address(octets: &[u8]) -> Option<Ipv6Addr> {
    Some(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?))
}

/// The 16 octets of an IPv6 address; an IPv4 address is mapped.
pub(crate) const fn ipv6_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
