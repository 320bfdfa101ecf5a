//! TCP segments and IPv4 packets.

use std::net::Ipv4Addr;

use wireseal_tcp_ao::checksum;

/// The length of an IPv4 header without options, after which the TCP header begins.
pub const IPV4: usize = 20;
/// The TCP flag SYN.
pub const SYN: u8 = 0x02;
/// The TCP flag RST.
pub const RST: u8 = 0x04;
/// The TCP flag ACK.
pub const ACK: u8 = 0x10;

/// A TCP segment without a checksum, from source and destination port, sequence and acknowledgment number, flags, options, and the
/// payload's length. The length of `options` must be a multiple of four.
#[must_use]
pub fn tcp(ports: [u16; 2], numbers: [u32; 2], flags: u8, options: &[u8], payload: usize) -> Vec<u8> {
    let mut tcp = Vec::with_capacity(20 + options.len() + payload);
    tcp.extend(ports.map(u16::to_be_bytes).as_flattened());
    tcp.extend(numbers.map(u32::to_be_bytes).as_flattened());
    tcp.extend([((20 + options.len()) as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend(options);
    tcp.resize(tcp.len() + payload, 0x5a);
    tcp
}

/// The segment in an IPv4 packet, with both checksums.
#[must_use]
pub fn ipv4(source: Ipv4Addr, destination: Ipv4Addr, tcp: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 6, 0, 0];
    packet.extend([source, destination].map(|address| address.octets()).as_flattened());
    packet.extend(tcp);
    set_checksums(&mut packet);
    packet
}

/// Corrects the length and both checksums of an IPv4 packet with a TCP segment.
pub fn set_checksums(packet: &mut [u8]) {
    let length = packet.len() as u16;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    let [source, destination] = [12, 16].map(|at| {
        let octets: [u8; 4] = *packet[at..].first_chunk().expect("an IPv4 header");
        Ipv4Addr::from(octets).into()
    });
    let (header, tcp) = packet.split_at_mut(IPV4);
    header[10..12].fill(0);
    let sum = checksum::ipv4_header(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    tcp[16..18].fill(0);
    let sum = checksum::tcp_to_send(source, destination, tcp);
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
}
