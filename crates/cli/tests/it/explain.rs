//! `wireseal explain`: every message by its examples, and what is never said.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use clap::Parser;
use wireseal::command::Arguments;
use wireseal::explain::{Catalogue, Message, Summary};

use crate::support::files::crates;
use crate::support::program::{wireseal, wireseal_reading};

const XR: &str = "RP/0/RP1/CPU0:Jun 13 15:38:41.534 IST: tcp[131]: %IP-TCP-3-BADAUTH : Invalid AO digest from 11.1.1.3:49043 to 11.1.1.4:179 for vrf:default (0x60000000)";

fn messages() -> &'static [Message] {
    Catalogue::get().messages()
}

#[test]
fn an_example_has_its_message_and_no_other_and_a_near_line_has_not() {
    for Message { id, patterns, examples, near, .. } in messages() {
        for example in examples {
            assert_eq!(Catalogue::get().ids(example), [id], "{example}");
            // However the line begins and goes on.
            for line in [format!("<189>Nov 26 10:00:00 pe1 {example}"), format!("{example} (repeated)")] {
                assert_eq!(Catalogue::get().ids(&line), [id], "{line}");
            }
        }
        assert!(examples.len() >= patterns.len(), "{id}: an example for each pattern");
        assert!(!Catalogue::get().ids(near).contains(&id.as_str()), "{id}: {near}");
    }
}

#[test]
fn every_pattern_has_an_example() {
    for message in messages() {
        for pattern in &message.patterns {
            // The words before the first field and after the last: enough to tell the patterns of one message apart.
            let first = pattern.split('{').next().unwrap();
            let last = pattern.rsplit('}').next().unwrap();
            let has = |example: &&String| example.contains(first.trim()) && example.contains(last.trim());
            assert!(message.examples.iter().any(|example| has(&example)), "{}: {pattern}", message.id);
        }
    }
}

#[test]
fn every_message_says_what_why_how_and_from_where() {
    let ids: BTreeSet<_> = messages().iter().map(|message| &message.id).collect();
    assert_eq!(ids.len(), messages().len(), "an id is there twice");
    for Message { id, system, meaning, causes, decide, source, .. } in messages() {
        assert!(!system.is_empty() && meaning.ends_with(['.', ')']) && !source.is_empty(), "{id}");
        assert!(!causes.is_empty() && !decide.is_empty(), "{id}");
        assert!(causes.iter().all(|cause| cause.ends_with(['.', ')'])), "{id}");
        // What is named as a source in this repository is there.
        for path in source.split("; ").filter(|path| path.starts_with("crates/") || path.starts_with("docs/"))
        {
            assert!(crates().join("..").join(path).exists(), "{id}: {path}");
        }
    }
}

#[test]
fn the_programs_own_commands_are_as_the_program_takes_them() {
    let own: BTreeSet<_> = messages()
        .iter()
        .flat_map(|message| &message.decide)
        .filter(|command| command.starts_with("wireseal "))
        .map(|command| command.replace("{peer}", "192.0.2.1"))
        .collect();
    assert!(own.len() >= 3, "{own:?}");
    for command in own {
        Arguments::try_parse_from(command.split(' ')).unwrap_or_else(|error| panic!("{command}: {error}"));
    }
}

#[test]
fn fields_of_the_line_are_in_the_advice() {
    let run = wireseal(["explain", XR]);
    assert_eq!(run.code, 0, "{}", run.err);
    run.assert_says(
        "%IP-TCP-3-BADAUTH : Invalid AO digest from 11.1.1.3:49043 to 11.1.1.4:179 for vrf:default (Cisco IOS XR)\nmeaning: ",
    );
    run.assert_says("\nlikely causes:\n  1. ");
    run.assert_says("\n  wireseal verify -i IFACE --peer 11.1.1.3 --keys FILE\n");
    run.assert_says("\nsource: Cisco bug CSCvv05221\n");
    // The shell may have split it.
    assert_eq!(wireseal(["explain"].into_iter().chain(XR.split(' '))).out, run.out);
    assert_eq!(wireseal_reading(["explain", "-"], XR.as_bytes()).out, run.out);
    assert_eq!(wireseal_reading(["explain"], format!("{XR}\r\n").as_bytes()).out, run.out);

    let json = wireseal(["explain", XR, "--json"]).json();
    let fields = serde_json::json!({
        "peer": "11.1.1.3", "peer_port": "49043", "local": "11.1.1.4", "local_port": "179", "vrf": "default",
    });
    assert_eq!(json["messages"][0]["fields"], fields, "{json:#}");
    assert_eq!(json["messages"][0]["commands"][1], "wireseal verify -i IFACE --peer 11.1.1.3 --keys FILE");

    // IPv6, with the zone of a link-local address and without; and of the sending end.
    for (line, peer, port) in [
        (
            "tcp_auth_ok: Packet from 2001:db8:1::a502:764:1:61664 wrong MD5 digest",
            "2001:db8:1::a502:764:1",
            "61664",
        ),
        ("Connection from address fe80::1%eth0 (port 41022) has no TCP-AO key", "fe80::1", "41022"),
        (
            "TCP: AO hash mismatch for [2001:db8::1].51382->[2001:db8::2].179 [S]L3index: 0",
            "2001:db8::1",
            "51382",
        ),
        (
            "tcp_ao_synack_no_key: net=1 state=TCP_LISTEN family=AF_INET6 src=[2001:db8::2]:179 dest=[2001:db8::1]:52686 keyid=101 rnext=100",
            "2001:db8::1",
            "52686",
        ),
    ] {
        let found = Catalogue::get().explain(line).unwrap();
        let fields: Vec<_> = found.fields.iter().filter(|(name, _)| name.starts_with("peer")).collect();
        assert_eq!(fields, [("peer", peer), ("peer_port", port)], "{line}");
    }
    // The kernel's reason at the end of a daemon's line says more than the line.
    let line = "failed to add TCP-AO key SendID 7 ReceiveID 9: setsockopt(TCP_AO): protocol not available";
    assert_eq!(Catalogue::get().ids(line), ["linux-no-tcp-ao", "gobgp-key-failed"]);
    assert_eq!(Catalogue::get().explain(line).unwrap().message.id, "linux-no-tcp-ao");
    // A name is enough, however a tool writes it.
    for (line, id) in [
        ("%TCP-6-AOMISMATCH", "ios-xe-ao-mismatch"),
        ("tcp_ao_key_not_found", "linux-ao-key-not-found"),
        ("kfree_skb_reason(SKB_DROP_REASON_TCP_AOFAILURE)", "linux-ao-bad"),
    ] {
        assert_eq!(Catalogue::get().ids(line), [id], "{line}");
    }
    // A line without an address gets a word to replace.
    let run = wireseal(["explain", "TcpExtTCPAOBad 12 0.0"]);
    run.assert_says("\n  wireseal verify -i IFACE --peer PEER --keys FILE\n");
}

#[test]
fn what_is_no_address_and_no_number_is_not_taken() {
    for line in [
        "Connection from address 999.0.2.9 (port 41022) has no TCP-AO key",
        "Connection from address 192.0.2.9 (port 99999) has no TCP-AO key",
    ] {
        let found = Catalogue::get().explain(line).unwrap();
        assert_eq!(found.fields.iter().count(), 1, "{line}: {:?}", found.fields);
        assert!(found.text.contains('…') && !found.text.contains("999"), "{}", found.text);
    }
    let found = Catalogue::get().explain("core1: Cannot set TCP-AO key 256/101 as RNext key").unwrap();
    assert_eq!(found.fields.iter().collect::<Vec<_>>(), [("recv_id", "101")]);
}

#[test]
fn a_text_that_is_not_known_is_not_explained() {
    for text in ["BGP is down", "%TCP-6-NOSUCH: TCP AO something", "BADAUTH 0", "TCPAO", ""] {
        let run = wireseal(["explain", text]);
        assert_eq!((run.code, run.out.as_str(), run.err.lines().count()), (3, "", 1), "{text}: {}", run.err);
        assert!(!run.err.contains("BGP is down"), "{}", run.err);
    }
    let run = wireseal(["explain", "BGP is down"]);
    assert_eq!(run.err, "wireseal: unknown line. Known messages, and how to add one: docs/explain.md\n");
    let run = wireseal_reading(["explain", "--json"], b"one\ntwo\n");
    assert_eq!(run.code, 3);
    assert_eq!(
        run.json(),
        serde_json::json!({ "schema": 1, "lines": 2, "known": 0, "zero_counters": 0, "messages": [] })
    );
    assert!(run.err.contains("none of 2 lines is known"), "{}", run.err);
}

#[test]
fn counters_that_are_0_are_no_unknown_lines() {
    let counters = ["Bad", "Good", "KeyNotFound", "Required", "DroppedIcmps"].map(|name| format!("AO{name}"));
    let counters: Vec<_> = counters
        .into_iter()
        .chain(["NotFound", "Unexpected", "Failure"].map(|name| format!("MD5{name}")))
        .collect();
    let nstat = |value: &dyn Fn(&str) -> u64| {
        let line = |name: &String| format!("TcpExtTCP{name:<24} {}                  0.0\n", value(name));
        format!("#kernel\nIpInReceives  0  0.0\n{}", counters.iter().map(line).collect::<String>())
    };
    let run = wireseal_reading(["explain"], nstat(&|_| 0).as_bytes());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(run.out, "all 8 TCP-AO and TCP-MD5 counters are 0\n");
    let run = wireseal_reading(["explain"], nstat(&|name| u64::from(name == "AOBad") * 10).as_bytes());
    assert_eq!(run.code, 0);
    assert!(
        run.out.ends_with("\n1 of 10 lines known\n7 other TCP-AO and TCP-MD5 counters are 0\n"),
        "{}",
        run.out
    );
    let run = wireseal_reading(["explain", "--json"], nstat(&|_| 0).as_bytes());
    assert_eq!((run.code, run.json()["zero_counters"].clone()), (0, 8.into()));
    let run = wireseal(["explain", "TcpExtTCPAOBad 0 0.0"]);
    assert_eq!((run.code, run.out.as_str()), (0, "this counter is 0\n"));
}

#[test]
fn a_name_stands_for_its_message_or_for_several() {
    for (name, id) in [
        ("TCPAOBad", "linux-ao-bad"),
        ("TcpExtTCPAOBad", "linux-ao-bad"),
        ("TCPAOKeyNotFound", "linux-ao-key-not-found"),
        ("AOMISMATCH", "ios-xe-ao-mismatch"),
    ] {
        assert_eq!(wireseal(["explain", name, "--json"]).json()["messages"][0]["id"], id, "{name}");
    }
    for (given, name, messages) in [
        ("%TCP-6-BADAUTH", "TCP-6-BADAUTH", 2),
        ("IP-TCP-3-BADAUTH:", "IP-TCP-3-BADAUTH", 2),
        ("BADAUTH", "BADAUTH", 4),
    ] {
        let run = wireseal(["explain", given]);
        let said = format!("wireseal: {name} stands for {messages} messages: give the whole line\n");
        assert_eq!((run.code, run.out.as_str(), run.err), (3, "", said));
    }
    // A name in a text is not the name alone.
    assert_eq!(wireseal(["explain", "what is BADAUTH"]).code, 3);
    assert_eq!(wireseal(["explain", "no AOMISMATCH here"]).code, 3);
}

#[test]
fn a_log_is_explained_once_for_each_message() {
    let log = format!(
        "boot\n{XR}\nTCP: AO hash mismatch for 10.0.1.1.51382->10.0.254.1.7012 [S] L3index: 0\n{}\n{}\nend\n",
        XR.replace("11.1.1.3", "11.1.1.9"),
        XR,
    );
    let run = wireseal_reading(["explain"], log.as_bytes());
    assert_eq!(run.code, 0);
    assert_eq!(run.out.matches("meaning: ").count(), 2, "{}", run.out);
    run.assert_says("\n  3 lines, the first is line 2; peers 11.1.1.3, 11.1.1.9\n");
    run.assert_says("\n  1 line, the first is line 3\n");
    assert_eq!(run.out.lines().last(), Some("4 of 6 lines known"));
    let order: Vec<_> = run.out.lines().filter(|line| line.contains('(') && !line.starts_with(' ')).collect();
    assert!(order[0].starts_with("%IP-TCP-3-BADAUTH"), "{order:?}");

    // Sixteen peers are named, and a seventeenth is not forgotten.
    let line = |number| XR.replace("11.1.1.3", &format!("192.0.2.{number}"));
    for (peers, and_others) in [(16, false), (17, true)] {
        let log: String = (1..=peers).map(|number| line(number) + "\n").collect();
        let run = wireseal_reading(["explain"], log.as_bytes());
        assert_eq!(run.out.contains("192.0.2.16 and others\n"), and_others, "{}", run.out);
        assert!(!run.out.contains("192.0.2.17"));
    }
}

#[test]
fn nothing_else_of_a_line_is_repeated() {
    let secret = "hunter2-0123456789";
    for example in messages().iter().flat_map(|message| &message.examples) {
        let line = format!("{secret} {example} key-string {secret}");
        let found = Catalogue::get().explain(&line).unwrap();
        let said =
            found.fields.iter().map(|(_, value)| value).chain([found.text.as_str()]).collect::<String>();
        assert!(!said.contains("hunter2"), "{said}");
    }
    for arguments in [&["explain"][..], &["explain", "--json"]] {
        let line = format!("{secret} {XR} key-string {secret}");
        let run = wireseal(arguments.iter().copied().chain([line.as_str()]));
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(!run.out.contains("hunter2") && run.err.is_empty(), "{}{}", run.out, run.err);
    }
    let run = wireseal(["explain", secret]);
    assert!(!run.err.contains("hunter2"), "{}", run.err);
}

#[test]
fn what_is_no_text_and_what_has_no_end_is_read() {
    let mut log = vec![0xff; 200_000];
    log.extend(b"\n");
    log.extend(XR.as_bytes());
    log.extend([0xff, 0xfe]);
    let run = wireseal_reading(["explain"], &log);
    assert_eq!(run.code, 0);
    run.assert_says("  1 line, the first is line 2\n");
    // A message beyond the octets that are looked at is not found, and does not count as another line.
    let mut log = vec![b' '; 70_000];
    log.extend(XR.as_bytes());
    let run = wireseal_reading(["explain", "--json"], &log);
    assert_eq!((run.code, run.json()["lines"].clone()), (3, 1.into()));
}

#[test]
fn memory_does_not_grow_with_the_log() {
    let mut summary = Summary::default();
    for number in 0..2_000_u32 {
        let [_, a, b, c] = number.to_be_bytes();
        summary.line(Catalogue::get(), &XR.replace("11.1.1.3", &format!("10.{a}.{b}.{c}")));
    }
    assert_eq!((summary.lines, summary.known, summary.seen.len()), (2_000, 2_000, 1));
    assert_eq!((summary.seen[0].peers.len(), summary.seen[0].has_more_peers), (16, true));
}

/// The table of `docs/explain.md`.
fn table() -> String {
    let mut table = "| system | line | what it means | source |\n|---|---|---|---|\n".to_owned();
    let cell = |text: &str| text.replace('|', "\\|");
    for Message { system, patterns, meaning, source, .. } in messages() {
        let patterns: Vec<_> =
            patterns.iter().map(|pattern| format!("`{}`", cell(&shown(pattern)))).collect();
        let (patterns, meaning, source) = (patterns.join("<br>"), cell(meaning), cell(source));
        writeln!(table, "| {system} | {patterns} | {meaning} | {source} |").unwrap();
    }
    table
}

/// A pattern as people write it: fields in capitals.
fn shown(pattern: &str) -> String {
    let mut shown = String::new();
    for (place, part) in pattern.split(['{', '}']).enumerate() {
        match part {
            part if place % 2 == 0 => shown += part,
            "*" => shown.push('…'),
            "flow" | "trace" | "trace-socket" => shown += "FLOW",
            "ids" => shown += "IDS",
            field => shown += &field.to_uppercase(),
        }
    }
    shown
}

#[test]
fn the_document_lists_every_message() {
    let path = crates().join("../docs/explain.md");
    let document = fs::read_to_string(&path).unwrap();
    let table = table();
    assert!(document.contains(&table), "docs/explain.md should have\n{table}");
}
