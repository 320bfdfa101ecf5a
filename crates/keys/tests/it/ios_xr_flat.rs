//! Configurations of IOS XR as sessions, mails and tickets have them: with prompts, or without indentation, so that the words of a command tell
//! the mode that it is in.

use std::path::Path;

use wireseal_keys::{Clock, Format, load, read};

use super::ios_xr::{chain, file, said, users};
use super::routers::{data, keys, lifetime};

fn flat(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.trim_start())).collect()
}

/// Texts from sessions, mails and tickets are read like those of the router.
#[test]
fn texts_without_indentation_and_with_prompts_are_read() {
    for name in ["ios-xr.cfg", "ios-xr-formal.cfg"] {
        let text = std::fs::read_to_string(data(name)).expect("a configuration");
        let expected = load(&data(name), None).expect("keys");
        let lines = |edit: &dyn Fn(&str) -> String| text.lines().map(edit).collect::<String>();
        let flat = lines(&|line| format!("{}\n", line.trim_start()));
        let with_exit = lines(&|line| match line.trim() {
            "!" if line.starts_with(' ') => "exit\n".to_owned(),
            "!" => "root\n".to_owned(),
            line => format!("{line}\n"),
        });
        for (how, text) in [
            ("prompts", lines(&|line| format!("RP/0/RP0/CPU0:r1(config)#{}\n", line.trim_start()))),
            ("spaced prompts", lines(&|line| format!("Router#(config-bgp-nbr)# {}\n", line.trim_start()))),
            ("carriage returns", text.replace('\n', "\r\n")),
            (
                "tabs",
                lines(&|line| {
                    let words = line.trim_start();
                    format!("{}{words}\n", "\t".repeat(line.len() - words.len()))
                }),
            ),
            (
                "deeper",
                lines(&|line| {
                    let words = line.trim_start();
                    format!("  {}{words}\n", "    ".repeat(line.len() - words.len()))
                }),
            ),
            (
                "a header",
                format!(
                    "RP/0/RP0/CPU0:r1#show running-config\nTue Jun 29 22:05:34.922 EDT\nBuilding configuration...\n!! IOS XR Configuration 7.0.2\n{text}"
                ),
            ),
            (
                "flat after a banner",
                format!("banner motd ^C\n    router r1, key chain of the core\n ^C\n{flat}"),
            ),
            ("flat", flat),
            ("exit", with_exit),
        ] {
            let found =
                read(Path::new("keys"), &text, None).unwrap_or_else(|error| panic!("{name}, {how}: {error}"));
            assert_eq!(found.format, Some(Format::IosXr), "{name}, {how}");
            assert_eq!(users(&found), users(&expected), "{name}, {how}");
            assert_eq!(found.skipped.len(), expected.skipped.len(), "{name}, {how}");
            for (found, expected) in found.chains.iter().zip(&expected.chains) {
                assert_eq!(
                    (&found.name, found.accept_tolerance),
                    (&expected.name, expected.accept_tolerance)
                );
                assert_eq!(found.keys.len(), expected.keys.len());
                assert!(
                    found.keys.iter().zip(&expected.keys).all(|(one, other)| one.is_same_key(other)),
                    "{how}"
                );
            }
            assert_eq!(found.remarks.len(), expected.remarks.len(), "{name}, {how}: {:?}", found.remarks);
        }
    }
}

#[test]
fn commands_without_indentation_go_where_their_words_belong() {
    let bgp = "router bgp 64501\nbgp router-id 192.0.2.9\naddress-family ipv4 unicast\nredistribute static\n!\nneighbor-group G\nao B \
               include-tcp-options disable\n!\nneighbor 192.0.2.1\naddress-family ipv4 unicast\nroute-policy PASS in\nao A include-tcp-options \
               enable\nneighbor 192.0.2.2\nuse neighbor-group G\n!\nvrf RED\nrd auto\nneighbor 192.0.2.1\naddress-family ipv4 \
               unicast\n!\nao B include-tcp-options enable\n!\n!\nneighbor 192.0.2.3\nao A include-tcp-options enable\n!\n!\nhostname r1\n";
    let text = flat(&(chain("A", "") + &chain("B", ""))) + bgp;
    let expected = ["192.0.2.1: A", "192.0.2.3: A", "192.0.2.1 vrf RED: B", "192.0.2.2: B without options"];
    let found = file(&text);
    assert_eq!(users(&found), expected);
    assert_eq!(said(&found), [""; 0]);
    // A mode that is not known closes too many: what follows is said, and given to nobody.
    let lost = text.replace("vrf RED\n", "mpls activate\n!\n!\nvrf RED\n");
    assert_eq!(users(&file(&lost)), ["192.0.2.1: A", "192.0.2.2: B without options"]);
    assert_eq!(said(&file(&lost)).iter().filter(|line| line.contains(" not-understood :")).count(), 2);
    // One-line commands open their modes.
    let text = flat(&chain("A", ""))
        + "router bgp 64501 neighbor 192.0.2.1\nao A include-tcp-options enable\nneighbor 192.0.2.2\nao A\n";
    assert_eq!(users(&file(&text)), ["192.0.2.1: A", "192.0.2.2: A"]);
}

/// The example of Cisco's BGP Session Authentication and Integrity using TCP Authentication Option, with its prompts, an address of RFC 5737
/// and a secret of our own.
#[test]
fn the_guides_example_is_read_with_its_prompts() {
    let text = "Router# configure\nRouter#(config)# key chain tcpao1\nRouter#(config-tcpao1)# key 1\nRouter#(config-tcpao1-1)# \
                cryptographic-algorithm HMAC-SHA-1-96\nRouter#(config-tcpao1-1)# key-string Vd8zqkT1p0wYhU3m\nRouter#(config-tcpao1-1)# \
                send-lifetime 16:00:00 march 3 2018 infinite\nRouter#(config-tcpao1-1)# accept-lifetime 16:00:00 march 3 2018 \
                infinite\n\nRouter# tcp ao\nRouter(config-tcp-ao)# keychain tcpao1\nRouter(config-tcp-ao-tpcao1)# key 1 sendID 5 receiveID \
                5\n\nRouter#(config-bgp)# router bgp 1\nRouter(config-bgp)# bgp router-id 192.0.2.9\nRouter(config-bgp)# address-family ipv4 \
                unicast\nRouter(config-bgp-af)# exit\nRouter(config-bgp)# neighbor 192.0.2.1\nRouter(config-bgp-nbr)# remote-as \
                1\nRouter(config-bgp-nbr)# ao tcpao1 include-tcp-options disable accept-ao-mismatch-connection\n";
    let file = read(Path::new("keys"), text, None).expect("a session");
    assert_eq!(file.format, Some(Format::IosXr));
    assert_eq!(keys(&file.chains[0]), ["tcpao1/1: 5/5 HMAC-SHA-1-96 Vd8zqkT1p0wYhU3m"]);
    assert_eq!(users(&file), ["192.0.2.1: tcpao1 without options"]);
    assert_eq!(file.chains[0].keys[0].position.map(|at| (at.line, at.column)), Some((3, 25)));
}

/// `!` may be missing: a command that cannot be in the open mode closes it.
#[test]
fn commands_close_the_modes_that_they_cannot_be_in() {
    let key = |id: u8| {
        format!(
            "key {id}\nkey-string clear Vd8zqkT1p0wYhU3m{id}\ncryptographic-algorithm HMAC-SHA1-96\nsend-lifetime 12:00:00 january 01 2026 \
             infinite\naccept-lifetime 12:00:00 january 01 2026 infinite\n"
        )
    };
    let chains = format!(
        "key chain A\n{}{}accept-tolerance 60\nkey chain B\n{}clock timezone JST 9\ntcp ao\nkeychain A\nkey 1 SendID 1 ReceiveID 2\nkey 2 \
         SendID 3 ReceiveID 4\nkeychain B\nkey 3 SendID 5 ReceiveID 6\n",
        key(1),
        key(2),
        key(3)
    );
    let ao = |chain: &str| format!("ao {chain} include-tcp-options enable\n");
    let bgp = format!(
        "router bgp 64501\nsession-group S\n{}neighbor 192.0.2.1\ndescription ao\n{}neighbor 192.0.2.2\naddress-family ipv4 unicast\n\
         route-policy PASS in\nuse session-group S\nvrf RED\nneighbor 192.0.2.1\ndescription timezone\n{}neighbor 192.0.2.3\naddress-family \
         ipv4 unicast\nuse af-group F\n!\n{}",
        ao("B"),
        ao("A"),
        ao("B"),
        ao("A")
    );
    let found = file(&(chains + &bgp));
    assert_eq!(
        users(&found),
        ["192.0.2.1: A", "192.0.2.3 vrf RED: A", "192.0.2.2: B", "192.0.2.1 vrf RED: B"]
    );
    assert_eq!(said(&found), [""; 0]);
    let [a, b] = &found.chains[..] else { panic!("two chains") };
    assert_eq!((a.keys.len(), a.accept_tolerance, b.keys.len(), b.accept_tolerance), (2, 60, 1, 0));
    assert_eq!(b.keys[0].send, lifetime("2026-01-01T03:00:00Z", ""));
}

#[test]
fn only_commands_of_a_mode_open_and_close_it() {
    let not_understood =
        |line: usize| format!("{line} not-understood : this line is not understood, and ignored");
    const AO: &str = "ao A include-tcp-options enable\n";
    for (more, expected, lines) in [
        ("router bgp 1\nneighbor 192.0.2.1\nkey-string clear hunter2\n", vec![], vec![17]),
        ("tcp ao hunter2\ninterface Loopback0\n", vec![], vec![15]),
        ("tcp ao\nhunter2 hunter2\n!\ninterface Loopback0\n", vec![], vec![16]),
        ("key chain A\naccept-tolerance 60\n!\ninterface Loopback0\n", vec![], vec![]),
        ("key chain A\n!! of the core\naccept-tolerance 60\n", vec![], vec![]),
        ("router bgp 1\nvrf RED\nrd auto\n!\nneighbor 192.0.2.1\nAO", vec!["192.0.2.1: A"], vec![]),
        ("router bgp 1\nneighbor 192.0.2.1\nAO!\n!\nneighbor 192.0.2.2\nAO", vec!["192.0.2.1: A"], vec![21]),
    ] {
        let found = file(&(flat(&chain("A", "")) + &more.replace("AO", AO)));
        assert_eq!(users(&found), expected, "{more}");
        assert_eq!(said(&found), lines.into_iter().map(not_understood).collect::<Vec<_>>(), "{more}");
    }
    // Half a command says nothing about the clock, whatever follows it.
    let found = file(
        &(flat(&chain("A", "")).replace("timezone gmt\n", "") + "clock timezone\ninterface Loopback0\n"),
    );
    assert_eq!(found.chains[0].keys[0].clock, Clock::Utc);
}

#[test]
fn a_text_is_ios_xrs_by_its_own_words() {
    let of = |text: &str| Format::of(Path::new("router"), text);
    for text in [
        "tcp ao\n",
        "RP/0/RP0/CPU0:r1(config)#tcp ao keychain A key 1 SendID 1 ReceiveID 2\n",
        "ao A include-tcp-options enable\n",
        "  ao A include-tcp-options disable\n",
    ] {
        assert_eq!(of(text), Some(Format::IosXr), "{text}");
    }
    for text in
        ["tcp selective-ack\n", "tcp ao-x\n", "ao A mode enable\n", "an ao include-tcp-options enable\n"]
    {
        assert_eq!(of(text), None, "{text}");
    }
}
