//! ICMP errors about a connection, which anybody on the Internet can send (RFC 5925 §7.8).

use core::net::IpAddr;

use crate::ip::{IpHeader, PROTOCOL_TCP};
use crate::types::{Endpoint, SocketPair};

const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_ICMPV6: u8 = 58;
/// The MTU that every IPv6 link has (RFC 8200 §5).
const IPV6_LEAST_MTU: u16 = 1280;
/// Octets of an ICMP error before the packet it quotes.
const ICMP_HEADER_LENGTH: usize = 8;

/// An ICMP error that quotes a TCP segment this end sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// Reads a whole IP packet; `None` when it is anything but an ICMP error that quotes a TCP segment.
    #[must_use]
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let (ip, is_ipv6) = icmp_header(packet)?;
        if ip.is_fragment {
            return None;
        }
        let icmp = packet.get(ip.payload_offset..ip.total_length)?;
        let (&[kind, code], quoted) = (icmp.first_chunk()?, icmp.get(ICMP_HEADER_LENGTH..)?);
        let is_error = if is_ipv6 { kind < 128 } else { matches!(kind, 3..=5 | 11 | 12) };
        let pair = is_error.then(|| quoted_pair(quoted))??;
        Some(Self { pair, kind, code, is_ipv6 })
    }

    /// Whether RFC 5925 §7.8 wants the error ignored: ICMPv4 type 3 codes 2 to 4, ICMPv6 type 1 codes 1 and 4.
    #[must_use]
    pub const fn is_hard(&self) -> bool {
        is_hard(self.is_ipv6, self.kind, self.code)
    }
}

const fn is_hard(is_ipv6: bool, kind: u8, code: u8) -> bool {
    if is_ipv6 { kind == 1 && matches!(code, 1 | 4) } else { kind == 3 && matches!(code, 2..=4) }
}

/// The IP header of a packet that carries ICMP or a fragment of it, and whether that is ICMPv6.
fn icmp_header(packet: &[u8]) -> Option<(IpHeader, bool)> {
    let ip = IpHeader::parse(packet).ok()?;
    let is_ipv6 = ip.source.is_ipv6();
    (ip.protocol == if is_ipv6 { PROTOCOL_ICMPV6 } else { PROTOCOL_ICMP }).then_some((ip, is_ipv6))
}

/// Whether a packet is the first fragment of a hard error, whatever it quotes further on.
pub(crate) fn is_fragment_of_hard_error(packet: &[u8]) -> bool {
    let Some((ip, is_ipv6)) = icmp_header(packet) else { return false };
    let kind_and_code = packet.get(ip.payload_offset..).and_then(|icmp| icmp.first_chunk());
    ip.is_fragment
        && ip.fragment_offset == 0
        && kind_and_code.is_some_and(|&[kind, code]| is_hard(is_ipv6, kind, code))
}

/// Lowers the path MTU that an ICMPv6 Packet Too Big or an ICMPv4 "fragmentation needed" tells by so many octets, and
/// mends its checksum; other packets stay as they are (RFC 4443 §3.2, RFC 1191 §4).
pub(crate) fn lower_mtu(packet: &mut [u8], octets: u16) {
    let Some((ip, is_ipv6)) = icmp_header(packet) else { return };
    let Some(icmp) = packet.get_mut(ip.payload_offset..ip.total_length) else { return };
    let Some([kind, code, c0, c1, _, _, m0, m1]) = icmp.first_chunk_mut::<ICMP_HEADER_LENGTH>() else {
        return;
    };
    let tells_mtu = if is_ipv6 { *kind == 2 } else { (*kind, *code) == (3, 4) };
    let mtu = u16::from_be_bytes([*m0, *m1]);
    // An MTU of zero is from a router older than RFC 1191, one of ICMPv6 over 65,535 is left to the stack, and one under
    // 1280 a stack would not hear (RFC 8201 §4).
    let least = if is_ipv6 { mtu.min(IPV6_LEAST_MTU) } else { 0 };
    let lowered = mtu.saturating_sub(octets).max(least);
    if !tells_mtu || lowered == 0 {
        return;
    }
    // RFC 1624 §3: the checksum changes with the word that does.
    let sum = u32::from(!u16::from_be_bytes([*c0, *c1])) + u32::from(!mtu) + u32::from(lowered);
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    [*m0, *m1] = lowered.to_be_bytes();
    [*c0, *c1] = checksum.to_be_bytes();
}

/// The socket pair of a quoted segment, of which at least the ports must be there; a quote is cut off (RFC 792), so
/// that its length fields do not fit.
fn quoted_pair(quoted: &[u8]) -> Option<SocketPair> {
    let mut whole = [0; 256];
    let length = quoted.len().min(whole.len());
    whole[..length].copy_from_slice(&quoted[..length]);
    // The lengths are made to fit what was quoted, so that the one IP parser can read it.
    match quoted.first()? >> 4 {
        4 => whole[2..4].copy_from_slice(&(length as u16).to_be_bytes()),
        _ => whole[4..6].copy_from_slice(&(length.saturating_sub(40) as u16).to_be_bytes()),
    }
    let ip = IpHeader::parse(&whole[..length]).ok()?;
    // A later fragment has payload where the first one has ports.
    if ip.protocol != PROTOCOL_TCP || ip.fragment_offset != 0 {
        return None;
    }
    let &[a, b, c, d] = whole[..length].get(ip.payload_offset..)?.first_chunk()?;
    let endpoint = |address: IpAddr, port| Endpoint::new(address, u16::from_be_bytes(port));
    Some(SocketPair { local: endpoint(ip.source, [a, b]), remote: endpoint(ip.destination, [c, d]) })
}
