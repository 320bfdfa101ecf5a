use super::*;

const KEYS: &str = "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 1\nalgorithm = \"AES-128-CMAC-96\"\n\
                    secret = \"a secret of 16 o\"\n";
const EDGE: &str = "[[key-chain]]\nname = \"edge\"\n[[key-chain.key]]\nsend-id = 1\nalgorithm = \"hmac(sha1)\"\n\
                    secret = \"another secret, 20 o\"\n";
const NAMED: &str = "key-chains = \"keys.toml\"\n";

fn source(folder: &Path, keys: &str, config: &str, peers: &[&str]) -> Source {
    fs::write(folder.join("keys.toml"), keys).unwrap();
    fs::write(folder.join("config.toml"), config).unwrap();
    let peers = peers.iter().map(|peer| peer.parse().unwrap()).collect();
    Source { config: Some(folder.join("config.toml")), peers, ..Source::default() }
}

#[test]
fn a_peer_is_read_from_text() {
    let read = |text: &str| text.parse::<PeerArgument>();
    let peer = read("192.0.2.1%vrf-blue=core").unwrap();
    let expected = ("192.0.2.1".parse().unwrap(), Some("vrf-blue".to_owned()), Some("core".to_owned()));
    assert_eq!((peer.network, peer.device, peer.chain), expected);
    assert_eq!(read("2001:db8::/32").unwrap().text(), "2001:db8::/32");
    for (text, begins) in [
        ("192.0.2.1/24", "expected an address or a network"),
        ("router=core", "expected an address or a network"),
        ("192.0.2.1%", "a device is missing"),
        ("192.0.2.1=", "a key chain is missing"),
    ] {
        assert!(read(text).unwrap_err().to_string().starts_with(begins), "{text}");
    }
}

#[test]
fn a_file_and_the_command_line_are_read_together() {
    let folder = tempfile::tempdir().unwrap();
    let config = "key-chains = \"keys.toml\"\nports = [179, 646]\nmd5 = \"leave\"\n[peers]\n\"192.0.2.1\" = \"core\"\n\
                  \"192.0.2.2%lo\" = \"core\"\n";
    let mut source = source(folder.path(), KEYS, config, &["2001:db8::/32"]);
    let read = source.read().unwrap();
    let peers: Vec<_> = read.peers.iter().map(|(peer, chain)| (peer.to_string(), chain.name())).collect();
    assert_eq!(peers.len(), 3, "{peers:?}");
    assert!(peers.contains(&("2001:db8::/32".to_owned(), "core")), "{peers:?}");
    assert_eq!(
        (read.ports.as_slice(), read.refuse_others, read.md5),
        ([179, 646].as_slice(), false, Md5::Leave)
    );
    assert!(read.peers.iter().any(|(peer, _)| peer.vrf == Some(1)), "lo is the first device");
    source.ports = vec![711];
    assert_eq!(source.read().unwrap().ports, [711]);
    source.ports = vec![179, 0];
    assert!(matches!(source.read(), Err(Error::Missing(_))));

    let shown = read.to_string();
    for line in [
        "ports: 179, 646",
        "peer 192.0.2.1: key chain core",
        "SendID 1, RecvID 1, AES-128-CMAC-96, sent with now",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(!shown.contains("a secret"), "{shown}");
}

#[test]
fn the_page_of_run_shows_what_dry_run_prints() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/run.md")).unwrap();
    // The first block of the page that begins so.
    let block = |beginning: &str| {
        let at = page.find(&format!("\n{beginning}")).unwrap();
        page[at + 1..].split_once("```").unwrap().0
    };
    let folder = tempfile::tempdir().unwrap();
    // As `wireseal keys new core` makes it.
    let chain = "[[key-chain]]\nname = 'core'\n[[key-chain.key]]\nsend-id = 1\nrecv-id = 1\nalgorithm = \
                 'AES-128-CMAC-96'\nsecret = 'a secret of 16 octets or more'\n";
    let config = source(folder.path(), chain, block("key-chains = "), &[]).read().unwrap();
    assert_eq!(config.to_string(), block("ports: "));
}

#[test]
fn what_is_wrong_is_one_line_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let check = |keys: &str, config: &str, peers: &[&str], expected: &str| {
        let read = source(folder.path(), keys, config, peers).read();
        let error = read.and_then(|config| config.check_for_kernel()).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{expected}: {error}");
    };
    for (config, expected) in [
        ("ports = [179]", "no key chains: give a file with --keys"),
        (NAMED, "no peers: give one with --peer"),
        ("key-chain = \"keys.toml\"", "config.toml: line 1: unknown field"),
        ("ports = [70000]", "config.toml: line 1: "),
        ("[peers]\n192.0.2.1 = \"core\"", "line 2: an address needs quotation marks: \"192.0.2.1\""),
        ("[peers]\n2001:db8::/32 = \"core\"", "line 2: an address needs quotation marks: \"2001:db8::/32\""),
        ("ports = \"179\"", "line 1: ports: expected a list, such as [179]"),
        ("ports = [\"179\"]", "line 1: ports: expected numbers from 1 to"),
        ("refuse-others = \"yes\"", "refuse-others: expected true or false"),
        ("key-chains = [1]", "key-chains: expected a name in quotation marks"),
        ("peers = [\"192.0.2.1\"]", "expected a table: [peers], and below it"),
        (KEYS, "config.toml: line 1: this is a file of key chains: give it with --keys"),
        ("[peers]\n\"one\" = \"core\"", "peer \"one\": expected an address"),
        (
            "[peers]\n\"192.0.2.1/24\" = \"core\"",
            "write 192.0.2.0/24 for the network, or 192.0.2.1 for the host, in",
        ),
        (
            "[peers]\n\"[2001:db8::1]:179\" = \"core\"",
            "write 2001:db8::1 in place of [2001:db8::1]:179; ports",
        ),
        ("key-chains = \"none\"\n[peers]\n\"192.0.2.1\" = \"core\"", "none: No such file"),
        ("key-chains = \"keys.toml\"\n[peers]\n\"192.0.2.1%none\" = \"core\"", "no device \"none\""),
    ] {
        check(KEYS, config, &[], expected);
    }
    let both = KEYS.to_owned() + EDGE;
    for (keys, peers, expected) in [
        (
            "router bgp 64500\n",
            &["192.0.2.1"][..],
            "keys.toml: its name says toml, but its text looks like Cisco IOS XR configuration: give it another name",
        ),
        ("[[key-chain]]\n", &["192.0.2.1"], "keys.toml: line 1, column 1: missing field"),
        (&both, &["192.0.2.1"], "which key chain? (known: core, edge)"),
        ("", &["192.0.2.1"], "which key chain? (the file has none)"),
        (KEYS, &["192.0.2.1=cor"], "peer 192.0.2.1: there is no key chain of that name (known: core)"),
        (KEYS, &["192.0.2.1", "192.0.2.1/32"], "peer 192.0.2.1 is named twice"),
        (KEYS, &["192.0.2.1", "::ffff:192.0.2.1"], "peer 192.0.2.1 is named twice"),
        (KEYS, &["::ffff:192.0.2.0/120%lo", "192.0.2.0/24%lo"], "peer 192.0.2.0/24%lo is named twice"),
        (&both, &["192.0.2.1=core", "192.0.2.0/24=edge"], "peers 192.0.2.1 and 192.0.2.0/24 overlap"),
    ] {
        check(keys, NAMED, peers, expected);
    }
}

/// A router's own file is used as it is at that router's end, and with SendID and RecvID exchanged at the other.
#[test]
fn key_chains_are_in_a_routers_configuration_too() {
    let folder = tempfile::tempdir().unwrap();
    let bird = "protocol bgp upstream { neighbor 192.0.2.1 as 1; authentication ao; keys {\n key { send id 1; recv id 2; secret \"a \
                secret of 16 o\"; algorithm hmac sha1; };\n key { id 3; secret \"another secret\"; preferred; };\n }; }\n";
    let junos = "set security authentication-key-chains key-chain upstream key 0 secret \"a secret\"\nset security \
                 authentication-key-chains key-chain upstream key 0 algorithm ao\nset security authentication-key-chains key-chain \
                 upstream key 0 ao-attribute send-id 1\nset security authentication-key-chains key-chain upstream key 0 ao-attribute \
                 recv-id 2\n";
    let read = |name: &str, keys: &str, of: &str| {
        fs::write(folder.path().join(name), keys).unwrap();
        let config = format!("key-chains = \"{name}\"\n{of}\n");
        let source = source(folder.path(), "", &config, &["192.0.2.1=upstream"]);
        let read = source.read().map_err(|error| error.to_string())?;
        let keys = read.peers[0].1.keys().iter().map(|key| (key.mkt().send_id().0, key.mkt().recv_id().0));
        Ok::<_, String>(keys.collect::<Vec<_>>())
    };
    // BIRD's preferred key is first.
    assert_eq!(read("bird.conf", bird, ""), Ok(vec![(3, 3), (1, 2)]));
    assert_eq!(read("bird.conf", bird, "key-chains-of = \"peer\""), Ok(vec![(3, 3), (2, 1)]));
    assert_eq!(read("router", junos, "key-chains-of = \"this-end\""), Ok(vec![(1, 2)]));
    assert_eq!(read("router", junos, "key-chains-of = \"peer\""), Ok(vec![(2, 1)]));
    // The command line decides, and what the configuration says is of the file that it names.
    let written = "key-chains = \"router\"\nkey-chains-of = \"peer\"\n";
    let configured = source(folder.path(), "", written, &["192.0.2.1=upstream"]);
    let own = Some(folder.path().join("router"));
    for (keys, keys_of, expected) in [
        (None, None, (2, 1)),
        (None, Some(End::ThisEnd), (1, 2)),
        (own.clone(), None, (1, 2)),
        (own, Some(End::Peer), (2, 1)),
    ] {
        let read = Source { keys, keys_of, ..configured.clone() }.read().unwrap();
        let mkt = read.peers[0].1.keys()[0].mkt().clone();
        assert_eq!((mkt.send_id().0, mkt.recv_id().0), expected, "{keys_of:?}");
    }
    for (keys, of, expected) in [
        (
            junos.replace("\"a secret\"", "$8$aes256-gcm$x"),
            "",
            "router: line 1, column 59, key chain \"upstream\", key 0, secret: is encrypted ($8$), and only the router",
        ),
        (
            junos.lines().skip(1).collect::<Vec<_>>().join("\n"),
            "",
            "router: line 1, column 59, secret: is missing",
        ),
        (
            bird.replace("id 3", "id 1"),
            "",
            "router: line 2, column 2, key chain \"upstream\", key 1, key-id: another key of the chain has this key id",
        ),
        (
            junos.to_owned(),
            "key-chains-of = \"router\"",
            "config.toml: line 2: key-chains-of: expected `this-end` or `peer`",
        ),
    ] {
        let error = read("router", &keys, of).unwrap_err();
        assert!(error.contains(expected) && !error.contains('\n'), "{expected}: {error}");
    }
}

/// Two protocols of BIRD; the keys of the second share an id.
const ONE_IS_WRONG: &str = "protocol bgp core { neighbor 192.0.2.1 as 1; authentication ao; keys {\n key { id 1; secret \"a secret of 16 o\"; \
                            algorithm hmac sha1; };\n }; }\nprotocol bgp old { neighbor 198.51.100.9 as 2; authentication ao; keys {\n \
                            key { id 7; secret \"TopSecret-4711\"; };\n key { id 7; secret \"TopSecret-4712\"; };\n }; }\n";

#[test]
fn a_wrong_key_chain_of_a_router_is_refused_only_for_its_peers() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bird.conf"), ONE_IS_WRONG).unwrap();
    let read = |peers: &[&str]| {
        let source = source(folder.path(), "", "key-chains = \"bird.conf\"\n", peers);
        let read = source.read().map_err(|error| (error.exit_code(), error.to_string()))?;
        let chains = read.peers.iter().map(|(_, chain)| chain.name().to_owned());
        Ok::<_, (u8, String)>(chains.collect::<Vec<_>>())
    };
    assert_eq!(read(&["192.0.2.1=core"]), Ok(vec!["core".to_owned()]));
    let wrong = "bird.conf: line 6, column 2, key chain \"old\", key 7, key-id: another key of the chain has this key id";
    for (peers, expected) in [
        (&["198.51.100.9=old"][..], wrong),
        (&["192.0.2.1=core", "198.51.100.9=old"], wrong),
        // That only one of two can be used does not make it the only one.
        (&["192.0.2.1"], "peer 192.0.2.1: which key chain? (known: core, old)"),
        (&["192.0.2.1=other"], "peer 192.0.2.1: there is no key chain of that name (known: core, old)"),
    ] {
        let (code, error) = read(peers).unwrap_err();
        assert!(code == 2 && error.ends_with(expected) && !error.contains('\n'), "{peers:?}: {error}");
        assert!(!error.contains("TopSecret"), "{error}");
    }
}

/// With and without TCP options, `c` is two chains of one name: neither is taken for a peer.
#[test]
fn a_key_chain_that_there_is_twice_is_refused_only_for_its_peers() {
    let folder = tempfile::tempdir().unwrap();
    let chain = |name| {
        format!(
            "key chain {name}\n key 1\n  key-string clear secret\n  cryptographic-algorithm HMAC-SHA1-96\n!\n"
        )
    };
    let ids = |name| format!(" keychain {name}\n  key 1 SendID 1 ReceiveID 1\n");
    let neighbor = |address, ao| format!(" neighbor {address}\n  ao {ao}\n");
    let router = [
        chain("c"),
        chain("d"),
        "tcp ao\n".to_owned() + &ids("c") + &ids("d") + "!\nrouter bgp 1\n",
        neighbor("192.0.2.1", "c include-tcp-options enable"),
        neighbor("192.0.2.2", "c include-tcp-options disable"),
        neighbor("192.0.2.3", "d include-tcp-options enable"),
    ];
    fs::write(folder.path().join("router"), router.concat()).unwrap();
    let read = |peer| source(folder.path(), "", "key-chains = \"router\"\n", &[peer]).read();
    assert_eq!(read("192.0.2.3=d").unwrap().peers[0].1.name(), "d");
    let error = read("192.0.2.1=c").unwrap_err().to_string();
    let expected =
        "router: key chain \"c\", name: neighbors use this chain both with and without TCP options";
    assert!(error.contains(expected), "{error}");
}

/// A secret may stand where a name belongs, and the error goes to the journal.
#[test]
fn errors_do_not_repeat_values() {
    let folder = tempfile::tempdir().unwrap();
    for (config, names) in [
        (
            "[peers]\n\"192.0.2.1\" = { chain = \"core\", secret = \"TopSecret-4711\" }\n",
            "\"192.0.2.1\": expected",
        ),
        ("[peers]\n192.0.2.1 = \"TopSecret-4711\"\n", "\"192.0.2.1\""),
        ("[peers]\n\"192.0.2.1\" = \"TopSecret-4711\"\n", "192.0.2.1"),
        ("[peers]\n\"192.0.2.1\" = TopSecret-4711\n", "config.toml: line 3: "),
        ("[peers]\n\"192.0.2.1\" = \"TopSecret-4711\n", "config.toml: line 3: "),
        ("[peers]\n\"192.0.2.1\" = \"core\" TopSecret-4711\n", "config.toml: line 3: "),
        ("[peers]\n\"192.0.2.1\" = [\"TopSecret-4711\"]\n", "\"192.0.2.1\": expected"),
        ("[peers]\n\"192.0.2.1\" = \"\\TopSecret-4711\"\n", "config.toml: line 3: "),
        ("ports = [\n\"TopSecret-4711\"\n]\n", "line 3: expected numbers"),
        ("ports = \"TopSecret-4711, expected\"\n", "ports: expected"),
        ("md5 = \"TopSecret-4711\"\n", "md5: expected"),
        ("refuse-others = \"TopSecret-4711\"\n", "refuse-others: expected"),
        ("secret = \"TopSecret-4711\"\n", "unknown field `secret`"),
        ("key-chains.secret = \"TopSecret-4711\"\n", "key-chains.secret"),
        ("md5 = { TopSecret-4711 = 1 }\n", "md5: expected"),
        ("[peers]\nTopSecret-4711\n", "config.toml: line 3: "),
        ("TopSecret-4711 TopSecret-4711\n", "config.toml: line 2: "),
    ] {
        let config =
            if config.contains("key-chains") { config.to_owned() } else { NAMED.to_owned() + config };
        let error = source(folder.path(), KEYS, &config, &[]).read().unwrap_err();
        let said = error.to_string();
        assert!(!format!("{said} {error:?}").contains("TopSecret"), "{config}: {said}");
        assert!(said.contains(names), "{config}: {said}");
    }
}

#[test]
fn hosts_and_the_networks_around_them_are_refused_for_the_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let overlaps = |peers: &[&str]| {
        let config = source(folder.path(), KEYS, NAMED, peers).read().unwrap();
        matches!(config.check_for_kernel(), Err(Error::Overlap(..)))
    };
    for peers in [
        &["192.0.2.1", "192.0.2.0/24"][..],
        &["192.0.2.0/24", "192.0.2.0/25"],
        &["192.0.2.1", "::ffff:192.0.2.0/120"],
        &["10.0.0.0/8", "10.1.0.0/16", "192.0.2.1"],
        &["2001:db8::/32", "198.51.100.1", "2001:db8:1::1"],
        &["192.0.2.1", "192.0.2.1%lo"],
        &["192.0.2.0/24", "192.0.2.1%lo", "192.0.2.7%lo"],
    ] {
        assert!(overlaps(peers), "{peers:?}");
    }
    for peers in [
        &["192.0.2.1", "192.0.2.2", "192.0.3.0/24", "2001:db8::/32"][..],
        &["10.0.0.0/16", "10.1.0.0/16", "10.2.0.1"],
        &["0.0.0.0/1", "128.0.0.0/1", "::/0"],
    ] {
        assert!(!overlaps(peers), "{peers:?}");
    }
}

#[test]
fn a_gateway_takes_only_what_it_can_carry_out() {
    let folder = tempfile::tempdir().unwrap();
    for (line, peer, expected) in [
        ("", "192.0.2.1", None),
        ("md5 = \"refuse\"", "192.0.2.1", None),
        ("", "192.0.2.1%lo", Some("peer 192.0.2.1%lo: a gateway cannot tell VRFs apart")),
        ("", "2001:db8::1%lo", Some("peer 2001:db8::1%lo: a gateway cannot tell VRFs apart")),
        ("", "fe80::1", None),
        ("", "fe80::1%lo", Some("peer fe80::1%lo: a gateway cannot tell links apart: write a link-local")),
        ("refuse-others = true", "192.0.2.1", Some("refuse-others has no effect in a gateway")),
        ("md5 = \"leave\"", "192.0.2.1", Some("md5 has no effect in a gateway")),
    ] {
        let source = source(folder.path(), KEYS, &format!("{NAMED}{line}\n"), &[peer]);
        let refused = source.read().unwrap().check_for_gateway().err().map(|error| error.to_string());
        let is_expected = match expected {
            Some(begins) => refused.as_ref().is_some_and(|refused| refused.starts_with(begins)),
            None => refused.is_none(),
        };
        assert!(is_expected, "{line} {peer}: {refused:?}");
    }
}

#[test]
fn a_gateway_takes_a_host_and_the_networks_around_it_with_any_ids_but_no_chain_with_too_many_keys() {
    let folder = tempfile::tempdir().unwrap();
    let both = KEYS.to_owned() + EDGE;
    let check = |keys: &str, peers: &[&str]| {
        let read = source(folder.path(), keys, NAMED, peers).read().unwrap();
        read.check_for_gateway().map_err(|error| error.to_string())
    };
    assert_eq!(check(&both, &["192.0.2.1=core", "192.0.2.0/24=edge", "0.0.0.0/0=core", "::/0=edge"]), Ok(()));
    let key = |id| {
        format!(
            "[[key-chain.key]]\nsend-id = {id}\nalgorithm = \"hmac(sha1)\"\nsecret = \"a secret of 20 octets\"\n"
        )
    };
    let chain =
        |keys: u8| "[[key-chain]]\nname = \"core\"\n".to_owned() + &(1..=keys).map(key).collect::<String>();
    assert_eq!(check(&chain(4), &["192.0.2.1"]), Ok(()));
    let refused = check(&chain(5), &["192.0.2.1"]).unwrap_err();
    assert_eq!(
        refused,
        "peer 192.0.2.1: key chain \"core\", key: there is room for only 4 keys that are valid at the same time in a gateway"
    );
}
