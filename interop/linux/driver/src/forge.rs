//! Frames that no stack has sent: what an attacker on the wire, or far away, could send in another's name.

use std::net::IpAddr;

use anyhow::Result;
use etherparse::{
    ArpHardwareId, ArpOperation, ArpPacket, EtherType, NetSlice, PacketBuilder, SlicedPacket, ether_type,
};
use speaker::forge::Forgery;
use wireseal_tcp_ao::SocketPair;

use crate::net::Port;
use crate::recording::Recording;
use crate::wire::Wire;

/// IP hop limit of forged packets.
const HOP_LIMIT: u8 = 64;
/// Octets of a quoted packet that an ICMP error carries: the headers, as RFC 1812 §4.3.2.3 asks for.
const QUOTED: usize = 128;

/// Puts an IP packet on the wire, to the port at `pair.remote`, in the name of `pair.local`.
pub fn inject(wire: &Wire, pair: SocketPair, packet: &[u8]) -> Result<()> {
    let (from, to) = (Port::of(pair.local.address())?, Port::of(pair.remote.address())?);
    let ethertype = if pair.local.address().is_ipv4() { ether_type::IPV4 } else { ether_type::IPV6 };
    let header = [&to.hardware_address()[..], &from.hardware_address(), &ethertype.0.to_be_bytes()];
    wire.inject(to, [&header.concat(), packet].concat());
    Ok(())
}

/// Sends an end an ICMP error about the segment that this end, `pair.local`, could have sent last. `mtu` is in the last
/// octets of the ICMP header.
pub fn inject_icmp_error(wire: &Wire, pair: SocketPair, (kind, code): (u8, u8), mtu: u32) -> Result<()> {
    let quoted = wire.look(|recording| Forgery::next(recording.packets(), pair)?.unsigned())?;
    let quoted = &quoted[..quoted.len().min(QUOTED)];
    let mut packet = Vec::new();
    match (pair.remote.address(), pair.local.address()) {
        (IpAddr::V4(liar), IpAddr::V4(deceived)) => {
            PacketBuilder::ipv4(liar.octets(), deceived.octets(), HOP_LIMIT)
                .icmpv4_raw(kind, code, mtu.to_be_bytes())
                .write(&mut packet, quoted)?;
        }
        (IpAddr::V6(liar), IpAddr::V6(deceived)) => {
            PacketBuilder::ipv6(liar.octets(), deceived.octets(), HOP_LIMIT)
                .icmpv6_raw(kind, code, mtu.to_be_bytes())
                .write(&mut packet, quoted)?;
        }
        _ => unreachable!("a connection has one version of IP"),
    }
    inject(wire, pair.reversed(), &packet)
}

/// A question for the hardware address of a port, from [`Port::Host`].
pub fn arp_request(port: Port) -> Result<Vec<u8>> {
    let asker = Port::Host;
    let request = ArpPacket::new(
        ArpHardwareId::ETHERNET,
        EtherType::IPV4,
        ArpOperation::REQUEST,
        &asker.hardware_address(),
        &asker.ipv4().octets(),
        &[0; 6],
        &port.ipv4().octets(),
    )?;
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(asker.hardware_address(), [0xff; 6]).arp(request).write(&mut frame)?;
    Ok(frame)
}

/// How many answers to [`arp_request`] a port has sent.
pub fn arp_replies(recording: &Recording, port: Port) -> usize {
    let is_reply = |frame: &[u8]| match SlicedPacket::from_ethernet(frame).ok().and_then(|packet| packet.net)
    {
        Some(NetSlice::Arp(arp)) => {
            arp.operation() == ArpOperation::REPLY && arp.target_protocol_addr() == Port::Host.ipv4().octets()
        }
        _ => false,
    };
    let frames = recording.frames.iter().filter(|frame| frame.from == Some(port));
    frames.filter(|frame| is_reply(&frame.octets)).count()
}
