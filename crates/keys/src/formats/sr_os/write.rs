//! Writing keychains, and the BGP neighbors that use them, in MD-CLI's braces.

use std::collections::HashSet;
use std::fmt::Write;

use super::super::file::{Chain, ChainKey, Neighbor};
use super::super::write::{Names, lose_ranks, push_escaped};
use super::entry::{MAX_TOLERANCE, NO_START_BEFORE, algorithm_name, encryption_inside};
use crate::{Lifetime, Timestamp};

/// The begin of the last of the keys without a start; the others' are minutes later.
const NO_START: Timestamp = Timestamp::from_unix_seconds(946_684_800);

/// The chain without the keys that SR OS cannot have, and without the neighbors `taken` by chains before it.
pub(super) fn that_can_be(
    mut chain: Chain,
    taken: &mut HashSet<Neighbor>,
    losses: &mut Vec<String>,
) -> Option<Chain> {
    let are_pairs = !is_bidirectional(&chain);
    let mut keys: Vec<ChainKey> = Vec::with_capacity(chain.keys.len());
    for key in &chain.keys {
        match refusal(key, &keys, are_pairs) {
            Some(reason) => losses.push(format!("key {} is left out: {reason}", chain.name_of(key))),
            None => keys.push(key.clone()),
        }
    }
    if keys.is_empty() {
        return None;
    }
    chain.keys = keys;
    let mut own = HashSet::new();
    for neighbor in &chain.neighbors {
        if taken.contains(neighbor) {
            losses.push(format!("chain {:?}: {neighbor}, which uses another chain", chain.name));
        }
    }
    chain.neighbors.retain(|neighbor| !taken.contains(neighbor) && own.insert(neighbor.clone()));
    for Neighbor { address, interface, .. } in &chain.neighbors {
        if let Some(interface) = interface.as_ref().filter(|_| !address.is_host_address()) {
            losses.push(format!("chain {:?}: the interface {interface} of {address}", chain.name));
        }
    }
    taken.extend(own);
    Some(chain)
}

/// Why a key cannot be an entry beside these, or a pair of entries.
fn refusal(key: &ChainKey, others: &[ChainKey], are_pairs: bool) -> Option<&'static str> {
    let lifetimes = [key.send, key.accept];
    let secret = key.secret.expose();
    if str::from_utf8(secret).is_ok_and(|secret| encryption_inside(secret).is_some()) {
        Some("its secret ends with a word that says to SR OS that it is encrypted")
    } else if lifetimes.iter().any(|lifetime| lifetime.is_over(NO_START_BEFORE)) {
        Some("it expired before 2000, and SR OS is younger")
    } else if others.iter().any(|other| other.send_id == key.send_id || other.recv_id == key.recv_id) {
        Some("another key has its SendID or RecvID, which SR OS uses as numbers of entries")
    } else if are_pairs
        && others.iter().any(|other| other.secret.expose() == secret && other.algorithm == key.algorithm)
    {
        Some(
            "another key has its secret, which is all that shows which send entry and receive entry are one key",
        )
    } else {
        None
    }
}

/// Whether each key can be one entry for both directions, which has one number and no end.
fn is_bidirectional(chain: &Chain) -> bool {
    let has_no_end =
        |key: &ChainKey| key.accept == key.send.from().map_or(Lifetime::ALWAYS, Lifetime::starting);
    chain.keys.iter().all(|key| key.send_id == key.recv_id && has_no_end(key))
}

/// Writes chains from [`that_can_be`], and the neighbors that use them.
pub(super) fn write(text: &mut String, chains: &[Chain], losses: &mut Vec<String>) {
    let mut names = Names::new(|c| c == ' ' || c.is_ascii_graphic() && !"\"\\".contains(c));
    let named: Vec<_> = chains.iter().map(|chain| (names.name(chain, losses), chain)).collect();
    text.push_str("configure {\n    system {\n        security {\n            keychains {\n");
    for (name, chain) in &named {
        write_keychain(text, name, chain, losses);
    }
    text.push_str("            }\n        }\n    }\n");
    if chains.iter().any(|chain| !chain.neighbors.is_empty()) {
        text.push_str("    # Add each neighbor's group, and the AS numbers.\n");
    }
    for (name, chain) in &named {
        for neighbors in chain.neighbors.chunk_by(|one, other| one.vrf == other.vrf) {
            write_neighbors(text, name, neighbors);
        }
    }
    text.push_str("}\n");
}

fn write_keychain(text: &mut String, keychain: &str, chain: &Chain, losses: &mut Vec<String>) {
    lose_ranks(chain, losses);
    let _ = writeln!(text, "                keychain \"{keychain}\" {{");
    match chain.description.as_deref() {
        Some("") => losses.push(format!("chain {:?}: its description, which is empty", chain.name)),
        Some(description) => {
            text.push_str("                    description \"");
            push_escaped(text, description.chars());
            text.push_str("\"\n");
        }
        None => {}
    }
    text.push_str("                    tcp-option-number {\n                        receive tcp-ao\n");
    text.push_str("                        send tcp-ao\n                    }\n");
    for key in &chain.keys {
        lose_what_entries_have_not(chain, key, losses);
    }
    if !matches!(chain.accept_tolerance, u32::MAX) && chain.accept_tolerance > MAX_TOLERANCE / 2 {
        losses.push(format!("chain {:?}: its tolerance above {} seconds", chain.name, MAX_TOLERANCE / 2));
    }
    if is_bidirectional(chain) {
        text.push_str("                    bidirectional {\n");
        for (index, key) in chain.keys.iter().enumerate() {
            begin_entry(text, key.send_id.0, key, begin(key.send, chain, index));
            end_entry(text, Some((chain.accept_tolerance, None)));
        }
    } else {
        text.push_str("                    receive {\n");
        for (index, key) in chain.keys.iter().enumerate() {
            begin_entry(text, key.recv_id.0, key, begin(key.accept, chain, index));
            end_entry(text, Some((chain.accept_tolerance, key.accept.until())));
        }
        text.push_str("                    }\n                    send {\n");
        for (index, key) in chain.keys.iter().enumerate() {
            begin_entry(text, key.send_id.0, key, begin(key.send, chain, index));
            end_entry(text, None);
        }
    }
    text.push_str("                    }\n                }\n");
}

fn lose_what_entries_have_not(chain: &Chain, key: &ChainKey, losses: &mut Vec<String>) {
    let key_name = chain.name_of(key);
    if key.key_id != u64::from(key.send_id.0) {
        losses.push(format!("key {key_name}: its number, because SR OS identifies keys by their ids"));
    }
    let starts = [key.send.from(), key.accept.from()];
    if starts.into_iter().flatten().any(|start| start < NO_START_BEFORE) {
        losses.push(format!("key {key_name}: a start before 2000, and SR OS is younger"));
    }
    let starts = chain.keys.iter().filter_map(|other| other.send.from());
    let next = key.send.from().and_then(|from| starts.filter(|start| *start > from).min());
    if key.send.until() != next {
        losses.push(format!(
            "key {key_name}: the end of its send lifetime; in SR OS a key is used for sending until the next one begins"
        ));
    }
}

/// When an entry begins. Those without a start get different ones, the first key the latest.
pub(super) fn begin(lifetime: Lifetime, chain: &Chain, index: usize) -> Timestamp {
    let later = 60 * (chain.keys.len() - 1 - index) as u32;
    lifetime.from().unwrap_or_else(|| NO_START.later_by(later))
}

pub(super) fn begin_entry(text: &mut String, number: u8, key: &ChainKey, begin: Timestamp) {
    let _ = write!(
        text,
        "                        entry {number} {{\n                            authentication-key \""
    );
    push_escaped(text, key.secret.expose().iter().map(|octet| char::from(*octet)));
    let algorithm = algorithm_name(key.algorithm).unwrap_or_default();
    let _ = write!(text, "\"\n                            algorithm {algorithm}\n");
    write_moment(text, "begin-time", begin);
}

/// The rest of an entry, for one that is received with the tolerance and the end.
pub(super) fn end_entry(text: &mut String, received: Option<(u32, Option<Timestamp>)>) {
    if let Some((tolerance, end)) = received {
        if let Some(end) = end {
            write_moment(text, "end-time", end);
        }
        text.push_str("                            ");
        write_tolerance(text, tolerance);
    }
    text.push_str("                        }\n");
}

/// The tolerance of an entry, half of which is for each end of its lifetime.
pub(super) fn write_tolerance(text: &mut String, tolerance: u32) {
    let _ = match tolerance {
        u32::MAX => writeln!(text, "tolerance infinite"),
        half => writeln!(text, "tolerance {}", half.saturating_mul(2).min(MAX_TOLERANCE)),
    };
}

/// `2026-01-31T00:00:00.0Z`
fn write_moment(text: &mut String, field: &str, moment: Timestamp) {
    let moment = moment.to_string();
    let _ = writeln!(text, "                            {field} {}.0Z", moment.trim_end_matches('Z'));
}

/// Writes neighbors of one VRF.
fn write_neighbors(text: &mut String, keychain: &str, neighbors: &[Neighbor]) {
    let vrf = neighbors.first().and_then(|neighbor| neighbor.vrf.as_ref());
    match vrf {
        Some(vrf) => {
            text.push_str("    service {\n        vprn \"");
            push_escaped(text, vrf.chars());
            text.push_str("\" {\n            bgp {\n");
        }
        None => text.push_str("    router \"Base\" {\n        bgp {\n"),
    }
    let indent = if vrf.is_some() { "                " } else { "            " };
    for Neighbor { address, interface, .. } in neighbors {
        if address.is_host_address() {
            let _ = write!(text, "{indent}neighbor \"{}", address.first_address());
            if let Some(interface) = interface {
                text.push('-');
                push_escaped(text, interface.chars());
            }
            let _ = write!(text, "\" {{\n{indent}    authentication-keychain \"{keychain}\"\n{indent}}}\n");
        } else {
            let _ = write!(
                text,
                "{indent}group \"{keychain}\" {{\n{indent}    authentication-keychain \"{keychain}\"\n{indent}    \
                 dynamic-neighbor {{\n{indent}        match {{\n{indent}            prefix {address} {{\n{indent}            \
                 }}\n{indent}        }}\n{indent}    }}\n{indent}}}\n"
            );
        }
    }
    text.push_str(if vrf.is_some() { "            }\n        }\n    }\n" } else { "        }\n    }\n" });
}
