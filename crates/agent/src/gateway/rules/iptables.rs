//! The rules in iptables: the gateway's own chains, and a jump to each as the first rule of a kernel's chain.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cidr::IpCidr;

use super::common::{Put, call, has_ipv6, networks, range};
use crate::config::Config;
use crate::error::Error;
use crate::gateway::queues::Numbers;

/// What the names of our chains begin with.
const OURS: &str = "WIRESEAL";
/// What the printed line of a rule in one of them contains.
const RULE: &str = ": -A WIRESEAL";
/// The tables that may contain a gateway's rules, including an older version's. Not `filter`, because a packet that comes back from a queue
/// skips the rest of its table.
const TABLES: [&str; 3] = ["raw", "security", "mangle"];
/// Before connection tracking; behind filters and everything that changes a packet; and where the kernel lacks one of these.
const EARLY: &str = TABLES[0];
const LATE: &str = TABLES[1];
const INSTEAD: &str = TABLES[2];
/// For packets that arrive, leave, and are about to reach a program: the kernel's chain, our chain that it jumps to, and the first chain
/// that compares addresses.
const INBOUND: [&str; 3] = ["PREROUTING", "WIRESEAL-IN", "WIRESEAL-FROM"];
const OUTBOUND: [&str; 3] = ["OUTPUT", "WIRESEAL-OUT", "WIRESEAL-TO"];
const LAST: [&str; 3] = ["INPUT", "WIRESEAL-LAST", "WIRESEAL-LATE"];
/// Excludes forwarded packets.
const TO_THIS_HOST: &[&str] = &["-m addrtype --dst-type LOCAL"];
/// Packets that were redirected to this host or these ports after they arrived: by TPROXY, or by NAT, which only connection tracking shows.
const REDIRECTED: &[&str] =
    &["-m addrtype ! --dst-type LOCAL", "-m conntrack --ctdir ORIGINAL --ctstate DNAT"];
/// ICMP errors over IPv4 and IPv6, about any peer, from any router. Unlike the peers' own packets they pass while no gateway runs.
const ERRORS: [&[&str]; 2] = [
    &["-p icmp --icmp-type destination-unreachable"],
    &["-p icmpv6 --icmpv6-type packet-too-big", "-p icmpv6 --icmpv6-type destination-unreachable"],
];
/// The most ports in a rule (`XT_MULTI_PORTS`).
const PORTS: usize = 15;
/// How many seconds to wait for another program that changes rules.
const WAIT: [&str; 2] = ["-w", "5"];

/// The most rules in a chain: one for each value of `BITS` bits.
const MOST: usize = 1 << BITS;
const BITS: u8 = 4;

/// The names that the programs for IPv4 and IPv6 may have.
const NAMES: [[&str; 3]; 2] =
    [["iptables", "iptables-nft", "iptables-legacy"], ["ip6tables", "ip6tables-nft", "ip6tables-legacy"]];

/// One of the two kinds of iptables, whatever its programs are called on this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Iptables {
    /// The programs for IPv4 and IPv6.
    programs: [Option<&'static str>; 2],
    /// Whether it changes x_tables, and not nf_tables.
    is_legacy: bool,
}

/// What a table must contain.
#[derive(Default)]
pub(super) struct Content {
    /// The kernel's chains, and the one that each jumps to.
    pub(super) jumps: Vec<(&'static str, &'static str)>,
    pub(super) chains: Vec<String>,
    pub(super) rules: String,
}

impl Iptables {
    /// The kinds that are installed, first the one called `iptables`.
    pub(super) fn all() -> Vec<Self> {
        let kinds = NAMES.map(|names| {
            names.map(|name| {
                let version = call(name, &["--version"], "").ok()?;
                Some((name, !version.contains("(nf_tables)")))
            })
        });
        let is_first_legacy =
            kinds.iter().flatten().flatten().next().is_some_and(|(_, is_legacy)| *is_legacy);
        let of = |is_legacy| {
            let program = |names: [Option<(&'static str, bool)>; 3]| {
                Some(names.into_iter().flatten().find(|(_, kind)| *kind == is_legacy)?.0)
            };
            let [ipv4, ipv6] = kinds.map(program);
            // Where the kernel has no IPv6, its program only fails.
            Self { programs: [ipv4, ipv6.filter(|_| has_ipv6())], is_legacy }
        };
        [is_first_legacy, !is_first_legacy]
            .map(of)
            .into_iter()
            .filter(|found| found.names().count() > 0)
            .collect()
    }

    pub(super) const fn is_legacy(self) -> bool {
        self.is_legacy
    }

    /// The name of the program for IPv4, or of the one for IPv6 if it is alone.
    pub(super) const fn name(self) -> &'static str {
        match self.programs {
            [Some(name), _] | [None, Some(name)] => name,
            [None, None] => NAMES[0][0],
        }
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        self.programs.into_iter().flatten()
    }

    /// Replaces the gateway's rules, table by table.
    pub(super) fn put(self, config: &Config, numbers: Numbers, is_tracked: bool) -> Result<Put, Error> {
        let mut put = Put { transactions: 0, rule: RULE, rules: 0, known: Vec::new() };
        for (number, is_ipv4) in [true, false].into_iter().enumerate() {
            let networks: Vec<_> = networks(config, is_ipv4).collect();
            let Some(program) = self.programs[number] else {
                if networks.is_empty() {
                    continue;
                }
                let program = NAMES[number][0];
                return Err(Error::Rules(format!("{program} is not installed, and these peers need it")));
            };
            let or_instead = |table, is_needed: bool| {
                if !is_needed || networks.is_empty() {
                    return Ok(table);
                }
                match call(program, &with_wait(&["-t", table, "-S"]), "") {
                    Ok(_) => Ok(table),
                    Err(Error::Rules(said)) if said.contains("does not exist") => Ok(INSTEAD),
                    Err(error) => Err(error),
                }
            };
            let (early, late) = (or_instead(EARLY, is_tracked)?, or_instead(LATE, true)?);
            if early == INSTEAD || late == INSTEAD {
                tracing::warn!(
                    program,
                    "the kernel lacks the table raw or security: the rules are in mangle instead, and rules there that follow them are skipped"
                );
            }
            let mut contents = TABLES.map(|table| {
                let mut content = Content::default();
                let (inbound, outbound) = (balanced(&numbers.inbound()), balanced(&numbers.outbound()));
                if table == early && is_tracked && !networks.is_empty() {
                    content.judge(INBOUND, TO_THIS_HOST, ["-s", &inbound], config, &networks);
                }
                if table == late && !networks.is_empty() {
                    content.judge(OUTBOUND, &[""], ["-d", &outbound], config, &networks);
                    let last = if is_tracked { REDIRECTED } else { &[""] };
                    content.judge(LAST, last, ["-s", &inbound], config, &networks);
                    for error in ERRORS[number] {
                        let (chain, queue) = (LAST[1], numbers.errors());
                        let rule =
                            format!("-A {chain} {error} -j NFQUEUE --queue-num {queue} --queue-bypass");
                        content.rules += &(rule + "\n");
                    }
                }
                (table, content)
            });
            // Rules are added before others are removed, so that packets are queued at every moment.
            contents.sort_by_key(|(_, content)| content.jumps.is_empty());
            for (table, content) in contents {
                put.transactions += self.replace(program, table, &content)?;
                put.rules += content.rules.lines().count();
                put.known.extend(
                    content
                        .jumps
                        .iter()
                        .map(|(hook, chain)| format!("{program} -t {table}: -A {hook} -j {chain}")),
                );
            }
        }
        Ok(put)
    }

    /// Replaces our content of a table in one transaction; returns how many were needed, 0 or 1.
    fn replace(self, program: &str, table: &str, content: &Content) -> Result<u32, Error> {
        let text = restored(table, &self.listed(program, table)?, content);
        if text.is_empty() {
            return Ok(0);
        }
        let [wait, seconds] = WAIT;
        call(&format!("{program}-restore"), &[wait, seconds, "--noflush"], &text)?;
        Ok(1)
    }

    /// What `iptables -S` prints of a table.
    fn listed(self, program: &str, table: &str) -> Result<String, Error> {
        // Listing a table loads it, so ask the kernel first which are in use. Only root can read this file; iptables tells others so.
        let tables = match program.starts_with("ip6") {
            false => "/proc/self/net/ip_tables_names",
            true => "/proc/self/net/ip6_tables_names",
        };
        let is_in_use =
            || fs::read_to_string(tables).is_ok_and(|tables| tables.lines().any(|name| name == table));
        if self.is_legacy && !is_in_use() {
            return Ok(String::new());
        }
        call(program, &with_wait(&["-t", table, "-S"]), "")
    }

    /// Our chains and rules, and the rules that lead to them, in all tables.
    pub(super) fn lines(self) -> Result<Vec<String>, Error> {
        let mut lines = Vec::new();
        for program in self.names() {
            for table in TABLES {
                let listed = match self.listed(program, table) {
                    Ok(listed) => listed,
                    // Tables that the kernel lacks have no rules.
                    Err(Error::Rules(said)) if said.contains("does not exist") => continue,
                    Err(error) => return Err(error),
                };
                lines.extend(ours(&listed).into_iter().map(|line| format!("{program} -t {table}: {line}")));
            }
        }
        Ok(lines)
    }

    /// Removes whatever there is of our rules.
    pub(super) fn remove(self) -> Result<(), Error> {
        for program in self.names() {
            for table in TABLES {
                self.replace(program, table, &Content::default())?;
            }
        }
        Ok(())
    }
}

fn with_wait<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&WAIT, arguments].concat()
}

impl Content {
    /// Adds chains for packets at the protected ports under these conditions, which queue those of the peers.
    fn judge(
        &mut self,
        [hook, chain, peers]: [&'static str; 3],
        conditions: &[&str],
        [end, queues]: [&str; 2],
        config: &Config,
        networks: &[IpCidr],
    ) {
        self.jumps.push((hook, chain));
        self.chains.push(chain.to_owned());
        for ports in config.ports.chunks(PORTS) {
            let ports: Vec<_> = ports.iter().map(ToString::to_string).collect();
            let ports = ports.join(",");
            for condition in conditions {
                let _ = writeln!(
                    self.rules,
                    "-A {chain} -p tcp -m multiport --ports {ports} {condition} -g {peers}"
                );
            }
        }
        for chain in chains(peers, networks) {
            for (network, next) in &chain.rules {
                let then = match next {
                    Some(next) => format!("-g {next}"),
                    None => format!("-j NFQUEUE {queues}"),
                };
                let _ = writeln!(self.rules, "-A {} {end} {network} {then}", chain.name);
            }
            self.chains.push(chain.name);
        }
    }
}

fn balanced(queues: &std::ops::Range<u16>) -> String {
    match queues.len() {
        1 => format!("--queue-num {}", queues.start),
        _ => format!("--queue-balance {}", range(queues, ':')),
    }
}

/// Whether this is one of our chains.
fn is_ours(chain: &str) -> bool {
    chain.starts_with(OURS)
}

/// The rules outside our chains that lead to them, without the `-A`, in a table as `iptables -S` prints it.
fn leading(listed: &str) -> impl Iterator<Item = &str> {
    let rules = listed.lines().filter_map(|line| line.strip_prefix("-A "));
    rules.filter(|rule| !is_ours(rule) && [" -j WIRESEAL", " -g WIRESEAL"].iter().any(|to| rule.contains(to)))
}

/// Our chains and rules, and those that lead to them, in a table as `iptables -S` prints it, chain by chain.
pub(super) fn ours(listed: &str) -> Vec<String> {
    let chain = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    let mut begun = BTreeSet::new();
    let mut lines = Vec::new();
    for line in listed.lines() {
        let is_first = !line.starts_with("-A ") || begun.insert(chain(line));
        let is_leading = line.starts_with("-A ") && leading(line).next().is_some();
        match chain(line).is_some_and(|chain| is_ours(&chain)) {
            false if is_leading && is_first => lines.push(line.to_owned()),
            // A rule before the jump could let packets bypass it.
            false if is_leading => lines.push(format!("{line} (behind another rule)")),
            false => {}
            true => lines.push(line.to_owned()),
        }
    }
    // The order matters only within a chain.
    lines.sort_by_key(|line| chain(line));
    lines
}

/// The input of `iptables-restore --noflush` that replaces what is ours in a table; empty if nothing is there and nothing is wanted.
pub(super) fn restored(table: &str, listed: &str, content: &Content) -> String {
    let before = listed.lines().filter_map(|line| line.strip_prefix("-N ")).filter(|chain| is_ours(chain));
    let gone: Vec<_> = before.filter(|chain| !content.chains.iter().any(|other| other == chain)).collect();
    let mut text = String::new();
    // This line also empties an existing chain.
    for chain in content.chains.iter().map(String::as_str).chain(gone.iter().copied()) {
        let _ = writeln!(text, ":{chain} - [0:0]");
    }
    for rule in leading(listed) {
        let _ = writeln!(text, "-D {rule}");
    }
    text += &content.rules;
    for (hook, chain) in &content.jumps {
        let _ = writeln!(text, "-I {hook} -j {chain}");
    }
    for chain in gone {
        let _ = writeln!(text, "-X {chain}");
    }
    match text.is_empty() {
        true => text,
        false => format!("*{table}\n{text}COMMIT\n"),
    }
}

/// A chain of rules, at most one of which matches a packet.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Chain {
    pub(super) name: String,
    /// Each network, and the chain that subdivides it; `None` if the network is a peer's.
    pub(super) rules: Vec<(IpCidr, Option<String>)>,
}

/// Chains that find an address's network among these; the first has this name. They form a tree, so that each packet meets few rules. The
/// networks must come from `outermost` and have one version of IP.
pub(super) fn chains(name: &str, networks: &[IpCidr]) -> Vec<Chain> {
    let mut chains = Vec::new();
    grow(name.to_owned(), name, networks, &mut chains);
    chains
}

fn grow(name: String, root: &str, networks: &[IpCidr], chains: &mut Vec<Chain>) {
    let at = chains.len();
    chains.push(Chain { name, rules: Vec::new() });
    let leaf = |network: &IpCidr| (*network, None);
    if networks.len() <= MOST {
        chains[at].rules = networks.iter().map(leaf).collect();
        return;
    }
    let length = common(networks) + BITS;
    for group in networks.chunk_by(|one, other| bits(one) >> (128 - length) == bits(other) >> (128 - length))
    {
        let rule = match group {
            // The network may span several values; no other lies in it.
            [network] => leaf(network),
            _ => {
                let next = format!("{root}-{}", chains.len());
                grow(next.clone(), root, group, chains);
                (around(group), Some(next))
            }
        };
        chains[at].rules.push(rule);
    }
}

/// An address's bits, starting at the highest.
fn bits(network: &IpCidr) -> u128 {
    match network.first_address() {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// How many leading bits all of these networks share. There are several, so it is fewer than the length of any.
fn common(networks: &[IpCidr]) -> u8 {
    match networks {
        [first, .., last] => (bits(first) ^ bits(last)).leading_zeros() as u8,
        _ => 0,
    }
}

/// The smallest network around all of these.
fn around(networks: &[IpCidr]) -> IpCidr {
    let length = common(networks);
    let first = networks[0];
    let kept = bits(&first) & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
    let address = match first.is_ipv4() {
        true => IpAddr::V4(Ipv4Addr::from_bits((kept >> 96) as u32)),
        false => IpAddr::V6(Ipv6Addr::from_bits(kept)),
    };
    IpCidr::new(address, length).expect("the bits behind are zero")
}
