//! IOS XR configuration.

use std::collections::HashSet;
use std::fmt::Write;

use cidr::IpCidr;
use wireseal_keys::{Lifetime, Timestamp};
use wireseal_tcp_ao::OptionCoverage;

use super::names::{Names, key_ids, lose_preferences};
use crate::keys::ios_xr::{FIRST_MOMENT, LAST_YEAR, MAX_KEY_ID, MONTHS};
use crate::keys::obscured::to_cisco_seven;
use crate::keys::{Chain, ChainKey};

/// Key chains from [`that_can_be`], their ids, and the neighbors that use them.
pub(super) fn write(text: &mut String, chains: &[Chain], losses: &mut Vec<String>) {
    let mut names = Names::new(|c| c.is_ascii_graphic());
    let mut written: Vec<(String, &Chain, Vec<u64>)> = Vec::new();
    for chain in chains {
        // A chain that neighbors use both with and without TCP options is one chain in IOS XR.
        let same = written.iter().find(|(_, other, _)| is_same_chain(other, chain));
        if let Some((name, _, ids)) = same.map(|(name, _, ids)| (name.clone(), (), ids.clone())) {
            written.push((name, chain, ids));
            continue;
        }
        lose_preferences(chain, losses);
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
    if chains.iter().any(|chain| !chain.peers.is_empty()) {
        text.push_str("! Replace AS with the AS number.\nrouter bgp AS\n");
        for (name, chain, _) in &written {
            let include = match coverage(chain) {
                OptionCoverage::Covered => "enable",
                OptionCoverage::Excluded => "disable",
            };
            for peer in &chain.peers {
                let _ = writeln!(text, " neighbor {peer}\n  ao {name} include-tcp-options {include}\n !");
            }
        }
        text.push_str("!\n");
    }
}

fn coverage(chain: &Chain) -> OptionCoverage {
    chain.keys.first().map_or(OptionCoverage::Covered, |key| key.options)
}

/// The chain without the peers `taken` by chains before it, without keys whose coverage of TCP options differs from the first
/// one's (or that exclude them, if there is no peer to configure that at), and without keys that expired before 1993.
pub(super) fn that_can_be(
    chain: &Chain,
    taken: &mut HashSet<IpCidr>,
    losses: &mut Vec<String>,
) -> Option<Chain> {
    let is_over =
        |key: &ChainKey| [key.send, key.accept].iter().any(|lifetime| lifetime.is_over(FIRST_MOMENT));
    let mut kept = chain.clone();
    let mut own = HashSet::new();
    kept.peers.retain(|peer| !taken.contains(peer) && own.insert(*peer));
    for peer in chain.peers.iter().filter(|peer| taken.contains(*peer)) {
        losses.push(format!("chain {:?}: {peer}, which uses another chain", chain.name));
    }
    // Covered is the default of a neighbor.
    let is_said = !kept.peers.is_empty();
    let options = if is_said { coverage(chain) } else { OptionCoverage::Covered };
    kept.keys.retain(|key| !is_over(key) && key.options == options);
    for key in &chain.keys {
        let name = chain.name_of(key);
        if is_over(key) {
            losses.push(format!(
                "key {name} is left out: it expired before 1993, where lifetimes of IOS XR begin"
            ));
        } else if key.options != options {
            losses.push(format!(
                "key {name} is left out: {}",
                match is_said {
                    true => "IOS XR covers TCP options for all keys of a neighbor or for none",
                    false => "IOS XR excludes TCP options at the neighbor, and its chain has no neighbor",
                }
            ));
        }
    }
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
        && !one.peers.is_empty()
        && !other.peers.is_empty()
        && one.keys.len() == other.keys.len()
        && keys().all(|(one, other)| ChainKey { options: other.options, ..one.clone() }.is_same_key(other))
}

fn write_chain(text: &mut String, name: &str, chain: &Chain, ids: &[u64], losses: &mut Vec<String>) {
    let _ = writeln!(text, "key chain {name}");
    match chain.accept_tolerance {
        0 => {}
        u32::MAX => text.push_str(" accept-tolerance infinite\n"),
        seconds => {
            let _ = writeln!(text, " accept-tolerance {seconds}");
        }
    }
    for (key, id) in chain.keys.iter().zip(ids) {
        let _ = writeln!(text, " key {id}");
        write_lifetime(text, "accept-lifetime", &key.accept);
        text.push_str("  key-string ");
        let octets = key.secret.expose();
        // On the command line a question mark asks for help.
        if octets.iter().all(|octet| octet.is_ascii_graphic() && *octet != b'?') {
            text.push_str("clear ");
            text.extend(octets.iter().map(|octet| char::from(*octet)));
        } else {
            text.push_str("password ");
            text.push_str(&to_cisco_seven(octets));
        }
        text.push('\n');
        write_lifetime(text, "send-lifetime", &key.send);
        let _ = writeln!(
            text,
            "  cryptographic-algorithm {}\n !",
            key.algorithm.ios_xr_name().unwrap_or_default()
        );
        let is_outside = |moment: Timestamp| moment <= FIRST_MOMENT || year(moment) > LAST_YEAR;
        let moments = [key.send.from(), key.send.until(), key.accept.from(), key.accept.until()];
        if moments.into_iter().flatten().any(is_outside) {
            losses.push(format!(
                "key {}: IOS XR has no times before 1993-01-01T00:00:01Z or after {LAST_YEAR}",
                chain.name_of(key)
            ));
        }
    }
    text.push_str("!\n");
}

fn year(moment: Timestamp) -> u16 {
    moment.to_string().get(..4).and_then(|year| year.parse().ok()).unwrap_or(0)
}

fn write_lifetime(text: &mut String, field: &str, lifetime: &Lifetime) {
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

/// `00:00:00 january 31 2026`
fn write_moment(text: &mut String, moment: Timestamp) {
    // 2026-01-31T00:00:00Z
    let written = moment.to_string();
    let (date, time) = written.trim_end_matches('Z').split_once('T').unwrap_or_default();
    let mut date = date.split('-');
    let (year, month, day) =
        (date.next().unwrap_or_default(), date.next().unwrap_or_default(), date.next().unwrap_or_default());
    let month = month.parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
    let _ = write!(text, "{time} {} {day} {year}", month.copied().unwrap_or_default());
}
