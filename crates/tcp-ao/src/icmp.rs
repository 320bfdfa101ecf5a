//! ICMP errors about a connection, which anyone on the Internet can forge (RFC 5925 §7.8).

use core::net::IpAddr;

use crate::checksum;
use crate::ip::{IpHeader, PROTOCOL_ICMPV6, PROTOCOL_TCP};
use crate::types::{Endpoint, SocketPair};

const PROTOCOL_ICMP: u8 = 1;
/// The least MTU of an IPv6 link (RFC 8200 §5).
const IPV6_LEAST_MTU: u16 = 1280;
/// Octets of an ICMP error before the quoted packet.
const ICMP_HEADER_LENGTH: usize = 8;

/// An ICMP error that quotes a TCP segment sent by this end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct IcmpError {
    /// The connection that the quoted segment belongs to.
    pub pair: SocketPair,
    /// The ICMP type.
    pub kind: u8,
    /// The ICMP code.
    pub code: u8,
    is_ipv6: bool,
}

impl IcmpError {
    /// Reads a whole IP packet. `None` unless it is an ICMP error that quotes a TCP segment.
    #[must_use]
    pub fn parse(packet: &[u8]) -> Option<Self> {
        Self::from_packet(&IpHeader::parse(packet).ok()?, packet)
    }

    /// The same for a packet whose IP headers have been read.
    pub(crate) fn from_packet(ip: &IpHeader, packet: &[u8]) -> Option<Self> {
        let is_ipv6 = carries_icmpv6(ip)?;
        if ip.is_fragment {
            return None;
        }
        let icmp = ip.payload(packet).ok()?;
        let (&[kind, code], quoted) = (icmp.first_chunk()?, icmp.get(ICMP_HEADER_LENGTH..)?);
        let is_error = if is_ipv6 { kind < 128 } else { matches!(kind, 3..=5 | 11 | 12) };
        let pair = is_error.then(|| quoted_pair(quoted, is_ipv6))??;
        Some(Self { pair, kind, code, is_ipv6 })
    }

    /// Whether RFC 5925 §7.8 wants the error ignored: ICMPv4 type 3 codes 2 to 4, ICMPv6 type 1 codes 1 and 4.
    #[must_use]
    pub const fn is_hard(&self) -> bool {
        is_hard(self.is_ipv6, self.kind, self.code)
    }

    /// Lowers the path MTU in an ICMPv6 Packet Too Big or an ICMPv4 "fragmentation needed" by `octets`, and corrects its checksum; other
    /// errors are unchanged (RFC 4443 §3.2, RFC 1191 §4). `icmp` is the payload that the error was read from.
    pub(crate) fn lower_mtu(&self, icmp: &mut [u8], octets: u16) {
        let has_mtu = if self.is_ipv6 { self.kind == 2 } else { (self.kind, self.code) == (3, 4) };
        let Some([_, _, c0, c1, _, _, m0, m1]) = icmp.first_chunk_mut::<ICMP_HEADER_LENGTH>() else {
            return;
        };
        let mtu = u16::from_be_bytes([*m0, *m1]);
        // A router older than RFC 1191 reports zero. An ICMPv6 MTU over 65,535 is left to the stack. A stack ignores an IPv6 MTU under 1280
        // (RFC 8201 §4).
        let least = if self.is_ipv6 { mtu.min(IPV6_LEAST_MTU) } else { 0 };
        let lowered = mtu.saturating_sub(octets).max(least);
        if !has_mtu || lowered == 0 {
            return;
        }
        // RFC 1624 §3: update the checksum for the one word that changed. The word does not grow, so there is at most one carry.
        let sum = u32::from(!u16::from_be_bytes([*c0, *c1])) + u32::from(!mtu) + u32::from(lowered);
        let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
        [*m0, *m1] = lowered.to_be_bytes();
        [*c0, *c1] = checksum.to_be_bytes();
    }
}

const fn is_hard(is_ipv6: bool, kind: u8, code: u8) -> bool {
    if is_ipv6 { kind == 1 && matches!(code, 1 | 4) } else { kind == 3 && matches!(code, 2..=4) }
}

/// Whether a packet carries ICMPv6 (`true`) or ICMPv4 (`false`).
fn carries_icmpv6(ip: &IpHeader) -> Option<bool> {
    let is_ipv6 = ip.source.is_ipv6();
    (ip.protocol == if is_ipv6 { PROTOCOL_ICMPV6 } else { PROTOCOL_ICMP }).then_some(is_ipv6)
}

/// Whether a checksum of an ICMP packet is wrong. A fragment's ICMP checksum cannot be checked.
pub(crate) fn is_damaged(ip: &IpHeader, packet: &[u8]) -> bool {
    let Some((headers, icmp)) = packet.split_at_checked(ip.payload_offset) else { return true };
    match carries_icmpv6(ip) {
        Some(true) => !ip.is_fragment && checksum::icmpv6(ip.source, ip.destination, icmp) != 0,
        _ => {
            checksum::ipv4_header(headers) != 0
                // ICMPv4's checksum is over the message alone, like an IPv4 header's (RFC 792).
                || !ip.is_fragment && checksum::ipv4_header(icmp) != 0
        }
    }
}

/// A hard error in a packet that [`IcmpError`] does not show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hidden {
    /// No hard error, a quote of something other than TCP, or an error that could be read.
    Nothing,
    /// A hard error about a connection of one of `locals` with one of `remotes`.
    Between { locals: [IpAddr; 2], remotes: [IpAddr; 2] },
    /// A hard error about any connection.
    Anything,
}

/// Finds hidden hard errors: in a first fragment, or in an error that quotes a later fragment, truncated headers, a routing header or a
/// Home Address option, whose addresses stacks read in different ways.
pub(crate) fn hidden(ip: &IpHeader, packet: &[u8]) -> Hidden {
    // Only the first fragment shows the type; without it the others are never reassembled.
    if ip.fragment_offset != 0 {
        return Hidden::Nothing;
    }
    // A first fragment that ends before the ICMP header hides the type too (RFC 7112 §5 forbids that).
    let Some(is_ipv6) = carries_icmpv6(ip) else { return Hidden::Nothing };
    let icmp = packet.get(ip.payload_offset..).unwrap_or_default();
    match icmp.first_chunk() {
        Some(&[kind, code]) if is_hard(is_ipv6, kind, code) => {}
        None if ip.is_fragment => return Hidden::Anything,
        _ => return Hidden::Nothing,
    }
    // So short a packet is fragmented only to hide what it quotes.
    let Some(quoted) = icmp.get(ICMP_HEADER_LENGTH..).filter(|_| !ip.is_fragment) else {
        return Hidden::Anything;
    };
    let is_plain = |ip: &IpHeader| match ip.fragment_offset {
        // At offset 0, either the ports are quoted or no stack can tell the connection.
        0 => ip.protocol != PROTOCOL_TCP || ip.is_direct(),
        _ => ip.protocol != PROTOCOL_TCP && !is_ipv6,
    };
    // Stacks read the quote in the error's own IP version, whatever its first octet says.
    match IpHeader::read(quoted).ok().filter(|ip| ip.source.is_ipv6() == is_ipv6) {
        Some(ip) if is_plain(&ip) => Hidden::Nothing,
        Some(ip) => Hidden::Between {
            locals: [ip.header_source, ip.source],
            remotes: [ip.header_destination, ip.destination],
        },
        None => addresses(quoted, is_ipv6).map_or(Hidden::Nothing, |(local, remote)| Hidden::Between {
            locals: [local; 2],
            remotes: [remote; 2],
        }),
    }
}

/// The addresses in the first header of a quoted packet, whatever follows it.
fn addresses(quoted: &[u8], is_ipv6: bool) -> Option<(IpAddr, IpAddr)> {
    Some(if is_ipv6 {
        let (source, rest) = quoted.get(8..)?.split_first_chunk::<16>()?;
        ((*source).into(), (*rest.first_chunk::<16>()?).into())
    } else {
        let (source, rest) = quoted.get(12..)?.split_first_chunk::<4>()?;
        ((*source).into(), (*rest.first_chunk::<4>()?).into())
    })
}

/// The socket pair of a quoted segment, which may end after its ports (RFC 792).
fn quoted_pair(quoted: &[u8], is_ipv6: bool) -> Option<SocketPair> {
    let ip = IpHeader::read(quoted).ok().filter(|ip| ip.source.is_ipv6() == is_ipv6)?;
    // A later fragment has payload in the place of the ports.
    if ip.protocol != PROTOCOL_TCP || ip.fragment_offset != 0 {
        return None;
    }
    let &[a, b, c, d] = quoted.get(ip.payload_offset..)?.first_chunk()?;
    let endpoint = |address: IpAddr, port| Endpoint::new(address, u16::from_be_bytes(port));
    Some(SocketPair { local: endpoint(ip.source, [a, b]), remote: endpoint(ip.destination, [c, d]) })
}
