//! Writing Junos configuration, with braces.

use std::collections::HashSet;
use std::fmt::Write;

use wireseal_tcp_ao::OptionCoverage;

use super::super::file::{Chain, ChainKey, Neighbor, is_link_local};
use super::super::obscured::to_junos_nine;
use super::super::write::{Names, key_ids, lose_ranks, push_escaped};
use super::chains::{MAX_KEY_ID, MAX_TOLERANCE, NO_START_BEFORE};
use crate::{Lifetime, Timestamp};

/// The chain with every address once in each routing instance, because a group of Junos names a neighbor by its address alone.
pub(super) fn that_can_be(mut chain: Chain, losses: &mut Vec<String>) -> Chain {
    let mut known = HashSet::new();
    let neighbors = std::mem::take(&mut chain.neighbors);
    let (kept, lost): (Vec<_>, Vec<_>) =
        neighbors.into_iter().partition(|neighbor| known.insert((neighbor.vrf.clone(), neighbor.address)));
    chain.neighbors = kept;
    losses.extend(lost.iter().map(|neighbor| {
        format!("chain {:?}: {neighbor}, whose address a group of Junos has once", chain.name)
    }));
    chain
}

/// Writes key chains, and a BGP group for each chain with peers.
pub(super) fn write(text: &mut String, chains: &[Chain], losses: &mut Vec<String>) {
    let mut names = Names::new(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    let named: Vec<_> = chains.iter().map(|chain| (names.name(chain, losses), chain)).collect();
    text.push_str("security {\n    authentication-key-chains {\n");
    for (name, chain) in &named {
        write_chain(text, name, chain, losses);
    }
    text.push_str("    }\n}\n");
    if chains.iter().all(|chain| chain.neighbors.is_empty()) {
        return;
    }
    // The routing instance whose block is open.
    let mut open: Option<Option<String>> = None;
    for (name, chain) in &named {
        for neighbors in chain.neighbors.chunk_by(|one, other| one.vrf == other.vrf) {
            let instance = neighbors[0].vrf.as_ref().map(|vrf| routing_instance(chain, vrf, losses));
            if open.as_ref() != Some(&instance) {
                open.iter().for_each(|open| close(text, open.as_ref()));
                if let Some(instance) = &instance {
                    let _ = write!(text, "routing-instances {{\n    \"{instance}\" {{\n");
                }
                text.push_str("protocols {\n    bgp {\n");
                open = Some(instance);
            }
            let _ = writeln!(
                text,
                "        group \"{name}\" {{\n            authentication-algorithm ao;\n            authentication-key-chain \
                 \"{name}\";"
            );
            neighbors.iter().for_each(|neighbor| write_neighbor(text, chain, neighbor, losses));
            text.push_str("        }\n");
        }
    }
    open.iter().for_each(|open| close(text, open.as_ref()));
}

/// Closes the block of BGP, and of its routing instance.
fn close(text: &mut String, instance: Option<&String>) {
    text.push_str("    }\n}\n");
    if instance.is_some() {
        text.push_str("    }\n}\n");
    }
}

/// The name of a routing instance, only with characters that need no escapes.
fn routing_instance(chain: &Chain, vrf: &str, losses: &mut Vec<String>) -> String {
    let is_kept = |c: &char| c.is_ascii_alphanumeric() || "_-.:/@".contains(*c);
    let name: String = vrf.chars().map(|c| if is_kept(&c) { c } else { '_' }).collect();
    if name != vrf {
        losses.push(format!("chain {:?}: the VRF {vrf:?} is named {name}", chain.name));
    }
    name
}

fn write_neighbor(text: &mut String, chain: &Chain, neighbor: &Neighbor, losses: &mut Vec<String>) {
    let Neighbor { address, interface, .. } = neighbor;
    let own = interface.as_deref().filter(|name| address.is_host_address() && is_interface(name));
    let lost = match interface {
        Some(interface) if own.is_none() => Some(format!("the interface {interface} of {address}")),
        None if is_link_local(address) => {
            Some(format!("has no interface of {address}, which Junos requires"))
        }
        _ => None,
    };
    losses.extend(lost.iter().map(|lost| format!("chain {:?}: {lost}", chain.name)));
    let _ = match own {
        _ if !address.is_host_address() => writeln!(text, "            allow {address};"),
        Some(interface) => writeln!(
            text,
            "            neighbor {address} {{\n                local-interface {interface};\n            }}"
        ),
        None if lost.is_some() => {
            writeln!(text, "            neighbor {address}; ## Add its local-interface.")
        }
        None => writeln!(text, "            neighbor {address};"),
    };
}

/// Whether an interface can be one of Junos, such as `ge-0/0/0.0`, `ae1.100` or `irb.5`.
fn is_interface(name: &str) -> bool {
    let is_virtual = |kind: &&str| {
        let rest = name.strip_prefix(*kind);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    };
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || "-/:.".contains(c));
    is_word && (name.contains('/') || ["ae", "irb", "reth"].iter().any(is_virtual))
}

fn write_chain(text: &mut String, name: &str, chain: &Chain, losses: &mut Vec<String>) {
    lose_ranks(chain, losses);
    let _ = writeln!(text, "        key-chain \"{name}\" {{");
    if let Some(description) = &chain.description {
        text.push_str("            description \"");
        push_escaped(text, description.chars());
        text.push_str("\";\n");
    }
    let tolerance = chain.accept_tolerance.min(MAX_TOLERANCE);
    if tolerance != chain.accept_tolerance {
        losses.push(format!("chain {:?}: its tolerance above {MAX_TOLERANCE} seconds", chain.name));
    }
    let _ = writeln!(text, "            tolerance {tolerance};");
    let mut starts: Vec<_> = chain.keys.iter().filter_map(|key| key.send.from()).collect();
    starts.sort_unstable();
    for (index, (key, id)) in chain.keys.iter().zip(key_ids(chain, MAX_KEY_ID, losses)).enumerate() {
        let next = key.send.from().and_then(|from| starts.iter().find(|start| **start > from)).copied();
        let accept = key.send.from().map_or(Lifetime::ALWAYS, Lifetime::starting);
        if key.send.from().is_some_and(|from| from < NO_START_BEFORE) {
            losses.push(format!("key {}: a start before 1971", chain.name_of(key)));
        }
        if key.send.until() != next || key.accept != accept {
            losses.push(format!(
                "key {}: its lifetimes except for the start; in Junos a key is used for sending until the next one starts and \
                 accepted from its start on",
                chain.name_of(key)
            ));
        }
        write_key(text, id, key, start_of(key, index));
    }
    text.push_str("        }\n");
}

/// Keys without a start get different ones in 1970, because Junos requires that.
pub(super) fn start_of(key: &ChainKey, index: usize) -> Timestamp {
    key.send.from().unwrap_or(Timestamp::from_unix_seconds(60 * index as i64))
}

pub(super) fn write_key(text: &mut String, id: u64, key: &ChainKey, start: Timestamp) {
    let _ = writeln!(text, "            key {id} {{");
    text.push_str("                secret \"");
    let octets = key.secret.expose();
    if octets.iter().all(u8::is_ascii_graphic) && !octets.starts_with(b"$") {
        push_escaped(text, octets.iter().map(|octet| char::from(*octet)));
    } else {
        text.push_str(&to_junos_nine(octets));
    }
    text.push_str("\";\n");
    // 2026-01-31T00:00:00Z
    let written = start.to_string();
    let (date, time) = written.trim_end_matches('Z').split_once('T').unwrap_or_default();
    let _ = writeln!(text, "                start-time \"{date}.{time} +0000\";");
    let coverage = match key.options {
        OptionCoverage::Covered => "enabled",
        OptionCoverage::Excluded => "disabled",
    };
    let _ = write!(
        text,
        "                algorithm ao;\n                ao-attribute {{\n                    send-id {};\n                    \
         recv-id {};\n                    tcp-ao-option {coverage};\n                    cryptographic-algorithm {};\n                \
         }}\n            }}\n",
        key.send_id,
        key.recv_id,
        key.algorithm.junos_name().unwrap_or_default()
    );
}
