//! Written keys can be read again, and all losses are named.

use std::path::Path;

use proptest::prelude::*;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{
    Chain, ChainKey, Clock, Format, Implementation, KeyFile, Lifetime, Neighbor, Notation, Preference,
    Problem, Secret, Timestamp, Weight, check, convert, load, read,
};
use wireseal_tcp_ao::{KeyId, OptionCoverage};

/// Whether two files have the same chains.
pub(crate) fn is_same(one: &[Chain], other: &[Chain]) -> bool {
    let rest = |chain: &Chain| {
        // Formats that group neighbors by VRF have them in another order.
        let mut neighbors: Vec<_> = chain.neighbors.iter().map(ToString::to_string).collect();
        neighbors.sort_unstable();
        let of_chain = (chain.name.clone(), chain.description.clone(), chain.accept_tolerance);
        (of_chain, neighbors, chain.keys.len())
    };
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            rest(one) == rest(other)
                && one.keys.iter().zip(&other.keys).all(|(one, other)| one.is_same_key(other))
        })
}

/// What a key must not lose on any way: ids, algorithm, MAC length, coverage and secret.
fn essence(key: &ChainKey) -> (KeyId, KeyId, TcpAoAlgorithm, usize, bool, Vec<u8>) {
    let covers = key.options == OptionCoverage::Covered;
    (key.send_id, key.recv_id, key.algorithm, key.mac_length, covers, key.secret.expose().to_vec())
}

fn read_again(text: &str, format: Format) -> KeyFile {
    read(Path::new("written"), text, Some(format)).unwrap_or_else(|error| panic!("{format}: {error}\n{text}"))
}

/// A neighbor as it is displayed.
fn neighbor(text: &str) -> Neighbor {
    let (place, vrf) =
        text.split_once(" vrf ").map_or((text, None), |(place, vrf)| (place, Some(vrf.to_owned())));
    let (address, interface) =
        place.split_once('%').map_or((place, None), |(address, name)| (address, Some(name.to_owned())));
    let address = address.parse().expect("an address or a prefix");
    let neighbor = Neighbor { vrf, address, interface };
    assert_eq!(neighbor.to_string(), text);
    neighbor
}

fn lifetime() -> impl Strategy<Value = Lifetime> {
    // Seconds of the years 1970 to 2040, often at the limits of the formats.
    let moment = prop_oneof![
        4 => 725_846_401i64..2_050_000_000,
        1 => -100_000_000i64..2_300_000_000,
        1 => prop::sample::select(vec![725_846_399i64, 725_846_400, 31_535_999, 31_536_000, 0]),
    ];
    let moment = moment.prop_map(Timestamp::from_unix_seconds);
    prop_oneof![
        3 => Just(Lifetime::ALWAYS),
        2 => moment.clone().prop_map(Lifetime::starting),
        1 => (prop::option::of(moment.clone()), prop::option::of(moment))
            .prop_map(|(from, until)| Lifetime::new(from, until).unwrap_or_default()),
    ]
}

fn secret() -> impl Strategy<Value = Secret> {
    let octets = prop_oneof![
        3 => "[a-zA-Z0-9]{1,40}".prop_map(String::into_bytes),
        1 => "[ -~]{0,40}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..90),
        1 => prop::sample::select(vec![&b"$9$"[..], b"$8$x", b"clear", b"a\nb", b"\"", b"\\\"", b"#", b"!", b" a", b"{;}"])
            .prop_map(<[u8]>::to_vec),
    ];
    octets.prop_map(|octets| Secret::new(octets.into(), Notation::Text))
}

prop_compose! {
    fn chain_key()(
        (key_id, send_id, recv_id) in (prop_oneof![4 => 0u64..64, 1 => any::<u64>()], any::<u8>(), any::<u8>()),
        algorithm in prop::sample::select(vec![
            TcpAoAlgorithm::HmacSha1,
            TcpAoAlgorithm::Aes128Cmac,
            TcpAoAlgorithm::Aes128Cmac,
            TcpAoAlgorithm::LinuxHmacSha256,
            TcpAoAlgorithm::HmacSha256_128,
        ]),
        mac_length in prop_oneof![6 => Just(12usize), 1 => 0usize..20],
        is_covered in prop::bool::weighted(0.8),
        secret in secret(),
        (send, accept, is_alike) in (lifetime(), lifetime(), prop::bool::weighted(0.7)),
        (is_local, is_encrypted) in (prop::bool::weighted(0.05), prop::bool::weighted(0.05)),
        preference in prop_oneof![
            5 => Just(Preference::Ordinary),
            1 => Just(Preference::Preferred),
            1 => Just(Preference::Deprecated),
        ],
    ) -> ChainKey {
        ChainKey {
            position: None,
            key_id,
            send_id: KeyId(send_id),
            recv_id: KeyId(recv_id),
            algorithm,
            mac_length,
            options: if is_covered { OptionCoverage::Covered } else { OptionCoverage::Excluded },
            secret: if is_encrypted { Secret::new(Vec::new().into(), Notation::Encrypted("type 6")) } else { secret },
            send,
            accept: if is_alike { send } else { accept },
            clock: if is_local { Clock::Local } else { Clock::Utc },
            preference,
        }
    }
}

prop_compose! {
    fn chain()(
        name in prop_oneof![4 => "[a-z][a-z0-9_]{0,7}", 1 => "\\PC{1,8}"],
        description in prop::option::weighted(0.2, "\\PC{0,20}"),
        accept_tolerance in prop_oneof![4 => Just(0u32), 1 => any::<u32>(), 1 => Just(u32::MAX)],
        peers in prop::collection::btree_set(
            prop::sample::select(vec!["192.0.2.1", "192.0.2.2", "2001:db8::1", "198.51.100.0/24", "fe80::1%eth0", "192.0.2.1 vrf red"]), 0..3),
        keys in prop::collection::vec(chain_key(), 1..4),
        ids_are_their_own in any::<bool>(),
    ) -> Chain {
        let neighbors = peers.into_iter().map(neighbor).collect();
        let keys = keys.into_iter().map(|key| match ids_are_their_own {
            true => ChainKey { key_id: key.send_id.0.into(), ..key },
            false => key,
        });
        let keys = keys.collect();
        Chain { name, description, accept_tolerance, neighbors, keys, remarks: Vec::new() }
    }
}

/// The formats that can be written.
fn written() -> impl Iterator<Item = Format> {
    Format::ALL.into_iter().filter(|format| format.is_written())
}

fn format() -> impl Strategy<Value = Format> {
    prop::sample::select(written().collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_is_written_is_read_again(chains in prop::collection::vec(chain(), 1..3), to in format()) {
        let file = KeyFile { chains, ..KeyFile::default() };
        match convert(&file, to) {
            Ok(conversion) => {
                let again = read_again(&conversion.text, to);
                if conversion.losses.is_empty() {
                    prop_assert!(is_same(&again.chains, &file.chains), "{to}:\n{}\n{again:?}", &*conversion.text);
                }
                // Each key comes out with the ids, algorithm, coverage and secret of one that went in.
                let before: Vec<_> = file.chains.iter().flat_map(|chain| &chain.keys).map(essence).collect();
                prop_assert!(again.chains.iter().flat_map(|chain| &chain.keys).all(|key| before.contains(&essence(key))));
                // Writing the result again loses nothing more.
                let once_more = convert(&again, to).expect("what was written can be written");
                prop_assert!(is_same(&read_again(&once_more.text, to).chains, &again.chains), "{to}:\n{}", &*once_more.text);
            }
            Err(error) => match error.problem() {
                Problem::NothingLeft { losses, .. } => prop_assert!(!losses.is_empty()),
                _ => prop_assert!(matches!(to, Format::Toml | Format::Json | Format::Xml), "{error}"),
            },
        }
    }

    #[test]
    fn through_two_formats_a_key_stays_itself_or_is_lost_with_a_line(
        chains in prop::collection::vec(chain(), 1..3),
        first in format(),
        second in format(),
    ) {
        let file = KeyFile { chains, ..KeyFile::default() };
        let Ok(there) = convert(&file, first) else { return Ok(()) };
        let between = read_again(&there.text, first);
        let Ok(onward) = convert(&between, second) else { return Ok(()) };
        let arrived = read_again(&onward.text, second);
        if there.losses.is_empty() && onward.losses.is_empty() {
            prop_assert!(is_same(&arrived.chains, &file.chains), "{first}, {second}:\n{}\n{}", &*there.text, &*onward.text);
        }
        let essences = |file: &KeyFile| file.chains.iter().flat_map(|chain| &chain.keys).map(essence).collect::<Vec<_>>();
        let (before, after) = (essences(&file), essences(&arrived));
        prop_assert!(after.iter().all(|key| before.contains(key)), "{first}, {second}");
    }

    #[test]
    fn no_secret_is_in_what_was_lost_or_found(chains in prop::collection::vec(chain(), 1..3), to in format()) {
        const SECRET: &[u8] = b"hunter2 hunter2";
        let mut file = KeyFile { chains, ..KeyFile::default() };
        for key in file.chains.iter_mut().flat_map(|chain| &mut chain.keys) {
            key.secret = Secret::new(SECRET.to_vec().into(), Notation::Text);
        }
        let findings = check(&file, Timestamp::from_unix_seconds(1_800_000_000), &Implementation::all().collect::<Vec<_>>());
        let converted = convert(&file, to);
        let shown = format!("{file:?} {findings:?} {converted:?} {:?}", file.keys());
        prop_assert!(!shown.contains("hunter2") && !shown.contains("104, 117, 110, 116"), "{shown}");
        if let Err(error) = converted {
            prop_assert!(!error.to_string().contains("hunter2"));
        }
    }
}

#[test]
fn every_file_is_written_in_every_format() {
    for name in [
        "bird.conf",
        "junos.conf",
        "junos-set.conf",
        "ios-xr.cfg",
        "ios-xr-formal.cfg",
        "ios-xe.cfg",
        "nx-os.cfg",
        "eos.cfg",
        "vrp.cfg",
        "sr-os.cfg",
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/routers").join(name);
        let file = load(&path, None).unwrap_or_else(|error| panic!("{error}"));
        for to in written() {
            let conversion = match convert(&file, to) {
                Ok(conversion) => conversion,
                // EOS, for instance, has no key with two ids.
                Err(error) if Some(to) != file.format => {
                    assert!(
                        matches!(error.problem(), Problem::NothingLeft { losses, .. } if !losses.is_empty()),
                        "{name} to {to}"
                    );
                    continue;
                }
                Err(error) => panic!("{name} to {to}: {error}"),
            };
            let again = read_again(&conversion.text, to);
            if Some(to) == file.format {
                // In Cisco's guide, whose key this is, the two lifetimes differ, which IOS XR refuses.
                let is_refused =
                    |loss: &&String| loss.starts_with("key tcpao1/1: its send and accept lifetimes differ");
                assert!(
                    conversion.losses.iter().all(|loss| is_refused(&loss)),
                    "{name} to {to}: {:?}",
                    conversion.losses
                );
                assert!(
                    !conversion.losses.is_empty() || is_same(&again.chains, &file.chains),
                    "{name} to {to}"
                );
            }
        }
    }
}

#[test]
fn every_loss_has_a_line() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/routers/junos.conf");
    let file = load(&path, None).expect("Junos's configuration");
    let shown = convert(&file, Format::Bird).expect("a conversion");
    assert_eq!(format!("{shown:?}"), format!("Conversion {{ losses: {:?}, .. }}", shown.losses));
    let losses = |to| convert(&file, to).expect("a conversion").losses;
    assert_eq!(
        losses(Format::Bird),
        [
            "key new_auth_key/0 is left out: BIRD always covers the TCP options",
            "key XR-interop/0: its lifetimes, which BIRD does not have",
            "chain \"XR-interop\": its tolerance, which BIRD does not have",
            "chain \"XR-interop\" is written once for each of its peers",
            "chain \"XR-interop\" is named XR-interop_2",
            "key new_auth_key/1: its number, because BIRD identifies keys by their ids",
            "key new_auth_key/1: its lifetimes, which BIRD does not have",
            "chain \"new_auth_key\": its tolerance, which BIRD does not have",
            "chain \"new_auth_key\" is written once for each of its peers",
            "chain \"new_auth_key\" is named new_auth_key_2",
        ]
    );
    assert_eq!(
        losses(Format::IosXr),
        [
            "key new_auth_key/1 is left out: IOS XR covers TCP options for all keys of a neighbor or for none",
            "key new_auth_key/0: its send and accept lifetimes differ, which IOS XR refuses; both are the time that they share, and the \
             chain's accept-tolerance is what is accepted around it",
            "chain \"new_auth_key\": its description, which IOS XR does not have",
        ]
    );
    assert_eq!(
        losses(Format::Toml),
        [
            "chain \"XR-interop\": its peers, which key chains of RFC 8177 do not have",
            "chain \"new_auth_key\": its peers, which key chains of RFC 8177 do not have",
        ]
    );
}

#[test]
fn ios_xr_covers_no_options_that_were_excluded() {
    let key = |name: &str, id: u8| {
        format!(
            "[[key-chain]]\nname = \"{name}\"\n[[key-chain.key]]\nsend-id = {id}\nalgorithm = \"hmac(sha1)\"\noptions = \
             \"excluded\"\nsecret = \"Vd8zqkT1p0wYhU3m\"\n"
        )
    };
    let mut file = read(Path::new("keys.toml"), &(key("a", 1) + &key("b", 2)), None).expect("TOML");
    let alone = "is left out: IOS XR excludes TCP options at the neighbor, and its chain has no neighbor";
    let error = convert(&file, Format::IosXr).expect_err("no neighbor");
    let losses = ["a/1", "b/2"].map(|name| format!("key {name} {alone}")).to_vec();
    assert_eq!(*error.problem(), Problem::NothingLeft { to: "ios-xr", losses });
    // A neighbor has one chain, so the second chain has no neighbor.
    for chain in &mut file.chains {
        chain.neighbors = vec![neighbor("192.0.2.1"); 2];
    }
    let conversion = convert(&file, Format::IosXr).expect("a conversion");
    assert_eq!(
        conversion.losses,
        ["chain \"b\": 192.0.2.1, which uses another chain".to_owned(), format!("key b/2 {alone}")]
    );
    file.chains[0].neighbors.truncate(1);
    assert!(is_same(&read_again(&conversion.text, Format::IosXr).chains, &file.chains[..1]));
    // There, the same chain with options and without a neighbor is a different one.
    file.chains[1] = Chain { neighbors: Vec::new(), ..file.chains[0].clone() };
    file.chains[1].keys[0].options = OptionCoverage::Covered;
    let conversion = convert(&file, Format::IosXr).expect("a conversion");
    assert_eq!(conversion.losses, ["chain \"a\" is named a_2"]);
    let again = read_again(&conversion.text, Format::IosXr).chains;
    let options: Vec<_> = again.iter().map(|chain| (chain.name.as_str(), chain.keys[0].options)).collect();
    assert_eq!(options, [("a", OptionCoverage::Excluded), ("a_2", OptionCoverage::Covered)]);
}

#[test]
fn bird_requires_authentication_with_keys() {
    let refused = |before: &str, header: &str, statement: &str| {
        let text = format!(
            "{before}{header} {{ {statement} keys {{ key {{ id 1; secret \"Vd8zqkT1p0wYhU3m\"; }}; }}; }}"
        );
        let file = read(Path::new("bird.conf"), &text, Some(Format::Bird)).expect("BIRD's configuration");
        let findings =
            check(&file, Timestamp::from_unix_seconds(0), &[Implementation::reading(Some(Format::Bird))])
                .into_iter();
        let warnings = findings.filter(|it| it.weight == Weight::Warning);
        warnings.map(|it| (it.kind, it.subject, it.sentence)).collect::<Vec<_>>()
    };
    let sentence = "BIRD refuses keys in a protocol without \"authentication ao;\"".to_owned();
    assert_eq!(refused("", "protocol bgp a", ""), [("refused", "a".to_owned(), sentence)]);
    assert_eq!(refused("", "protocol bgp a", "authentication ao;"), []);
    assert_eq!(refused("template bgp t { authentication ao; }\n", "protocol bgp a from t", ""), []);
    let bare = "keys { key { id 1; secret \"Vd8zqkT1p0wYhU3m\"; }; }";
    let file = read(Path::new("bird.conf"), bare, Some(Format::Bird)).expect("a block of keys");
    assert!(file.chains[0].remarks.is_empty());
}

#[test]
fn routers_accept_obscured_secrets() {
    let text = "[[key-chain]]\nname = \"c\"\n[[key-chain.key]]\nsend-id = 1\nalgorithm = \"hmac(sha1)\"\nsecret-hex = \
                \"20c1a2b3e4f506172839aabbccddeeff\"\n";
    let file = read(Path::new("keys.toml"), text, None).expect("TOML");
    for (to, implementation) in [
        (Format::Junos, Implementation::reading(Some(Format::Junos))),
        (Format::IosXr, Implementation::reading(Some(Format::IosXr))),
    ] {
        for file in [&file, &read_again(&convert(&file, to).expect("a conversion").text, to)] {
            let findings = check(file, Timestamp::from_unix_seconds(1_800_000_000), &[implementation]);
            assert!(
                findings.iter().all(|it| it.kind != "refused" || it.weight == Weight::Note),
                "{to}: {findings:?}"
            );
        }
    }
}

#[test]
fn secrets_with_question_marks_are_obscured_for_ios_xr() {
    let text = "keys { key { id 1; secret \"what?why?where?\"; }; }";
    let file = read(Path::new("bird.conf"), text, Some(Format::Bird)).expect("BIRD's configuration");
    let written = convert(&file, Format::IosXr).expect("a conversion").text;
    assert!(written.contains("key-string password ") && !written.contains('?'));
    let again = read_again(&written, Format::IosXr);
    assert_eq!(again.chains[0].keys[0].secret.expose(), b"what?why?where?");
}

#[test]
fn keys_that_collide_are_not_written_as_key_chains() {
    let text = "keys { key { id 1; secret \"a\"; }; key { send id 1; recv id 2; secret \"b\"; }; }";
    let file = read(Path::new("bird.conf"), text, Some(Format::Bird)).expect("BIRD's configuration");
    let error = convert(&file, Format::Toml).expect_err("ids in common").to_string();
    assert_eq!(error, "key chain \"keys\", key 1, key-id: another key of the chain has this key id");
}

#[test]
fn warnings_name_their_kind() {
    let now: Timestamp = "2026-06-01T00:00:00Z".parse().expect("a moment");
    let kinds = |inside: &str| {
        let text = format!("[[key-chain]]\nname = \"c\"\n{inside}");
        let file =
            read(Path::new("keys.toml"), &text, None).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let findings = check(&file, now, &[Implementation::reading(None)]);
        let warnings = findings.into_iter().filter(|finding| finding.weight == Weight::Warning);
        warnings.map(|finding| format!("{} {}", finding.kind, finding.subject)).collect::<Vec<_>>()
    };
    let key = |id: u8, rest: &str| {
        format!("[[key-chain.key]]\nsend-id = {id}\nalgorithm = \"hmac(sha1)\"\n{rest}\n")
    };
    let good = "secret = \"Vd8zqkT1p0wYhU3m\"";
    assert_eq!(kinds(&key(1, good)), [""; 0]);
    for (secret, kind) in [
        ("secret = \"Vd8zqkT1p0w\"", "weak-secret"),
        ("secret = \"azazazazazazazaz\"", "weak-secret"),
        ("secret = \" Vd8zqkT1p0wYhU3\"", "white-space"),
        ("secret = \"Vd8zqkT1p0wYhU3\\t\"", "white-space"),
        ("secret = \"Vd8zqkT1p0wYhU3\\n\"", "line-end"),
        ("secret = \"'d8zqkT1p0wYhU3m'\"", "quotes"),
        ("secret = \"0123456789abcdef\"", "hex-as-text"),
        ("secret = \"0xd8f0c1a2b3e4\"", "hex-as-text"),
        ("secret = \"$9$FNkC3/t1IcevLuOWx\"", "scrambled"),
    ] {
        assert_eq!(kinds(&key(1, secret)), [format!("{kind} c/1")], "{secret}");
    }
    assert_eq!(kinds(&key(1, "secret-hex = \"00112233445566778899aabbccddeeff\"")), [""; 0]);
    assert_eq!(kinds(&(key(1, good) + &key(2, good))), ["same-secret c/2"]);
    let other = "secret = \"k2Lr9sXw4Qe7Zb1N\"";
    let collision = key(1, good) + &key(1, &format!("{other}\nkey-id = 7\nrecv-id = 2"));
    assert_eq!(kinds(&collision), ["ids-collide c/7"]);
    let twice = key(1, good) + &key(2, &format!("{other}\nkey-id = 1"));
    assert_eq!(kinds(&twice), ["key-id-twice c/1"]);
    for (lifetimes, expected) in [
        ("send = { until = 2026-05-01T00:00:00Z }", vec!["expired c/1", "gap c"]),
        ("send = { from = 2026-07-01T00:00:00Z }", vec!["not-yet c/1", "gap c"]),
        ("send = { from = 2026-01-01T00:00:00Z, until = 2026-07-01T00:00:00Z }", vec!["gap c"]),
        ("send = { until = 2026-05-01T00:00:00Z }\naccept = {}", vec!["send-lifetime-over c/1", "gap c"]),
        ("send = { from = 2026-07-01T00:00:00Z }\naccept = {}", vec!["not-yet c/1", "gap c"]),
    ] {
        assert_eq!(kinds(&key(1, &format!("{good}\n{lifetimes}"))), expected, "{lifetimes}");
    }
    let rolled = key(1, &format!("{good}\nsend = {{ until = 2026-07-01T00:00:00Z }}"))
        + &key(2, &format!("{other}\nsend = {{ from = 2026-06-30T00:00:00Z }}\naccept = {{}}"));
    assert_eq!(kinds(&rolled), ["not-yet c/2"]);
    assert_eq!(kinds(&key(1, &format!("{good}\nmac-length = 16"))), [""; 0]);
}

#[test]
fn keys_that_an_implementation_refuses_are_found() {
    let text = "[[key-chain]]\nname = \"c\"\n[[key-chain.key]]\nsend-id = 100\nalgorithm = \"hmac(sha256)\"\nmac-length = \
                16\noptions = \"excluded\"\nsecret = \"Vd8zqk T1p0wYhU3m\"\n";
    let file = read(Path::new("keys.toml"), text, None).expect("TOML");
    let now = Timestamp::from_unix_seconds(0);
    let refused = |implementation| {
        let findings = check(&file, now, &[implementation]).into_iter();
        findings.filter(|it| it.weight == Weight::Warning).map(|it| it.sentence).collect::<Vec<_>>()
    };
    assert_eq!(refused(Implementation::reading(None)), [""; 0]);
    assert_eq!(
        refused(Implementation::reading(Some(Format::Bird))),
        ["BIRD supports MACs of 12 octets, not 16", "BIRD always covers the TCP options"]
    );
    let of_routers = |name: &str, obscured: &str| {
        vec![
            format!("{name} does not support hmac(sha256)"),
            format!("{name} supports MACs of 12 octets, not 16"),
            format!(
                "{name} accepts this secret only as {obscured}: plain ones are printable ASCII characters without blanks"
            ),
        ]
    };
    assert_eq!(refused(Implementation::reading(Some(Format::IosXr))), of_routers("IOS XR", "type 7"));
    let mut of_junos = of_routers("Junos", "$9$");
    of_junos.insert(2, "Junos numbers the keys of a chain from 0 to 63".to_owned());
    assert_eq!(refused(Implementation::reading(Some(Format::Junos))), of_junos);
}

/// BIRD tells neighbors on two links apart, the others only their addresses.
#[test]
fn neighbors_on_an_interface_are_not_written_as_others() {
    let protocol = |name: &str, interface: &str, secret: &str| {
        format!(
            "protocol bgp {name} {{ neighbor fe80::1%{interface} as 1; authentication ao; keys {{ key {{ id 1; secret \"{secret}\"; \
             algorithm hmac sha1; }}; }}; }}\n"
        )
    };
    let text = protocol("one", "eth0", "first") + &protocol("other", "'eth1'", "second");
    let file = read_again(&text, Format::Bird);
    for (format, neighbor) in [(Format::IosXr, " neighbor fe80::1\n"), (Format::Junos, "neighbor fe80::1;")] {
        let conversion = convert(&file, format).expect("both keys can be written");
        let losses = conversion.losses.join("; ");
        assert!(losses.contains("the interface eth0 of fe80::1"), "{format}: {losses}");
        assert_eq!(losses.contains("the interface eth1 of fe80::1"), format == Format::Junos, "{losses}");
        let written = conversion.text.matches(neighbor).count();
        assert!(
            format == Format::Junos || written == 1 && losses.contains("which uses another chain"),
            "{losses}"
        );
        assert!(written > 0, "{}", *conversion.text);
    }
}
