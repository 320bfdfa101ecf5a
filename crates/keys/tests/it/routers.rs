//! Routers' configurations: their keys, the implementation's defaults for what a format leaves out, and errors, which are one line with the
//! place and never show a secret.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use wireseal_keys::{Chain, Format, KeyFile, Lifetime, Remark, convert, load, read};

pub(super) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/routers").join(name)
}

pub(super) fn load_data(name: &str, format: Format) -> KeyFile {
    let file = load(&data(name), None).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(file.format, Some(format), "{name}");
    file
}

pub(super) fn read_file(text: &str, format: Format) -> KeyFile {
    read(Path::new("keys"), text, Some(format)).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub(super) fn read_text(text: &str, format: Format) -> Vec<Chain> {
    read_file(text, format).chains
}

/// Each chain as `name: key ids @ neighbors`.
pub(super) fn chains(file: &KeyFile) -> Vec<String> {
    let chain = |chain: &Chain| {
        let ids: Vec<_> = chain.keys.iter().map(|key| key.key_id.to_string()).collect();
        format!("{}: {} @ {}", chain.name, ids.join(" "), neighbors(chain).join(" "))
    };
    file.chains.iter().map(chain).collect()
}

/// The remarks about the file and its chains, each as `line kind: sentence` or, without a place, as `key kind: sentence`.
pub(super) fn remarks(file: &KeyFile) -> Vec<String> {
    let all = file.remarks.iter().chain(file.chains.iter().flat_map(|chain| &chain.remarks));
    let place = |remark: &Remark| match (remark.position, remark.key_id) {
        (Some(at), _) => at.line.to_string(),
        (None, Some(key)) => format!("key {key}"),
        (None, None) => "-".to_owned(),
    };
    all.map(|it| format!("{} {}: {}", place(it), it.kind, it.sentence)).collect()
}

/// Each key of a chain as `name: SendID/RecvID algorithm secret`.
pub(super) fn keys(chain: &Chain) -> Vec<String> {
    let key = |key: &wireseal_keys::ChainKey| {
        let secret = String::from_utf8_lossy(key.secret.expose()).into_owned();
        format!("{}: {}/{} {} {secret}", chain.name_of(key), key.send_id, key.recv_id, key.algorithm)
    };
    chain.keys.iter().map(key).collect()
}

/// The addresses of a chain's neighbors alone.
pub(super) fn peers(chain: &Chain) -> Vec<String> {
    chain.neighbors.iter().map(|neighbor| neighbor.address.to_string()).collect()
}

/// The neighbors of a chain, with their VRFs and interfaces.
pub(super) fn neighbors(chain: &Chain) -> Vec<String> {
    chain.neighbors.iter().map(ToString::to_string).collect()
}

pub(super) fn lifetime(from: &str, until: &str) -> Lifetime {
    let moment = |text: &str| (!text.is_empty()).then(|| text.parse().expect("a moment"));
    Lifetime::new(moment(from), moment(until)).expect("a lifetime")
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

pub(super) fn error_of(format: Format, text: &str) -> String {
    let error = read(Path::new("router.conf"), text, Some(format)).expect_err(text);
    for shown in [error.to_string(), format!("{error:?}")] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
    let shown = error.to_string();
    assert!(!shown.contains('\n'), "{shown}");
    shown
}

pub(super) fn check(format: Format, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(error_of(format, text), format!("router.conf: {expected}"), "{text}");
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let missing = load(Path::new("no/such/file"), None).expect_err("no file").to_string();
    assert!(missing.starts_with("no/such/file: No such file"), "{missing}");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("keys.toml");
    std::fs::write(&path, b"hunter2hunter2\xff").expect("a file");
    let shown = load(&path, None).expect_err("no text").to_string();
    assert_eq!(shown, format!("{}: line 1, column 15: not UTF-8 text", path.display()));
    std::fs::write(&path, b"[[key-chain]]\nname = hunter2hunter2\n").expect("a file");
    let shown = load(&path, None).expect_err("no TOML").to_string();
    assert!(shown.contains("line 2, column") && !shown.contains(SECRET), "{shown}");
}

/// Reads a text from every place on, up to every place, and without each of its characters, and writes what was read in every format.
pub(super) fn no_part_panics_or_shows_a_secret(format: Format, text: &str) {
    for (at, c) in text.char_indices() {
        let after = at + c.len_utf8();
        for part in
            [text[at..].to_owned(), text[..at].to_owned(), format!("{}{}", &text[..at], &text[after..])]
        {
            let shown = match read(Path::new("router.conf"), &part, Some(format)) {
                Ok(file) => {
                    for to in Format::ALL.into_iter().filter(|format| format.is_written()) {
                        let written = convert(&file, to).ok();
                        let again = written.as_ref().map(|written| read_file(&written.text, to));
                        let once_more = again.as_ref().map(|again| convert(again, to));
                        if let (Some(again), Some(once_more)) = (again, once_more) {
                            let once_more = once_more.unwrap_or_else(|error| panic!("{to}: {error}\n{part}"));
                            assert_eq!(
                                chains(&read_file(&once_more.text, to)),
                                chains(&again),
                                "{to}\n{part}"
                            );
                        }
                    }
                    // Names may be shown, and a word that stands where a secret was may have become one.
                    let named = |chain: &Chain| {
                        format!("{:?}{:?}{:?}", chain.name, chain.description, chain.neighbors)
                    };
                    let names: String = file.chains.iter().map(named).collect();
                    if names.contains(SECRET) { String::new() } else { format!("{file:?}") }
                }
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!shown.contains(SECRET), "{part}\n{shown}");
        }
    }
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
