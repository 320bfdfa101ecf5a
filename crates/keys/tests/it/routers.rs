//! Routers' configurations: their keys, the implementation's defaults for what a format leaves out, and errors, which are one line with the
//! place and never show a secret.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use wireseal_keys::{Chain, Format, KeyFile, Lifetime, Notation, Preference, load, read};
use wireseal_tcp_ao::OptionCoverage::{Covered, Excluded};

pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/routers").join(name)
}

pub(crate) fn load_data(name: &str, format: Format) -> KeyFile {
    let file = load(&data(name), None).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(file.format, Some(format), "{name}");
    file
}

pub(crate) fn read_text(text: &str, format: Format) -> Vec<Chain> {
    read(Path::new("keys"), text, Some(format)).unwrap_or_else(|error| panic!("{error}\n{text}")).chains
}

/// Each key of a chain as `name: SendID/RecvID algorithm secret`.
pub(crate) fn keys(chain: &Chain) -> Vec<String> {
    let key = |key: &wireseal_keys::ChainKey| {
        let secret = String::from_utf8_lossy(key.secret.expose()).into_owned();
        format!("{}: {}/{} {} {secret}", chain.name_of(key), key.send_id, key.recv_id, key.algorithm)
    };
    chain.keys.iter().map(key).collect()
}

pub(crate) fn peers(chain: &Chain) -> Vec<String> {
    chain.neighbors.iter().map(|neighbor| neighbor.address.to_string()).collect()
}

pub(crate) fn lifetime(from: &str, until: &str) -> Lifetime {
    let moment = |text: &str| (!text.is_empty()).then(|| text.parse().expect("a moment"));
    Lifetime::new(moment(from), moment(until)).expect("a lifetime")
}

#[test]
fn bird_has_its_keys_by_protocol() {
    let file = load_data("bird.conf", Format::Bird);
    let [unnamed, upstream] = &file.chains[..] else { panic!("two protocols with TCP-AO") };
    assert_eq!(keys(unnamed), ["bgp1/0: 0/0 hmac(sha256) hello321", "bgp1/2: 2/1 AES-128-CMAC-96 bye123"]);
    assert_eq!(peers(unnamed), ["198.51.100.130"]);
    let preferences = unnamed.keys.iter().map(|key| key.preference).collect::<Vec<_>>();
    assert_eq!(preferences, [Preference::Preferred, Preference::Ordinary]);
    assert_eq!(unnamed.keys[1].position.map(|at| (at.line, at.column)), Some((41, 3)));
    // BIRD requests no MAC length, and Linux then uses 12. BIRD never excludes options.
    assert!(unnamed.keys.iter().all(|key| (key.mac_length, key.options) == (12, Covered)));

    assert_eq!(
        keys(upstream),
        [
            "upstream-6/7: 7/7 HMAC-SHA-1-96 c0ffee and cream",
            "upstream-6/8: 8/8 HMAC-SHA-1-96 0123456789abcdef"
        ]
    );
    assert_eq!(upstream.description.as_deref(), Some("the upstream over IPv6"));
    assert_eq!(peers(upstream), ["2001:db8::2"]);
    assert_eq!(upstream.keys[1].preference, Preference::Deprecated);
    assert_eq!(upstream.keys[1].secret.notation(), Notation::Hexadecimal);
}

#[test]
fn bird_has_a_bare_block_of_keys_and_short_octets() {
    let text = "keys { key { id 0x10; secret hex:00:ff; } key { id 2; send id 1; secret \"x\"; secret \"\\\"; algorithm hmac sha1; }; }";
    let chains = read_text(text, Format::Bird);
    assert_eq!(keys(&chains[0])[1], "1: 1/2 HMAC-SHA-1-96 \\");
    assert_eq!((chains[0].keys[0].send_id.0, chains[0].keys[0].secret.expose()), (16, &[0, 255][..]));
    assert!(chains[0].neighbors.is_empty());
    assert_eq!(read_text(&format!("keys {{ ; }} {text}"), Format::Bird).len(), 1, "a block without keys");
}

#[test]
fn birds_neighbor_may_have_a_name() {
    let text = "define PEER = 2001:db8::7;\nprotocol bgp a { neighbor PEER as 65001; authentication ao; keys { key { id 1; \
                secret \"x\"; }; }; }";
    assert_eq!(peers(&read_text(text, Format::Bird)[0]), ["2001:db8::7"]);
}

#[test]
fn junos_has_its_keys_by_chain_in_braces_and_as_commands() {
    let file = load_data("junos.conf", Format::Junos);
    let [interop, new] = &file.chains[..] else { panic!("two chains with algorithm ao") };
    assert_eq!(keys(interop), ["XR-interop/0: 0/0 HMAC-SHA-1-96 interop"]);
    assert_eq!(interop.keys[0].secret.notation(), Notation::JunosNine);
    assert_eq!(peers(interop), ["172.16.12.170", "2001:db8::9"]);
    assert_eq!(interop.accept_tolerance, 3600);
    assert_eq!(interop.keys[0].send, lifetime("2021-06-29T00:00:00Z", ""));
    assert_eq!((interop.keys[0].options, interop.keys[0].mac_length), (Covered, 12));

    assert_eq!(
        keys(new),
        [
            "new_auth_key/0: 3/8 AES-128-CMAC-96 a \"quoted\" secret",
            "new_auth_key/1: 4/9 HMAC-SHA-1-96 hello"
        ]
    );
    assert_eq!(peers(new), ["172.16.12.192", "10.0.0.7"]);
    assert_eq!((new.description.as_deref(), new.accept_tolerance), (Some("core sessions"), 600));
    // Each key is sent with until the next one starts, and accepted from its start on; times have offsets.
    assert_eq!(new.keys[0].send, lifetime("2021-01-01T00:00:00Z", "2021-07-01T00:00:00Z"));
    assert_eq!(new.keys[0].accept, lifetime("2021-01-01T00:00:00Z", ""));
    assert_eq!(new.keys[1].send, lifetime("2021-07-01T00:00:00Z", ""));
    // Without tcp-ao-option, TCP options are not covered.
    assert_eq!((new.keys[0].options, new.keys[1].options), (Excluded, Covered));

    let commands = load_data("junos-set.conf", Format::Junos);
    assert_eq!(commands.chains.len(), file.chains.len());
    for (one, other) in commands.chains.iter().zip(&file.chains) {
        assert_eq!(
            (&one.name, &one.description, one.accept_tolerance),
            (&other.name, &other.description, other.accept_tolerance)
        );
        assert_eq!(peers(one), peers(other));
        assert!(one.keys.iter().zip(&other.keys).all(|(one, other)| one.is_same_key(other)));
        assert_eq!(one.keys.len(), other.keys.len());
    }
}

#[test]
fn junos_has_a_part_of_a_configuration() {
    let text = "key 0 { secret x; algorithm ao; ao-attribute { send-id 1; recv-id 2; } }";
    assert_eq!(keys(&read_text(text, Format::Junos)[0]), ["0: 1/2 HMAC-SHA-1-96 x"]);
    let text =
        "key-chain \"a b\" { key 5 { secret x; algorithm ao; ao-attribute { send-id 1; recv-id 2; } } }";
    let chains = read_text(text, Format::Junos);
    assert_eq!(keys(&chains[0]), ["a b/5: 1/2 HMAC-SHA-1-96 x"]);
    assert_eq!(chains[0].keys[0].send, Lifetime::ALWAYS);
}

#[test]
fn what_is_not_for_tcp_ao_is_skipped_with_its_place() {
    let key = |id: &str| format!("key {{ id {id}; secret \"x\"; }};");
    let protocol = |authentication: &str| {
        format!("protocol bgp {{\n authentication {authentication}; keys {{ {} }}; }}\n", key("1"))
    };
    let junos = |algorithm: &str| {
        format!(
            "key-chain c {{\n key 1 {{ secret x; algorithm {algorithm}; ao-attribute {{ send-id 1; recv-id 1; }} }}\n key 2 {{ secret \
             x; algorithm ao; ao-attribute {{ send-id 2; recv-id 2; }} }} }}"
        )
    };
    let ios_xr = |id: u8| {
        format!(
            "key chain c\n key 1\n  key-string x\n  cryptographic-algorithm HMAC-SHA1-96\n key 2\n  key-string x\n  \
             cryptographic-algorithm HMAC-SHA1-96\ntcp ao\n keychain c\n  key {id} SendID 1 ReceiveID 1\n"
        )
    };
    for (format, text, expected) in [
        (
            Format::Bird,
            protocol("ao") + &protocol("md5"),
            Some((3, "the keys of a protocol with another authentication than ao")),
        ),
        (Format::Junos, junos("md5"), Some((2, "a key without algorithm ao"))),
        (Format::Junos, junos("ao"), None),
        (Format::IosXr, ios_xr(2), Some((2, "a key without ids in \"tcp ao\""))),
        (Format::IosXr, ios_xr(1), Some((5, "a key without ids in \"tcp ao\""))),
    ] {
        let file = read(Path::new("keys"), &text, Some(format)).unwrap();
        let skipped: Vec<_> =
            file.skipped.iter().map(|skipped| (skipped.position.line, skipped.what)).collect();
        assert_eq!(skipped, Vec::from_iter(expected), "{text}");
    }
}

#[test]
fn the_two_ends_of_a_published_session_agree() {
    let junos = &load_data("junos.conf", Format::Junos).chains[0].keys[0];
    let ios_xr = &load_data("ios-xr.cfg", Format::IosXr).chains[0].keys[0];
    assert_eq!(junos.secret.expose(), ios_xr.secret.expose());
    assert_eq!((junos.send_id, junos.recv_id), (ios_xr.recv_id, ios_xr.send_id));
    assert_eq!(
        (junos.algorithm, junos.mac_length, junos.options),
        (ios_xr.algorithm, ios_xr.mac_length, ios_xr.options)
    );
}

#[test]
fn every_peer_of_a_chain_has_its_keys() {
    let keys = load_data("junos.conf", Format::Junos).keys().expect("usable keys").keys;
    let named: Vec<_> =
        keys.iter().map(|key| format!("{} {}", key.name, key.peer.expect("every chain is used"))).collect();
    assert_eq!(
        named,
        [
            "XR-interop/0 172.16.12.170",
            "XR-interop/0 2001:db8::9",
            "new_auth_key/0 172.16.12.192",
            "new_auth_key/0 10.0.0.7",
            "new_auth_key/1 172.16.12.192",
            "new_auth_key/1 10.0.0.7",
        ]
    );
    assert_eq!(keys[2].accept_tolerance, 600);
}

#[test]
fn the_workspaces_formats_are_told_by_name_or_content() {
    let toml = "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 1\nalgorithm = \"SHA1\"\nsecret = \"x\"\n";
    for name in ["keys.toml", "keys", "-"] {
        let file = read(Path::new(name), toml, None).expect("TOML");
        assert_eq!(
            (file.format, keys(&file.chains[0])),
            (Some(Format::Toml), vec!["core/1: 1/1 HMAC-SHA-1-96 x".into()])
        );
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/key-chains/all-fields.json");
    let json = std::fs::read_to_string(path).expect("the file of key chains");
    assert_eq!(read(Path::new("keys"), &json, None).expect("JSON").format, Some(Format::Json));
    assert!(
        read(Path::new("keys"), "hello: world", None)
            .expect_err("no format")
            .to_string()
            .contains("--format")
    );
}

#[test]
fn keys_with_ids_in_common_are_read_all_the_same() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/key-chains/refused-overlap.toml");
    let file = load(&path, None).expect("a file that KeyChains refuses");
    assert_eq!(file.chains.len(), 1);
    assert!(file.chains[0].keys.len() > 1);

    let key = |id: u8, secret: &str| {
        format!(
            r#"{{"key-id": "1", "crypto-algorithm": "hmac-sha-1", "key-string": {{"keystring": "{secret}"}},
               "ietf-tcp:authentication": {{"ao": {{"send-id": {id}, "recv-id": 1}}}}}}"#
        )
    };
    let text = format!(
        r#"{{"ietf-key-chain:key-chains": {{"key-chain": [{{"name": "a", "key": [{}, {}]}}, {{"name": "b", "key": [{}]}}]}}}}"#,
        key(1, "x"),
        key(1, "y"),
        key(2, "z")
    );
    let chains = read(Path::new("keys"), &text, None).expect("a text that KeyChains refuses").chains;
    assert_eq!(keys(&chains[0]), ["a/1: 1/1 HMAC-SHA-1-96 x", "a/1: 1/1 HMAC-SHA-1-96 y"]);
    assert_eq!(keys(&chains[1]), ["b/1: 2/1 HMAC-SHA-1-96 z"]);
}

const SECRET: &str = "hunter2hunter2";

pub(crate) fn error_of(format: Format, text: &str) -> String {
    let error = read(Path::new("router.conf"), text, Some(format)).expect_err(text);
    for shown in [error.to_string(), format!("{error:?}")] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
    let shown = error.to_string();
    assert!(!shown.contains('\n'), "{shown}");
    shown
}

pub(crate) fn check(format: Format, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(error_of(format, text), format!("router.conf: {expected}"), "{text}");
    }
}

#[test]
fn bird() {
    check(
        Format::Bird,
        &[
            ("keys {\n key { id 1; secret \"hunter2hunter2\";", "line 2, column 38, key: has no end"),
            (
                "keys {\n key { id 1; secret \"hunter2hunter2\n\"; }; }",
                "line 2, column 21, string: has no end",
            ),
            ("keys { /* hunter2hunter2", "line 1, column 8, comment: has no end"),
            ("protocol bgp {\n ipv4 {\n", "line 3, column 1, block: has no end"),
            ("keys key", "line 1, column 6, keys: expected {"),
            ("keys { \"hunter2hunter2\" }", "line 1, column 8, keys: expected key { ... };"),
            ("keys { key id 1; }", "line 1, column 12, key: expected {"),
            (
                "keys { key { id 1; password \"hunter2hunter2\"; }; }",
                "line 1, column 20, key: expected id, send id, recv id, secret, algorithm, preferred or deprecated",
            ),
            ("keys { key { send 1; }; }", "line 1, column 19, send id: expected id"),
            ("keys { key { id 256; }; }", "line 1, column 17, id: must be a whole number from 0 to 255"),
            (
                "keys { key { recv id hunter2hunter2; }; }",
                "line 1, column 22, recv id: must be a whole number from 0 to 255",
            ),
            (
                "keys { key { id 1; preferred; deprecated; }; }",
                "line 1, column 31, key: a key cannot be both preferred and deprecated",
            ),
            ("keys { key { id 1; secret \"hunter2hunter2\" id 2; }; }", "line 1, column 44, key: expected ;"),
            ("keys { key { id 1; secret ; }; }", "line 1, column 27, secret: is missing"),
            (
                "keys { key { id 1; secret hunter2hunter2; }; }",
                "line 1, column 27, secret: expected a text in quotes, hex: with pairs of digits, 16 or more pairs of digits, or \
             a name from a define above",
            ),
            ("keys {\n\n key { id 1; }; }", "line 3, column 2, secret: is missing"),
            ("keys { key { secret \"hunter2hunter2\"; }; }", "line 1, column 8, send id: is missing"),
            (
                "keys { key { send id 2; secret \"hunter2hunter2\"; }; }",
                "line 1, column 8, recv id: is missing",
            ),
            (
                "keys { key { id 1; algorithm hmac sha1 \"hunter2hunter2\"; }; }",
                "line 1, column 40, algorithm: expected ;",
            ),
            ("protocol bgp { neighbor { } }", "line 1, column 25, neighbor: expected ;"),
            ("protocol bgp x { password \"hunter2hunter2\"; }", "has no key for TCP-AO (read as bird)"),
        ],
    );
    for (algorithm, reason) in [
        ("hmac md5", "MD5 is broken"),
        ("hmac sha512", "no RFC or working group draft defines"),
        ("hunter2hunter2", "unknown TCP-AO algorithm"),
        ("hmac(sha1)", "unknown TCP-AO algorithm"),
    ] {
        let text = format!("keys {{\n key {{ id 1; algorithm {algorithm}; secret \"x\"; }};\n}}");
        let error = error_of(Format::Bird, &text);
        assert!(
            error.starts_with(&format!("router.conf: line 2, column 24, algorithm: {reason}")),
            "{error}"
        );
    }
}

#[test]
fn junos() {
    let key = |inside: &str| format!("key-chain c {{\n key 0 {{\n  algorithm ao;\n{inside}\n }}\n}}");
    let ids = "  ao-attribute { send-id 1; recv-id 1; }\n";
    let case = |inside: &str, expected: &str| {
        assert_eq!(error_of(Format::Junos, &key(inside)), format!("router.conf: {expected}"), "{inside}");
    };
    case(ids, "line 2, column 2, secret: is missing");
    case("  secret hunter2hunter2;", "line 2, column 2, send-id: is missing");
    case("  secret hunter2hunter2;\n  ao-attribute { send-id 1; }", "line 2, column 2, recv-id: is missing");
    case(
        "  ao-attribute { send-id 256; }",
        "line 4, column 26, send-id: must be a whole number from 0 to 255",
    );
    case(
        "  ao-attribute { recv-id hunter2hunter2; }",
        "line 4, column 26, recv-id: must be a whole number from 0 to 255",
    );
    case("  ao-attribute { send-id 1;\n send-id 1; }", "line 5, column 2, send-id: is given twice");
    case(
        "  ao-attribute { tcp-ao-option yes; }",
        "line 4, column 32, tcp-ao-option: expected enabled or disabled",
    );
    case("  secret hunter2hunter2;\n  secret hunter2hunter2;", "line 5, column 3, secret: is given twice");
    case(
        &format!("{ids}  secret \"$9$hunter2hunter2!\";"),
        "line 5, column 10, secret: is a damaged $9$ secret",
    );
    case(
        &format!("{ids}  secret \"$8$hunter2hunter2\";"),
        "line 5, column 10, secret: is encrypted with the router's master password ($8$), and only the router can decrypt it: \
         write it in plain text",
    );
    for start in [
        "2026",
        "2026-1-1",
        "2026-13-1.00:00",
        "2026-1-1.25:00",
        "2026-1-1.0:0:0:0",
        "hunter2hunter2",
        "2026-1-1.00:00 CET",
    ] {
        case(
            &format!("{ids}  secret hunter2hunter2;\n  start-time \"{start}\";"),
            "line 6, column 14, start-time: expected a start time such as \"2026-01-31.00:00:00 +0000\"",
        );
    }
    let error = error_of(Format::Junos, &key("  ao-attribute { cryptographic-algorithm hmac-md5; }"));
    assert!(
        error.starts_with("router.conf: line 4, column 42, cryptographic-algorithm: MD5 is broken"),
        "{error}"
    );
    check(
        Format::Junos,
        &[
            (
                "key-chain c { key x { secret hunter2hunter2; } }",
                "line 1, column 19, key: must be a whole number from 0 to 18446744073709551615",
            ),
            (
                "key-chain c { tolerance x; }",
                "line 1, column 25, tolerance: must be a whole number from 0 to 999999999",
            ),
            ("key-chain c { key 0 { secret \"hunter2hunter2; } }", "line 1, column 30, string: has no end"),
            ("key-chain c {\n key 0 {", "line 2, column 9, block: has no end"),
            ("key-chain c { } }", "line 1, column 17, block: expected a statement"),
            (
                "key-chain c { key 0 { secret hunter2hunter2; algorithm md5; } }",
                "has no key for TCP-AO (read as junos)",
            ),
        ],
    );
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let missing = load(Path::new("no/such/file"), None).expect_err("no file").to_string();
    assert!(missing.starts_with("no/such/file: No such file"), "{missing}");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("keys.toml");
    std::fs::write(&path, b"hunter2hunter2\xff").expect("a file");
    let shown = load(&path, None).expect_err("no text").to_string();
    assert_eq!(shown, format!("{}: not UTF-8 text", path.display()));
    std::fs::write(&path, b"[[key-chain]]\nname = hunter2hunter2\n").expect("a file");
    let shown = load(&path, None).expect_err("no TOML").to_string();
    assert!(shown.contains("line 2, column") && !shown.contains(SECRET), "{shown}");
}

/// A configuration of each router, with a marker wherever a secret may be.
const TEXTS: [(Format, &str); 4] = [
    (
        Format::Bird,
        "define S = \"hunter2hunter2\";\nprotocol bgp {\n neighbor 192.0.2.1 as 1;\n keys { key { id 1; secret \"hunter2hunter2\"; algorithm \
         hmac sha1; };\n key { id 2; secret S; preferred; }; };\n}\n",
    ),
    (
        Format::Junos,
        "security { authentication-key-chains { key-chain c { key 0 { secret \"hunter2hunter2\";\n start-time \
         \"2026-1-1.00:00:00 +0000\"; algorithm ao; ao-attribute { send-id 1; recv-id 2; } } } } }\n",
    ),
    (
        Format::Junos,
        "set security authentication-key-chains key-chain c key 0 secret hunter2hunter2\nset security \
         authentication-key-chains key-chain c key 0 algorithm ao\nset security authentication-key-chains key-chain c key 0 \
         ao-attribute send-id 1\n",
    ),
    (
        Format::IosXr,
        "key chain c\n key 0\n  key-string clear hunter2hunter2\n  cryptographic-algorithm HMAC-SHA1-96\n !\n!\ntcp ao\n \
         keychain c\n  key 0 SendID 1 ReceiveID 2\n !\n!\n",
    ),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// No error shows a secret, however the configuration around it is damaged.
    #[test]
    fn a_damaged_text_never_shows_its_secrets(
        index in 0..TEXTS.len(),
        from in any::<prop::sample::Index>(),
        length in 0usize..12,
        instead in prop::sample::select(vec!["", " ", "\n", ";", "{", "}", "\"", "#", "!", "id", "secret", "key", "/*"]),
    ) {
        let (format, text) = TEXTS[index];
        let start = from.index(text.len());
        let end = (start + length).min(text.len());
        let removed = &text[start..end];
        prop_assume!(!SECRET.contains(removed) || removed.is_empty());
        let damaged = format!("{}{instead}{}", &text[..start], &text[end..]);
        match read(Path::new("router.conf"), &damaged, Some(format)) {
            Ok(file) => {
                let shown = format!("{file:?}");
                // A name may stand where a secret was; the secret itself is never shown.
                let names: String = file.chains.iter().map(|chain| format!("{:?}{:?}", chain.name, chain.description)).collect();
                prop_assert!(names.contains(SECRET) || !shown.contains(SECRET), "{}", shown);
            }
            Err(error) => {
                let shown = format!("{error} {error:?}");
                prop_assert!(!shown.contains(SECRET), "{}", shown);
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}
