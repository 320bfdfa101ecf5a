//! The program on real sessions, with right and wrong keys, and its memory over many connections.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, thread};

use crate::support::files::Files;
use crate::support::generate::{self, Generate, KEY};
use crate::support::program::{Run, program, wireseal};
use crate::support::session::{IPV4_KEY, IPV4_SESSION, IPV6_KEY, IPV6_SESSION, capture_path};

fn verify(capture: &str, arguments: &[&str]) -> Run {
    let path = capture_path(capture);
    wireseal([&["verify", path.to_str().unwrap()], arguments].concat())
}

#[test]
fn recorded_sessions_with_right_and_wrong_keys() {
    let excluded = [IPV4_KEY, IPV6_KEY].map(|key| format!("{key},options=excluded"));
    let [recv_101, send_8] = [IPV4_KEY.replace("recv=100", "recv=101"), IPV6_KEY.replace("send=7", "send=8")];
    let coverage = [
        "covers the other TCP options with the MAC",
        "correct the TCP option coverage of the key given here",
    ];
    let another = ["failed: most likely another secret", "the segments of both ends", "correct the secret"];
    let ids = ["both ends send KeyID", "whose ids differ", "correct the ids of the key given here"];
    let rows: [(&str, &str, &str, &[&str]); 8] = [
        (IPV4_SESSION, IPV4_KEY, "all 34 segments are good", &[]),
        (IPV6_SESSION, IPV6_KEY, "all 33 segments are good", &[]),
        (IPV4_SESSION, &excluded[0], "segments failed", &coverage),
        (IPV6_SESSION, &excluded[1], "segments failed", &coverage),
        (
            IPV4_SESSION,
            "send=100,recv=100,alg=aes-128-cmac-96,secret=second-secret",
            "34 of 34 segments failed",
            &another,
        ),
        (
            IPV6_SESSION,
            "send=7,recv=7,alg=hmac-sha-1-96,secret=another",
            "33 of 33 segments failed",
            &another,
        ),
        (IPV4_SESSION, &recv_101, "segments failed", &ids),
        (IPV6_SESSION, &send_8, "segments failed", &ids),
    ];
    for (capture, key, answer, words) in rows {
        let run = verify(capture, &["--key", key]);
        assert_eq!(run.code, i32::from(!words.is_empty()), "{}", run.out);
        for word in words.iter().chain([&answer]) {
            assert!(run.out.contains(word), "{word:?} is not in:\n{}", run.out);
        }
        assert!(!run.out.contains("first-secret") && !run.out.contains("passphrase"), "a secret is printed");
    }
}

#[test]
fn keys_come_from_a_file_too() {
    let files = Files::new();
    let text = "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 100\nalgorithm = \"AES-128-CMAC-96\"\n\
                secret = \"first-secret\"\n";
    let path = files.file("keys.toml", text);
    let run = verify(IPV4_SESSION, &["--keys", path.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{}", run.out);
    assert!(run.out.contains("core/100"));
}

#[test]
fn wrong_arguments_print_nothing_but_an_error() {
    for arguments in [
        &["--key", IPV4_KEY, "--isn", "nonsense"][..],
        &["--key", IPV4_KEY, "--nat", "10.0.0.1"],
        &["--key", IPV4_KEY, "--peer", "somebody"],
        &[],
    ] {
        let run = verify(IPV4_SESSION, arguments);
        assert_eq!((run.out.as_str(), run.code), ("", 2), "{arguments:?}");
    }
}

/// The recorded session: the file's header and five packets, of which the last is the SYN; and the rest.
fn up_to_the_syn() -> (Vec<u8>, Vec<u8>) {
    let mut capture = fs::read(capture_path(IPV4_SESSION)).unwrap();
    let end = (0..5).fold(24, |at, _| {
        at + 16 + u32::from_le_bytes(capture[at + 8..at + 12].try_into().unwrap()) as usize
    });
    let rest = capture.split_off(end);
    (capture, rest)
}

/// On a terminal, with a capture that is still being recorded.
#[test]
fn segments_are_shown_as_soon_as_they_are_recorded() {
    let files = Files::new();
    let pipe = files.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let command = format!(
        "'{}' verify '{}' --segments --key '{IPV4_KEY}'",
        env!("CARGO_BIN_EXE_wireseal"),
        pipe.display()
    );
    // script(1) gives the command a terminal.
    let mut script = Command::new("script");
    let script = script.args(["-qec", &command, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = script.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || output.split(b'\n').try_for_each(|line| sender.send(line.unwrap())));
    let mut input = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    let (start, rest) = up_to_the_syn();
    input.write_all(&start).unwrap();
    let is_syn = |line: Vec<u8>| {
        String::from_utf8_lossy(&line).contains("#5 2026-11-20T12:37:13.976622Z connection 1 ")
    };
    let limit = Duration::from_secs(60);
    while !is_syn(lines.recv_timeout(limit).expect("a line for the SYN")) {}
    input.write_all(&rest).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// Through a pipe from one program to another, with a capture that is still being recorded.
#[test]
fn json_lines_are_written_as_soon_as_they_are_known() {
    let mut command = program();
    command.args(["verify", "-", "--json-lines", "--segments", "--key", IPV4_KEY]).stderr(Stdio::null());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || output.lines().try_for_each(|line| sender.send(line.unwrap())));
    let mut input = child.stdin.take().unwrap();
    let (start, rest) = up_to_the_syn();
    input.write_all(&start).unwrap();
    let limit = Duration::from_secs(60);
    let mut types = Vec::new();
    while types.last().is_none_or(|last| last != "segment") {
        let line = lines.recv_timeout(limit).expect("a line for the SYN");
        types.push(
            serde_json::from_str::<serde_json::Value>(&line).unwrap()["type"].as_str().unwrap().to_owned(),
        );
    }
    assert_eq!(types, ["capture", "key", "segment"]);
    input.write_all(&rest).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
    assert!(lines.iter().last().unwrap().starts_with(r#"{"type":"totals","verdict":"good","#));
}

#[test]
fn packets_before_the_damage_are_judged() {
    let files = Files::new();
    let whole = fs::read(capture_path(IPV4_SESSION)).unwrap();
    let path = files.file("damaged.pcap", &whole[..whole.len() - 10]);
    let run = verify(path.to_str().unwrap(), &["--key", IPV4_KEY]);
    assert_eq!(run.code, 3, "{}", run.out);
    run.assert_says("packet 52");
    let run = verify(path.to_str().unwrap(), &["--key", IPV4_KEY, "--json"]);
    assert!(run.json()["totals"]["damage"].is_string(), "{}", run.out);
}

/// The most memory that a process has had at once, in KiB.
fn peak_memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The program's peak memory in KiB when it verifies a generated capture through a pipe.
fn verify_generated(what: Generate) -> u64 {
    let mut command = program();
    command.args(["verify", "-", "--json", "--key", KEY]).stderr(Stdio::null());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        text
    });
    let mut input = BufWriter::new(child.stdin.take().unwrap());
    generate::write(&mut input, what).unwrap();
    input.flush().unwrap();
    // The program has read everything but what is in the pipe, and waits for more.
    let peak = peak_memory(child.id());
    drop(input);
    assert!(child.wait().unwrap().success());
    let report: serde_json::Value = serde_json::from_str(&reader.join().unwrap()).unwrap();
    assert_eq!(report["totals"]["segments"]["good"], what.segments);
    peak
}

#[test]
fn memory_does_not_grow_with_the_capture() {
    let what = Generate { segments: 20_000, connections: 1000, payload: 128, lifetime: None };
    let few = verify_generated(what);
    let many = verify_generated(Generate { segments: 200_000, ..what });
    assert!(many < 64 * 1024, "{many} KiB");
    assert!(many < few + 2048, "{many} KiB after ten times the segments that took {few} KiB");
}

#[test]
fn memory_does_not_grow_with_closed_connections() {
    // 20,000 connections, ten at once, all within a fifth of a second.
    let what = Generate { segments: 200_000, connections: 10, payload: 16, lifetime: Some(10) };
    let peak = verify_generated(what);
    assert!(peak < 64 * 1024, "{peak} KiB");
}
