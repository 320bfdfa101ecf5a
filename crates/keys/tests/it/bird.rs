//! BIRD's configuration: its keys, what BIRD itself refuses, and what is not followed.

use wireseal_keys::{Format, Notation, Preference};
use wireseal_tcp_ao::OptionCoverage::Covered;

use super::routers::{check, error_of, keys, load_data, peers, read_text};

#[test]
fn it_has_its_keys_by_protocol() {
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
fn it_has_a_bare_block_of_keys_and_short_octets() {
    let text = "keys { key { id 0x10; secret hex:00:ff; } key { id 2; send id 1; secret \"x\"; secret \"\\\"; algorithm hmac sha1; }; }";
    let chains = read_text(text, Format::Bird);
    assert_eq!(keys(&chains[0])[1], "1: 1/2 HMAC-SHA-1-96 \\");
    assert_eq!((chains[0].keys[0].send_id.0, chains[0].keys[0].secret.expose()), (16, &[0, 255][..]));
    assert!(chains[0].neighbors.is_empty());
    assert_eq!(read_text(&format!("keys {{ ; }} {text}"), Format::Bird).len(), 1, "a block without keys");
}

#[test]
fn a_neighbor_may_have_a_name() {
    let text = "define PEER = 2001:db8::7;\nprotocol bgp a { neighbor PEER as 65001; authentication ao; keys { key { id 1; \
                secret \"x\"; }; }; }";
    assert_eq!(peers(&read_text(text, Format::Bird)[0]), ["2001:db8::7"]);
}

#[test]
fn errors_name_the_place() {
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
                "line 1, column 27, secret: expected a text in quotes, hex: with pairs of digits, 10 or more pairs of digits, or \
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
