use std::net::IpAddr;

use cidr::IpCidr;
use wireseal_keys::KeyChains;
use wireseal_linux::PeerName;

use super::common::outermost;
use super::iptables::{Chain, Content, chains, ours, restored};
use super::*;

/// The queues of a gateway; no packets reach them.
const NUMBERS: Numbers = Numbers { first: 100, threads: 2 };

fn of(networks: &[&str]) -> Vec<IpCidr> {
    networks.iter().map(|network| network.parse().unwrap()).collect()
}

/// A configuration with these peers.
fn config(peers: &[&str]) -> Config {
    let keys = "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 1\nalgorithm = \"AES-128-CMAC-96\"\n\
                secret = \"what both ends know\"\n";
    let chain = KeyChains::from_toml(keys).unwrap().get("core").unwrap().clone();
    let peers = of(peers).into_iter().map(|network| (PeerName::new(network), chain.clone())).collect();
    Config { peers, ports: vec![179, 323], refuse_others: false, md5: crate::Md5::default() }
}

#[test]
fn networks_in_others_are_left_out() {
    let networks = of(&["192.0.2.7", "10.0.0.0/8", "192.0.2.0/24", "10.0.0.0/16", "192.0.3.0", "10.0.0.0"]);
    assert_eq!(outermost(networks), of(&["10.0.0.0/8", "192.0.2.0/24", "192.0.3.0"]));
    assert_eq!(outermost(of(&["::1", "::/0"])), of(&["::/0"]));
}

/// Follows the chains as iptables does. Returns whether an address is found, and how many rules it was compared with.
fn find(chains: &[Chain], address: IpAddr) -> (bool, usize) {
    let (mut name, mut steps) = (chains[0].name.as_str(), 0);
    'chains: loop {
        let chain = chains.iter().find(|chain| chain.name == name).unwrap();
        for (network, next) in &chain.rules {
            steps += 1;
            if network.contains(&address) {
                match next {
                    Some(next) => name = next,
                    None => return (true, steps),
                }
                continue 'chains;
            }
        }
        return (false, steps);
    }
}

#[test]
fn a_tree_finds_what_is_in_it_and_nothing_else_in_a_few_steps() {
    // Hosts, close together and far apart, and networks of many lengths between them.
    let mut ipv4: Vec<IpCidr> =
        (0..10_000_u32).map(|n| IpAddr::from((0x0a00_0000 + n * 7).to_be_bytes()).into()).collect();
    ipv4.extend((0..500_u32).map(|n| IpCidr::from(IpAddr::from(n.wrapping_mul(0x9e37_79b9).to_be_bytes()))));
    ipv4.extend((8..=30).map(|length| IpCidr::new([192, 168, 0, 0].into(), length.max(16)).unwrap()));
    ipv4.extend((17..=32).map(|length| {
        let address = u32::from_be_bytes([172, 16, 0, 0]) | 1 << (32 - length);
        IpCidr::new(IpAddr::from(address.to_be_bytes()), length as u8).unwrap()
    }));
    let ipv6 = (0..3000_u128)
        .map(|n| IpCidr::new(IpAddr::from((0x2001_0db8 << 96 | (n * n) << 80).to_be_bytes()), 48).unwrap());
    for (networks, most) in [(ipv4, 96), (ipv6.collect(), 96), (of(&["0.0.0.0/0"]), 1), (Vec::new(), 0)] {
        let networks = outermost(networks);
        let chains = chains("ROOT", &networks);
        assert_eq!(chains[0].name, "ROOT");
        assert!(chains.iter().all(|chain| chain.rules.len() <= 16 && chain.name.len() <= 28));
        for network in &networks {
            for address in [network.first_address(), network.last_address()] {
                let (is_found, steps) = find(&chains, address);
                assert!(is_found && steps <= most, "{address}: {steps}");
            }
        }
        let leaves = chains.iter().flat_map(|chain| &chain.rules).filter(|(_, next)| next.is_none());
        let mut leaves: Vec<_> = leaves.map(|(network, _)| *network).collect();
        leaves.sort();
        assert_eq!(leaves, networks);
    }
}

#[test]
fn a_table_of_nftables_compares_ports_first() {
    let text = nft::text(&config(&["192.0.2.2", "192.0.2.0/24", "2001:db8::1"]), NUMBERS, false);
    let expected = "table inet wireseal
delete table inet wireseal
table inet wireseal {
set ip-peers {
type ipv4_addr; flags interval; elements = { 192.0.2.0/24 }
}
set ip6-peers {
type ipv6_addr; flags interval; elements = { 2001:db8::1 }
}
chain from-peers {
ip saddr @ip-peers queue num 102-103
ip6 saddr @ip6-peers queue num 102-103
}
chain to-peers {
ip daddr @ip-peers queue num 100-101
ip6 daddr @ip6-peers queue num 100-101
}
chain inbound {
type filter hook input priority 300; policy accept;
tcp sport { 179, 323 }  goto from-peers
tcp dport { 179, 323 }  goto from-peers
}
chain outbound {
type filter hook output priority 300; policy accept;
tcp sport { 179, 323 }  goto to-peers
tcp dport { 179, 323 }  goto to-peers
}
chain errors {
type filter hook input priority 300; policy accept;
icmp type destination-unreachable queue num 104 bypass
icmpv6 type { destination-unreachable, packet-too-big } queue num 104 bypass
}
}
";
    assert_eq!(text, expected);
    let text = nft::text(&config(&["192.0.2.2"]), NUMBERS, true);
    let expected = "chain inbound {
type filter hook prerouting priority -300; policy accept;
tcp sport { 179, 323 } fib daddr type local goto from-peers
tcp dport { 179, 323 } fib daddr type local goto from-peers
}
chain redirected {
type filter hook input priority 300; policy accept;
tcp sport { 179, 323 } fib daddr type != local goto from-peers
tcp dport { 179, 323 } fib daddr type != local goto from-peers
tcp sport { 179, 323 } ct direction original ct status dnat goto from-peers
tcp dport { 179, 323 } ct direction original ct status dnat goto from-peers
}
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn what_differs_is_said() {
    let image = |lines: &[&str]| Image {
        lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        generation: None,
        is_tracked: false,
    };
    let before = image(&["a", "b"]);
    for (found, difference) in [
        (&["a", "b"][..], None),
        (&["a"], Some("`b` is gone")),
        (&["a", "c", "b"], Some("`c` was added")),
        (&["a", "c"], Some("`b` is gone, and `c` was added")),
        (&["b", "a"], Some("they are in another order, or some are there twice")),
        (&["a", "a", "b"], Some("they are in another order, or some are there twice")),
    ] {
        assert_eq!(before.difference(&image(found)).as_deref(), difference, "{found:?}");
    }
    let long = image(&[&"é".repeat(1000)]);
    assert!(before.difference(&long).unwrap().len() < 400);
}

/// As `iptables -S` prints a table.
const LISTED: &str = "-P PREROUTING ACCEPT
-P OUTPUT ACCEPT
-N WIRESEAL-OLD
-N WIRESEAL-IN
-N OTHER
-A PREROUTING -p udp -j ACCEPT
-A PREROUTING -j WIRESEAL-IN
-A OUTPUT -j WIRESEAL-OLD
-A OTHER -m comment --comment \"not WIRESEAL\" -g WIRESEAL-OLD
-A WIRESEAL-OLD -j ACCEPT
-A WIRESEAL-IN -j WIRESEAL-OLD
";

#[test]
fn what_is_ours_takes_the_place_of_whatever_was() {
    let content = Content {
        jumps: vec![("PREROUTING", "WIRESEAL-IN")],
        chains: vec!["WIRESEAL-IN".to_owned()],
        rules: "-A WIRESEAL-IN -p tcp -j DROP\n".to_owned(),
    };
    let expected = "*raw
:WIRESEAL-IN - [0:0]
:WIRESEAL-OLD - [0:0]
-D PREROUTING -j WIRESEAL-IN
-D OUTPUT -j WIRESEAL-OLD
-D OTHER -m comment --comment \"not WIRESEAL\" -g WIRESEAL-OLD
-A WIRESEAL-IN -p tcp -j DROP
-I PREROUTING -j WIRESEAL-IN
-X WIRESEAL-OLD
COMMIT
";
    assert_eq!(restored("raw", LISTED, &content), expected);
    assert_eq!(restored("raw", "-P OUTPUT ACCEPT\n-A OUTPUT -j OTHER\n", &Content::default()), "");
}

#[test]
fn a_jump_behind_another_rule_is_not_the_jump() {
    let expected = [
        "-A OTHER -m comment --comment \"not WIRESEAL\" -g WIRESEAL-OLD",
        "-A OUTPUT -j WIRESEAL-OLD",
        "-A PREROUTING -j WIRESEAL-IN (behind another rule)",
        "-N WIRESEAL-IN",
        "-A WIRESEAL-IN -j WIRESEAL-OLD",
        "-N WIRESEAL-OLD",
        "-A WIRESEAL-OLD -j ACCEPT",
    ];
    assert_eq!(ours(LISTED), expected);
}
