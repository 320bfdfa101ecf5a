//! The two ends of a connection as a key for the table of connections.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;

/// A connection's ends in an order that does not depend on who sends, IPv4 addresses mapped to IPv6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ends {
    addresses: [u128; 2],
    ports: u32,
}

impl Ends {
    #[inline]
    pub(super) fn of(source: IpAddr, destination: IpAddr, ports: [u16; 2]) -> Self {
        let bits = |address| match address {
            IpAddr::V4(address) => 0xffff_0000_0000 | u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let (source, destination) = (bits(source), bits(destination));
        let [source_port, destination_port] = ports.map(u32::from);
        if (source, source_port) < (destination, destination_port) {
            Self { addresses: [source, destination], ports: source_port << 16 | destination_port }
        } else {
            Self { addresses: [destination, source], ports: destination_port << 16 | source_port }
        }
    }
}

impl Hash for Ends {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(self.addresses[0]);
        state.write_u128(self.addresses[1]);
        state.write_u32(self.ports);
    }
}
