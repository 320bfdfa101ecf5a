//! Local users at the port for metrics.

use std::fs;

use super::net::{Net, Side, await_that};
use super::{IPV4, first};

/// Two hundred connections. Each asks for something every second, so that it is never idle, and is opened again when it is closed.
const GREEDY: &str = "
import os, socket, sys, threading, time
held = [None] * 200
def ask(n):
    try:
        if held[n] is None:
            held[n] = socket.create_connection(('127.0.0.1', 9417))
        held[n].sendall(b'GET / HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')
    except OSError:
        held[n] = None
def go_on():
    while True:
        time.sleep(1)
        for n in range(len(held)): ask(n)
for n in range(len(held)): ask(n)
threading.Thread(target=go_on, daemon=True).start()
print('ready', flush=True)
sys.stdin.read()
os._exit(0)
";

#[test]
fn local_users_take_neither_all_descriptors_nor_the_port_for_long() {
    let net = Net::new(1500);
    let state = net.folder().join("state");
    let arguments = ["--metrics", "127.0.0.1:9417", "--threads", "1", "--state", state.to_str().unwrap()];
    let gateway = net.gateway(Side::A, &first(), &arguments);
    let _other = net.gateway(Side::B, &first(), &[]);
    let session = net.session(Side::B, IPV4[1], Side::A);
    assert!(session.echoes());
    // What it has, sixteen callers, and a program that installs rules.
    let open = fs::read_dir(format!("/proc/{}/fd", gateway.id())).unwrap().count();
    let most = open + 16 + 12;
    net.run(Side::A, &format!("prlimit --pid {} --nofile={most}:{most}", gateway.id()));
    let greedy = net.hold(Side::A, GREEDY);
    net.run(Side::A, "for table in raw security; do iptables -t $table -F; done; nft flush ruleset");
    await_that("the rules", || gateway.log().contains("the rules are installed again"));
    gateway.change_keys(&first());
    assert!(session.echoes());
    // Each request is answered, and its connection closed.
    await_that("the metrics", || {
        net.run(Side::A, "curl -s http://127.0.0.1:9417/metrics || true").contains("wireseal_info")
    });
    drop(greedy);
    let log = gateway.end();
    assert!(log.contains("the sessions were written sessions=1"), "{log}");
    net.remove_rules(Side::A);
}

#[test]
fn the_limit_of_open_files_is_raised() {
    let net = Net::new(1500);
    let (command, keys) = net.gateway_command(Side::A, &first(), &[]);
    let mut limited = std::process::Command::new("prlimit");
    limited.arg("--nofile=100:3000").arg(command.get_program()).args(command.get_args());
    let gateway = net.started((limited, keys));
    let limits = fs::read_to_string(format!("/proc/{}/limits", gateway.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(line.split_whitespace().nth(3), Some("3000"), "{line}");
}
