//! The Internet checksum (RFC 1071), over an IPv4 header or a TCP segment with its pseudo-header.

use core::net::IpAddr;

use crate::ip::{PROTOCOL_ICMPV6, PROTOCOL_TCP, ipv6_octets};

/// The sum over the pseudo-header of a segment of `length` octets (RFC 9293 §3.1, RFC 8200 §8.1).
fn pseudo_header(source: IpAddr, destination: IpAddr, length: usize) -> u64 {
    pseudo_header_of(PROTOCOL_TCP, source, destination, length)
}

fn pseudo_header_of(protocol: u8, source: IpAddr, destination: IpAddr, length: usize) -> u64 {
    let addresses = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => sum(&source.octets()) + sum(&destination.octets()),
        (source, destination) => sum(&ipv6_octets(source)) + sum(&ipv6_octets(destination)),
    };
    addresses + u64::from(u32::from(protocol).to_be()) + u64::from((length as u32).to_be())
}

/// Adds the 16-bit words of `octets`, the last one padded with zero; carries collect above bit 16.
///
/// Ones' complement addition allows four octets at a time, in the machine's byte order (RFC 1071 §2); [`fold`] swaps the sum once.
fn sum(octets: &[u8]) -> u64 {
    let (words, rest) = octets.as_chunks::<4>();
    let total: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total + u64::from(u32::from_ne_bytes(last))
}

/// Folds a sum to 16 bits, in the machine's byte order.
fn reduce(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

fn fold(total: u64) -> u16 {
    !u16::from_be(reduce(total))
}

/// The sum over a segment's payload, in the machine's byte order.
pub(crate) struct PayloadSum(u64);

impl PayloadSum {
    pub(crate) fn of(payload: &[u8]) -> Self {
        Self(sum(payload))
    }

    /// Derives the payload's sum from a segment of `length` octets with a correct checksum: header, pseudo-header and payload add up to
    /// zero (RFC 1071 §1). The payload is not read.
    pub(crate) fn behind(source: IpAddr, destination: IpAddr, header: &[u8], length: usize) -> Self {
        Self(u64::from(!reduce(pseudo_header(source, destination, length) + sum(header))))
    }
}

/// The checksum to send, as [`tcp_to_send`], for a segment of `length` octets with this payload and this header, whose checksum field is
/// zero.
pub(crate) fn tcp_header_to_send(
    source: IpAddr,
    destination: IpAddr,
    header: &[u8],
    length: usize,
    payload: &PayloadSum,
) -> u16 {
    not_zero(fold(pseudo_header(source, destination, length) + sum(header) + payload.0))
}

const fn not_zero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// The checksum of an IPv4 header whose checksum field is zero; 0 for a header with a correct checksum.
#[must_use]
pub fn ipv4_header(header: &[u8]) -> u16 {
    fold(sum(header))
}

/// The checksum of an ICMPv6 message (RFC 4443 §2.3); 0 for a correct one.
pub(crate) fn icmpv6(source: IpAddr, destination: IpAddr, message: &[u8]) -> u16 {
    fold(pseudo_header_of(PROTOCOL_ICMPV6, source, destination, message.len()) + sum(message))
}

/// The checksum of a TCP segment (header and payload) whose checksum field is zero; 0 for one with a correct checksum.
///
/// `source` and `destination` are those of the pseudo-header: behind a routing header, the final destination.
#[must_use]
pub fn tcp(source: IpAddr, destination: IpAddr, segment: &[u8]) -> u16 {
    fold(pseudo_header(source, destination, segment.len()) + sum(segment))
}

/// The checksum to send: that of [`tcp`], but 0xffff instead of zero, the same number in ones' complement (RFC 1071 §2).
///
/// Receivers accept both. But Linux, seen in 7.2 and 7.3, mistakes a received segment whose checksum field is zero for an outgoing one,
/// swaps the addresses of the pseudo-header, and refuses the MAC. A zero would hit one segment in 65,536, and its retransmissions as long
/// as they do not change.
#[must_use]
pub fn tcp_to_send(source: IpAddr, destination: IpAddr, segment: &[u8]) -> u16 {
    not_zero(tcp(source, destination, segment))
}
