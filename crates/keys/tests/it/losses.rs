//! What each format cannot express: the sentence for it, at the limits of what it can.

use std::path::Path;

use wireseal_keys::{
    Chain, ChainKey, Format, KeyFile, Lifetime, Neighbor, Notation, Preference, Secret, Timestamp, convert,
    read,
};
use wireseal_tcp_ao::{KeyId, OptionCoverage};

/// A chain `core` with one key 1, which is always valid.
pub(crate) fn file() -> KeyFile {
    let text = "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 1\nrecv-id = 1\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \
                \"secret-of-the-tests\"\n";
    read(Path::new("keys"), text, Some(Format::Toml)).unwrap()
}

/// What is lost of a chain after this change, sorted by what comes; or why nothing is left.
fn losses(format: Format, edit: impl Fn(&mut Chain)) -> Vec<String> {
    let mut file = file();
    edit(&mut file.chains[0]);
    of_file(&file, format)
}

fn of_file(file: &KeyFile, format: Format) -> Vec<String> {
    match convert(file, format) {
        Err(error) => vec![error.to_string()],
        Ok(conversion) => {
            // What is written can be read.
            read(Path::new("again"), &conversion.text, Some(format))
                .unwrap_or_else(|error| panic!("{error}\n{}", *conversion.text));
            conversion.losses
        }
    }
}

fn second(chain: &mut Chain, edit: impl Fn(&mut ChainKey)) {
    let ids = KeyId(2);
    let mut key = ChainKey { key_id: 2, send_id: ids, recv_id: ids, ..chain.keys[0].clone() };
    key.secret = Secret::new(b"another-secret-of-them".to_vec().into(), Notation::Text);
    edit(&mut key);
    chain.keys.push(key);
}

fn life(from: &str, until: &str) -> Lifetime {
    let moment = |text: &str| (!text.is_empty()).then(|| text.parse::<Timestamp>().unwrap());
    Lifetime::new(moment(from), moment(until)).unwrap()
}

fn both(key: &mut ChainKey, lifetime: Lifetime) {
    (key.send, key.accept) = (lifetime, lifetime);
}

fn neighbor(address: &str, vrf: Option<&str>, interface: Option<&str>) -> Neighbor {
    Neighbor {
        vrf: vrf.map(str::to_owned),
        address: address.parse().unwrap(),
        interface: interface.map(str::to_owned),
    }
}

#[test]
fn losses_of_eos() {
    let of = |edit: &dyn Fn(&mut Chain)| losses(Format::Eos, edit);
    assert_eq!(of(&|_| {}), [""; 0]);
    let left_out = |why: &str| vec![format!("key core/2 is left out: {why}")];
    assert_eq!(
        of(&|chain| second(chain, |key| both(key, life("", "1970-01-01T00:00:00Z")))),
        left_out("it expired before 1970")
    );
    assert_eq!(of(&|chain| second(chain, |key| both(key, life("", "1970-01-01T00:00:01Z")))), [""; 0]);
    assert_eq!(
        of(&|chain| second(chain, |key| (key.send_id, key.recv_id) = (KeyId(1), KeyId(1)))),
        left_out("EOS has one key with id 1")
    );
    let start = ["key core/1: a start before 1970"];
    assert_eq!(of(&|chain| both(&mut chain.keys[0], life("1970-01-01T00:00:00Z", ""))), start);
    assert_eq!(of(&|chain| both(&mut chain.keys[0], life("1970-01-01T00:00:01Z", ""))), [""; 0]);
    // Two chains may not have one neighbor.
    let mut two = file();
    two.chains[0].neighbors = vec![neighbor("192.0.2.1", None, None)];
    two.chains.push(Chain { name: "edge".into(), ..two.chains[0].clone() });
    assert_eq!(of_file(&two, Format::Eos), ["chain \"edge\": 192.0.2.1, which uses another chain"]);
    two.chains[1].neighbors = vec![neighbor("192.0.2.1", Some("red"), None)];
    assert_eq!(of_file(&two, Format::Eos), [""; 0]);
}

#[test]
fn losses_of_vrp() {
    let of = |edit: &dyn Fn(&mut Chain)| losses(Format::Vrp, edit);
    assert_eq!(of(&|chain| chain.keys[0].send = life("2026-01-01T00:00:00Z", "")), [""; 0]);
    let left_out = |why: &str| vec![format!("key core/2 is left out: {why}")];
    let starts = |from: &'static str| move |chain: &mut Chain| second(chain, |key| both(key, life(from, "")));
    assert_eq!(of(&starts("2051-01-01T00:00:00Z")), left_out("it starts after 2050, where times of VRP end"));
    assert_eq!(
        of(&|chain| second(chain, |key| both(key, life("", "1970-01-01T00:00:00Z")))),
        left_out("it expired before 1970")
    );
    // 64 keys have room, whatever their numbers.
    let with = |count: u8| {
        losses(Format::Vrp, |chain| {
            let first = chain.keys[0].clone();
            chain.keys = (0..count)
                .map(|id| {
                    let ids = KeyId(id);
                    let from = Timestamp::from_unix_seconds(1_800_000_000 + 86_400 * i64::from(id));
                    let until = Some(from.later_by(86_400));
                    let lifetime = Lifetime::new(Some(from), until).unwrap();
                    ChainKey {
                        key_id: id.into(),
                        send_id: ids,
                        recv_id: ids,
                        send: lifetime,
                        accept: lifetime,
                        ..first.clone()
                    }
                })
                .collect();
        })
    };
    assert_eq!(with(64), [""; 0]);
    assert_eq!(with(65), ["key core/64 is left out: VRP has at most 64 keys in a keychain"]);
    // Names differ in more than upper and lower case.
    let mut two = file();
    two.chains[0].neighbors = vec![neighbor("192.0.2.1", None, None)];
    two.chains.push(Chain { name: "CORE".into(), ..two.chains[0].clone() });
    assert_eq!(
        of_file(&two, Format::Vrp),
        ["chain \"CORE\" is named CORE_", "chain \"CORE\": 192.0.2.1, which uses another chain"]
    );
    assert_eq!(of(&|chain| chain.accept_tolerance = u32::MAX), [""; 0]);
}

#[test]
fn losses_of_junos() {
    let of = |edit: &dyn Fn(&mut Chain)| {
        losses(Format::Junos, |chain| {
            both(&mut chain.keys[0], life("2026-01-01T00:00:00Z", ""));
            edit(chain);
        })
    };
    assert_eq!(of(&|_| {}), [""; 0]);
    assert_eq!(of(&|chain| chain.accept_tolerance = 999_999_999), [""; 0]);
    assert_eq!(
        of(&|chain| chain.accept_tolerance = 1_000_000_000),
        ["chain \"core\": its tolerance above 999999999 seconds"]
    );
    assert_eq!(
        of(&|chain| both(&mut chain.keys[0], life("1970-12-31T23:59:59Z", ""))),
        ["key core/1: a start before 1971"]
    );
    assert_eq!(of(&|chain| both(&mut chain.keys[0], life("1971-01-01T00:00:00Z", ""))), [""; 0]);
    let twice = ["eth0", "eth1"].map(|interface| neighbor("fe80::1", None, Some(interface)));
    let lost = of(&|chain| chain.neighbors = twice.to_vec());
    let vrf = of(&|chain| chain.neighbors = vec![neighbor("192.0.2.1", Some("two words"), None)]);
    assert_eq!(vrf, ["chain \"core\": the VRF \"two words\" is named two_words"]);
    let interface = "chain \"core\": the interface eth0 of fe80::1";
    assert_eq!(lost, ["chain \"core\": fe80::1%eth1, whose address a group of Junos has once", interface]);
}

#[test]
fn losses_of_sr_os() {
    let of = |edit: &dyn Fn(&mut Chain)| {
        losses(Format::SrOs, |chain| {
            both(&mut chain.keys[0], life("2026-01-01T00:00:00Z", ""));
            edit(chain);
        })
    };
    assert_eq!(of(&|_| {}), [""; 0]);
    assert_eq!(
        of(&|chain| chain.description = Some(String::new())),
        ["chain \"core\": its description, which is empty"]
    );
    assert_eq!(of(&|chain| chain.description = Some("ours".into())), [""; 0]);
    assert_eq!(of(&|chain| chain.accept_tolerance = u32::MAX), [""; 0]);
    assert_eq!(of(&|chain| chain.accept_tolerance = 2_147_483_647), [""; 0]);
    assert_eq!(
        of(&|chain| chain.accept_tolerance = 2_147_483_648),
        ["chain \"core\": its tolerance above 2147483647 seconds"]
    );
    let before = of(&|chain| both(&mut chain.keys[0], life("1999-12-31T00:00:00Z", "")));
    assert_eq!(before, ["key core/1: a start before 2000, and SR OS is younger"]);
}

#[test]
fn losses_of_cisco() {
    let of = |format, edit: &dyn Fn(&mut Chain)| losses(format, edit);
    for (format, title) in [(Format::IosXr, "IOS XR"), (Format::IosXe, "IOS XE")] {
        let edge = |chain: &mut Chain| chain.neighbors = vec![neighbor("192.0.2.1", None, None)];
        assert_eq!(of(format, &edge), [""; 0], "{title}");
        let over = of(format, &|chain| second(chain, |key| both(key, life("", "1993-01-01T00:00:00Z"))));
        assert_eq!(
            over,
            [format!("key core/2 is left out: it expired before 1993, where lifetimes of {title} begin")]
        );
        let outside =
            vec![format!("key core/1: {title} has no times before 1993-01-01T00:00:01Z or after 2035")];
        for (lifetime, is_said) in [
            (life("1993-01-01T00:00:00Z", ""), true),
            (life("1993-01-01T00:00:01Z", ""), false),
            (life("", "2035-12-31T23:59:59Z"), false),
            (life("", "2036-01-01T00:00:00Z"), true),
        ] {
            let said = of(format, &|chain| both(&mut chain.keys[0], lifetime));
            assert_eq!(said, if is_said { outside.clone() } else { vec![] }, "{lifetime:?}");
        }
        let mixed = of(format, &|chain| {
            edge(chain);
            second(chain, |key| key.options = OptionCoverage::Excluded);
        });
        assert_eq!(
            mixed,
            [format!(
                "key core/2 is left out: {title} covers TCP options for all keys of a neighbor or for none"
            )]
        );
    }
    assert_eq!(of(Format::IosXr, &|chain| chain.accept_tolerance = u32::MAX), [""; 0]);
    let apart = of(Format::IosXr, &|chain| {
        second(chain, |key| {
            (key.send, key.accept) = (life("", "2026-01-01T00:00:00Z"), life("2026-01-01T00:00:00Z", ""));
        });
    });
    assert_eq!(apart, ["key core/2 is left out: its send and accept lifetimes never overlap"]);
    let vrf =
        of(Format::IosXr, &|chain| chain.neighbors = vec![neighbor("192.0.2.1", Some("two words"), None)]);
    assert_eq!(vrf, ["chain \"core\": 192.0.2.1, because \"two words\" cannot be the name of a VRF"]);
}

#[test]
fn losses_of_gobgp() {
    let of = |edit: &dyn Fn(&mut Chain)| losses(Format::GoBgp, edit);
    assert_eq!(of(&|_| {}), [""; 0]);
    let left_out = ["key core/2 is left out: GoBGP refuses a second key with its SendID or RecvID"];
    for (send, recv) in [(1, 2), (2, 1)] {
        let same =
            |chain: &mut Chain| second(chain, |key| (key.send_id, key.recv_id) = (KeyId(send), KeyId(recv)));
        assert_eq!(of(&same), left_out);
    }
    let range = of(&|chain| {
        chain.keys[0].preference = Preference::Preferred;
        chain.neighbors = vec![neighbor("198.51.100.0/24", Some("red"), Some("eth0"))];
    });
    assert_eq!(range, ["chain \"core\": red of 198.51.100.0/24", "chain \"core\": eth0 of 198.51.100.0/24"]);
}

#[test]
fn losses_of_data_formats() {
    let described = |text: &'static str| move |chain: &mut Chain| chain.description = Some(text.into());
    assert_eq!(losses(Format::Xml, described("plain\tand\u{10000}")), [""; 0]);
    for text in ["a\u{1}", "a\u{fffe}", "a\u{ffff}"] {
        let lost = losses(Format::Xml, described(text));
        assert_eq!(lost, ["chain \"core\": its description, which has characters that XML does not have"]);
    }
    // Two keys with one id cannot be read again.
    for format in [Format::Toml, Format::Json, Format::Xml] {
        let twice =
            losses(format, |chain| second(chain, |key| (key.send_id, key.recv_id) = (KeyId(1), KeyId(9))));
        assert!(
            matches!(&twice[..], [one] if one.contains("key chain \"core\", key 2, send-id: ")),
            "{twice:?}"
        );
    }
    let nothing = losses(Format::Toml, |chain| chain.keys.clear());
    assert!(nothing[0].starts_with("no key can be written as toml"), "{nothing:?}");
}

/// Router's names for the months in both directions.
#[test]
fn every_month_is_written_and_read() {
    for month in 1..=12 {
        let lifetime = life(&format!("2026-{month:02}-03T04:05:06Z"), "");
        for format in [Format::IosXr, Format::IosXe] {
            let mut file = file();
            both(&mut file.chains[0].keys[0], lifetime);
            let text = convert(&file, format).unwrap().text;
            let again = read(Path::new("again"), &text, Some(format)).unwrap();
            assert_eq!(again.chains[0].keys[0].send, lifetime, "{}", *text);
        }
    }
}
