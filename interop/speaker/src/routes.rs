//! Routes to announce: generated, or read from a list.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use inetnum::addr::Prefix;

use crate::bgp::rib::{Attributes, Route};

/// Prefixes that share attributes, on average as in the Internet's table.
const PREFIXES_PER_PATH: u32 = 5;

/// Makes `count` routes, at most 13 million, the same ones each time: four fifths are IPv4 prefixes of 24 bits, one fifth
/// IPv6 prefixes of 48 bits, the commonest lengths in the Internet's table. Every five share a path of three to six AS
/// numbers, most of which need four octets.
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

/// Parses a list: one prefix per line, then its next hop unless that is the speaker itself. `#` starts a comment.
///
/// # Errors
/// The first line with anything else, by number.
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
