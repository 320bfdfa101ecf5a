//! A guest's place on the wire, while the guest itself is unplugged: its Ethernet and IP addresses on another port.

use std::net::IpAddr;
use std::sync::Arc;

use etherparse::icmpv6::{
    Icmpv6PayloadSlice, NdpOptionType, NeighborAdvertisementHeader, NeighborAdvertisementPayload,
};
use etherparse::{
    ArpEthIpv4Packet, ArpOperation, Icmpv6Type, IpNumber, NetSlice, PacketBuilder, SlicedPacket,
    TransportSlice,
};
use router_peer::link::LinkPort;

use crate::failure::Failure;
use crate::lab::Addresses;
use crate::wire::{Plug, Port, Wire};

/// Routers that a packet may pass.
const HOP_LIMIT: u8 = 64;
/// What neighbour discovery wants instead, to show that a packet has passed none (RFC 4861 §7.1).
const HOP_LIMIT_OF_NEIGHBOURS: u8 = 255;
/// Octets of a link-layer address option, in units of eight (RFC 4861 §4.6.1).
const OPTION_UNITS: u8 = 1;

/// The place. Dropping it gives it back.
#[derive(Debug)]
pub struct Place {
    own: Addresses,
    neighbour: Addresses,
    link: LinkPort,
    _plug: Plug,
}

impl Place {
    /// Takes over the addresses of the guest at `of` at the free port `at`, to talk to the one at `neighbour`.
    #[must_use]
    pub fn take_over(wire: &Wire, of: Port, at: Port, neighbour: Port) -> Self {
        let link = LinkPort { to_stack: Arc::default(), from_stack: Arc::default() };
        let plug = wire.plug_link(at, link.clone());
        Self { own: Addresses::of(of), neighbour: Addresses::of(neighbour), link, _plug: plug }
    }

    /// The next frame, after those that only ask for the addresses here, which are answered. Cancelling the wait loses
    /// nothing.
    ///
    /// # Errors
    /// When an answer cannot be built.
    pub async fn receive(&self) -> Result<Vec<u8>, Failure> {
        loop {
            let frame = self.link.to_stack.pop().await;
            match self.answer(&frame)? {
                Some(answer) => self.link.from_stack.push(answer),
                None => return Ok(frame),
            }
        }
    }

    /// Sends a TCP segment.
    ///
    /// # Errors
    /// When the addresses are of different families, or the segment is too long.
    pub fn send(&self, from: IpAddr, to: IpAddr, tcp: &[u8]) -> Result<(), Failure> {
        let mut frame = Vec::new();
        let ethernet = PacketBuilder::ethernet2(self.own.hardware_address, self.neighbour.hardware_address);
        let ip = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => ethernet.ipv4(from.octets(), to.octets(), HOP_LIMIT),
            (IpAddr::V6(from), IpAddr::V6(to)) => ethernet.ipv6(from.octets(), to.octets(), HOP_LIMIT),
            _ => return Err(Failure(format!("no packet goes from {from} to {to}"))),
        };
        ip.write_to_vec(&mut frame, IpNumber::TCP, tcp)?;
        self.link.from_stack.push(frame);
        Ok(())
    }

    /// The answer to an ARP request (RFC 826) or a neighbour solicitation (RFC 4861 §7.2.4) for the addresses here.
    fn answer(&self, frame: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let Ok(packet) = SlicedPacket::from_ethernet(frame) else { return Ok(None) };
        match (packet.net, packet.transport) {
            (Some(NetSlice::Arp(arp)), _) => {
                let Ok(request) = arp.to_packet().try_eth_ipv4() else { return Ok(None) };
                let is_for_here = request.operation == ArpOperation::REQUEST
                    && request.target_ipv4 == self.own.ipv4.octets();
                is_for_here.then(|| self.answer_arp(&request)).transpose()
            }
            (Some(NetSlice::Ipv6(ip)), Some(TransportSlice::Icmpv6(icmp))) => match icmp.payload_slice() {
                Ok(Icmpv6PayloadSlice::NeighborSolicitation(asked))
                    if asked.target_address() == self.own.ipv6 =>
                {
                    let asking = ip.header().source();
                    self.answer_solicitation(asking).map(Some)
                }
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    fn answer_arp(&self, request: &ArpEthIpv4Packet) -> Result<Vec<u8>, Failure> {
        let reply = ArpEthIpv4Packet {
            operation: ArpOperation::REPLY,
            sender_mac: self.own.hardware_address,
            sender_ipv4: self.own.ipv4.octets(),
            target_mac: request.sender_mac,
            target_ipv4: request.sender_ipv4,
        };
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(self.own.hardware_address, request.sender_mac)
            .arp(reply.to_arp_packet())
            .write_to_vec(&mut frame)?;
        Ok(frame)
    }

    fn answer_solicitation(&self, asking: [u8; 16]) -> Result<Vec<u8>, Failure> {
        let advertisement = NeighborAdvertisementHeader { router: false, solicited: true, r#override: true };
        let mut payload = NeighborAdvertisementPayload { target_address: self.own.ipv6 }.to_bytes().to_vec();
        payload.extend([NdpOptionType::TARGET_LINK_LAYER_ADDRESS.0, OPTION_UNITS]);
        payload.extend(self.own.hardware_address);
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(self.own.hardware_address, self.neighbour.hardware_address)
            .ipv6(self.own.ipv6.octets(), asking, HOP_LIMIT_OF_NEIGHBOURS)
            .icmpv6(Icmpv6Type::NeighborAdvertisement(advertisement))
            .write_to_vec(&mut frame, &payload)?;
        Ok(frame)
    }
}
