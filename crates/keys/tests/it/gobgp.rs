//! GoBGP's configuration in its three syntaxes.

use std::path::Path;

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{
    End, Finding, Format, Implementation, KeyFile, Neighbor, Notation, Preference, Timestamp, Weight, check,
    convert, read,
};
use wireseal_tcp_ao::{KeyId, OptionCoverage};

const TOML: &str = include_str!("../data/routers/gobgp.toml");

/// The same as a value of JSON, from which YAML and JSON are written.
fn as_json() -> String {
    let value: toml::Table = TOML.parse().expect("the sample is TOML");
    serde_json::to_string_pretty(&value).expect("JSON has all of it")
}

/// In YAML as people write it: blocks, plain scalars, a comment, an alias.
fn as_yaml(value: &serde_json::Value, indent: usize, text: &mut String) {
    use std::fmt::Write;
    let blanks = "  ".repeat(indent);
    match value {
        serde_json::Value::Object(members) => {
            for (name, value) in members {
                write!(text, "\n{blanks}{name}:").expect("a String takes every write");
                as_yaml(value, indent + 1, text);
            }
        }
        serde_json::Value::Array(list) => {
            for value in list {
                write!(text, "\n{blanks}-").expect("a String takes every write");
                as_yaml(value, indent + 1, text);
            }
        }
        serde_json::Value::String(scalar) => write!(text, " {scalar}").expect("a String takes every write"),
        other => write!(text, " {other} # a comment").expect("a String takes every write"),
    }
}

fn in_yaml() -> String {
    let mut text = "---".to_owned();
    as_yaml(&serde_json::from_str(&as_json()).expect("JSON"), 0, &mut text);
    text + "\n"
}

fn read_gobgp(name: &str, text: &str) -> KeyFile {
    let file = read(Path::new(name), text, None).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(file.format, Some(Format::GoBgp), "{name}");
    file
}

fn findings(file: &KeyFile) -> Vec<Finding> {
    check(file, Timestamp::from_unix_seconds(1_800_000_000), &[Implementation::reading(Some(Format::GoBgp))])
}

/// Kinds and lines of the warnings.
fn warnings(text: &str) -> Vec<(&'static str, Option<usize>)> {
    let found = findings(&read_gobgp("gobgpd.conf", text)).into_iter();
    let warnings = found.filter(|finding| finding.weight == Weight::Warning);
    warnings.map(|finding| (finding.kind, finding.position.map(|at| at.line))).collect()
}

#[test]
fn keys_and_neighbors_are_read() {
    for (name, text) in [
        ("gobgpd.conf", TOML.to_owned()),
        ("gobgpd.toml", TOML.to_owned()),
        ("gobgpd.json", as_json()),
        ("gobgpd", as_json()),
        ("gobgpd.yml", in_yaml()),
        ("gobgpd", in_yaml()),
        ("gobgpd.conf", format!("\u{feff}{TOML}")),
    ] {
        let file = read_gobgp(name, &text);
        let [fabric, edge] = &file.chains[..] else { panic!("{name}: {file:?}") };
        assert_eq!((fabric.name.as_str(), edge.name.as_str()), ("fabric", "edge"));
        let facts = |chain: &wireseal_keys::Chain| {
            let facts = chain.keys.iter().map(|key| {
                assert_eq!(key.secret.notation(), Notation::Base64);
                let is_covered = key.options == OptionCoverage::Covered;
                let secret = key.secret.expose().to_vec();
                (key.send_id, key.recv_id, key.algorithm, key.mac_length, is_covered, key.preference, secret)
            });
            facts.collect::<Vec<_>>()
        };
        use Preference::{Ordinary, Preferred};
        use TcpAoAlgorithm::{Aes128Cmac, HmacSha1, LinuxHmacSha256};
        assert_eq!(
            facts(fabric),
            [
                (KeyId(0), KeyId(10), HmacSha1, 12, true, Ordinary, b"Vd8zqkT1p0wYhU3m".to_vec()),
                (KeyId(1), KeyId(11), Aes128Cmac, 12, false, Preferred, b"k2Lr9sXw4Qe7Zb1N".to_vec()),
            ]
        );
        assert_eq!(
            facts(edge),
            [
                (KeyId(2), KeyId(12), LinuxHmacSha256, 12, true, Preferred, b"pQ7vRt2mXc9LsWz4".to_vec()),
                (KeyId(3), KeyId(3), LinuxHmacSha256, 16, true, Ordinary, b"Hn5yJd8bGf1KoTu6".to_vec()),
            ]
        );
        let shown = |neighbors: &[Neighbor]| neighbors.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(shown(&fabric.neighbors), ["192.0.2.2", "198.51.100.0/24"]);
        assert_eq!(shown(&edge.neighbors), ["192.0.2.3%eth2 vrf blue", "fe80::2%eth0", "fe80::/10%eth1"]);
        let warned = findings(&file).into_iter().filter(|finding| finding.weight == Weight::Warning);
        assert_eq!(warned.map(|finding| finding.sentence).collect::<Vec<_>>(), [""; 0], "{name}");
    }
}

#[test]
fn a_conversion_to_its_own_format_loses_nothing() {
    let file = read_gobgp("gobgpd.conf", TOML);
    let conversion = convert(&file, Format::GoBgp).expect("a conversion");
    assert_eq!(conversion.losses, [""; 0]);
    assert!(conversion.text.contains("\n    send-id = 1\n") && !conversion.text.contains("preferred"));
    let again = read_gobgp("written.toml", &conversion.text);
    for (one, other) in file.chains.iter().zip(&again.chains) {
        assert_eq!((&one.name, &one.neighbors), (&other.name, &other.neighbors));
        assert!(one.keys.iter().zip(&other.keys).all(|(one, other)| one.is_same_key(other)));
    }
}

#[test]
fn the_key_that_neighbors_start_with_is_preferred_without_lifetimes() {
    let file = read_gobgp("gobgpd.conf", TOML);
    let chains = file.key_chains(End::ThisEnd).unwrap();
    let preferred = |name| chains.get(name).unwrap().preferred();
    assert_eq!((preferred("fabric"), preferred("edge")), (Some(1), Some(2)));
    // TOML keeps it, and JSON says that it is lost.
    let toml = convert(&file, Format::Toml).unwrap();
    assert!(toml.losses.iter().all(|loss| !loss.contains("preferred")), "{:?}", toml.losses);
    let again = read(Path::new("keys.toml"), &toml.text, None).unwrap();
    let ranks = |file: &wireseal_keys::KeyFile| {
        let keys = file.chains.iter().flat_map(|chain| &chain.keys);
        keys.map(|key| (key.key_id, key.preference)).collect::<Vec<_>>()
    };
    assert_eq!(ranks(&again), ranks(&file));
    let back = convert(&again, Format::GoBgp).unwrap();
    assert!(back.losses.iter().all(|loss| !loss.contains("start with")), "{:?}", back.losses);
    let json = convert(&file, Format::Json).unwrap();
    assert!(json.losses.contains(&"key fabric/1: its being preferred or deprecated".to_owned()));
}

#[test]
fn what_gobgp_refuses_is_found() {
    assert_eq!(warnings(TOML), []);
    let replaced = |from: &str, to: &str| {
        assert!(TOML.contains(from), "{from}");
        warnings(&TOML.replacen(from, to, 1))
    };
    let line = |text: &str| Some(TOML[..TOML.find(text).expect("it is there")].matches('\n').count() + 1);
    assert_eq!(
        replaced("name = \"fabric\"", "name = \"fabric\"\n    tolerance = 5"),
        [("not-understood", Some(9))]
    );
    let own = "[neighbors.tcp-ao.config]\n    keychain = \"edge\"\n    send-id = 2";
    for (now, kind) in [
        (own.replace("send-id = 2", "send-id = 9"), "refused"),
        (own.replace("    send-id = 2", ""), "refused"),
        (own.replace("edge", "elsewhere"), "missing"),
        (own.replace("    send-id = 2", "    send-id = 2\n    colour = 1"), "not-understood"),
    ] {
        let warned = replaced(own, &now);
        assert!(matches!(warned[..], [(found, Some(_))] if found == kind), "{now}: {warned:?}");
    }
    let twice = replaced(
        "neighbor-address = \"192.0.2.99\"",
        "neighbor-address = \"192.0.2.2\"\n    peer-group = \"leaves\"",
    );
    assert_eq!(twice.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), ["refused", "refused"]);
    for address in ["somewhere", "192.0.2.0/24"] {
        let warned = replaced("\"fe80::2%eth0\"", &format!("\"{address}\""));
        assert!(matches!(warned[..], [("not-understood", Some(_))]), "{address}: {warned:?}");
    }
    assert_eq!(
        replaced("receive-id = 11", "receive-id = 10"),
        [("ids-collide", line("[[keychains.keys]]").map(|at| at + 7))]
    );
    let empty = "[[keychains]]\n  [keychains.config]\n    name = \"empty\"\n\n[[peer-groups]]";
    assert_eq!(replaced("[[peer-groups]]", empty), [("refused", line("[[peer-groups]]"))]);
    // Neighbors may start with different keys of one chain.
    let differ = TOML.replacen("send-id = 2", "send-id = 3", 1);
    let file = read_gobgp("gobgpd.conf", &differ);
    assert!(file.chains[1].keys.iter().all(|key| key.preference == Preference::Ordinary));
    let losses = convert(&file, Format::GoBgp).expect("a conversion").losses;
    assert_eq!(
        losses,
        [
            "chain \"edge\": its neighbors start with different keys (send-id 2, 3)",
            "key edge/2 is preferred, because GoBGP's neighbors need one key to start with",
        ]
    );
}

#[test]
fn secrets_are_octets_not_text() {
    // 16 octets, with some of every kind.
    let text = TOML.replacen("VmQ4enFrVDFwMHdZaFUzbQ==", "AP+Jw6kgVjEHgA0KI2hx/g==", 1);
    assert_eq!(warnings(&text), []);
    let line_end = TOML.replacen("VmQ4enFrVDFwMHdZaFUzbQ==", "VmQ4enFrVDFwMHdZaFUzbQo=", 1);
    assert_eq!(warnings(&line_end), [("line-end", Some(10))]);
}

#[test]
fn errors_have_a_place() {
    let error =
        |text: &str| read(Path::new("g.conf"), text, Some(Format::GoBgp)).expect_err("wrong").to_string();
    for (from, to, expected) in [
        (
            "key-id = 1",
            "key-id = 256",
            "line 19, column 16, key chain \"fabric\", key-id: must be a whole number from 0 to 255",
        ),
        ("receive-id = 11\n", "\n", "line 18, column 5, key chain \"fabric\", key 1, receive-id: is missing"),
        (
            "\"aes_128_cmac_96\"",
            "\"hmac_sha_256\"",
            "line 21, column 26, key chain \"fabric\", key 1, crypto-algorithm: expected one of hmac_sha_1_96, aes_128_cmac_96, \
             hmac_sha_256_96, hmac_sha_256_128",
        ),
        (
            "\"azJMcjlzWHc0UWU3WmIxTg==\"",
            "\"azJMcjlzWHc0UWU3WmIxTg\"",
            "line 22, column 20, key chain \"fabric\", key 1, secret-key: expected the secret in Base64, with \"=\" at its end if needed",
        ),
        (
            "= true",
            "= 1",
            "line 23, column 29, key chain \"fabric\", key 1, exclude-tcp-options: expected true or false",
        ),
        (
            "\"edge\"",
            "\"fabric\"",
            "line 27, column 12, key chain \"fabric\", name: another key chain has this name",
        ),
        (
            "preferred-send-id = 1",
            "preferred-send-id = 1\n    send-id = 1",
            "preferred-send-id: is given twice, as send-id too",
        ),
        (
            "preferred-send-id = 1",
            "preferred-send-id = -1",
            "preferred-send-id: must be a whole number from 0 to 255",
        ),
    ] {
        let text = TOML.replacen(from, to, 1);
        assert_ne!(text, TOML, "{from}");
        assert!(error(&text).ends_with(expected), "{}", error(&text));
    }
    assert_eq!(
        error("keychains = 1"),
        "g.conf: line 1, column 13, keychains: expected a list, found a single value"
    );
    assert_eq!(
        error("keychains: 1"),
        "g.conf: line 1, column 12, keychains: expected a list, found a single value"
    );
    assert_eq!(
        error("{\"keychains\":\n 1}"),
        "g.conf: line 2, column 2, keychains: expected a list, found a single value"
    );
    assert_eq!(error("{\"a\": 1,\n \"a\": 1}"), "g.conf: line 2, column 7, a: is given twice");
    assert_eq!(error("[global.config]\nas = 1\n"), "g.conf: has no key for TCP-AO (read as gobgp)");
    // A secret in the wrong place is not repeated.
    for text in [
        "keychains: [hunter2",
        "keychains: !hunter2 \"hunter2",
        "keychains = hunter2",
        "{\"keychains\": hunter2",
    ] {
        assert!(!error(text).contains("hunter2"), "{}", error(text));
    }
}

#[test]
fn the_text_decides_between_formats_with_one_extension() {
    let own =
        "[[key-chain]]\nname = \"a\"\n[[key-chain.key]]\nsend-id = 1\nalgorithm = \"sha1\"\nsecret = \"x\"\n";
    assert_eq!(Format::of(Path::new("a.toml"), own), Some(Format::Toml));
    assert_eq!(Format::of(Path::new("a.toml"), TOML), Some(Format::GoBgp));
    for text in ["keychains = [", "keychains: [", "keychains: # ours", "[[keychains]]", "[global.config]"] {
        assert_eq!(Format::of(Path::new("gobgpd.conf"), text), Some(Format::GoBgp), "{text}");
    }
    for text in ["global:\n  config:\n    as: 65001\n", "# ours\nneighbors:\n- config: {}\n"] {
        assert_eq!(Format::of(Path::new("gobgpd.conf"), text), Some(Format::GoBgp), "{text}");
    }
    assert_eq!(Format::of(Path::new("a.toml"), ""), Some(Format::Toml));
    assert_eq!(Format::of(Path::new("a.toml"), "frr version 10.4\n"), Some(Format::Toml));
    assert_eq!(Format::of(Path::new("a.json"), "{\"ietf-key-chain:key-chains\": {}}"), Some(Format::Json));
    assert_eq!(Format::of(Path::new("a.json"), "{\"a\": [1], \"keychains\":\n[]}"), Some(Format::GoBgp));
    let bird = "protocol bgp a { }";
    let error = read(Path::new("a.toml"), bird, None).expect_err("BIRD's").to_string();
    assert!(error.contains("its name says toml, but its text looks like BIRD configuration"), "{error}");
}

#[test]
fn yaml_is_bounded() {
    let read = |text: &str| read(Path::new("g.yaml"), text, None);
    let alias = "keychains:\n- config: {name: &n core}\n  keys:\n  - config: {key-id: &i 1, receive-id: *i, crypto-algorithm: \
                 hmac_sha_1_96, secret-key: Vmg4enFrVDFwMHdZaFUzbQ==}\npeer-groups: []\nneighbors:\n- config: {neighbor-address: \
                 192.0.2.1}\n  tcp-ao: {config: {keychain: *n, send-id: *i}}\n";
    let file = read(alias).expect("aliases");
    assert_eq!((file.chains[0].neighbors.len(), file.chains[0].keys[0].recv_id), (1, KeyId(1)));

    let mut laughs = "a0: &a0 [lol]\n".to_owned();
    for level in 1..40 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let mut deep = "a0: &a0 [x]\n".to_owned();
    for level in 1..200 {
        deep.push_str(&format!("a{level}: &a{level} [[[[*a{}]]]]\n", level - 1));
    }
    for (text, expected) in [
        (laughs.as_str(), "anchors and aliases stand for too much"),
        (&deep, "lists or tables are nested too deeply"),
        (&("[".repeat(100_000)), ""),
        (&("a: ".to_owned() + &"{a: ".repeat(100_000)), ""),
        (&("- ".repeat(100_000) + "a"), ""),
        ("a: &a [*a]", "this alias stands for a value that it is in"),
        ("a: *b", ""),
        ("a: {<<: 1}", "merge keys are not read: write the members here"),
        ("a: 1\n---\na: 2", "only one YAML document is read"),
        ("? [a]\n: 1", "expected a name"),
        ("a: 1\na: 2", "line 2, column 4, a: is given twice"),
        ("a: \"hunter2", ""),
    ] {
        let error = read(text).expect_err(expected).to_string();
        assert!(error.contains(expected) && error.contains("line ") && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn what_gobgp_cannot_have_is_named() {
    let own = "[[key-chain]]\nname = \"a\"\n[[key-chain.key]]\nsend-id = 1\nsecret = \"hunter2hunter2\"\nallow-short-secret = true\n";
    let reason = |more: &str| {
        let file = read(Path::new("a.toml"), &format!("{own}{more}\n"), None).expect("TOML");
        convert(&file, Format::GoBgp).map(drop).expect_err("refused").to_string()
    };
    for (more, expected) in [
        ("algorithm = \"KMAC256-128\"", "GoBGP does not support KMAC256-128"),
        (
            "algorithm = \"SHA1\"\nmac-length = 8",
            "GoBGP does not support HMAC-SHA-1-96 with MACs of 8 octets",
        ),
        (
            "algorithm = \"SHA1\"\nmac-length = 16",
            "GoBGP does not support HMAC-SHA-1-96 with MACs of 16 octets",
        ),
    ] {
        let reason = reason(more);
        assert!(reason.ends_with(&format!("key a/1 is left out: {expected}")), "{reason}");
    }
}

/// GoBGP takes a zone in an address only where it is link-local.
#[test]
fn an_interface_is_written_in_the_address_or_beside_it() {
    let mut file = read_gobgp("gobgpd.conf", TOML);
    for (address, expected) in [
        ("fe80::2", "    neighbor-address = \"fe80::2%eth0\"\n"),
        (
            "192.0.2.7",
            "    neighbor-address = \"192.0.2.7\"\n  [neighbors.transport.config]\n    bind-interface = \"eth0\"\n",
        ),
    ] {
        let address: IpCidr = address.parse().expect("an address");
        file.chains[1].neighbors = vec![Neighbor { interface: Some("eth0".into()), ..address.into() }];
        let text = convert(&file, Format::GoBgp).expect("a conversion").text;
        assert!(text.contains(expected), "{}", *text);
    }
    // A keychain without neighbors is not said to have different ones.
    file.chains[1].neighbors.clear();
    let text = convert(&file, Format::GoBgp).expect("a conversion").text;
    let again = read_gobgp("gobgpd.conf", &text);
    assert_eq!((again.chains[1].neighbors.len(), &again.chains[1].remarks), (0, &vec![]));
}
