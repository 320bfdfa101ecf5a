//! Each mistake in a configuration gives one line and exit code 2: `mistakes.toml` has them.

use std::fs;

use router_peer::certificate;
use serde::Deserialize;
use tempfile::TempDir;

use super::program::{run, shipped, write};

#[derive(Deserialize)]
struct Mistakes {
    base: toml::Table,
    mistake: Vec<Mistake>,
}

/// A change of a good configuration or of its key file, and what the program says of it. What replaces nothing is appended.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Mistake {
    of: String,
    old: String,
    new: String,
    keys_old: String,
    keys_new: String,
    /// Whether it shows only when the configuration is run.
    run: bool,
    says: String,
}

fn changed(text: &toml::Value, old: &str, new: &str) -> String {
    let text = text.as_str().unwrap();
    if old.is_empty() {
        return format!("{text}{new}");
    }
    assert_eq!(text.matches(old).count(), 1, "{old}");
    text.replace(old, new)
}

/// A directory with all that the good configurations name, and what the mistakes do instead.
fn directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    for name in ["own", "peer"] {
        certificate::create(path, name).unwrap();
    }
    let own = fs::read_to_string(path.join("own.pem")).unwrap();
    let secret = fs::read_to_string(path.join("own.key")).unwrap();
    let odd = "-----BEGIN PRIVATE KEY-----\nMAUCAQAwAA==\n-----END PRIVATE KEY-----\n";
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (file, text, mode) in [
        ("text.pem", "no certificate\n", 0o644),
        ("damaged.pem", damaged, 0o644),
        ("cut.pem", &own[..own.len() / 2], 0o644),
        ("two.pem", &own.repeat(2), 0o644),
        ("no-key.key", &own, 0o600),
        ("odd.key", odd, 0o600),
        ("open.key", &secret, 0o640),
        ("old.md5", "old times\n", 0o600),
        ("empty.md5", "\n", 0o600),
        ("long.md5", &"x".repeat(81), 0o600),
        ("open.md5", "old times\n", 0o604),
        ("both.txt", "203.0.113.0/24\n2001:db8:1::/48\n", 0o644),
        ("nonsense.txt", "192.0.2.0/24 # good\n\nnonsense\n", 0o644),
        ("long.txt", "192.0.2.0/33\n", 0o644),
        ("host.txt", "192.0.2.1/24\n", 0o644),
        ("hop.txt", "192.0.2.0/24 here\n", 0o644),
        ("families.txt", "192.0.2.0/24 2001:db8::1\n", 0o644),
        ("words.txt", "192.0.2.0/24 192.0.2.1 x\n", 0o644),
    ] {
        write(path, file, text, mode);
    }
    directory
}

#[test]
fn each_mistake_is_named() {
    let Mistakes { base, mistake } = toml::from_str(include_str!("mistakes.toml")).unwrap();
    let directory = directory();
    let path = directory.path();
    for Mistake { of, old, new, keys_old, keys_new, run: is_run, says } in mistake {
        let keys = changed(&base["keys"], &keys_old, &keys_new);
        write(path, "keys.toml", &keys, 0o600);
        write(path, "open.toml", &keys, 0o640);
        write(path, "peer.toml", &changed(&base[&of], &old, &new), 0o644);
        let check = ["--config", "peer.toml", "--check"];
        let output = run(path, if is_run { &check[..2] } else { &check });
        let said = String::from_utf8(output.stderr).unwrap();
        let last = said.lines().last().unwrap_or_default();
        // A message of another library's goes on after `...`.
        let begins =
            says.strip_suffix("...").is_some_and(|start| last.starts_with(&format!("router-peer: {start}")));
        assert!(begins || last == format!("router-peer: {says}"), "{says}\n{said}");
        assert!(is_run || said.lines().count() == 1, "{said}");
        assert!(!said.contains("of spring") && !said.contains("old times"), "{said}");
        assert_eq!(output.status.code(), Some(2), "{says}");
        assert!(output.stdout.is_empty(), "{says}");
    }
    for good in ["memory", "chain", "kernel", "quic"] {
        write(path, "keys.toml", base["keys"].as_str().unwrap(), 0o600);
        let config = base[good].as_str().unwrap();
        write(path, "peer.toml", config, 0o644);
        assert!(run(path, &["--config", "peer.toml", "--check"]).status.success(), "{good}");
    }
}

#[test]
fn the_shipped_configurations_are_good() {
    let shipped = shipped();
    for (config, more) in [
        ("kernel.toml", None),
        ("memory.toml", None),
        ("quic-east.toml", None),
        ("quic-west.toml", None),
        ("unix-east.toml", None),
        ("unix-west.toml", None),
        ("unix-east.toml", Some("kernel")),
        ("unix-west.toml", Some("kernel")),
    ] {
        let more: Vec<&str> = more.iter().flat_map(|kind| ["--transport", kind]).collect();
        let output = run(shipped.path(), &[&["--config", config, "--check"], &more[..]].concat());
        let peers = if config == "memory.toml" { 2 } else { 1 };
        let good = format!("{config}: good, peers: {peers}\n");
        assert_eq!(String::from_utf8_lossy(&output.stdout), good, "{output:?}");
    }
}

#[test]
fn certificates_are_made_and_never_overwritten() {
    let directory = TempDir::new().unwrap();
    let make = |out: &str, name: &str| run(directory.path(), &["certificate", "--out", out, "--name", name]);
    let made = make("new/place", "own");
    assert!(made.status.success(), "{made:?}");
    let said = String::from_utf8(made.stdout).unwrap();
    let fingerprint = said.lines().last().unwrap().strip_prefix("certificate-sha256: ").unwrap();
    let secret = fs::read_to_string(directory.path().join("new/place/own.key")).unwrap();
    assert!(!said.contains(secret.lines().nth(1).unwrap()));

    // Fingerprint and file pin the same certificate, and the key's file is for its owner alone.
    let mistakes: Mistakes = toml::from_str(include_str!("mistakes.toml")).unwrap();
    let good = mistakes.base["quic"].as_str().unwrap().replace("\"own.", "\"new/place/own.");
    for text in [fingerprint.to_owned(), fingerprint.replace(':', ""), fingerprint.to_lowercase()] {
        let pinned = format!("certificate-sha256 = \"{text}\"");
        let config = good.replace("certificate = \"peer.pem\"", &pinned);
        write(directory.path(), "peer.toml", &config, 0o644);
        assert!(run(directory.path(), &["--config", "peer.toml", "--check"]).status.success());
    }

    let again = make("new/place", "own");
    let line = "router-peer: new/place/own.key: cannot write: File exists (os error 17)\n";
    assert_eq!((String::from_utf8(again.stderr).unwrap().as_str(), again.status.code()), (line, Some(2)));
    assert_eq!(fs::read_to_string(directory.path().join("new/place/own.key")).unwrap(), secret);
    let strayed = make(".", "../own");
    let line = "router-peer: `../own` is no name for a certificate\n";
    assert_eq!((String::from_utf8(strayed.stderr).unwrap().as_str(), strayed.status.code()), (line, Some(2)));
}
