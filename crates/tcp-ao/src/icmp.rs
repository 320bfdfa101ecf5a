//! ICMP errors about a connection, which anybody on the Internet can send (RFC 5925 §7.8).

use core::net::IpAddr;

use crate::ip::{IpHeader, PROTOCOL_TCP};
use crate::types::{Endpoint, SocketPair};

const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_ICMPV6: u8 = 58;
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
        let ip = IpHeader::parse(packet).ok()?;
        let is_ipv6 = match ip.protocol {
            PROTOCOL_ICMP => false,
            PROTOCOL_ICMPV6 => true,
            _ => return None,
        };
        if ip.is_fragment || is_ipv6 != ip.source.is_ipv6() {
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
        if self.is_ipv6 {
            self.kind == 1 && matches!(self.code, 1 | 4)
        } else {
            self.kind == 3 && matches!(self.code, 2..=4)
        }
    }
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
