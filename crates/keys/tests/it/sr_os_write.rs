//! Writing SR OS configuration: keychains with one entry or two for each key, their neighbors, and what SR OS cannot have.

use std::path::Path;

use wireseal_keys::{Chain, Format, convert, read};

use super::routers::neighbors;
use super::sr_os::{keychain, read_text};

#[test]
fn chains_are_written_as_one_entry_or_as_two() {
    let key = |rest: &str| {
        format!(
            "[[key-chain.key]]\nalgorithm = \"hmac-sha-1-96\"\nsecret = \"a \\\"quoted\\\" secret {}\"\n{rest}\n",
            rest.len()
        )
    };
    let chain =
        |name: &str, keys: &str| format!("[[key-chain]]\nname = \"{name}\"\naccept-tolerance = 3600\n{keys}");
    let text =
        chain("both", &(key("send-id = 1") + &key("send-id = 2\nsend = { from = 2026-02-01T00:00:00Z }")))
            + &chain(
                "apart",
                &(key("send-id = 3\nrecv-id = 4\nkey-id = 3") + &key("send-id = 200\nkey-id = 200")),
            );
    let file = read(Path::new("keys.toml"), &text, None).unwrap();
    let conversion = convert(&file, Format::SrOs).expect("a conversion");
    assert_eq!(
        conversion.losses,
        [
            "key apart/200 is left out: SR OS has no SendID above 63",
            "key apart/200 is left out: SR OS has no RecvID above 63"
        ]
    );
    let expected = "configure {
    system {
        security {
            keychains {
                keychain \"both\" {
                    tcp-option-number {
                        receive tcp-ao
                        send tcp-ao
                    }
                    bidirectional {
                        entry 1 {
                            authentication-key \"a \\\"quoted\\\" secret 11\"
                            algorithm hmac-sha-1-96
                            begin-time 2000-01-01T00:01:00.0Z
                            tolerance 7200
                        }
                        entry 2 {
                            authentication-key \"a \\\"quoted\\\" secret 50\"
                            algorithm hmac-sha-1-96
                            begin-time 2026-02-01T00:00:00.0Z
                            tolerance 7200
                        }
                    }
                }
                keychain \"apart\" {
                    tcp-option-number {
                        receive tcp-ao
                        send tcp-ao
                    }
                    receive {
                        entry 4 {
                            authentication-key \"a \\\"quoted\\\" secret 34\"
                            algorithm hmac-sha-1-96
                            begin-time 2000-01-01T00:00:00.0Z
                            tolerance 7200
                        }
                    }
                    send {
                        entry 3 {
                            authentication-key \"a \\\"quoted\\\" secret 34\"
                            algorithm hmac-sha-1-96
                            begin-time 2000-01-01T00:00:00.0Z
                        }
                    }
                }
            }
        }
    }
}
";
    assert_eq!(*conversion.text, expected);
}

#[test]
fn keys_that_sr_os_cannot_have_are_named() {
    let key = |id: u8, secret: &str, rest: &str| {
        format!(
            "[[key-chain.key]]\nkey-id = {id}\nsend-id = {id}\nalgorithm = \"hmac-sha-1-96\"\nsecret = \"{secret}\"\n{rest}\n"
        )
    };
    let text = "[[key-chain]]\nname = \"k\"\n".to_owned()
        + &key(1, "one", "recv-id = 9")
        + &key(2, "\\u0007", "")
        + &key(3, "one", "")
        + &key(4, "four", "recv-id = 9\nsend = { from = 2026-01-01T00:00:00Z }")
        + &key(5, "five", "send = { until = 1999-01-01T00:00:00Z }")
        + &key(6, "six", "options = \"excluded\"");
    let file = read(Path::new("keys.toml"), &text, None).unwrap();
    assert_eq!(
        convert(&file, Format::SrOs).expect("a conversion").losses,
        [
            "key k/2 is left out: SR OS accepts a secret only as printable ASCII characters",
            "key k/6 is left out: SR OS always covers the TCP options",
            "key k/3 is left out: another key has its secret, which is all that shows which send entry and receive entry are one key",
            "key k/4 is left out: another key has its SendID or RecvID, which SR OS uses as numbers of entries",
            "key k/5 is left out: it expired before 2000, and SR OS is younger",
        ]
    );
}

#[test]
fn neighbors_are_written_by_vrf_and_with_one_keychain() {
    let user = |vrf: &str, neighbor: &str| {
        format!(
            "service {{ vprn \"{vrf}\" {{ bgp {{ neighbor \"{neighbor}\" {{ authentication-keychain \"k\" }} }} }} }}\n"
        )
    };
    let base =
        "router \"Base\" {\n bgp {\n neighbor 192.0.2.1 {\n authentication-keychain \"k\"\n }\n }\n}\n";
    let entry = "bidirectional {\n entry 1 {\n authentication-key x\n algorithm hmac-sha-1-96\n begin-time 2026-01-01T00:00:00Z\n }\n}";
    let quotes = "\\\"".repeat(2000);
    let text = keychain(entry) + base + &user("red", "192.0.2.1") + &user(&quotes, "fe80::1-a b");
    let mut file = read_text(&text);
    let conversion = convert(&file, Format::SrOs).expect("a conversion");
    assert_eq!(conversion.losses, [""; 0]);
    let again = read_text(&conversion.text);
    assert_eq!(again.chains[0].neighbors, file.chains[0].neighbors);
    let vrf = "\"".repeat(2000);
    assert_eq!(
        neighbors(&again.chains[0]),
        ["192.0.2.1".to_owned(), "192.0.2.1 vrf red".to_owned(), format!("fe80::1%a b vrf {vrf}")]
    );
    // Another chain of the same neighbors.
    let mut other = Chain { name: "other".to_owned(), ..file.chains[0].clone() };
    other.neighbors.truncate(2);
    other.neighbors[1].vrf = Some("blue".to_owned());
    file.chains.push(other);
    let conversion = convert(&file, Format::SrOs).expect("a conversion");
    assert_eq!(conversion.losses, ["chain \"other\": 192.0.2.1, which uses another chain"]);
    assert_eq!(neighbors(&read_text(&conversion.text).chains[1]), ["192.0.2.1 vrf blue"]);
}

#[test]
fn names_and_starts_that_sr_os_does_not_have_are_said() {
    let key = |id: u8, start: &str| {
        format!("[[key-chain.key]]\nsend-id = {id}\nalgorithm = \"hmac-sha-1-96\"\nsecret = \"secret-{id}\"\nsend = {{ {start} }}\n")
            .replace("send = {  }\n", "")
    };
    let written = |name: &str, keys: &[String]| {
        let text = format!("[[key-chain]]\nname = \"{name}\"\n{}", keys.concat());
        convert(&read(Path::new("keys.toml"), &text, None).unwrap(), Format::SrOs).unwrap()
    };
    let named = written("a \\\"b\\\\c\u{e9}", &[key(1, "")]).losses;
    assert_eq!(named, ["chain \"a \\\"b\\\\c\u{e9}\" is named a _b_c_"]);
    // The first moment that is a start, and the last one that is none.
    let none = "key k/1: a start before 2000, and SR OS is younger".to_owned();
    for (start, expected) in [("2000-01-02T00:00:00Z", vec![]), ("2000-01-01T23:59:59Z", vec![none])] {
        assert_eq!(written("k", &[key(1, &format!("from = {start}"))]).losses, expected, "{start}");
    }
    // Keys without a start have different ones, the first key the latest.
    let text = written("k", &[key(1, ""), key(2, ""), key(3, "")]).text;
    let starts: Vec<_> = text.lines().filter(|line| line.contains("begin-time")).map(str::trim).collect();
    assert_eq!(starts, ["02", "01", "00"].map(|minute| format!("begin-time 2000-01-01T00:{minute}:00.0Z")));
}
