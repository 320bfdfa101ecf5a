//! The Internet checksum (RFC 1071), over an IPv4 header or a TCP segment with its pseudo-header.

use core::net::IpAddr;

use crate::ip::{PROTOCOL_TCP, ipv6_octets};

/// The pseudo-header's share of a checksum over a segment of `length` octets (RFC 9293 §3.1, RFC 8200 §8.1).
fn pseudo_header(source: IpAddr, destination: IpAddr, length: usize) -> u64 {
    let addresses = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => sum(&source.octets()) + sum(&destination.octets()),
        (source, destination) => sum(&ipv6_octets(source)) + sum(&ipv6_octets(destination)),
    };
    addresses + u64::from(PROTOCOL_TCP) + length as u64
}

/// Adds up the 16-bit words of `octets`, an odd last one padded with zero; the carries pile up above bit 16.
///
/// It takes four octets at a time, which ones' complement addition allows (RFC 1071 §2): a packet of 65,535 octets
/// cannot overflow 64 bits.
fn sum(octets: &[u8]) -> u64 {
    let (words, rest) = octets.as_chunks::<4>();
    let mut total: u64 = words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum();
    for pair in rest.chunks(2) {
        total += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    }
    total
}

fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

/// The checksum of an IPv4 header whose checksum field is zero; 0 for a header that carries the right one.
#[must_use]
pub fn ipv4_header(header: &[u8]) -> u16 {
    fold(sum(header))
}

/// The checksum of a TCP segment (header and payload) whose checksum field is zero; 0 for one that carries the
/// right one.
///
/// `source` and `destination` are those of the pseudo-header: past a routing header, the final destination.
#[must_use]
pub fn tcp(source: IpAddr, destination: IpAddr, segment: &[u8]) -> u16 {
    fold(pseudo_header(source, destination, segment.len()) + sum(segment))
}

/// The checksum to send a TCP segment with whose checksum field is zero: that of [`tcp`], but 0xffff in place of zero, which is
/// the same number in ones' complement (RFC 1071 §2).
///
/// A receiver cannot tell the two apart when it adds up. Linux, seen in 7.2 and 7.3, takes a received segment whose field
/// is zero for one of its own that is yet to get a checksum, swaps the addresses of the pseudo-header, and refuses the MAC:
/// one segment of 65,536, and the same again at each retransmission that does not change.
#[must_use]
pub fn tcp_to_send(source: IpAddr, destination: IpAddr, segment: &[u8]) -> u16 {
    match tcp(source, destination, segment) {
        0 => 0xffff,
        checksum => checksum,
    }
}
