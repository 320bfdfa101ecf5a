//! SR OS: keychains in MD-CLI and classic CLI, the neighbors that use them, and what is said of keys that are not, or may not be, for TCP-AO.

use std::path::Path;

use proptest::prelude::*;
use wireseal_keys::{
    ChainKey, Clock, Format, Implementation, KeyFile, Timestamp, Weight, check, convert, load, read,
};
use wireseal_tcp_ao::OptionCoverage;

use super::routers::{data, lifetime, neighbors};

const FILES: [&str; 3] = ["sr-os.cfg", "sr-os-classic.cfg", "sr-os-commands.cfg"];

pub(super) fn read_text(text: &str) -> KeyFile {
    read(Path::new("keys"), text, None).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn error(text: &str) -> String {
    read(Path::new("keys"), text, Some(Format::SrOs)).expect_err("a file with an error").to_string()
}

/// The findings that are about the file, not about its lifetimes and secrets, as `kind subject line: sentence`.
fn findings(file: &KeyFile) -> Vec<String> {
    let now = "2026-03-01T00:00:00Z".parse().unwrap();
    let about = [
        "not-understood",
        "older-option",
        "not-in-use",
        "left-out",
        "pairing",
        "accepts-mismatch",
        "assumed",
        "refused",
    ];
    let findings = check(file, now, &[Implementation::reading(Some(Format::SrOs))]).into_iter();
    let findings = findings
        .filter(|it| about.contains(&it.kind) && !(it.kind == "refused" && it.weight == Weight::Note));
    let findings = findings.map(|it| {
        let line = it.position.map_or(0, |at| at.line);
        format!("{} {} {line}: {}", it.kind, it.subject, it.sentence)
    });
    findings.collect()
}

/// A key as `SendID/RecvID algorithm secret`.
fn essence(key: &ChainKey) -> String {
    let secret = String::from_utf8_lossy(key.secret.expose()).into_owned();
    format!("{}/{} {} {secret}", key.send_id, key.recv_id, key.algorithm)
}

/// A keychain for TCP-AO with this content.
pub(super) fn keychain(content: &str) -> String {
    format!("keychain \"k\" {{\n tcp-option-number {{\n send tcp-ao\n receive tcp-ao\n }}\n{content}\n}}\n")
}

#[test]
fn keychains_are_the_same_in_every_form() {
    for name in FILES {
        let file = load(&data(name), None).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(file.format, Some(Format::SrOs), "{name}");
        let [core, interop] = &file.chains[..] else { panic!("{name}: two keychains for TCP-AO") };
        assert_eq!(
            (core.name.as_str(), core.description.as_deref()),
            ("core", Some("core \"sessions\"")),
            "{name}"
        );
        assert_eq!(
            core.keys.iter().map(essence).collect::<Vec<_>>(),
            ["1/1 AES-128-CMAC-96 Vd8zqkT1 p0wYh#3m", "63/63 AES-128-CMAC-96 k2Lr9\"sXw4Qe7Zb1N"],
            "{name}"
        );
        // The newest key is used for sending, and the tolerance is half before and half after.
        assert_eq!(core.accept_tolerance, 300, "{name}");
        assert_eq!(core.keys[0].send, lifetime("2026-01-01T00:00:00Z", "2026-07-01T00:00:00Z"), "{name}");
        assert_eq!(core.keys[0].accept, lifetime("2026-01-01T00:00:00Z", ""), "{name}");
        assert_eq!(core.keys[1].send, lifetime("2026-07-01T00:00:00Z", ""), "{name}");

        assert_eq!(
            interop.keys.iter().map(essence).collect::<Vec<_>>(),
            ["2/9 HMAC-SHA-1-96 interop-b7Qx2mPz"],
            "{name}"
        );
        let [key] = &interop.keys[..] else { panic!("{name}: one key") };
        assert_eq!((key.key_id, key.mac_length, key.options), (2, 12, OptionCoverage::Covered), "{name}");
        assert_eq!(key.send, lifetime("2026-01-06T22:35:59Z", ""), "{name}");
        assert_eq!(key.accept, lifetime("2026-01-06T22:35:59Z", "2030-01-01T00:00:00Z"), "{name}");
        assert_eq!((key.clock, interop.accept_tolerance), (Clock::Utc, 150), "{name}");

        // Neighbors have the keychain of their own, or that of their group, or BGP's.
        assert_eq!(neighbors(core), ["fe80::7%to-core", "192.0.2.9", "192.0.2.117 vrf red"], "{name}");
        assert_eq!(
            neighbors(interop),
            ["198.51.100.0/24", "192.0.2.117", "2001:db8:1002:103::111"],
            "{name}"
        );
        assert_eq!(findings(&file), [""; 0], "{name}");
    }
    let file = load(&data(FILES[0]), None).unwrap();
    assert_eq!(file.skipped.len(), 1, "the keychain for IS-IS");
    assert_eq!(file.skipped[0].position.line, 119);
}

/// After TCP-AO/Configuration-examples, Nokia.md, where both entries have one secret, encrypted with `hash`.
#[test]
fn encrypted_secrets_are_keys_whose_secrets_are_not_known() {
    let entry = |direction: &str, id: u8, secret: &str| {
        format!(
            "{direction} {{\n entry {id} {{\n authentication-key {secret}\n algorithm aes-128-cmac-96\n begin-time \
             2020-06-09T04:00:00.0Z\n }}\n}}\n"
        )
    };
    let one = "\"x0DmMKJGtBwWS02BpcYVU/qqQ\" hash";
    let file = read_text(&keychain(&(entry("receive", 9, one) + &entry("send", 2, one))));
    let [key] = &file.chains[0].keys[..] else { panic!("one key") };
    assert_eq!((key.send_id.0, key.recv_id.0, key.secret.encryption()), (2, 9, Some("hash")));
    assert_eq!(findings(&file), [""; 0], "the encrypted secrets are equal");
    // hash2 may encrypt one secret in two ways.
    let file = read_text(&keychain(
        &(entry("receive", 9, "\"aaaa\" hash2")
            + &entry("receive", 10, "plain")
            + &entry("send", 2, "\"bbbb\" hash2")),
    ));
    let [key] = &file.chains[0].keys[..] else { panic!("one key") };
    assert_eq!((key.send_id.0, key.recv_id.0, key.secret.encryption()), (2, 9, Some("hash2")));
    assert_eq!(
        findings(&file),
        [
            "pairing k 14: receive entry 10 has no send entry with its secret and algorithm, so its key is left out: an MKT is for \
             both directions",
            "pairing k/2 21: send entry 2 and receive entry 9 are taken as one key, but their secrets are encrypted and cannot be \
             compared"
        ]
    );
    // The key is in local time if either entry is.
    let both = entry("receive", 9, one) + &entry("send", 2, one);
    for local in ["receive", "send", ""] {
        let (at, after) = (both.find(local).unwrap(), "2020/06/09 04:00");
        let (before, from) = both.split_at(at);
        let edited = before.to_owned()
            + &from.replacen("2020-06-09T04:00:00.0Z", after, usize::from(!local.is_empty()));
        let clock = if local.is_empty() { Clock::Utc } else { Clock::Local };
        assert_eq!(read_text(&keychain(&edited)).chains[0].keys[0].clock, clock, "{local}");
    }
    // A secret that is known is used.
    let file = read_text(&keychain(&(entry("receive", 9, "plain") + &entry("send", 2, "\"bbbb\" custom"))));
    assert_eq!(essence(&file.chains[0].keys[0]), "2/9 AES-128-CMAC-96 plain");
    // MD-CLI prints the word in the quotes.
    for how in ["hash", "hash2", "custom"] {
        let file =
            read_text(&keychain(&entry("bidirectional", 1, &format!("\"x0DmMKJGtBwWS02B/w== {how}\""))));
        let key = &file.chains[0].keys[0];
        assert_eq!((key.secret.encryption(), key.secret.expose()), (Some(how), &[] as &[u8]), "{how}");
    }
    let mut plain = read_text(&keychain(&entry("bidirectional", 1, "plain")));
    let secret = zeroize::Zeroizing::new(b"that ends with hash2".to_vec());
    plain.chains[0].keys[0].secret = wireseal_keys::Secret::new(secret, wireseal_keys::Notation::Text);
    let refused = convert(&plain, Format::SrOs).unwrap_err().to_string();
    assert!(refused.ends_with("ends with a word that says to SR OS that it is encrypted"), "{refused}");
    let error = error(&keychain(&entry("bidirectional", 1, "hash2")));
    assert_eq!(error, "keys: line 8, column 2, authentication-key: the secret is missing");
    assert_eq!(
        essence(&read_text(&keychain(&entry("bidirectional", 1, "\"hash2\""))).chains[0].keys[0]),
        "1/1 AES-128-CMAC-96 hash2"
    );
}

#[test]
fn entries_are_paired_by_secret_algorithm_and_begin() {
    let entry = |id: u8, secret: &str, algorithm: &str, begin: &str| {
        format!(
            "entry {id} authentication-key {secret} algorithm {algorithm} begin-time 2026-0{begin}-01T00:00:00Z\n"
        )
    };
    let (sha, aes) = ("hmac-sha-1-96", "aes-128-cmac-96");
    let send = entry(1, "one", sha, "1")
        + &entry(2, "one", sha, "2")
        + &entry(3, "one", aes, "3")
        + &entry(4, "two", aes, "4");
    let receive = entry(21, "one", aes, "5")
        + &entry(22, "two", aes, "4")
        + &entry(23, "one", sha, "2")
        + &entry(24, "one", sha, "3");
    let file = read_text(&keychain(&format!("send {{\n{send}}}\nreceive {{\n{receive}}}\n")));
    let ids = file.chains[0].keys.iter().map(|key| (key.send_id.0, key.recv_id.0)).collect::<Vec<_>>();
    assert_eq!(ids, [(1, 24), (2, 23), (3, 21), (4, 22)]);
    // A send entry without a receive entry still ends the sending of the one before.
    let send = entry(1, "one", sha, "1") + &entry(2, "two", sha, "2");
    let file =
        read_text(&keychain(&format!("send {{\n{send}}}\nreceive {{\n{}}}\n", entry(9, "one", sha, "1"))));
    assert_eq!(file.chains[0].keys[0].send, lifetime("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"));
    let alone = "pairing k 8: send entry 2 has no receive entry with its secret and algorithm, so its key is left out: an MKT is for \
                 both directions";
    assert_eq!(findings(&file), [alone]);
    // Secrets that differ are no key, whenever they begin. The moment decides between those that cannot be compared.
    let of = |send: &str, receive: &str| keychain(&format!("send {{\n{send}}}\nreceive {{\n{receive}}}\n"));
    let differ = error(&of(&entry(1, "one", sha, "1"), &entry(9, "two", sha, "1")));
    assert!(differ.contains("send entry 1 has no receive entry with its secret"), "{differ}");
    let hidden = |id, secret: &str, begin| entry(id, &format!("\"{secret}\" hash2"), sha, begin);
    let [send, receive] =
        [hidden(1, "aaaa", "1") + &hidden(2, "bbbb", "2"), hidden(9, "cccc", "2") + &hidden(10, "dddd", "1")];
    let file = read_text(&of(&send, &receive));
    let ids = file.chains[0].keys.iter().map(|key| (key.send_id.0, key.recv_id.0)).collect::<Vec<_>>();
    assert_eq!(ids, [(1, 10), (2, 9)]);
}

#[test]
fn without_tcp_ao_in_both_directions_keys_are_not_for_tcp_ao() {
    let entry =
        "bidirectional entry 1 authentication-key x algorithm hmac-sha-1-96 begin-time 2026-01-01T00:00:00Z";
    let command = |rest: &str| format!("/configure system security keychains keychain \"k\" {rest}\n");
    let older = "the older TCP option";
    let write = "(kind 253 or 254), which is not TCP-AO: write \"tcp-option-number";
    assert_eq!(
        error(&command(entry)),
        format!(
            "keys: line 1, column 38: keychain \"k\" sends {older} by default {write} send tcp-ao\"; keychain \"k\" expects {older} by \
             default {write} receive tcp-ao\""
        )
    );
    assert_eq!(
        error(&(command("tcp-option-number send tcp-ao receive both") + &command(entry))),
        format!("keys: line 1, column 89: keychain \"k\" expects {older} {write} receive tcp-ao\"")
    );
    // Beside another keychain it is a finding; one that no BGP neighbor uses, for another protocol, is not.
    let good = keychain(
        "bidirectional {\n entry 1 {\n authentication-key y\n algorithm hmac-sha-1-96\n begin-time 2026-01-01T00:00:00Z\n }\n}",
    );
    let other = "keychain \"o\" {\n bidirectional {\n entry 1 {\n authentication-key x\n algorithm password\n }\n }\n}\n";
    let file = read_text(&(good.clone() + other));
    assert_eq!((findings(&file), file.skipped.len()), (vec![], 1));
    let user = "router \"Base\" {\n bgp {\n neighbor 192.0.2.1 {\n authentication-keychain o\n }\n }\n}\n";
    assert_eq!(
        findings(&read_text(&(good + other + user))),
        [
            format!("older-option  14: keychain \"o\" sends {older} by default {write} send tcp-ao\""),
            format!("older-option  14: keychain \"o\" expects {older} by default {write} receive tcp-ao\"")
        ]
    );
}

#[test]
fn keys_that_are_left_out_are_said() {
    let entry = |id: &str, rest: &str| {
        format!(
            "entry {id} authentication-key x{id} algorithm hmac-sha-1-96 begin-time 2026-01-01T00:00:00Z {rest}\n"
        )
    };
    let entries = entry("1", "")
        + &entry("2", "admin-state disable")
        + "entry 3 authentication-key x algorithm hmac-sha-256-128 begin-time 2026-02-01T00:00:00Z\n"
        + "entry 4 authentication-key x algorithm message-digest\n"
        + "entry 5 authentication-key x5 algorithm aes-128-cmac-96\n"
        + "entry 255 begin-time 2027-01-01T00:00:00Z\n"
        + "entry 6 authentication-key x6 algorithm aes-128-cmac-96 begin-time 2026-01-01T00:00:00Z apply-groups [\"g\"]\n";
    let text = keychain(&format!("bidirectional {{\n{entries}}}\napply-groups [\"g\"]\n"));
    let file = read_text(&(text.clone() + "groups {\n group \"g\" {\n" + &text + "}\n}\n"));
    assert_eq!(file.chains.len(), 1);
    let ids = file.chains[0].keys.iter().map(|key| key.send_id.0).collect::<Vec<_>>();
    assert_eq!(ids, [1, 5, 6]);
    // The key that is left out is used for sending.
    assert_eq!(file.chains[0].keys[0].send.until(), Some("2026-02-01T00:00:00Z".parse().unwrap()));
    let found = findings(&file);
    let expected = [
        "not-in-use k 8: entry 2 is disabled, so its key is left out",
        "left-out k 9: entry 3 is left out: its algorithm is hmac-sha-256-128, whose KDF Nokia does not document",
        "left-out k 10: entry 4 is left out: its algorithm is message-digest, which is not one of TCP-AO",
        "accepts-mismatch k 12: entry 255 is the null key: while it is the newest, sessions have no TCP-AO",
        "not-understood k 13: this line is not understood, and ignored",
        "not-understood k 15: this line is not understood, and ignored",
    ];
    for sentence in expected {
        assert!(found.iter().any(|found| found == sentence), "{sentence}: {found:?}");
    }
    assert!(
        found.iter().any(|found| found.starts_with("assumed k 11: entry 5 has no begin-time")),
        "{found:?}"
    );
    assert!(
        found.iter().filter(|found| found.starts_with("not-understood  ")).count() > 1,
        "groups: {found:?}"
    );
    let losses = convert(&file, Format::Toml).expect("a conversion").losses;
    assert!(losses.iter().any(|loss| loss.contains("null key")), "{losses:?}");

    let disabled = keychain(&format!("admin-state disable\nbidirectional {{\n{entries}}}"));
    assert_eq!(
        error(&disabled),
        "keys: line 1, column 1: chain \"k\": it is disabled, so its keys are left out"
    );
    let alone = keychain("bidirectional {\nentry 3 authentication-key x algorithm hmac-sha-256-96\n}");
    let expected = "keys: line 7, column 1: chain \"k\": entry 3 is left out: its algorithm is hmac-sha-256-96, whose KDF Nokia does not \
                    document";
    assert_eq!(error(&alone), expected);
}

#[test]
fn errors_have_a_place() {
    let entry = |rest: &str| keychain(&format!("bidirectional {{\nentry 7 {rest}\n}}"));
    for (rest, expected) in [
        ("algorithm hmac-sha-1-96", "line 7, column 1, authentication-key: is missing"),
        ("authentication-key hunter2", "line 7, column 1, algorithm: is missing"),
        (
            "authentication-key hunter2 authentication-key x",
            "line 7, column 36, authentication-key: is given twice",
        ),
        ("authentication-key", "line 7, column 9, authentication-key: the secret is missing"),
        ("algorithm hmac-sha-384", "line 7, column 19, algorithm: expected hmac-sha-1-96 or aes-128-cmac-96"),
        ("tolerance 4294967295", "line 7, column 19, tolerance: must be a whole number from 0 to 4294967294"),
        ("tolerance", "line 7, column 9, entry: expected a value after this word"),
        (
            "begin-time 2026-13-01T00:00:00Z",
            "line 7, column 9, begin-time: expected a time such as 2026-01-31T00:00:00Z, 2026/01/31 00:00:00 UTC, now or forever",
        ),
        (
            "authentication-key x algorithm hmac-sha-1-96 begin-time 2026-01-01T00:00:00Z end-time 2026-01-01T00:00:00Z",
            "line 7, column 1, end-time: must be after begin-time",
        ),
    ] {
        let error = error(&entry(rest));
        assert_eq!(error, format!("keys: {expected}"));
        assert!(!error.contains("hunter2"));
    }
    let number = keychain("bidirectional {\nentry 64 authentication-key x\n}");
    assert_eq!(error(&number), "keys: line 7, column 7, entry: must be a whole number from 0 to 63");
    assert_eq!(error("keychain \"k\" {\n"), "keys: line 2, column 1, block: has no end");
    assert_eq!(error("keychain \"k\" {\n}\n}\n"), "keys: line 3, column 1, block: expected a statement");
    let lost = std::fs::read_to_string(data("sr-os-classic.cfg")).unwrap();
    let lost = lost.lines().map(|line| line.trim().to_owned() + "\n").collect::<String>();
    let expected = "line 25, column 1, entry: is in no keychain: give the whole keychain, with its braces or its indentation";
    assert_eq!(error(&lost), format!("keys: {expected}"));
    assert_eq!(error("configure {\n}\n"), "keys: has no key for TCP-AO (read as sr-os)");
}

#[test]
fn times_are_read_as_both_languages_write_them() {
    let begin = |time: &str| {
        let entry =
            format!("direction bi entry 1 key x algorithm hmac-sha-1-96 begin-time {time} tolerance forever");
        let text = format!(
            "configure system security keychain \"k\" {entry}\nconfigure system security keychain \"k\" tcp-option-number send tcp-ao \
             receive tcp-ao\n"
        );
        let chain = read_text(&text).chains.remove(0);
        assert_eq!(chain.accept_tolerance, u32::MAX, "{time}");
        (chain.keys[0].send.from().map(|from| from.to_string()).unwrap_or_default(), chain.keys[0].clock)
    };
    for (written, expected, clock) in [
        ("2020-01-06T22:35:59.0Z", "2020-01-06T22:35:59Z", Clock::Utc),
        ("2020-07-29T15:47:03-0400", "2020-07-29T19:47:03Z", Clock::Utc),
        ("2020-01-06T17:35:59.0-05:00", "2020-01-06T22:35:59Z", Clock::Utc),
        ("\"2023/01/01 00:00:00 UTC\"", "2023-01-01T00:00:00Z", Clock::Utc),
        ("\"2023/01/01 00:00\" UTC", "2023-01-01T00:00:00Z", Clock::Utc),
        ("2023/1/2 3:04 UTC", "2023-01-02T03:04:00Z", Clock::Utc),
        ("2023/01/01 UTC", "2023-01-01T00:00:00Z", Clock::Utc),
        // Without UTC it is the router's local time.
        ("2023/01/01 00:00", "2023-01-01T00:00:00Z", Clock::Local),
        ("now", "", Clock::Utc),
        ("forever", "", Clock::Utc),
        ("2000-01-01T00:05:00.0Z", "", Clock::Utc),
    ] {
        assert_eq!(begin(written), (expected.to_owned(), clock), "{written}");
    }
}

/// A command has its whole path, wherever it stands.
#[test]
fn commands_are_whole_whatever_their_indentation() {
    let path = "configure system security keychains keychain \"k\"";
    let commands = format!(
        "{path} tcp-option-number send tcp-ao receive tcp-ao\n{path} bidirectional entry 1 authentication-key x\n{path} bidirectional entry 1 \
         algorithm hmac-sha-1-96\n{path} bidirectional entry 1 begin-time 2026-01-01T00:00:00Z\nconfigure router \"Base\" bgp neighbor \
         \"192.0.2.1\" authentication-keychain \"k\"\nconfigure router \"Base\" bgp neighbor \"192.0.2.2\" authentication-keychain \"k\"\n"
    );
    for slash in ["", "/"] {
        let deeper =
            commands.lines().enumerate().map(|(depth, line)| format!("{}{slash}{line}\n", " ".repeat(depth)));
        let file = read_text(&deeper.collect::<String>());
        assert_eq!(file.chains[0].keys.iter().map(essence).collect::<Vec<_>>(), ["1/1 HMAC-SHA-1-96 x"]);
        assert_eq!(neighbors(&file.chains[0]), ["192.0.2.1", "192.0.2.2"]);
        assert_eq!(findings(&file), [""; 0]);
    }
}

#[test]
fn a_text_is_sr_oss_by_its_own_words() {
    for text in [
        "/configure system name \"r1\"\n",
        "keychains {\n",
        "configure router bgp group \"g\" auth-keychain \"k\"\n",
        "configure {\n",
        "keychain core {\n    description \"was authentication-key-chain of r1\"\n    tcp-option-number {\n",
        "# TiMOS-B-20.10.R1 both/x86_64 Nokia 7750 SR\n",
    ] {
        assert_eq!(Format::of(Path::new("router"), text), Some(Format::SrOs), "{text}");
    }
}

#[test]
fn a_tolerance_is_that_of_its_entry() {
    let entry = |id: u8, tolerance: &str| {
        format!(
            "entry {id} authentication-key x{id} algorithm hmac-sha-1-96 begin-time 2026-01-01T01:00:00Z {tolerance}\n"
        )
    };
    let entries = entry(1, "tolerance 600") + &entry(2, "") + &entry(3, "tolerance 0");
    let file = read_text(&keychain(&format!("bidirectional {{\n{entries}}}")));
    let chain = &file.chains[0];
    assert_eq!(chain.accept_tolerance, 0);
    let accepted =
        chain.keys.iter().map(|key| chain.acceptance(key).from().unwrap().to_string()).collect::<Vec<_>>();
    assert_eq!(accepted, ["2026-01-01T00:55:00Z", "2026-01-01T00:57:30Z", "2026-01-01T01:00:00Z"]);
}

#[test]
fn braces_may_be_on_one_line() {
    let text = "/configure system security keychains keychain \"k\" { tcp-option-number { send tcp-ao receive tcp-ao } bidirectional { \
                entry 1 { authentication-key \"x{y\" algorithm hmac-sha-1-96 begin-time 2026-01-01T00:00:00Z } } }\n/configure groups \
                { group \"g\" { router \"Base\" { bgp { neighbor \"<.*>\" { authentication-keychain \"k\" } } } } }\n";
    let file = read_text(text);
    assert_eq!(file.chains[0].keys.iter().map(essence).collect::<Vec<_>>(), ["1/1 HMAC-SHA-1-96 x{y"]);
    assert_eq!(findings(&file), ["not-understood  2: this line is not understood, and ignored"], "a group");
}

/// As `info` prints it in the keychain's own context, and with lines that are not of the configuration.
#[test]
fn a_part_of_a_configuration_is_read() {
    let text = "    tcp-option-number {\n        receive tcp-ao\n        send tcp-ao\n    }\n    bidirectional {\n        entry 0 {\n            \
                authentication-key \"x\"\n            algorithm hmac-sha-1-96\n            begin-time 2026-01-01T00:00:00.0Z\n        }\n    }\n";
    let file = read_text(text);
    assert_eq!((file.format, file.chains[0].name.as_str()), (Some(Format::SrOs), ""));
    assert_eq!(essence(&file.chains[0].keys[0]), "0/0 HMAC-SHA-1-96 x");
}

#[test]
fn other_formats_are_not_taken_for_sr_os() {
    for name in ["bird.conf", "junos.conf", "junos-set.conf", "ios-xr.cfg", "ios-xr-formal.cfg"] {
        let file = load(&data(name), None).unwrap_or_else(|error| panic!("{error}"));
        assert_ne!(file.format, Some(Format::SrOs), "{name}");
    }
    // A part from here on is recognized, too.
    const STARTS: [&str; 7] =
        ["configure", "/configure", "router", "system", "security", "keychain", "tcp-option-number"];
    for name in FILES {
        let text = std::fs::read_to_string(data(name)).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let starts =
            (0..lines.len()).filter(|line| STARTS.iter().any(|start| lines[*line].trim().starts_with(start)));
        for start in starts {
            let format = Format::of(Path::new(""), &lines[start..].join("\n"));
            assert_eq!(format, Some(Format::SrOs), "{name} from line {start}");
        }
    }
}

proptest! {
    #[test]
    fn damaged_text_gives_keys_or_an_error_in_one_line(
        file in 0..FILES.len(),
        cut in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        put in prop::sample::select(vec!["", "{", "}", "\"", "\n", " ", "keychain", "entry 1", "no ", "\\", "é"]),
    ) {
        let text = std::fs::read_to_string(data(FILES[file])).unwrap();
        let boundary = |index: usize| (index..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap();
        let (at, cut) = (boundary(at.index(text.len())), boundary(cut.index(text.len())));
        for damaged in [text[..cut].to_owned(), text[cut..].to_owned(), format!("{}{put}{}", &text[..at], &text[at..])] {
            match read(Path::new("keys"), &damaged, Some(Format::SrOs)) {
                Ok(file) => {
                    let _ = check(&file, Timestamp::from_unix_seconds(1_800_000_000), &[]);
                    if let Ok(conversion) = convert(&file, Format::SrOs) {
                        read(Path::new("keys"), &conversion.text, Some(Format::SrOs)).unwrap();
                    }
                }
                Err(error) => {
                    let said = format!("{error} {error:?}");
                    prop_assert!(!error.to_string().contains('\n'), "{error}");
                    for secret in ["Vd8zqk", "k2Lr9", "b7Qx2mPz"] {
                        prop_assert!(!said.contains(secret), "{said}");
                    }
                }
            }
        }
    }
}
