//! Files with deep nesting or very many keys give an error or the keys, in linear time.

use std::fmt::{self, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use wireseal_keys::{Error, Format, KeyChain, KeyChains, KeyFile, convert, read};

/// What to do with a file and its chain.
type Act<'a> = &'a dyn Fn(&str, &KeyChain);
type Reader = fn(&str) -> Result<KeyChains, Error>;

/// A reader's error for a text, on a stack that is too small for one call per level.
fn error_of(reader: Reader, text: String) -> String {
    let thread = thread::Builder::new().stack_size(512 << 10);
    let read = move || reader(&text).map(drop).unwrap_err().to_string();
    thread.spawn(read).unwrap().join().unwrap()
}

#[test]
fn ao_37_a_text_that_is_nested_deeply_is_refused_where_it_goes_wrong() {
    const DEPTH: usize = 100_000;
    let nested = |open: &str, close: &str| open.repeat(DEPTH) + "1" + &close.repeat(DEPTH);
    let (arrays, objects) = (nested("[", "]"), nested("{\"a\":", "}"));
    let within = |field: &str, value: &str| {
        format!(
            "{{\"ietf-key-chain:key-chains\":\n{{\"key-chain\":[{{\"name\":\"core\",\n\"{field}\":{value}}}]}}}}"
        )
    };
    let chain = "line 3, column 15, key chain \"core\", description: expected a string, found an ";
    for (text, expected) in [
        (
            objects.clone(),
            "line 1, column 6, a: unknown field `a`, expected one of `ietf-key-chain:key-chains`, `ietf-key-chain:key-chain`, \
             `data`, `ietf-restconf:data`",
        ),
        (within("description", &arrays), &(chain.to_owned() + "array")),
        (within("description", &objects), &(chain.to_owned() + "object")),
    ] {
        assert_eq!(error_of(KeyChains::from_json, text), expected);
    }
    // An array may replace an object, with the members in order.
    for text in [arrays.clone(), "[".repeat(DEPTH)] {
        let error = error_of(KeyChains::from_json, text);
        assert!(error.starts_with("line 1, column ") && error.contains(": expected a"), "{error}");
    }
    // Members that are not read may be nested to any depth.
    let ignored = within("last-modified-timestamp", &arrays);
    assert_eq!(
        error_of(KeyChains::from_json, ignored),
        "line 2, column 15, key chain \"core\", key: there are no keys"
    );

    let too_deep = "arrays or tables are nested too deeply";
    let toml_error = |text| error_of(KeyChains::from_toml, text);
    for (text, column) in [(arrays, 93), ("[".repeat(DEPTH), 93), (nested("{a=", "}"), 253)] {
        assert_eq!(toml_error(format!("key-chain = {text}")), format!("line 1, column {column}: {too_deep}"));
    }
    // The parser does not report where a key has too many dots.
    for text in ["a.".repeat(DEPTH) + "a = 1", format!("[{}a]", "a.".repeat(DEPTH))] {
        assert_eq!(toml_error(text), too_deep);
    }
}

/// A chain of keys, each valid for a minute after the one before, all with the same ids.
fn file_of(keys: usize) -> String {
    let mut text = "[[key-chain]]\nname = \"core\"\n".to_owned();
    let moment = |minute: usize| {
        format!("{}-01-01T{:02}:{:02}:00Z", 2000 + minute / 1440, minute / 60 % 24, minute % 60)
    };
    for number in 0..keys {
        let (from, until) = (moment(number), moment(number + 1));
        write!(
            text,
            "[[key-chain.key]]\nkey-id = {number}\nsend-id = 1\nalgorithm = \"HMAC-SHA-1-96\"\nsecret = \"a secret of its own\"\n\
             send = {{ from = {from}, until = {until} }}\n"
        )
        .unwrap();
    }
    text
}

pub(super) fn time(act: impl FnOnce()) -> Duration {
    let start = Instant::now();
    act();
    start.elapsed()
}

/// Asserts linear growth: eight times the size takes less than 24 times as long, where comparing each part with all others would take 64 times.
/// Tries often, since the machine may be busy.
pub(super) fn assert_linear(name: &str, times: impl Fn() -> [Duration; 2]) {
    let is_linear = |_| {
        let [few, many] = times();
        many < 24 * few
    };
    assert!((0..50).any(is_linear), "{name}: {:?}", times());
}

#[test]
fn ao_37_the_time_to_read_keys_grows_with_their_number() {
    let read = |text: &str| KeyChains::from_toml(text).unwrap().chains()[0].clone();
    let (few, many) = (file_of(1_000 / 4), file_of(8_000 / 4));
    let tests: [(&str, Act<'_>); 3] = [
        ("reading", &|text, _| drop(read(text))),
        ("checking", &|_, chain| drop(KeyChain::new("core", chain.keys().to_vec()).unwrap())),
        ("room", &|_, chain| chain.check_room(1).unwrap()),
    ];
    let chains = [&few, &many].map(|text| read(text));
    for (name, test) in tests {
        let files = [(&few, &chains[0]), (&many, &chains[1])];
        assert_linear(name, || files.map(|(text, chain)| time(|| test(text, chain))));
    }
}

/// A file with this many items.
pub(super) type File = fn(usize) -> String;

const FILES: [(&str, Format, File); 19] = [
    ("BIRD", Format::Bird, |count| {
        written(count, |text, number| {
            write!(
                text,
                "protocol bgp p{number} {{ neighbor 10.{}.{}.1 as 1; authentication ao;\n\
                 keys {{ key {{ id 1; secret \"hunter2\"; algorithm hmac sha256; }} }} }}\n",
                number / 256,
                number % 256
            )
        })
    }),
    ("Junos", Format::Junos, |count| {
        written(count, |text, number| {
            junos_key(text, "core", number, number)?;
            junos_peer(text, "core", number)
        })
    }),
    ("Junos, chains", Format::Junos, |count| {
        written(count, |text, number| {
            let chain = format!("c{number}");
            junos_key(text, &chain, 1, 1)?;
            junos_peer(text, &chain, number)
        })
    }),
    ("Junos, deactivated", Format::Junos, |count| {
        written(1, |text, _| junos_key(text, "core", 1, 1))
            + &written(count, |text, number| {
                junos_peer(text, "core", number)?;
                writeln!(text, "deactivate protocols bgp group g{number} neighbor 10.0.0.1")
            })
    }),
    ("Junos, groups", Format::Junos, |count| {
        written(1, |text, _| junos_key(text, "core", 1, 1))
            + &written(count, |text, number| {
                junos_peer(text, "core", number)?;
                writeln!(
                    text,
                    "set groups c{number} protocols bgp group <*> neighbor <*> authentication-algorithm ao\n\
                     set protocols bgp group g{number} apply-groups c{number}"
                )
            })
    }),
    ("IOS XR", Format::IosXr, |count| {
        written(count, |text, number| ios_xr_key(text, "core", number))
            + "tcp ao\n keychain core\n"
            + &written(count, |text, number| {
                writeln!(text, "  key {number} SendID {0} ReceiveID {0}", number % 256)
            })
    }),
    ("IOS XR, chains", Format::IosXr, |count| {
        written(count, |text, number| ios_xr_key(text, &format!("c{number}"), 1))
            + "tcp ao\n"
            + &written(count, |text, number| {
                writeln!(text, " keychain c{number}\n  key 1 SendID 1 ReceiveID 1")
            })
            + "router bgp 1\n"
            + &written(count, |text, number| {
                let (high, low) = (number / 256, number % 256);
                writeln!(text, " neighbor 10.{high}.{low}.1\n  ao c{number} include-tcp-options enable")
            })
    }),
    ("IOS XE", Format::IosXe, |count| written(count, |text, number| ios_xe_key(text, "core", number))),
    ("IOS XE, chains", Format::IosXe, |count| {
        written(count, |text, number| ios_xe_key(text, &format!("c{number}"), 1))
            + "router bgp 1\n"
            + &written(count, |text, number| {
                let (high, low) = (number / 256, number % 256);
                writeln!(
                    text,
                    " neighbor G{number} ao c{number}\n neighbor 10.{high}.{low}.1 peer-group G{number}"
                )
            })
    }),
    ("EOS", Format::Eos, |count| {
        "management security\n".to_owned()
            + &written(count, |text, number| {
                let id = number % 256;
                writeln!(
                    text,
                    "   session shared-secret profile p{number}\n      secret {id} 0 hunter2 infinite"
                )
            })
            + "router bgp 1\n   neighbor G peer group\n"
            + &written(count, |text, number| {
                let (high, low) = (number / 256, number % 256);
                let neighbor = format!("   neighbor 10.{high}.{low}.1");
                writeln!(
                    text,
                    "{neighbor} password shared-secret profile p{number} algorithm hmac-sha1-96\n{neighbor} peer group G"
                )
            })
    }),
    ("VRP", Format::Vrp, |count| {
        written(count, |text, number| {
            writeln!(
                text,
                "keychain k{number} mode absolute\n key-id 1\n  algorithm hmac-sha1-12\n  key-string plain hunter2\ntcp ao p{number}\n \
                 binding keychain k{number}\n key-id 1\n  send-id 1 receive-id 1"
            )
        }) + "bgp 1\n"
            + &written(count, |text, number| {
                let (high, low) = (number / 256, number % 256);
                writeln!(text, " peer 10.{high}.{low}.1 tcp-ao policy p{number}")
            })
    }),
    ("SR OS", Format::SrOs, |count| {
        let entries = written(count, |text, number| sr_os_entry(text, "core", number));
        entries + &written(count, |text, number| sr_os_neighbor(text, "core", number))
    }),
    ("SR OS, chains", Format::SrOs, |count| {
        written(count, |text, number| {
            let keychain = format!("c{number}");
            sr_os_entry(text, &keychain, 1)?;
            sr_os_neighbor(text, &keychain, number)
        })
    }),
    ("GoBGP, TOML", Format::GoBgp, |count| {
        written(count, |text, number| {
            let (high, low) = (number / 256, number % 256);
            writeln!(
                text,
                "[[keychains]]\nconfig.name = \"c{number}\"\nkeys = [{{ config = {{ {} }} }}]\n[[neighbors]]\n\
                 config.neighbor-address = \"10.{high}.{low}.1\"\ntcp-ao.config = {{ keychain = \"c{number}\", send-id = 1 }}",
                GOBGP_KEY.replace(": ", " = ").replace('\'', "\"")
            )
        })
    }),
    // All on one line.
    ("GoBGP, YAML", Format::GoBgp, |count| {
        let keys = written(count, |text, _| write!(text, "{{config: {{{GOBGP_KEY}}}}}, "));
        format!("keychains: [{{config: {{name: core}}, keys: [{keys}]}}]\n")
    }),
    ("GoBGP, aliases", Format::GoBgp, |count| {
        let keys = written(count, |text, number| match number {
            0 => writeln!(text, "  - &key {{config: {{{GOBGP_KEY}}}}}"),
            _ => writeln!(text, "  - *key"),
        });
        format!("keychains:\n- config: {{name: core}}\n  keys:\n{keys}")
    }),
    ("OpenConfig", Format::OpenConfig, |count| {
        let mut keys = written(count, |text, number| {
            let key = r#""secret-key": "hunter2", "crypto-algorithm": "HMAC_SHA_1""#;
            write!(text, r#"{{"key-id": {}, "config": {{{key}}}}},"#, number % 256)
        });
        keys.pop();
        format!(r#"{{"keychains": {{"keychain": [{{"name": "core", "keys": {{"key": [{keys}]}}}}]}}}}"#)
    }),
    ("XML", Format::Xml, |count| {
        let keys = written(count, |text, number| {
            write!(
                text,
                "<key><key-id>{number}</key-id><crypto-algorithm>hmac-sha-1</crypto-algorithm><key-string><keystring>hunter2</keystring>\
                 </key-string><authentication><ao><send-id>1</send-id><recv-id>1</recv-id></ao></authentication></key>"
            )
        });
        let namespace = "urn:ietf:params:xml:ns:yang:ietf-key-chain";
        format!("<key-chains xmlns='{namespace}'><key-chain><name>core</name>{keys}</key-chain></key-chains>")
    }),
    // Its keys collide.
    ("JSON", Format::Json, |count| {
        let mut keys = written(count, |text, number| {
            write!(
                text,
                r#"{{"key-id": "{number}", "crypto-algorithm": "hmac-sha-1", "key-string": {{"keystring": "hunter2"}},
                "ietf-tcp:authentication": {{"ao": {{"send-id": 1, "recv-id": 1}}}}}},"#
            )
        });
        keys.pop();
        format!(r#"{{"ietf-key-chain:key-chains": {{"key-chain": [{{"name": "core", "key": [{keys}]}}]}}}}"#)
    }),
];

/// A key of GoBGP in YAML.
const GOBGP_KEY: &str =
    "key-id: 1, receive-id: 1, crypto-algorithm: 'hmac_sha_1_96', secret-key: 'Vmg4enFrVDFwMHdZaFUzbQ=='";

/// Writes `count` parts.
fn written(count: usize, write: impl Fn(&mut String, usize) -> fmt::Result) -> String {
    let mut text = String::new();
    for number in 0..count {
        write(&mut text, number).expect("a String takes every write");
    }
    text
}

fn junos_key(text: &mut String, chain: &str, number: usize, minute: usize) -> fmt::Result {
    let key = format!("set security authentication-key-chains key-chain {chain} key {number}");
    let (day, hour, minute) = (minute / 1440, minute / 60 % 24, minute % 60);
    writeln!(
        text,
        "{key} secret hunter2\n{key} algorithm ao\n{key} start-time \"{}-01-01.{hour:02}:{minute:02}:00 +0000\"\n\
         {key} ao-attribute send-id 1\n{key} ao-attribute recv-id 1\n\
         {key} ao-attribute cryptographic-algorithm hmac-sha-1-96",
        2000 + day
    )
}

fn junos_peer(text: &mut String, chain: &str, number: usize) -> fmt::Result {
    let group = format!("set protocols bgp group g{number}");
    let (high, low) = (number / 256, number % 256);
    writeln!(text, "{group} neighbor 10.{high}.{low}.1\n{group} authentication-key-chain {chain}")
}

fn ios_xr_key(text: &mut String, chain: &str, number: usize) -> fmt::Result {
    writeln!(
        text,
        "key chain {chain}\n key {number}\n  key-string clear hunter2\n  cryptographic-algorithm HMAC-SHA1-96"
    )
}

fn ios_xe_key(text: &mut String, chain: &str, number: usize) -> fmt::Result {
    writeln!(
        text,
        "key chain {chain} tcp\n key {number}\n  send-id 1\n  recv-id 1\n  key-string hunter2\n  cryptographic-algorithm hmac-sha-1"
    )
}

/// A send entry and a receive entry; after 64 of them, more about the same.
fn sr_os_entry(text: &mut String, keychain: &str, number: usize) -> fmt::Result {
    let keychain = format!("/configure system security keychains keychain \"{keychain}\"");
    let rest = match number {
        0..64 => "authentication-key hunter2 algorithm hmac-sha-1-96",
        _ => "admin-state enable",
    };
    writeln!(text, "{keychain} tcp-option-number send tcp-ao receive tcp-ao")?;
    for direction in ["send", "receive"] {
        writeln!(text, "{keychain} {direction} entry {} {rest}", number % 64)?;
    }
    Ok(())
}

fn sr_os_neighbor(text: &mut String, keychain: &str, number: usize) -> fmt::Result {
    let (high, low) = (number / 256, number % 256);
    let neighbor = format!("/configure router \"Base\" bgp neighbor \"10.{high}.{low}.1\"");
    writeln!(text, "{neighbor} authentication-keychain \"{keychain}\"")
}

/// The time to read a text that has keys.
fn time_to_read(text: &str, format: Format) -> Duration {
    time(|| {
        let file = read(Path::new("keys"), text, Some(format)).unwrap_or_else(|error| panic!("{error}"));
        assert!(!file.chains.is_empty());
    })
}

#[test]
fn ao_37_the_time_to_read_a_file_grows_with_its_length() {
    for (name, format, file) in FILES {
        let texts = [file(250), file(2_000)];
        assert_linear(name, || texts.each_ref().map(|text| time_to_read(text, format)));
    }
}

const SAMPLES: [(Format, &str); 5] = [
    (Format::GoBgp, include_str!("../data/routers/gobgp.toml")),
    (
        Format::GoBgp,
        "---\nkeychains:\n- config: {name: &n \"core\"}\n  keys:\n  - config:\n      key-id: &i 1\n      receive-id: *i\n      \
         crypto-algorithm: hmac_sha_1_96\n      secret-key: VmQ4enFrVDFwMHdZaFUzbQ==\nneighbors:\n- config: {neighbor-address: \
         '192.0.2.1'}\n  tcp-ao: {config: {keychain: *n, send-id: *i}}\n",
    ),
    (Format::OpenConfig, include_str!("../data/key-chains/openconfig.json")),
    (Format::Json, include_str!("../data/key-chains/rfc9648.json")),
    (Format::Xml, include_str!("../data/key-chains/rfc9648.xml")),
];

proptest! {
    #[test]
    fn a_damaged_file_gives_keys_or_one_line(
        (format, text) in prop::sample::select(SAMPLES.to_vec()),
        position in any::<prop::sample::Index>(),
        cut in any::<bool>(),
        octet in prop::sample::select(b"{}[]\"'=:,-0Z\n<>&;*/!#?\t\x01".to_vec()),
    ) {
        let mut octets = text.as_bytes().to_vec();
        match cut {
            true => octets.truncate(position.index(octets.len())),
            false => *position.get_mut(&mut octets) = octet,
        }
        let text = String::from_utf8(octets).unwrap();
        match read(Path::new("keys"), &text, Some(format)) {
            Ok(file) => {
                let shown = format!("{file:?}");
                prop_assert!(!shown.contains("Vd8zqkT1"), "{}", shown);
                for to in Format::ALL.into_iter().filter(|format| format.is_written()) {
                    let Ok(conversion) = convert(&file, to) else { continue };
                    let again = read(Path::new("keys"), &conversion.text, Some(to));
                    let again = again.map_err(|error| TestCaseError::fail(format!("{to}: {error}\n{}", &*conversion.text)))?;
                    let keys = |file: &KeyFile| file.chains.iter().map(|chain| chain.keys.len()).sum::<usize>();
                    prop_assert!(!conversion.losses.is_empty() || keys(&file) == keys(&again), "{}: {}", to, &shown);
                }
            }
            Err(error) => {
                let error = format!("{error}\n{error:?}");
                prop_assert_eq!(error.lines().count(), 2, "{}", &error);
                for secret in ["VmQ4enFr", "azJMcjlz", "Vd8zqkT1", "k2Lr9sXw", "testvector"] {
                    prop_assert!(!error.contains(secret), "{}", &error);
                }
            }
        }
    }
}
