//! SR Linux: keychains of type `tcp-ao`, in braces and as commands. No router is known to accept one, and that is said.

use std::path::Path;

use wireseal_keys::{Format, Implementation, KeyFile, Lifetime, Timestamp, check, convert, read};

use crate::routers::{chains, remarks};

fn read_text(text: &str) -> KeyFile {
    read(Path::new("keys"), text, None).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn error(text: &str) -> String {
    read(Path::new("keys"), text, Some(Format::SrLinux)).expect_err("a file with an error").to_string()
}

/// The kinds and subjects of the findings.
fn found(file: &KeyFile) -> Vec<String> {
    let now = Timestamp::from_unix_seconds(1_800_000_000);
    let findings = check(file, now, &[Implementation::reading(file.format)]).into_iter();
    findings.map(|it| format!("{} {}", it.kind, it.subject)).collect()
}

const BRACES: &str = r#"network-instance default {
    protocols {
        bgp {
            group edge {
                authentication {
                    keychain k1
                }
            }
            neighbor 192.0.2.1 {
                peer-group edge
            }
            neighbor fe80::7%ethernet-1/1.0 {
                authentication {
                    keychain k1
                }
            }
        }
        isis {
            instance i1 {
                authentication {
                    keychain k2
                }
            }
        }
    }
}
network-instance red {
    protocols {
        bgp {
            dynamic-neighbors {
                accept {
                    match 198.51.100.0/24 {
                        peer-group customers
                    }
                }
            }
            group customers {
                authentication {
                    keychain k1
                }
            }
        }
    }
}
system {
    authentication {
        keychain k1 {
            admin-state enable
            description "the \"first\""
            type tcp-ao
            key 1 {
                algorithm hmac-sha-1
                authentication-key "b7Qx2mPzk2Lr9sXw"
            }
            key 200 {
                algorithm aes-128-cmac
                authentication-key $aes1$AAAAAAAAAAAAAAA=$AAAAAAAAAAAAAAAAAAAAAA==
            }
            key 201 {
                algorithm hmac-sha-256
                authentication-key x
            }
        }
        keychain k2 {
            admin-state enable
            type isis
            key 1 {
                algorithm hmac-sha-256
                authentication-key x
            }
        }
    }
}
"#;

const COMMANDS: &str = r#"
set / network-instance default protocols bgp group edge authentication keychain k1
set / network-instance default protocols bgp neighbor 192.0.2.1 peer-group edge
set / network-instance default protocols bgp neighbor fe80::7%ethernet-1/1.0 authentication keychain k1
set / network-instance red protocols bgp dynamic-neighbors accept match 198.51.100.0/24 peer-group customers
set / network-instance red protocols bgp group customers authentication keychain k1
set / system authentication keychain k1 admin-state enable
set / system authentication keychain k1 description "the \"first\""
set / system authentication keychain k1 type tcp-ao
set / system authentication keychain k1 key 1 algorithm hmac-sha-1
set / system authentication keychain k1 key 1 authentication-key b7Qx2mPzk2Lr9sXw
set / system authentication keychain k1 key 200 algorithm aes-128-cmac authentication-key "AAAA hash"
set / system authentication keychain k1 key 201 algorithm hmac-sha-256
"#;

#[test]
fn keychains_are_the_same_in_braces_and_as_commands() {
    for text in [BRACES, COMMANDS] {
        let file = read_text(text);
        assert_eq!(file.format, Some(Format::SrLinux));
        let [chain] = &file.chains[..] else { panic!("one keychain of type tcp-ao") };
        assert_eq!((chain.name.as_str(), chain.description.as_deref()), ("k1", Some("the \"first\"")));
        let keys: Vec<_> = chain
            .keys
            .iter()
            .map(|key| format!("{}/{} {} {:?}", key.send_id, key.recv_id, key.algorithm, key.secret))
            .collect();
        let how = if text == BRACES { "$aes1$" } else { "hash" };
        assert_eq!(
            keys,
            [
                "1/1 HMAC-SHA-1-96 Secret(16 octets, Text)".to_owned(),
                format!("200/200 AES-128-CMAC-96 Secret({how})")
            ]
        );
        assert!(chain.keys.iter().all(|key| (key.send, key.accept) == (Lifetime::ALWAYS, Lifetime::ALWAYS)));
        let neighbors: Vec<_> = chain.neighbors.iter().map(ToString::to_string).collect();
        assert_eq!(neighbors, ["192.0.2.1", "fe80::7%ethernet-1/1.0", "198.51.100.0/24 vrf red"]);
        let found = found(&file);
        for expected in ["refused k1", "left-out k1/201", "encrypted k1/200"] {
            assert!(found.iter().any(|found| found == expected), "{expected}: {found:?}");
        }
        assert!(!Implementation::all().any(|it| it.name() == "sr-linux"), "it is not proven to have TCP-AO");
        assert!(convert(&file, Format::SrLinux).is_err());
    }
    assert_eq!(read_text(BRACES).skipped.len(), 1);
}

#[test]
fn what_is_not_in_use_or_not_understood_is_said() {
    let keychain = |rest: &str| {
        format!(
            "keychain k1 {{\n type tcp-ao\n key 1 {{\n algorithm hmac-sha-1\n authentication-key x\n }}\n{rest}}}\n"
        )
    };
    assert_eq!(
        error(&keychain("")),
        "keys: line 1, column 1: chain \"k1\": it is disabled, as keychains are by default, so its keys are left out: write \
         \"admin-state enable\""
    );
    let found = found(&read_text(&keychain(
        "admin-state enable\ntolerance 0\nfrobnicate 1\nkey 1 {\n frobnicate 2\n}\n",
    )));
    assert_eq!(found.iter().filter(|found| *found == "not-understood k1").count(), 2, "{found:?}");
    for (rest, expected) in [
        ("key 2 {\n algorithm hmac-sha-1\n}\n", "line 8, column 1, authentication-key: is missing"),
        ("key 2 {\n authentication-key hunter2\n}\n", "line 8, column 1, algorithm: is missing"),
        ("key 256 {\n}\n", "line 8, column 5, key: must be a whole number from 0 to 255"),
        ("key 2 {\n authentication-key\n}\n", "line 9, column 2, key: expected a value after this word"),
        ("key 2 {\n algorithm sm3\n}\n", "line 9, column 12, algorithm: expected hmac-sha-1 or aes-128-cmac"),
    ] {
        let error = error(&keychain(&format!("admin-state enable\n{rest}")));
        assert_eq!(error, format!("keys: {expected}"));
    }
    for end in 0..BRACES.len() {
        let _ = read(Path::new("keys"), &BRACES[..end], Some(Format::SrLinux));
        let _ = read(Path::new("keys"), &BRACES[end..], Some(Format::SrLinux));
    }
}

/// A command has its whole path, whatever is above it, and nothing else is a command.
#[test]
fn commands_stand_for_themselves() {
    let of = |text: &str| read(Path::new("keys"), text, Some(Format::SrLinux)).expect("keys");
    let (whole, indented) = (of(COMMANDS), of(&COMMANDS.replace('\n', "\n   ")));
    let nested = of(&COMMANDS.trim().replace('\n', "\n   "));
    for file in [indented, nested] {
        assert_eq!(chains(&file), chains(&whole));
        assert_eq!(file.chains[0].keys.len(), 2);
    }
    // The keychain of another protocol is not one that BGP's neighbors inherit.
    let default = "set / network-instance default protocols";
    let isis = format!(
        "{default} isis instance i1 authentication keychain k1\n{default} bgp neighbor 192.0.2.9 peer-as 1\n"
    );
    assert_eq!(chains(&of(&(COMMANDS.to_owned() + &isis))), chains(&whole));
    let not_understood = |file: &KeyFile| {
        let all = remarks(file).into_iter();
        all.filter(|remark| remark.contains(" not-understood: "))
            .map(|it| it.split(' ').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(not_understood(&of(BRACES)), [""; 0]);
    for line in ["set type isis", "unset / type isis"] {
        let file = of(&BRACES.replacen("type tcp-ao", &format!("type tcp-ao\n {line}"), 1));
        assert_eq!(not_understood(&file), ["51"], "{line}");
    }
    let unknown = of(&COMMANDS.replace("neighbor 192.0.2.1 peer", "neighbor somewhere peer"));
    assert_eq!(not_understood(&unknown), ["3"]);
}
