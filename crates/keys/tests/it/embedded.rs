//! Key chains inside another program's configuration file.

use std::net::SocketAddr;

use serde::Deserialize;
use wireseal_keys::{Key, KeyChains};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Config {
    listen: SocketAddr,
    key_chains: KeyChains,
}

const LISTEN: &str = "listen = \"[::1]:179\"\n";

/// A file of key chains under another name, after a field of the program's own.
fn embedded(file: &str) -> String {
    LISTEN.to_owned() + &file.replace("[key-chain", "[key-chains")
}

/// The line of the error, and its message.
fn toml_error(text: &str) -> (usize, String) {
    let error = toml::from_str::<Config>(text).map(|config| config.listen).unwrap_err();
    let before = &text[..error.span().unwrap().start];
    (before.matches('\n').count() + 1, error.message().to_owned())
}

fn json_error(text: &str) -> String {
    serde_json::from_str::<Config>(text).map(|config| config.listen).unwrap_err().to_string()
}

#[test]
fn the_chains_are_those_of_a_file_of_their_own() {
    for file in
        [include_str!("../data/key-chains/all-fields.toml"), include_str!("../data/key-chains/rollover.toml")]
    {
        let config: Config = toml::from_str(&embedded(file)).unwrap();
        assert_eq!(config.listen, "[::1]:179".parse().unwrap());
        assert_eq!(*config.key_chains.to_toml(), *KeyChains::from_toml(file).unwrap().to_toml());
        // The same in JSON, where moments are texts.
        let table: toml::Table = toml::from_str(&embedded(file)).unwrap();
        let config: Config = serde_json::from_value(as_json(table.into())).unwrap();
        assert_eq!(*config.key_chains.to_toml(), *KeyChains::from_toml(file).unwrap().to_toml());
    }
}

fn as_json(value: toml::Value) -> serde_json::Value {
    match value {
        toml::Value::Table(table) => table.into_iter().map(|(name, value)| (name, as_json(value))).collect(),
        toml::Value::Array(values) => values.into_iter().map(as_json).collect(),
        toml::Value::Datetime(moment) => moment.to_string().into(),
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Boolean(boolean) => boolean.into(),
        toml::Value::Float(number) => number.into(),
    }
}

#[test]
fn errors_are_in_the_words_of_the_file_with_its_line() {
    let chain = "[[key-chain]]\nname = \"core\"\n";
    let key = "[[key-chain.key]]\nsend-id = 100\nalgorithm = \"SHA1\"\nsecret = \"hunter2\"\n";
    let wrong = |old: &str, new: &str| toml_error(&embedded(&(chain.to_owned() + key).replace(old, new)));
    for (old, new, line, message) in [
        ("100", "-1", 4, "key 0, send-id: must be a whole number from 0 to 255"),
        ("100", "\"x\"", 5, "invalid type: string \"x\", expected a whole number"),
        ("\"hunter2\"", "22", 7, "expected a string"),
        (
            "\"SHA1\"",
            "\"KMAC256-128\"",
            4,
            "key 100, secret: master key has 7 octets, KMAC256-128 requires 32 or more; allow-short-secret = true accepts it",
        ),
        ("secret = \"hunter2\"", "", 4, "key 100: give secret or secret-hex"),
        (
            "secret",
            "accept = { until = 2026-01-01T00:00:00Z }\nsecret",
            4,
            "key 100, accept: must cover the send lifetime, because one MKT both signs and verifies (RFC 5925)",
        ),
    ] {
        assert_eq!(wrong(old, new), (line, message.to_owned()));
    }
    let twice = toml_error(&embedded(&format!("{chain}{key}{key}")));
    assert_eq!(
        twice,
        (2, "key chain \"core\", key 100, send-id: another key of the chain has this key id".to_owned())
    );
    let twice = toml_error(&embedded(&format!("{chain}{key}{chain}{key}")));
    assert_eq!(twice.1, "key chain \"core\", name: another key chain has this name");
}

#[test]
fn null_in_json_is_no_value_and_no_secret_is_repeated() {
    let with = |member: &str| {
        format!(
            "{{\"listen\": \"[::1]:1\", \"key-chains\": [{{\"name\": \"core\", \"key\": [\n{{\"send-id\": 1, \"algorithm\": \"sha1\", \
             {member}}}]}}]}}"
        )
    };
    let secret = "\"secret\": \"x\"";
    assert!(serde_json::from_str::<Config>(&with(secret)).is_ok());
    for member in
        ["\"send\": null", "\"send\": {\"until\": null}", "\"recv-id\": null", "\"mac-length\": null"]
    {
        assert!(json_error(&with(&format!("{secret}, {member}"))).contains("null"), "{member}");
    }
    assert!(json_error(&with("\"secret\": 31337")).starts_with("expected a string at line 2 column "));
    assert_eq!(
        json_error(&with("\"secret-hex\": \"hunter2\"")),
        "key 1, secret-hex: has characters that are not hexadecimal digits; write the octets as \"6669\" or \"66:69\" at line 2 column 61"
    );
}

#[test]
fn moments_have_seconds_or_not_and_any_offset() {
    let key = |moment: &str| {
        let text = format!("send-id = 1\nalgorithm = \"sha1\"\nsecret = \"x\"\nsend = {{ from = {moment} }}");
        let key: Key = toml::from_str(&text).unwrap();
        key.send_lifetime().from().unwrap().to_string()
    };
    for (moment, expected) in [
        ("2026-11-20T10:00:00Z", "2026-11-20T10:00:00Z"),
        ("2026-11-20 10:00Z", "2026-11-20T10:00:00Z"),
        ("2026-11-20T10:00+05:30", "2026-11-20T04:30:00Z"),
        ("2026-11-20T10:00:59.75-01:00", "2026-11-20T11:00:59Z"),
        ("\"2026-11-20T10:00:00Z\"", "2026-11-20T10:00:00Z"),
    ] {
        assert_eq!(key(moment), expected, "{moment}");
    }
}
