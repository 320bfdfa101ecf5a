//! Routes to announce, from a file.

use std::collections::HashMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use inetnum::addr::Prefix;

use speaker::bgp::rib::{Attributes, Route};

/// Reads a list: on each line a prefix, then its next hop unless that is the speaker's own address. `#` starts a comment.
pub(crate) fn load(path: &Path) -> Result<Arc<[Route]>> {
    let text = fs::read_to_string(path).context("cannot read")?;
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
    let prefix: Prefix = word.parse().map_err(|error| anyhow::anyhow!("`{word}`: {error}"))?;
    let next_hop: Option<IpAddr> = match rest.next() {
        None => None,
        Some(word) => Some(word.parse().with_context(|| format!("`{word}`"))?),
    };
    ensure!(
        next_hop.is_none_or(|next_hop| next_hop.is_ipv4() == prefix.is_v4()),
        "prefix and next hop are of different families"
    );
    if let Some(word) = rest.next() {
        bail!("`{word}` is one word too many");
    }
    let attributes =
        shared.entry(next_hop).or_insert_with(|| Arc::new(Attributes { next_hop, ..Attributes::default() }));
    Ok(Route { prefix, attributes: Arc::clone(attributes) })
}
