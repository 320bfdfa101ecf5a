//! Writing configurations of IOS XR.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

use wireseal_tcp_ao::OptionCoverage;

use super::super::cisco::{
    ALL_OR_NONE, FIRST_MOMENT, coverage, keep_writable, lose_times, write_moment, write_secret,
};
use super::super::file::{Chain, ChainKey, Neighbor, is_link_local};
use super::super::write::{Names, key_ids, lose_ranks};
use crate::Lifetime;

/// The largest number of a key in a chain: six octets.
pub(super) const MAX_KEY_ID: u64 = (1 << 48) - 1;
/// The longest tolerance in seconds that is not infinite.
pub(super) const MAX_TOLERANCE: u32 = 8_640_000;

/// Writes key chains from [`that_can_be`], their ids, and the neighbors that use them.
pub(super) fn write(text: &mut String, chains: &[Chain], losses: &mut Vec<String>) {
    let mut names = Names::new(|c| c.is_ascii_graphic());
    let mut written: Vec<(String, &Chain, Vec<u64>)> = Vec::new();
    for chain in chains {
        // If neighbors use a chain both with and without TCP options, IOS XR still has one chain.
        let same = written.iter().find(|(_, other, _)| is_same_chain(other, chain));
        if let Some((name, _, ids)) = same.map(|(name, _, ids)| (name.clone(), (), ids.clone())) {
            written.push((name, chain, ids));
            continue;
        }
        lose_ranks(chain, losses);
        if chain.description.is_some() {
            losses.push(format!("chain {:?}: its description, which IOS XR does not have", chain.name));
        }
        let name = names.name(chain, losses);
        let ids = key_ids(chain, MAX_KEY_ID, losses);
        write_chain(text, &name, chain, &ids, losses);
        written.push((name, chain, ids));
    }
    text.push_str("tcp ao\n");
    for (index, (name, chain, ids)) in written.iter().enumerate() {
        if written[..index].iter().any(|(other, ..)| other == name) {
            continue;
        }
        let _ = writeln!(text, " keychain {name}");
        for (key, id) in chain.keys.iter().zip(ids) {
            let _ = writeln!(text, "  key {id} SendID {} ReceiveID {}", key.send_id, key.recv_id);
        }
        text.push_str(" !\n");
    }
    text.push_str("!\n");
    write_neighbors(text, &written, losses);
}

/// Writes `router bgp`, the neighbors outside of VRFs first: a line after those of a VRF would be read in it.
fn write_neighbors(text: &mut String, written: &[(String, &Chain, Vec<u64>)], losses: &mut Vec<String>) {
    let mut by_vrf: BTreeMap<Option<&str>, Vec<(&str, &Chain, &Neighbor)>> = BTreeMap::new();
    for (name, chain, _) in written {
        for neighbor in &chain.neighbors {
            by_vrf.entry(neighbor.vrf.as_deref()).or_default().push((name, chain, neighbor));
        }
    }
    if by_vrf.is_empty() {
        return;
    }
    text.push_str("! Replace AS with the AS number.\nrouter bgp AS\n");
    for (vrf, neighbors) in by_vrf {
        let indentation = match vrf {
            Some(vrf) => {
                let _ = writeln!(text, " vrf {vrf}");
                "  "
            }
            None => " ",
        };
        for (name, chain, Neighbor { address, interface, .. }) in neighbors {
            let include = match coverage(chain) {
                OptionCoverage::Covered => "enable",
                OptionCoverage::Excluded => "disable",
            };
            let _ = writeln!(text, "{indentation}neighbor {address}");
            match interface {
                Some(interface) if is_link_local(address) && is_interface(interface) => {
                    let _ = writeln!(text, "{indentation} update-source {interface}");
                }
                Some(interface) => {
                    losses.push(format!("chain {:?}: the interface {interface} of {address}", chain.name));
                }
                None if is_link_local(address) => losses.push(format!(
                    "chain {:?}: the interface of {address}, which is link-local: add \"update-source\"",
                    chain.name
                )),
                None => {}
            }
            let _ = writeln!(text, "{indentation} ao {name} include-tcp-options {include}\n{indentation}!");
        }
        if vrf.is_some() {
            text.push_str(" !\n");
        }
    }
    text.push_str("!\n");
}

/// Whether it is IOS XR that names an interface like this.
fn is_interface(name: &str) -> bool {
    const KINDS: [&str; 6] = ["Bundle-", "BVI", "GigabitEthernet", "MgmtEth", "tunnel-", "PW-"];
    let starts = |kind: &str| name.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind));
    // TenGigE0/0/0/0, HundredGigE0/0/0/0.100
    let is_fast = name.split_once('/').is_some_and(|(kind, _)| kind.contains("GigE"));
    name.bytes().all(|c| c.is_ascii_graphic()) && (is_fast || KINDS.into_iter().any(starts))
}

/// Whether a lifetime has a start or an end.
pub(super) fn is_bounded(key: &ChainKey) -> bool {
    [key.send, key.accept].iter().any(|lifetime| *lifetime != Lifetime::ALWAYS)
}

/// The chain without the neighbors `taken` by chains before it, without those whose VRF cannot be named, and without keys that cannot be
/// written beside the first one.
pub(super) fn that_can_be(
    chain: Chain,
    taken: &mut HashSet<Neighbor>,
    losses: &mut Vec<String>,
) -> Option<Chain> {
    let mut kept = chain.clone();
    let mut own = HashSet::new();
    kept.neighbors.retain(|neighbor| {
        // IOS XR tells neighbors apart by these two.
        let identity = Neighbor { interface: None, ..neighbor.clone() };
        let is_word = |name: &String| !name.is_empty() && name.bytes().all(|c| c.is_ascii_graphic());
        if taken.contains(&identity) {
            losses.push(format!("chain {:?}: {identity}, which uses another chain", chain.name));
            return false;
        }
        if let Some(vrf) = neighbor.vrf.as_ref().filter(|vrf| !is_word(vrf)) {
            losses.push(format!(
                "chain {:?}: {}, because {vrf:?} cannot be the name of a VRF",
                chain.name, neighbor.address
            ));
            return false;
        }
        own.insert(identity)
    });
    // By default, a neighbor's options are covered.
    let is_said = !kept.neighbors.is_empty();
    let options = if is_said { coverage(&chain) } else { OptionCoverage::Covered };
    let why_not = match is_said {
        true => ALL_OR_NONE,
        false => "excludes TCP options at the neighbor, and its chain has no neighbor",
    };
    keep_writable(&mut kept, "IOS XR", options, why_not, losses);
    // IOS XR refuses a key whose two lifetimes differ. The shorter one keeps the moment at which the next key takes over.
    kept.keys.retain_mut(|key| {
        if key.send == key.accept {
            return true;
        }
        let name = chain.name_of(key);
        let Some(both) = key.send.common(&key.accept) else {
            losses.push(format!("key {name} is left out: its send and accept lifetimes never overlap"));
            return false;
        };
        (key.send, key.accept) = (both, both);
        losses.push(format!(
            "key {name}: its send and accept lifetimes differ, which IOS XR refuses; both are the time that they share, and the chain's \
             accept-tolerance is what is accepted around it"
        ));
        true
    });
    if kept.keys.is_empty() {
        return None;
    }
    taken.extend(own);
    Some(kept)
}

fn is_same_chain(one: &Chain, other: &Chain) -> bool {
    let keys = || one.keys.iter().zip(&other.keys);
    !one.name.is_empty()
        && one.name == other.name
        && one.accept_tolerance == other.accept_tolerance
        && coverage(one) != coverage(other)
        && !one.neighbors.is_empty()
        && !other.neighbors.is_empty()
        && one.keys.len() == other.keys.len()
        && keys().all(|(one, other)| ChainKey { options: other.options, ..one.clone() }.is_same_key(other))
}

pub(super) fn write_chain(
    text: &mut String,
    name: &str,
    chain: &Chain,
    ids: &[u64],
    losses: &mut Vec<String>,
) {
    let _ = writeln!(text, "key chain {name}");
    // Without this, lifetimes are in the router's local time.
    if chain.keys.iter().any(is_bounded) {
        text.push_str(" timezone gmt\n");
    }
    match chain.accept_tolerance {
        0 => {}
        u32::MAX => text.push_str(" accept-tolerance infinite\n"),
        seconds => {
            if seconds > MAX_TOLERANCE {
                losses.push(format!(
                    "chain {:?}: its tolerance of {seconds} s, of which IOS XR has {MAX_TOLERANCE} s at most",
                    chain.name
                ));
            }
            let _ = writeln!(text, " accept-tolerance {}", seconds.min(MAX_TOLERANCE));
        }
    }
    for (key, id) in chain.keys.iter().zip(ids) {
        let _ = writeln!(text, " key {id}");
        write_lifetime(text, "accept-lifetime", &key.accept);
        text.push_str("  key-string ");
        write_secret(text, &key.secret, ["clear", "password"]);
        write_lifetime(text, "send-lifetime", &key.send);
        let _ = writeln!(
            text,
            "  cryptographic-algorithm {}\n !",
            key.algorithm.ios_xr_name().unwrap_or_default()
        );
        lose_times(chain, key, "IOS XR", losses);
    }
    text.push_str("!\n");
}

pub(super) fn write_lifetime(text: &mut String, field: &str, lifetime: &Lifetime) {
    let _ = write!(text, "  {field} ");
    write_moment(text, lifetime.from().unwrap_or(FIRST_MOMENT));
    match lifetime.until() {
        None => text.push_str(" infinite\n"),
        Some(until) => {
            text.push(' ');
            write_moment(text, until);
            text.push('\n');
        }
    }
}
