//! Junos configuration, with braces.

use std::fmt::Write;

use wireseal_keys::{Lifetime, Timestamp};
use wireseal_tcp_ao::OptionCoverage;

use super::names::{Names, key_ids, lose_preferences};
use crate::keys::junos::{MAX_TOLERANCE, NO_START_BEFORE};
use crate::keys::obscured::to_junos_nine;
use crate::keys::{Chain, ChainKey};

/// Key chains, and a BGP group for each chain with peers.
pub(super) fn write(text: &mut String, chains: &[Chain], losses: &mut Vec<String>) {
    let mut names = Names::new(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    let named: Vec<_> = chains.iter().map(|chain| (names.name(chain, losses), chain)).collect();
    text.push_str("security {\n    authentication-key-chains {\n");
    for (name, chain) in &named {
        write_chain(text, name, chain, losses);
    }
    text.push_str("    }\n}\n");
    if chains.iter().all(|chain| chain.peers.is_empty()) {
        return;
    }
    text.push_str("protocols {\n    bgp {\n");
    for (name, chain) in named.iter().filter(|(_, chain)| !chain.peers.is_empty()) {
        let _ = writeln!(
            text,
            "        group \"{name}\" {{\n            authentication-algorithm ao;\n            authentication-key-chain \
             \"{name}\";"
        );
        for peer in &chain.peers {
            let _ = match peer.is_host_address() {
                true => writeln!(text, "            neighbor {};", peer.first_address()),
                false => writeln!(text, "            allow {peer};"),
            };
        }
        text.push_str("        }\n");
    }
    text.push_str("    }\n}\n");
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
    for (index, (key, id)) in chain.keys.iter().zip(key_ids(chain, 63, losses)).enumerate() {
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

/// The inside of a string, with a backslash before quotes and backslashes.
fn push_escaped(text: &mut String, characters: impl Iterator<Item = char>) {
    for c in characters {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
}
