//! A file's secrets are in memory only while its text or its key chains are.

use std::fmt::Write;
use std::hint::black_box;
use std::path::Path;

use base64ct::{Base64, Encoding};
use serde::Deserialize;
use wireseal_keys::{Format, KeyChains, read};
use zeroize::Zeroizing;

use crate::memory::{apart, observe, role, stage};

const KEYS: usize = 100;

/// How a file spells secrets.
#[derive(Clone, Copy, PartialEq)]
enum Spelling {
    Text,
    Hexadecimal,
}

/// The octets that all secrets have; no constant of the program contains them.
fn start() -> [u8; 24] {
    std::array::from_fn(|place| b'A' + black_box((place as u8).wrapping_mul(37).wrapping_add(11)) % 26)
}

/// A secret of 48 octets. They end with the ones that all secrets have, because the allocator overwrites the first 16 of what is freed.
fn octets(all_have: &[u8; 24], number: usize) -> Zeroizing<[u8; 48]> {
    let mut octets = Zeroizing::new([b'0'; 48]);
    octets[..8].copy_from_slice(format!("{number:08}").as_bytes());
    octets[24..].copy_from_slice(all_have);
    octets
}

/// The octets to look for: a secret's own, or its digits in a file.
fn spelled(octets: &[u8], spelling: Spelling) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(3 * octets.len()));
    for octet in octets {
        match spelling {
            Spelling::Text => text.push(char::from(*octet)),
            Spelling::Hexadecimal => write!(text, "{octet:02x}").unwrap(),
        }
    }
    text
}

/// A file of 100 keys, in a buffer that never grows. With `fault`, the last key has that fault.
fn file(is_json: bool, spelling: Spelling, fault: &str) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(500 * KEYS));
    let start = Zeroizing::new(start());
    text.push_str(match is_json {
        true => r#"{"ietf-key-chain:key-chains": {"key-chain": [{"name": "core", "key": ["#,
        false => "[[key-chain]]\nname = \"core\"\n",
    });
    for number in 0..KEYS {
        let octets = octets(&start, number);
        let secret = spelled(&*octets, spelling);
        let fault = if number == KEYS - 1 { fault } else { "" };
        let (field, comma) = match (is_json, spelling) {
            (true, Spelling::Text) => ("keystring", if number == 0 { "" } else { "," }),
            (true, Spelling::Hexadecimal) => ("hexadecimal-string", if number == 0 { "" } else { "," }),
            (false, Spelling::Text) => ("secret", ""),
            (false, Spelling::Hexadecimal) => ("secret-hex", ""),
        };
        let id = number + 1;
        if is_json {
            write!(
                text,
                r#"{comma}{{"key-id": "{number}", "crypto-algorithm": "ietf-key-chain:hmac-sha-1", "key-string": {{"{field}": "{}"}},
                "ietf-tcp:authentication": {{"ao": {{"send-id": {id}, "recv-id": {id}}}}}{fault}}}"#,
                *secret
            )
            .unwrap();
        } else {
            write!(
                text,
                "[[key-chain.key]]\nkey-id = {number}\nsend-id = {id}\nalgorithm = \"HMAC-SHA-1-96\"\n{field} = \"{}\"\n{fault}\n",
                *secret
            )
            .unwrap();
        }
    }
    text.push_str(if is_json { "]}]}}" } else { "" });
    text
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Config {
    key_chain: KeyChains,
}

/// A case: its name, whether in JSON, the spelling, the fault, and the reader. A file with a fault gives no chains.
type Case = (&'static str, bool, Spelling, &'static str, fn(&str) -> Option<KeyChains>);

const CASES: [Case; 9] = [
    ("TOML", false, Spelling::Text, "", |text| KeyChains::from_toml(text).ok()),
    ("TOML, hexadecimal", false, Spelling::Hexadecimal, "", |text| KeyChains::from_toml(text).ok()),
    ("JSON", true, Spelling::Text, "", |text| KeyChains::from_json(text).ok()),
    ("JSON, hexadecimal", true, Spelling::Hexadecimal, "", |text| KeyChains::from_json(text).ok()),
    ("in a file of another kind", false, Spelling::Text, "", |text| {
        toml::from_str::<Config>(text).ok().map(|config| config.key_chain)
    }),
    ("TOML, value wrong", false, Spelling::Text, "mac-length = 99", |text| KeyChains::from_toml(text).ok()),
    ("TOML, syntax wrong", false, Spelling::Text, "mac-length = = 1", |text| KeyChains::from_toml(text).ok()),
    ("JSON, value wrong", true, Spelling::Text, r#", "wireseal:mac-length": 99"#, |text| {
        KeyChains::from_json(text).ok()
    }),
    ("JSON, syntax wrong", true, Spelling::Text, ", ,", |text| KeyChains::from_json(text).ok()),
];

#[test]
fn ao_36_reading_a_file_leaves_no_secret_behind() {
    if let Some(name) = role() {
        let case = CASES.iter().find(|(other, ..)| *other == name).unwrap();
        return read_a_file(case);
    }
    let (octets, digits) = (start(), spelled(&start(), Spelling::Hexadecimal));
    for (name, _, spelling, fault, _) in CASES {
        let test = "memory_files::ao_36_reading_a_file_leaves_no_secret_behind";
        let stages = observe(test, name, |stage, memory| {
            let count = [memory.count(&octets), memory.count(digits.as_bytes())];
            let of_text = if spelling == Spelling::Text { [KEYS, 0] } else { [0, KEYS] };
            let read = if fault.is_empty() { KEYS } else { 0 };
            let expected = match stage {
                "the text" => of_text,
                "read" => [of_text[0] + read, of_text[1]],
                "the chains" => [read, 0],
                "copied" => [2 * read, 0],
                _ => [0, 0],
            };
            assert_eq!(count, expected, "{name}: {stage}");
        });
        assert_eq!(stages, 7);
    }
}

fn read_a_file((_, is_json, spelling, fault, read): &Case) {
    stage("start");
    let text = apart(|| file(*is_json, *spelling, fault));
    stage("the text");
    let chains = apart(|| read(&text));
    assert_eq!(chains.is_some(), fault.is_empty());
    stage("read");
    drop(text);
    stage("the chains");
    let copy = apart(|| chains.clone());
    stage("copied");
    // Writing does not leave them behind, in either format.
    apart(|| copy.iter().for_each(|chains| drop((chains.to_toml(), chains.to_json()))));
    drop(copy);
    stage("the chains");
    drop(chains);
    stage("nothing");
}

/// GoBGP's configuration with 100 keys, in a buffer that never grows.
fn gobgp(syntax: &str) -> Zeroizing<String> {
    let is_json = syntax != "TOML";
    let mut text = Zeroizing::new(String::with_capacity(500 * KEYS));
    // The rest is JSON, which YAML has, too.
    text.push_str(if syntax == "YAML" { "---\n" } else { "" });
    let start = Zeroizing::new(start());
    text.push_str(match is_json {
        true => r#"{"keychains": [{"config": {"name": "core"}, "keys": ["#,
        false => "[[keychains]]\nconfig.name = \"core\"\n",
    });
    for number in 0..KEYS {
        let octets = octets(&start, number);
        let mut base64 = Zeroizing::new([0; 64]);
        let secret = Base64::encode(&*octets, &mut *base64).unwrap();
        let comma = if is_json && number > 0 { "," } else { "" };
        let [open, is, next, close] = match is_json {
            true => ["{\"config\": {", "\": ", ", ", "}}"],
            false => ["[[keychains.keys]]\nconfig = {", "\" = ", ", ", "}\n"],
        };
        write!(
            text,
            "{comma}{open}\"key-id{is}{number}{next}\"receive-id{is}{number}{next}\"crypto-algorithm{is}\"hmac_sha_1_96\"{next}\
             \"secret-key{is}\"{secret}\"{close}"
        )
        .unwrap();
    }
    text.push_str(if is_json { "]}]}" } else { "" });
    text
}

/// The same keys in XML, with their secrets as they are.
fn xml() -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(500 * KEYS));
    text.push_str("<key-chain xmlns='urn:ietf:params:xml:ns:yang:ietf-key-chain'><name>core</name>");
    let start = Zeroizing::new(start());
    for number in 0..KEYS {
        let secret = spelled(&*octets(&start, number), Spelling::Text);
        // It comes in pieces, of which one looks like an end tag.
        write!(
            text,
            "<key><key-id>{number}</key-id><crypto-algorithm>hmac-sha-1</crypto-algorithm>\n<key-string>\n<keystring>{}&amp;<![CDATA[</]]>\
             0123456789abcdef</keystring></key-string><authentication><ao><send-id>{number}</send-id><recv-id>{number}</recv-id></ao>\
             </authentication></key>\n",
            *secret
        )
        .unwrap();
    }
    text.push_str("</key-chain>");
    text
}

/// How a router's configuration begins a chain, writes what is before and after the secret of a key, and ends the chain. `@` is the number
/// of the chain, `~` that of the key.
const ROUTERS: [(Format, [&str; 4]); 7] = [
    (
        Format::Bird,
        [
            "protocol bgp c@ { neighbor 192.0.2.@ as 1; authentication ao; keys {\n",
            "key { id ~; secret \"",
            "\"; };\n",
            "}; }\n",
        ],
    ),
    (
        Format::Junos,
        [
            "security { authentication-key-chains { key-chain c@ {\n",
            "key ~ { algorithm ao; ao-attribute { send-id ~; recv-id ~; } secret \"",
            "\"; }\n",
            "} } }\n",
        ],
    ),
    (
        Format::IosXr,
        [
            "tcp ao\n",
            "tcp ao keychain c@ key ~ SendID ~ ReceiveID ~\nkey chain c@ key ~ cryptographic-algorithm HMAC-SHA1-96\n\
             key chain c@ key ~ key-string clear ",
            "\n",
            "",
        ],
    ),
    (
        Format::IosXe,
        [
            "key chain c@ tcp\n",
            " key ~\n  send-id ~\n  recv-id ~\n  cryptographic-algorithm hmac-sha-1\n  key-string 0 ",
            "\n",
            "",
        ],
    ),
    (
        Format::Eos,
        [
            "management security\n   session shared-secret profile c@\n",
            "      secret ~ 0 ",
            " receive-lifetime infinite transmit-lifetime infinite\n",
            "!\nrouter bgp 1\n   neighbor 192.0.2.@ password shared-secret profile c@ algorithm hmac-sha1-96\n!\n",
        ],
    ),
    (
        Format::Vrp,
        [
            "tcp ao c@\n binding keychain c@\n#\n",
            "tcp ao c@\n key-id ~\n  send-id ~ receive-id ~\n#\nkeychain c@ mode absolute\n key-id ~\n  \
             algorithm hmac-sha1-12\n  key-string plain ",
            "\n#\n",
            "",
        ],
    ),
    (
        Format::SrOs,
        [
            "keychain \"c@\" {\ntcp-option-number {\nsend tcp-ao\nreceive tcp-ao\n}\nbidirectional {\n",
            "entry ~ {\nalgorithm hmac-sha-1-96\nbegin-time 2026-01-01T00:00:00.0Z\nauthentication-key \"",
            "\"\n}\n",
            "}\n}\n",
        ],
    ),
];

/// A router's configuration with 100 keys in two chains, because some routers have no more than 64 in one.
fn router([begin, before, after, end]: [&str; 4]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(500 * KEYS));
    let start = Zeroizing::new(start());
    for chain in 1..=2 {
        let in_chain =
            |part: &str, key: usize| part.replace('@', &chain.to_string()).replace('~', &key.to_string());
        text.push_str(&begin.replace('@', &chain.to_string()));
        for key in 0..KEYS / 2 {
            text.push_str(&in_chain(before, key));
            text.push_str(&spelled(&*octets(&start, key), Spelling::Text));
            text.push_str(after);
        }
        text.push_str(&end.replace('@', &chain.to_string()));
    }
    text
}

#[test]
fn ao_36_reading_a_configuration_leaves_no_secret_behind() {
    let test = "memory_files::ao_36_reading_a_configuration_leaves_no_secret_behind";
    let names = ["TOML", "JSON", "YAML", "XML"].into_iter().chain(ROUTERS.map(|(format, _)| format.name()));
    if let Some(name) = role() {
        stage("start");
        let (format, text) = match name.as_str() {
            "XML" => (Format::Xml, apart(xml)),
            name if let Some((format, parts)) =
                ROUTERS.into_iter().find(|(format, _)| format.name() == name) =>
            {
                (format, apart(|| router(parts)))
            }
            _ => (Format::GoBgp, apart(|| gobgp(&name))),
        };
        stage("the text");
        let file = apart(|| read(Path::new("keys"), &text, Some(format)).unwrap());
        assert_eq!(file.chains.iter().map(|chain| chain.keys.len()).sum::<usize>(), KEYS);
        stage("read");
        drop(text);
        stage("the file");
        drop(file);
        return stage("nothing");
    }
    let octets = start();
    let mut base64 = [0; 32];
    let digits = Base64::encode(&octets, &mut base64).unwrap();
    for name in names {
        let stages = observe(test, name, |stage, memory| {
            let count = [memory.count(&octets), memory.count(digits.as_bytes())];
            let of_text = if ["TOML", "JSON", "YAML"].contains(&name) { [0, KEYS] } else { [KEYS, 0] };
            let expected = match stage {
                "the text" => of_text,
                "read" => [of_text[0] + KEYS, of_text[1]],
                "the file" => [KEYS, 0],
                _ => [0, 0],
            };
            assert_eq!(count, expected, "{name}: {stage}");
        });
        assert_eq!(stages, 5);
    }
}
