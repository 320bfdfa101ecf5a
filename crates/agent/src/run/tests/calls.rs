//! What calls return: `connect`, the same as without a supervisor, and setting TCP-MD5 keys.

use std::path::Path;

use super::*;

/// Writes what each call returns into the file that is its argument.
const CONNECTS: &str = r#"
import ctypes, errno, select, signal, socket, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
out = open(sys.argv[1], "w")
def octets(address): return (2).to_bytes(2, sys.byteorder) + address[1].to_bytes(2, "big") + socket.inet_aton(address[0]) + b"\0" * 8
def connect(s, address, length=None):
    address = address if isinstance(address, bytes) else octets(address)
    failed = libc.connect(s.fileno(), address, len(address) if length is None else length)
    return errno.errorcode[ctypes.get_errno()] if failed else "0"
def says(what, *results): print(what, *results, file=out, flush=True)
def listener(backlog):
    l = socket.socket()
    l.bind(("127.0.0.1", 0))
    l.listen(backlog)
    return l
def full():
    # It does not answer as long as nobody accepts.
    l = listener(0)
    first = socket.create_connection(l.getsockname())
    return l, first
l, other = listener(100), listener(100)
nowhere = dict(unspec=b"\0" * 16, unix=b"\1\0" + b"x" * 14, short=octets(("127.0.0.1", 9))[:8], octet=b"\2")
port = l.getsockname()[1]
to, elsewhere, closed = l.getsockname(), other.getsockname(), ("127.0.0.1", 1)

for blocking in True, False:
    s = socket.socket(); s.setblocking(blocking)
    says("first", connect(s, to)); select.select([], [s], [])
    says("again", connect(s, to), connect(s, to), connect(s, elsewhere), connect(s, closed), connect(s, ("192.0.2.1", 179)))
    says("malformed", *(connect(s, nowhere[name]) for name in ("unix", "short", "octet")), connect(s, b"", 0), connect(s, to, 129), connect(s, to, -1))
    says("peer", s.getpeername() == to)
    says("dissolved", connect(s, nowhere["unspec"]), connect(s, nowhere["unix"]), connect(s, nowhere["short"]))
    says("elsewhere", connect(s, elsewhere)); select.select([], [s], [])
    says("peer", s.getpeername() == elsewhere, connect(s, to), connect(s, to))
    s.shutdown(socket.SHUT_RDWR)
    says("shut down", connect(s, to))
    s.close()
    s = socket.socket(); s.setblocking(blocking)
    says("refused", connect(s, closed)); time.sleep(0.05)
    says("and again", connect(s, closed)); time.sleep(0.05)
    says("its error", s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), connect(s, to)); select.select([], [s], [])
    says("connected", connect(s, to), connect(s, to))
    s6 = socket.socket(socket.AF_INET6); s6.setblocking(blocking)
    says("family", connect(s6, to), connect(s6, b"\1\0" + b"x" * 30))
says("a listener", connect(l, to), connect(l, nowhere["unix"]))

busy, first = full()
address = busy.getsockname()
s = socket.socket(); s.setblocking(False)
says("connecting", connect(s, address), connect(s, address), connect(s, elsewhere), connect(s, nowhere["unix"]), connect(s, nowhere["octet"]))
says("given up", connect(s, nowhere["unspec"]), connect(s, to)); select.select([], [s], [])
says("connected", s.getpeername() == to, connect(s, address), connect(s, address))

s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, (0).to_bytes(8, sys.byteorder) + (50000).to_bytes(8, sys.byteorder))
says("timed out", connect(s, address), connect(s, address))

# Interrupted by a signal whose handler does not have calls made again: it goes on, and the next call hears of it.
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, True)
s = socket.socket()
signal.setitimer(signal.ITIMER_REAL, 0.1)
says("interrupted", connect(s, address))
s.setblocking(False); says("it goes on", connect(s, address)); s.setblocking(True)
# Two threads wait for one connection, and both hear of it.
heard = []
threads = [threading.Thread(target=lambda: heard.append(connect(s, elsewhere))) for _ in range(2)]
for t in threads: t.start()
time.sleep(0.1)
busy.accept(); busy.accept()
for t in threads: t.join()
says("open", *heard, connect(s, address), connect(s, elsewhere))

# A session opens while nobody waits.
busy, first = full()
s = socket.socket()
signal.setitimer(signal.ITIMER_REAL, 0.1)
says("interrupted", connect(s, busy.getsockname()))
busy.accept()
time.sleep(2.5)
says("once", connect(s, elsewhere), connect(s, elsewhere))
"#;

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn connect_returns_what_it_returns_without_a_supervisor() {
    let folder = tempfile::tempdir().unwrap();
    let [alone, supervised_] = ["alone", "supervised"].map(|name| folder.path().join(name));
    let status = {
        // Other tests' supervisors would wait for this child too.
        let _turn = lock(&ONE_BY_ONE);
        process::Command::new("python3").args(["-c", CONNECTS]).arg(&alone).status().unwrap()
    };
    assert!(status.success());
    let arguments = ["-c", CONNECTS, supervised_.to_str().unwrap()];
    assert_eq!(supervised("python3", &arguments, &[179]).unwrap(), 0);
    let (alone, supervised) = (lines(&alone), lines(&supervised_));
    assert_eq!(supervised, alone);
    // The kernel answers as this test assumes.
    for line in [
        "again EISCONN EISCONN EISCONN EISCONN EISCONN",
        "again 0 EISCONN EISCONN EISCONN EISCONN",
        "connecting EINPROGRESS EALREADY EALREADY EALREADY EINVAL",
        "open 0 0 EISCONN EISCONN",
        "once 0 EISCONN",
    ] {
        assert!(alone.iter().any(|other| other == line), "{line}: {alone:#?}");
    }
}

/// Sets TCP-MD5 keys and checks the results; the loopback addresses are peers.
const MD5_KEYS: &str = r#"
import errno, socket, sys
def key(address, flags=0, prefix=0, vrf=0, secret=b"secret"):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    family, at = (s.family.to_bytes(2, sys.byteorder), 6 if s.family == socket.AF_INET6 else 2)
    of = (family + b"\0" * at + socket.inet_pton(s.family, address)).ljust(128, b"\0")
    rest = bytes([flags, prefix]) + len(secret).to_bytes(2, sys.byteorder) + vrf.to_bytes(4, sys.byteorder)
    return s, 32 if flags else 14, of + rest + secret.ljust(80, b"\0")
def says(s, option, octets):
    try: s.setsockopt(socket.IPPROTO_TCP, option, octets)
    except OSError as error: return errno.errorcode[error.errno]
    return "OK"
def check(expected, *key_):
    said = says(*key(*key_))
    assert said == expected, (key_, said)
"#;

/// Runs these checks under a supervisor.
fn run(md5: Md5, refuse_others: bool, checks: &str) {
    let _turn = lock(&ONE_BY_ONE);
    let (_folder, supervisor, config) = configured(&[179], md5);
    let config = Config { refuse_others, ..config };
    let program = format!("{MD5_KEYS}\n{checks}");
    let arguments = ["-c".into(), program.clone().into()];
    assert_eq!(supervisor.supervise("python3".as_ref(), &arguments, config).unwrap(), 0, "{checks}");
}

/// What this kernel returns for a TCP-MD5 key.
fn kernel() -> &'static str {
    if wireseal_linux::probe().unwrap().md5 { "OK" } else { "ENOPROTOOPT" }
}

#[test]
fn a_peers_key_is_refused_and_others_are_left_alone() {
    let kernel = kernel();
    run(
        Md5::Refuse,
        false,
        &format!(
            r#"
for address in "127.0.0.1", "::1", "::ffff:127.0.0.1":
    check("ENOPROTOOPT", address)
for address in "192.0.2.1", "127.0.0.2", "2001:db8::1", "::ffff:192.0.2.1":
    check("{kernel}", address)
# A network around a peer; one beside it; the host's own length. Without the flag it is not read.
check("ENOPROTOOPT", "127.0.0.0", 1, 8)
check("{kernel}", "127.0.0.2", 1, 31)
check("ENOPROTOOPT", "127.0.0.1", 1, 32)
check("ENOPROTOOPT", "0.0.0.0", 1, 0)
check("ENOPROTOOPT", "127.0.0.1", 0, 0, 0, b"")
# The kernel says what is wrong.
s, option, octets = key("192.0.2.1")
for wrong in octets[:215], b"x":
    assert says(s, option, wrong) == ("EINVAL" if "{kernel}" == "OK" else "ENOPROTOOPT")
s, option, octets = key("127.0.0.1")
assert says(s, option, octets + b"x" * 100) == "ENOPROTOOPT"
# So do both on one socket.
s, option, octets = key("192.0.2.1")
assert says(s, option, octets) == "{kernel}" and says(s, option, key("127.0.0.1")[2]) == "ENOPROTOOPT"
"#
        ),
    );
}

#[test]
fn all_keys_are_left_alone_or_refused_if_the_configuration_says_so() {
    let kernel = kernel();
    let check = |expected| format!("for address in '127.0.0.1', '192.0.2.1': check('{expected}', address)");
    run(Md5::Leave, false, &check(kernel));
    run(Md5::Refuse, true, &check("ENOPROTOOPT"));
}
