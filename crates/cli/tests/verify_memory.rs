//! The program's memory, over captures of many connections.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

mod verify_support;

use std::io::{BufWriter, Read, Write};
use std::process::{Command, Stdio};

use verify_support::generate::{self, Generate, KEY};

/// The most memory that a process has had at once, in KiB.
#[cfg(target_os = "linux")]
fn peak_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Verifies a generated capture through a pipe. Gives what it says, and its peak memory in KiB.
#[cfg(target_os = "linux")]
fn verify(what: Generate) -> (String, u64) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_wireseal"))
        .args(["verify", "-", "--json", "--key", KEY])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        text
    });
    let mut input = BufWriter::new(child.stdin.take().unwrap());
    generate::write(&mut input, what).unwrap();
    input.flush().unwrap();
    // All but what is in the pipe has been read, and the program waits for more.
    let peak = peak_memory(child.id());
    drop(input);
    assert!(child.wait().unwrap().success());
    (reader.join().unwrap(), peak)
}

#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_the_capture() {
    let what = Generate { segments: 20_000, connections: 1000, payload: 128, lifetime: None };
    let (text, few) = verify(what);
    assert!(text.contains("20000"), "{}", &text[text.len() - 600..]);
    let (text, many) = verify(Generate { segments: 200_000, ..what });
    assert!(text.contains("200000"));
    assert!(many < 64 * 1024, "{many} KiB");
    assert!(many < few + 2048, "{many} KiB after ten times the segments that took {few} KiB");
}

#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_connections_that_are_over() {
    // 20,000 connections, no more than 10 at once, all within a fifth of a second.
    let what = Generate { segments: 200_000, connections: 10, payload: 16, lifetime: Some(10) };
    let (text, peak) = verify(what);
    assert!(text.contains("20000"));
    assert!(peak < 64 * 1024, "{peak} KiB");
}
