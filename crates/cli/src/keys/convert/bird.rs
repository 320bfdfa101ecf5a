//! BIRD configuration.

use std::fmt::Write;

use cidr::IpCidr;
use wireseal_keys::Lifetime;

use super::names::Names;
use crate::hex;
use crate::keys::{Chain, ChainKey, Preference};

/// One protocol for every peer of a chain, with only what is about its keys.
pub(super) fn write(text: &mut String, chains: &[Chain], losses: &mut Vec<String>) {
    let mut names = Names::new(|c| c.is_ascii_alphanumeric() || "_-.:".contains(c));
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
        if chain.peers.len() > 1 {
            losses.push(format!("chain {:?} is written once for each of its peers", chain.name));
        }
        let anyone = chain.peers.is_empty().then_some(None);
        for peer in chain.peers.iter().map(Some).chain(anyone) {
            write_protocol(text, &names.name(chain, losses), chain, peer, losses);
        }
    }
}

fn write_protocol(
    text: &mut String,
    name: &str,
    chain: &Chain,
    peer: Option<&IpCidr>,
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
    match peer {
        None => {
            losses.push(format!("chain {:?}: has no neighbor, which BIRD requires", chain.name));
            text.push_str("\t# Add its neighbor too: \"neighbor ... as ...;\".\n");
        }
        Some(peer) if peer.is_host_address() => {
            let _ = writeln!(text, "\tneighbor {};", peer.first_address());
        }
        Some(peer) => {
            losses.push(format!(
                "chain {:?}: BIRD has no TCP-AO for a range of neighbors ({peer})",
                chain.name
            ));
            let _ = writeln!(text, "\tneighbor range {peer};");
        }
    }
    text.push_str("\tauthentication ao;\n\tkeys {\n");
    chain.keys.iter().for_each(|key| write_key(text, key));
    text.push_str("\t};\n}\n");
}

fn write_key(text: &mut String, key: &ChainKey) {
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
        octets.iter().for_each(|octet| hex::push(text, *octet));
    }
    let _ = writeln!(text, ";\n\t\t\talgorithm {};", key.algorithm.bird_name().unwrap_or_default());
    match key.preference {
        Preference::Preferred => text.push_str("\t\t\tpreferred;\n"),
        Preference::Ordinary => {}
        Preference::Deprecated => text.push_str("\t\t\tdeprecated;\n"),
    }
    text.push_str("\t\t};\n");
}
