//! The error for each mistake in a file.

use wireseal_tcp_ao::key_chain::{KeyChains, Position};

/// A chain of one key in TOML, with `line` in place of the field's line.
fn toml_with(field: &str, line: &str) -> String {
    let text = r#"[[key-chain]]
name = "core"
[[key-chain.key]]
send-id = 100
algorithm = "aes-128-cmac-96"
secret = "first-secret""#;
    let kept = text.lines().filter(|line| !line.starts_with(&format!("{field} ")));
    kept.chain([line]).collect::<Vec<_>>().join("\n")
}

/// A chain of one key in JSON, with one part replaced.
fn json_with(replaced: &str, replacement: &str) -> String {
    let text = r#"{"ietf-key-chain:key-chains": {"key-chain": [{"name": "core", "key": [{
        "key-id": "7",
        "lifetime": {},
        "crypto-algorithm": "ietf-tcp:aes-128",
        "key-string": {"keystring": "first-secret"},
        "ietf-tcp:authentication": {"ao": {"send-id": 100, "recv-id": 101}}
    }]}]}}"#;
    assert!(text.contains(replaced));
    text.replace(replaced, replacement)
}

fn toml_error(text: &str) -> String {
    KeyChains::from_toml(text).unwrap_err().to_string()
}

fn json_error(text: &str) -> String {
    KeyChains::from_json(text).unwrap_err().to_string()
}

/// The rows of a table: lines of cells between bars.
fn rows(table: &str) -> impl Iterator<Item = [&str; 3]> {
    table.lines().filter(|line| !line.is_empty()).map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        cells.try_into().unwrap()
    })
}

const SUPPORTED: &str =
    "(supported: HMAC-SHA-1-96, AES-128-CMAC-96, hmac(sha256), HMAC-SHA256-128, KMAC256-128)";

#[test]
fn the_texts_that_are_varied_here_are_good() {
    KeyChains::from_toml(&toml_with("none", "")).unwrap();
    KeyChains::from_json(&json_with("7", "7")).unwrap();
}

#[test]
fn ao_26_null_is_no_lifetime_that_was_left_out() {
    // A template without a value must not make a key that never ends (RFC 7951 §6 has no such null).
    let start = "\"start-date-time\": \"2026-01-01T00:00:00Z\"";
    for lifetimes in [
        "\"send-accept-lifetime\": null".to_owned(),
        "\"send-lifetime\": null".to_owned(),
        format!("\"send-accept-lifetime\": {{{start}, \"end-date-time\": null}}"),
        format!("\"send-accept-lifetime\": {{{start}, \"duration\": null}}"),
        "\"send-accept-lifetime\": {\"always\": null}".to_owned(),
    ] {
        let text = json_with("\"lifetime\": {}", &format!("\"lifetime\": {{{lifetimes}}}"));
        assert!(KeyChains::from_json(&text).is_err(), "{lifetimes}");
    }
    let good = format!("\"lifetime\": {{\"send-accept-lifetime\": {{{start}, \"no-end-time\": [null]}}}}");
    assert!(KeyChains::from_json(&json_with("\"lifetime\": {}", &good)).is_ok());
}

#[test]
fn ao_14_short_secrets_are_refused_unless_asked_for() {
    let short = "algorithm = \"HMAC-SHA256-128\"";
    assert_eq!(
        toml_error(&toml_with("algorithm", short)),
        "key chain \"core\", key 100, secret: master key has 12 octets, HMAC-SHA256-128 requires 32 or more; \
         allow-short-secret accepts it"
    );
    KeyChains::from_toml(&toml_with("algorithm", &format!("{short}\nallow-short-secret = true"))).unwrap();
    let short = json_with("ietf-tcp:aes-128", "wireseal:kmac256-128");
    assert!(json_error(&short).starts_with("key chain \"core\", key 7, keystring: master key has 12 octets"));
}

/// The field of the line that is replaced, the line, and the error.
const TOML: &str = r#"
send-id     | send-id = 256             | key 256, send-id: 256 is not between 0 and 255
recv-id     | recv-id = -1              | key 100, recv-id: -1 is not between 0 and 255
algorithm   | algorithm = "rot13"       | key 100, algorithm: unknown TCP-AO algorithm SUPPORTED
secret      | secret = ""               | key 100, secret: master key is empty
secret      | secret = "LONG"           | key 100, secret: master key has 81 octets, at most 80 are possible
secret      |                           | key 100, secret: give one secret, either as text or as hexadecimal digits
secret-hex  | secret-hex = "00"         | key 100, secret: give one secret, either as text or as hexadecimal digits
secret      | secret = "pässword"       | key 100, secret: the secret has characters outside ASCII; give its octets as hexadecimal digits
secret      | secret-hex = "0"          | key 100, secret-hex: not an even number of hexadecimal digits
secret      | secret-hex = "0:00"       | key 100, secret-hex: not an even number of hexadecimal digits
secret      | secret-hex = "hunter"     | key 100, secret-hex: not an even number of hexadecimal digits
options     | options = "some"          | key 100, options: neither "covered" nor "excluded"
send        | send = { from = 2026-01-01T00:00:00Z, until = 2026-01-01T00:00:00Z } | key 100, send: ends at 2026-01-01T00:00:00Z, which is not after 2026-01-01T00:00:00Z
send        | send = { from = 2026-01-01 } | key 100, send: not a date and time with offset, such as the Z of UTC
accept      | accept = { from = 2026-01-01T00:00:00Z } | key 100, accept: must cover the send lifetime, because one MKT both signs and verifies (RFC 5925)
"#;

#[test]
fn each_field_of_toml_is_named() {
    for [field, line, expected] in rows(&TOML.replace("LONG", &"x".repeat(81))) {
        let expected = expected.replace("SUPPORTED", SUPPORTED);
        assert_eq!(toml_error(&toml_with(field, line)), format!("key chain \"core\", {expected}"));
    }
}

#[test]
fn ao_16_impossible_mac_lengths_are_refused() {
    let read = |length: i64| {
        KeyChains::from_toml(&toml_with("mac-length", &format!("mac-length = {length}"))).map(drop)
    };
    for (length, problem) in [
        (3, "MAC length is 3 octets, it must be between 4 and 16"),
        (17, "MAC length is 17 octets, it must be between 4 and 16"),
        (-1, "-1 is not between 0 and 255"),
    ] {
        let error = read(length).unwrap_err().to_string();
        assert_eq!(error, format!("key chain \"core\", key 100, mac-length: {problem}"));
    }
    assert_eq!((read(4), read(16)), (Ok(()), Ok(())));
}

/// What is replaced, by what, and the error.
const JSON: &str = r#"
"7"           | "seven"     | key-id: not a number between 0 and 18446744073709551615
100           | 300         | key 7, send-id: 300 is not between 0 and 255
101           | -5          | key 7, recv-id: -5 is not between 0 and 255
{"ao"         | {"keychain": "edge", "ao" | key 7, keychain: a key cannot refer to another key chain
101           | 101, "accept-key-mismatch": true | key 7, accept-key-mismatch: a protected peer's segments are never accepted without a matching key
"keystring"   | "hexadecimal-string" | key 7, hexadecimal-string: not an even number of hexadecimal digits
lifetime": {} | lifetime": {"send-accept-lifetime": {}, "send-lifetime": {}} | key 7, lifetime: say once when it starts and once when it ends
lifetime": {} | lifetime": {"send-lifetime": {"duration": 60}} | key 7, send-lifetime: say once when it starts and once when it ends
lifetime": {} | lifetime": {"accept-lifetime": {"start-date-time": "tomorrow"}} | key 7, accept-lifetime: not a date and time with offset (RFC 3339), such as 2026-11-20T10:00:00Z
"key-id"      | "wireseal:mac-length": 20, "key-id" | key 7, wireseal:mac-length: MAC length is 20 octets, it must be between 4 and 16
"#;

#[test]
fn each_member_of_json_is_named() {
    for [replaced, replacement, expected] in rows(JSON) {
        let error = json_error(&json_with(replaced, replacement));
        assert_eq!(error, format!("key chain \"core\", {expected}"));
    }
    assert_eq!(
        json_error(&json_with("ietf-tcp:aes-128", "ietf-key-chain:hmac-sha-256")),
        format!(
            "key chain \"core\", key 7, crypto-algorithm: SHA-256 alone is ambiguous: write hmac(sha256) for \
             Linux's algorithm or HMAC-SHA256-128 for that of draft-ietf-tcpm-tcp-ao-algs, which derive different \
             keys {SUPPORTED}"
        )
    );
    assert_eq!(
        json_error(&json_with("{\"key-chain\"", "{\"aes-key-wrap\": {\"enable\": true}, \"key-chain\"")),
        "aes-key-wrap: key strings wrapped with AES Key Wrap cannot be read"
    );
}

#[test]
fn ao_24_overlapping_ids_are_named() {
    assert_eq!(
        toml_error(include_str!("../data/key-chains/refused-overlap.toml")),
        "key chain \"core\", key 2, send-id: key 1 has this id too, and their accept lifetimes overlap"
    );
    let touching = include_str!("../data/key-chains/refused-overlap.toml").replace("00:00:01Z", "00:00:00Z");
    KeyChains::from_toml(&touching).unwrap();
}

#[test]
fn repeated_names_and_empty_chains_are_named() {
    let key = "[[key-chain.key]]\nsend-id = 100\nalgorithm = \"SHA1\"\nsecret = \"x\"\n";
    let chain = format!("[[key-chain]]\nname = \"core\"\n{key}");
    assert_eq!(
        toml_error(&format!("{chain}{key}")),
        "key chain \"core\", key 100, key-id: another key of the chain has this id"
    );
    assert_eq!(
        toml_error(&format!("{chain}{chain}")),
        "key chain \"core\", name: another key chain has this name"
    );
    assert_eq!(toml_error("[[key-chain]]\nname = \"core\""), "key chain \"core\", key: there are no keys");
    assert!(KeyChains::from_toml("").unwrap().chains().is_empty());
}

#[test]
fn a_syntax_error_has_its_line_and_column() {
    let error = KeyChains::from_toml(include_str!("../data/key-chains/refused-syntax.toml")).unwrap_err();
    assert_eq!(error.position(), Some(Position { line: 4, column: 17 }));
    assert!(error.to_string().starts_with("line 4, column 17: "), "{error}");
    let error = KeyChains::from_json(include_str!("../data/key-chains/refused-syntax.json")).unwrap_err();
    assert_eq!(error.position(), Some(Position { line: 2, column: 19 }));
    assert_eq!(json_error("{\"ietf-key-chain:key-chains\": {}} x"), "line 1, column 35: trailing characters");
}

/// The field of the line that is replaced, the line, and the error.
const PLACES: &str = r#"
algorithm |                 | line 3, column 1, key-chain[0].key[0]: missing field `algorithm`
send-id   | send-id = "100" | line 6, column 11, key-chain[0].key[0].send-id: expected a whole number, found string
secret    | secret = 31337  | line 6, column 10, key-chain[0].key[0].secret: expected a string, found integer
"#;

#[test]
fn unknown_and_missing_fields_and_other_types_are_named_with_their_place() {
    for [field, line, expected] in rows(PLACES) {
        assert_eq!(toml_error(&toml_with(field, line)), expected);
    }
    let error = toml_error(&toml_with("colour", "colour = 3"));
    let expected = "line 7, column 1, key-chain[0].key[0].colour: unknown field `colour`";
    assert!(error.starts_with(expected), "{error}");
    let error = json_error(&json_with("\"ao\": {", "\"md5\": {}, \"ao\": {"));
    assert!(error.contains("ietf-tcp:authentication.md5: unknown field `md5`"), "{error}");
    let error = json_error(&json_with("101", "101, \"recv-id\": 102"));
    assert!(error.ends_with("duplicate field `recv-id`"), "{error}");
}

#[test]
fn ao_36_a_secret_in_the_wrong_place_is_not_repeated() {
    let wrong_places = [
        toml_error("[[key-chain]]\nname = \"core\"\nkey = \"hunter2\""),
        toml_error(&toml_with("send", "send = \"hunter2\"")),
        toml_error(&toml_with("send-id", "send-id = \"hunter2\"")),
        toml_error(&toml_with("secret", "secret = \"hunter2")),
        toml_error(&toml_with("secret", "secret = hunter2")),
        toml_error(&toml_with("algorithm", "algorithm = \"hunter2\"")),
        json_error(include_str!("../data/key-chains/refused-key-string.json")),
        json_error(&json_with("\"first-secret\"", "hunter2")),
        json_error(&json_with("100", "\"hunter2\"")),
        json_error(&json_with("\"lifetime\": {}", "\"lifetime\": {\"send-lifetime\": \"hunter2\"}")),
        json_error(&json_with("\"7\"", "\"hunter2\"")),
    ];
    for error in wrong_places {
        assert!(!error.contains("hunter2"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn ao_36_a_chain_does_not_show_its_secrets() {
    let chains = KeyChains::from_toml(&toml_with("none", "")).unwrap();
    assert!(!format!("{chains:?}").contains("first-secret"));
    assert!(chains.to_toml().contains("first-secret"));
}
