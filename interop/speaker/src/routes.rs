//! Routes like those of the Internet's table.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use inetnum::addr::Prefix;

use crate::bgp::rib::{Attributes, Route};

/// Prefixes that share attributes, on average as in the Internet's table.
const PREFIXES_PER_PATH: u32 = 5;

/// Makes `count` routes, the same ones each time and at most 13 million: four of five are IPv4 prefixes of 24 bits, one
/// of five is an IPv6 prefix of 48 bits, the commonest lengths of the Internet's table. Every five share a path of three to
/// six AS numbers, most of them of more than 16 bits.
#[must_use]
pub fn generate(count: u32) -> Arc<[Route]> {
    let mut attributes = Arc::default();
    let route = |number: u32| {
        let (path, place) = (number / PREFIXES_PER_PATH, number % PREFIXES_PER_PATH);
        if place == 0 {
            let first = 1000 + path.wrapping_mul(7) % 50_000;
            let as_path = (0..3 + path % 4).map(|hop| first + hop * 65_536).collect();
            attributes = Arc::new(Attributes { as_path, next_hop: None });
        }
        let prefix = if place == PREFIXES_PER_PATH - 1 {
            Prefix::new_v6(Ipv6Addr::from((0x2a00 << 112) | (u128::from(number) << 80)), 48)
        } else {
            Prefix::new_v4(Ipv4Addr::from((16 << 24) + (number << 8)), 24)
        };
        Route {
            prefix: prefix.expect("the rest of the address is zero"),
            attributes: Arc::clone(&attributes),
        }
    };
    // From 16.0.0.0 up to multicast, 256 addresses apart.
    (0..count.min((224 - 16) << 16)).map(route).collect()
}
