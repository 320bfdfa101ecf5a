//! TCP-MD5 keys of the program's own.

use super::*;

/// Says what becomes of keys for these addresses; `loopback` is a peer.
const PROGRAM: &str = r#"
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

/// Runs it; `has_md5` says whether the kernel takes such keys.
fn run(md5: Md5, refuse_others: bool, checks: &str) {
    let _turn = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (_folder, supervisor, config) = configured(&[179], md5);
    let config = Config { refuse_others, ..config };
    let program = format!("{PROGRAM}\n{checks}");
    let arguments = ["-c".into(), program.clone().into()];
    assert_eq!(supervisor.supervise("python3".as_ref(), &arguments, config).unwrap(), 0, "{checks}");
}

/// What this machine's kernel says to a key.
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
