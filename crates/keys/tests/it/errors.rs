//! The error for each mistake in a file.

use wireseal_keys::{KeyChains, Position};

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
    // A null from an unfilled template must not make a key that never ends (RFC 7951 §6 has no such null).
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
        "line 5, column 10, key chain \"core\", key 100, secret: master key has 12 octets, HMAC-SHA256-128 requires 32 or \
         more; allow-short-secret = true accepts it"
    );
    KeyChains::from_toml(&toml_with("algorithm", &format!("{short}\nallow-short-secret = true"))).unwrap();
    let short = json_with("ietf-tcp:aes-128", "wireseal:kmac256-128");
    let error = json_error(&short);
    assert!(
        error
            .starts_with("line 5, column 37, key chain \"core\", key 7, keystring: master key has 12 octets")
    );
    assert!(error.ends_with("; \"wireseal:allow-short-secret\": true accepts it"), "{error}");
}

/// The field whose line is replaced, the new line, and the error after the chain's name. The last line is the sixth.
const TOML: &str = r#"
send-id     | send-id = 256             | 6:11, key 256, send-id: must be a whole number from 0 to 255
send-id     | send-id = -1              | 6:11, key 0, send-id: must be a whole number from 0 to 255
recv-id     | recv-id = -1              | 7:11, key 100, recv-id: must be a whole number from 0 to 255
recv-id     | recv-id = 18446744073709551616 | 7:11, key 100, recv-id: must be a whole number from 0 to 255
key-id      | key-id = -1               | 7:10, key 100, key-id: must be a whole number from 0 to 18446744073709551615
algorithm   | algorithm = "rot13"       | 6:13, key 100, algorithm: unknown TCP-AO algorithm SUPPORTED
secret      | secret = ""               | 6:10, key 100, secret: master key is empty
secret      | secret = "LONG"           | 6:10, key 100, secret: master key has 81 octets, at most 80 are possible
secret      |                           | 3:1, key 100: give secret or secret-hex
secret-hex  | secret-hex = "00"         | 3:1, key 100: give secret or secret-hex, not both
secret      | secret = "pässword"       | 6:10, key 100, secret: the secret has characters outside ASCII; give its octets as hexadecimal digits
secret      | secret-hex = "012"        | 6:14, key 100, secret-hex: has an odd number of hexadecimal digits; write two for each octet
secret      | secret-hex = "0:00"       | 6:14, key 100, secret-hex: has a colon within a pair of digits; write the octets as "66:69", or without colons
secret      | secret-hex = "zz"         | 6:14, key 100, secret-hex: has characters that are not hexadecimal digits; write the octets as "6669" or "66:69"
secret      | secret-hex = "0x00"       | 6:14, key 100, secret-hex: has characters that are not hexadecimal digits; write the octets as "6669" or "66:69"
options     | options = "some"          | 7:11, key 100, options: neither "covered" nor "excluded"
send        | send = { from = 2026-01-01T00:00:00Z, until = 2026-01-01T00:00:00Z } | 7:47, key 100, send.until: ends at 2026-01-01T00:00:00Z, which is not after 2026-01-01T00:00:00Z
send        | send = { from = 2026-01-01 } | 7:17, key 100, send.from: not a date and time with offset (RFC 3339), such as 2026-11-20T10:00:00Z
accept      | accept = { from = 2026-01-01T00:00:00Z } | 7:10, key 100, accept: must cover the send lifetime, because one MKT both signs and verifies (RFC 5925)
algorithm   |                           | 3:1, key 100: missing field `algorithm`
send-id     | send-id = "100"           | 6:11, key 100, send-id: expected a whole number, found a string
secret      | secret = 31337            | 6:10, key 100, secret: expected a string, found a whole number
send        | send = { from = 5 }       | 7:17, key 100, send.from: expected a date and time such as 2026-11-20T10:00:00Z, found a whole number
send        | send = { from = {} }      | 7:17, key 100, send.from: expected a date and time such as 2026-11-20T10:00:00Z, found a table
send        | send = 2026-01-01T00:00:00Z | 7:8, key 100, send: expected a table, found a date or time
"#;

/// The start of an error about these texts' chain, from `LINE:COLUMN`.
fn at(place: &str) -> String {
    let (line, column) = place.split_once(':').unwrap();
    format!("line {line}, column {column}, key chain \"core\"")
}

#[test]
fn each_field_of_toml_is_named() {
    for [field, line, expected] in rows(&TOML.replace("LONG", &"x".repeat(81))) {
        let expected = expected.replace("SUPPORTED", SUPPORTED);
        let (place, rest) = expected.split_at(expected.find(", ").or(expected.find(": ")).unwrap());
        assert_eq!(toml_error(&toml_with(field, line)), at(place) + rest);
    }
}

#[test]
fn ao_16_impossible_mac_lengths_are_refused() {
    let read = |length: i64| {
        KeyChains::from_toml(&toml_with("mac-length", &format!("mac-length = {length}"))).map(drop)
    };
    for length in [-1, 3, 17, i64::MAX] {
        let error = read(length).unwrap_err().to_string();
        assert_eq!(error, at("7:14") + ", key 100, mac-length: must be a whole number from 4 to 16");
    }
    assert_eq!((read(4), read(16)), (Ok(()), Ok(())));
}

/// The text to replace, its replacement, and the error after the chain's name.
const JSON: &str = r#"
"7"           | "seven"     | 2:19, key-id: must be a whole number from 0 to 18446744073709551615
100           | 300         | 6:55, key 7, send-id: must be a whole number from 0 to 255
100           | "hunter2"   | 6:55, key 7, ietf-tcp:authentication.ao.send-id: expected a whole number, found a string
101           | -5          | 6:71, key 7, recv-id: must be a whole number from 0 to 255
{"ao"         | {"keychain": "edge", "ao" | 6:49, key 7, keychain: a key cannot refer to another key chain
101           | 101, "accept-key-mismatch": true | 6:99, key 7, accept-key-mismatch: a protected peer's segments are never accepted without a matching key
"keystring"   | "hexadecimal-string" | 5:46, key 7, hexadecimal-string: has characters that are not hexadecimal digits; write the octets as "6669" or "66:69"
"keystring": "first-secret" | | 1:71, key 7: give keystring or hexadecimal-string
lifetime": {} | lifetime": {"send-accept-lifetime": {}, "send-lifetime": {}} | 3:21, key 7, lifetime: say once when it starts and once when it ends
lifetime": {} | lifetime": {"send-lifetime": {"duration": 60}} | 3:39, key 7, send-lifetime: say once when it starts and once when it ends
lifetime": {} | lifetime": {"send-lifetime": {"start-date-time": "2026-01-01T00:00:00Z", "duration": 0}} | 3:95, key 7, send-lifetime.duration: ends at 2026-01-01T00:00:00Z, which is not after 2026-01-01T00:00:00Z
lifetime": {} | lifetime": {"accept-lifetime": {"start-date-time": "tomorrow"}} | 3:61, key 7, accept-lifetime.start-date-time: not a date and time with offset (RFC 3339), such as 2026-11-20T10:00:00Z
"key-id"      | "wireseal:mac-length": 20, "key-id" | 2:32, key 7, wireseal:mac-length: must be a whole number from 4 to 16
"name"        | "accept-tolerance": {"duration": -1}, "name" | 1:80, accept-tolerance.duration: must be a whole number from 0 to 4294967295
"#;

#[test]
fn each_member_of_json_is_named() {
    for [replaced, replacement, expected] in rows(JSON) {
        let (place, rest) = expected.split_at(expected.find([',', ' ']).unwrap());
        let place = place.trim_end_matches(':');
        assert_eq!(json_error(&json_with(replaced, replacement)), at(place) + rest);
    }
    assert_eq!(
        json_error(&json_with("ietf-tcp:aes-128", "ietf-key-chain:hmac-sha-256")),
        at("4:29")
            + &format!(
                ", key 7, crypto-algorithm: SHA-256 alone is ambiguous: write hmac(sha256) for Linux's algorithm or \
                 HMAC-SHA256-128 for that of draft-ietf-tcpm-tcp-ao-algs, which derive different keys {SUPPORTED}"
            )
    );
    assert_eq!(
        json_error(&json_with("{\"key-chain\"", "{\"aes-key-wrap\": {\"enable\": true}, \"key-chain\"")),
        "line 1, column 48, aes-key-wrap: key strings wrapped with AES Key Wrap cannot be read"
    );
}

#[test]
fn ao_24_overlapping_ids_are_named() {
    assert_eq!(
        toml_error(include_str!("../data/key-chains/refused-overlap.toml")),
        "line 13, column 11, key chain \"core\", key 2, send-id: key 1 has this id too, and their accept lifetimes overlap"
    );
    let touching = include_str!("../data/key-chains/refused-overlap.toml").replace("00:00:01Z", "00:00:00Z");
    KeyChains::from_toml(&touching).unwrap();
}

/// The text after the table of a key with SendID 100, and the error after the chain's name.
const REPEATED: &str = r#"
send-id = 100                | 8:11, key 100, send-id: another key of the chain has this key id
send-id = 1, key-id = 100    | 9:10, key 100, key-id: another key of the chain has this key id
send-id = 100, key-id = 1    | 8:11, key 1, send-id: key 100 has this id too, and their accept lifetimes overlap
send-id = 1, recv-id = 100   | 9:11, key 1, recv-id: key 100 has this id too, and their accept lifetimes overlap
"#;

#[test]
fn repeated_ids_are_named_as_the_file_has_them() {
    let key = "[[key-chain.key]]\nalgorithm = \"SHA1\"\nsecret = \"x\"\n";
    let error = |first: &str, second: &str| {
        let second = second.replace(", ", "\n");
        toml_error(&format!("[[key-chain]]\nname = \"core\"\n{first}\n{key}{second}\n"))
    };
    let first = format!("{key}send-id = 100");
    for row in REPEATED.lines().filter(|line| !line.is_empty()) {
        let (second, expected) = row.split_once(" | ").unwrap();
        let (place, rest) = expected.split_once(',').unwrap();
        let (line, column) = place.split_once(':').unwrap();
        let place = format!("{}:{column}", line.parse::<usize>().unwrap() + 2);
        assert_eq!(error(&first, second.trim()), format!("{},{rest}", at(&place)));
    }
    // The RecvID is the SendID by default; the file then has no other name for it.
    let crossed = error(&format!("{first}\nrecv-id = 5"), "send-id = 5");
    assert_eq!(
        crossed,
        at("11:11") + ", key 5, send-id: key 100 has this id too, and their accept lifetimes overlap"
    );
}

#[test]
fn repeated_names_and_empty_chains_are_named() {
    let chain = "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 1\nalgorithm = \"SHA1\"\nsecret = \"x\"\n";
    assert_eq!(toml_error(&format!("{chain}{chain}")), at("8:8") + ", name: another key chain has this name");
    assert_eq!(toml_error("[[key-chain]]\nname = \"core\""), at("1:1") + ", key: there are no keys");
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

#[test]
fn unknown_fields_and_tables_in_the_wrong_place_are_named() {
    let error = toml_error(&toml_with("colour", "colour = 3"));
    assert!(error.starts_with(&(at("7:1") + ", key 100, colour: unknown field `colour`")), "{error}");
    for (text, expected) in [
        ("key-chain = 1", "line 1, column 13, key-chain: expected an array, found a whole number"),
        (
            "[key-chain]\nname = \"core\"",
            "line 1, column 1, key-chain: expected an array, found a table: write [[key-chain]] with two brackets, once for each",
        ),
        (
            "[[key-chain]]\nname = \"core\"\n[key-chain.key]\nsend-id = 1",
            "line 3, column 1, key chain \"core\", key: expected an array, found a table: write [[key-chain.key]] with two brackets, \
             once for each",
        ),
        ("[[keychain]]", "line 1, column 3, keychain: unknown field `keychain`, expected `key-chain`"),
        ("key-chain = [1]", "line 1, column 14: expected a table that is a key chain, found a whole number"),
        (
            "[[key-chain]]\nname = 3",
            "line 2, column 8, key chain \"3\", name: expected a string, found a whole number",
        ),
        ("[[key-chain]]\nkey = []", "line 1, column 1: missing field `name`"),
    ] {
        assert_eq!(toml_error(text), expected);
    }
    let error = json_error(&json_with("\"ao\": {", "\"md5\": {}, \"ao\": {"));
    assert!(error.contains("ietf-tcp:authentication.md5: unknown field `md5`"), "{error}");
    let error = json_error(&json_with("101", "101, \"recv-id\": 102"));
    // The place is where the second name ends.
    let expected = at("6:84") + ", key 7, ietf-tcp:authentication.ao: duplicate field `recv-id`";
    assert_eq!(error, expected);
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
