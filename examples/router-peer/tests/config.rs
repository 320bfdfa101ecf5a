//! Configurations through the program itself: each bad one gives one line and exit code 2.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use common::program::{check, check_file, refused, shipped, write_keys};

const GOOD: &str = r#"
[router]
as = 64512
id = "192.0.2.1"

[transport]
kind = "memory"
addresses = ["192.0.2.1/24", "2001:db8::1/64"]

[[peer]]
name = "east"
address = "192.0.2.2"
as = 64513
"#;

const KEYS: &str = r#"
[[key-chain]]
name = "spring"
[[key-chain.key]]
send-id = 1
algorithm = "HMAC-SHA-1-96"
secret = "of spring"
"#;

#[test]
fn routes_without_a_next_hop_of_their_family_are_no_silent_loss() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("routes.txt"), "203.0.113.0/24\n2001:db8:1::/48\n").unwrap();
    let config = GOOD.replace("as = 64513", "as = 64513\nroutes = \"routes.txt\"");
    let line = "peer.toml: peer[0].next-hop-ipv6: the peer's IPv6 routes have no next hop";
    refused(directory.path(), &config, line);
    let whole = config.replace("routes =", "next-hop-ipv6 = \"2001:db8::1\"\nroutes =");
    assert_eq!(check(directory.path(), &whole).status.code(), Some(0));
}

#[test]
fn a_good_configuration_is_good() {
    let directory = TempDir::new().unwrap();
    let output = check(directory.path(), GOOD);
    assert!(output.status.success(), "{output:?}");
    let shipped = shipped();
    for config in ["kernel.toml", "memory.toml", "unix-east.toml", "unix-west.toml"] {
        let output = check_file(shipped.path(), config);
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn each_mistake_is_named() {
    let directory = TempDir::new().unwrap();
    // What is replaced in the good configuration, by what, and what is said of it.
    let cases = [
        ("as = 64512", "as = 0", "peer.toml: router.as: 0 is reserved"),
        (
            "as = 64512",
            "as = 4294967296",
            "peer.toml: router.as: invalid value: integer `4294967296`, expected u32 (line 3)",
        ),
        ("id = \"192.0.2.1\"", "id = \"0.0.0.0\"", "peer.toml: router.id: 0.0.0.0 is no identifier"),
        ("id = \"192.0.2.1\"", "", "peer.toml: router: missing field `id` (line 2)"),
        (
            "[router]",
            "[router]\ncolour = 1",
            "peer.toml: router.colour: unknown field `colour`, expected `as` or `id` (line 3)",
        ),
        (
            "\"memory\"",
            "\"carrier-pigeon\"",
            "peer.toml: transport.kind: unknown variant `carrier-pigeon`, expected one of `memory`, `tun`, `tap`, `unix`, `quic`, `kernel` (line 7)",
        ),
        ("\"memory\"", "\"tun\"", "peer.toml: transport.device: missing"),
        ("\"memory\"", "\"tap\"\ndevice = \"a/b\"", "peer.toml: transport.device: `a/b` is no device name"),
        ("\"memory\"", "\"unix\"\nlocal-path = \"a\"", "peer.toml: transport.peer-path: missing"),
        (
            "\"memory\"",
            "\"memory\"\nmtu = 100",
            "peer.toml: transport.mtu: 100 octets, 1280 to 9000 are possible",
        ),
        ("[\"192.0.2.1/24\", \"2001:db8::1/64\"]", "[]", "peer.toml: transport.addresses: missing"),
        (
            "address = \"192.0.2.2\"",
            "address = \"192.0.2.1\"",
            "peer.toml: peer[0].address: 192.0.2.1 is an own address",
        ),
        (
            "address = \"192.0.2.2\"",
            "address = \"east\"",
            "peer.toml: peer[0].address: invalid IP address syntax (line 12)",
        ),
        ("as = 64513", "as = 0", "peer.toml: peer[0].as: 0 is reserved"),
        (
            "as = 64513",
            "as = 1\nhold-time = 2",
            "peer.toml: peer[0].hold-time: 0 or at least 3 seconds (RFC 4271 section 4.2)",
        ),
        (
            "as = 64513",
            "as = 1\nlocal-address = \"10.0.0.1\"",
            "peer.toml: peer[0].local-address: 10.0.0.1 is not in transport.addresses",
        ),
        (
            "as = 64513",
            "as = 1\nlocal-address = \"2001:db8::1\"",
            "peer.toml: peer[0].local-address: 2001:db8::1 is of another family than 192.0.2.2",
        ),
        (
            "as = 64513",
            "as = 1\nkey-chain = \"spring\"",
            "peer.toml: peer[0].key-chain: `spring` is not defined",
        ),
        (
            "as = 64513",
            "as = 1\nroutes = \"none.txt\"",
            "peer.toml: peer[0].routes: none.txt: cannot read: No such file or directory (os error 2)",
        ),
        (
            "as = 64513",
            "as = 1\n[[peer]]\nname = \"east\"\naddress = \"192.0.2.3\"\nas = 2",
            "peer.toml: peer[1].name: `east` is used twice",
        ),
        (
            "as = 64513",
            "as = 1\n[[peer]]\nname = \"west\"\naddress = \"192.0.2.2\"\nas = 2",
            "peer.toml: peer[1].address: `192.0.2.2` is used twice",
        ),
        (
            "[router]",
            "key-chains = \"keys.toml\"\n[router]",
            "peer.toml: key-chains: keys.toml: cannot read: No such file or directory (os error 2)",
        ),
        ("[router]", "[router", "peer.toml: unclosed table, expected `]` (line 2)"),
    ];
    for (good, bad, line) in cases {
        assert_eq!(GOOD.matches(good).count(), 1, "{good}");
        refused(directory.path(), &GOOD.replace(good, bad), line);
    }
}

/// Checks that a key file is refused with exactly this line.
fn keys_refused(keys: &str, line: &str) {
    let directory = TempDir::new().unwrap();
    write_keys(directory.path(), keys);
    let config = format!("key-chains = \"keys.toml\"\n{GOOD}key-chain = \"spring\"\n");
    refused(directory.path(), &config, line);
}

#[test]
fn each_mistake_in_a_key_chain_is_named() {
    let cases = [
        ("HMAC-SHA-1-96", "HMAC-MD5", "key chain \"spring\", key 1, algorithm: MD5 is broken"),
        (
            "send-id = 1",
            "send-id = 256",
            "key chain \"spring\", key 256, send-id: 256 is not between 0 and 255",
        ),
        ("secret = \"of spring\"", "", "key chain \"spring\", key 1, secret: give one secret"),
        (
            "secret = ",
            "mac-length = 17\nsecret = ",
            "key chain \"spring\", key 1, mac-length: MAC length is 17",
        ),
        ("secret = ", "sekret = ", "line 7, column 1, key-chain[0].key[0].sekret: unknown field"),
        ("[[key-chain.key]]", "[[key-chain.key]", "line 4, column 17: "),
        (
            "HMAC-SHA-1-96",
            "KMAC256-128",
            "key chain \"spring\", key 1, secret: master key has 9 octets, KMAC256-128 requires 32 or more",
        ),
    ];
    for (good, bad, start) in cases {
        let keys = KEYS.replacen(good, bad, 1);
        assert_ne!(keys, KEYS, "{good}");
        let directory = TempDir::new().unwrap();
        write_keys(directory.path(), &keys);
        let output = check(directory.path(), &format!("key-chains = \"keys.toml\"\n{GOOD}"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with(&format!("router-peer: keys.toml: {start}")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!said.contains("of spring"), "{said}");
        assert_eq!(output.status.code(), Some(2));
    }
    let twice =
        KEYS.replace("[[key-chain.key]]", "key = []\n[[key-chain]]\nname = \"spring\"\n[[key-chain.key]]");
    keys_refused(&twice, "keys.toml: key chain \"spring\", key: there are no keys");
    keys_refused(
        &format!(
            "{KEYS}{}",
            KEYS.replace("\n[[key-chain]]\nname = \"spring\"\n", "").replace("spring\"", "x\"")
        ),
        "keys.toml: key chain \"spring\", key 1, key-id: another key of the chain has this id",
    );
}

#[test]
fn a_chain_that_cannot_last_is_refused() {
    let key = KEYS.replace("\n[[key-chain]]\nname = \"spring\"\n", "");
    keys_refused(
        &format!("{KEYS}send = {{ until = 2020-01-01T00:00:00Z }}\n"),
        "peer.toml: peer[0].key-chain: key chain `spring` has expired, nothing could be sent under it",
    );
    // The fifth key comes only in the year 3000, when nobody is at hand.
    let mut keys = KEYS.to_owned();
    for id in 2..=5 {
        keys += &key.replace("send-id = 1", &format!("send-id = {id}"));
    }
    keys_refused(
        &format!("{keys}send = {{ from = 3000-01-01T00:00:00Z }}\n"),
        "peer.toml: peer[0].key-chain: key chain \"spring\", key: there is room for only 4 keys",
    );
}

#[test]
fn secrets_that_others_can_read_are_refused() {
    use std::os::unix::fs::PermissionsExt;

    let directory = TempDir::new().unwrap();
    let keys = directory.path().join("keys.toml");
    fs::write(&keys, KEYS).unwrap();
    let config = format!("key-chains = \"keys.toml\"\n{GOOD}");
    for mode in [0o640, 0o604, 0o620] {
        fs::set_permissions(&keys, fs::Permissions::from_mode(mode)).unwrap();
        let line = format!(
            "peer.toml: key-chains: keys.toml: mode {mode:04o} lets others read these secrets, chmod it to 0600"
        );
        refused(directory.path(), &config, &line);
    }
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(check(directory.path(), &config).status.success());
}

#[test]
fn a_missing_configuration_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_router-peer"))
        .args(["--config", "/nonexistent/peer.toml"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        said,
        "router-peer: /nonexistent/peer.toml: cannot read: No such file or directory (os error 2)\n"
    );
    assert_eq!(output.status.code(), Some(2));
}
