//! Configuration groups of Junos: where they are applied, what goes before what, and what is not resolved.

use super::junos::{CHAINS, file, key, set_key};
use super::routers::{chains, error_of, remarks};
use wireseal_keys::Format;

/// Juniper, CLI User Guide: a group is configuration where it is applied, own statements go before it, and the first group listed and the
/// lowest level go before the others.
#[test]
fn groups_are_inherited_where_they_are_applied() {
    let core = format!("security {{ authentication-key-chains {{ key-chain core {{ {} }} }} }}\n", key(1));
    let tolerance = |group: &str, seconds: u32| {
        format!(
            "{group} {{ security {{ authentication-key-chains {{ key-chain core {{ tolerance {seconds}; }} }} }} }}\n"
        )
    };
    let groups =
        format!("groups {{ {}{}{} }}\n", tolerance("one", 1), tolerance("two", 2), tolerance("three", 3));
    let level = |inside: &str| core.replace("key-chain core {", &format!("{inside} key-chain core {{"));
    for (text, expected) in [
        (core.clone(), 3600),
        (format!("apply-groups [ one two ];\n{core}"), 1),
        (format!("apply-groups [two one];\n{core}"), 2),
        (format!("apply-groups one;\n{}", core.replace("key 1", "tolerance 60; key 1")), 60),
        (format!("apply-groups one;\n{}", level("apply-groups three;")), 3),
        (format!("apply-groups [ one two ];\n{}", level("apply-groups-except one;")), 2),
        (format!("inactive: apply-groups one;\n{core}"), 3600),
        (format!("apply-groups one;\napply-groups-except one;\n{core}"), 3600),
    ] {
        let file = file(&format!("{groups}{text}"));
        assert_eq!(file.chains[0].accept_tolerance, expected, "{text}");
        assert_eq!(remarks(&file), [""; 0]);
    }
    let set = format!(
        "set groups one {CHAINS} core tolerance 7\nset apply-groups one\ndeactivate groups two\n{}",
        set_key("core", 1)
    );
    assert_eq!(file(&set).chains[0].accept_tolerance, 7);
}

/// The last one of the configuration, or else that of the first group.
#[test]
fn a_chain_has_one_description() {
    let described = |text: &str| format!("key-chain core {{ description {text}; }}");
    let security = |inside: &str| format!("security {{ authentication-key-chains {{ {inside} }} }}\n");
    let groups = format!(
        "groups {{ one {{ {} }} two {{ {} }} }}\napply-groups [ one two ];\n",
        security(&described("first")),
        security(&described("second"))
    );
    for (own, expected) in [
        (String::new(), "first"),
        (described("ours"), "ours"),
        (described("ours") + &described("newer"), "newer"),
    ] {
        let file = file(&(groups.clone() + &security(&own) + &set_key("core", 1)));
        assert_eq!(file.chains[0].description.as_deref(), Some(expected), "{own}");
    }
}

/// `*` stands for any characters, also for none, and `?` for one.
#[test]
fn a_pattern_matches_whole_names() {
    for (pattern, name, does_match) in [
        ("core", "core", true),
        ("cor", "core", false),
        ("<*>", "core", true),
        ("<core>", "core", true),
        ("<core*>", "core", true),
        ("<core?>", "core", false),
        ("<c?re>", "core", true),
        ("<c?re>", "cre", false),
        ("<?>", "c", true),
        ("<c*e>", "core", true),
        ("<c*x>", "core", false),
        ("<*re>", "core", true),
        ("<*rx>", "core", false),
        ("<*or>", "core", false),
        ("<*aab>", "aaab", true),
        ("<*-a-b>", "x-a-a-b", true),
        ("<a*b*c>", "aabbcbc", true),
        ("<a*b*c>", "aabbcb", false),
        ("<**>", "core", true),
        ("<", "core", false),
        ("core>", "core", false),
    ] {
        let chain = |inside: &str| format!("security {{ authentication-key-chains {{ {inside} }} }}\n");
        let group = chain(&format!("key-chain {pattern} {{ tolerance 7; }}"));
        let text = format!(
            "groups {{ one {{ {group} }} }}\napply-groups one;\n{}",
            chain(&format!("key-chain {name} {{ {} }}", key(1)))
        );
        let file = file(&text);
        let chain = file.chains.iter().find(|chain| chain.name == name).unwrap();
        assert_eq!(chain.accept_tolerance, if does_match { 7 } else { 3600 }, "{pattern} {name}");
    }
}

#[test]
fn a_groups_patterns_match_what_is_there() {
    let groups = format!(
        "groups {{\n ao {{ protocols {{ bgp {{ group <ext-*> {{ authentication-algorithm ao; authentication-key-chain core; \
         neighbor <192.0.2.?> {{ authentication-key-chain edge; }} }} }} }} }}\n \
         keys {{ security {{ authentication-key-chains {{ key-chain <*> {{ tolerance 5; key <*> {{ algorithm ao; }} }} }} }} }}\n}}\n\
         apply-groups [ keys ];\nsecurity {{ authentication-key-chains {{ key-chain core {{ {} }} key-chain edge {{ {} }} }} }}\n",
        key(1).replace("algorithm ao;", ""),
        key(2).replace("algorithm ao;", "")
    );
    let group = |name: &str, apply: &str| {
        format!(
            "group {name} {{ {apply} neighbor 192.0.2.1; neighbor 192.0.2.11 {{ peer-as 1; }} neighbor 198.51.100.1; }}"
        )
    };
    let bgp = |apply: &str, groups: String| format!("protocols {{ {apply} bgp {{ {groups} }} }}\n");
    for (text, expected) in [
        (
            bgp("apply-groups ao;", group("ext-a", "")),
            ["core: 1 @ 192.0.2.11 198.51.100.1", "edge: 2 @ 192.0.2.1"],
        ),
        (bgp("apply-groups ao;", group("int", "")), ["core: 1 @ ", "edge: 2 @ "]),
        (
            bgp(
                "",
                group("ext-a", "apply-groups ao;") + &group("ext-b", "").replace("192.0.2.1", "192.0.2.2"),
            ),
            ["core: 1 @ 192.0.2.11 198.51.100.1", "edge: 2 @ 192.0.2.1"],
        ),
        (bgp("apply-groups ao;", group("ext-a", "apply-groups-except ao;")), ["core: 1 @ ", "edge: 2 @ "]),
        (bgp("", group("int", "apply-groups ao;")), ["core: 1 @ ", "edge: 2 @ "]),
        // A neighbor is there, whether it is empty or only has groups of its own.
        (
            bgp(
                "apply-groups ao;",
                group("ext-a", "").replace("192.0.2.1;", "192.0.2.1 { apply-groups keys; }"),
            ),
            ["core: 1 @ 192.0.2.11 198.51.100.1", "edge: 2 @ 192.0.2.1"],
        ),
        (
            bgp(
                "",
                group("own", "authentication-algorithm ao; authentication-key-chain core;")
                    .replace("192.0.2.1;", "192.0.2.1 { apply-groups keys; }")
                    .replace("198.51.100.1;", "198.51.100.1 { apply-groups-except keys; }"),
            ),
            ["core: 1 @ 192.0.2.1 192.0.2.11 198.51.100.1", "edge: 2 @ "],
        ),
        (
            bgp("apply-groups ao;", group("ext-a", "authentication-key-chain edge;")),
            ["core: 1 @ ", "edge: 2 @ 192.0.2.1 192.0.2.11 198.51.100.1"],
        ),
    ] {
        let file = file(&format!("{groups}{text}"));
        assert_eq!(chains(&file), expected, "{text}");
        assert_eq!(remarks(&file), [""; 0], "{text}");
        assert_eq!(file.chains[1].accept_tolerance, 5);
    }
}

#[test]
fn what_is_not_resolved_in_groups_is_said() {
    let in_group = |name: &str, inside: &str| {
        format!(
            "groups {{ {name} {{ {inside} security {{ authentication-key-chains {{ key-chain core {{ tolerance 9; }} }} }} }} }}\n"
        )
    };
    let unknown = "2 not-understood: a group that is applied here is not in this text, so what it contributes is not known";
    let nested = "1 not-understood: a condition or a group inside of a group is not evaluated";
    for (text, expected) in [
        ("\napply-groups \"${node}\";\n".to_owned(), vec![unknown]),
        (in_group("a", "when { chassis tx; }") + "apply-groups a;\n", vec![nested]),
        (in_group("a", "apply-groups b;") + "apply-groups a;\n", vec![nested]),
        ("\ninterfaces { apply-groups c; }\n".to_owned(), vec![]),
        (in_group("a", ""), vec![]),
    ] {
        let file = file(&(text.clone() + &set_key("core", 1)));
        assert_eq!(remarks(&file), expected, "{text}");
        assert_eq!(file.skipped.len(), usize::from(text == in_group("a", "")), "{text}");
    }
}

/// A small file cannot make groups contribute without end.
#[test]
fn groups_contribute_within_limits() {
    let many = |line: &str, count: usize| {
        (0..count).map(|n| line.replace("NUMBER", &n.to_string())).collect::<String>()
    };
    let text = many(&format!("set groups g {CHAINS} core description NUMBER\n"), 3000)
        + &many(&format!("set {CHAINS} cNUMBER apply-groups g\n"), 3000)
        + &set_key("core", 1);
    let error = error_of(Format::Junos, &text);
    assert!(error.ends_with("apply-groups: the groups contribute too many statements to be read"), "{error}");
    let text = many("set groups g protocols bgp group <*NUMBER> neighbor <*> peer-as 1\n", 3000)
        + &many("set protocols bgp group NUMBER neighbor 192.0.2.1\n", 3000)
        + "set apply-groups g\n"
        + &set_key("core", 1);
    let error = error_of(Format::Junos, &text);
    assert!(error.ends_with("apply-groups: the groups contribute too many statements to be read"), "{error}");
}
