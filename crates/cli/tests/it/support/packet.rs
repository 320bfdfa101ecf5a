//! IP packets around segments.

use std::net::IpAddr;

use wireseal_tcp_ao::checksum;

/// The IP packet that carries a segment.
pub fn packet((source, destination): (IpAddr, IpAddr), tcp: &[u8]) -> Vec<u8> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let length = (20 + tcp.len()) as u16;
            let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0];
            packet[2..4].copy_from_slice(&length.to_be_bytes());
            packet.extend(source.octets());
            packet.extend(destination.octets());
            let checksum = checksum::ipv4_header(&packet);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
            packet.extend(tcp);
            packet
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mut packet = vec![0x60, 0, 0, 0];
            packet.extend((tcp.len() as u16).to_be_bytes());
            packet.extend([6, 64]);
            packet.extend(source.octets());
            packet.extend(destination.octets());
            packet.extend(tcp);
            packet
        }
        _ => panic!("a packet of two families"),
    }
}
