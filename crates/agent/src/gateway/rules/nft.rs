//! The rules in nftables: a table of the gateway's own.

use std::fmt::Write;

use super::common::{Put, call, networks, range};
use crate::config::Config;
use crate::error::Error;
use crate::gateway::queues::Numbers;

pub(super) const PROGRAM: &str = "nft";
/// The name of the table.
const NAME: &str = "wireseal";
/// What each rule that queues packets contains.
const RULE: &str = " queue ";
/// Behind filters and everything that changes a packet.
const LATE: i32 = 300;
const BEFORE_TRACKING: i32 = -300;
/// Packets that were redirected to this host or these ports after they arrived: by TPROXY, or by NAT, which only connection tracking shows.
const REDIRECTED: &[&str] = &["fib daddr type != local", "ct direction original ct status dnat"];

pub(super) fn put(config: &Config, numbers: Numbers, is_tracked: bool) -> Result<Put, Error> {
    let text = text(config, numbers, is_tracked);
    call(PROGRAM, &["-f", "-"], &text)?;
    Ok(Put { transactions: 1, rule: RULE, rules: text.matches(RULE).count(), known: Vec::new() })
}

/// The lines of the table, without handles; none if there is no table.
pub(super) fn lines() -> Result<Vec<String>, Error> {
    // As numbers: names depend on files of the host.
    match call(PROGRAM, &["-n", "list", "table", "inet", NAME], "") {
        Ok(text) => {
            Ok(text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
        }
        Err(Error::Rules(said)) if said.contains("No such file or directory") => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

pub(super) fn version() -> Result<String, Error> {
    call(PROGRAM, &["--version"], "")
}

pub(super) fn remove() -> Result<(), Error> {
    call(PROGRAM, &["delete", "table", "inet", NAME], "").map(drop)
}

/// A transaction that replaces the table. Rules compare ports first, so that other packets meet one rule only, and then addresses in a set.
pub(super) fn text(config: &Config, numbers: Numbers, is_tracked: bool) -> String {
    let ports = list(config.ports.iter().map(ToString::to_string));
    let mut text = format!("table inet {NAME}\ndelete table inet {NAME}\ntable inet {NAME} {{\n");
    let families = [("ip", "ipv4_addr", true), ("ip6", "ipv6_addr", false)];
    let families = families.map(|(family, kind, is_ipv4)| {
        (family, kind, networks(config, is_ipv4).map(|network| network.to_string()).collect::<Vec<_>>())
    });
    let families: Vec<_> = families.into_iter().filter(|(_, _, networks)| !networks.is_empty()).collect();
    for (family, kind, networks) in &families {
        let elements = list(networks.iter().cloned());
        let _ =
            writeln!(text, "set {family}-peers {{\ntype {kind}; flags interval; elements = {elements}\n}}");
    }
    for (chain, end, queues) in
        [("from-peers", "saddr", numbers.inbound()), ("to-peers", "daddr", numbers.outbound())]
    {
        let _ = writeln!(text, "chain {chain} {{");
        for (family, _, _) in &families {
            let queues = range(&queues, '-');
            let _ = writeln!(text, "{family} {end} @{family}-peers queue num {queues}");
        }
        text += "}\n";
    }
    let outbound = ("outbound", "output", LATE, &[""][..], "to-peers");
    let inbound = match is_tracked {
        true => vec![
            // Excludes forwarded packets.
            ("inbound", "prerouting", BEFORE_TRACKING, &["fib daddr type local"][..], "from-peers"),
            ("redirected", "input", LATE, REDIRECTED, "from-peers"),
        ],
        false => vec![("inbound", "input", LATE, &[""][..], "from-peers")],
    };
    for (chain, hook, priority, conditions, then) in inbound.into_iter().chain([outbound]) {
        let _ =
            writeln!(text, "chain {chain} {{\ntype filter hook {hook} priority {priority}; policy accept;");
        for condition in conditions {
            for port in ["sport", "dport"] {
                let _ = writeln!(text, "tcp {port} {ports} {condition} goto {then}");
            }
        }
        text += "}\n";
    }
    // ICMP errors about any peer, from any router. Unlike the peers' own packets they pass while no gateway runs.
    let errors = numbers.errors();
    let _ = writeln!(
        text,
        "chain errors {{\ntype filter hook input priority {LATE}; policy accept;
icmp type destination-unreachable queue num {errors} bypass
icmpv6 type {{ destination-unreachable, packet-too-big }} queue num {errors} bypass\n}}\n}}"
    );
    text
}

fn list(words: impl Iterator<Item = String>) -> String {
    format!("{{ {} }}", words.collect::<Vec<_>>().join(", "))
}
