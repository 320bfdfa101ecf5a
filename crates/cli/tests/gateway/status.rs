//! `wireseal status` with instances that do not answer, and files that are none.

use std::fs;
use std::process::{Command, Stdio};

use super::first;
use super::net::{Net, Side};

const WIRESEAL: &str = env!("CARGO_BIN_EXE_wireseal");

/// One that answers, one that does not, and others' files.
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

/// The exit code, and what is said, with nothing else in /run.
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
