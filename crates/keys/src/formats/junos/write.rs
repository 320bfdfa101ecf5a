//! Writing Junos configuration, with braces.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::IpAddr;

use wireseal_tcp_ao::OptionCoverage;

use super::super::file::{Chain, ChainKey, Neighbor};
use super::super::obscured::to_junos_nine;
use super::super::write::{Names, key_ids, lose_preferences};
use super::chains::{MAX_KEY_ID, MAX_TOLERANCE, NO_START_BEFORE};
use crate::{Lifetime, Timestamp};

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
    let instances: BTreeSet<_> =
        chains.iter().flat_map(|chain| &chain.neighbors).map(|neighbor| neighbor.vrf.as_deref()).collect();
    for instance in instances {
        if let Some(instance) = instance {
            text.push_str("routing-instances {\n    \"");
            push_escaped(text, instance.chars());
            text.push_str("\" {\n");
        }
        text.push_str("protocols {\n    bgp {\n");
        for (name, chain) in &named {
            let mut neighbors =
                chain.neighbors.iter().filter(|neighbor| neighbor.vrf.as_deref() == instance).peekable();
            if neighbors.peek().is_some() {
                let _ = writeln!(
                    text,
                    "        group \"{name}\" {{\n            authentication-algorithm ao;\n            \
                     authentication-key-chain \"{name}\";"
                );
                neighbors.for_each(|neighbor| write_neighbor(text, chain, neighbor, losses));
                text.push_str("        }\n");
            }
        }
        text.push_str("    }\n}\n");
        if instance.is_some() {
            text.push_str("    }\n}\n");
        }
    }
}

fn write_neighbor(text: &mut String, chain: &Chain, neighbor: &Neighbor, losses: &mut Vec<String>) {
    let Neighbor { address, interface, .. } = neighbor;
    if !address.is_host_address() {
        let _ = writeln!(text, "            allow {address};");
        return;
    }
    let is_link_local =
        matches!(address.first_address(), IpAddr::V6(address) if address.is_unicast_link_local());
    let _ = match interface {
        Some(interface) if is_interface(interface) => {
            writeln!(
                text,
                "            neighbor {address} {{\n                local-interface {interface};\n            }}"
            )
        }
        Some(interface) => {
            losses.push(format!("chain {:?}: the interface {interface} of {address}", chain.name));
            writeln!(text, "            neighbor {address}; ## Add its local-interface.")
        }
        None if is_link_local => {
            losses
                .push(format!("chain {:?}: has no interface of {address}, which Junos requires", chain.name));
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
    lose_preferences(chain, losses);
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
fn start_of(key: &ChainKey, index: usize) -> Timestamp {
    key.send.from().unwrap_or(Timestamp::from_unix_seconds(60 * index as i64))
}

fn write_key(text: &mut String, id: u64, key: &ChainKey, start: Timestamp) {
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

/// The inside of a string, with a backslash before each quote and backslash.
fn push_escaped(text: &mut String, characters: impl Iterator<Item = char>) {
    for c in characters {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
}
