//! Configurations of IOS XE, and of NX-OS and FRR, which have key chains like it.

use std::path::Path;

use proptest::prelude::*;
use wireseal_keys::{
    Chain, Clock, End, Format, KeyFile, Lifetime, Neighbor, Notation, Timestamp, Weight, check, convert,
    load, read,
};
use wireseal_tcp_ao::OptionCoverage::{Covered, Excluded};

use super::convert::is_same;
use super::routers::{data, lifetime, neighbors};

fn read_text(text: &str) -> KeyFile {
    read(Path::new("router.cfg"), text, None).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn error_of(text: &str, format: Format) -> String {
    read(Path::new("router.cfg"), text, Some(format)).expect_err(text).to_string()
}

/// The remarks as `weight kind line`, those of the file first.
fn kinds(file: &KeyFile) -> Vec<String> {
    let of_chains = file.chains.iter().flat_map(|chain| &chain.remarks);
    let shown = |remark: &wireseal_keys::Remark| {
        format!("{:?} {} {}", remark.weight, remark.kind, remark.position.map_or(0, |at| at.line))
    };
    file.remarks.iter().chain(of_chains).map(shown).collect()
}

/// A chain with one key, with more lines in the key.
fn chain(more: &str) -> String {
    format!(
        "key chain core tcp\n key 1\n  send-id 1\n  recv-id 2\n  key-string 0 hunter2hunter2\n  cryptographic-algorithm \
         aes-128-cmac\n{more}"
    )
}

#[test]
fn ios_xe_has_its_keys_by_chain_with_neighbors_of_templates_groups_and_vrfs() {
    let file = load(&data("ios-xe.cfg"), None).unwrap();
    assert_eq!((file.format, kinds(&file)), (Some(Format::IosXe), vec![]));
    assert_eq!(file.skipped.iter().map(|it| it.position.line).collect::<Vec<_>>(), [36]);
    let [core, edge, template] = &file.chains[..] else { panic!("three chains with tcp") };
    assert_eq!(
        neighbors(core),
        ["192.0.2.1", "192.0.2.4", "fe80::1%GigabitEthernet1", "2001:db8::1 vrf blue"]
    );
    assert_eq!(neighbors(edge), ["198.51.100.0/24", "192.0.2.3", "192.0.2.1 vrf red"]);
    assert_eq!(neighbors(template), ["192.0.2.2"]);

    let [first, second] = &core.keys[..] else { panic!("two keys") };
    assert_eq!((first.key_id, first.send_id.0, first.recv_id.0, first.options), (1, 1, 2, Covered));
    assert_eq!((first.algorithm.name(), first.mac_length), ("AES-128-CMAC-96", 12));
    assert_eq!((first.secret.expose(), first.clock), (&b"cisco123"[..], Clock::Utc));
    assert_eq!(first.send, lifetime("2026-04-01T00:00:00Z", "2027-04-01T00:00:00Z"));
    assert_eq!(first.accept, lifetime("2026-04-01T00:00:00Z", ""));
    assert_eq!((second.secret.expose(), second.secret.notation()), (&b"interop"[..], Notation::CiscoSeven));
    assert_eq!((second.algorithm.name(), second.clock), ("HMAC-SHA-1-96", Clock::Local));
    assert_eq!(second.send, lifetime("2027-03-01T00:00:00Z", "2027-03-02T00:00:00Z"));
    let key = &edge.keys[0];
    assert_eq!((key.key_id, key.send_id.0, key.recv_id.0, key.options), (2_147_483_647, 0, 255, Excluded));
    assert_eq!((key.secret.expose(), key.send), (&b"two words"[..], Lifetime::ALWAYS));
}

/// Mail and tickets strip leading blanks; the router itself takes such lines.
#[test]
fn lines_without_indentation_are_told_apart_by_their_words() {
    let text = std::fs::read_to_string(data("ios-xe.cfg")).unwrap();
    let flat: String = text.lines().map(|line| format!("{}\r\n", line.trim_start())).collect();
    let (file, again) = (read_text(&text), read_text(&flat));
    assert_eq!(kinds(&again), [""; 0]);
    assert!(is_same(&file.chains, &again.chains));
}

#[test]
fn groups_in_a_circle_are_not_understood() {
    let circle = "router bgp 64500\n neighbor G peer-group\n neighbor H peer-group\n neighbor G peer-group H\n neighbor H peer-group G\n \
                  neighbor 192.0.2.1 remote-as 64501\n neighbor 192.0.2.1 peer-group G\n neighbor 192.0.2.2 ao core\n";
    let text = chain("") + circle;
    let file = read_text(&text);
    assert_eq!(kinds(&file), [format!("Warning not-understood {}", text.lines().count() - 2)]);
    assert_eq!(neighbors(&file.chains[0]), ["192.0.2.2"]);
}

/// Cisco's command reference (accept-ao-mismatch) shows a session with prompts, whose key has no algorithm; genielibs (configure_tcp_keychain,
/// configure_bgp_tcpao) gives commands without indentation.
#[test]
fn published_examples_are_read() {
    const REST: &str =
        "Router(config-keychain-key)# cryptographic-algorithm hmac-sha-1\nRouter(config)# end\n";
    let session = "Router(config)# key chain kc1 tcp\nRouter(config-keychain)# key 7890\nRouter(config-keychain-key)# send-id \
                   215\nRouter(config-keychain-key)# recv-id 215\nRouter(config-keychain-key)# key-string klomn\n\
                   Router(config-keychain-key)# accept-ao-mismatch\n";
    let without_blanks = read_text(&(session.to_owned() + REST).replace("# ", "#"));
    assert!(is_same(&without_blanks.chains, &read_text(&(session.to_owned() + REST)).chains));
    let error = error_of(session, Format::IosXe);
    assert_eq!(error, "router.cfg: line 2, column 26, cryptographic-algorithm: is missing",);
    let text = session.to_owned() + REST;
    let file = read_text(&text);
    let key = &file.chains[0].keys[0];
    assert_eq!((key.key_id, key.send_id.0, key.secret.expose()), (7890, 215, &b"klomn"[..]));
    assert_eq!(kinds(&file), ["Warning accepts-mismatch 6"]);

    let commands = "key chain test1 tcp\nkey 1\nsend-id 2\nrecv-id 2\nkey-string cisco123\naccept-lifetime local 00:00:00 Jan 1 2025 \
                    infinite\nsend-lifetime local 00:00:00 Jan 1 2025 infinite\ncryptographic-algorithm hmac-sha-1\n\
                    accept-ao-mismatch\nrouter bgp 65002\naddress-family ipv4 unicast vrf vrf_1\nneighbor 192.0.2.1 ao test1 \
                    accept-ao-mismatch-connections\n";
    let file = read_text(commands);
    assert_eq!(neighbors(&file.chains[0]), ["192.0.2.1 vrf vrf_1"]);
    assert_eq!(file.chains[0].keys[0].clock, Clock::Local);
    assert_eq!(kinds(&file), ["Warning accepts-mismatch 9", "Warning accepts-mismatch 12"]);
}

#[test]
fn exit_closes_one_mode_with_or_without_indentation() {
    let key = |margin: &str, id: u8| {
        format!(
            "{margin}key {id}\n{margin}{margin}send-id {id}\n{margin}{margin}recv-id {id}\n{margin}{margin}key-string \
             hunter2hunter2\n{margin}{margin}cryptographic-algorithm hmac-sha-1\n{margin}exit\n"
        )
    };
    for margin in ["", " "] {
        let text = format!(
            "key chain core tcp\n{}{}exit\nrouter bgp 1\n{margin}address-family ipv4 vrf red\n{margin}{margin}neighbor 192.0.2.1 ao \
             core\n{margin}exit\n{margin}neighbor 192.0.2.2 ao core\nexit\nkey 3\n",
            key(margin, 1),
            key(margin, 2)
        );
        let file = read_text(&text);
        assert_eq!((file.chains[0].keys.len(), kinds(&file)), (2, vec![]), "{text}");
        assert_eq!(neighbors(&file.chains[0]), ["192.0.2.1 vrf red", "192.0.2.2"], "{text}");
    }
}

#[test]
fn a_neighbors_own_setting_goes_before_its_templates_and_that_before_its_groups() {
    let settings = [
        " neighbor 192.0.2.1 ao own\n",
        " neighbor 192.0.2.1 inherit peer-session T\n",
        " neighbor 192.0.2.1 peer-group G\n",
    ];
    let keys = |name: &str| chain("").replace("core", name);
    let chains = keys("own") + &keys("session") + &keys("group");
    let rest = " neighbor G peer-group\n neighbor G ao group\n template peer-session T\n  ao session\n exit-peer-session\n";
    for (from, expected) in ["own", "session", "group"].into_iter().enumerate() {
        for settings in [settings[from..].concat(), settings[from..].iter().rev().copied().collect()] {
            let file = read_text(&format!("{chains}router bgp 1\n{settings}{rest}"));
            let with = file.chains.iter().filter(|chain| !chain.neighbors.is_empty());
            assert_eq!(with.map(|chain| &chain.name).collect::<Vec<_>>(), [expected], "{settings}");
        }
    }
}

#[test]
fn options_are_covered_if_the_key_or_the_neighbor_says_so() {
    let of_key = "  include-tcp-options\n";
    for (key, neighbor, options, said) in [
        ("", "", Excluded, None),
        (of_key, " include-tcp-options", Covered, None),
        (of_key, "", Covered, Some("Warning disputed 7")),
        ("", " include-tcp-options", Covered, Some("Note disputed 8")),
    ] {
        let text = chain(key) + &format!("router bgp 1\n neighbor 192.0.2.1 ao core{neighbor}\n");
        let file = read_text(&text);
        assert_eq!((file.chains.len(), file.chains[0].keys[0].options), (1, options), "{text}");
        assert_eq!(kinds(&file), Vec::from_iter(said), "{text}");
    }
    // Without a neighbor, the group has the setting.
    let file = read_text(&(chain("") + "router bgp 1\n neighbor G ao core include-tcp-options\n"));
    assert_eq!((file.chains[0].keys[0].options, neighbors(&file.chains[0])), (Covered, vec![]));
}

#[test]
fn a_chain_used_with_and_without_tcp_options_becomes_two() {
    let text = chain("")
        + "router bgp 1\n neighbor 192.0.2.1 ao core\n neighbor 192.0.2.2 ao core include-tcp-options\n";
    let file = read_text(&text);
    let shown = |chain: &Chain| (neighbors(chain).concat(), chain.keys[0].options);
    let [covered, excluded] = &file.chains[..] else { panic!("two chains") };
    assert_eq!(
        (shown(covered), shown(excluded)),
        (("192.0.2.2".into(), Covered), ("192.0.2.1".into(), Excluded))
    );
    let error = file.key_chains(End::ThisEnd).unwrap_err().to_string();
    assert!(error.contains("give each its own chain"), "{error}");
    let conversion = convert(&file, Format::IosXe).unwrap();
    assert_eq!(conversion.losses, ["chain \"core\" is named core_2"]);
    let again = read_text(&conversion.text);
    assert_eq!(again.chains.iter().map(shown).collect::<Vec<_>>(), [shown(covered), shown(excluded)]);
    assert_eq!(kinds(&again), [""; 0]);
}

#[test]
fn connections_without_tcp_ao_are_warned_of_and_not_written() {
    for (key, neighbor, line) in [
        ("  accept-ao-mismatch\n", "", 7),
        ("", " accept-ao-mismatch", 8),
        ("", " accept-ao-mismatch-connections", 8),
    ] {
        let text = chain(key) + &format!("router bgp 1\n neighbor 192.0.2.1 ao core{neighbor}\n");
        let file = read_text(&text);
        assert_eq!(kinds(&file), [format!("Warning accepts-mismatch {line}")], "{text}");
        let conversion = convert(&file, Format::IosXe).unwrap();
        assert!(conversion.losses.concat().contains("accept-ao-mismatch"), "{:?}", conversion.losses);
        assert!(!conversion.text.contains("mismatch"));
    }
}

#[test]
fn what_is_not_understood_is_said_and_takes_nothing_with_it() {
    let inside = chain("  tcp-window 5\n")
        + " key 2\n  send-id 3\n  recv-id 3\n  key-string 0 other\n  sha 1\n  cryptographic-algorithm \
                                              hmac-sha-1\n timers 1\n";
    let bgp = "router bgp 1\n neighbor 192.0.2.1 ao core include-tcp-options enable\n no neighbor 192.0.2.2 ao core\n";
    let file = read_text(&(inside.clone() + bgp));
    let expected = [16, 17, 7, 12, 14].map(|line| format!("Warning not-understood {line}"));
    assert!(expected.iter().all(|line| kinds(&file).contains(line)), "{:?}", kinds(&file));
    assert_eq!((file.chains[0].keys.len(), neighbors(&file.chains[0])), (2, vec!["192.0.2.1".into()]));
    // Without indentation, a line is inside the chain if the chain goes on after it.
    let flat: String = inside.lines().map(|line| format!("{}\n", line.trim_start())).collect();
    let file = read_text(&(flat + "hostname a\ncrypto key pubkey-chain rsa\nkey-string\n0123\n"));
    assert_eq!(kinds(&file), ["Warning not-understood 7", "Warning not-understood 12"]);
    let two = chain("").replace('\n', "\nfoo\n").replace("  ", "").replace(" key", "key");
    let file = read_text(&(two.clone() + &two.replace("core", "edge") + "router bgp 1\n"));
    assert_eq!(file.chains.iter().map(|chain| chain.remarks.len()).collect::<Vec<_>>(), [6, 5]);
    // Cut out of their modes, they are no key.
    let file = read_text(&("send-id 7\n".to_owned() + &chain("") + "router bgp 1\n ao core\n"));
    assert_eq!(kinds(&file), ["Warning not-understood 1", "Warning not-understood 9"]);
}

#[test]
fn what_the_router_would_refuse_is_said() {
    let text = chain("")
        + "router bgp 1\n neighbor 192.0.2.1 password 0 x\n neighbor 192.0.2.1 ao core\n neighbor 192.0.2.2 ao other\n";
    assert_eq!(kinds(&read_text(&text)), ["Warning refused 8", "Warning missing 10"]);
    let text = chain(
        "  send-lifetime local 00:00:00 Jan 1 2025 infinite\n  accept-lifetime 00:00:00 Jan 1 2025 infinite\n",
    );
    assert_eq!(kinds(&read_text(&text)), ["Warning local-time 2"]);
    for to in [Format::Toml, Format::Junos] {
        let error = convert(&read_text(&text), to).unwrap_err().to_string();
        assert!(
            error.contains("its lifetimes are in the router's local time; give --utc-offset"),
            "{to}: {error}"
        );
    }
    assert!(convert(&read_text(&text), Format::IosXe).unwrap().losses.is_empty());
    let mut there = read_text(&text);
    there.set_utc_offset(7200);
    let key = &there.chains[0].keys[0];
    assert_eq!(key.send.from(), Some("2024-12-31T22:00:00Z".parse().unwrap()));
    assert!(convert(&there, Format::Toml).is_ok());
    let file = read_text(&(chain("") + "key chain empty tcp\nrouter bgp 1\n neighbor 192.0.2.1 ao empty\n"));
    assert_eq!(kinds(&file), ["Warning missing 7"]);
    assert_eq!(convert(&file, Format::IosXe).unwrap().losses, ["chain \"empty\": has no key"]);
    // Trailing blanks are a part of the secret.
    let file = read_text(&chain("").replace("hunter2hunter2", "hunter2hunter2 "));
    assert_eq!(file.chains[0].keys[0].secret.expose(), b"hunter2hunter2 ");
    let findings = check(&file, Timestamp::from_unix_seconds(0), &[]);
    assert!(findings.iter().any(|it| it.kind == "white-space" && it.weight == Weight::Warning));
}

#[test]
fn a_key_whose_kdf_is_not_known_is_left_out() {
    let other =
        " key 2\n  send-id 3\n  recv-id 3\n  key-string 0 other\n  cryptographic-algorithm hmac-sha-256\n";
    let file = read_text(&chain(other));
    assert_eq!((file.chains[0].keys.len(), kinds(&file)), (1, vec!["Warning left-out 7".into()]));
    let chains = chain("").replace("aes-128-cmac", "hmac-sha-256");
    let sentence = "is left out: its algorithm is hmac-sha-256, whose KDF Cisco does not document";
    let error = error_of(&chains, Format::IosXe);
    assert_eq!(error, format!("router.cfg: line 2, column 2, key chain \"core\", key 1: {sentence}"));
    // The peers of such a chain are refused.
    let file = read_text(&(chains.replace("core", "other") + &chain("")));
    let losses = convert(&file, Format::IosXe).unwrap().losses;
    assert_eq!(losses, [format!("key other/1: {sentence}")]);
    let chains = file.key_chains(End::ThisEnd).unwrap();
    assert_eq!(chains.unusable().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["other"]);
    assert!(check(&file, Timestamp::from_unix_seconds(0), &[]).iter().all(|it| it.kind != "all-deprecated"));
}

#[test]
fn a_secret_that_only_the_router_can_decrypt_is_not_known() {
    let file = read_text(&chain("").replace("0 hunter2hunter2", "6 RhTZPWaTMCMNdUbV"));
    assert_eq!(file.chains[0].keys[0].secret.encryption(), Some("type 6"));
}

#[test]
fn ios_xe() {
    let case = |line: &str, instead: &str, expected: &str| {
        let text = chain("").replace(line, instead);
        let error = error_of(&text, Format::IosXe);
        assert!(error.starts_with(&format!("router.cfg: {expected}")), "{error}\n{text}");
        assert!(!error.contains("hunter2hunter2") && !error.contains('\n'), "{error}");
    };
    case("  send-id 1\n", "", "line 2, column 2, send-id: is missing");
    case("  recv-id 2\n", "", "line 2, column 2, recv-id: is missing");
    case("  key-string 0 hunter2hunter2\n", "", "line 2, column 2, key-string: is missing");
    case(
        "  cryptographic-algorithm aes-128-cmac\n",
        "",
        "line 2, column 2, cryptographic-algorithm: is missing",
    );
    case("send-id 1", "send-id 256", "line 3, column 11, send-id: must be a whole number from 0 to 255");
    case("recv-id 2", "send-id 2", "line 4, column 3, send-id: is given twice");
    case("key 1", "key 2147483648", "line 2, column 6, key: must be a whole number from 0 to 2147483647");
    case("0 hunter2hunter2", "0", "line 5, column 14, key-string: the secret is missing");
    case("0 hunter2hunter2", "", "line 5, column 3, key-string: is missing");
    case("0 h", "7 h", "line 5, column 16, key-string: expected a type 7 password");
    case("0 h", "9 h", "line 5, column 14, key-string: expected 0, 6 or 7, and the secret");
    case("aes-128-cmac", "md5", "line 6, column 27, cryptographic-algorithm: MD5 is broken");
    case(
        "  recv-id 2",
        "  send-lifetime local 00:00:00 2026",
        "line 4, column 3, send-lifetime: expected HH:MM:SS",
    );
    case(
        "key 1",
        "key 1 -- text \"hunter2hunter2\"",
        "line 2, column 2, key chain: this is the output of \"show key chain\", which has no neighbors: give that of \"show \
         running-config\"",
    );
    // The beginning of that output.
    let text = "Key-chain core:\n  TCP key chain\n  key 1 -- text \"hunter2hunter2\"\n";
    let error = read(Path::new("router.cfg"), text, None).expect_err("no configuration").to_string();
    assert!(error.contains("show running-config") && !error.contains("hunter2"), "{error}");
}

#[test]
fn configurations_are_told_from_those_of_others() {
    let of = |text: &str| Format::of(Path::new("router.cfg"), text);
    assert_eq!(of("security passwords min-length 12\nkey chain core tcp\n"), Some(Format::IosXe));
    assert_eq!(of("Router(config)# key chain core tcp\n"), Some(Format::IosXe));
    let bgp =
        "router bgp 1\n template peer-session T\n neighbor 192.0.2.1 remote-as 1\n neighbor 192.0.2.1\n";
    assert_eq!(of(&format!("{bgp} neighbor 192.0.2.1 ao core\n")), Some(Format::IosXe));
    assert_eq!(of(&format!("{bgp}key chain core tcp\n")), Some(Format::IosXe));
    assert_eq!(of("neighbor 192.0.2.1 as 1;\n"), Some(Format::Bird));
    assert_eq!(of("template bgp t {\n"), Some(Format::Bird));
    assert_eq!(of("feature bgp\nkey chain core tcp\n"), Some(Format::NxOs));
    assert_eq!(of("version 9.3(10) Bios:version\nkey chain core\n"), Some(Format::NxOs));
    assert_eq!(of("version 17.12\nkey chain core\n"), Some(Format::IosXr));
    assert_eq!(of("frr defaults traditional\nkey chain core\n"), Some(Format::Frr));
    assert_eq!(of("security {\n"), Some(Format::Junos));
}

#[test]
fn nx_os_is_read_as_ios_xe_and_said_to_be() {
    let file = load(&data("nx-os.cfg"), None).unwrap();
    assert_eq!((file.format, kinds(&file)), (Some(Format::NxOs), vec!["Note assumed 0".into()]));
    assert_eq!(neighbors(&file.chains[0]), ["192.0.2.2", "192.0.2.3", "192.0.2.2 vrf red"]);
    assert_eq!(file.chains[0].keys[0].algorithm.name(), "AES-128-CMAC-96");
    assert!(!Format::NxOs.is_written());
    let error = convert(&file, Format::NxOs).expect_err("read only").to_string();
    assert!(error.contains("only read"), "{error}");
}

#[test]
fn frr_has_no_keys_for_tcp_ao_and_it_is_said_why() {
    let text = "frr version 10.4\nfrr defaults traditional\n!\nkey chain core\n key 1\n  key-string hunter2hunter2\n  \
                cryptographic-algorithm hmac-sha-256\n exit\nexit\n";
    let error = read(Path::new("frr.conf"), text, None).expect_err("no ids").to_string();
    assert!(
        error.starts_with("frr.conf: line 4, column 1: this key chain is left out: FRR has no TCP-AO, so its keys have no SendID"),
        "{error}"
    );
    assert!(!error.contains("hunter2"), "{error}");
    let error = error_of("frr version 10.4\n", Format::Frr);
    assert_eq!(error, "router.cfg: has no key for TCP-AO (read as frr)");
}

#[test]
fn neighbors_that_cannot_be_told_apart_are_not_written_twice() {
    let keys = |name: &str| chain("").replace("core", name);
    let text = keys("a")
        + &keys("b")
        + "router bgp 1\n neighbor fe80::1%Ethernet1 ao a\n neighbor fe80::1%Ethernet2 ao b\n address-family ipv6 vrf red\n  neighbor \
           fe80::1 ao b\n";
    let file = read_text(&text);
    assert_eq!(neighbors(&file.chains[1]), ["fe80::1%Ethernet2", "fe80::1 vrf red"]);
    let conversion = convert(&file, Format::IosXe).unwrap();
    assert_eq!(conversion.losses, ["chain \"b\": fe80::1, which uses another chain"]);
    let again = read_text(&conversion.text);
    assert_eq!(neighbors(&again.chains[0]), ["fe80::1%Ethernet1"]);
    assert_eq!(neighbors(&again.chains[1]), ["fe80::1 vrf red"]);
    // Nor those that IOS XE has no name for.
    let mut file = read_text(&chain(""));
    for (vrf, interface) in [(Some("a b"), None), (Some(""), None), (None, Some("a\nb"))] {
        let [vrf, interface] = [vrf, interface].map(|name| name.map(ToOwned::to_owned));
        file.chains[0].neighbors = vec![Neighbor { vrf, address: "fe80::1".parse().unwrap(), interface }];
        let conversion = convert(&file, Format::IosXe).unwrap();
        assert!(
            conversion.losses.concat().contains("a name that IOS XE does not take"),
            "{:?}",
            conversion.losses
        );
        assert!(!conversion.text.contains("fe80::1"), "{}", *conversion.text);
    }
}

#[test]
fn the_beginning_of_a_configuration_is_read_or_refused_in_one_line() {
    for name in ["ios-xe.cfg", "nx-os.cfg"] {
        let text = std::fs::read_to_string(data(name)).unwrap();
        let formats = [Format::IosXe, Format::NxOs, Format::Frr].into_iter();
        for (format, (end, _)) in formats.flat_map(|format| text.char_indices().map(move |at| (format, at))) {
            if let Err(error) = read(Path::new("router.cfg"), &text[..end], Some(format)) {
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
}

/// Neighbors as the router names them, in an order of their own.
fn any_neighbors() -> impl Strategy<Value = Vec<Neighbor>> {
    let vrf = prop::sample::select(vec![None, Some("red"), Some("blue")]);
    let address =
        prop::sample::select(vec!["192.0.2.1", "198.51.100.0/24", "2001:db8::1", "2001:db8::/32", "fe80::1"]);
    let neighbor = (vrf, address, any::<bool>()).prop_map(|(vrf, address, has_interface)| Neighbor {
        vrf: vrf.map(ToOwned::to_owned),
        address: address.parse().unwrap(),
        interface: (address == "fe80::1" && has_interface).then(|| "Ethernet1/0".to_owned()),
    });
    prop::collection::vec(neighbor, 0..5)
}

proptest! {
    /// Neighbors of several VRFs and families are written in their order, each in its address family.
    #[test]
    fn neighbors_are_read_as_they_were_written(neighbors in prop::collection::vec(any_neighbors(), 3)) {
        let mut file = read_text(&(chain("") + &chain("").replace("core", "edge") + &chain("").replace("core", "192.0.2.9")));
        for (chain, neighbors) in file.chains.iter_mut().zip(neighbors) {
            chain.neighbors = neighbors;
        }
        let written = convert(&file, Format::IosXe).unwrap();
        let again = read_text(&written.text);
        prop_assert!(!written.losses.is_empty() || is_same(&file.chains, &again.chains), "{}\n{file:?}", &*written.text);
        let once_more = convert(&again, Format::IosXe).unwrap();
        prop_assert_eq!(once_more.losses, [""; 0]);
        prop_assert!(is_same(&again.chains, &read_text(&once_more.text).chains), "{}", &*written.text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// No error shows a secret, however the configuration around it is damaged, and nothing panics.
    #[test]
    fn a_damaged_configuration_never_shows_its_secrets(
        from in any::<prop::sample::Index>(),
        length in 0usize..12,
        instead in prop::sample::select(vec!["", " ", "\n", "!", "é", "key 1\n", "exit\n", "neighbor ", "vrf x\n", "ao"]),
        format in prop::sample::select(vec![Format::IosXe, Format::NxOs, Format::Frr]),
    ) {
        const SECRET: &str = "hunter2hunter2";
        let text = chain("  send-lifetime local 00:00:00 Jan 1 2025 infinite\n")
            + "router bgp 1\n template peer-session T\n  ao core\n address-family ipv4 vrf red\n  neighbor 192.0.2.1 ao core \
               include-tcp-options\n exit-address-family\n";
        let start = from.index(text.len());
        let end = (start + length).min(text.len());
        prop_assume!(!SECRET.contains(&text[start..end]) || start == end);
        let damaged = format!("{}{instead}{}", &text[..start], &text[end..]);
        let shown = match read(Path::new("router.cfg"), &damaged, Some(format)) {
            Ok(file) => {
                if let Ok(written) = convert(&file, Format::IosXe) {
                    let again = read_text(&written.text);
                    prop_assert!(!written.losses.is_empty() || is_same(&file.chains, &again.chains), "{}\n{file:?}", &*written.text);
                    let once_more = convert(&again, Format::IosXe).unwrap();
                    prop_assert!(is_same(&again.chains, &read_text(&once_more.text).chains));
                }
                format!("{:?}", (&file, check(&file, Timestamp::from_unix_seconds(0), &[])))
            }
            Err(error) => format!("{error} {error:?}"),
        };
        prop_assert!(!shown.contains(SECRET), "{shown}");
    }
}
