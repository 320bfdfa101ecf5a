//! Headers of link layers and tunnels around packets, as routers write them.

use wireseal_tcp_ao::checksum;

/// Puts octets in a row.
pub fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Whether a packet is IPv4.
fn is_ipv4(packet: &[u8]) -> bool {
    packet[0] >> 4 == 4
}

/// The EtherType of an IP packet.
pub fn ether_type(packet: &[u8]) -> u16 {
    if is_ipv4(packet) { 0x0800 } else { 0x86dd }
}

/// A frame with this EtherType.
pub fn ethernet(ether_type: u16, content: &[u8]) -> Vec<u8> {
    join(&[&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], &ether_type.to_be_bytes(), content])
}

/// A frame with an IP packet.
pub fn frame(packet: &[u8]) -> Vec<u8> {
    ethernet(ether_type(packet), packet)
}

/// What follows the EtherType of a tag, for the next EtherType and its content.
pub fn tag(vlan: u16, ether_type: u16, content: &[u8]) -> Vec<u8> {
    join(&[&(0xe000 | vlan).to_be_bytes(), &ether_type.to_be_bytes(), content])
}

/// A frame with an IP packet in a VLAN.
pub fn vlan_frame(vlan: u16, packet: &[u8]) -> Vec<u8> {
    ethernet(0x8100, &tag(vlan, ether_type(packet), packet))
}

/// An entry of a label stack.
pub fn label(label: u32, is_bottom: bool) -> [u8; 4] {
    (label << 12 | u32::from(is_bottom) << 8 | 64).to_be_bytes()
}

/// An IPv4 packet from one router to the other; `sender` is 0 or 1.
pub fn ipv4(sender: u8, protocol: u8, content: &[u8]) -> Vec<u8> {
    let length = ((20 + content.len()) as u16).to_be_bytes();
    let mut packet = join(&[
        &[0x45, 0, length[0], length[1], 0, 7, 0, 0, 64, protocol, 0, 0],
        &[10, 0, 0, 1 + sender, 10, 0, 0, 2 - sender],
        content,
    ]);
    let checksum = checksum::ipv4_header(&packet[..20]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// The same in IPv6.
pub fn ipv6(sender: u8, protocol: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    let address = |last| [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let head = [0x60, 0, 0, 0, length[0], length[1], protocol, 64];
    join(&[&head, &address(1 + sender), &address(2 - sender), content])
}

/// A UDP datagram in IPv4.
pub fn udp(sender: u8, port: u16, content: &[u8]) -> Vec<u8> {
    let length = (8 + content.len()) as u16;
    let datagram =
        join(&[&50_000_u16.to_be_bytes(), &port.to_be_bytes(), &length.to_be_bytes(), &[0, 0], content]);
    ipv4(sender, 17, &datagram)
}

/// GRE with these flags and fields.
pub fn gre(flags: u16, protocol: u16, fields: &[u8], content: &[u8]) -> Vec<u8> {
    join(&[&flags.to_be_bytes(), &protocol.to_be_bytes(), fields, content])
}

/// The header of VXLAN.
pub fn vxlan(vni: u32, content: &[u8]) -> Vec<u8> {
    join(&[&[8, 0, 0, 0], &(vni << 8).to_be_bytes(), content])
}

/// PPP's protocol number and an IP packet.
pub fn ppp(packet: &[u8]) -> Vec<u8> {
    join(&[&(if is_ipv4(packet) { 0x0021_u16 } else { 0x0057 }).to_be_bytes(), packet])
}
