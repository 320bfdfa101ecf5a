//! The rules in iptables: chains of our own, and a jump at the head of the kernel's.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

use super::program::call;
use super::put::{Put, has_ipv6, networks, range};
use super::tree::chains;
use crate::Config;
use crate::gateway::GatewayError;
use crate::gateway::carry::Numbers;

/// What the names of our chains begin with.
const OURS: &str = "WIRESEAL";
/// What a printed line contains that is a rule in one of them.
const RULE: &str = ": -A WIRESEAL";
/// The tables where rules of a gateway may be, those of older ones too. A packet that comes back from a queue goes on behind the
/// table, so they are not in the one with others' filters.
const TABLES: [&str; 3] = ["raw", "security", "mangle"];
/// Before connection tracking; and behind the filters and whatever changes a packet. Where the kernel lacks these, `mangle`.
const EARLY: &str = TABLES[0];
const LATE: &str = TABLES[1];
const INSTEAD: &str = TABLES[2];
/// The chain for what is about to reach a program.
const LAST: &str = "WIRESEAL-LAST";
/// The most ports in a rule (`XT_MULTI_PORTS`).
const PORTS: usize = 15;
/// Another program that changes rules at the moment is waited for, so many seconds.
const WAIT: [&str; 2] = ["-w", "5"];

/// The names that the programs for IPv4 and IPv6 may have.
const NAMES: [[&str; 3]; 2] =
    [["iptables", "iptables-nft", "iptables-legacy"], ["ip6tables", "ip6tables-nft", "ip6tables-legacy"]];

/// One of the two kinds of iptables, whatever its programs are called on this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Iptables {
    /// The programs for IPv4 and IPv6.
    programs: [Option<&'static str>; 2],
    /// Whether it changes x_tables of old, and not nf_tables.
    is_legacy: bool,
}

/// What a table has to contain.
#[derive(Default)]
struct Content {
    /// The kernel's chains, and the one that each jumps to.
    jumps: Vec<(&'static str, &'static str)>,
    chains: Vec<String>,
    rules: String,
}

impl Iptables {
    /// Those that are installed, first the one that is called `iptables`.
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
            // Without IPv6 its program does nothing but fail.
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

    /// Puts the rules in place of what a gateway has there, table by table.
    pub(super) fn put(
        self,
        config: &Config,
        numbers: Numbers,
        is_tracked: bool,
    ) -> Result<Put, GatewayError> {
        let mut put = Put { transactions: 0, rule: RULE, rules: 0, known: Vec::new() };
        for (number, is_ipv4) in [true, false].into_iter().enumerate() {
            let networks: Vec<_> = networks(config, is_ipv4).collect();
            let Some(program) = self.programs[number] else {
                if networks.is_empty() {
                    continue;
                }
                let program = NAMES[number][0];
                return Err(GatewayError::Rules(format!(
                    "{program} is not installed, and these peers need it"
                )));
            };
            let or_instead = |table, is_needed: bool| {
                if !is_needed || networks.is_empty() {
                    return Ok(table);
                }
                match call(program, &with_wait(&["-t", table, "-S"]), "") {
                    Ok(_) => Ok(table),
                    Err(GatewayError::Rules(said)) if said.contains("does not exist") => Ok(INSTEAD),
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
                if table == early && is_tracked {
                    content.judge_inbound(config, &networks, numbers);
                }
                if table == late {
                    content.judge_outbound(config, &networks, numbers);
                    content.judge_last(config, &networks, numbers, is_tracked);
                    content.judge_errors(is_ipv4, &networks, numbers);
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

    /// Puts this content in place of ours in a table, in one transaction; how many it took.
    fn replace(self, program: &str, table: &str, content: &Content) -> Result<u32, GatewayError> {
        let text = restored(table, &self.listed(program, table)?, content);
        if text.is_empty() {
            return Ok(0);
        }
        let [wait, seconds] = WAIT;
        call(&format!("{program}-restore"), &[wait, seconds, "--noflush"], &text)?;
        Ok(1)
    }

    /// What `iptables -S` prints of a table.
    fn listed(self, program: &str, table: &str) -> Result<String, GatewayError> {
        // To list a table that is not in use would put it to use. That root alone can read the file is said by iptables, too.
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

    /// Our chains and rules, and whatever leads to them, in all tables.
    pub(super) fn lines(self) -> Result<Vec<String>, GatewayError> {
        let mut lines = Vec::new();
        for program in self.names() {
            for table in TABLES {
                let listed = match self.listed(program, table) {
                    Ok(listed) => listed,
                    // Tables that the kernel lacks have no rules.
                    Err(GatewayError::Rules(said)) if said.contains("does not exist") => continue,
                    Err(error) => return Err(error),
                };
                lines.extend(ours(&listed).into_iter().map(|line| format!("{program} -t {table}: {line}")));
            }
        }
        Ok(lines)
    }

    /// Removes whatever of it is there.
    pub(super) fn remove(self) -> Result<(), GatewayError> {
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
    /// A chain for the packets at these ports, where those of the peers are queued.
    fn judge(
        &mut self,
        [hook, chain, peers]: [&'static str; 3],
        conditions: &[&str],
        end: &str,
        queues: &str,
        config: &Config,
        networks: &[cidr::IpCidr],
    ) {
        if networks.is_empty() {
            return;
        }
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

    fn judge_inbound(&mut self, config: &Config, networks: &[cidr::IpCidr], numbers: Numbers) {
        // Packets that are forwarded are left alone.
        let to_this_host = "-m addrtype --dst-type LOCAL";
        let names = ["PREROUTING", "WIRESEAL-IN", "WIRESEAL-FROM"];
        self.judge(names, &[to_this_host], "-s", &balanced(&numbers.inbound()), config, networks);
    }

    fn judge_outbound(&mut self, config: &Config, networks: &[cidr::IpCidr], numbers: Numbers) {
        let names = ["OUTPUT", "WIRESEAL-OUT", "WIRESEAL-TO"];
        self.judge(names, &[""], "-d", &balanced(&numbers.outbound()), config, networks);
    }

    /// As it reaches a program: everything, or where it was judged before connection tracking, what was not for this host or these ports
    /// then, by TPROXY, and by NAT, which only connection tracking knows of.
    fn judge_last(&mut self, config: &Config, networks: &[cidr::IpCidr], numbers: Numbers, is_tracked: bool) {
        let by_tproxy = "-m addrtype ! --dst-type LOCAL";
        let by_nat = "-m conntrack --ctdir ORIGINAL --ctstate DNAT";
        let conditions = if is_tracked { &[by_tproxy, by_nat][..] } else { &[""] };
        let names = ["INPUT", LAST, "WIRESEAL-LATE"];
        self.judge(names, conditions, "-s", &balanced(&numbers.inbound()), config, networks);
    }

    /// ICMP errors about any peer, from any router; without the gateway they pass, since the peers' own packets do not.
    fn judge_errors(&mut self, is_ipv4: bool, networks: &[cidr::IpCidr], numbers: Numbers) {
        if networks.is_empty() {
            return;
        }
        let errors: &[&str] = match is_ipv4 {
            true => &["-p icmp --icmp-type destination-unreachable"],
            false => {
                &["-p icmpv6 --icmpv6-type packet-too-big", "-p icmpv6 --icmpv6-type destination-unreachable"]
            }
        };
        for error in errors {
            let queue = numbers.errors();
            let _ = writeln!(self.rules, "-A {LAST} {error} -j NFQUEUE --queue-num {queue} --queue-bypass");
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

/// The rules of others that lead to our chains, without the `-A`, of a table as `iptables -S` prints it.
fn leading(listed: &str) -> impl Iterator<Item = &str> {
    let rules = listed.lines().filter_map(|line| line.strip_prefix("-A "));
    rules.filter(|rule| !is_ours(rule) && [" -j WIRESEAL", " -g WIRESEAL"].iter().any(|to| rule.contains(to)))
}

/// What is ours of a table as `iptables -S` prints it, and what leads to it, chain by chain.
fn ours(listed: &str) -> Vec<String> {
    let chain = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    let mut begun = BTreeSet::new();
    let mut lines = Vec::new();
    for line in listed.lines() {
        let is_first = !line.starts_with("-A ") || begun.insert(chain(line));
        let is_leading = line.starts_with("-A ") && leading(line).next().is_some();
        match chain(line).is_some_and(|chain| is_ours(&chain)) {
            false if is_leading && is_first => lines.push(line.to_owned()),
            // A rule before it could let packets past.
            false if is_leading => lines.push(format!("{line} (behind another rule)")),
            false => {}
            true => lines.push(line.to_owned()),
        }
    }
    // Only within a chain the order matters.
    lines.sort_by_key(|line| chain(line));
    lines
}

/// What `iptables-restore --noflush` reads to put the content in place of what is ours in a table; nothing if neither has anything.
fn restored(table: &str, listed: &str, content: &Content) -> String {
    let before = listed.lines().filter_map(|line| line.strip_prefix("-N ")).filter(|chain| is_ours(chain));
    let gone: Vec<_> = before.filter(|chain| !content.chains.iter().any(|other| other == chain)).collect();
    let mut text = String::new();
    // Chains that are there are emptied by this.
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

#[cfg(test)]
mod tests;
