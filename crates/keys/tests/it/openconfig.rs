//! OpenConfig's key chains. The form is that of openconfig-keychain 0.6.0, with names and secrets of our own.

use std::path::Path;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{Format, Implementation, KeyFile, Lifetime, Timestamp, Weight, check, convert, read};
use wireseal_tcp_ao::OptionCoverage;

const JSON: &str = include_str!("../data/key-chains/openconfig.json");

fn read_json(name: &str, text: &str) -> KeyFile {
    let file = read(Path::new(name), text, None).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(file.format, Some(Format::OpenConfig), "{text}");
    file
}

fn warnings(file: &KeyFile) -> Vec<(&'static str, String)> {
    let found = check(file, Timestamp::from_unix_seconds(1_780_000_000), &[Implementation::reading(None)]);
    let warnings = found.into_iter().filter(|finding| finding.weight == Weight::Warning);
    warnings.map(|finding| (finding.kind, finding.sentence)).collect()
}

#[test]
fn keys_are_read_with_and_without_modules() {
    let bare = JSON.replace("openconfig-keychain-types:", "").replace("openconfig-keychain:", "");
    let list = {
        let value: serde_json::Value = serde_json::from_str(JSON).expect("JSON");
        serde_json::json!({"openconfig-keychain:keychain": value["openconfig-keychain:keychains"]["keychain"]}).to_string()
    };
    for (name, text) in [
        ("chains.json", JSON.to_owned()),
        ("chains", JSON.to_owned()),
        ("chains.json", bare),
        ("chains.json", list),
        ("chains.json", format!("{{\"data\": {JSON}}}")),
    ] {
        let file = read_json(name, &text);
        let [core, edge] = &file.chains[..] else { panic!("{file:?}") };
        assert_eq!((core.name.as_str(), core.accept_tolerance), ("core", 30));
        assert_eq!((edge.name.as_str(), edge.accept_tolerance), ("edge", u32::MAX));
        let [first, second] = &core.keys[..] else { panic!("{file:?}") };
        assert_eq!((first.key_id, first.send_id.0, first.recv_id.0), (1, 1, 1));
        assert_eq!((first.algorithm, first.mac_length), (TcpAoAlgorithm::HmacSha1, 12));
        assert_eq!(
            (first.options, first.secret.expose()),
            (OptionCoverage::Covered, &b"Vd8zqkT1p0wYhU3m"[..])
        );
        let moment = |text: &str| text.parse::<Timestamp>().expect("a moment");
        let life = |from, until| Lifetime::new(Some(moment(from)), Some(moment(until))).expect("a lifetime");
        let year = life("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z");
        assert_eq!((first.send, first.accept), (year, year));
        assert_eq!((second.key_id, second.algorithm), (2, TcpAoAlgorithm::Aes128Cmac));
        assert_eq!(second.send, Lifetime::starting(moment("2026-12-01T00:00:00Z")));
        assert_eq!(second.accept, Lifetime::starting(moment("2026-11-30T23:00:00Z")));
        assert_eq!((edge.keys.len(), edge.keys[0].send), (1, Lifetime::ALWAYS));
        assert_eq!(file.skipped.len(), 1, "MD5");
        let found = warnings(&file);
        let left_out = "is left out: HMAC_SHA_256 says neither which KDF it has nor how long its MAC is";
        assert!(found.contains(&("left-out", left_out.to_owned())), "{found:?}");
        let above = "is left out: its number is above 255, so it cannot be a SendID";
        assert!(found.contains(&("left-out", above.to_owned())), "{found:?}");
        assert_eq!(found.iter().filter(|(kind, _)| *kind == "left-out").count(), 2);
    }
    let error = convert(&read_json("a.json", JSON), Format::OpenConfig).expect_err("not written").to_string();
    assert!(error.contains("openconfig is only read"), "{error}");
}

#[test]
fn what_is_not_certain_is_said() {
    let changed = |from: &str, to: &str| {
        assert!(JSON.contains(from), "{from}");
        read_json("a.json", &JSON.replacen(from, to, 1))
    };
    let count =
        |file: &KeyFile, kind: &str| warnings(file).iter().filter(|(found, _)| *found == kind).count();
    let asymmetric = changed("\"send-and-receive\": false", "\"send-and-receive\": true");
    assert_eq!(
        (asymmetric.chains[0].keys[1].accept, count(&asymmetric, "not-understood")),
        (asymmetric.chains[0].keys[1].send, 1)
    );
    let augmented = changed("\"tolerance\": 30", "\"tolerance\": 30, \"vendor-augments:always\": true");
    assert_eq!(count(&augmented, "not-understood"), 1);
    for secret in ["$8$aes256", "$6$salt$hash"] {
        let encrypted = changed("Vd8zqkT1p0wYhU3m", secret);
        assert!(encrypted.chains[0].keys[0].secret.encryption().is_some(), "{secret}");
    }
    let found = check(&read_json("a.json", JSON), Timestamp::from_unix_seconds(0), &[]);
    assert_eq!(found.iter().filter(|finding| finding.kind == "assumed").count(), 2);
}

#[test]
fn errors_have_a_place() {
    let error = |from: &str, to: &str| {
        assert!(JSON.contains(from), "{from}");
        let error =
            read(Path::new("a.json"), &JSON.replacen(from, to, 1), None).expect_err("wrong").to_string();
        assert!(!error.contains("hunter2"), "{error}");
        error
    };
    let in_core = |place: &str| format!("a.json: {place}, key chain \"core\", ");
    for (from, to, place, expected) in [
        (
            "\"key-id\": \"1\"",
            "\"key-id\": \"hunter2\"",
            "line 10, column 25",
            "key-id: must be a whole number from 0 to 18446744073709551615",
        ),
        (
            "\"key-id\": \"1\"",
            "\"key-id\": \"0xhunter2\"",
            "line 10, column 25",
            "key-id: expected hexadecimal digits after 0x",
        ),
        (
            "\"tolerance\": 30",
            "\"tolerance\": -1",
            "line 6, column 50",
            "tolerance: must be a whole number from 0 to 4294967295",
        ),
        (
            "keychain-types:HMAC_SHA_1_96",
            "keychain-types:hunter2",
            "line 13, column 37",
            "key 1, crypto-algorithm: expected an algorithm of openconfig-keychain-types, such as HMAC_SHA_1_96",
        ),
        (
            ",\n                \"secret-key\": \"Vd8zqkT1p0wYhU3m\"",
            "",
            "line 11, column 25",
            "key 1, secret-key: is missing",
        ),
        (
            "1798761600000000000",
            "1",
            "line 19, column 31",
            "key 1, send-lifetime.end-time: ends at 1970-01-01T00:00:00Z, which is not after 2026-01-01T00:00:00Z",
        ),
        (
            "1798761600000000000",
            "tomorrow",
            "line 19, column 31",
            "key 1, send-lifetime.end-time: not a date and time with offset (RFC 3339), such as 2026-11-20T10:00:00Z",
        ),
    ] {
        assert_eq!(error(from, to), in_core(place) + expected);
    }
}
