//! `wireseal gateway` on this machine's kernel, which needs no TCP-AO: two network namespaces, each with a gateway and ordinary programs.
//! Needs root, iproute2, nftables or iptables, and Python.

mod command_line;
mod log_not_read;
mod metrics;
mod net;
mod path_mtu;
mod rules;
mod sessions_file;
mod status;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use net::{Net, Side, await_that};

const IPV4: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
const IPV6: [&str; 2] = ["2001:db8::1", "2001:db8::2"];

/// A key chain with this key.
fn keys(id: u8, algorithm: &str, secret: &str) -> String {
    format!(
        "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = {id}\nalgorithm = \"{algorithm}\"\nsecret = \"{secret}\"\n"
    )
}

fn first() -> String {
    keys(1, "AES-128-CMAC-96", "what both ends know")
}

/// The addresses of the side that connects to, and of the one that connects.
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
    let gateways = Side::BOTH.map(|side| net.gateway(side, &first(), &[]));
    for (at, address, from) in pairs() {
        net.transfer(at, &address, from, 4 << 20);
    }
    // Other ports do not go through it.
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
    await_that("the log to say it", || {
        gateway.log().contains("bad MAC: secret, algorithm or option coverage differs")
    });
    // It ends, its rules stay, and nothing passes.
    let log = other.end();
    assert!(log.contains("bad MAC"), "{log}");
    assert!(!net.connects(Side::B, IPV4[1], Side::A));
    net.remove_rules(Side::B);
    assert!(!net.connects(Side::B, IPV4[1], Side::A), "the peer is unsigned");
    await_that("the log to say it", || gateway.log().contains("segments are not signed"));
    gateway.end();
    net.remove_rules(Side::A);
    assert!(net.connects(Side::B, IPV4[1], Side::A), "without any rules they are ordinary hosts");
}

#[test]
fn data_comes_whole_when_packets_are_lost() {
    let net = Net::new(1500);
    let _gateways = Side::BOTH.map(|side| net.gateway(side, &first(), &[]));
    for side in Side::BOTH {
        for program in ["iptables", "ip6tables"] {
            net.run(
                side,
                &format!(
                    "{program} -t mangle -A PREROUTING -m statistic --mode random --probability 0.05 -j DROP"
                ),
            );
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
    await_that("the log to say it", || gateway.log().contains("whose handshake the gateway has not seen"));
    net.transfer(Side::A, IPV4[0], Side::B, 1 << 20);
}

#[test]
fn keys_roll_over_on_a_live_session() {
    let net = Net::new(1500);
    let gateways = Side::BOTH.map(|side| net.gateway(side, &first(), &[]));
    let session = net.session(Side::B, IPV4[1], Side::A);
    assert!(session.echoes());
    // Both keys, then the second alone; RFC 5925's RNextKeyID does the rest.
    let second =
        "[[key-chain.key]]\nsend-id = 2\nalgorithm = \"hmac(sha1)\"\nsecret = \"the second, 20 octets\"\n";
    let both = first() + second;
    let over = "send = { until = 2026-01-01T00:00:00Z }\naccept = { until = 2100-01-01T00:00:00Z }\n";
    let preferred = first() + over + second;
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
    // What cannot be used changes nothing.
    fs::write(gateways[0].keys(), "[[key-chain]]\n").unwrap();
    gateways[0].reload();
    await_that("the log to say it", || gateways[0].log().contains("the configuration stays as it was"));
    assert!(session.echoes());
}

#[test]
fn a_thousand_sessions_from_as_many_addresses_roll_over_and_survive_a_restart() {
    let net = Net::new(1500);
    let state = net.folder().join("state");
    // More threads than processors, so that the sessions are spread.
    let arguments = ["--peer", "10.1.0.0/16=core", "--threads", "4", "--state", state.to_str().unwrap()];
    let mut gateway = net.gateway(Side::A, &first(), &arguments);
    let other = net.gateway(Side::B, &first(), &[]);
    net.run(Side::B, "ip route add local 10.1.0.0/16 dev lo");
    net.run(Side::A, "ip route add 10.1.0.0/16 via 192.0.2.2");
    let sessions = net.sessions(Side::A, IPV4[0], Side::B, "10.1.0.0", 1000);
    assert!(sessions.echoes());
    // Both keys at both ends, then the second preferred.
    let second =
        keys(2, "hmac(sha1)", "the second, 20 octets").replace("[[key-chain]]\nname = \"core\"\n", "");
    for gateway in [&gateway, &other] {
        gateway.change_keys(&(first() + &second));
    }
    let over = "send = { until = 2026-01-01T00:00:00Z }\naccept = { until = 2100-01-01T00:00:00Z }\n";
    gateway.change_keys(&(first() + over + &second));
    assert!(sessions.echoes() && sessions.echoes());
    let keys = fs::read_to_string(gateway.keys()).unwrap();
    let log = gateway.end();
    assert!(log.contains("the sessions were written sessions=1000") && !log.contains("WARN"), "{log}");
    gateway = net.gateway(Side::A, &keys, &arguments);
    assert!(sessions.echoes(), "{}", gateway.log());
    assert!(!gateway.log().contains("WARN"), "{}", gateway.log());
    assert!(!other.log().contains("WARN"), "{}", other.log());
}

#[test]
fn peers_come_and_go_on_sighup() {
    let net = Net::new(1500);
    net.run(Side::B, "ip addr add 192.0.2.3/24 dev wire");
    let config = net.folder().join("gateway.toml");
    let with = |peers: &str| fs::write(&config, format!("[peers]\n{peers}")).unwrap();
    with("");
    let gateway = net.gateway(Side::A, &first(), &["--config", config.to_str().unwrap()]);
    let _other = net.gateway(Side::B, &first(), &[]);
    // B signs whatever it sends to A, and takes nothing unsigned from it.
    assert!(!net.connects(Side::B, "192.0.2.3", Side::A));
    with("\"192.0.2.3\" = \"core\"\n");
    gateway.change_keys(&first());
    net.transfer(Side::B, "192.0.2.3", Side::A, 1 << 20);
    let session = net.session(Side::B, "192.0.2.3", Side::A);
    assert!(session.echoes());
    with("");
    gateway.change_keys(&first());
    await_that("the log to say it", || {
        gateway.log().contains("its packets pass UNSIGNED from now on peer=192.0.2.3")
    });
    assert!(!session.echoes());
    // It listens where the next connection has to come from.
    drop(session);
    assert!(!net.connects(Side::B, "192.0.2.3", Side::A));
    net.transfer(Side::B, IPV4[1], Side::A, 1 << 20);
}

#[test]
fn a_change_whose_rules_fail_changes_nothing() {
    let net = Net::new(1500);
    let (programs, config) = (net.without_nft(), net.folder().join("gateway.toml"));
    fs::write(&config, "[peers]\n").unwrap();
    let arguments = ["--config", config.to_str().unwrap()];
    let gateway = net.gateway_with_path(Side::A, &first(), &arguments, &programs);
    let _other = net.gateway(Side::B, &first(), &[]);
    let session = net.session(Side::B, IPV4[1], Side::A);
    assert!(session.echoes());
    let restore = programs.join("iptables-restore").display().to_string();
    net.run(
        Side::A,
        &format!(
            "mv {restore} {restore}-too; printf \"#!/bin/sh\\nexit 1\\n\" > {restore}; chmod 755 {restore}"
        ),
    );
    fs::write(&config, "[peers]\n\"192.0.2.9\" = \"core\"\n").unwrap();
    fs::write(gateway.keys(), keys(1, "AES-128-CMAC-96", "what one end knows")).unwrap();
    gateway.reload();
    await_that("the log to say it", || gateway.log().contains("the configuration stays as it was"));
    assert!(session.echoes(), "{}", gateway.log());
    net.run(Side::A, &format!("mv {restore}-too {restore}"));
    gateway.change_keys(&keys(1, "AES-128-CMAC-96", "what one end knows"));
    let log = gateway.log();
    let changed = "the configuration was read again added=\"192.0.2.9\" changed=\"192.0.2.2, 2001:db8::2\"";
    assert!(log.contains(changed), "{log}");
    assert!(!session.echoes());
}

#[test]
fn status_and_metrics_say_what_it_does() {
    let net = Net::new(1500);
    let gateway = net.gateway(
        Side::A,
        &keys(7, "AES-128-CMAC-96", "what both ends know"),
        &["--metrics", "127.0.0.1:9417"],
    );
    let unix = format!("unix:{}", net.folder().join("metrics").display());
    let other =
        net.gateway(Side::B, &keys(7, "AES-128-CMAC-96", "what both ends know"), &["--metrics", &unix]);
    let session = net.session(Side::B, IPV4[1], Side::A);
    assert!(session.echoes());

    let status = net.status(&["--json", "--pid", &gateway.id().to_string()]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!((&status[0]["command"], status.as_array().unwrap().len()), (&"gateway".into(), 1));
    let peer = &status[0]["peers"][0];
    assert_eq!((&peer["peer"], &peer["key"]["send-id"]), (&IPV4[1].into(), &7.into()));
    assert_eq!(
        (&peer["sessions"][0]["is-established"], &peer["sessions"][0]["send-id"]),
        (&true.into(), &7.into())
    );
    let good = peer["segments"]["good"].as_u64().unwrap();
    assert!(good >= 3, "{peer}");
    assert_eq!(peer["segments"]["bad-mac"], 0);
    let table = net.status(&["--pid", &gateway.id().to_string()]);
    assert!(
        table.contains("1 session") && table.contains("SendID 7") && table.contains("RecvID 7"),
        "{table}"
    );

    let as_prometheus = "curl -s --fail -H \"Accept: application/openmetrics-text\"";
    let fetched = [
        net.run(Side::A, &format!("{as_prometheus} http://127.0.0.1:9417/metrics")),
        net.run(Side::B, &format!("{as_prometheus} --unix-socket {} http://localhost/metrics", &unix[5..])),
    ];
    for (metrics, peer) in fetched.iter().zip([IPV4[1], IPV4[0]]) {
        for line in [
            "wireseal_info{command=\"gateway\",version=\"0.1.0\"} 1".to_owned(),
            "wireseal_rules_in_place 1".to_owned(),
            format!("wireseal_sessions{{peer=\"{peer}\"}} 1"),
            format!("wireseal_segments_total{{peer=\"{peer}\",verdict=\"bad MAC\"}} 0"),
            "# TYPE wireseal_key_start_timestamp_seconds gauge".to_owned(),
            "# EOF".to_owned(),
        ] {
            assert!(metrics.lines().any(|other| other == line), "{line}: {metrics}");
        }
        assert!(!metrics.contains("wireseal_key_end_timestamp_seconds{"), "the key has no end: {metrics}");
    }
    // The dashboard shows nothing else.
    let dashboard = include_str!("../../grafana/wireseal.json");
    let shown = dashboard
        .split(|c: char| !c.is_ascii_lowercase() && c != '_')
        .filter(|word| word.starts_with("wireseal_"));
    for name in shown {
        let name = name.strip_suffix("_total").unwrap_or(name);
        assert!(fetched[0].contains(&format!("# TYPE {name} ")), "{name}");
    }
    other.kill();
    // What it has left is in nobody's way.
    let again = net.gateway(Side::B, &first(), &["--metrics", &unix]);
    again.end();
    assert!(!net.folder().join("metrics").exists());
    let id = gateway.id().to_string();
    gateway.end();
    assert_eq!(net.status(&["--json", "--pid", &id]).trim(), "[]");
}

#[test]
fn what_is_wrong_is_said_in_one_line_and_nothing_is_left() {
    let net = Net::new(1500);
    for (arguments, keys, expected) in [
        (&["--peer", "192.0.2.9%lo=core"][..], first(), "a gateway cannot tell VRFs apart"),
        (&["--peer", "192.0.2.9=edge"], first(), "there is no key chain of that name"),
        (&[], "[[key-chain]]\n".to_owned(), "line 1, column 1: missing field `name`"),
        (&["--metrics", "unix:/no/such/folder/metrics"], first(), "cannot serve metrics at unix:/no/such"),
    ] {
        let error = net.refused_gateway(Side::A, &keys, arguments);
        assert!(error.contains(expected) && error.trim().lines().count() == 1, "{error}");
    }
    let rules =
        "{ iptables-save; ip6tables-save; nft list ruleset; } 2>/dev/null | grep -ci wireseal || true";
    assert_eq!(net.run(Side::A, rules).trim(), "0");
}
