//! BGP of IOS XR: which neighbor uses which chain, and what is said about it.

use std::path::Path;

use wireseal_keys::{End, Format, convert, read};

use super::ios_xr::{chain, file, said, users};

#[test]
fn neighbors_of_different_vrfs_are_different_neighbors() {
    let text = chain("A", "")
        + &chain("B", "")
        + "router bgp 64501\n neighbor 10.0.0.1\n  ao A include-tcp-options enable\n !\n vrf RED\n  neighbor 10.0.0.1\n   ao B \
           include-tcp-options enable\n  !\n  neighbor 10.0.0.2\n   ao A include-tcp-options enable\n vrf BLUE\n  neighbor \
           10.0.0.1\n   ao A include-tcp-options disable\n";
    let file = file(&text);
    let expected =
        ["10.0.0.1: A", "10.0.0.2 vrf RED: A", "10.0.0.1 vrf BLUE: A without options", "10.0.0.1 vrf RED: B"];
    assert_eq!(users(&file), expected);
    assert_eq!(said(&file), [""; 0]);
    let written = convert(&file, Format::IosXr).expect("a configuration");
    assert_eq!(written.losses, [""; 0]);
    assert_eq!(users(&self::file(&written.text)), expected);
}

/// The rules are those of Cisco's BGP Configuration Guide for Cisco 8000 Series Routers, Precedence of configuration template inheritance.
#[test]
fn a_neighbor_has_its_own_chain_or_that_of_its_groups() {
    const AO: &str = "include-tcp-options enable";
    let group = |kind: &str, name: &str, inside: &str| format!(" {kind}-group {name}\n  {inside}\n !\n");
    let groups = group("session", "SA", &format!("ao A {AO}"))
        + &group("session", "SOFF", "ao inheritance-disable")
        + &group("session", "STWO", "use session-group SA")
        + &group("neighbor", "NB", &format!("ao B {AO}"))
        + &group("neighbor", "NSA", "use session-group SA\n  use neighbor-group NB")
        + &group("neighbor", "NTWO", "use neighbor-group NSA")
        + &group("neighbor", "NNONE", "remote-as 64500");
    for (inside, expected) in [
        ("ao A {AO}", Some("A")),
        ("ao A {AO}\n  use session-group SB", Some("A")),
        ("use session-group SA", Some("A")),
        ("use neighbor-group NB", Some("B")),
        ("use neighbor-group NB\n  use session-group SA", Some("A")),
        ("use session-group SA\n  use neighbor-group NB", Some("A")),
        ("use session-group STWO\n  use neighbor-group NB", Some("A")),
        ("use neighbor-group NSA", Some("A")),
        ("use neighbor-group NTWO", Some("A")),
        ("use neighbor-group NNONE", None),
        ("use neighbor-group NNONE\n  use neighbor-group NB", Some("B")),
        ("use session-group SA\n  ao B {AO}", Some("B")),
        ("use session-group SA\n  ao inheritance-disable", None),
        ("ao inheritance-disable\n  use session-group SA", None),
        ("use neighbor-group NB\n  use session-group SOFF", None),
        ("ao B {AO}\n  no ao", None),
        ("use session-group SA\n  ao B {AO}\n  no ao B", Some("A")),
        ("use session-group SA\n  no use session-group SA", None),
        ("use session-group SA\n  description use session-group nowhere", Some("A")),
        ("use session-group SA\n  no description session-group", Some("A")),
        ("remote-as 64502\n !\n neighbor 192.0.2.1\n  ao A {AO}", Some("A")),
        ("ao A {AO}\n !\n no neighbor 192.0.2.1", None),
        ("use neighbor-group NEW\n !\n neighbor-group NEW\n  ao A {AO}\n !\n no neighbor-group NEW", None),
        ("address-family ipv4 unicast\n   use af-group SA\n  !\n  use session-group SA", Some("A")),
        ("description ao A {AO}\n  address-family ipv4 unicast\n   route-policy ao in", None),
    ] {
        let inside = inside.replace("{AO}", AO);
        // The order of groups and neighbors does not matter, nor does the VRF.
        for vrf in ["", " vrf RED\n"] {
            let neighbor = format!("{vrf} neighbor 192.0.2.1\n  {inside}\n !\n");
            let neighbor = if vrf.is_empty() { neighbor } else { neighbor.replace("\n ", "\n  ") };
            for bgp in [format!("{groups}{neighbor}"), format!("{neighbor}{groups}")] {
                let text = chain("A", "") + &chain("B", "") + "router bgp 64501\n" + &bgp;
                let expected = expected.map(|chain| {
                    let vrf = if vrf.is_empty() { "" } else { " vrf RED" };
                    format!("192.0.2.1{vrf}: {chain}")
                });
                assert_eq!(users(&file(&text)), Vec::from_iter(expected), "{bgp}");
            }
        }
    }
}

#[test]
fn instances_of_bgp_have_their_own_groups() {
    let instance = |name: &str, neighbor: &str, chain: &str| {
        format!(
            "router bgp 64501 instance {name}\n session-group S\n  ao {chain} include-tcp-options enable\n !\n neighbor {neighbor}\n  \
             use session-group S\n !\n!\n"
        )
    };
    let text = chain("A", "")
        + &chain("B", "")
        + &instance("one", "192.0.2.0/24", "A")
        + &instance("two", "2001:db8::1/64", "B");
    let flat: String = text.lines().flat_map(|line| [line.trim(), "\n"]).collect();
    for text in [text, flat] {
        assert_eq!(users(&file(&text)), ["192.0.2.0/24: A", "2001:db8::/64: B"]);
    }
}

#[test]
fn what_is_odd_about_neighbors_is_said() {
    let bgp = |lines: &[&str]| {
        let text = chain("A", "") + "router bgp 64501\n" + &lines.join("\n");
        (users(&file(&text)), said(&file(&text)))
    };
    const NEIGHBOR: &str = " neighbor 192.0.2.1";
    const AO: &str = "  ao A include-tcp-options enable";
    let one = || vec!["192.0.2.1: A".to_owned()];
    assert_eq!(bgp(&[NEIGHBOR, AO]), (one(), vec![]));
    for (lines, expected) in [
        (
            &[NEIGHBOR, "  ao A include-tcp-options enable accept-ao-mismatch-connection"][..],
            "17 accepts-mismatch A: accepts connections without TCP-AO from 192.0.2.1 (accept-ao-mismatch-connection)",
        ),
        (
            &[NEIGHBOR, "  ao A"],
            "17 note: assumed : `ao` without include-tcp-options is read as include-tcp-options enable",
        ),
        (
            &[NEIGHBOR, "  ao A include-tcp-options enable hunter2"],
            "17 not-understood : this line is not understood, and ignored",
        ),
        (&[NEIGHBOR, AO, " no vrf RED"], "18 not-understood : this line is not understood, and ignored"),
        (
            &[NEIGHBOR, AO, " no neighbor 192.0.2.1 ao"],
            "18 not-understood : this line is not understood, and ignored",
        ),
        (
            &[NEIGHBOR, AO, " no neighbor 192.0.2.1 ao A include-tcp-options enable"],
            "18 not-understood : this line is not understood, and ignored",
        ),
        (
            &[NEIGHBOR, AO, " no neighbor 192.0.2.1 use session-group S"],
            "18 not-understood : this line is not understood, and ignored",
        ),
        (
            &[NEIGHBOR, AO, "  address-family ipv4 unicast", "   ao B"],
            "19 not-understood : this line is not understood, and ignored",
        ),
        (&[NEIGHBOR, AO, "  ao"], "18 not-understood : this line is not understood, and ignored"),
        (
            &[NEIGHBOR, AO, "!", " ao A include-tcp-options enable"],
            "19 not-understood : this line is not understood, and ignored",
        ),
        (
            &[NEIGHBOR, AO, " neighbor peer", AO],
            "19 not-understood : this line is not understood, and ignored",
        ),
        (
            &[NEIGHBOR, "  ao B include-tcp-options enable", AO],
            "18 refused : a neighbor or group of IOS XR has one chain, and this is its second: the last one is taken",
        ),
        (
            &[NEIGHBOR, AO, "  password encrypted 0242114B0E143F015F5D1E161713"],
            "16 refused : IOS XR refuses `ao` beside `password` or `keychain` of the same neighbor or group",
        ),
        (
            &[NEIGHBOR, AO, " neighbor 192.0.2.2", "  keychain A"],
            "19 note: older-option : not TCP-AO but the older TCP option is used with a neighbor or group (keychain)",
        ),
        (
            &[NEIGHBOR, AO, " neighbor 192.0.2.2", "  keychain A", " neighbor 192.0.2.3", "  keychain A"],
            "19 note: older-option : not TCP-AO but the older TCP option is used with a neighbor or group and 1 more (keychain)",
        ),
        (
            &[NEIGHBOR, AO, "  use session-group S"],
            "18 note: missing : the group that is used here is not in the file: whether its neighbors use TCP-AO is not known",
        ),
        (
            &[
                NEIGHBOR,
                AO,
                " neighbor 192.0.2.2",
                "  use session-group S",
                " session-group S",
                "  use session-group S",
            ],
            "18 not-understood : its groups use more than 16 others: whether it uses TCP-AO is not known",
        ),
        (
            &[
                NEIGHBOR,
                AO,
                " neighbor 192.0.2.2",
                "  ao C include-tcp-options enable",
                " neighbor 192.0.2.3",
                "  ao C",
            ],
            "19 missing : key chain \"C\" of 192.0.2.2 and 1 more is not in the file",
        ),
    ] {
        let (users, said) = bgp(lines);
        assert_eq!(users, one(), "{lines:?}");
        assert!(said.contains(&expected.to_owned()), "{lines:?}: {said:#?}");
    }
    // Nothing is said about what switches inheritance off.
    assert_eq!(
        bgp(&[NEIGHBOR, AO, "  password inheritance-disable", "  keychain inheritance-disable"]),
        (one(), vec![])
    );
    assert_eq!(bgp(&[NEIGHBOR, AO, " no bgp router-id 192.0.2.9"]), (one(), vec![]));
}

#[test]
fn a_chain_that_is_used_without_ids_is_named() {
    let text = chain("A", "")
        + "key chain B\n key 1\n  key-string clear x\n!\nrouter bgp 64501\n neighbor 192.0.2.1\n  ao B include-tcp-options enable\n";
    let file = file(&text);
    assert_eq!(users(&file), [""; 0]);
    assert_eq!(
        said(&file),
        [
            "21 missing : chain \"B\": is used by 192.0.2.1 and has no ids in `tcp ao`",
            "16 note: skipped : a key without ids in \"tcp ao\": not for TCP-AO, and ignored",
        ]
    );
}

#[test]
fn a_link_local_neighbor_needs_an_interface() {
    let bgp = |inside: &str| {
        let ao = "ao A include-tcp-options enable";
        let text = chain("A", "")
            + &format!(
                "router bgp 64501\n session-group S\n  {ao}\n  update-source Bundle-Ether1.7\n !\n neighbor fe80::1\n  {inside}\n"
            );
        file(&text.replace("AO", ao))
    };
    for (inside, interface) in [
        ("AO\n  update-source GigabitEthernet0/0/0/1", "GigabitEthernet0/0/0/1"),
        ("AO\n  update-source HundredGigE 0/0/0/1.100", "HundredGigE0/0/0/1.100"),
        ("use session-group S", "Bundle-Ether1.7"),
    ] {
        let file = bgp(inside);
        assert_eq!(users(&file), [format!("fe80::1%{interface}: A")]);
        assert_eq!(said(&file), [""; 0]);
        let written = convert(&file, Format::IosXr).expect("a configuration");
        assert_eq!(written.losses, [""; 0]);
        assert_eq!(users(&self::file(&written.text)), users(&file));
    }
    let file = bgp("AO");
    assert_eq!(users(&file), ["fe80::1: A"]);
    let sentence = "the interface of fe80::1, which is link-local, is not given by `update-source`";
    assert_eq!(said(&file), [format!("21 note: missing A: {sentence}")]);
    // EOS has one id for both directions.
    for to in Format::ALL.into_iter().filter(|format| format.is_written() && *format != Format::Eos) {
        let losses = convert(&file, to).expect("a conversion").losses;
        assert!(losses.contains(&format!("chain \"A\": {sentence}")), "{to}: {losses:?}");
    }
    // The source of other sessions is not part of a neighbor.
    let text = chain("A", "")
        + "router bgp 64501\n neighbor 2001:db8::1\n  ao A include-tcp-options enable\n  update-source Loopback0\n";
    assert_eq!(users(&self::file(&text)), ["2001:db8::1: A"]);
}

#[test]
fn a_setting_that_lets_peers_in_without_tcp_ao_is_not_lost_silently() {
    let mismatch = " neighbor-group G\n  ao A include-tcp-options enable accept-ao-mismatch-connection\n neighbor 192.0.2.1\n  use neighbor-group \
                    G\n neighbor 192.0.2.2\n  use neighbor-group G\n";
    let file = file(&(chain("A", "") + "router bgp 64501\n" + mismatch));
    let sentence =
        "accepts connections without TCP-AO from 192.0.2.1 and 1 more (accept-ao-mismatch-connection)";
    assert_eq!(said(&file), [format!("17 accepts-mismatch A: {sentence}")]);
    // EOS has one id for both directions.
    for to in Format::ALL.into_iter().filter(|format| format.is_written() && *format != Format::Eos) {
        let losses = convert(&file, to).expect("a conversion").losses;
        assert!(losses.contains(&format!("chain \"A\": {sentence}")), "{to}: {losses:?}");
    }
}

#[test]
fn a_chain_of_ios_xr_that_is_used_with_and_without_tcp_options_is_named() {
    let text = "key chain c\n key 1\n  key-string clear secret\n  cryptographic-algorithm HMAC-SHA1-96\n!\ntcp ao\n keychain c\n  \
                key 1 SendID 1 ReceiveID 1\n!\nrouter bgp 1\n neighbor 192.0.2.1\n  ao c include-tcp-options enable\n neighbor \
                192.0.2.2\n  ao c include-tcp-options disable\n";
    let file = read(Path::new("router"), text, Some(Format::IosXr)).unwrap();
    assert_eq!(file.chains.len(), 2);
    let error = file.key_chains(End::ThisEnd).unwrap_err().to_string();
    let expected = "neighbors use this chain both with and without TCP options: give each its own chain";
    assert!(error.contains(expected) && error.contains("\"c\""), "{error}");
}
