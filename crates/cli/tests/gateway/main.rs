//! `wireseal gateway` on this machine's kernel, which needs no TCP-AO: two network namespaces, each with a gateway and ordinary programs.
//! Needs root, iproute2, nftables or iptables, and Python.

mod net;
mod operation;
#[cfg(feature = "prometheus")]
mod prometheus;
mod roll;
mod rules;
#[expect(dead_code, reason = "no run has every member")]
#[path = "../it/support/schema.rs"]
mod schema;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use net::{Gateway, Net, Side};

const IPV4: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
const IPV6: [&str; 2] = ["2001:db8::1", "2001:db8::2"];

/// The end of a key's send lifetime, and another key.
const OVER: &str = "send = { until = 2026-01-01T00:00:00Z }\naccept = { until = 2100-01-01T00:00:00Z }\n";
const SECOND: &str =
    "[[key-chain.key]]\nsend-id = 2\nalgorithm = \"hmac(sha1)\"\nsecret = \"the second, 20 octets\"\n";

/// A key chain with this key.
fn keys(id: u8, algorithm: &str, secret: &str) -> String {
    format!(
        "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = {id}\nalgorithm = \"{algorithm}\"\nsecret = \"{secret}\"\n"
    )
}

fn first() -> String {
    keys(1, "AES-128-CMAC-96", "what both ends know")
}

/// For each address: the side that has it and listens, the address itself, and the side that connects.
fn pairs() -> impl Iterator<Item = (Side, String, Side)> {
    let [ipv4, ipv6] = [IPV4, IPV6];
    let to = move |side: Side| [ipv4, ipv6].map(|addresses| addresses[side as usize].to_owned());
    [(Side::B, Side::A), (Side::A, Side::B)]
        .into_iter()
        .flat_map(move |(at, from)| to(at).map(|address| (at, address, from)))
}

#[test]
fn sessions_are_signed_in_both_directions_and_both_versions_of_ip() {
    let net = Net::new(1500);
    let gateways = net.gateways(&[]);
    for (at, address, from) in pairs() {
        net.transfer(at, &address, from, 4 << 20);
    }
    // Other ports bypass it.
    net.transfer_at(Side::B, IPV4[1], 8080, Side::A, 1 << 20);
    for gateway in gateways {
        let log = gateway.end();
        assert_eq!(log.matches(": established").count(), 4, "{log}");
        assert!(!log.contains("WARN") && !log.contains(":8080"), "{log}");
    }
}

#[test]
fn every_algorithm_works() {
    for algorithm in ["HMAC-SHA-1-96", "hmac(sha256)", "HMAC-SHA256-128", "KMAC256-128"] {
        let net = Net::new(1500);
        let keys = keys(1, algorithm, "what both ends know, 32 octets..");
        let _gateways = Side::BOTH.map(|side| net.gateway(side, &keys, &[]));
        net.transfer(Side::B, IPV4[1], Side::A, 1 << 20);
    }
}

#[test]
fn another_secret_or_none_gets_no_session() {
    let net = Net::new(1500);
    let gateway = net.gateway(Side::A, &first(), &[]);
    let other = net.gateway(Side::B, &keys(1, "AES-128-CMAC-96", "what one end knows"), &[]);
    for (at, address, from) in pairs() {
        assert!(!net.connects(at, &address, from), "{address}");
    }
    gateway.await_log("bad MAC: secret, algorithm or option coverage differs");
    // After it ends its rules stay, and nothing passes.
    let log = other.end();
    assert!(log.contains("bad MAC"), "{log}");
    assert!(!net.connects(Side::B, IPV4[1], Side::A));
    net.remove_rules(Side::B);
    assert!(!net.connects(Side::B, IPV4[1], Side::A), "the peer is unsigned");
    gateway.await_log("segments are not signed");
    gateway.end();
    net.remove_rules(Side::A);
    assert!(net.connects(Side::B, IPV4[1], Side::A), "without any rules they are ordinary hosts");
}

#[test]
fn data_comes_whole_when_packets_are_lost() {
    let net = Net::new(1500);
    let _gateways = net.gateways(&[]);
    for side in Side::BOTH {
        for program in ["iptables", "ip6tables"] {
            let lose = "-t mangle -A PREROUTING -m statistic --mode random --probability 0.05 -j DROP";
            net.run(side, &format!("{program} {lose}"));
        }
    }
    for (at, address, from) in pairs() {
        net.transfer(at, &address, from, 1 << 20);
    }
}

#[test]
fn a_session_survives_a_restart_with_its_state_and_stalls_without() {
    let net = Net::new(1500);
    let state = net.folder().join("state");
    let keep = ["--state", state.to_str().unwrap()];
    let _other = net.gateway(Side::B, &first(), &[]);
    let gateway = net.gateway(Side::A, &first(), &keep);
    let session = net.session(Side::B, IPV4[1], Side::A);
    assert!(session.echoes());
    let log = gateway.end();
    assert!(log.contains("the sessions were written sessions=1"), "{log}");
    let mode = fs::metadata(&state).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let gateway = net.gateway(Side::A, &first(), &keep);
    assert!(session.echoes(), "{}", gateway.log());
    assert!(!state.exists(), "a session goes on once");
    gateway.kill();
    let gateway = net.gateway(Side::A, &first(), &keep);
    assert!(!session.echoes(), "it was not guessed");
    gateway.await_log("whose handshake the gateway has not seen");
    net.transfer(Side::A, IPV4[0], Side::B, 1 << 20);
}

#[test]
fn keys_roll_over_on_a_live_session() {
    let net = Net::new(1500);
    let gateways = net.gateways(&[]);
    let session = net.session(Side::B, IPV4[1], Side::A);
    assert!(session.echoes());
    // First both keys, then the second preferred, then only the second: the peer follows RNextKeyID.
    let [both, preferred] = ["", OVER].map(|over| first() + over + SECOND);
    let alone = keys(2, "hmac(sha1)", "the second, 20 octets");
    for keys in [both, preferred, alone] {
        for gateway in &gateways {
            gateway.change_keys(&keys);
        }
        for _ in 0..3 {
            assert!(session.echoes(), "{}", gateways[0].log());
        }
    }
    for gateway in &gateways {
        let log = gateway.log();
        assert!(!log.contains("WARN") && !log.contains("closed"), "{log}");
    }
    // An unusable file changes nothing.
    fs::write(gateways[0].keys(), "[[key-chain]]\n").unwrap();
    gateways[0].reload();
    gateways[0].await_log("the configuration stays as it was");
    assert!(session.echoes());
}

#[test]
fn a_thousand_sessions_from_as_many_addresses_roll_over_and_survive_a_restart() {
    let net = Net::new(1500);
    let state = net.folder().join("state");
    // More threads than processors, so that sessions use different ones.
    let arguments = ["--peer", "10.1.0.0/16=core", "--threads", "4", "--state", state.to_str().unwrap()];
    let mut gateway = net.gateway(Side::A, &first(), &arguments);
    let other = net.gateway(Side::B, &first(), &[]);
    let sessions = net.sessions(1000);
    assert!(sessions.echoes());
    // Both keys at both ends, then the second preferred.
    for keys in [first() + SECOND, first() + OVER + SECOND] {
        for gateway in [&gateway, &other] {
            gateway.change_keys(&keys);
        }
    }
    assert!(sessions.echoes() && sessions.echoes());
    let keys = fs::read_to_string(gateway.keys()).unwrap();
    let log = gateway.end();
    assert!(log.contains("the sessions were written sessions=1000") && !log.contains("WARN"), "{log}");
    gateway = net.gateway(Side::A, &keys, &arguments);
    assert!(sessions.echoes(), "{}", gateway.log());
    gateway.assert_no_warning();
    other.assert_no_warning();
}

#[test]
fn peers_come_and_go_on_sighup() {
    let net = Net::new(1500);
    net.run(Side::B, "ip addr add 192.0.2.3/24 dev wire");
    let gateway = net.gateway(Side::A, &first(), &["--config", &net.peers("")]);
    let _other = net.gateway(Side::B, &first(), &[]);
    // B signs everything that it sends to A, and accepts nothing unsigned from it.
    assert!(!net.connects(Side::B, "192.0.2.3", Side::A));
    net.peers("\"192.0.2.3\" = \"core\"\n");
    gateway.change_keys(&first());
    net.transfer(Side::B, "192.0.2.3", Side::A, 1 << 20);
    let session = net.session(Side::B, "192.0.2.3", Side::A);
    assert!(session.echoes());
    net.peers("");
    gateway.change_keys(&first());
    gateway.await_log("its packets pass UNSIGNED from now on peer=192.0.2.3");
    assert!(!session.echoes());
    // It uses the port that the next connection listens on.
    drop(session);
    assert!(!net.connects(Side::B, "192.0.2.3", Side::A));
    net.transfer(Side::B, IPV4[1], Side::A, 1 << 20);
}

#[test]
fn a_change_whose_rules_fail_changes_nothing() {
    let net = Net::new(1500);
    let programs = net.without_nft();
    let gateway = net.gateway_with_path(Side::A, &first(), &["--config", &net.peers("")], &programs);
    let _other = net.gateway(Side::B, &first(), &[]);
    let session = net.session(Side::B, IPV4[1], Side::A);
    assert!(session.echoes());
    let restore = programs.join("iptables-restore").display().to_string();
    let fails = format!("printf \"#!/bin/sh\\nexit 1\\n\" > {restore}; chmod 755 {restore}");
    net.run(Side::A, &format!("mv {restore} {restore}-too; {fails}"));
    net.peers("\"192.0.2.9\" = \"core\"\n");
    fs::write(gateway.keys(), keys(1, "AES-128-CMAC-96", "what one end knows")).unwrap();
    gateway.reload();
    gateway.await_log("the configuration stays as it was");
    assert!(session.echoes(), "{}", gateway.log());
    net.run(Side::A, &format!("mv {restore}-too {restore}"));
    gateway.change_keys(&keys(1, "AES-128-CMAC-96", "what one end knows"));
    let log = gateway.log();
    let changed = "the configuration was read again added=\"192.0.2.9\" changed=\"192.0.2.2, 2001:db8::2\"";
    assert!(log.contains(changed), "{log}");
    assert!(!session.echoes());
}

#[test]
fn full_segments_fit_whatever_the_mtu() {
    for mtu in [1280, 9000] {
        let net = Net::new(mtu);
        let gateways = net.gateways(&[]);
        for (at, address, from) in pairs() {
            net.transfer(at, &address, from, 4 << 20);
        }
        gateways.into_iter().for_each(Gateway::end_without_warning);
    }
}

#[test]
fn a_peer_with_a_larger_mtu_gets_no_segment_that_does_not_fit_the_own_link() {
    let net = Net::new(1500);
    net.run(Side::B, "ip link set wire mtu 9000");
    let _gateways = net.gateways(&[]);
    for (at, address, from) in pairs() {
        net.transfer(at, &address, from, 1 << 20);
    }
}

#[test]
fn a_routers_packet_too_big_is_heeded_if_wanted() {
    let net = Net::routed(1500, 1300);
    let _gateways = net.gateways(&["--accept-icmp"]);
    for (at, address, from) in net.far_pairs() {
        net.transfer(at, &address, from, 1 << 20);
        let route = net.run(from, &format!("ip route get {address}"));
        assert!(route.contains("mtu 1280"), "with room for the option: {route}");
    }
}

#[test]
fn past_a_noted_path_mtu_packets_go_where_their_source_and_mark_lead() {
    let net = Net::routed(1500, 1300);
    // The main table leads nowhere.
    for line in [
        "ip rule add from 198.51.1.2 fwmark 7 lookup 100; ip -6 rule add from 2001:db8:1::2 fwmark 7 lookup 100",
        "ip route add default via 198.51.1.1 table 100; ip -6 route add default via 2001:db8:1::1 table 100",
        "ip route replace default via 198.51.1.9; ip -6 route replace default via 2001:db8:1::9",
        "for program in iptables ip6tables; do $program -t mangle -A OUTPUT -p tcp -j MARK --set-mark 7; done",
    ] {
        net.run(Side::A, line);
    }
    let gateways = net.gateways(&["--accept-icmp"]);
    for (at, address, from) in net.far_pairs() {
        net.transfer(at, &address, from, 1 << 20);
        let route = net.run(from, &format!("ip route get {address} mark 7"));
        assert!(route.contains("mtu 1280"), "there was one: {route}");
    }
    gateways.into_iter().for_each(Gateway::end_without_warning);
}

/// Runs a program for which `socket(AF_INET6, …)` fails with EAFNOSUPPORT, by a seccomp filter in classic BPF.
const WITHOUT_IPV6: &str = "
import ctypes, os, socket, struct, sys
SECCOMP, FILTER, NO_NEW_PRIVILEGES = 22, 2, 38
LOAD, EQUAL, RETURN, ALLOW, ERRNO = 0x20, 0x15, 0x06, 0x7fff0000, 0x00050000
number = {'x86_64': 41, 'aarch64': 198}[os.uname().machine]
program = [(LOAD, 0, 0, 0), (EQUAL, 0, 3, number), (LOAD, 0, 0, 16), (EQUAL, 0, 1, socket.AF_INET6), (RETURN, 0, 0, ERRNO | 97), (RETURN, 0, 0, ALLOW)]
octets = b''.join(struct.pack('HBBI', *line) for line in program)
buffer = ctypes.create_string_buffer(octets)
head = struct.pack('HxxxxxxQ', len(program), ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0 and libc.prctl(SECCOMP, FILTER, head, 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
";

#[test]
fn without_ipv6_in_the_kernel_it_carries_ipv4() {
    let net = Net::new(1500);
    let (gateway, keys) = net.gateway_command(Side::B, &first(), &[]);
    let mut command = Command::new("python3");
    command.args(["-c", WITHOUT_IPV6]).arg(gateway.get_program()).args(gateway.get_args());
    let _gateways = [net.gateway(Side::A, &first(), &[]), net.started((command, keys))];
    net.transfer(Side::B, IPV4[1], Side::A, 1 << 20);
}
