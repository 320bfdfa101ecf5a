//! Pictures in `docs/images` of what the program shows on a terminal.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::support::files::{Files, crates, example};
use crate::support::generate::{self, Generate, KEY};
use crate::support::namespace::is_privileged;
use crate::support::pictures::{assert_is_picture, digest, digest_in, drawing, text_of};
use crate::support::program::{on_terminal, program, terminal};
use crate::support::schema::Schema;

/// The rows and columns of the terminals.
const ROWS: u16 = 20;
const COLUMNS: u16 = 100;

/// What the program shows with these arguments, if it ends with this code.
fn shown(command: &mut Command, code: i32) -> String {
    let run = on_terminal(command.env("COLUMNS", COLUMNS.to_string()).env("TERM", "xterm"));
    assert_eq!(run.code, code, "{}", run.err);
    run.out
}

#[test]
fn the_report_of_a_session_that_is_down() {
    let files = example();
    let mut command = program();
    command.args(["verify", "down.pcap", "--keys", "keys.toml"]).current_dir(files.path(""));
    let report = shown(&mut command, 1);
    assert_is_picture(
        "report.svg",
        &drawing(&format!("$ wireseal verify down.pcap --keys keys.toml\n{report}")),
    );
}

#[test]
fn the_report_of_many_connections() {
    let files = Files::new();
    let mut capture = Vec::new();
    let what = Generate { segments: 14_000, connections: 2000, payload: 8, lifetime: None };
    generate::write(&mut capture, what).unwrap();
    files.file("many.pcap", capture);
    // Those of some peers fail.
    let another = KEY.replace("generated", "another");
    let keys =
        [("10.1.0.0/22", KEY.to_owned()), ("10.1.4.0/29", another), ("10.1.6.0/31", format!("{KEY},mac=16"))];
    let mut command = program();
    command.args(["verify", "many.pcap"]).current_dir(files.path(""));
    for (peer, key) in keys {
        command.args(["--peer", peer, "--key", &format!("{key},peer={peer}")]);
    }
    assert_is_picture("report-many.svg", &drawing(&shown(&mut command, 1)));
}

/// A terminal's screen, which is drawn on by what it is given.
fn parser(rows: u16, columns: u16) -> vt100::Parser {
    let [rows, columns] = [rows, columns].map(|size| NonZeroU16::new(size).unwrap());
    vt100::Parser::new(rows, columns, 0)
}

/// What the table shows of the example when its own clock is at `clock`; `None` if that is not drawn.
fn table_at(clock: &str) -> Option<String> {
    let files = example();
    let (ours, theirs) = terminal(Some((ROWS, COLUMNS)));
    // The program has the terminal for itself, and its input goes on.
    let mut command = Command::new("setsid");
    command.args(["--ctty", "sh", "-c", "(cat down.pcap; exec sleep 60) | \"$0\" verify - --keys keys.toml"]);
    command.arg(env!("CARGO_BIN_EXE_wireseal")).current_dir(files.path("")).env("TERM", "xterm");
    let end = || theirs.try_clone().unwrap();
    let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    let mut ours = File::from(ours);
    let mut parser = parser(ROWS, COLUMNS);
    let started = Instant::now();
    let mut found = None;
    while found.is_none() && started.elapsed() < Duration::from_secs(20) {
        let mut ready = [PollFd::new(&ours, PollFlags::IN)];
        if poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 50_000_000 })).unwrap() > 0 {
            let mut octets = [0; 4096];
            let length = ours.read(&mut octets).unwrap();
            parser.process(&octets[..length]);
        } else {
            // Nothing more is being drawn.
            let text = text_of(parser.screen());
            found = text.lines().next().is_some_and(|head| head.contains(clock)).then_some(text);
        }
    }
    ours.write_all(b"q").unwrap();
    let mut rest: Vec<u8> = Vec::new();
    while !rest.windows(7).any(|octets| octets == b"failed:") {
        let mut octets = [0; 4096];
        let length = ours.read(&mut octets).unwrap();
        rest.extend(&octets[..length]);
    }
    // That hangs up, which ends what still runs.
    drop(ours);
    child.wait().unwrap();
    found
}

/// The capture arrives, so that the times are its own: all that changes is the clock of the table, which is waited for.
#[test]
fn the_table_of_live_connections() {
    // A busy machine may not draw it in that second.
    let found = (0..5).find_map(|_| table_at("  00:00:03"));
    assert_is_picture("live.svg", &drawing(&found.unwrap()));
}

/// Instances that answer with what a file says, for a program that is run then.
const INSTANCES: &str = "
import json, os, socket, subprocess, sys, threading
os.makedirs('/run/wireseal', 0o700)
def answer(s, status):
    while True:
        caller, _ = s.accept()
        caller.sendall(json.dumps(status).encode())
        caller.close()
for status in json.load(open(sys.argv[1])):
    s = socket.socket(socket.AF_UNIX)
    s.bind('/run/wireseal/%s-%d' % (status['command'], status['pid']))
    s.listen()
    threading.Thread(target=answer, args=(s, status), daemon=True).start()
code = subprocess.run(sys.argv[2:]).returncode
os._exit(code)
";

#[test]
fn the_status_of_instances() {
    if !is_privileged() {
        println!("pictures::the_status_of_instances was not run: it takes the right to make a namespace");
        return;
    }
    let instances = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/status.json");
    // It is what instances answer.
    Schema::load("status.json").holds(&serde_json::from_slice(&fs::read(instances).unwrap()).unwrap());
    let mut command = Command::new("unshare");
    command.args([
        "-m",
        "sh",
        "-ec",
        "mount -t tmpfs tmpfs /run; exec \"$@\"",
        "sh",
        "python3",
        "-c",
        INSTANCES,
    ]);
    command.args([instances, env!("CARGO_BIN_EXE_wireseal"), "status"]);
    let run = on_terminal(&mut command);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_is_picture("status.svg", &drawing(&format!("$ wireseal status\n{}", run.out)));
}

/// Grafana's panels take too much to be drawn here: `crates/cli/grafana/picture/make` draws them.
#[test]
fn the_dashboard_is_the_one_that_was_drawn() {
    let digest = digest(include_bytes!("../../grafana/wireseal.json"));
    let picture = crates().join("../docs/images/dashboard.png");
    assert_eq!(
        digest_in(&picture),
        digest,
        "draw docs/images/dashboard.png anew with crates/cli/grafana/picture/make"
    );
}

/// What tshark and capinfos show of a file with comments.
#[cfg(feature = "tshark")]
#[test]
fn comments_in_tshark() {
    let files = example();
    let mut command = program();
    command.args(["verify", "down.pcap", "--keys", "keys.toml", "--annotate", "verified.pcapng"]);
    assert_eq!(command.current_dir(files.path("")).output().unwrap().status.code(), Some(1));
    let lines = [
        "tshark -r verified.pcapng -Y 'frame.comment contains \"bad MAC\"' -T fields -e frame.number -e frame.comment | head -n 3 | fold -sw 120",
        "capinfos -k verified.pcapng | fold -sw 120",
    ];
    let mut screen = parser(40, 134);
    for line in lines {
        screen.process(format!("$ {line}\r\n").as_bytes());
        let output = Command::new("sh").args(["-c", line]).current_dir(files.path("")).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        screen.process(String::from_utf8(output.stdout).unwrap().replace('\n', "\r\n").as_bytes());
        screen.process(b"\r\n");
    }
    assert_is_picture("tshark.svg", &drawing(&text_of(screen.screen())));
}
