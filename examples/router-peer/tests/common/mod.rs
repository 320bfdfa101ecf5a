//! Two stacks joined by a wire.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

#[cfg(unix)]
pub mod program;

use std::net::IpAddr;

use ipnet::IpNet;
use router_peer::link::LinkDevice;
use router_peer::stack::{Stack, StackConfig};
use router_peer::transport::memory::{Wire, wire};
use router_peer::transport::{DEFAULT_IP_MTU, frame_mtu};
use smoltcp::phy::Medium;
use smoltcp::socket::tcp::CongestionControl;

pub const ADDRESSES_OF_A: [&str; 2] = ["192.0.2.1/24", "2001:db8::1/64"];
pub const ADDRESSES_OF_B: [&str; 2] = ["192.0.2.2/24", "2001:db8::2/64"];

pub struct Pair {
    pub a: Stack<LinkDevice>,
    pub b: Stack<LinkDevice>,
    pub wire: Wire,
}

impl Pair {
    pub fn new(medium: Medium) -> Self {
        let (device_a, device_b, wire) = wire(medium, frame_mtu(medium, DEFAULT_IP_MTU), 7);
        Self { a: stack(device_a, 1, ADDRESSES_OF_A), b: stack(device_b, 2, ADDRESSES_OF_B), wire }
    }

    pub fn addresses_of_b(&self) -> [IpAddr; 2] {
        ADDRESSES_OF_B.map(|net| net.parse::<IpNet>().unwrap().addr())
    }
}

pub fn stack(device: LinkDevice, number: u8, addresses: [&str; 2]) -> Stack<LinkDevice> {
    let config = StackConfig {
        hardware_address: [2, 0, 0, 0, 0, number],
        addresses: addresses.iter().map(|net| net.parse().unwrap()).collect(),
        gateways: Vec::new(),
        congestion_control: CongestionControl::None,
        seed: number.into(),
    };
    let arrivals = device.arrivals();
    Stack::start(device, arrivals, &config).unwrap()
}

/// Octets that differ from place to place and from seed to seed.
pub fn pattern(octets: usize, seed: u8) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed.into());
    std::iter::repeat_with(|| rng.u8(..)).take(octets).collect()
}
