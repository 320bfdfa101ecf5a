//! Configurations of IOS XR: keys, lifetimes and their clock, and what is said about the rest.

use std::path::Path;

use proptest::prelude::*;
use wireseal_keys::{
    Chain, Clock, Format, Implementation, KeyFile, Notation, Timestamp, Usable, Weight, check, convert, read,
};
use wireseal_tcp_ao::OptionCoverage::{Covered, Excluded};

use super::convert::is_same;
use super::routers::{check as check_errors, error_of, keys, lifetime, load_data, peers};

/// A key chain with ids, and a secret of its own.
pub(super) fn chain(name: &str, inside: &str) -> String {
    let secret = format!("Vd8zqkT1p0wYhU3m{name}");
    let life = "lifetime 00:00:00 january 01 2026 infinite";
    format!(
        "key chain {name}\n timezone gmt\n{inside} key 1\n  accept-{life}\n  key-string clear {secret}\n  send-{life}\n  \
         cryptographic-algorithm HMAC-SHA1-96\n !\n!\ntcp ao\n keychain {name}\n  key 1 SendID 1 ReceiveID 2\n !\n!\n"
    )
}

pub(super) fn file(text: &str) -> KeyFile {
    read(Path::new("router.conf"), text, Some(Format::IosXr))
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Who uses which chain, in the order of the chains.
pub(super) fn users(file: &KeyFile) -> Vec<String> {
    let of_chain = |chain: &Chain| {
        let options = if chain.keys[0].options == Covered { "" } else { " without options" };
        let user = |neighbor: &wireseal_keys::Neighbor| format!("{neighbor}: {}{options}", chain.name);
        chain.neighbors.iter().map(user).collect::<Vec<_>>()
    };
    file.chains.iter().flat_map(of_chain).collect()
}

/// What is said for IOS XR at a time when all keys are valid: its line, kind, key or chain, and sentence.
pub(super) fn said(file: &KeyFile) -> Vec<String> {
    let now = "2026-06-01T14:00:00Z".parse().expect("a moment");
    let of_this = Implementation::reading(Some(Format::IosXr));
    let findings = check(file, now, &[of_this]).into_iter();
    // What other routers would not accept is not of interest here.
    let own = findings.filter(|it| it.weight == Weight::Warning || it.kind != "refused");
    own.map(|it| {
        let line = it.position.map_or(0, |at| at.line);
        let weight = if it.weight == Weight::Note { "note: " } else { "" };
        format!("{line} {weight}{} {}: {}", it.kind, it.subject, it.sentence)
    })
    .collect()
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
fn errors_name_the_place() {
    let key = |inside: &str| {
        format!("key chain c\n key 0\n{inside}\n !\n!\ntcp ao\n keychain c\n  key 0 SendID 1 ReceiveID 2\n")
    };
    let case = |inside: &str, expected: &str| {
        assert_eq!(error_of(Format::IosXr, &key(inside)), format!("router.conf: {expected}"), "{inside}");
    };
    let algorithm = "  cryptographic-algorithm HMAC-SHA1-96\n";
    case("  key-string clear hunter2hunter2", "line 2, column 2, cryptographic-algorithm: is missing");
    case(algorithm, "line 2, column 2, key-string: is missing");
    case("  key-string password hunter2hunter2", "line 3, column 23, key-string: expected a type 7 password");
    // Published configurations have the keyword, and no secret.
    for keyword in ["clear", "password", "password6", "0", "6", "7"] {
        case(&format!("  key-string {keyword} "), "line 3, column 14, key-string: the secret is missing");
    }
    case("  key-string", "line 3, column 3, key-string: is missing");
    case(
        "  key-string a b hunter2hunter2",
        "line 3, column 3, key-string: expected clear, password or password6, and one word",
    );
    case(
        "  key-string hunter2hunter2\n  key-string hunter2hunter2",
        "line 4, column 3, key-string: is given twice",
    );
    case("  cryptographic-algorithm", "line 3, column 3, cryptographic-algorithm: expected an algorithm");
    for lifetime in [
        "",
        "00:00:00",
        "00:00:00 1 2 2026",
        "00:00:00 31 february 2026",
        "0 1 may 2026",
        "00:00 1 may 2026 00:00",
        "00:00 1 may 2026 hunter2hunter2",
    ] {
        case(
            &format!("  send-lifetime {lifetime}"),
            "line 3, column 3, send-lifetime: expected HH:MM:SS DAY MONTH YEAR and then infinite, duration SECONDS or \
             HH:MM:SS DAY MONTH YEAR",
        );
    }
    case(
        "  accept-lifetime 00:00 1 may 2026 00:00 1 may 2026",
        "line 3, column 3, accept-lifetime: must end after it begins",
    );
    let error = error_of(Format::IosXr, &key("  cryptographic-algorithm HMAC-SHA1-12"));
    let expected =
        "router.conf: line 3, column 27, cryptographic-algorithm: this name belongs to other protocols";
    assert!(error.starts_with(expected), "{error}");
    check_errors(
        Format::IosXr,
        &[
            (
                "tcp ao\n keychain c\n  key 0 SendID 1",
                "line 3, column 3, tcp ao: expected key ID SendID ID ReceiveID ID",
            ),
            (
                "tcp ao\n keychain c\n  key 0 SendID 256 ReceiveID 1",
                "line 3, column 16, SendID: must be a whole number from 0 to 255",
            ),
            (
                "tcp ao\n keychain c\n  key x SendID 1 ReceiveID 1",
                "line 3, column 7, key: must be a whole number from 0 to 281474976710655",
            ),
            (
                "tcp ao\n keychain c\n  key 0 SendID 1 ReceiveID 1\n  key 0 SendID 2 ReceiveID 2",
                "line 4, column 3, tcp ao: is given twice",
            ),
            (
                "tcp ao\n keychain c\n  key 0 SendID 1 ReceiveID 1",
                "line 3, column 3, key chain ... key: is missing",
            ),
            (
                "router bgp 1\n neighbor 192.0.2.1\n  ao c include-tcp-options perhaps",
                "line 3, column 28, include-tcp-options: expected enable or disable",
            ),
            (
                "key chain c tcp\n key 1\n",
                "line 1, column 13, key chain: \"key chain NAME tcp\" is IOS XE or NX-OS, which are formats of their own",
            ),
            (
                "key chain c\n accept-tolerance x",
                "line 2, column 19, accept-tolerance: must be a whole number from 0 to 4294967295",
            ),
            (
                "key chain c\n key 0\n  key-string hunter2hunter2",
                "line 2, column 2: has no key for TCP-AO (read as ios-xr); left out: a key without ids in \"tcp ao\"",
            ),
        ],
    );
}

#[test]
fn a_secret_that_only_the_router_can_decrypt_is_a_key() {
    for keyword in ["password6", "6"] {
        let text =
            chain("A", "").replace("clear Vd8zqkT1p0wYhU3mA", &format!("{keyword} 5450615A415E5D414A5B"));
        let file = file(&text);
        assert_eq!(file.chains[0].keys[0].secret.encryption(), Some("type 6"));
        assert_eq!(
            said(&file),
            ["3 note: encrypted A/1: the secret is encrypted (type 6), so it is not checked"]
        );
    }
}

#[test]
fn ids_without_a_key_lose_no_other_key() {
    let lost =
        "tcp ao\n keychain A\n  key 7 SendID 7 ReceiveID 7\n keychain B\n  key 1 SendID 1 ReceiveID 1\n";
    let file = file(&(chain("A", "") + lost));
    assert_eq!(keys(&file.chains[0]), ["A/1: 1/2 HMAC-SHA-1-96 Vd8zqkT1p0wYhU3mA"]);
    assert_eq!(
        said(&file),
        [
            "17 missing : key 7 of chain \"A\", which has ids in `tcp ao`, is not in the file",
            "19 missing : key 1 of chain \"B\", which has ids in `tcp ao`, is not in the file",
        ]
    );
    // Key 001 is key 1.
    let zeros = chain("A", "").replace(" key 1\n", " key 001\n");
    assert_eq!(keys(&self::file(&zeros).chains[0]).len(), 1);
}

#[test]
fn keys_with_algorithms_of_other_protocols_are_left_out_and_named() {
    for (name, reason) in [
        ("HMAC-SHA1-20", "this name belongs to other protocols"),
        ("MD5", "MD5 is broken"),
        ("HMAC-SHA-256", ""),
    ] {
        let other = chain("B", "").replace("HMAC-SHA1-96", name);
        let file = file(&(chain("A", "") + &other));
        assert_eq!(file.chains.len(), 1, "{name}");
        let [said] = &said(&file)[..] else { panic!("one line") };
        assert!(said.starts_with("17 left-out : key B/1 is left out: ") && said.contains(reason), "{said}");
        // Alone it is an error.
        assert!(
            error_of(Format::IosXr, &other)
                .starts_with("router.conf: line 7, column 27, cryptographic-algorithm: ")
        );
    }
    error_of(Format::IosXr, &(chain("A", "") + &chain("B", "").replace("HMAC-SHA1-96", "HMAC-SHA1-69")));
}

#[test]
fn lines_that_are_not_understood_are_named_if_they_concern_tcp_ao() {
    let not_understood = |text: &str| {
        let said = said(&file(text));
        said.into_iter().filter(|line| line.contains("not-understood")).collect::<Vec<_>>()
    };
    let odd = " hunter2 hunter2\n key 1\n  hunter2\n  no key-string\n";
    assert_eq!(
        not_understood(&(chain("A", odd) + "tcp ao\n hunter2\n keychain A\n  hunter2\n")),
        [
            "20 not-understood : this line is not understood, and ignored",
            "22 not-understood : this line is not understood, and ignored",
            "5 not-understood A/1: this line is not understood, and ignored",
            "6 not-understood A/1: this line is not understood, and ignored",
            "3 not-understood A: this line is not understood, and ignored",
        ]
    );
    // Chains for MACsec and IS-IS have lines of their own.
    let other = "key chain M\n macsec\n key 1000\n  key-string password 00 cryptographic-algorithm aes-256-cmac\n  lifetime 00:00:00 may 1 2026 \
                 infinite\n";
    assert_eq!(not_understood(&(chain("A", "") + other)), [""; 0]);
    for stray in [
        "RP/0/RP0/CPU0:r1(config)#no tcp ao",
        "neighbor 192.0.2.1\n ao A",
        "key 1\n key-string clear hunter2",
        "keychain A\n key 1 SendID 1 ReceiveID 1",
        "no key chain B",
        "no tcp ao",
        "ao A",
        "key-string clear hunter2",
        "no router bgp 64501 neighbor 192.0.2.1 ao",
    ] {
        assert_eq!(not_understood(&(chain("A", "") + stray + "\n")).len(), 1, "{stray}");
    }
    // Lines that begin like those are others.
    for other in
        ["no router ospf 1", "no key config-key", "key config-key password-encryption", "hostname tcp-ao"]
    {
        assert_eq!(not_understood(&(chain("A", "") + other + "\n")), [""; 0], "{other}");
    }
    let pcep = "segment-routing\n traffic-eng\n  pcc\n   pce address ipv4 192.0.2.1\n    tcp-ao A include-tcp-options\n";
    let said =
        "note: not-understood : `tcp-ao` of PCEP is not read: its peers are not among those of the chain";
    assert_eq!(not_understood(&(chain("A", "") + pcep)), [format!("19 {said}")]);
    let words: Vec<_> = pcep.split_whitespace().collect();
    assert_eq!(not_understood(&(chain("A", "") + &words.join(" "))), [format!("15 {said}")]);
    let lines: Vec<_> = pcep.lines().map(str::trim).collect();
    let flat: Vec<_> = chain("A", "").lines().map(|line| line.trim().to_owned()).collect();
    assert_eq!(not_understood(&(flat.join("\n") + "\n" + &lines.join("\n"))), [format!("19 {said}")]);
}

/// Cisco, Implementing Keychain Management: a key without a lifetime is not valid.
#[test]
fn a_key_without_lifetimes_is_not_used_by_the_router() {
    let send = "  send-lifetime 00:00:00 january 01 2026 infinite\n";
    let accept = "  accept-lifetime 00:00:00 january 01 2026 infinite\n";
    let unequal = "refused A/1: IOS XR requires equal send-lifetime and accept-lifetime for TCP-AO";
    for (text, expected) in [
        (chain("A", "").replace(send, ""), Some("send-lifetime")),
        (chain("A", "").replace(accept, ""), Some("accept-lifetime")),
        (chain("A", "").replace(accept, "").replace(send, ""), Some("send-lifetime and accept-lifetime")),
        (chain("A", "").replace(send, "  send-lifetime 00:00:00 february 01 2026 infinite\n"), None),
    ] {
        let said = said(&file(&text));
        let lacks = expected.map(|what| format!("refused A/1: IOS XR does not use a key without {what}"));
        let has = |sentence: &str| said.iter().any(|line| line.ends_with(sentence));
        assert!(has(lacks.as_deref().unwrap_or(unequal)), "{said:#?}");
    }
}

#[test]
fn lifetimes_are_read_from_the_chains_clock() {
    const LOCAL: &str = "2026-01-01T12:00:00Z";
    for (zone, clock, expected, is_known) in [
        (" timezone gmt\n", "clock timezone EST America/New_York\n", LOCAL, true),
        (" timezone gmt\n", "clock timezone JST 9\n", LOCAL, true),
        (" timezone local\n", "", LOCAL, false),
        (" timezone local\n", "clock timezone JST 9\n", "2026-01-01T03:00:00Z", true),
        ("", "clock timezone JST 9 0\n", "2026-01-01T03:00:00Z", true),
        ("", "clock timezone JST 9\nclock timezone JST 9\n", "2026-01-01T03:00:00Z", true),
        ("", "clock timezone JST 9\nclock timezone JST 8\n", LOCAL, false),
        ("", "clock timezone NST -3 30\n", "2026-01-01T15:30:00Z", true),
        ("", "clock timezone NST -3 30\nclock summer-time NDT recurring\n", LOCAL, false),
        ("", "clock summer-time NDT recurring\nclock timezone NST -3 30\n", LOCAL, false),
        ("", "clock timezone EST America/New_York\n", LOCAL, false),
        ("", "clock timezone UTC UTC\n", LOCAL, true),
        ("", "clock timezone X 24\n", LOCAL, false),
        ("", "clock timezone X 9 60\n", LOCAL, false),
        ("", "clock timezone JST 9\nclock update-calendar\n", "2026-01-01T03:00:00Z", true),
        ("", "", LOCAL, true),
    ] {
        let text = chain("A", "").replace("00:00:00", "12:00:00").replace(" timezone gmt\n", zone);
        for text in [format!("{clock}{text}"), format!("{text}{clock}")] {
            let file = file(&text);
            let key = &file.chains[0].keys[0];
            assert_eq!([key.send, key.accept], [lifetime(expected, ""); 2], "{text}");
            assert_eq!(key.clock, if is_known { Clock::Utc } else { Clock::Local }, "{text}");
            let assumed =
                said(&file).iter().any(|line| line.contains(" note: assumed : lifetimes are read as UTC"));
            assert_eq!(assumed, zone.is_empty() && clock.is_empty(), "{text}");
        }
    }
    // Within hours of the end nobody knows whether a key in local time is usable.
    let ends = chain("A", "")
        .replace("infinite", "12:00:00 june 01 2026")
        .replace(" timezone gmt", " timezone local");
    let file = file(&ends);
    let now: Timestamp = "2026-06-01T14:00:00Z".parse().expect("a moment");
    assert_eq!(Usable::of(&file.chains[0], &file.chains[0].keys[0], now), Usable::Unknown);
    let [said] = &said(&file)[..] else { panic!("{:#?}", said(&file)) };
    assert!(said.contains("local-time A/1"), "{said}");
}

#[test]
fn tolerances_have_a_limit() {
    let tolerance = |value: &str| file(&chain("A", &format!(" accept-tolerance {value}\n")));
    assert_eq!(tolerance("infinite").chains[0].accept_tolerance, u32::MAX);
    assert_eq!(said(&tolerance("infinite")), [""; 0]);
    assert_eq!(said(&tolerance("8640000")), [""; 0]);
    assert_eq!(
        said(&tolerance("8640001")),
        ["0 refused A: IOS XR has tolerances of at most 8640000 s, or infinite ones"]
    );
    let written = convert(&tolerance("8640001"), Format::IosXr).expect("a configuration");
    assert_eq!(
        written.losses,
        ["chain \"A\": its tolerance of 8640001 s, of which IOS XR has 8640000 s at most"]
    );
    assert_eq!(file(&written.text).chains[0].accept_tolerance, 8_640_000);
}

/// Lines to make configurations of.
const LINES: [&str; 40] = [
    "key chain A",
    "key chain B",
    "key 1",
    "key 2",
    "key-string clear Vd8zqkT1p0wYhU3m",
    "key-string password 011A08105E19091F",
    "cryptographic-algorithm HMAC-SHA1-96",
    "cryptographic-algorithm AES-128-CMAC-96",
    "send-lifetime 00:00:00 january 01 2026 infinite",
    "accept-lifetime 00:00:00 january 01 2026 infinite",
    "timezone local",
    "accept-tolerance 60",
    "tcp ao",
    "keychain A",
    "keychain B",
    "key 1 SendID 1 ReceiveID 2",
    "key 2 SendID 3 ReceiveID 4",
    "router bgp 1",
    "vrf RED",
    "vrf BLUE",
    "neighbor 192.0.2.1",
    "neighbor fe80::1",
    "neighbor-group N",
    "session-group S",
    "use neighbor-group N",
    "use session-group S",
    "ao A include-tcp-options enable",
    "ao B include-tcp-options disable accept-ao-mismatch-connection",
    "ao inheritance-disable",
    "update-source GigabitEthernet0/0/0/0",
    "update-source eth0",
    "address-family ipv4 unicast",
    "no ao",
    "no neighbor 192.0.2.1",
    "clock timezone JST 9",
    "clock summer-time JDT",
    "exit",
    "!",
    "R1(config)#",
    "hunter2",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever lines follow a configuration, and at whatever indentation, it is read or an error, and what was read can be written.
    #[test]
    fn lines_in_any_order_are_read_and_written(
        lines in prop::collection::vec((0..LINES.len(), 0usize..5), 0..12),
        is_flat in any::<bool>(),
        length in any::<prop::sample::Index>(),
    ) {
        let line = |(index, indentation): &(usize, usize)| {
            format!("{}{}\n", " ".repeat(if is_flat { 0 } else { *indentation }), LINES[*index])
        };
        let added: String = lines.iter().map(line).collect();
        let start = chain("A", "") + &chain("B", "") + "router bgp 1\n neighbor 192.0.2.1\n  ao A include-tcp-options enable\n";
        let start = match is_flat {
            true => start.lines().map(|line| format!("{}\n", line.trim_start())).collect(),
            false => start,
        };
        for text in [format!("{start}{added}"), format!("{added}{start}"), start[..length.index(start.len())].to_owned()] {
            let Ok(file) = read(Path::new("keys"), &text, Some(Format::IosXr)) else { continue };
            said(&file);
            for to in Format::ALL.into_iter().filter(|format| format.is_written()) {
                let Ok(conversion) = convert(&file, to) else { continue };
                let again = read(Path::new("written"), &conversion.text, Some(to)).expect("what was written is read");
                if to != Format::IosXr {
                    continue;
                }
                if conversion.losses.is_empty() {
                    prop_assert!(is_same(&again.chains, &file.chains), "{}", &*conversion.text);
                }
                let once_more = convert(&again, to).expect("what was written can be written");
                prop_assert!(is_same(&self::file(&once_more.text).chains, &again.chains), "{}", &*once_more.text);
            }
        }
    }
}
