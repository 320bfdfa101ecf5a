//! Routes: their types, the table of those that a peer has announced, and those to announce, generated or read from a list.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use inetnum::addr::Prefix;

/// An address family: unicast only.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Family {
    /// IPv4 unicast.
    Ipv4 = 0,
    /// IPv6 unicast.
    Ipv6 = 1,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    /// The family of a prefix.
    pub fn of(prefix: Prefix) -> Self {
        if prefix.is_v4() { Self::Ipv4 } else { Self::Ipv6 }
    }
}

/// The path attributes that the speaker keeps; it drops others on receipt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    /// AS_PATH: one AS_SEQUENCE, the neighbouring AS first. Paths with an AS_SET are not kept (RFC 9774).
    pub as_path: Box<[u32]>,
    /// NEXT_HOP, or none for the speaker's own address.
    pub next_hop: Option<IpAddr>,
}

/// A prefix with its attributes; routes announced together share them.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The prefix.
    pub prefix: Prefix,
    /// Its attributes.
    pub attributes: Arc<Attributes>,
}

/// What one UPDATE changes.
#[derive(Debug, Default)]
pub struct Changes {
    /// Prefixes that the peer no longer reaches.
    pub withdrawn: Vec<Prefix>,
    /// Prefixes that the peer reaches.
    pub announced: Vec<Route>,
    /// The family whose initial table is complete (RFC 4724 §2).
    pub end_of_rib: Option<Family>,
}

/// The Adj-RIB-In of one peer (RFC 4271 §3.2).
#[derive(Debug, Default)]
pub struct AdjRibIn([HashMap<Prefix, Arc<Attributes>>; 2]);

impl AdjRibIn {
    /// Applies an UPDATE: withdrawals first.
    pub fn apply(&mut self, changes: Changes) {
        for prefix in changes.withdrawn {
            self.0[Family::of(prefix) as usize].remove(&prefix);
        }
        for Route { prefix, attributes } in changes.announced {
            self.0[Family::of(prefix) as usize].insert(prefix, attributes);
        }
    }

    /// The attributes of a prefix that the peer reaches.
    pub fn get(&self, prefix: Prefix) -> Option<&Arc<Attributes>> {
        self.0[Family::of(prefix) as usize].get(&prefix)
    }

    /// How many IPv4 and IPv6 prefixes the peer reaches.
    pub fn counts(&self) -> [usize; 2] {
        [self.0[0].len(), self.0[1].len()]
    }
}

/// Prefixes that share attributes, on average as in the Internet's table.
const PREFIXES_PER_PATH: u32 = 5;

/// Makes `count` routes, at most 13 million, the same ones each time: four fifths are IPv4 prefixes of 24 bits, one fifth
/// IPv6 prefixes of 48 bits, the commonest lengths in the Internet's table. Every five share a path of three to six AS
/// numbers, most of which need four octets.
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

/// Parses a list: one prefix per line, then its next hop unless that is the speaker itself. `#` starts a comment.
/// Fails with the number of the first line that has anything else.
pub fn parse(text: &str) -> Result<Arc<[Route]>> {
    let mut shared: HashMap<Option<IpAddr>, Arc<Attributes>> = HashMap::new();
    let routes = text.lines().enumerate().filter_map(|(index, line)| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let route = route(words.next()?, words, &mut shared);
        Some(route.with_context(|| format!("line {}", index + 1)))
    });
    routes.collect()
}

fn route<'a>(
    word: &str,
    mut rest: impl Iterator<Item = &'a str>,
    shared: &mut HashMap<Option<IpAddr>, Arc<Attributes>>,
) -> Result<Route> {
    let prefix: Prefix = word.parse().map_err(|error| anyhow!("`{word}`: {error}"))?;
    let parsed = |word: &str| word.parse::<IpAddr>().with_context(|| format!("`{word}`"));
    let next_hop = rest.next().map(parsed).transpose()?;
    let is_like = next_hop.is_none_or(|next_hop| next_hop.is_ipv4() == prefix.is_v4());
    ensure!(is_like, "prefix and next hop are of different families");
    if let Some(word) = rest.next() {
        bail!("`{word}` is one word too many");
    }
    let made = || Arc::new(Attributes { next_hop, ..Attributes::default() });
    Ok(Route { prefix, attributes: Arc::clone(shared.entry(next_hop).or_insert_with(made)) })
}
