//! Writing GoBGP's configuration in TOML: the keychains, then the neighbors and peer groups with them.

use std::collections::HashSet;
use std::fmt::{self, Write};

use base64ct::{Base64, Encoding};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, OptionCoverage};
use zeroize::Zeroizing;

use super::super::file::{Chain, ChainKey, LINK_LOCAL, Neighbor, Preference, is_link_local};
use super::super::write::Names;
use crate::Lifetime;
use crate::toml::write_string;

/// The names of `crypto-algorithm`, with the octets of their MACs. GoBGP sets Linux's algorithms, KDF included.
pub(super) const ALGORITHMS: [(&str, TcpAoAlgorithm, usize); 4] = [
    ("hmac_sha_1_96", TcpAoAlgorithm::HmacSha1, 12),
    ("aes_128_cmac_96", TcpAoAlgorithm::Aes128Cmac, 12),
    ("hmac_sha_256_96", TcpAoAlgorithm::LinuxHmacSha256, 12),
    ("hmac_sha_256_128", TcpAoAlgorithm::LinuxHmacSha256, 16),
];

pub(super) fn algorithm_name(algorithm: TcpAoAlgorithm, mac_length: usize) -> Option<&'static str> {
    let known =
        ALGORITHMS.into_iter().find(|(_, known, length)| (*known, *length) == (algorithm, mac_length));
    known.map(|(name, ..)| name)
}

/// The names of the key that a neighbor starts with: development versions had the second before it became the first in review.
pub(super) const SEND_ID: [&str; 2] = ["send-id", "preferred-send-id"];

/// The chain without keys whose ids another key has, and without neighbors that have a chain already.
pub(super) fn that_can_be(
    mut chain: Chain,
    taken: &mut HashSet<Neighbor>,
    losses: &mut Vec<String>,
) -> Option<Chain> {
    let (mut send_ids, mut recv_ids) = (HashSet::new(), HashSet::new());
    let names: Vec<_> = chain.keys.iter().map(|key| chain.name_of(key)).collect();
    let mut names = names.iter();
    chain.keys.retain(|key| {
        let name = names.next().map_or("", String::as_str);
        let is_free = !send_ids.contains(&key.send_id) && !recv_ids.contains(&key.recv_id);
        if is_free {
            send_ids.insert(key.send_id);
            recv_ids.insert(key.recv_id);
        } else {
            losses.push(format!(
                "key {name} is left out: GoBGP refuses a second key with its SendID or RecvID"
            ));
        }
        is_free
    });
    chain.neighbors.retain(|neighbor| {
        let is_free = taken.insert(Neighbor::from(neighbor.address));
        if !is_free {
            losses.push(format!("chain {:?}: {neighbor}, which uses another chain", chain.name));
        }
        is_free
    });
    Some(chain)
}

/// Writes the chains, then their neighbors; prefixes as ranges of a peer group.
pub(super) fn write(text: &mut String, chains: &[Chain], losses: &mut Vec<String>) {
    let mut names = Names::new(|_| true);
    text.push_str("# Add [global.config], and the peer-as of each neighbor and peer group.\n");
    for chain in chains {
        lose_what_gobgp_lacks(chain, losses);
        let name = names.name(chain, losses);
        text.push_str("\n[[keychains]]\n  [keychains.config]\n    ");
        write_string(text, "name", &name);
        chain.keys.iter().for_each(|key| write_key(text, key));
        let first = start(chain).map_or(KeyId(0), |key| key.send_id);
        let (hosts, ranges): (Vec<_>, Vec<_>) = chain.neighbors.iter().partition(|neighbor| is_one(neighbor));
        for neighbor in hosts {
            write_neighbor(text, neighbor);
            write_attachment(text, "neighbors", &name, first);
        }
        if ranges.is_empty() {
            continue;
        }
        text.push_str("\n[[peer-groups]]\n  [peer-groups.config]\n    ");
        write_string(text, "peer-group-name", &name);
        write_attachment(text, "peer-groups", &name, first);
        for range in ranges {
            for lost in [&range.vrf, &range.interface].into_iter().flatten() {
                losses.push(format!("chain {:?}: {lost} of {}", chain.name, range.address));
            }
            let _ = write!(
                text,
                "\n[[dynamic-neighbors]]\n  [dynamic-neighbors.config]\n    prefix = \"{:#}\"\n    ",
                range.address
            );
            write_string(text, "peer-group", &name);
        }
    }
}

/// Whether it is a neighbor of its own, not a range of them.
fn is_one(neighbor: &Neighbor) -> bool {
    neighbor.address.is_host_address()
        || neighbor.interface.is_some() && LINK_LOCAL.parse() == Ok(neighbor.address)
}

/// The key that neighbors start with: a preferred one, or else the first that is not deprecated.
fn start(chain: &Chain) -> Option<&ChainKey> {
    chain.keys.iter().min_by_key(|key| key.preference)
}

fn lose_what_gobgp_lacks(chain: &Chain, losses: &mut Vec<String>) {
    let start = start(chain).map(|key| key.send_id);
    for key in &chain.keys {
        let name = chain.name_of(key);
        if key.key_id != u64::from(key.send_id.0) {
            losses.push(format!("key {name}: its number, because GoBGP identifies keys by their SendIDs"));
        }
        if (key.send, key.accept) != (Lifetime::ALWAYS, Lifetime::ALWAYS) {
            losses.push(format!("key {name}: its lifetimes, which GoBGP does not have"));
        }
        let is_start = Some(key.send_id) == start && !chain.neighbors.is_empty();
        match key.preference {
            Preference::Deprecated => {
                losses.push(format!("key {name}: its being deprecated, which GoBGP does not have"));
            }
            Preference::Preferred if !is_start => {
                losses
                    .push(format!("key {name}: its being preferred, which GoBGP has once for each neighbor"));
            }
            Preference::Ordinary if is_start => {
                losses.push(format!(
                    "key {name} is preferred, because GoBGP's neighbors need one key to start with"
                ));
            }
            _ => {}
        }
    }
    if chain.accept_tolerance != 0 {
        losses.push(format!("chain {:?}: its tolerance, which GoBGP does not have", chain.name));
    }
    if chain.description.is_some() {
        losses.push(format!("chain {:?}: its description, which GoBGP does not have", chain.name));
    }
}

fn write_key(text: &mut String, key: &ChainKey) {
    text.push_str("\n  [[keychains.keys]]\n    [keychains.keys.config]\n");
    write_members(text, key, |text, name, value| _ = writeln!(text, "      {name} = {value}"));
}

/// Writes the members of a key's `config`, each as `write` does with its name and its value.
pub(super) fn write_members(
    text: &mut String,
    key: &ChainKey,
    mut write: impl FnMut(&mut String, &str, fmt::Arguments<'_>),
) {
    let octets = key.secret.expose();
    let mut base64 = Zeroizing::new(vec![0; Base64::encoded_len(octets)]);
    let secret = Base64::encode(octets, &mut base64).expect("the buffer is as long as its text");
    let algorithm = algorithm_name(key.algorithm, key.mac_length).unwrap_or_default();
    write(text, "key-id", format_args!("{}", key.send_id));
    write(text, "receive-id", format_args!("{}", key.recv_id));
    write(text, "crypto-algorithm", format_args!("\"{algorithm}\""));
    write(text, "secret-key", format_args!("\"{secret}\""));
    if key.options == OptionCoverage::Excluded {
        write(text, "exclude-tcp-options", format_args!("true"));
    }
}

fn write_neighbor(text: &mut String, neighbor: &Neighbor) {
    let Neighbor { vrf, address, interface } = neighbor;
    text.push_str("\n[[neighbors]]\n  [neighbors.config]\n    ");
    let mut bound = None;
    match interface.as_deref() {
        Some(interface) if !address.is_host_address() => write_string(text, "neighbor-interface", interface),
        Some(interface) if is_link_local(address) => {
            write_string(text, "neighbor-address", &format!("{}%{interface}", address.first_address()));
        }
        interface => {
            bound = interface;
            let _ = writeln!(text, "neighbor-address = \"{}\"", address.first_address());
        }
    }
    if let Some(vrf) = vrf {
        text.push_str("    ");
        write_string(text, "vrf", vrf);
    }
    if let Some(interface) = bound {
        text.push_str("  [neighbors.transport.config]\n    ");
        write_string(text, "bind-interface", interface);
    }
}

fn write_attachment(text: &mut String, of: &str, keychain: &str, send_id: KeyId) {
    let _ = write!(text, "  [{of}.tcp-ao.config]\n    ");
    write_string(text, "keychain", keychain);
    let _ = writeln!(text, "    send-id = {send_id}");
}
