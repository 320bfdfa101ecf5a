//! Operating a gateway: command line, log, status, metrics and the file of sessions.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::net::{LIMIT, Net, Side, WIRESEAL, await_that};
use crate::schema::Schema;
use crate::{IPV4, first, keys};

fn wireseal(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(WIRESEAL).args(arguments).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// A file of keys with this mode.
fn key_file(mode: u32) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.toml");
    fs::write(&keys, first()).unwrap();
    fs::set_permissions(&keys, Permissions::from_mode(mode)).unwrap();
    (folder, keys.to_str().unwrap().to_owned())
}

#[test]
fn no_number_panics_or_aborts() {
    let most = u64::MAX.to_string();
    for (option, numbers) in [
        ("--connections", &["0", "-1", "1048577", "4000000000", &most, "many"][..]),
        ("--queue", &["-1", "65001", "65535", &most]),
        ("--threads", &["0", "65", "65535", &most]),
        ("--port", &["0", "65536"]),
    ] {
        for number in numbers {
            let argument = format!("{option}={number}");
            let (code, said) = wireseal(&["gateway", "--keys", "/no/such", "--peer", "192.0.2.1", &argument]);
            assert_eq!(code, 2, "{said}");
            assert!(said.starts_with("error: invalid value"), "{argument}: {said}");
            let room = "from 1 to 1048576, which takes 1.2 GiB";
            assert!(option != "--connections" || said.contains(room), "{said}");
        }
    }
    let (_folder, keys) = key_file(0o600);
    // 76 GiB: more than any machine for these tests has.
    let room = ["--connections", "1048576", "--threads", "64", "--queue", "65000"];
    let (code, said) = wireseal(&[&["gateway", "--keys", &keys, "--peer", "192.0.2.1"], &room[..]].concat());
    let expected = "wireseal: 1048576 connections in each of 64 threads take 77824 MiB: name fewer\n";
    assert_eq!((code, said.as_str()), (2, expected));
}

#[test]
fn keys_that_everybody_can_write_are_said_to_be() {
    for (mode, can) in
        [(0o604, Some("read")), (0o602, Some("write")), (0o606, Some("read and write")), (0o660, None)]
    {
        let (_folder, keys) = key_file(mode);
        let (code, said) = wireseal(&["gateway", "--keys", &keys, "--peer", "192.0.2.1", "--dry-run"]);
        assert_eq!((code, said.contains("every user of this machine can")), (0, can.is_some()), "{said}");
        assert!(can.is_none_or(|can| said.contains(&format!("can {can} it (mode "))), "{said}");
    }
}

/// A router's file may have key chains that are none of this gateway's business.
#[test]
fn a_wrong_key_chain_is_a_warning_unless_a_peer_uses_it() {
    let folder = tempfile::tempdir().unwrap();
    let router = folder.path().join("bird.conf");
    let text = "protocol bgp core { neighbor 192.0.2.1 as 1; authentication ao; keys {\n key { id 1; secret \"s3\"; };\n }; }\nprotocol bgp \
                old { neighbor 192.0.2.9 as 2; authentication ao; keys {\n key { id 7; secret \"\"; };\n }; }\n";
    fs::write(&router, text).unwrap();
    fs::set_permissions(&router, Permissions::from_mode(0o600)).unwrap();
    let router = router.to_str().unwrap();
    let of = |peer| wireseal(&["gateway", "--keys", router, "--peer", peer, "--dry-run"]);
    let wrong = format!("{router}: line 5, column 2, key chain \"old\", key 7, secret: master key is empty");
    let (code, said) = of("192.0.2.1=core");
    let warning = format!(" WARN {wrong}; this key chain is left out, because no peer uses it\n");
    assert!(
        code == 0 && said.contains("peer 192.0.2.1: key chain core\n") && said.contains(&warning),
        "{said}"
    );
    assert_eq!(of("192.0.2.9=old"), (2, format!("wireseal: {wrong}\n")));
}

#[test]
fn the_end_that_a_key_file_is_of_decides_which_id_is_sent() {
    let (_folder, keys) = key_file(0o600);
    let text = std::fs::read_to_string(&keys).unwrap();
    let (before, after) = text.split_once("send-id").unwrap();
    std::fs::write(&keys, format!("{before}recv-id = 200\nsend-id{after}")).unwrap();
    for (end, expected) in [(&[][..], "RecvID 200"), (&["--keys-of", "peer"], "SendID 200")] {
        let arguments = [&["gateway", "--keys", &keys, "--peer", "192.0.2.1", "--dry-run"], end].concat();
        let (code, said) = wireseal(&arguments);
        assert!(code == 0 && said.contains(expected), "{said}");
    }
}

#[test]
fn completions_offer_nothing_that_is_hidden() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (code, script) = wireseal(&["completions", shell]);
        assert_eq!(code, 0);
        for hidden in ["is-in-background", "is-guarded"] {
            assert!(!script.contains(hidden), "{shell}");
        }
        for shown in ["remove-rules", "accept-icmp", "connections", "explain", "version"] {
            assert!(script.contains(shown), "{shell}: {shown}");
        }
    }
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

/// The capacity of a pipe (`pipe(7)`).
const PIPE: usize = 65_536;

#[test]
fn packets_go_on_although_nobody_reads_the_log() {
    let net = Net::new(1500);
    let (mut log, mut full) = io::pipe().unwrap();
    full.write_all(&[b'\n'; PIPE]).unwrap();
    let (mut command, keys) = net.gateway_command(Side::A, &first(), &["--metrics", "127.0.0.1:9417"]);
    let told = keys.with_extension("notify");
    let systemd = UnixDatagram::bind(&told).unwrap();
    systemd.set_read_timeout(Some(LIMIT)).unwrap();
    let mut gateway = command.env("NOTIFY_SOCKET", &told).stderr(full).spawn().unwrap();
    // The command still has the writing end.
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
    // A late reader misses nothing.
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
    let mut schema = Schema::load("log.json");
    events.iter().for_each(|event| schema.holds(event));
    let opened = events.iter().find(|event| event["send_id"].is_number()).unwrap();
    assert_eq!((&opened["send_id"], &opened["recv_id"]), (&1.into(), &1.into()));
    let of_session = events.iter().filter(|event| event["remote"] == "192.0.2.2:179");
    assert!(of_session.clone().count() >= 2, "{log}");
    assert!(
        of_session.map(|event| event["local"].as_str().unwrap()).all(|local| local.starts_with("192.0.2.1:"))
    );
    // Unusable key chains, and none at all.
    let (mut command, _) = net.gateway_command(Side::A, "[[key-chain]]\n", &["--json"]);
    let mut without = Command::new(WIRESEAL);
    for command in [&mut command, without.args(["gateway", "--json"])] {
        let output = command.stdout(Stdio::null()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        let event: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(event["level"], "ERROR");
        schema.holds(&event);
    }
}

#[test]
fn status_and_metrics_say_what_it_does() {
    let net = Net::new(1500);
    let keys = keys(7, "AES-128-CMAC-96", "what both ends know");
    let gateway = net.gateway(Side::A, &keys, &["--metrics", "127.0.0.1:9417"]);
    let unix = format!("unix:{}", net.folder().join("metrics").display());
    let other = net.gateway(Side::B, &keys, &["--metrics", &unix]);
    let session = net.session(Side::B, IPV4[1], Side::A);
    assert!(session.echoes());

    let status = net.status(&["--json", "--pid", &gateway.id().to_string()]);
    let status: Value = serde_json::from_str(&status).unwrap();
    Schema::load("status.json").holds(&status);
    assert_eq!((&status[0]["command"], status.as_array().unwrap().len()), (&"gateway".into(), 1));
    let peer = &status[0]["peers"][0];
    assert_eq!((&peer["peer"], &peer["key"]["send-id"]), (&IPV4[1].into(), &7.into()));
    let session_of = &peer["sessions"][0];
    assert_eq!((&session_of["is-established"], &session_of["send-id"]), (&true.into(), &7.into()));
    let good = peer["segments"]["good"].as_u64().unwrap();
    assert!(good >= 3, "{peer}");
    assert_eq!(peer["segments"]["bad-mac"], 0);
    let table = net.status(&["--pid", &gateway.id().to_string()]);
    for part in ["1 session", "SendID 7", "RecvID 7"] {
        assert!(table.contains(part), "{table}");
    }

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
    // The dashboard shows no other metrics.
    let dashboard = include_str!("../../grafana/wireseal.json");
    let shown = dashboard
        .split(|c: char| !c.is_ascii_lowercase() && c != '_')
        .filter(|word| word.starts_with("wireseal_"));
    for name in shown {
        let name = name.strip_suffix("_total").unwrap_or(name);
        assert!(fetched[0].contains(&format!("# TYPE {name} ")), "{name}");
    }
    other.kill();
    // The socket that it has left is replaced.
    let again = net.gateway(Side::B, &first(), &["--metrics", &unix]);
    again.end();
    assert!(!net.folder().join("metrics").exists());
    let id = gateway.id().to_string();
    gateway.end();
    assert_eq!(net.status(&["--json", "--pid", &id]).trim(), "[]");
}

/// Two hundred connections. Each sends a request every second, so that it is never idle, and is reopened when it is closed.
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
    // Room for those that it has, for sixteen callers, and for a program that installs rules.
    let open = fs::read_dir(format!("/proc/{}/fd", gateway.id())).unwrap().count();
    let most = open + 16 + 12;
    net.run(Side::A, &format!("prlimit --pid {} --nofile={most}:{most}", gateway.id()));
    let greedy = net.hold(Side::A, GREEDY);
    net.run(Side::A, "for table in raw security; do iptables -t $table -F; done; nft flush ruleset");
    gateway.await_log("the rules are installed again");
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
    let mut limited = Command::new("prlimit");
    limited.arg("--nofile=100:3000").arg(command.get_program()).args(command.get_args());
    let gateway = net.started((limited, keys));
    let limits = fs::read_to_string(format!("/proc/{}/limits", gateway.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(line.split_whitespace().nth(3), Some("3000"), "{line}");
}

/// An instance that answers, one that does not, and other files.
const FAKES: &str = "
import json, os, socket, subprocess, sys, threading
os.makedirs('/run/wireseal', 0o700)
def listen(name):
    s = socket.socket(socket.AF_UNIX)
    s.bind('/run/wireseal/' + name)
    s.listen()
    return s
works, hangs, metrics = listen('gateway-12'), listen('run-13'), listen('metrics')
open('/run/wireseal/run-14', 'w').close()
status = {'command': 'gateway', 'pid': 12, 'since': '2026-11-25T12:00:00Z', 'program': None, 'peers': [], 'listeners': []}
def answer():
    while True:
        s, _ = works.accept()
        s.sendall(json.dumps(status).encode())
        s.close()
threading.Thread(target=answer, daemon=True).start()
run = subprocess.run([sys.argv[1], 'status'] + sys.argv[2:], capture_output=True)
sys.stdout.buffer.write(run.stdout + run.stderr)
sys.stdout.flush()
os._exit(run.returncode)
";

/// The exit code and output of `status`, with nothing else in /run.
fn status(arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new("unshare");
    command.args([
        "-m",
        "sh",
        "-c",
        "mount -t tmpfs tmpfs /run && exec \"$@\"",
        "sh",
        "python3",
        "-c",
        FAKES,
    ]);
    let output = command.arg(WIRESEAL).args(arguments).stderr(Stdio::inherit()).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn one_that_hangs_does_not_hide_the_others() {
    let (code, said) = status(&[]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("wireseal gateway (process 12), since 2026-11-25T12:00:00Z\n"), "{said}");
    assert!(said.contains("wireseal: /run/wireseal/run-13: no answer: not within 3 seconds"), "{said}");
    assert_eq!(said.matches("no answer").count(), 1, "{said}");
    let (code, said) = status(&["--pid", "12"]);
    assert!(code == 0 && said.contains("(process 12)") && !said.contains("no answer"), "{said}");
    let (code, said) = status(&["--pid", "14"]);
    assert_eq!((code, said.as_str()), (1, "wireseal: no instance has process number 14\n"));
}

#[test]
fn the_network_namespace_is_shown_if_it_is_another() {
    let net = Net::new(1500);
    let gateway = net.gateway(Side::A, &first(), &[]);
    let id = gateway.id().to_string();
    let inode = fs::read_link(format!("/proc/{id}/ns/net")).unwrap();
    let inode = inode.to_str().unwrap().trim_start_matches("net:[").trim_end_matches(']').to_owned();
    let outside = net.status(&["--pid", &id]);
    assert!(outside.contains(&format!(", in network namespace {inode}\n")), "{outside}");
    // `ip netns exec` mounts /sys anew, and leaves /run as it is.
    let inside = net.run(Side::A, &format!("{WIRESEAL} status --pid {id}"));
    assert!(inside.contains(&format!("(process {id})")) && !inside.contains("namespace"), "{inside}");
    let json = net.status(&["--json", "--pid", &id]);
    assert!(json.contains(&format!("\"network-namespace\": {inode},")), "{json}");
}

#[test]
fn a_damaged_file_is_set_aside_and_the_gateway_starts() {
    let net = Net::new(1500);
    let state = net.folder().join("state");
    fs::write(&state, "no state").unwrap();
    let log = net.gateway(Side::A, &first(), &["--state", state.to_str().unwrap()]).end();
    let line = log.lines().find(|line| line.contains("was set aside")).unwrap();
    assert!(line.contains(" ERROR ") && line.contains("lost=1"), "{line}");
    let names = fs::read_dir(net.folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let aside = names.filter(|name| name.to_string_lossy().starts_with("state.damaged-")).count();
    assert_eq!(aside, 1);
    net.remove_rules(Side::A);
}

#[test]
fn what_cannot_be_a_file_of_sessions_is_refused_at_the_start() {
    let net = Net::new(1500);
    let path = |name: &str| net.folder().join(name).to_str().unwrap().to_owned();
    let made = ["fifo p", "device c 1 3"].map(|name| format!("mknod {}; ", path(name))).concat();
    let files = "touch open nobodys && chmod 666 open && chown nobody nobodys";
    net.run(Side::A, &format!("{made} cd {} && {files}", path(".")));
    for (state, expected) in [
        // A device like /dev/null, but not the machine's own, because a wrong gateway would replace it with a file.
        (&path("device"), "it is no regular file"),
        (&path("fifo"), "it is no regular file"),
        (&path("."), "it is no regular file"),
        (&path("open"), "others can write it (mode 0666)"),
        (&path("nobodys"), "it belongs to user 65534"),
        (&path("no/such"), "could not be written here when the gateway ends: No such file"),
    ] {
        let error = net.refused_gateway(Side::A, &first(), &["--state", state]);
        let begins = format!("wireseal: {state}: ");
        assert!(error.starts_with(&begins) && error.contains(expected), "{state}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// A file system with this many octets, mounted until it is dropped.
struct Small(PathBuf);

impl Small {
    fn new(path: PathBuf, octets: u32) -> Self {
        fs::create_dir(&path).unwrap();
        let size = format!("size={octets}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).status();
        assert!(mount.unwrap().success());
        Self(path)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_keeps_what_fits_and_the_rules_go_as_asked() {
    let net = Net::new(1500);
    let small = Small::new(net.folder().join("small"), 8192);
    let state = small.0.join("state");
    let arguments = ["--peer", "10.1.0.0/16=core", "--open-on-exit", "--state", state.to_str().unwrap()];
    let gateway = net.gateway(Side::A, &first(), &arguments);
    let _other = net.gateway(Side::B, &first(), &[]);
    let sessions = net.sessions(60);
    assert!(sessions.echoes());
    let log = gateway.end();
    let line = log.lines().find(|line| line.contains("not all sessions could be written")).unwrap();
    // 165 octets each.
    for part in [" ERROR ", "sessions=49 lost=11", "No space left on device"] {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(fs::metadata(&state).unwrap().len(), 49 * 165);
    // A service tries again: there may be room later.
    let (mut command, _) = net.gateway_command(Side::A, &first(), &["--state", state.to_str().unwrap()]);
    assert_eq!(command.output().unwrap().status.code(), Some(1));
    assert_eq!(net.run(Side::A, "(iptables-save; nft list ruleset) | grep -ci wireseal || true").trim(), "0");
    // Those that were written can be read.
    let roomy = net.folder().join("state");
    fs::copy(&state, &roomy).unwrap();
    let arguments = ["--peer", "10.1.0.0/16=core", "--state", roomy.to_str().unwrap()];
    let log = net.gateway(Side::A, &first(), &arguments).end();
    assert!(log.contains("the sessions were written sessions=49"), "{log}");
    net.remove_rules(Side::A);
}
