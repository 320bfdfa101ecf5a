//! A gateway whose log nobody reads, and one whose log is JSON.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use super::net::{Net, Side, await_that};
use super::{IPV4, first};

/// What a pipe has room for (`pipe(7)`).
const PIPE: usize = 65_536;

#[test]
fn packets_go_on_although_nobody_reads_the_log() {
    let net = Net::new(1500);
    let (mut log, mut full) = io::pipe().unwrap();
    full.write_all(&[b'\n'; PIPE]).unwrap();
    let (mut command, keys) = net.gateway_command(Side::A, &first(), &["--metrics", "127.0.0.1:9417"]);
    let told = keys.with_extension("notify");
    let systemd = UnixDatagram::bind(&told).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut gateway = command.env("NOTIFY_SOCKET", &told).stderr(full).spawn().unwrap();
    // The command has the writing end, too.
    drop(command);
    systemd.recv(&mut [0; 100]).unwrap();
    let _other = net.gateway(Side::B, &first(), &[]);
    let session = net.session(Side::B, IPV4[1], Side::A);
    assert!(session.echoes());
    let id = gateway.id().to_string();
    assert!(net.status(&["--pid", &id]).contains("1 session"));
    net.run(Side::A, "curl -s --fail --max-time 5 http://127.0.0.1:9417/metrics");
    net.run(Side::A, &format!("kill -HUP {id}; sleep 2"));
    drop(session);
    net.transfer(Side::A, IPV4[0], Side::B, 1 << 20);
    // Who reads it after all misses nothing.
    net.run(Side::A, &format!("kill -TERM {id}"));
    let mut text = String::new();
    log.read_to_string(&mut text).unwrap();
    assert!(gateway.wait().unwrap().success());
    let lines: Vec<_> = text.trim_start().lines().collect();
    for said in ["carries the packets of its peers", "established", "the configuration was read again"] {
        assert!(lines.iter().any(|line| line.contains(said)), "{said}: {lines:?}");
    }
    assert!(!text.contains("were lost"), "{text}");
    net.remove_rules(Side::A);
}

#[test]
fn in_json_both_ends_and_the_ids_are_fields_and_the_last_word_is_json() {
    let net = Net::new(1500);
    let gateway = net.gateway(Side::A, &first(), &["--json"]);
    let _other = net.gateway(Side::B, &first(), &[]);
    let session = net.session(Side::B, IPV4[1], Side::A);
    assert!(session.echoes());
    drop(session);
    await_that("the session's end", || gateway.log().matches("192.0.2.2:179").count() > 2);
    let log = gateway.end();
    let events: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let opened = events.iter().find(|event| event["send_id"].is_number()).unwrap();
    assert_eq!((&opened["send_id"], &opened["recv_id"]), (&1.into(), &1.into()));
    let of_session = events.iter().filter(|event| event["remote"] == "192.0.2.2:179");
    assert!(of_session.clone().count() >= 2, "{log}");
    assert!(
        of_session.map(|event| event["local"].as_str().unwrap()).all(|local| local.starts_with("192.0.2.1:"))
    );
    // What cannot be used, or is not there at all.
    let (mut command, _) = net.gateway_command(Side::A, "[[key-chain]]\n", &["--json"]);
    let mut without = std::process::Command::new(env!("CARGO_BIN_EXE_wireseal"));
    for command in [&mut command, without.args(["gateway", "--json"])] {
        let output = command.stdout(Stdio::null()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        let event: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(event["level"], "ERROR");
    }
}
