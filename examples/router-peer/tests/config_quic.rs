//! Configurations of the QUIC transport through the program itself: each bad one gives one line and exit code 2.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use router_peer::certificate;
use tempfile::TempDir;

use common::program::{check, check_file, refused, shipped};

const GOOD: &str = r#"
[router]
as = 64512
id = "192.0.2.1"

[transport]
kind = "quic"
addresses = ["127.0.0.1/8"]

[quic]
certificate = "own.pem"
key = "own.key"

[[peer]]
name = "east"
address = "127.0.0.2"
as = 64513
certificate = "peer.pem"
"#;

const ALL_SUITES: &str = "TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256, TLS_CHACHA20_POLY1305_SHA256, \
                          TLS_AES_128_CCM_SHA256";

/// A directory with the certificates that the good configuration names.
fn directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    for name in ["own", "peer"] {
        certificate::create(directory.path(), name).unwrap();
    }
    directory
}

#[test]
fn a_good_configuration_is_good() {
    let directory = directory();
    assert!(check(directory.path(), GOOD).status.success());
    let peer = certificate::create(directory.path(), "third").unwrap().fingerprint.to_string();
    for fingerprint in [peer.clone(), peer.replace(':', ""), peer.to_lowercase()] {
        let pinned = format!("certificate-sha256 = \"{fingerprint}\"");
        let output = check(directory.path(), &GOOD.replace("certificate = \"peer.pem\"", &pinned));
        assert!(output.status.success(), "{output:?}");
    }
    for suite in ALL_SUITES.split(", ") {
        let chosen = format!("key = \"own.key\"\nsuites = [\"{suite}\"]");
        let output = check(directory.path(), &GOOD.replace("key = \"own.key\"", &chosen));
        assert!(output.status.success(), "{output:?}");
    }
    let shipped = shipped();
    for config in ["quic-east.toml", "quic-west.toml"] {
        let output = check_file(shipped.path(), config);
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn each_mistake_is_named() {
    let directory = directory();
    fs::write(directory.path().join("text.pem"), "no certificate\n").unwrap();
    fs::write(
        directory.path().join("damaged.pem"),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    let own = fs::read_to_string(directory.path().join("own.pem")).unwrap();
    fs::write(directory.path().join("cut.pem"), &own[..own.len() / 2]).unwrap();
    fs::write(directory.path().join("two.pem"), own.repeat(2)).unwrap();
    for (file, text) in [("no-key.key", own.as_str()), ("odd.key", &ODD_KEY.replace("KIND", "PRIVATE KEY"))] {
        let file = directory.path().join(file);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let unknown_suite =
        format!("peer.toml: quic.suites: `TLS_AES_128_CCM_8_SHA256` is not one of {ALL_SUITES}");
    let missing = "No such file or directory (os error 2)";
    let unread = format!("peer.toml: quic.certificate: none.pem: cannot read: {missing}");
    let unread_key = format!("peer.toml: quic.key: none.key: cannot read: {missing}");
    let unread_peer = format!("peer.toml: peer[0].certificate: none.pem: cannot read: {missing}");
    let bad_fingerprint =
        "peer.toml: peer[0].certificate-sha256: not the 64 hexadecimal digits of a SHA-256 fingerprint";
    let signed_number = format!("certificate-sha256 = \"{}+0\"", "00".repeat(31));
    // What is replaced in the good configuration, by what, and what is said of it.
    let cases = [
        ("[quic]\ncertificate = \"own.pem\"\nkey = \"own.key\"\n", "", "peer.toml: quic: missing"),
        ("\"own.pem\"", "\"none.pem\"", &unread),
        (
            "\"own.pem\"",
            "\"text.pem\"",
            "peer.toml: quic.certificate: text.pem: there is no certificate in PEM",
        ),
        (
            "\"own.pem\"",
            "\"own.key\"",
            "peer.toml: quic.certificate: own.key: there is no certificate in PEM",
        ),
        (
            "\"own.pem\"",
            "\"cut.pem\"",
            "peer.toml: quic.certificate: cut.pem: the certificate is not proper PEM",
        ),
        (
            "\"own.pem\"",
            "\"damaged.pem\"",
            "peer.toml: quic.certificate: damaged.pem: not an X.509 certificate",
        ),
        ("\"own.key\"", "\"none.key\"", &unread_key),
        (
            "\"own.key\"",
            "\"peer.key\"",
            "peer.toml: quic.key: peer.key: the private key of another certificate",
        ),
        ("\"own.key\"", "\"no-key.key\"", "peer.toml: quic.key: no-key.key: there is no private key in PEM"),
        (
            "\"own.key\"",
            "\"odd.key\"",
            "peer.toml: quic.key: odd.key: not a private key of ECDSA, Ed25519 or RSA",
        ),
        (
            "\"own.key\"",
            "\"own.key\"\nsuites = [\"TLS_AES_128_GCM_SHA256\", \"TLS_AES_128_CCM_8_SHA256\"]",
            &unknown_suite,
        ),
        ("\"own.key\"", "\"own.key\"\nsuites = []", "peer.toml: quic.suites: missing"),
        (
            "\"own.key\"",
            "\"own.key\"\ncolour = 1",
            "peer.toml: quic.colour: unknown field `colour`, expected one of `certificate`, `key`, `suites` (line 13)",
        ),
        ("certificate = \"peer.pem\"\n", "", "peer.toml: peer[0].certificate: missing"),
        ("\"peer.pem\"", "\"none.pem\"", &unread_peer),
        (
            "\"peer.pem\"",
            "\"two.pem\"",
            "peer.toml: peer[0].certificate: two.pem: there is more than one certificate, and one alone is pinned",
        ),
        ("certificate = \"peer.pem\"", "certificate-sha256 = \"AB:CD\"", bad_fingerprint),
        ("certificate = \"peer.pem\"", &signed_number, bad_fingerprint),
        (
            "\"peer.pem\"",
            "\"peer.pem\"\ncertificate-sha256 = \"AB:CD\"",
            "peer.toml: peer[0].certificate-sha256: there is `certificate` already",
        ),
        (
            "address = \"127.0.0.2\"",
            "address = \"127.0.0.1\"",
            "peer.toml: peer[0].address: 127.0.0.1 is an own address",
        ),
    ];
    for (good, bad, line) in cases {
        assert_eq!(GOOD.matches(good).count(), 1, "{good}");
        refused(directory.path(), &GOOD.replace(good, bad), line);
    }
}

/// PKCS #8 of no algorithm at all.
const ODD_KEY: &str = "-----BEGIN KIND-----\nMAUCAQAwAA==\n-----END KIND-----\n";

#[test]
fn a_private_key_that_others_can_read_is_refused() {
    let directory = directory();
    let key = directory.path().join("own.key");
    for mode in [0o640, 0o604] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        let line = format!(
            "peer.toml: quic.key: own.key: mode {mode:04o} lets others read these secrets, chmod it to 0600"
        );
        refused(directory.path(), GOOD, &line);
    }
}

#[test]
fn a_key_chain_is_not_left_out_without_a_word() {
    let shipped = shipped();
    let keyed = fs::read_to_string(shipped.path().join("quic-east.toml")).unwrap();
    let keyed = format!("key-chains = \"keys.toml\"\n{keyed}key-chain = \"core\"\n");
    let line =
        "peer.toml: peer[0].key-chain: TCP-AO has no part in QUIC, the certificates authenticate both ends";
    refused(shipped.path(), &keyed, line);
}

#[test]
fn a_certificate_does_not_pass_for_protection_of_another_transport() {
    let directory = directory();
    let line =
        "peer.toml: peer[0].certificate: protects nothing but the quic transport, and there is no key-chain";
    refused(directory.path(), &GOOD.replace("kind = \"quic\"", "kind = \"memory\""), line);
}

#[test]
fn an_address_of_another_machine_is_refused_at_the_start() {
    let directory = directory();
    let elsewhere = GOOD.replace("127.0.0.1/8", "192.0.2.1/24").replace("127.0.0.2", "192.0.2.2");
    fs::write(directory.path().join("peer.toml"), elsewhere).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_router-peer"))
        .args(["--config", "peer.toml"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("router-peer: peer.toml: transport.addresses: cannot open UDP socket 192.0.2.1:0: "),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(2));
}

fn certificate(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_router-peer"))
        .arg("certificate")
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

#[test]
fn certificates_are_made_and_never_overwritten() {
    let directory = TempDir::new().unwrap();
    let made = certificate(directory.path(), &["--out", "new/place", "--name", "own"]);
    assert!(made.status.success(), "{made:?}");
    let said = String::from_utf8(made.stdout).unwrap();
    let fingerprint = said.lines().last().unwrap().strip_prefix("certificate-sha256: ").unwrap();
    let key = directory.path().join("new/place/own.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let secret = fs::read_to_string(&key).unwrap();
    assert!(!said.contains(secret.lines().nth(1).unwrap()));

    // The fingerprint and the file pin the same certificate: as its own peer the router refuses nothing.
    let config = GOOD
        .replace("\"own.", "\"new/place/own.")
        .replace("certificate = \"peer.pem\"", &format!("certificate-sha256 = \"{fingerprint}\""));
    assert!(check(directory.path(), &config).status.success());

    let again = certificate(directory.path(), &["--out", "new/place", "--name", "own"]);
    let line = "router-peer: new/place/own.key: cannot write: File exists (os error 17)\n";
    assert_eq!(String::from_utf8(again.stderr).unwrap(), line);
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(fs::read_to_string(&key).unwrap(), secret);

    let strayed = certificate(directory.path(), &["--out", ".", "--name", "../own"]);
    assert_eq!(
        String::from_utf8(strayed.stderr).unwrap(),
        "router-peer: `../own` is no name for a certificate\n"
    );
    assert_eq!(strayed.status.code(), Some(2));
}
