//! Writing EOS configuration: one profile for each chain, and the neighbors that use it.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use wireseal_algorithms::TcpAoAlgorithm;

use super::super::file::{Chain, ChainKey, LINK_LOCAL, Neighbor};
use super::super::write::{Names, lose_ranks};
use super::keys::FIRST_MOMENT;
use crate::Timestamp;

pub(super) const ALGORITHMS: [(TcpAoAlgorithm, &str); 2] =
    [(TcpAoAlgorithm::HmacSha1, "hmac-sha1-96"), (TcpAoAlgorithm::Aes128Cmac, "aes-128-cmac-96")];

pub(super) fn name_of(algorithm: TcpAoAlgorithm) -> Option<&'static str> {
    ALGORITHMS.iter().find(|(known, _)| *known == algorithm).map(|(_, name)| *name)
}

/// The chain with the keys of its first algorithm, each id once, without secrets that EOS takes only encrypted and without keys that
/// expired before 1970.
pub(super) fn that_can_be(mut chain: Chain, losses: &mut Vec<String>) -> Option<Chain> {
    let algorithm = chain.keys.first()?.algorithm;
    let mut ids = HashSet::new();
    let names: Vec<_> = chain.keys.iter().map(|key| chain.name_of(key)).collect();
    let mut names = names.iter();
    chain.keys.retain(|key| {
        let is_plain = |octet: &u8| octet.is_ascii_graphic() && *octet != b'?';
        let is_over = [key.send, key.accept].iter().any(|lifetime| lifetime.is_over(FIRST_MOMENT));
        let reason = match () {
            () if key.algorithm != algorithm => {
                Some("EOS has one algorithm for all keys of a neighbor".to_owned())
            }
            () if !key.secret.expose().iter().all(is_plain) => Some(
                "EOS accepts only printable ASCII characters without blanks and question marks".to_owned(),
            ),
            () if is_over => Some("it expired before 1970".to_owned()),
            () if !ids.insert(key.send_id) => Some(format!("EOS has one key with id {}", key.send_id)),
            () => None,
        };
        let name = names.next().map_or("", String::as_str);
        losses.extend(reason.iter().map(|reason| format!("key {name} is left out: {reason}")));
        reason.is_none()
    });
    let mut own = HashSet::new();
    chain.neighbors.retain(|neighbor| own.insert(neighbor.clone()));
    (!chain.keys.is_empty()).then_some(chain)
}

/// Writes profiles of chains from [`that_can_be`], and the neighbors that use them.
pub(super) fn write(text: &mut String, chains: &[Chain], losses: &mut Vec<String>) {
    let mut names = Names::new(|c| c.is_ascii_graphic() && c != '?');
    let mut written: Vec<(String, &Chain)> = Vec::new();
    text.push_str(
        "! EOS needs \"service routing protocols model multi-agent\" for this.\nmanagement security\n",
    );
    for chain in chains {
        if let Some((name, other)) = written.last()
            && is_same_profile(other, chain)
        {
            written.push((name.clone(), chain));
            continue;
        }
        let name = names.name(chain, losses);
        write_profile(text, &name, chain, losses);
        written.push((name, chain));
    }
    text.push_str("!\n! Replace AS with the AS number.\nrouter bgp AS\n");
    // The lines of each VRF, those of none first.
    let mut vrfs: Vec<(Option<&str>, Vec<String>)> = vec![(None, Vec::new())];
    let mut place_of: HashMap<Option<&str>, usize> = HashMap::from([(None, 0)]);
    // A neighbor has one profile. EOS knows it by its address and VRF.
    let mut taken = HashSet::new();
    for (name, chain) in &written {
        let algorithm = chain.keys.first().and_then(|key| name_of(key.algorithm)).unwrap_or_default();
        let group = format!("{name}-{algorithm}");
        let (mut needs_group, mut has_neighbor) = (false, false);
        for Neighbor { vrf, address, interface } in &chain.neighbors {
            let vrf = vrf.as_deref();
            let link = interface.as_ref().filter(|_| address.to_string() == LINK_LOCAL);
            if let (Some(interface), None) = (interface, link) {
                losses.push(format!("chain {:?}: the interface {interface} of {address}", chain.name));
            }
            if !taken.insert((vrf, *address, link)) {
                losses.push(format!("chain {:?}: {address}, which uses another chain", chain.name));
                continue;
            }
            let place = *place_of.entry(vrf).or_insert(vrfs.len());
            if place == vrfs.len() {
                vrfs.push((vrf, Vec::new()));
            }
            let line = match link {
                Some(link) => format!("neighbor interface {link} peer-group {group} remote-as AS"),
                None if address.is_host_address() => {
                    format!("neighbor {address} password shared-secret profile {name} algorithm {algorithm}")
                }
                None => format!("bgp listen range {address} peer-group {group} remote-as AS"),
            };
            needs_group |= !address.is_host_address();
            has_neighbor = true;
            vrfs[place].1.push(line);
        }
        // The algorithm stands at a neighbor or a group, so without neighbors there is a group.
        if needs_group || !has_neighbor {
            vrfs[0].1.push(format!("neighbor {group} peer group"));
            vrfs[0].1.push(format!(
                "neighbor {group} password shared-secret profile {name} algorithm {algorithm}"
            ));
        }
    }
    for (vrf, lines) in vrfs {
        let indent = if vrf.is_some() { "      " } else { "   " };
        if let Some(vrf) = vrf {
            let _ = writeln!(text, "   vrf {vrf}");
        }
        for line in lines {
            let _ = writeln!(text, "{indent}{line}");
        }
    }
    text.push_str("!\n");
}

/// Whether the chains are one profile that neighbors use with both algorithms.
fn is_same_profile(one: &Chain, other: &Chain) -> bool {
    let of = |chain: &Chain| chain.keys.first().map(|key| key.algorithm);
    let keys = || one.keys.iter().zip(&other.keys);
    let in_order = [Some(TcpAoAlgorithm::HmacSha1), Some(TcpAoAlgorithm::Aes128Cmac)];
    !one.name.is_empty()
        && one.name == other.name
        && [of(one), of(other)] == in_order
        && one.keys.len() == other.keys.len()
        && keys()
            .all(|(one, other)| ChainKey { algorithm: other.algorithm, ..one.clone() }.is_same_key(other))
}

fn write_profile(text: &mut String, name: &str, chain: &Chain, losses: &mut Vec<String>) {
    lose_ranks(chain, losses);
    if chain.description.is_some() {
        losses.push(format!("chain {:?}: its description, which EOS does not have", chain.name));
    }
    if chain.accept_tolerance != 0 {
        losses.push(format!("chain {:?}: its tolerance, which EOS does not have", chain.name));
    }
    let _ = writeln!(text, "   session shared-secret profile {name}");
    for key in &chain.keys {
        let name = chain.name_of(key);
        if key.key_id != u64::from(key.send_id.0) {
            losses.push(format!("key {name}: its number, because EOS identifies keys by their ids"));
        }
        if [key.send.from(), key.accept.from()].into_iter().flatten().any(|start| start <= FIRST_MOMENT) {
            losses.push(format!("key {name}: a start before 1970"));
        }
        write_secret(text, key);
        write_lifetimes(text, key);
    }
    text.push_str("   !\n");
}

pub(super) fn write_secret(text: &mut String, key: &ChainKey) {
    let _ = write!(text, "      secret {} 0 ", key.send_id);
    text.extend(key.secret.expose().iter().map(|octet| char::from(*octet)));
}

/// The rest of a secret's line.
pub(super) fn write_lifetimes(text: &mut String, key: &ChainKey) {
    for (field, lifetime) in [("receive-lifetime", key.accept), ("transmit-lifetime", key.send)] {
        let _ = write!(text, " {field}");
        let from = lifetime.from().filter(|from| *from > FIRST_MOMENT);
        if from.is_some() || lifetime.until().is_some() {
            write_moment(text, Some(from.unwrap_or(FIRST_MOMENT)));
        }
        write_moment(text, lifetime.until());
    }
    text.push('\n');
}

/// ` 2026-01-31 00:00:00`, or ` infinite`.
fn write_moment(text: &mut String, moment: Option<Timestamp>) {
    match moment {
        None => text.push_str(" infinite"),
        Some(moment) => {
            // 2026-01-31T00:00:00Z
            let _ = write!(text, " {}", moment.to_string().replace('T', " ").trim_end_matches('Z'));
        }
    }
}
