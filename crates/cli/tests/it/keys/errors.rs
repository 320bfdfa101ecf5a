//! Errors in a router's configuration are reported with their place, in one line, and never with a secret.

use std::path::Path;

use proptest::prelude::*;
use wireseal::keys::{Format, load, read};

const SECRET: &str = "hunter2hunter2";

fn error_of(format: Format, text: &str) -> String {
    let error = read(Path::new("router.conf"), text, Some(format)).expect_err(text);
    for shown in [error.to_string(), format!("{error:?}")] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
    let shown = error.to_string();
    assert!(!shown.contains('\n'), "{shown}");
    shown
}

fn check(format: Format, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(error_of(format, text), format!("router.conf: {expected}"), "{text}");
    }
}

#[test]
fn bird() {
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
            ("keys { key { id 256; }; }", "line 1, column 17, id: must be a number from 0 to 255"),
            (
                "keys { key { recv id hunter2hunter2; }; }",
                "line 1, column 22, recv id: must be a number from 0 to 255",
            ),
            (
                "keys { key { id 1; preferred; deprecated; }; }",
                "line 1, column 31, key: a key cannot be both preferred and deprecated",
            ),
            ("keys { key { id 1; secret \"hunter2hunter2\" id 2; }; }", "line 1, column 44, key: expected ;"),
            ("keys { key { id 1; secret ; }; }", "line 1, column 27, secret: is missing"),
            (
                "keys { key { id 1; secret hunter2hunter2; }; }",
                "line 1, column 27, secret: expected a text in quotes, hex: with pairs of digits, 16 or more pairs of digits, or \
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
            ("protocol bgp x { password \"hunter2hunter2\"; }", "has no key for TCP-AO"),
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

#[test]
fn junos() {
    let key = |inside: &str| format!("key-chain c {{\n key 0 {{\n  algorithm ao;\n{inside}\n }}\n}}");
    let ids = "  ao-attribute { send-id 1; recv-id 1; }\n";
    let case = |inside: &str, expected: &str| {
        assert_eq!(error_of(Format::Junos, &key(inside)), format!("router.conf: {expected}"), "{inside}");
    };
    case(ids, "line 2, column 2, secret: is missing");
    case("  secret hunter2hunter2;", "line 2, column 2, send-id: is missing");
    case("  secret hunter2hunter2;\n  ao-attribute { send-id 1; }", "line 2, column 2, recv-id: is missing");
    case("  ao-attribute { send-id 256; }", "line 4, column 26, send-id: must be a number from 0 to 255");
    case(
        "  ao-attribute { recv-id hunter2hunter2; }",
        "line 4, column 26, recv-id: must be a number from 0 to 255",
    );
    case("  ao-attribute { send-id 1;\n send-id 1; }", "line 5, column 2, send-id: is given twice");
    case(
        "  ao-attribute { tcp-ao-option yes; }",
        "line 4, column 32, tcp-ao-option: expected enabled or disabled",
    );
    case("  secret hunter2hunter2;\n  secret hunter2hunter2;", "line 5, column 3, secret: is given twice");
    case(
        &format!("{ids}  secret \"$9$hunter2hunter2!\";"),
        "line 5, column 10, secret: is a damaged $9$ secret",
    );
    case(
        &format!("{ids}  secret \"$8$hunter2hunter2\";"),
        "line 5, column 10, secret: is encrypted with the router's master password ($8$), and only the router can decrypt it: \
         write it in plain text",
    );
    for start in [
        "2026",
        "2026-1-1",
        "2026-13-1.00:00",
        "2026-1-1.25:00",
        "2026-1-1.0:0:0:0",
        "hunter2hunter2",
        "2026-1-1.00:00 CET",
    ] {
        case(
            &format!("{ids}  secret hunter2hunter2;\n  start-time \"{start}\";"),
            "line 6, column 14, start-time: expected a start time such as \"2026-01-31.00:00:00 +0000\"",
        );
    }
    let error = error_of(Format::Junos, &key("  ao-attribute { cryptographic-algorithm hmac-md5; }"));
    assert!(
        error.starts_with("router.conf: line 4, column 42, cryptographic-algorithm: MD5 is broken"),
        "{error}"
    );
    check(
        Format::Junos,
        &[
            (
                "key-chain c { key x { secret hunter2hunter2; } }",
                "line 1, column 19, key: must be a number from 0 to 18446744073709551615",
            ),
            (
                "key-chain c { tolerance x; }",
                "line 1, column 25, tolerance: must be a number from 0 to 999999999",
            ),
            ("key-chain c { key 0 { secret \"hunter2hunter2; } }", "line 1, column 30, string: has no end"),
            ("key-chain c {\n key 0 {", "line 2, column 9, block: has no end"),
            ("key-chain c { } }", "line 1, column 17, block: expected a statement"),
            ("key-chain c { key 0 { secret hunter2hunter2; algorithm md5; } }", "has no key for TCP-AO"),
        ],
    );
}

#[test]
fn ios_xr() {
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
    case(
        "  key-string password6 hunter2hunter2",
        "line 3, column 14, key-string: type 6 is encrypted with a key that only the router has: write \
         \"key-string clear\" and the secret",
    );
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
    check(
        Format::IosXr,
        &[
            (
                "tcp ao\n keychain c\n  key 0 SendID 1",
                "line 3, column 3, tcp ao: expected key ID SendID ID ReceiveID ID",
            ),
            (
                "tcp ao\n keychain c\n  key 0 SendID 256 ReceiveID 1",
                "line 3, column 16, SendID: must be a number from 0 to 255",
            ),
            (
                "tcp ao\n keychain c\n  key x SendID 1 ReceiveID 1",
                "line 3, column 7, key: must be a number from 0 to 281474976710655",
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
                "line 1, column 13, key chain: \"key chain NAME tcp\" is IOS XE, and only IOS XR is supported",
            ),
            (
                "key chain c\n accept-tolerance x",
                "line 2, column 19, accept-tolerance: must be a number from 0 to 4294967295",
            ),
            ("key chain c\n key 0\n  key-string hunter2hunter2", "has no key for TCP-AO"),
        ],
    );
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let missing = load(Path::new("no/such/file"), None).expect_err("no file").to_string();
    assert!(missing.starts_with("no/such/file: No such file"), "{missing}");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("keys.toml");
    std::fs::write(&path, b"hunter2hunter2\xff").expect("a file");
    let shown = load(&path, None).expect_err("no text").to_string();
    assert_eq!(shown, format!("{}: not UTF-8 text", path.display()));
    std::fs::write(&path, b"[[key-chain]]\nname = hunter2hunter2\n").expect("a file");
    let shown = load(&path, None).expect_err("no TOML").to_string();
    assert!(shown.contains("line 2, column") && !shown.contains(SECRET), "{shown}");
}

/// A configuration of each router, with a marker wherever a secret may stand.
const TEXTS: [(Format, &str); 4] = [
    (
        Format::Bird,
        "define S = \"hunter2hunter2\";\nprotocol bgp {\n neighbor 192.0.2.1 as 1;\n keys { key { id 1; secret \"hunter2hunter2\"; algorithm \
         hmac sha1; };\n key { id 2; secret S; preferred; }; };\n}\n",
    ),
    (
        Format::Junos,
        "security { authentication-key-chains { key-chain c { key 0 { secret \"hunter2hunter2\";\n start-time \
         \"2026-1-1.00:00:00 +0000\"; algorithm ao; ao-attribute { send-id 1; recv-id 2; } } } } }\n",
    ),
    (
        Format::Junos,
        "set security authentication-key-chains key-chain c key 0 secret hunter2hunter2\nset security \
         authentication-key-chains key-chain c key 0 algorithm ao\nset security authentication-key-chains key-chain c key 0 \
         ao-attribute send-id 1\n",
    ),
    (
        Format::IosXr,
        "key chain c\n key 0\n  key-string clear hunter2hunter2\n  cryptographic-algorithm HMAC-SHA1-96\n !\n!\ntcp ao\n \
         keychain c\n  key 0 SendID 1 ReceiveID 2\n !\n!\n",
    ),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// However a configuration is damaged around its secrets, no error shows them.
    #[test]
    fn a_damaged_text_never_shows_its_secrets(
        index in 0..TEXTS.len(),
        from in any::<prop::sample::Index>(),
        length in 0usize..12,
        instead in prop::sample::select(vec!["", " ", "\n", ";", "{", "}", "\"", "#", "!", "id", "secret", "key", "/*"]),
    ) {
        let (format, text) = TEXTS[index];
        let start = from.index(text.len());
        let end = (start + length).min(text.len());
        let removed = &text[start..end];
        prop_assume!(!SECRET.contains(removed) || removed.is_empty());
        let damaged = format!("{}{instead}{}", &text[..start], &text[end..]);
        match read(Path::new("router.conf"), &damaged, Some(format)) {
            Ok(file) => {
                let shown = format!("{file:?}");
                // A name can be where a secret was; the secret itself is never shown.
                let names: String = file.chains.iter().map(|chain| format!("{:?}{:?}", chain.name, chain.description)).collect();
                prop_assert!(names.contains(SECRET) || !shown.contains(SECRET), "{}", shown);
            }
            Err(error) => {
                let shown = format!("{error} {error:?}");
                prop_assert!(!shown.contains(SECRET), "{}", shown);
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}
