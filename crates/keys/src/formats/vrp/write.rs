//! Writing Huawei VRP configuration: one keychain and one policy of `tcp ao` for each chain.

use std::collections::HashSet;
use std::fmt::Write;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::OptionCoverage;

use super::super::file::{Chain, ChainKey, Neighbor};
use super::super::write::{Names, key_ids, lose_ranks};
use crate::{Lifetime, Timestamp};

/// Octets of the MAC of both algorithms.
pub(super) const MAC_LENGTH: usize = 12;
/// The largest number of a key in a keychain.
pub(super) const MAX_KEY_ID: u64 = 63;
/// The largest tolerance in minutes.
pub(super) const MAX_TOLERANCE: u32 = 14_400;
/// The earliest moment that VRP can express; a key that starts then has no start.
pub(super) const FIRST_MOMENT: Timestamp = Timestamp::from_unix_seconds(0);
/// The first moment after those that VRP can express, at the end of 2050.
const END: Timestamp = Timestamp::from_unix_seconds(2_556_144_000);

pub(super) const ALGORITHMS: [(TcpAoAlgorithm, &str); 2] =
    [(TcpAoAlgorithm::HmacSha1, "hmac-sha1-12"), (TcpAoAlgorithm::Aes128Cmac, "aes-128-cmac")];

pub(super) fn name_of(algorithm: TcpAoAlgorithm) -> Option<&'static str> {
    ALGORITHMS.iter().find(|(known, _)| *known == algorithm).map(|(_, name)| *name)
}

/// The chain with at most 64 keys, with the coverage of TCP options of its first key, without secrets and lifetimes that VRP does not
/// have, and with send lifetimes that do not overlap.
pub(super) fn that_can_be(mut chain: Chain, losses: &mut Vec<String>) -> Option<Chain> {
    let options = chain.keys.first()?.options;
    let names: Vec<_> = chain.keys.iter().map(|key| chain.name_of(key)).collect();
    let mut names = names.iter();
    let mut count = 0;
    chain.keys.retain_mut(|key| {
        let name = names.next().map_or("", String::as_str);
        let is_written = |octet: &u8| matches!(octet, b' '..=b'~') && !matches!(octet, b'?' | b'"');
        let lifetimes = [key.send, key.accept];
        let reason = match () {
            () if key.options != options => "VRP covers TCP options for all keys of a policy or for none",
            () if !key.secret.expose().iter().all(is_written) => {
                "VRP accepts only printable ASCII characters without question marks and quotes"
            }
            () if lifetimes.iter().any(|lifetime| lifetime.is_over(FIRST_MOMENT)) => "it expired before 1970",
            () if lifetimes.iter().any(|lifetime| lifetime.from().is_some_and(|from| from >= END)) => {
                "it starts after 2050, where times of VRP end"
            }
            () if count > MAX_KEY_ID => "VRP has at most 64 keys in a keychain",
            () => {
                count += 1;
                let [send, accept] = lifetimes.map(in_minutes);
                if [send, accept] != lifetimes {
                    losses.push(format!(
                        "key {name}: its lifetimes, for which VRP has minutes from 1970 to 2050"
                    ));
                }
                (key.send, key.accept) = (send, accept);
                return true;
            }
        };
        losses.push(format!("key {name} is left out: {reason}"));
        false
    });
    apart(&mut chain, losses);
    (!chain.keys.is_empty()).then_some(chain)
}

/// The lifetime in whole minutes of the years from 1970 to 2050.
fn in_minutes(lifetime: Lifetime) -> Lifetime {
    let minute = |moment: Timestamp| {
        let seconds = moment.unix_seconds();
        Timestamp::from_unix_seconds(seconds - seconds.rem_euclid(60))
    };
    let from = lifetime.from().map(minute).filter(|from| *from > FIRST_MOMENT);
    let until = lifetime.until().map(|until| minute(until.later_by(59))).filter(|until| *until < END);
    Lifetime::new(from, until).unwrap_or(lifetime)
}

/// Ends each send lifetime where the next begins, as a router does that sends with the key that started last, and leaves out keys that
/// start with another one: VRP refuses send-times that overlap.
fn apart(chain: &mut Chain, losses: &mut Vec<String>) {
    let mut starts = HashSet::new();
    let names: Vec<_> = chain.keys.iter().map(|key| chain.name_of(key)).collect();
    let mut names_left = names.iter();
    chain.keys.retain(|key| {
        let name = names_left.next().map_or("", String::as_str);
        let is_alone = key.send == Lifetime::ALWAYS || starts.insert(key.send.from());
        if !is_alone {
            losses.push(format!(
                "key {name} is left out: VRP refuses send-times that overlap, and another one starts with it"
            ));
        }
        is_alone
    });
    let mut starts: Vec<_> = starts.into_iter().flatten().collect();
    starts.sort_unstable();
    let names: Vec<_> = chain.keys.iter().map(|key| chain.name_of(key)).collect();
    for (key, name) in chain.keys.iter_mut().zip(names).filter(|(key, _)| key.send != Lifetime::ALWAYS) {
        let after = starts.partition_point(|start| key.send.from().is_some_and(|from| *start <= from));
        let Some(next) = starts.get(after).filter(|next| key.send.contains(**next)) else { continue };
        losses.push(format!(
            "key {name}: its send lifetime from {next} on: VRP refuses send-times that overlap"
        ));
        key.send = Lifetime::new(key.send.from(), Some(*next)).unwrap_or(key.send);
    }
}

/// Writes chains from [`that_can_be`], and the peers that use them.
pub(super) fn write(text: &mut String, chains: &[Chain], losses: &mut Vec<String>) {
    let mut names = Names::new(|c| c.is_ascii_graphic() && c != '?' && c != '"');
    let mut keychains = HashSet::new();
    // A peer has one policy. VRP knows it by its address and VPN instance.
    let mut taken = HashSet::new();
    let mut views: Vec<(Option<(&str, bool)>, String)> = vec![(None, String::new())];
    for chain in chains {
        let mut name = names.name(chain, losses);
        // Names of keychains do not differ in case alone.
        while !keychains.insert(name.to_ascii_lowercase()) {
            name.push('_');
            losses.push(format!("chain {:?} is named {name}", chain.name));
        }
        write_chain(text, &name, chain, losses);
        for Neighbor { vrf, address, interface } in &chain.neighbors {
            let view = vrf.as_deref().map(|vrf| (vrf, address.is_ipv6()));
            let reason = match () {
                () if !address.is_host_address() => ", because VRP names peers by their addresses",
                () if interface.is_some() => ", because VRP has no interface there",
                () if !taken.insert((vrf, address)) => ", which uses another chain",
                () => {
                    let at = views.iter().position(|(known, _)| *known == view);
                    let at = at.unwrap_or_else(|| {
                        views.push((view, String::new()));
                        views.len() - 1
                    });
                    let indent = if view.is_some() { "  " } else { " " };
                    let _ = writeln!(views[at].1, "{indent}peer {address} tcp-ao policy {name}");
                    continue;
                }
            };
            losses.push(format!("chain {:?}: {address}{reason}", chain.name));
        }
    }
    if !taken.is_empty() {
        text.push_str("#\n# Replace AS with the AS number.\nbgp AS\n");
    }
    for (view, peers) in views {
        if let Some((vrf, is_ipv6)) = view {
            let _ = writeln!(text, " #\n ipv{}-family vpn-instance {vrf}", if is_ipv6 { 6 } else { 4 });
        }
        text.push_str(&peers);
    }
    text.push_str("#\nreturn\n");
}

fn write_chain(text: &mut String, name: &str, chain: &Chain, losses: &mut Vec<String>) {
    lose_ranks(chain, losses);
    if chain.description.is_some() {
        losses.push(format!("chain {:?}: its description, which VRP does not have", chain.name));
    }
    let _ = writeln!(text, "#\nkeychain {name} mode absolute");
    let minutes = chain.accept_tolerance.div_ceil(60).min(MAX_TOLERANCE);
    match chain.accept_tolerance {
        0 => {}
        u32::MAX => text.push_str(" receive-tolerance infinite\n"),
        seconds => {
            let _ = writeln!(text, " receive-tolerance {minutes}");
            if seconds != 60 * minutes {
                losses.push(format!(
                    "chain {:?}: its tolerance, for which VRP has up to 14400 minutes",
                    chain.name
                ));
            }
        }
    }
    text.push_str(" time mode utc\n");
    // It is used when there is no other.
    let is_always = |key: &ChainKey| key.send == Lifetime::ALWAYS;
    let default = chain.keys.iter().position(is_always).filter(|_| chain.keys.len() > 1);
    let ids = key_ids(chain, MAX_KEY_ID, losses);
    for (index, (key, id)) in chain.keys.iter().zip(&ids).enumerate() {
        text.push_str(" #\n");
        write_key(text, *id, key);
        if default == Some(index) {
            text.push_str("  default send-key-id\n");
        } else if default.is_some() && is_always(key) {
            let name = chain.name_of(key);
            losses.push(format!(
                "key {name}: its send lifetime, because in VRP only one key is always sent with"
            ));
        } else {
            write_lifetime(text, "send-time", key.send);
        }
        write_lifetime(text, "receive-time", key.accept);
    }
    let _ = writeln!(text, "#\ntcp ao {name}\n binding keychain {name}");
    if chain.keys.iter().any(|key| key.options == OptionCoverage::Excluded) {
        text.push_str(" option-authentication disable\n");
    }
    for (key, id) in chain.keys.iter().zip(&ids) {
        let _ = writeln!(text, " #\n key-id {id}\n  send-id {} receive-id {}", key.send_id, key.recv_id);
    }
}

/// Writes a key of a keychain without its lifetimes.
pub(super) fn write_key(text: &mut String, id: u64, key: &ChainKey) {
    let _ = writeln!(text, " key-id {id}\n  algorithm {}", name_of(key.algorithm).unwrap_or_default());
    let octets = key.secret.expose();
    let quote = if octets.contains(&b' ') { "\"" } else { "" };
    let _ = write!(text, "  key-string plain {quote}");
    text.extend(octets.iter().map(|octet| char::from(*octet)));
    let _ = writeln!(text, "{quote}");
}

pub(super) fn write_lifetime(text: &mut String, field: &str, lifetime: Lifetime) {
    // 2026-01-31T00:00:00Z as 00:00 2026-01-31
    let written = |moment: Timestamp| {
        let moment = moment.to_string();
        let (date, time) = moment.split_once('T').unwrap_or_default();
        format!("{} {date}", time.get(..5).unwrap_or_default())
    };
    let _ = write!(text, "  {field} {}", written(lifetime.from().unwrap_or(FIRST_MOMENT)));
    let _ = match lifetime.until() {
        Some(until) => writeln!(text, " to {}", written(until)),
        None => writeln!(text, " duration infinite"),
    };
}
