//! How statements are told apart in each dialect: over lines, beside comments, between braces and after prompts.

use wireseal_keys::Format;

use crate::routers::{chains, error_of, keys, read_file, remarks};

/// The keys of a text, and the lines that are not understood or otherwise remarked.
fn outcome(format: Format, text: &str) -> (Vec<String>, Vec<String>) {
    let file = read_file(text, format);
    (file.chains.iter().flat_map(keys).collect(), remarks(&file))
}

const JUNOS: &str = "security {
    authentication-key-chains {
        key-chain core {
            description \"ours\";
            key 1 {
                secret \"of-the-tests\";
                start-time \"2026-1-1.00:00:00 +0000\";
                algorithm ao;
                ao-attribute { send-id 1; recv-id 2; }
            }
        }
    }
}
";

#[test]
fn statements_of_junos_may_have_several_lines() {
    let expected = outcome(Format::Junos, JUNOS);
    assert_eq!(expected.0, ["core/1: 1/2 HMAC-SHA-1-96 of-the-tests"]);
    for (from, to) in [
        ("\"ours\"", "\"on two\nlines\""),
        ("secret \"", "secret\n\n \""),
        ("key 1 {", "key 1\n{"),
        ("security {", "security\n{"),
        ("security {", "security\n  {  \n"),
        ("security {", "system {\n    path /var/tmp;\n}\nsecurity {"),
        ("security {", "set system host-name a\n\nsecurity {"),
    ] {
        assert_eq!(outcome(Format::Junos, &JUNOS.replacen(from, to, 1)), expected, "{from} -> {to}");
    }
    let deep = |count: usize| format!("{}{}", "a {\n".repeat(count), "}\n".repeat(count));
    for (count, expected) in [
        (64, "has no key for TCP-AO (read as junos)"),
        (65, "line 65, column 3, block: blocks are nested too deeply"),
    ] {
        assert_eq!(error_of(Format::Junos, &deep(count)), format!("router.conf: {expected}"));
    }
}

#[test]
fn statements_of_bird_end_with_their_marks_alone() {
    let text = "define S =\n \"of-the-tests\";\nlog /dev/null all;\nprotocol bgp\n core\n{\n keys {\n key { id 1; secret S; }; };\n}\n";
    let (keys, _) = outcome(Format::Bird, text);
    assert_eq!(keys, ["core/1: 1/1 HMAC-SHA-1-96 of-the-tests"]);
}

#[test]
fn braces_and_hashes_are_words_where_nokia_has_them_so() {
    let sr_linux = |secret: &str| {
        format!(
            "set / system authentication keychain core admin-state enable\nset / system authentication keychain core type tcp-ao\nset / system \
             authentication keychain core key 1 algorithm hmac-sha-1\nset / system authentication keychain core key 1 authentication-key \
             {secret}\n"
        )
    };
    let sr_os = |secret: &str| {
        format!(
            "configure\n    system\n        security\n            keychain core\n                tcp-option-number\n                    receive \
             tcp-ao\n                    send tcp-ao\n                exit\n                direction\n                    bi\n                        \
             entry 1 key {secret} algorithm hmac-sha-1-96\n                            begin-time 2026/01/01 00:00 UTC\n"
        )
    };
    for secret in ["{of-the-tests", "}of-the-tests", "#of-the-tests"] {
        for (format, text) in [(Format::SrLinux, sr_linux(secret)), (Format::SrOs, sr_os(secret))] {
            assert_eq!(outcome(format, &text).0, [format!("core/1: 1/1 HMAC-SHA-1-96 {secret}")], "{text}");
            // A comment has a line of its own, and does not end what is around it.
            let commented = text.replacen("key 1 algorithm", "key 1\n# }\n algorithm", 1).replacen(
                "                        entry",
                "# entry 2 {\n                        entry",
                1,
            );
            assert_ne!(commented, text);
            assert_eq!(outcome(format, &commented).0, outcome(format, &text).0, "{commented}");
        }
    }
}

#[test]
fn prompts_of_every_kind_are_passed_over() {
    let text = "keychain core mode absolute\n key-id 1\n  algorithm aes-128-cmac\n  key-string plain of-the-tests\ntcp ao P\n binding keychain \
                core\n key-id 1\n  send-id 1 receive-id 2\nbgp 65000\n peer 192.0.2.1 tcp-ao policy P\n";
    let expected = chains(&read_file(text, Format::Vrp));
    assert_eq!(expected, ["P: 1 @ 192.0.2.1"]);
    for prompt in ["<edge1>", "<edge1> ", "[edge1]", "[~edge1-bgp] ", "edge1# "] {
        let typed: String = text.lines().map(|line| format!("{prompt}{}\n", line.trim_start())).collect();
        assert_eq!(chains(&read_file(&typed, Format::Vrp)), expected, "{typed}");
    }
}
