//! Junos configuration: its key chains and their users, in braces and as commands, with configuration groups.

use wireseal_keys::{Format, Lifetime, Notation};
use wireseal_tcp_ao::OptionCoverage::{Covered, Excluded};

use super::routers::{check, error_of, keys, lifetime, load_data, peers, read_text};

#[test]
fn it_has_its_keys_by_chain_in_braces_and_as_commands() {
    let file = load_data("junos.conf", Format::Junos);
    let [interop, new] = &file.chains[..] else { panic!("two chains with algorithm ao") };
    assert_eq!(keys(interop), ["XR-interop/0: 0/0 HMAC-SHA-1-96 interop"]);
    assert_eq!(interop.keys[0].secret.notation(), Notation::JunosNine);
    assert_eq!(peers(interop), ["172.16.12.170", "2001:db8::9"]);
    assert_eq!(interop.accept_tolerance, 3600);
    assert_eq!(interop.keys[0].send, lifetime("2021-06-29T00:00:00Z", ""));
    assert_eq!((interop.keys[0].options, interop.keys[0].mac_length), (Covered, 12));

    assert_eq!(
        keys(new),
        [
            "new_auth_key/0: 3/8 AES-128-CMAC-96 a \"quoted\" secret",
            "new_auth_key/1: 4/9 HMAC-SHA-1-96 hello"
        ]
    );
    assert_eq!(peers(new), ["172.16.12.192", "10.0.0.7"]);
    assert_eq!((new.description.as_deref(), new.accept_tolerance), (Some("core sessions"), 600));
    // Each key is sent with until the next one starts, and accepted from its start on; times have offsets.
    assert_eq!(new.keys[0].send, lifetime("2021-01-01T00:00:00Z", "2021-07-01T00:00:00Z"));
    assert_eq!(new.keys[0].accept, lifetime("2021-01-01T00:00:00Z", ""));
    assert_eq!(new.keys[1].send, lifetime("2021-07-01T00:00:00Z", ""));
    // Without tcp-ao-option, TCP options are not covered.
    assert_eq!((new.keys[0].options, new.keys[1].options), (Excluded, Covered));

    let commands = load_data("junos-set.conf", Format::Junos);
    assert_eq!(commands.chains.len(), file.chains.len());
    for (one, other) in commands.chains.iter().zip(&file.chains) {
        assert_eq!(
            (&one.name, &one.description, one.accept_tolerance),
            (&other.name, &other.description, other.accept_tolerance)
        );
        assert_eq!(peers(one), peers(other));
        assert!(one.keys.iter().zip(&other.keys).all(|(one, other)| one.is_same_key(other)));
        assert_eq!(one.keys.len(), other.keys.len());
    }
}

#[test]
fn it_has_a_part_of_a_configuration() {
    let text = "key 0 { secret x; algorithm ao; ao-attribute { send-id 1; recv-id 2; } }";
    assert_eq!(keys(&read_text(text, Format::Junos)[0]), ["0: 1/2 HMAC-SHA-1-96 x"]);
    let text =
        "key-chain \"a b\" { key 5 { secret x; algorithm ao; ao-attribute { send-id 1; recv-id 2; } } }";
    let chains = read_text(text, Format::Junos);
    assert_eq!(keys(&chains[0]), ["a b/5: 1/2 HMAC-SHA-1-96 x"]);
    assert_eq!(chains[0].keys[0].send, Lifetime::ALWAYS);
}

#[test]
fn every_peer_of_a_chain_has_its_keys() {
    let keys = load_data("junos.conf", Format::Junos).keys().expect("usable keys").keys;
    let named: Vec<_> =
        keys.iter().map(|key| format!("{} {}", key.name, key.peer.expect("every chain is used"))).collect();
    assert_eq!(
        named,
        [
            "XR-interop/0 172.16.12.170",
            "XR-interop/0 2001:db8::9",
            "new_auth_key/0 172.16.12.192",
            "new_auth_key/0 10.0.0.7",
            "new_auth_key/1 172.16.12.192",
            "new_auth_key/1 10.0.0.7",
        ]
    );
    assert_eq!(keys[2].accept_tolerance, 600);
}

#[test]
fn errors_name_the_place() {
    let key = |inside: &str| format!("key-chain c {{\n key 0 {{\n  algorithm ao;\n{inside}\n }}\n}}");
    let ids = "  ao-attribute { send-id 1; recv-id 1; }\n";
    let case = |inside: &str, expected: &str| {
        assert_eq!(error_of(Format::Junos, &key(inside)), format!("router.conf: {expected}"), "{inside}");
    };
    case(ids, "line 2, column 2, secret: is missing");
    case("  secret hunter2hunter2;", "line 2, column 2, send-id: is missing");
    case("  secret hunter2hunter2;\n  ao-attribute { send-id 1; }", "line 2, column 2, recv-id: is missing");
    case(
        "  ao-attribute { send-id 256; }",
        "line 4, column 26, send-id: must be a whole number from 0 to 255",
    );
    case(
        "  ao-attribute { recv-id hunter2hunter2; }",
        "line 4, column 26, recv-id: must be a whole number from 0 to 255",
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
                "line 1, column 19, key: must be a whole number from 0 to 18446744073709551615",
            ),
            (
                "key-chain c { tolerance x; }",
                "line 1, column 25, tolerance: must be a whole number from 0 to 999999999",
            ),
            ("key-chain c { key 0 { secret \"hunter2hunter2; } }", "line 1, column 30, string: has no end"),
            ("key-chain c {\n key 0 {", "line 2, column 9, block: has no end"),
            ("key-chain c { } }", "line 1, column 17, block: expected a statement"),
            (
                "key-chain c { key 0 { secret hunter2hunter2; algorithm md5; } }",
                "has no key for TCP-AO (read as junos)",
            ),
        ],
    );
}
