//! Files that `verify` writes: it overwrites nothing that it reads, and leaves nothing behind.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::files::Files;
use crate::support::program::{interruptible, program, wireseal};
use crate::support::session::{IPV4_KEY, IPV4_SESSION, capture_path};

const KEYS: &str = "/data/core.toml";

fn capture() -> Vec<u8> {
    fs::read(capture_path(IPV4_SESSION)).unwrap()
}

#[test]
fn no_output_is_a_key_file_or_the_capture_or_another_output() {
    let files = Files::new();
    let keys = fs::read(format!("{}/tests{KEYS}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let (keys, capture) = (files.file("keys.toml", keys), files.file("c.pcap", capture()));
    let secret = files.file("secret", "a secret");
    let link = files.path("link");
    symlink(&capture, &link).unwrap();
    let folder = keys.parent().unwrap().to_owned();
    let list = || {
        let mut all: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (fs::read(&path).unwrap(), path))
            .collect();
        all.sort();
        all
    };
    let before = list();
    let secret = format!("send=1,recv=1,alg=aes-128-cmac-96,secret-file={}", secret.display());
    let refused = |arguments: &[&str], said: &str| {
        let run = program().current_dir(&folder).arg("verify").args(arguments).output().unwrap();
        let said = format!("wireseal: {said}\n");
        assert_eq!((run.status.code(), String::from_utf8(run.stderr).unwrap()), (Some(2), said));
        assert_eq!(list(), before);
    };
    for option in ["--html", "--annotate"] {
        let is = |what: &str, name: &str| format!("{option} {name}: this is {what}; name another file");
        refused(&["c.pcap", "--keys", "keys.toml", option, "./keys.toml"], &is("a key file", "./keys.toml"));
        refused(&["c.pcap", "--key", &secret, option, "secret"], &is("a key file", "secret"));
        refused(&["c.pcap", "--key", IPV4_KEY, option, "./c.pcap"], &is("the capture", "./c.pcap"));
        refused(&["link", "--key", IPV4_KEY, option, "c.pcap"], &is("the capture", "c.pcap"));
    }
    let live = ["-i", "lo", "--keys", "keys.toml"];
    refused(
        &[&live[..], &["--write", "keys.toml"]].concat(),
        "--write keys.toml: this is a key file; name another file",
    );
    refused(
        &[&live[..], &["--write", "same", "--html", "./same"]].concat(),
        "--write and --html name the same file",
    );
    refused(
        &["c.pcap", "--key", IPV4_KEY, "--html", "x", "--annotate", "./x"],
        "--html and --annotate name the same file",
    );
    symlink("nowhere", files.path("dangling")).unwrap();
    let dangling = files.path("dangling");
    let run = wireseal([
        "verify",
        capture.to_str().unwrap(),
        "--key",
        IPV4_KEY,
        "--html",
        dangling.to_str().unwrap(),
    ]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.err.ends_with("dangling: a symbolic link, which is not followed: name the file itself\n"),
        "{run:?}"
    );
    assert!(!files.path("nowhere").exists());
}

#[test]
fn a_page_that_cannot_be_written_costs_no_verdict() {
    let files = Files::new();
    let capture = files.file("c.pcap", capture());
    let run = wireseal(["verify", capture.to_str().unwrap(), "--key", IPV4_KEY, "--html", "/dev/full"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.out.ends_with(" segments are good\n"), "{run:?}");
    assert!(run.err.ends_with("\nwireseal: /dev/full: No space left on device (os error 28)\n"), "{run:?}");
}

#[test]
fn a_signal_removes_what_was_not_finished() {
    let files = Files::new();
    let folder = files.path("folder");
    fs::create_dir(&folder).unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        let mut command = interruptible();
        command.args(["verify", "-", "--key", IPV4_KEY, "--annotate"]).arg(folder.join("out.pcapng"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let input = child.stdin.take();
        while fs::read_dir(&folder).unwrap().next().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(128 + signal.as_raw()));
        drop(input);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}

#[test]
fn no_file_has_a_control_character_of_a_name() {
    let files = Files::new();
    let (capture, page, annotated) =
        (files.file("c\u{1b}[31m.pcap", capture()), files.path("page.html"), files.path("out.pcapng"));
    let key = "[[key-chain]]\nname = \"ev\\u001b[31m\\u009bil\"\n[[key-chain.key]]\nsend-id = 100\nrecv-id = 100\n\
               algorithm = \"AES-128-CMAC-96\"\nsecret = \"first-secret\"\n";
    let keys = files.file("keys.toml", key);
    let mut command = program();
    command.arg("verify").arg(&capture).arg("--keys").arg(&keys).arg("--html").arg(&page);
    let output = command.arg("--annotate").arg(&annotated).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.contains("ev\u{fffd}[31m\u{fffd}il"));
    let is_harmful = |letter: char| letter.is_control() && letter != '\n';
    assert!(!page.contains(is_harmful));
    let annotated = fs::read(&annotated).unwrap();
    assert!(!String::from_utf8_lossy(&annotated).contains("\u{1b}["));
}
