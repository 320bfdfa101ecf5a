//! The formats of IOS XE and NX-OS, and writing IOS XE configuration.

mod keys;
mod read;

use std::collections::HashSet;
use std::fmt::Write;

use wireseal_tcp_ao::OptionCoverage;

use self::keys::{MAC_LENGTH, MAX_KEY_ID, name_of};
use self::read::read;
use super::cisco::{self, FIRST_MOMENT, coverage, lose_times, write_secret};
use super::file::{Chain, Clock, Neighbor, Remark, is_link_local};
use super::table::{Limits, SendingRule, Shows, Table, first_line};
use super::tree::without_prompt;
use super::write::{Names, key_ids, lose_ranks, written};
use crate::{Lifetime, Timestamp};

pub(super) const TABLE: Table = Table {
    name: "ios-xe",
    about: "Cisco IOS XE configuration",
    extension: None,
    shows: |text| {
        let words: Vec<_> = without_prompt(first_line(text)).split_whitespace().take(5).collect();
        Shows::if_(match words[..] {
            // Junos has a statement `security`.
            ["security", "passwords" | "authentication", ..] => true,
            ["key", "chain", _, "tcp", ..] | ["neighbor", _, "ao", ..] => true,
            // The output of `show key chain`, which is refused.
            ["Key-chain", name] => name.ends_with(':'),
            ["Key-chain:", ..] | ["TCP", "key", "chain"] => true,
            _ => false,
        })
    },
    read: |text, _| read(text),
    fit: |chain, _, losses| that_can_be(chain, losses),
    write: Some(|chains, losses| Ok(written(chains, |text| write(text, chains, losses)))),
    change: None,
    limits: Limits {
        name: "ios-xe",
        about: "IOS XE",
        title: "IOS XE",
        options_setting: "include-tcp-options",
        algorithm: name_of,
        mac_lengths: [MAC_LENGTH, MAC_LENGTH],
        max_key_id: MAX_KEY_ID,
        has_local_time: true,
        sending: SendingRule::LongestLifetime,
        not_hitless: Some("closes its sessions when a chain in use is edited, as its guide says"),
        ..Limits::NONE
    },
};

pub(super) const NX_OS: Table = Table {
    name: "nx-os",
    about: "Cisco NX-OS configuration",
    shows: |text| {
        let words: Vec<_> = first_line(text).split_whitespace().collect();
        Shows::if_(match words[..] {
            ["feature", _] => true,
            ["version", number, ..] => number.contains('('),
            _ => false,
        })
    },
    read: |text, _| {
        let mut content = read(text)?;
        let sentence = "read as IOS XE: NX-OS's syntax is not published";
        content.remarks.push(Remark::warning("assumed", None, sentence).into_note());
        Ok(content)
    },
    write: None,
    ..TABLE
};

/// Writes key chains from [`that_can_be`], and the neighbors that use them.
fn write(text: &mut String, chains: &[Chain], losses: &mut Vec<String>) {
    let mut names = Names::new(|c| c.is_ascii_graphic() && c != '?' && c != '%');
    let mut named = Vec::with_capacity(chains.len());
    for chain in chains {
        lose_ranks(chain, losses);
        for (what, is_there) in
            [("description", chain.description.is_some()), ("tolerance", chain.accept_tolerance > 0)]
        {
            if is_there {
                losses.push(format!("chain {:?}: its {what}, which IOS XE does not have", chain.name));
            }
        }
        let name = names.name(chain, losses);
        write_chain(text, &name, chain, losses);
        named.push((name, chain));
    }
    if chains.iter().all(|chain| chain.neighbors.is_empty()) {
        return;
    }
    text.push_str("! Replace AS with the AS number.\nrouter bgp AS\n");
    let mut open: Option<(&str, &str)> = None;
    let mut taken = HashSet::new();
    for (name, chain) in &named {
        let include = match coverage(chain) {
            OptionCoverage::Covered => " include-tcp-options",
            OptionCoverage::Excluded => "",
        };
        for Neighbor { vrf, address, interface } in &chain.neighbors {
            let name_of_peer = format!("chain {:?}: {address}", chain.name);
            let is_word =
                |word: &String| !word.is_empty() && word.chars().all(|c| c.is_ascii_graphic() && c != '?');
            if !vrf.iter().chain(interface).all(is_word) {
                losses.push(format!(
                    "{name_of_peer}, whose VRF or interface has a name that IOS XE does not take"
                ));
                continue;
            }
            if !taken.insert((vrf, address)) {
                losses.push(format!("{name_of_peer}, which uses another chain"));
                continue;
            }
            let family = if address.is_ipv4() { "ipv4" } else { "ipv6" };
            let inside = vrf.as_deref().map(|vrf| (family, vrf));
            if open != inside {
                if open.is_some() {
                    text.push_str(" exit-address-family\n");
                }
                if let Some((family, vrf)) = inside {
                    let _ = writeln!(text, " address-family {family} vrf {vrf}");
                }
                open = inside;
            }
            let margin = if open.is_some() { "  " } else { " " };
            if address.is_host_address() {
                let _ = writeln!(text, "{margin}! neighbor {address} remote-as ...");
                let _ = writeln!(text, "{margin}neighbor {address} ao {name}{include}");
            } else {
                // A prefix of peers is a listen range, which needs a peer group.
                let _ = writeln!(text, "{margin}neighbor {name}-peers peer-group");
                let _ = writeln!(text, "{margin}! neighbor {name}-peers remote-as ...");
                let _ = writeln!(text, "{margin}neighbor {name}-peers ao {name}{include}");
                let _ = writeln!(text, "{margin}bgp listen range {address} peer-group {name}-peers");
            }
            match interface {
                Some(interface) if address.is_host_address() && is_link_local(address) => {
                    let _ = writeln!(text, "{margin}neighbor {address} update-source {interface}");
                }
                Some(interface) => {
                    losses.push(format!("chain {:?}: the interface {interface} of {address}", chain.name));
                }
                None => {}
            }
        }
    }
    if open.is_some() {
        text.push_str(" exit-address-family\n");
    }
    text.push_str("!\n");
}

/// The chain without keys whose coverage of TCP options differs from the first one's, and without keys that expired before 1993.
fn that_can_be(mut chain: Chain, losses: &mut Vec<String>) -> Option<Chain> {
    let options = coverage(&chain);
    cisco::keep_writable(&mut chain, "IOS XE", options, cisco::ALL_OR_NONE, losses);
    (!chain.keys.is_empty()).then_some(chain)
}

fn write_chain(text: &mut String, name: &str, chain: &Chain, losses: &mut Vec<String>) {
    let _ = writeln!(text, "key chain {name} tcp");
    for (key, id) in chain.keys.iter().zip(key_ids(chain, MAX_KEY_ID, losses)) {
        let _ =
            write!(text, " key {id}\n  send-id {}\n  recv-id {}\n  key-string ", key.send_id, key.recv_id);
        write_secret(text, &key.secret, ["0", "7"]);
        write_lifetime(text, "accept-lifetime", &key.accept, key.clock);
        write_lifetime(text, "send-lifetime", &key.send, key.clock);
        let _ = writeln!(text, "  cryptographic-algorithm {}", name_of(key.algorithm).unwrap_or_default());
        if key.options == OptionCoverage::Covered {
            text.push_str("  include-tcp-options\n");
        }
        lose_times(chain, key, "IOS XE", losses);
    }
    text.push_str("!\n");
}

/// A lifetime, unless it is always: without one, the key is always valid.
fn write_lifetime(text: &mut String, field: &str, lifetime: &Lifetime, clock: Clock) {
    if *lifetime == Lifetime::ALWAYS {
        return;
    }
    let _ = write!(text, "  {field} {}", if clock == Clock::Local { "local " } else { "" });
    write_moment(text, lifetime.from().unwrap_or(FIRST_MOMENT));
    text.push(' ');
    match lifetime.until() {
        None => text.push_str("infinite"),
        Some(until) => write_moment(text, until),
    }
    text.push('\n');
}

/// `00:00:00 Jan 31 2026`, as IOS XE prints it.
fn write_moment(text: &mut String, moment: Timestamp) {
    let [time, month, day, year] = cisco::parts(moment);
    let (first, rest) = month.split_at(1);
    let (first, rest) = (first.to_ascii_uppercase(), &rest[..2]);
    let _ = write!(text, "{time} {first}{rest} {} {year}", day.trim_start_matches('0'));
}
