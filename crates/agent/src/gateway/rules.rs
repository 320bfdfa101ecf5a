//! The rules by which the kernel gives packets to the gateway: nftables, or iptables where the kernel's nftables has no queues.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::ops::{Range, RangeInclusive};
use std::process::{Command, Output, Stdio};

use cidr::IpCidr;
use rustix::process::geteuid;

use super::GatewayError;
use super::carry::Numbers;
use crate::Config;

/// The name of nftables' table.
const NAME: &str = "wireseal";
/// iptables' table: a packet that comes back from a queue goes on behind the table, so not the one with others' filters.
const TABLE: &str = "mangle";
/// What leaves with this mark is left alone. Octets of "WSEL".
const MARK: u32 = 0x5753_454c;
const CHAINS: [(&str, &str); 2] = [("WIRESEAL-OUT", "OUTPUT"), ("WIRESEAL-IN", "INPUT")];

/// The program that has installed the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rules {
    Nftables,
    /// The names of the programs for IPv4 and IPv6.
    Iptables([&'static str; 2]),
}

/// In the order in which they are tried.
const ALL: [Rules; 3] = [
    Rules::Nftables,
    Rules::Iptables(["iptables", "ip6tables"]),
    Rules::Iptables(["iptables-legacy", "ip6tables-legacy"]),
];

impl Rules {
    /// Installs the rules of a configuration with the first program that can, in place of those of a gateway before.
    pub(super) fn install(config: &Config, numbers: Numbers) -> Result<Self, GatewayError> {
        let mut errors = Vec::new();
        for rules in ALL {
            let had_rules = rules.are_there();
            match rules.replace(config, numbers) {
                Ok(()) => {
                    // A packet that is queued twice is refused the second time.
                    for other in ALL.into_iter().filter(|other| *other != rules && other.are_there()) {
                        other.remove()?;
                    }
                    if !errors.is_empty() {
                        let why = errors.join("; ");
                        tracing::info!(why, "the rules are in {}, not in nftables", rules.by());
                    }
                    return Ok(rules);
                }
                Err(GatewayError::Rules(error)) => errors.push(error),
                Err(error) => return Err(error),
            }
            // What it has begun; but what keeps the peers' packets out since before stays.
            if !had_rules {
                let _ = rules.remove();
            }
        }
        Err(GatewayError::Rules(errors.join("; ")))
    }

    /// Whether a gateway has left rules.
    fn are_there(self) -> bool {
        match self {
            Self::Nftables => call("nft", &["list", "table", "inet", NAME], "").is_ok(),
            Self::Iptables(programs) => programs.into_iter().any(|program| {
                CHAINS.iter().any(|(chain, _)| call(program, &["-t", TABLE, "-S", chain], "").is_ok())
            }),
        }
    }

    /// The program's name.
    pub(super) const fn by(self) -> &'static str {
        match self {
            Self::Nftables => "nft",
            Self::Iptables([name, _]) => name,
        }
    }

    /// Puts the rules of another configuration in place of the present ones. There is no moment without rules.
    pub(super) fn replace(self, config: &Config, numbers: Numbers) -> Result<(), GatewayError> {
        match self {
            Self::Nftables => call("nft", &["-f", "-"], &nftables(config, numbers)),
            Self::Iptables(programs) => {
                for (program, is_ipv4) in programs.into_iter().zip([true, false]) {
                    call(&format!("{program}-restore"), &["--noflush"], &iptables(config, numbers, is_ipv4))?;
                    for (chain, hook) in CHAINS {
                        let jump = |change| call(program, &["-t", TABLE, change, hook, "-j", chain], "");
                        if jump("-C").is_err() {
                            jump("-I")?;
                        }
                    }
                }
                Ok(())
            }
        }
    }

    /// Removes the rules. It is an error if there are none.
    pub(super) fn remove(self) -> Result<(), GatewayError> {
        match self {
            Self::Nftables => call("nft", &["delete", "table", "inet", NAME], ""),
            Self::Iptables(programs) => {
                let mut result = Ok(());
                for (program, (chain, hook)) in
                    programs.into_iter().flat_map(|name| CHAINS.map(|chain| (name, chain)))
                {
                    for arguments in [&["-D", hook, "-j", chain][..], &["-F", chain], &["-X", chain]] {
                        let arguments = [&["-t", TABLE], arguments].concat();
                        result = result.and(call(program, &arguments, ""));
                    }
                }
                result
            }
        }
    }

    /// Removes all rules that there are; whether there were any.
    pub(super) fn remove_all() -> Result<bool, GatewayError> {
        if !geteuid().is_root() {
            return Err(GatewayError::Rules("root alone can see and remove them".to_owned()));
        }
        let mut had_rules = false;
        for rules in ALL.into_iter().filter(|rules| rules.are_there()) {
            rules.remove()?;
            had_rules = true;
        }
        Ok(had_rules)
    }

    /// The program whose rules give packets to a gateway that runs, in this network namespace.
    pub(super) fn check() -> Result<&'static str, GatewayError> {
        let not_in_place = |why: String| Err(GatewayError::NotInPlace(why));
        if !geteuid().is_root() {
            return not_in_place("root alone can see the rules of a gateway".to_owned());
        }
        let Some(rules) = ALL.into_iter().find(|rules| rules.are_there()) else {
            return not_in_place("no gateway has rules here: packets of its peers pass unsigned".to_owned());
        };
        let by = rules.by();
        let Some(queues) = rules.queues() else {
            return not_in_place(format!(
                "the rules in {by} are not complete: packets of the peers may pass unsigned"
            ));
        };
        // A line for each queue that a process has bound, which begins with the number.
        let bound = fs::read_to_string("/proc/self/net/netfilter/nfnetlink_queue").unwrap_or_default();
        let bound: Vec<u16> =
            bound.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
        if queues.into_iter().flatten().all(|queue| bound.contains(&queue)) {
            Ok(by)
        } else {
            not_in_place(format!(
                "the rules in {by} are there, but no gateway runs: packets of its peers are dropped"
            ))
        }
    }

    /// The queues that the rules name, whatever the configuration; `None` if they cannot be all of a configuration's.
    fn queues(self) -> Option<Vec<RangeInclusive<u16>>> {
        let read = |program: &str, arguments: &[&str]| {
            let output = run(program, arguments, "").ok().filter(|output| output.status.success())?;
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        match self {
            Self::Nftables => {
                let text = read("nft", &["list", "table", "inet", NAME])?;
                let (outbound, inbound) = text.split_once("chain inbound {")?;
                let are_hooked = outbound.contains("hook output") && inbound.contains("hook input");
                let for_peers = count_for_peers(outbound, inbound, 2)?;
                (are_hooked && for_peers > 0).then(|| queues_in(&text))
            }
            Self::Iptables(programs) => {
                let (mut queues, mut for_peers) = (Vec::new(), 0);
                for (program, errors) in programs.into_iter().zip([1, 2]) {
                    let chain_of = |(chain, hook)| {
                        read(program, &["-t", TABLE, "-C", hook, "-j", chain])?;
                        read(program, &["-t", TABLE, "-S", chain])
                    };
                    let [outbound, inbound] = CHAINS.map(chain_of);
                    let (outbound, inbound) = (outbound?, inbound?);
                    for_peers += count_for_peers(&outbound, &inbound, errors)?;
                    queues.extend([outbound, inbound].iter().flat_map(|text| queues_in(text)));
                }
                (for_peers > 0).then_some(queues)
            }
        }
    }

    /// Whether all rules are there; other programs flush whole tables. If that cannot be found out, they are taken to be.
    pub(super) fn are_in_place(self, config: &Config, numbers: Numbers) -> bool {
        // One rule for each time that packets are queued.
        let queued = |text: &str| text.matches(" queue ").count() + text.matches("NFQUEUE ").count();
        let has = |program: &str, arguments: &[&str], expected: &str| match run(program, arguments, "") {
            Ok(output) => {
                output.status.success()
                    && queued(&String::from_utf8_lossy(&output.stdout)) == queued(expected)
            }
            Err(_) => true,
        };
        match self {
            Self::Nftables => has("nft", &["list", "table", "inet", NAME], &nftables(config, numbers)),
            Self::Iptables(programs) => programs.into_iter().zip([true, false]).all(|(program, is_ipv4)| {
                let expected = iptables(config, numbers, is_ipv4);
                CHAINS.iter().all(|(chain, hook)| {
                    let of_chain: Vec<_> = expected.lines().filter(|line| line.contains(chain)).collect();
                    has(program, &["-t", TABLE, "-S", chain], &of_chain.join("\n"))
                        && has(program, &["-t", TABLE, "-C", hook, "-j", chain], "")
                })
            }),
        }
    }
}

/// How many rules queue packets to peers, in two chains as nft and iptables print them; `None` unless as many queue those from
/// peers, of the same addresses and ports, and there are this many for ICMP errors, one for the gateway's own packets and no others.
fn count_for_peers(outbound: &str, inbound: &str, errors: usize) -> Option<usize> {
    // What is around the rules. A table that is switched off has "flags dormant" there, which is taken for a rule of others.
    let is_rule = |line: &&str| {
        !line.is_empty()
            && !["table ", "chain ", "type ", "}", "-N "].iter().any(|word| line.starts_with(word))
    };
    let rules = |text| str::lines(text).map(str::trim).filter(is_rule);
    let mark = format!("mark {MARK:#x} ");
    let (own, outbound): (Vec<_>, Vec<_>) = rules(outbound).partition(|rule| rule.contains(&mark));
    let (found, inbound): (Vec<_>, Vec<_>) = rules(inbound).partition(|rule| rule.contains("bypass"));
    // Which packets it queues, in either direction.
    let packets = |rule: &str| {
        let (packets, _) = rule.split_once(" queue ").or_else(|| rule.split_once(" -j NFQUEUE "))?;
        Some(
            [("-A WIRESEAL-OUT", "-A WIRESEAL-IN"), (" -d ", " -s "), (" daddr ", " saddr ")]
                .iter()
                .fold(packets.to_owned(), |packets, (outbound, inbound)| packets.replace(outbound, inbound)),
        )
    };
    let sorted = |rules: Vec<&str>| {
        let mut packets = rules.into_iter().map(packets).collect::<Option<Vec<_>>>()?;
        packets.sort_unstable();
        Some(packets)
    };
    let (outbound, inbound) = (sorted(outbound)?, sorted(inbound)?);
    (own.len() == 1 && found.len() == errors && outbound == inbound).then_some(outbound.len())
}

/// The numbers of queues in rules as nft and iptables print them.
fn queues_in(text: &str) -> Vec<RangeInclusive<u16>> {
    let number = |word: &str| {
        let (first, last) = word.split_once(['-', ':']).unwrap_or((word, word));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    let in_line = |line: &str| {
        let (_, queue) = line.split_once("queue ").or_else(|| line.split_once("NFQUEUE "))?;
        queue.split_whitespace().find_map(number)
    };
    text.lines().filter_map(in_line).collect()
}

/// Runs a program with this input. Its first line of errors is in the error.
fn call(program: &str, arguments: &[&str], input: &str) -> Result<(), GatewayError> {
    let output = run(program, arguments, input).map_err(|error| {
        GatewayError::Rules(match error.kind() {
            io::ErrorKind::NotFound => format!("{program} is not installed"),
            _ => format!("{program}: {error}"),
        })
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // nft quotes the rule that the kernel does not take.
    if said.contains("No such file or directory") && said.contains(" queue num ") {
        return Err(GatewayError::Rules(format!(
            "{program}: this kernel's nf_tables has no queues (CONFIG_NFT_QUEUE)"
        )));
    }
    let said = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason given").trim();
    Err(GatewayError::Rules(format!("{program}: {said}")))
}

fn run(program: &str, arguments: &[&str], input: &str) -> io::Result<Output> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    child.wait_with_output()
}

/// A transaction: the table as it should be takes the place of what there is.
fn nftables(config: &Config, numbers: Numbers) -> String {
    let ports = list(config.ports.iter().map(ToString::to_string));
    let mut text = format!("table inet {NAME}\ndelete table inet {NAME}\ntable inet {NAME} {{\n");
    for (chain, hook, end, queues) in [
        ("outbound", "output", "daddr", numbers.outbound()),
        ("inbound", "input", "saddr", numbers.inbound()),
    ] {
        let _ = writeln!(text, "chain {chain} {{\ntype filter hook {hook} priority 0; policy accept;");
        if hook == "output" {
            let _ = writeln!(text, "meta mark {MARK} accept");
        }
        for (family, is_ipv4) in [("ip", true), ("ip6", false)] {
            let networks: Vec<_> = networks(config, is_ipv4).map(|network| network.to_string()).collect();
            if networks.is_empty() {
                continue;
            }
            // Networks in one another are no set for nftables.
            for network in networks {
                for port in ["sport", "dport"] {
                    let _ = writeln!(
                        text,
                        "{family} {end} {network} tcp {port} {ports} queue num {}",
                        range(&queues, '-')
                    );
                }
            }
        }
        if hook == "input" {
            // About any peer, from any router; without the gateway they pass, since the peers' own packets do not.
            let errors = numbers.errors();
            let _ = writeln!(text, "icmp type destination-unreachable queue num {errors} bypass");
            let _ = writeln!(
                text,
                "icmpv6 type {{ destination-unreachable, packet-too-big }} queue num {errors} bypass"
            );
        }
        text += "}\n";
    }
    text + "}\n"
}

/// The chains as they should be take the place of what is in them.
fn iptables(config: &Config, numbers: Numbers, is_ipv4: bool) -> String {
    let mut text = format!("*{TABLE}\n");
    for (chain, _) in CHAINS {
        let _ = writeln!(text, ":{chain} - [0:0]");
    }
    let _ = writeln!(text, "-A WIRESEAL-OUT -m mark --mark {MARK} -j RETURN");
    let ends = [("-d", numbers.outbound()), ("-s", numbers.inbound())];
    for ((chain, _), (end, queues)) in CHAINS.into_iter().zip(ends) {
        let queue = match queues.len() {
            1 => format!("--queue-num {}", queues.start),
            _ => format!("--queue-balance {}", range(&queues, ':')),
        };
        for network in networks(config, is_ipv4) {
            for (port, number) in
                config.ports.iter().flat_map(|number| ["--sport", "--dport"].map(|port| (port, number)))
            {
                let _ =
                    writeln!(text, "-A {chain} {end} {network} -p tcp {port} {number} -j NFQUEUE {queue}");
            }
        }
    }
    let errors: &[&str] = match is_ipv4 {
        true => &["-p icmp --icmp-type destination-unreachable"],
        false => {
            &["-p icmpv6 --icmpv6-type packet-too-big", "-p icmpv6 --icmpv6-type destination-unreachable"]
        }
    };
    for error in errors {
        let _ = writeln!(
            text,
            "-A WIRESEAL-IN {error} -j NFQUEUE --queue-num {} --queue-bypass",
            numbers.errors()
        );
    }
    text + "COMMIT\n"
}

fn networks(config: &Config, is_ipv4: bool) -> impl Iterator<Item = IpCidr> {
    config
        .peers
        .iter()
        .map(|(peer, _)| peer.canonical().remote)
        .filter(move |network| network.is_ipv4() == is_ipv4)
}

/// The first and the last of these numbers.
fn range(numbers: &Range<u16>, between: char) -> String {
    match numbers.len() {
        1 => numbers.start.to_string(),
        _ => format!("{}{between}{}", numbers.start, numbers.end - 1),
    }
}

fn list(words: impl Iterator<Item = String>) -> String {
    format!("{{ {} }}", words.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As nft prints it.
    const TABLE_OF_NFT: &str = "table inet wireseal {
	chain outbound {
		type filter hook output priority filter; policy accept;
		meta mark 0x5753454c accept
		ip daddr 192.0.2.2 tcp sport { 179, 323 } queue to 0-1
		ip daddr 192.0.2.2 tcp dport { 179, 323 } queue to 0-1
		ip6 daddr 2001:db8::/32 tcp sport { 179, 323 } queue to 0-1
		ip6 daddr 2001:db8::/32 tcp dport { 179, 323 } queue to 0-1
	}

	chain inbound {
		type filter hook input priority filter; policy accept;
		ip saddr 192.0.2.2 tcp sport { 179, 323 } queue to 2-3
		ip saddr 192.0.2.2 tcp dport { 179, 323 } queue to 2-3
		ip6 saddr 2001:db8::/32 tcp sport { 179, 323 } queue to 2-3
		ip6 saddr 2001:db8::/32 tcp dport { 179, 323 } queue to 2-3
		icmp type destination-unreachable queue flags bypass to 4
		icmpv6 type { destination-unreachable, packet-too-big } queue flags bypass to 4
	}
}
";

    fn of_nft(text: &str) -> Option<usize> {
        let (outbound, inbound) = text.split_once("chain inbound {")?;
        count_for_peers(outbound, inbound, 2)
    }

    #[test]
    fn each_rule_of_a_table_is_missed() {
        assert_eq!(of_nft(TABLE_OF_NFT), Some(4));
        let before =
            TABLE_OF_NFT.replace("flags bypass to 4", "num 4 bypass").replace("queue to", "queue num");
        assert_eq!(of_nft(&before), Some(4), "as older versions print it");
        let lines: Vec<_> = TABLE_OF_NFT.lines().collect();
        let is_rule =
            |line: &str| line.contains("queue") || line.contains("accept") && !line.contains("hook");
        let mut rules = 0;
        for (n, line) in lines.iter().enumerate().filter(|(_, line)| is_rule(line)) {
            let without = [&lines[..n], &lines[n + 1..]].concat().join("\n");
            assert_eq!(of_nft(&without), None, "{line}");
            rules += 1;
        }
        assert_eq!(rules, 11);
        // One of a peer in each direction, but not of the same.
        let without = TABLE_OF_NFT
            .replace("\t\tip daddr 192.0.2.2 tcp sport { 179, 323 } queue to 0-1\n", "")
            .replace("\t\tip6 saddr 2001:db8::/32 tcp sport { 179, 323 } queue to 2-3\n", "");
        assert_eq!(of_nft(&without), None);
    }

    #[test]
    fn peers_of_one_family_have_no_rules_in_the_other() {
        let outbound = "-N WIRESEAL-OUT\n-A WIRESEAL-OUT -m mark --mark 0x5753454c -j RETURN\n";
        let inbound = "-N WIRESEAL-IN\n-A WIRESEAL-IN -p icmp -m icmp --icmp-type 3 -j NFQUEUE --queue-num 4 --queue-bypass\n";
        assert_eq!(count_for_peers(outbound, inbound, 1), Some(0));
        let rule = "-p tcp -m tcp --sport 179 -j NFQUEUE --queue-balance 0:1\n";
        let with_peer = format!("{outbound}-A WIRESEAL-OUT -d 192.0.2.2/32 {rule}");
        assert_eq!(count_for_peers(&with_peer, inbound, 1), None);
        let inbound = format!("{inbound}-A WIRESEAL-IN -s 192.0.2.2/32 {rule}");
        assert_eq!(count_for_peers(&with_peer, &inbound, 1), Some(1));
    }

    #[test]
    fn a_table_that_is_switched_off_or_has_rules_of_others_is_not_in_place() {
        let with = |line: &str, after: &str| TABLE_OF_NFT.replace(after, &format!("{after}\n{line}"));
        assert_eq!(of_nft(&with("\tflags dormant\n", "table inet wireseal {")), None);
        for hook in ["output", "input"] {
            let head = format!("type filter hook {hook} priority filter; policy accept;");
            assert_eq!(of_nft(&with("\t\taccept", &head)), None, "{hook}");
        }
        assert_eq!(of_nft(&TABLE_OF_NFT.replace("0x5753454c", "0x00000001")), None);
    }
}
