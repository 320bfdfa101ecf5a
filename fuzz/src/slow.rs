//! Slow readers, each written from its RFC and not from the code under test.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An option in a header: kind, offset, and the octets after kind and length.
pub type Option<'a> = (u8, usize, &'a [u8]);

/// Reads TCP options as described in RFC 9293 §3.1 and §3.2; the second value says whether the list was well-formed.
pub fn options(octets: &[u8]) -> (Vec<Option<'_>>, bool) {
    let mut options = Vec::new();
    let mut at = 0;
    loop {
        // "If an option list ends at the end of the header, no End-of-List is needed."
        if at == octets.len() {
            return (options, true);
        }
        match octets[at] {
            0 => return (options, true),
            1 => at += 1,
            kind => {
                if at + 1 == octets.len() {
                    return (options, false);
                }
                let length = usize::from(octets[at + 1]);
                // The length counts the kind and itself.
                if length < 2 || length > octets.len() - at {
                    return (options, false);
                }
                options.push((kind, at, &octets[at + 2..at + length]));
                at += length;
            }
        }
    }
}

/// The segment must be discarded because of its options.
#[derive(Debug, PartialEq, Eq)]
pub struct MustDiscard;

/// The one AO option of a header (RFC 5925 §2.2): its offset, and the octets after kind and length.
///
/// # Errors
/// [`MustDiscard`] if the RFC requires it.
pub fn ao(octets: &[u8]) -> Result<std::option::Option<(usize, &[u8])>, MustDiscard> {
    let (options, is_well_formed) = options(octets);
    let aos: Vec<_> = options.iter().filter(|option| option.0 == 29).collect();
    let has_md5 = options.iter().any(|option| option.0 == 19);
    match aos[..] {
        _ if !is_well_formed => Err(MustDiscard),
        [] => Ok(None),
        [(_, offset, data)] if data.len() >= 2 && !has_md5 => Ok(Some((*offset, data))),
        _ => Err(MustDiscard),
    }
}

/// A packet as a host interprets it.
#[derive(Debug, PartialEq, Eq)]
pub struct TcpPacket<'a> {
    /// The addresses of the IP header, source first.
    pub addresses: (IpAddr, IpAddr),
    /// The length of all IP headers in octets.
    pub ip_length: usize,
    /// The TCP header and payload, or the part of them in a first fragment.
    pub tcp: &'a [u8],
    /// Whether it is the first fragment of several.
    pub is_fragment: bool,
    /// Whether a routing header sends the packet on to another host, or an option may give its sender another address.
    pub is_routed_on: bool,
}

/// Finds the TCP segment, or the beginning of one, that a host would find in a packet; `None` if it would find none.
pub fn tcp_packet(packet: &[u8]) -> std::option::Option<TcpPacket<'_>> {
    match packet.first()? >> 4 {
        4 => {
            let length = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
            let packet = packet.get(..length)?;
            let ip_length = usize::from(packet.first()? & 15) * 4;
            let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]);
            if ip_length < 20 || *packet.get(9)? != 6 || fragment & 0x1fff != 0 {
                return None;
            }
            let address = |at: usize| {
                Some(IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?)))
            };
            Some(TcpPacket {
                addresses: (address(12)?, address(16)?),
                ip_length,
                tcp: packet.get(ip_length..)?,
                is_fragment: fragment & 0x2000 != 0,
                is_routed_on: false,
            })
        }
        6 => {
            let length = 40 + usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
            let packet = packet.get(..length)?;
            let address = |at: usize| {
                Some(IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?)))
            };
            let mut found = TcpPacket {
                addresses: (address(8)?, address(24)?),
                ip_length: 40,
                tcp: &[],
                is_fragment: false,
                is_routed_on: false,
            };
            let mut next = *packet.get(6)?;
            loop {
                let header = &packet[found.ip_length..];
                let length = match next {
                    6 => {
                        found.tcp = header;
                        return Some(found);
                    }
                    // Hop-by-hop, routing and destination options, mobility (RFC 8200 §4, RFC 6275 §6.1).
                    0 | 43 | 60 | 135 => 8 + 8 * usize::from(*header.get(1)?),
                    44 => 8,
                    // The authentication header (RFC 4302 §2.2).
                    51 => 8 + 4 * usize::from(*header.get(1)?),
                    _ => return None,
                };
                let header = header.get(..length)?;
                match next {
                    43 => found.is_routed_on |= header[3] > 0,
                    // The Home Address option, at any position (RFC 6275 §6.3).
                    60 => found.is_routed_on |= header[2..].contains(&201),
                    44 if header[2] > 0 || header[3] & 0xf8 > 0 => return None,
                    44 => found.is_fragment |= header[3] & 1 > 0,
                    _ => {}
                }
                next = header[0];
                found.ip_length += length;
            }
        }
        _ => None,
    }
}

/// The TCP checksum as etherparse computes it, unless IP cannot carry the segment.
fn tcp_checksum(found: &TcpPacket<'_>) -> std::option::Option<u16> {
    let tcp = etherparse::TcpSlice::from_slice(found.tcp).ok()?;
    match found.addresses {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            tcp.calc_checksum_ipv4(source.octets(), destination.octets()).ok()
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            tcp.calc_checksum_ipv6(source.octets(), destination.octets()).ok()
        }
        _ => None,
    }
}

/// Fails unless the checksums of IPv4 and TCP are right.
pub fn assert_checksums(packet: &[u8]) {
    let found = tcp_packet(packet).expect("a TCP packet");
    if found.addresses.0.is_ipv4() {
        assert_eq!(ones_complement_sum(&packet[..found.ip_length]), 0xffff, "IPv4 header checksum");
    }
    // The pseudo-header has the final destination or the home address (RFC 8200 §8.1, RFC 6275 §9.3.1); the unit tests cover this.
    if found.is_routed_on {
        return;
    }
    let sum = tcp_checksum(&found).expect("a segment that IP can carry");
    // Zero is sent as 0xffff.
    let expected = if sum == 0 { 0xffff } else { sum };
    assert_eq!(found.tcp[16..18], expected.to_be_bytes(), "TCP checksum");
}

/// Writes the checksums of IPv4 and TCP into a packet that has them.
pub fn refresh_checksums(packet: &mut [u8]) {
    let Some(found) = tcp_packet(packet) else { return };
    let at = found.ip_length;
    let Some(sum) = tcp_checksum(&found) else { return };
    packet[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
    if packet[0] >> 4 == 4 {
        packet[10..12].fill(0);
        let sum = !ones_complement_sum(&packet[..at]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// RFC 1071 §1, for an even number of octets. etherparse's own function ignores the reserved flag of IPv4.
fn ones_complement_sum(octets: &[u8]) -> u16 {
    octets.as_chunks::<2>().0.iter().fold(0, |sum: u16, word| {
        let (sum, carry) = sum.overflowing_add(u16::from_be_bytes(*word));
        sum + u16::from(carry)
    })
}
