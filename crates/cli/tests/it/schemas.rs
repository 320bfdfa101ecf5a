//! The JSON of every command is as docs/schemas says.

use std::collections::BTreeSet;
use std::fs;

use wireseal::capture::{Network, Scope};
use wireseal::explain::Catalogue;
use wireseal::report::{Format, Report, Subject};
use wireseal::verify::report::{ConnectionReport, Totals};

use crate::support::files::{Files, crates};
use crate::support::program::{program, wireseal};
use crate::support::reports::{every_verdict, keys, options_excluded, rollover, totals};
use crate::support::schema::Schema;
use crate::support::session::{IPV4_SESSION, capture_path};

const ROUTERS: [&str; 13] = [
    "bird.conf",
    "eos.cfg",
    "gobgp.toml",
    "ios-xe.cfg",
    "ios-xr-formal.cfg",
    "ios-xr.cfg",
    "junos-set.conf",
    "junos.conf",
    "nx-os.cfg",
    "sr-os-classic.cfg",
    "sr-os-commands.cfg",
    "sr-os.cfg",
    "vrp.cfg",
];

const NOW: &str = "2026-06-01T00:00:00Z";

fn router(name: &str) -> String {
    crates().join("keys/tests/data/routers").join(name).to_str().unwrap().to_owned()
}

/// A chain with this key and lifetime.
fn chain(ids: &str, secret: &str, lifetime: &str) -> String {
    format!(
        "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\n{ids}\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \"{secret}\"\n{lifetime}\n"
    )
}

#[test]
fn every_schema_is_listed_and_every_file_is_a_schema() {
    let folder = crates().join("../docs/schemas");
    let names: BTreeSet<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .collect();
    let list = fs::read_to_string(folder.join("README.md")).unwrap();
    for name in &names {
        assert!(list.contains(&format!("[{name}]({name})")), "{name}");
    }
    assert_eq!(list.matches(".json](").count(), names.len(), "{names:?}");
}

/// The reports of `verify` about these connections, with the segments, as one object and as lines.
fn written(connections: &[ConnectionReport], totals: &Totals, format: Format) -> String {
    let keys = keys();
    let mut output = Vec::new();
    let subject = Subject { capture: "session.pcap", keys: &keys };
    let mut report = Report::new(&mut output, format, subject).unwrap();
    for connection in connections {
        for segment in &connection.segments {
            report.segment(connection.number, &connection.ends, segment).unwrap();
        }
        report.connection(connection).unwrap();
    }
    report.finish(totals).unwrap();
    String::from_utf8(output).unwrap()
}

/// Connections with all that a report can have.
fn connections() -> Vec<ConnectionReport> {
    let networks = [Network::Vlan(10), Network::ServiceInstance(5), Network::Virtual(5000)];
    let mut all = Vec::new();
    for (number, network) in (4..).zip(networks) {
        all.push(ConnectionReport { number, scope: Scope::NONE.with(network), ..rollover() });
    }
    all.extend([rollover(), options_excluded(), every_verdict()]);
    all
}

#[test]
fn verify() {
    let mut schema = Schema::load("verify.json");
    let mut line = Schema::load("verify-lines.json");
    let connections = connections();
    let mut damaged = totals(&connections);
    damaged.damage = Some("packet 7".to_owned());
    for (connections, totals) in [(&connections[..], &damaged), (&[], &Totals::default())] {
        for segments in [true, false] {
            let json = written(connections, totals, Format::Json { segments });
            schema.holds(&serde_json::from_str(&json).unwrap());
        }
        let lines = written(connections, totals, Format::JsonLines { segments: true });
        lines.lines().for_each(|text| line.holds(&serde_json::from_str(text).unwrap()));
    }
    // What the program itself writes about a recorded session, and about a file with a damaged end.
    let capture = capture_path(IPV4_SESSION);
    let files = Files::new();
    let whole = fs::read(&capture).unwrap();
    let cut = files.file("cut.pcap", &whole[..whole.len() - 7]);
    let core = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/core.toml");
    for path in [&capture, &cut] {
        let arguments = ["verify", path.to_str().unwrap(), "--keys", core, "--segments"];
        schema.holds(&wireseal(arguments.into_iter().chain(["--json"])).json());
        let lines = wireseal(arguments.into_iter().chain(["--json-lines"])).out;
        lines.lines().for_each(|text| line.holds(&serde_json::from_str(text).unwrap()));
    }
    schema.was_seen_whole();
    line.was_seen_whole();
}

#[test]
fn keys_check() {
    let mut schema = Schema::load("keys-check.json");
    for name in ROUTERS {
        let run = wireseal(["keys", "check", &router(name), "--json", "--now", NOW]);
        schema.holds(&run.json());
    }
    let files = Files::new();
    let path = files.file("keys.toml", chain("send-id = 1\nrecv-id = 2", "short", ""));
    schema.holds(&wireseal(["keys", "check", path.to_str().unwrap(), "--json"]).json());
    schema.was_seen_whole();
}

#[test]
fn keys_diff() {
    let mut schema = Schema::load("keys-diff.json");
    let mut compared = 0;
    for pair in ROUTERS.windows(2) {
        let run = wireseal(["keys", "diff", &router(pair[0]), &router(pair[1]), "--json", "--now", NOW]);
        if run.code != 2 {
            schema.holds(&run.json());
            compared += 1;
        }
    }
    assert!(compared > 3, "{compared}");
    // Every kind of outage and difference that two chains of one key can have.
    let files = Files::new();
    let one = files.file("one.toml", chain("send-id = 1\nrecv-id = 2", "what both ends know", ""));
    for (ids, secret, lifetime) in [
        ("send-id = 2\nrecv-id = 1", "what both ends know", ""),
        ("send-id = 2\nrecv-id = 1", "what one end knows", ""),
        ("send-id = 1\nrecv-id = 2", "what both ends know", ""),
        ("send-id = 2\nrecv-id = 1", "what both ends know", "send = { until = 2026-01-01T00:00:00Z }"),
        (
            "send-id = 2\nrecv-id = 1",
            "what both ends know",
            "send = { from = 2026-07-01T00:00:00Z }\naccept = { from = 2026-07-01T00:00:00Z }",
        ),
        ("send-id = 2\nrecv-id = 1\noptions = \"excluded\"", "what both ends know", ""),
        ("send-id = 2\nrecv-id = 1\nmac-length = 16", "what both ends know", ""),
        ("send-id = 8\nrecv-id = 9", "what nobody knows", ""),
    ] {
        let other = files.file("other.toml", chain(ids, secret, lifetime));
        for until in ["9999-01-01T00:00:00Z", "2026-08-01T00:00:00Z"] {
            let [one, other] = [&one, &other].map(|path| path.to_str().unwrap());
            let run = wireseal(["keys", "diff", one, other, "--json", "--now", NOW, "--until", until]);
            schema.holds(&run.json());
        }
    }
    schema.was_seen_whole();
}

#[test]
fn keys_roll() {
    let mut schema = Schema::load("roll-plan.json");
    let files = Files::new();
    files.file("left.toml", chain("send-id = 1\nrecv-id = 2", "what both ends have today", ""));
    files.file("right.toml", chain("send-id = 2\nrecv-id = 1", "what both ends have today", ""));
    files.file(
        "bird.conf",
        "protocol bgp left { neighbor 192.0.2.1 as 65001; authentication ao; keys { key { send id 2; recv id 1; secret \
         \"what both ends have today\"; algorithm cmac aes128; }; }; }\n",
    );
    for (number, other) in ["right.toml", "bird.conf"].into_iter().enumerate() {
        let mut command = program();
        command.args(["keys", "roll", "left.toml", other, "--at", "2026-12-01T00:00:00Z"]);
        command.args(["--now", "2026-11-26T12:00:00Z", "--out", &format!("roll{number}")]);
        let output = command.current_dir(files.path(".")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let plan = fs::read_to_string(files.path(&format!("roll{number}/plan.json"))).unwrap();
        schema.holds(&serde_json::from_str(&plan).unwrap());
    }
    schema.was_seen_whole();
}

#[test]
fn explain() {
    let mut schema = Schema::load("explain.json");
    // The fields of a message are those of its first line, so each log begins with others.
    let messages = Catalogue::get().messages();
    for number in 0..messages.iter().map(|message| message.examples.len()).max().unwrap() {
        let lines = messages.iter().map(|message| &*message.examples[number % message.examples.len()]);
        let log = lines.collect::<Vec<_>>().join("\n");
        schema.holds(&wireseal(["explain", "--json", &log]).json());
    }
    schema.holds(&wireseal(["explain", "--json", "nothing"]).json());
    schema.was_seen_whole();
}

/// The fields of the events in a source file: what a macro of `tracing` has before its text.
fn logged(text: &str) -> BTreeSet<String> {
    let events = ["info!(", "warn!(", "error!("].into_iter().flat_map(|name| text.split(name).skip(1));
    let before = events.filter_map(|event| event.split_once('"')).map(|(fields, _)| fields);
    let fields = before.flat_map(|fields| fields.split(','));
    let names = fields.map(|field| field.split('=').next().unwrap().trim().trim_start_matches(['%', '?']));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn every_field_that_is_logged_is_in_the_schema() {
    assert_eq!(
        logged("warn!(%peer, ids = 1,\n  segments, \"a, b\"); error!(\"c\")"),
        ["ids", "peer", "segments"].map(str::to_owned).into()
    );
    let mut folders =
        vec![crates().join("agent/src"), crates().join("linux/src"), crates().join("cli/src/command")];
    let mut all = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else {
                let text = fs::read_to_string(&entry).unwrap();
                // Tests at a file's end log what they like.
                all.extend(logged(text.split("\n#[cfg(test)]\n").next().unwrap()));
            }
        }
    }
    assert!(all.len() > 15, "{all:?}");
    let schema = fs::read_to_string(crates().join("../docs/schemas/log.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let known = schema["properties"].as_object().unwrap();
    let known = known.keys().filter(|name| !["timestamp", "level", "message"].contains(&name.as_str()));
    assert_eq!(all, known.cloned().collect());
}

#[test]
fn status() {
    use wireseal_agent::{
        Command, KeyStatus, ListenerStatus, PeerStatus, RulesStatus, Segments, SessionStatus, Status,
    };
    use wireseal_tcp_ao::KeyId;

    let mut schema = Schema::load("status.json");
    let now: wireseal_keys::Timestamp = NOW.parse().unwrap();
    let segments = Segments { good: 1, bad_mac: 2, unknown_key_id: 3, unsigned: 4 };
    let key = KeyStatus {
        key_id: 1,
        send_id: KeyId(1),
        recv_id: KeyId(2),
        algorithm: "HMAC-SHA-1-96".to_owned(),
        since: now,
        until: Some(now),
    };
    let session = SessionStatus {
        local: "192.0.2.1:179".parse().unwrap(),
        remote: "192.0.2.2:41000".parse().unwrap(),
        is_established: true,
        send_id: KeyId(1),
        asked_for: KeyId(2),
        is_peer_behind: false,
        peer_insists: false,
    };
    let peer = PeerStatus {
        peer: "192.0.2.2".to_owned(),
        key_chain: "core".to_owned(),
        key: Some(key),
        next_change: Some(now),
        chain_end: Some(now),
        sessions: vec![session],
        segments,
    };
    let whole = Status {
        command: Command::Run,
        pid: 411,
        since: now,
        network_namespace: 1,
        program: Some("/usr/lib/frr/bgpd".to_owned()),
        ports: vec![179, 646],
        peers: vec![peer.clone()],
        listeners: vec![ListenerStatus { local: "[::]:179".parse().unwrap(), segments }],
        rules: Some(RulesStatus { by: "nft".to_owned(), since: now, problem: Some("gone".to_owned()) }),
    };
    let empty = PeerStatus { key: None, next_change: None, chain_end: None, sessions: Vec::new(), ..peer };
    let bare = Status {
        command: Command::Gateway,
        program: None,
        peers: vec![empty],
        listeners: Vec::new(),
        rules: None,
        ..whole.clone()
    };
    // As `wireseal status` prints them.
    let text = serde_json::to_string_pretty(&[whole, bare]).unwrap();
    schema.holds(&serde_json::from_str(&text).unwrap());
    schema.was_seen_whole();
}
