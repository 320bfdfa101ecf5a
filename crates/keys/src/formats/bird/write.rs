//! Writing BIRD's configuration.

use std::collections::HashSet;
use std::fmt::Write;

use super::super::file::{Chain, ChainKey, Neighbor, Preference, is_link_local};
use super::super::obscured::push_octet;
use super::super::write::Names;
use crate::Lifetime;

/// Characters of the longest name, without a number after it; BIRD has 64.
const MAX_NAME: usize = 56;
/// Words that a protocol of BGP may need: a protocol with such a name takes its meaning away.
const KEYWORDS: [&str; 44] = [
    "algorithm",
    "all",
    "allow",
    "ao",
    "as",
    "authentication",
    "bfd",
    "bgp",
    "cmac",
    "default",
    "define",
    "deprecated",
    "description",
    "direct",
    "export",
    "external",
    "filter",
    "from",
    "hmac",
    "id",
    "import",
    "include",
    "interface",
    "internal",
    "ipv4",
    "ipv6",
    "key",
    "keys",
    "local",
    "multihop",
    "neighbor",
    "none",
    "passive",
    "port",
    "preferred",
    "protocol",
    "recv",
    "secret",
    "send",
    "static",
    "table",
    "template",
    "vrf",
    "where",
];

/// Writes a protocol for every peer of a chain, with nothing but its keys.
pub(super) fn write(text: &mut String, chains: &[Chain], losses: &mut Vec<String>) {
    let names = Names::new(|c| c.is_ascii_alphanumeric() || "_-.:".contains(c));
    let mut names = names.limited(MAX_NAME, &KEYWORDS);
    text.push_str("# Add to each protocol: \"local ... as\", the neighbor's \"as\", and the channels.\n");
    for chain in chains {
        for key in &chain.keys {
            let name = chain.name_of(key);
            if key.key_id != u64::from(key.send_id.0) {
                losses.push(format!("key {name}: its number, because BIRD identifies keys by their ids"));
            }
            if (key.send, key.accept) != (Lifetime::ALWAYS, Lifetime::ALWAYS) {
                losses.push(format!("key {name}: its lifetimes, which BIRD does not have"));
            }
        }
        if chain.accept_tolerance != 0 {
            losses.push(format!("chain {:?}: its tolerance, which BIRD does not have", chain.name));
        }
        if chain.neighbors.len() > 1 {
            losses.push(format!("chain {:?} is written once for each of its peers", chain.name));
        }
        let anyone = chain.neighbors.is_empty().then_some(None);
        for neighbor in chain.neighbors.iter().map(Some).chain(anyone) {
            write_protocol(text, &names.name(chain, losses), chain, neighbor, losses);
        }
    }
}

fn write_protocol(
    text: &mut String,
    name: &str,
    chain: &Chain,
    neighbor: Option<&Neighbor>,
    losses: &mut Vec<String>,
) {
    let _ = writeln!(text, "protocol bgp '{name}' {{");
    if let Some(description) = &chain.description {
        if description.contains(['"', '\n']) {
            losses.push(format!("chain {:?}: its description, which BIRD cannot quote", chain.name));
        } else {
            let _ = writeln!(text, "\tdescription \"{description}\";");
        }
    }
    match neighbor {
        None => {
            losses.push(format!("chain {:?}: has no neighbor, which BIRD requires", chain.name));
            text.push_str("\t# Add its neighbor too: \"neighbor ... as ...;\".\n");
        }
        Some(Neighbor { vrf, address, interface }) => {
            let _ = writeln!(text, "\tneighbor {address};");
            let requires = match interface {
                Some(interface) if is_name(interface) => {
                    let _ = writeln!(text, "\tinterface \"{interface}\";");
                    None
                }
                Some(interface) => {
                    Some(format!("the interface {interface} of {address}, a name that Linux does not have"))
                }
                None if is_link_local(address) => {
                    Some(format!("has no interface of {address}, which BIRD requires"))
                }
                None => None,
            };
            if let Some(required) = requires {
                losses.push(format!("chain {:?}: {required}", chain.name));
                text.push_str("\t# Add its interface: \"interface ...;\".\n");
            }
            match vrf {
                Some(vrf) if is_name(vrf) => _ = writeln!(text, "\tvrf \"{vrf}\";"),
                Some(vrf) => losses.push(format!(
                    "chain {:?}: the VRF {vrf} of {address}, a name that Linux does not have",
                    chain.name
                )),
                None => {}
            }
        }
    }
    text.push_str("\tauthentication ao;\n\tkeys {\n");
    chain.keys.iter().for_each(|key| write_key(text, key));
    text.push_str("\t};\n}\n");
}

/// Whether Linux can have an interface with this name, as it also has one for every VRF.
fn is_name(name: &str) -> bool {
    (1..16).contains(&name.len()) && name.chars().all(|c| c.is_ascii_graphic() && !"/\":".contains(c))
}

/// The chain without ranges of neighbors, with which BIRD refuses TCP-AO.
pub(super) fn that_can_be(
    mut chain: Chain,
    _: &mut HashSet<Neighbor>,
    losses: &mut Vec<String>,
) -> Option<Chain> {
    for Neighbor { address, .. } in chain.neighbors.iter().filter(|peer| !peer.address.is_host_address()) {
        losses
            .push(format!("chain {:?}: BIRD has no TCP-AO for a range of neighbors ({address})", chain.name));
    }
    chain.neighbors.retain(|neighbor| neighbor.address.is_host_address());
    Some(chain)
}

pub(super) fn write_key(text: &mut String, key: &ChainKey) {
    text.push_str("\t\tkey {\n");
    let _ = match key.send_id == key.recv_id {
        true => writeln!(text, "\t\t\tid {};", key.send_id),
        false => writeln!(text, "\t\t\tsend id {};\n\t\t\trecv id {};", key.send_id, key.recv_id),
    };
    text.push_str("\t\t\tsecret ");
    let octets = key.secret.expose();
    if octets.iter().all(|octet| matches!(octet, b' '..=b'~') && *octet != b'"') {
        text.push('"');
        text.extend(octets.iter().map(|octet| char::from(*octet)));
        text.push('"');
    } else {
        text.push_str("hex:");
        octets.iter().for_each(|octet| push_octet(text, *octet));
    }
    let _ = writeln!(text, ";\n\t\t\talgorithm {};", key.algorithm.bird_name().unwrap_or_default());
    match key.preference {
        Preference::Preferred => text.push_str("\t\t\tpreferred;\n"),
        Preference::Ordinary => {}
        Preference::Deprecated => text.push_str("\t\t\tdeprecated;\n"),
    }
    text.push_str("\t\t};\n");
}
