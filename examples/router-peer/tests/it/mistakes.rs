//! Every mistake in a configuration gives one line and exit code 2. `mistakes.toml` lists them.

use std::collections::BTreeMap;

use router_peer::tls::create_certificate;
use serde::Deserialize;

use super::program::{Place, last_words};

#[derive(Deserialize)]
struct Mistakes {
    files: BTreeMap<String, String>,
    base: BTreeMap<String, String>,
    mistake: Vec<Mistake>,
}

/// A change to a good configuration or to its key file.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Mistake {
    of: String,
    old: String,
    new: String,
    keys_old: String,
    keys_new: String,
    /// Whether `--check` misses it.
    run: bool,
    says: String,
}

fn changed(text: &str, old: &str, new: &str) -> String {
    if old.is_empty() {
        return format!("{text}{new}");
    }
    assert_eq!(text.matches(old).count(), 1, "{old}");
    text.replace(old, new)
}

/// A directory with everything that the configurations name.
fn place(files: &BTreeMap<String, String>) -> Place {
    let place = Place::new();
    for name in ["own", "peer"] {
        create_certificate(place.0.path(), name).unwrap();
    }
    files.iter().for_each(|(file, text)| place.write(file, text));
    let own = place.read("own.pem");
    place.write("cut.pem", &own[..own.len() / 2]);
    place.write("two.pem", &own.repeat(2));
    place.write("no-key.key", &own);
    place.write("open.key", &place.read("own.key"));
    place
}

#[test]
fn each_mistake_is_named() {
    let Mistakes { files, base, mistake } = toml::from_str(include_str!("mistakes.toml")).unwrap();
    let place = place(&files);
    for Mistake { of, old, new, keys_old, keys_new, run, says } in mistake {
        for keys in ["keys.toml", "open.toml"] {
            place.write(keys, &changed(&base["keys"], &keys_old, &keys_new));
        }
        place.write("peer.toml", &changed(&base[&of], &old, &new));
        let check = ["--config", "peer.toml", "--check"];
        let output = place.run(if run { &check[..2] } else { &check });
        assert!(output.stdout.is_empty(), "{says}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(run || said.lines().count() == 1, "{said}");
        assert!(!said.contains("of spring") && !said.contains("old times"), "{said}");
        let (line, code) = last_words(output);
        let line = line.strip_prefix("router-peer: ").unwrap();
        let begins = says.strip_suffix("...").is_some_and(|start| line.starts_with(start));
        assert!(begins || line == says, "{says}\n{line}");
        assert_eq!(code, Some(2), "{says}");
    }
    place.write("keys.toml", &base["keys"]);
    for good in ["memory", "chain", "kernel", "quic"] {
        place.write("peer.toml", &base[good]);
        assert!(place.run(&["--config", "peer.toml", "--check"]).status.success(), "{good}");
    }
}

#[test]
fn the_shipped_configurations_are_good() {
    let place = Place::shipped();
    for name in ["kernel", "memory", "quic-east", "quic-west"] {
        let config = format!("{name}.toml");
        let output = place.run(&["--config", &config, "--check"]);
        let good = format!("{config}: good, peers: {}\n", if name == "memory" { 2 } else { 1 });
        assert_eq!(String::from_utf8_lossy(&output.stdout), good, "{output:?}");
    }
}

#[test]
fn certificates_are_made_and_never_overwritten() {
    let place = Place::new();
    let make = |out: &str, name: &str| place.run(&["certificate", "--out", out, "--name", name]);
    let made = make("new/place", "own");
    assert!(made.status.success(), "{made:?}");
    let said = String::from_utf8(made.stdout).unwrap();
    let fingerprint = said.lines().last().unwrap().strip_prefix("certificate-sha256: ").unwrap();
    let secret = place.read("new/place/own.key");
    assert!(!said.contains(secret.lines().nth(1).unwrap()));

    // The fingerprint pins the certificate in any notation, and the key file passes as its owner's alone.
    let Mistakes { base, .. } = toml::from_str(include_str!("mistakes.toml")).unwrap();
    for text in [fingerprint.to_owned(), fingerprint.replace(':', ""), fingerprint.to_lowercase()] {
        let config = base["quic"].replace("\"own.", "\"new/place/own.");
        let pinned = format!("certificate-sha256 = \"{text}\"");
        place.write("peer.toml", &config.replace("certificate = \"peer.pem\"", &pinned));
        assert!(place.run(&["--config", "peer.toml", "--check"]).status.success());
    }

    for (out, name, line) in [
        ("new/place", "own", "router-peer: new/place/own.key: cannot write: File exists (os error 17)"),
        (".", "../own", "router-peer: `../own` is no name for a certificate"),
    ] {
        assert_eq!(last_words(make(out, name)), (line.to_owned(), Some(2)));
    }
    assert_eq!(place.read("new/place/own.key"), secret);
}
