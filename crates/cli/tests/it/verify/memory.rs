//! The program's memory, over captures of many connections.

use std::fs;
use std::io::{BufWriter, Read, Write};
use std::process::Stdio;
use std::thread;

use crate::support::generate::{self, Generate, KEY};
use crate::support::program::program;

/// The most memory that a process has had at once, in KiB.
fn peak_memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The program's peak memory in KiB when it verifies a generated capture through a pipe.
fn verify(what: Generate) -> u64 {
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
    let few = verify(what);
    let many = verify(Generate { segments: 200_000, ..what });
    assert!(many < 64 * 1024, "{many} KiB");
    assert!(many < few + 2048, "{many} KiB after ten times the segments that took {few} KiB");
}

#[test]
fn memory_does_not_grow_with_closed_connections() {
    // 20,000 connections, ten at once, all within a fifth of a second.
    let what = Generate { segments: 200_000, connections: 10, payload: 16, lifetime: Some(10) };
    let peak = verify(what);
    assert!(peak < 64 * 1024, "{peak} KiB");
}
