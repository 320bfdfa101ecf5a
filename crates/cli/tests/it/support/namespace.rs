//! Tests that run in a network namespace of their own, with a link that joins two interfaces, `near` and `far`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Set in the process that runs in its own network namespace.
pub const INSIDE: &str = "WIRESEAL_TEST_IN_NAMESPACE";
/// Without IPv6's own packets.
const LINK: &str = "for of in all default; do echo 1 > /proc/sys/net/ipv6/conf/$of/disable_ipv6; done && \
                    ip link add near type veth peer name far && ip link set near up && ip link set far up && \
                    ip link set lo up && exec \"$@\"";

/// Whether this is the process in the namespace. Otherwise runs a test again in one; if this user may not make one, says so.
pub fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if !is_privileged() {
        println!("{test} was not run: it takes the right to make a network namespace");
        return false;
    }
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-ec", LINK, "sh"]).arg(std::env::current_exe().unwrap());
    let status = command.args(["--exact", test, "--nocapture"]).env(INSIDE, "1").status().unwrap();
    assert!(status.success(), "{test}, in a namespace");
    false
}

/// Whether this process has CAP_SYS_ADMIN, which permits making namespaces (`linux/capability.h`). In many containers root lacks it.
pub fn is_privileged() -> bool {
    const CAP_SYS_ADMIN: u32 = 21;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(effective.trim(), 16).unwrap() >> CAP_SYS_ADMIN & 1 == 1
}

/// Runs a shell's line.
#[track_caller]
pub fn shell(line: &str) {
    assert!(Command::new("sh").args(["-ec", line]).status().unwrap().success(), "{line}");
}

const SEND: &str = "import socket, struct, sys
to = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
to.bind((sys.argv[1], 0))
frames = sys.stdin.buffer
while length := frames.read(4):
    to.send(frames.read(*struct.unpack('<I', length)))
";

/// Sends Ethernet frames out of an interface.
#[track_caller]
pub fn send<'f>(interface: &str, frames: impl IntoIterator<Item = &'f [u8]>) {
    let mut command = Command::new("python3");
    let mut python = command.args(["-c", SEND, interface]).stdin(Stdio::piped()).spawn().unwrap();
    let mut octets = Vec::new();
    for frame in frames {
        octets.extend((frame.len() as u32).to_le_bytes());
        octets.extend(frame);
    }
    python.stdin.take().unwrap().write_all(&octets).unwrap();
    assert!(python.wait().unwrap().success());
}

/// Waits until a file has this text.
#[track_caller]
pub fn await_text(path: &Path, text: &str) {
    for _ in 0..600 {
        if fs::read_to_string(path).is_ok_and(|found| found.contains(text)) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{text} is not in {}", fs::read_to_string(path).unwrap());
}
