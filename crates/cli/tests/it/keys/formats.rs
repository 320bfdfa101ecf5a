//! Routers' configurations, read whole: the keys, and what each format leaves to its implementation's defaults.

use std::path::{Path, PathBuf};

use wireseal::keys::{Chain, Format, KeyFile, Notation, Preference, load, read};
use wireseal_keys::Lifetime;
use wireseal_tcp_ao::OptionCoverage::{Covered, Excluded};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/keys").join(name)
}

fn load_data(name: &str, format: Format) -> KeyFile {
    let file = load(&data(name), None).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(file.format, Some(format), "{name}");
    file
}

fn read_text(text: &str, format: Format) -> Vec<Chain> {
    read(Path::new("keys"), text, Some(format)).unwrap_or_else(|error| panic!("{error}\n{text}")).chains
}

/// `name: SendID/RecvID algorithm secret` of each key of a chain.
fn keys(chain: &Chain) -> Vec<String> {
    let key = |key: &wireseal::keys::ChainKey| {
        let secret = String::from_utf8_lossy(key.secret.expose()).into_owned();
        format!("{}: {}/{} {} {secret}", chain.name_of(key), key.send_id, key.recv_id, key.algorithm)
    };
    chain.keys.iter().map(key).collect()
}

fn peers(chain: &Chain) -> Vec<String> {
    chain.peers.iter().map(ToString::to_string).collect()
}

fn lifetime(from: &str, until: &str) -> Lifetime {
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
    // BIRD asks for no MAC length, and Linux makes 12 of that; it never excludes options.
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
    assert!(chains[0].peers.is_empty());
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
    // Each key is sent with until the next one starts, and accepted on from its start; times have offsets.
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
fn ios_xr_has_its_keys_by_chain_with_ids_from_tcp_ao() {
    let file = load_data("ios-xr.cfg", Format::IosXr);
    let [interop, covered, excluded] = &file.chains[..] else { panic!("two chains, one used in two ways") };
    assert_eq!(keys(interop), ["MXinterop/0: 0/0 HMAC-SHA-1-96 interop"]);
    assert_eq!(interop.keys[0].secret.notation(), Notation::CiscoSeven);
    assert_eq!(peers(interop), ["172.16.136.101"]);
    assert_eq!(interop.keys[0].send, lifetime("2021-06-25T00:00:00Z", ""));

    assert_eq!(keys(covered), ["tcpao1/1: 5/6 AES-128-CMAC-96 keys1keys1keys1"]);
    assert_eq!((peers(covered), covered.keys[0].options), (vec!["2001:db8::7".to_owned()], Covered));
    assert_eq!((peers(excluded), excluded.keys[0].options), (vec!["10.51.51.1".to_owned()], Excluded));
    assert_eq!(covered.accept_tolerance, 60);
    assert_eq!(covered.keys[0].send, lifetime("2018-03-03T16:00:00Z", "2018-03-04T16:00:00Z"));
    assert_eq!(covered.keys[0].accept, lifetime("2018-03-03T16:00:00Z", "2030-03-03T16:00:00Z"));

    let formal = load_data("ios-xr-formal.cfg", Format::IosXr);
    assert_eq!(formal.chains.len(), 1);
    assert!(formal.chains[0].keys[0].is_same_key(&interop.keys[0]));
    assert_eq!(peers(&formal.chains[0]), peers(interop));
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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../keys/tests/data/key-chains/all-fields.json");
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
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../keys/tests/data/key-chains/refused-overlap.toml");
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
