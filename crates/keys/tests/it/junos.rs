//! Junos configuration: its key chains and their users, in braces and as commands, with configuration groups.

use std::path::Path;

use wireseal_keys::{Format, KeyFile, Lifetime, Notation, Timestamp, check as check_file};
use wireseal_tcp_ao::OptionCoverage::{Covered, Excluded};

use super::routers::{
    chains, check, error_of, keys, lifetime, load_data, no_part_panics_or_shows_a_secret, peers, read_file,
    read_text, remarks,
};

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
    let ids = "send-id 1; recv-id 1;";
    let other = format!("  secret x;\n  ao-attribute {{ {ids} cryptographic-algorithm hmac-md5; }}");
    let error = error_of(Format::Junos, &key(&other));
    assert!(error.starts_with("router.conf: ") && error.contains("MD5 is broken"), "{error}");
    // Another key of the chain is read all the same.
    let good =
        format!(" key 1 {{\n  algorithm ao; secret y; ao-attribute {{ {} }}\n }}\n}}", ids.replace('1', "2"));
    let both = key(&other).trim_end_matches('}').to_owned() + &good;
    let file = read_file(&both, Format::Junos);
    assert_eq!(keys(&file.chains[0]), ["c/1: 2/2 HMAC-SHA-1-96 y"]);
    assert!(remarks(&file).iter().any(|said| said.starts_with("5 left-out: is left out: MD5 is broken")));
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
                "line 1, column 15: has no key for TCP-AO (read as junos); left out: a key without algorithm ao",
            ),
        ],
    );
}

pub(super) fn file(text: &str) -> KeyFile {
    read_file(text, Format::Junos)
}

const NOT_UNDERSTOOD: &str = "not-understood: this line is not understood, and ignored";

/// The commands that set a key.
pub(super) fn set_key(chain: &str, id: u8) -> String {
    let key = format!("set security authentication-key-chains key-chain {chain} key {id}");
    format!(
        "{key} secret Vd8zqkT1p0wYhU3m\n{key} start-time \"2026-1-{}.00:00:00 +0000\"\n{key} algorithm ao\n\
         {key} ao-attribute send-id {id}\n{key} ao-attribute recv-id {id}\n",
        1 + id
    )
}

/// A key in braces.
pub(super) fn key(id: u8) -> String {
    format!(
        "key {id} {{ secret Vd8zqkT1p0wYhU3m; start-time \"2026-1-{}.00:00:00 +0000\"; algorithm ao; ao-attribute {{ send-id {id}; \
         recv-id {id}; }} }}",
        1 + id
    )
}

pub(super) const CHAINS: &str = "security authentication-key-chains key-chain";
const USE: &str = "set protocols bgp group ext authentication-algorithm ao\nset protocols bgp group ext \
                   authentication-key-chain core\nset protocols bgp group ext neighbor 192.0.2.1 peer-as 64501\n";

#[test]
fn every_line_outside_of_blocks_ends_a_command() {
    for line in [
        "protect security authentication-key-chains key-chain core key 1",
        "user@router> show configuration | display set ",
        "user@router# show security",
        "root@> show configuration",
        "## Last commit: 2026-11-26 10:00:00 UTC by user \"",
        "[edit security]",
        "{master:0}[edit]",
        "{master}",
        "annotate security \"two; keys {\"",
        "insert security policies policy a before policy b",
        "user@router> ping 192.0.2.1 rapid",
        // With a semicolon it is no command.
        "edit groups g;",
        "",
    ] {
        let text =
            format!("{line}\n{}{line}\n\n{}{line}\n{USE}{line}", set_key("core", 1), set_key("core", 2));
        let file = file(&text);
        assert_eq!(chains(&file), ["core: 1 2 @ 192.0.2.1"], "{line}");
        assert_eq!(remarks(&file), [""; 0], "{line}");
    }
    for line in [
        "rename security authentication-key-chains key-chain a to key-chain core",
        "replace pattern a with b",
        "copy security authentication-key-chains key-chain a to key-chain b",
        "up",
        "load merge terminal",
        "---(more 42%)---",
        "what is this",
        &format!("edit{}", " a".repeat(65)),
    ] {
        let text = format!("{}{line}\n{}{USE}", set_key("core", 1), set_key("core", 2));
        let file = file(&text);
        assert_eq!(chains(&file), ["core: 1 2 @ 192.0.2.1"], "{line}");
        assert_eq!(remarks(&file), [format!("6 {NOT_UNDERSTOOD}")], "{line}");
    }
    let text = format!("{}set system login message \"first\nsecond\"\n", set_key("core", 1));
    assert_eq!(error_of(Format::Junos, &text), "router.conf: line 6, column 26, string: has no end");
}

/// Junos prints a prompt, what was typed, and the level above it.
#[test]
fn it_has_what_was_typed_at_a_prompt() {
    let typed = |text: &str| {
        let prompt = "\n[edit]\nuser@router# ";
        format!("{prompt}{}\n", text.trim_end().replace('\n', prompt))
    };
    let text = typed(&(set_key("core", 1) + USE)) + "\nuser@router# commit\ncommit complete\n";
    let file = file(&text);
    assert_eq!(chains(&file), ["core: 1 @ 192.0.2.1"]);
    assert_eq!(remarks(&file), [""; 0]);
}

/// As operators publish both parts of a session: TCP-AO/Configuration-examples, CiscoIOS-XR.md.
#[test]
fn what_is_shown_belongs_to_the_level_that_was_asked_for() {
    let group = "type external;\nmultihop {\n    ttl 8;\n}\nauthentication-algorithm ao;\nauthentication-key-chain core;\n\
                 neighbor 192.0.2.1 {\n    peer-as 64501;\n}\n";
    let (chain, bgp) = ("security authentication-key-chains key-chain core", "protocols bgp group ext");
    for text in [
        format!(
            "user@r> show configuration {chain} | display set relative\n{}user@r> show configuration {bgp} | display set relative\n{}",
            set_key("core", 1).replace(&format!("set {CHAINS} core "), "set "),
            USE.replace("protocols bgp group ext ", "")
        ),
        format!(" show configuration {chain}\n{}\n\n show configuration {bgp} | no-more\n{group}", key(1)),
        format!(
            "user@r> show configuration {chain} \n{}\n\n{{master}}\nuser@r> show configuration {bgp}\n{group}",
            key(1)
        ),
        format!(
            "[edit]\nuser@r# show {chain}\n{}\n[edit protocols bgp]\nuser@r# show group ext\n{group}",
            key(1)
        ),
        // Neither shows a part of the configuration.
        format!(
            "user@r> show groups g\nsecurity {{ authentication-key-chains {{ key-chain core {{ {} }} }} }}\n{USE}",
            key(1)
        ),
        format!(
            "show configuration groups g;\nsecurity {{ authentication-key-chains {{ key-chain core {{ {} }} }} }}\n{USE}",
            key(1)
        ),
        format!(
            "user@r> show configuration security\nauthentication-key-chains {{ key-chain core {{ {} }} }}\n{USE}",
            key(1)
        ),
    ] {
        let file = file(&text);
        assert_eq!(chains(&file), ["core: 1 @ 192.0.2.1"], "{text}");
        assert_eq!(remarks(&file), [""; 0], "{text}");
    }
}

#[test]
fn commands_are_relative_to_their_level() {
    let key = set_key("core", 1).replace(&format!("set {CHAINS} core "), "set ");
    let (bgp, group) = (USE.replace("protocols bgp ", ""), USE.replace("protocols bgp group ext ", ""));
    for text in [
        format!("edit {CHAINS} core\n{key}exit\n{USE}"),
        format!(
            "edit security\nedit authentication-key-chains\nexit\nedit authentication-key-chains key-chain core\n{key}top\n{USE}"
        ),
        format!("edit {CHAINS} core\n{key}top edit protocols\nedit bgp group ext\n{group}"),
        format!(
            "[edit {CHAINS} core]\nuser@router# {}\n[edit protocols bgp]\n{bgp}",
            key.trim_end().replace('\n', "\nuser@router# ")
        ),
        format!("edit protocols bgp\n{bgp}top {}", set_key("core", 1).trim_end().replace('\n', "\ntop ")),
    ] {
        let file = file(&text);
        assert_eq!(chains(&file), ["core: 1 @ 192.0.2.1"], "{text}");
        assert_eq!(remarks(&file), [""; 0], "{text}");
    }
}

#[test]
fn words_of_commands_with_a_semicolon_go_to_no_level() {
    let group = USE.replace("protocols bgp ", "");
    for word in ["top", "exit"] {
        let text = |end: &str| {
            format!("{}edit routing-instances red protocols bgp\n{word}{end}\n{group}", set_key("core", 1))
        };
        assert_eq!(chains(&file(&text(";"))), ["core: 1 @ 192.0.2.1 vrf red"], "{word}");
        assert_eq!(chains(&file(&text(""))), ["core: 1 @ 192.0.2.1"], "{word}");
    }
}

#[test]
fn a_part_of_a_configuration_may_be_braces_or_relative_commands() {
    let relative = set_key("core", 1).replace("security authentication-key-chains ", "");
    let group = "set group ext authentication-algorithm ao\nset group ext authentication-key-chain core\n\
                 set group ext neighbor 192.0.2.1\n";
    let pasted = format!(
        "user@router> show configuration security authentication-key-chains\nkey-chain core {{\n    {}\n}}\n\n{{master}}\n\
         user@router> show configuration protocols bgp\ngroup ext {{\n    authentication-algorithm ao;\n    \
         authentication-key-chain core;\n    neighbor 192.0.2.1;\n}}\n",
        key(1)
    );
    let protocol = format!(
        "key-chain core {{ {} }}\nbgp {{ group ext {{ authentication-algorithm ao; authentication-key-chain core; neighbor 192.0.2.1; }} }}\n",
        key(1)
    );
    // A level without its name, as it is before the name is typed.
    let nameless = format!("{}{USE}set protocols bgp group\n", set_key("core", 1));
    for text in [relative + group, pasted, protocol, nameless] {
        let file = file(&text);
        assert_eq!(chains(&file), ["core: 1 @ 192.0.2.1"], "{text}");
        assert_eq!(remarks(&file), [""; 0], "{text}");
    }
    let text = format!(
        "security\n{{\n    authentication-key-chains {{ protect: key-chain core {{ {} }} }} }}",
        key(1)
    );
    assert_eq!(chains(&file(&text)), ["core: 1 @ "]);
}

/// A command concerns what stands before it, and a deactivated part deactivates what is in it.
#[test]
fn commands_delete_and_deactivate() {
    let both = set_key("core", 1) + &set_key("core", 2) + USE;
    for (commands, expected) in [
        (format!("delete {CHAINS} core key 1"), "core: 2 @ 192.0.2.1"),
        (format!("delete {CHAINS} core key 1\n{}", set_key("core", 1)), "core: 2 1 @ 192.0.2.1"),
        (format!("deactivate {CHAINS} core key 1"), "core: 2 @ 192.0.2.1"),
        (format!("deactivate {CHAINS} core key 1\nactivate {CHAINS} core key 1"), "core: 1 2 @ 192.0.2.1"),
        (format!("activate {CHAINS} core key 1\ndeactivate {CHAINS} core key 1"), "core: 2 @ 192.0.2.1"),
        (
            format!("deactivate {CHAINS} core key 1\ndelete {CHAINS} core key 1\n{}", set_key("core", 1)),
            "core: 2 1 @ 192.0.2.1",
        ),
        ("deactivate protocols".to_owned(), "core: 1 2 @ "),
        ("deactivate protocols\nactivate protocols bgp".to_owned(), "core: 1 2 @ "),
        ("deactivate protocols\nactivate protocols".to_owned(), "core: 1 2 @ 192.0.2.1"),
        ("delete protocols bgp group ext neighbor 192.0.2.1".to_owned(), "core: 1 2 @ "),
        ("delete protocols bgp group ext neighbor 192.0.2.1 peer-as".to_owned(), "core: 1 2 @ 192.0.2.1"),
    ] {
        assert_eq!(chains(&file(&format!("{both}{commands}\n"))), [expected], "{commands}");
    }
    assert_eq!(
        error_of(Format::Junos, &format!("{both}delete\n")),
        "router.conf: has no key for TCP-AO (read as junos)"
    );
}

#[test]
fn the_nearest_level_decides_and_each_instance_is_its_own() {
    let text = format!(
        "security {{ authentication-key-chains {{ key-chain a {{ {} }} key-chain b {{ {} }} }} }}\n\
         protocols {{ bgp {{ authentication-key-chain a; authentication-algorithm ao; local-interface ge-0/0/9.0;\n\
         group one {{ neighbor 192.0.2.1; neighbor fe80::1 {{ local-interface ge-0/0/0.0; authentication-key-chain b; }} }}\n\
         group two {{ authentication-key-chain b; allow [ 198.51.100.0/24 2001:db8::/32 ]; neighbor 192.0.2.2 {{ }} }}\n\
         group md5 {{ authentication-algorithm md5; neighbor 192.0.2.3; neighbor 192.0.2.4 {{ authentication-algorithm ao; }} }} }} }}\n\
         routing-instances {{ red {{ protocols {{ bgp {{ group one {{ authentication-key-chain b; authentication-algorithm ao;\n\
         neighbor 192.0.2.1; }} }} }} }} blue {{ protocols {{ bgp {{ group one {{ neighbor 192.0.2.9; }} }} }} }} }}\n\
         routing-options {{ bmp {{ station s {{ authentication-algorithm ao; authentication-key-chain b; station-address 192.0.2.5; }} }} }}\n\
         protocols {{ ldp {{ authentication-key-chain a; session-group 203.0.113.0/24 {{ authentication-algorithm ao; }} }} }}\n",
        key(1),
        key(2)
    )
    .replace(" local-interface ge-0/0/9.0;", "");
    let file = file(&text);
    assert_eq!(
        chains(&file),
        [
            "a: 1 @ 192.0.2.1 192.0.2.3 192.0.2.4 203.0.113.0/24",
            "b: 2 @ fe80::1%ge-0/0/0.0 198.51.100.0/24 2001:db8::/32 192.0.2.2 192.0.2.1 vrf red 192.0.2.5",
        ]
    );
    let older = "- older-option: not TCP-AO but the older TCP option is used with 192.0.2.3 (no authentication-algorithm ao)";
    assert_eq!(remarks(&file), [older]);
}

#[test]
fn what_junos_refuses_is_said() {
    let chain = |keys: &[String]| format!("key-chain c {{ {} }}", keys.join(" "));
    let start = "start-time \"2026-1-2.00:00:00 +0000\";";
    for (keys, expected) in [
        (vec![key(1), key(2)], vec![]),
        (vec![key(1).replace(start, "")], vec!["key 1 refused: Junos requires a start-time for every key"]),
        (
            vec![key(1), key(2).replace("2026-1-3.00:00:00 +0000", "2026-1-2.01:00 +0100")],
            vec!["key 2 refused: Junos requires different start-times: key 1 has the same"],
        ),
        (
            vec![key(1), key(2).replace("recv-id 2", "recv-id 3"), key(3).replace("recv-id 3", "recv-id 4")],
            vec![
                "key 3 refused: Junos requires ids that no other key of the chain has: 3 is also an id of key 2",
            ],
        ),
        // Starts in 1970 are those of keys without a start, and differ too.
        (vec![key(1).replace("2026-1-2", "1970-1-1"), key(2).replace("2026-1-3", "1970-1-2")], vec![]),
    ] {
        assert_eq!(remarks(&file(&chain(&keys))), expected, "{keys:?}");
    }
    let words =
        key(1).replace("algorithm ao;", "algorithm ao; key-name ab; options basic; colour red; secret;");
    let words = words.replace("recv-id 1;", "recv-id 1; send-id 1 2;");
    let expected = vec![format!("1 {NOT_UNDERSTOOD}"); 4];
    assert_eq!(remarks(&file(&chain(&[words, "flavour salt;".to_owned()]))), expected);
    let text = set_key("core", 1) + "set protocols ldp session 192.0.2.1 authentication-key-chain other\n";
    assert_eq!(remarks(&file(&text)), ["6 missing: key chain \"other\" is not in the file"]);
}

#[test]
fn starts_have_several_forms() {
    for (start, expected) in [
        ("\"2026-1-2.03:04:05 +0000\"", "2026-01-02T03:04:05Z"),
        ("2026-01-02.03:04:05", "2026-01-02T03:04:05Z"),
        ("\"2026-01-02.03:04\"", "2026-01-02T03:04:00Z"),
        ("2026-1-2.03:04:05 -0130", "2026-01-02T04:34:05Z"),
        ("\"2026-1-2.03:04:05 +0530\"", "2026-01-01T21:34:05Z"),
    ] {
        let text = key(1).replace("\"2026-1-2.00:00:00 +0000\"", start);
        assert_eq!(file(&text).chains[0].keys[0].send, lifetime(expected, ""), "{start}");
    }
}

#[test]
fn secrets_are_whole_or_encrypted() {
    let with = |secret: &str| key(1).replace("Vd8zqkT1p0wYhU3m", secret);
    let encrypted = file(&with("\"$8$aes256-gcm$hmac-sha2-256$100$abc\""));
    assert_eq!(encrypted.chains[0].keys[0].secret.encryption(), Some("$8$"));
    let findings = check_file(&encrypted, Timestamp::from_unix_seconds(1_800_000_000), &[]);
    assert!(findings.iter().any(|it| it.kind == "encrypted"), "{findings:?}");
    assert_eq!(file(&with("\"aS3cret#1of16char\"")).chains[0].keys[0].secret.expose(), b"aS3cret#1of16char");
    assert_eq!(
        error_of(Format::Junos, &with("aS3cret#hunter2hunter2")),
        "router.conf: line 1, column 16, secret: has a # outside of quotes, which may begin a comment: write the secret in quotes"
    );
    let commented = key(1).replace("Vd8zqkT1p0wYhU3m;", "Vd8zqkT1p0wYhU3m; ## SECRET-DATA }\n");
    assert_eq!(file(&commented).chains[0].keys[0].secret.expose(), b"Vd8zqkT1p0wYhU3m");
}

/// A configuration with everything that is read, and a marker wherever a secret may be.
const TEXT: &str = "user@router# show | display set\ngroups { g { security { authentication-key-chains { key-chain <*> { key <1*> { secret \
                    \"hunter2hunter2\"; } } } } } }\napply-groups [ g h ];\nset security authentication-key-chains key-chain c key 1 secret \
                    hunter2hunter2\nset security authentication-key-chains key-chain c key 1 algorithm ao\ndeactivate protocols\n\
                    protocols { bgp { authentication-key-chain c; authentication-algorithm ao; group g { apply-groups-except g; neighbor \
                    fe80::1 { local-interface ge-0/0/0.0; } allow [ 192.0.2.0/24 all ]; } } }\nactivate protocols\n\
                    security { authentication-key-chains { key-chain c { key 1 { start-time \"2026-1-1.00:00:00 +0000\"; ao-attribute { send-id \
                    1; recv-id 2; } } inactive: key 2 { secret \"hunter2hunter2\"; } } } }\n";

#[test]
fn no_part_of_a_text_panics_or_shows_a_secret() {
    assert_eq!(chains(&file(TEXT)), ["c: 1 @ fe80::1%ge-0/0/0.0 192.0.2.0/24 0.0.0.0/0 ::/0"]);
    no_part_panics_or_shows_a_secret(Format::Junos, TEXT);
}

#[test]
fn a_text_is_junoss_by_its_own_words() {
    for text in [
        "set version 22.4R3.25\n",
        "user@router> show configuration | display set\n",
        "security {\n",
        "key-chain core {\n",
        "        authentication-key-chain core;\n",
        "set protocols bgp group ext neighbor 192.0.2.1\n",
        "security\n",
        "authentication-key-chains {\n",
    ] {
        assert_eq!(Format::of(Path::new("router"), text), Some(Format::Junos), "{text}");
    }
}
