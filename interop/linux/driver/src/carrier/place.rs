//! A guest's place on the wire: its TCP segments go to another port.

use std::net::IpAddr;

use anyhow::{Result, bail};
use etherparse::{IpNumber, PacketBuilder};
use smoltcp::phy::Medium;
use speaker::link::{DEFAULT_IP_MTU, Link};

use crate::net::Port;
use crate::wire::{Plug, Wire};

/// IP hop limit of its packets.
const HOP_LIMIT: u8 = 64;

/// A guest's place; dropping it gives it back.
pub struct Place {
    own: Port,
    neighbour: Port,
    link: Link,
    _plug: Plug,
}

impl Place {
    /// Diverts the TCP segments of guest `own` to the free port `at`. Replies go to `neighbour`.
    pub fn take_over(wire: &Wire, own: Port, at: Port, neighbour: Port) -> Self {
        let link = Link::new(Medium::Ethernet, DEFAULT_IP_MTU);
        Self { own, neighbour, _plug: wire.plug_in_place_of(own, at, link.clone()), link }
    }

    /// Waits for the next frame. Cancel safe.
    pub async fn receive(&self) -> Vec<u8> {
        self.link.to_stack.pop().await
    }

    /// Sends a TCP segment.
    pub fn send(&self, from: IpAddr, to: IpAddr, tcp: &[u8]) -> Result<()> {
        let mut frame = Vec::new();
        let ethernet =
            PacketBuilder::ethernet2(self.own.hardware_address(), self.neighbour.hardware_address());
        let ip = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => ethernet.ipv4(from.octets(), to.octets(), HOP_LIMIT),
            (IpAddr::V6(from), IpAddr::V6(to)) => ethernet.ipv6(from.octets(), to.octets(), HOP_LIMIT),
            _ => bail!("no packet goes from {from} to {to}"),
        };
        ip.write_to_vec(&mut frame, IpNumber::TCP, tcp)?;
        self.link.from_stack.push(frame);
        Ok(())
    }
}
