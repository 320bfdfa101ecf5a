//! What a packet carries: link layer, then IP, then TCP.

use std::net::IpAddr;

use wireseal_tcp_ao::ParseError;
use wireseal_tcp_ao::ip::{IPV6_HEADER_LENGTH, IpHeader, PROTOCOL_TCP};

use super::Packet;

/// What a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// A TCP segment.
    Tcp(CapturedSegment<'a>),
    /// An IP fragment.
    Fragment {
        /// The IP protocol number of the whole packet.
        protocol: u8,
    },
    /// Anything else, such as UDP, ARP, ICMP or a tunnel.
    Other,
    /// Headers that cannot be read.
    Unreadable(Unreadable),
}

/// A TCP segment as recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapturedSegment<'a> {
    /// The source address.
    pub source: IpAddr,
    /// The final destination, after any routing header.
    pub destination: IpAddr,
    /// The recorded octets from the TCP header on; possibly less than a header.
    pub octets: &'a [u8],
    /// How many more octets it had on the wire; 0 unless the capture cut it off.
    pub missing: usize,
}

/// Why a packet's headers cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unreadable {
    /// The link layer is unknown (its LINKTYPE number).
    #[error("unknown link type {0}")]
    LinkType(u16),
    /// The capture cut the packet off within its headers.
    #[error("cut off within its headers, {missing} octets missing")]
    CutOff {
        /// How many more octets it had on the wire.
        missing: usize,
    },
    /// The packet was recorded whole but ends within its link-layer header.
    #[error("the packet ends within a header")]
    TooShort,
    /// The IP headers are inconsistent.
    #[error("{0}")]
    Ip(ParseError),
}

impl<'a> Content<'a> {
    /// Reads a packet's headers.
    ///
    /// The segment ends where IP's length field says, so link-layer padding is left out. If that field is 0, because the network card
    /// was to split a large send after it was recorded, the segment ends with the packet.
    #[must_use]
    #[inline]
    pub fn of(packet: &Packet<'a>) -> Self {
        let unrecorded = packet.original_length.saturating_sub(packet.octets.len());
        match network_layer(packet.link_type, packet.octets) {
            Network::Ip(octets) => internet(octets, unrecorded),
            Network::Other => Self::Other,
            Network::LinkType => Self::Unreadable(Unreadable::LinkType(packet.link_type)),
            Network::TooShort => Self::Unreadable(too_short(unrecorded)),
        }
    }
}

/// What follows the link layer.
enum Network<'a> {
    Ip(&'a [u8]),
    Other,
    LinkType,
    TooShort,
}

const LINKTYPE_NULL: u16 = 0;
const LINKTYPE_ETHERNET: u16 = 1;
/// LINKTYPE_RAW, the values that BSD and OpenBSD use for it, LINKTYPE_IPV4 and LINKTYPE_IPV6.
const LINKTYPES_RAW: [u16; 5] = [101, 12, 14, 228, 229];
const LINKTYPE_LOOP: u16 = 108;
const LINKTYPE_LINUX_SLL: u16 = 113;
const LINKTYPE_LINUX_SLL2: u16 = 276;

#[inline]
fn network_layer(link_type: u16, octets: &[u8]) -> Network<'_> {
    match link_type {
        LINKTYPE_ETHERNET => by_ether_type(octets, 12, 14),
        LINKTYPE_LINUX_SLL => by_ether_type(octets, 14, 16),
        LINKTYPE_LINUX_SLL2 => by_ether_type(octets, 0, 20),
        LINKTYPE_NULL | LINKTYPE_LOOP => match octets.split_first_chunk() {
            // In the byte order of the recording machine (LINKTYPE_LOOP: network byte order).
            Some((family, rest))
                if is_ip_family(u32::from_be_bytes(*family)) || is_ip_family(u32::from_le_bytes(*family)) =>
            {
                Network::Ip(rest)
            }
            Some(_) => Network::Other,
            None => Network::TooShort,
        },
        _ if LINKTYPES_RAW.contains(&link_type) => Network::Ip(octets),
        _ => Network::LinkType,
    }
}

/// AF_INET, and AF_INET6 of Linux, Windows, NetBSD and OpenBSD, FreeBSD, Darwin.
const fn is_ip_family(family: u32) -> bool {
    matches!(family, 2 | 10 | 23 | 24 | 28 | 30)
}

/// A link layer with an EtherType at `place` and a payload from `start` on, after any number of VLAN tags.
#[inline]
fn by_ether_type(octets: &[u8], place: usize, mut start: usize) -> Network<'_> {
    const IPV4: u16 = 0x0800;
    const IPV6: u16 = 0x86dd;
    // IEEE 802.1Q, 802.1ad (QinQ), and the older value for QinQ.
    const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
    let at = |place: usize| Some(u16::from_be_bytes(*octets.get(place..)?.first_chunk()?));
    let mut ether_type = at(place);
    while ether_type.is_some_and(|ether_type| VLAN.contains(&ether_type)) {
        // The tag's own two octets, then the next EtherType.
        ether_type = at(start + 2);
        start += 4;
    }
    match (ether_type, octets.get(start..)) {
        (Some(IPV4 | IPV6), Some(rest)) => Network::Ip(rest),
        (Some(_), Some(_)) => Network::Other,
        _ => Network::TooShort,
    }
}

/// What an IP packet carries.
#[inline]
fn internet(octets: &[u8], unrecorded: usize) -> Content<'_> {
    // Matched by reference, because moving a header takes longer than reading it.
    let header = &IpHeader::read(octets);
    let header = match header {
        Ok(header) => header,
        Err(ParseError::IpTooShort) if unrecorded > 0 || octets.is_empty() => {
            return Content::Unreadable(too_short(unrecorded));
        }
        Err(error) => return Content::Unreadable(Unreadable::Ip(*error)),
    };
    let IpHeader { source, destination, protocol, payload_offset, is_fragment, .. } = *header;
    // A length field of 0, which in IPv6 does not count the header: a network card was to split a large send.
    let says_no_length = header.total_length == if source.is_ipv4() { 0 } else { IPV6_HEADER_LENGTH };
    let end = if says_no_length { octets.len() + unrecorded } else { header.total_length };
    let missing = end.saturating_sub(octets.len());
    let (Some(octets), true) = (octets.get(payload_offset..end - missing), missing <= unrecorded) else {
        return Content::Unreadable(Unreadable::Ip(ParseError::IpLength));
    };
    match protocol {
        _ if is_fragment => Content::Fragment { protocol },
        PROTOCOL_TCP => Content::Tcp(CapturedSegment { source, destination, octets, missing }),
        _ => Content::Other,
    }
}

const fn too_short(missing: usize) -> Unreadable {
    match missing {
        0 => Unreadable::TooShort,
        missing => Unreadable::CutOff { missing },
    }
}
