//! Arista EOS: profiles, the neighbors that use them, and what EOS has differently.

use std::path::Path;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{
    Clock, End, Finding, Format, Implementation, KeyFile, Lifetime, Timestamp, Weight, check, convert, load,
    read,
};

use super::routers::{keys, lifetime, neighbors};

fn read_text(text: &str) -> KeyFile {
    read(Path::new("edge1.cfg"), text, Some(Format::Eos)).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn error_of(text: &str) -> String {
    read(Path::new("edge1.cfg"), text, Some(Format::Eos)).map(drop).unwrap_err().to_string()
}

/// A profile P with these lines, used by 192.0.2.2.
fn profile(lines: &str) -> String {
    format!(
        "management security\n   session shared-secret profile P\n{lines}!\nrouter bgp 64501\n   neighbor 192.0.2.2 password \
         shared-secret profile P algorithm hmac-sha1-96\n"
    )
}

fn findings(file: &KeyFile) -> Vec<Finding> {
    let now: Timestamp = "2026-07-15T00:00:00Z".parse().unwrap();
    check(file, now, &[Implementation::reading(Some(Format::Eos))])
}

/// The kinds and lines of the warnings in July 2026.
fn warnings(text: &str) -> Vec<(&'static str, Option<usize>)> {
    let found = findings(&read_text(text)).into_iter();
    let warnings = found.filter(|finding| finding.weight == Weight::Warning);
    warnings.map(|finding| (finding.kind, finding.position.map(|at| at.line))).collect()
}

#[test]
fn a_profile_is_a_chain_for_each_algorithm_of_its_neighbors() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/routers/eos.cfg");
    let file = load(&path, None).unwrap();
    assert_eq!(file.format, Some(Format::Eos));
    let [sha1, cmac, edge] = &file.chains[..] else { panic!("two profiles, one with two algorithms") };
    assert_eq!(
        keys(sha1),
        ["CORE/0: 0/0 HMAC-SHA-1-96 Vd8zqkT1p0wYhU3m", "CORE/10: 10/10 HMAC-SHA-1-96 k2Lr9sXw4Qe7Zb1N"]
    );
    // 192.0.2.4 has a password for TCP MD5, which is not the group's profile; groups serve VRFs too.
    assert_eq!(neighbors(sha1), ["192.0.2.2", "192.0.2.9 vrf RED"]);
    assert_eq!(neighbors(cmac), ["192.0.2.3"]);
    assert!(cmac.keys.iter().all(|key| key.algorithm == TcpAoAlgorithm::Aes128Cmac && key.mac_length == 12));
    assert_eq!(neighbors(edge), ["2001:db8::2", "192.0.2.2 vrf RED"]);
    // Both chains have the profile's name, so neither can be followed.
    let usable = file.key_chains(End::ThisEnd).unwrap();
    let [(name, error)] = usable.unusable() else { panic!("one name") };
    assert_eq!((usable.chains().len(), &**name), (1, "CORE"));
    assert!(error.to_string().contains("with two algorithms: give each its own profile"));
    assert_eq!(sha1.keys[0].send, lifetime("2026-01-01T00:00:00Z", "2026-07-01T00:00:00Z"));
    assert_eq!(sha1.keys[0].accept, lifetime("2026-01-01T00:00:00Z", "2026-08-01T00:00:00Z"));
    assert_eq!(edge.keys[0].send, Lifetime::ALWAYS);
    // The profile of IS-IS.
    assert_eq!(file.skipped.iter().map(|skipped| skipped.position.line).collect::<Vec<_>>(), [22]);
    let kinds: Vec<_> = findings(&file).into_iter().filter(|it| it.weight == Weight::Warning).collect();
    assert_eq!(
        kinds.iter().map(|it| (it.kind, &*it.subject)).collect::<Vec<_>>(),
        [("send-lifetime-over", "CORE/0")]
    );
}

/// Published configurations: TCP-AO/Configuration-examples (EOS 4.29.2F and Junos), aristanetworks/avd #3699 and its tests, a lab guide.
#[test]
fn published_forms_are_read() {
    for (line, expected) in [
        (
            "secret 10 7 $1c$0123456789AB== receive-lifetime 2023-01-01 00:00:00 infinite transmit-lifetime 2023-01-01 00:00:00 infinite",
            "",
        ),
        ("secret 0 7 $1c$0123456789AB== receive-lifetime infinite transmit-lifetime infinite", ""),
        (
            "secret 3 8a $abc receive-lifetime 2024-12-20 10:00:00 2035-12-20 10:00:00 transmit-lifetime 12/20/2024 10:00:00 12/10/2035 10:00:00",
            "",
        ),
        ("secret 0 Vd8zqkT1p0wYhU3m infinite", "Vd8zqkT1p0wYhU3m"),
        ("secret 0 0 Vd8zqkT1p0wYhU3m infinite", "Vd8zqkT1p0wYhU3m"),
        (
            "secret 4 0 Vd8zqkT1p0wYhU3m transmit-lifetime infinite receive-lifetime infinite local-time",
            "Vd8zqkT1p0wYhU3m",
        ),
    ] {
        let file = read_text(&profile(&format!("      {line}\n")));
        let key = &file.chains[0].keys[0];
        assert_eq!(key.secret.expose(), expected.as_bytes(), "{line}");
        let kind = match line.split(' ').nth(2) {
            Some("7") => Some("type 7 of EOS"),
            Some("8a") => Some("type 8a"),
            _ => None,
        };
        assert_eq!(key.secret.encryption(), kind, "{line}");
    }
    let dates = "secret 1 0 x receive-lifetime 12/20/2024 10:00:00 12/21/2035 00:00:00 transmit-lifetime 2024-12-20 10:00:00 infinite";
    let file = read_text(&profile(&format!("      {dates}\n")));
    let key = &file.chains[0].keys[0];
    assert_eq!(key.accept, lifetime("2024-12-20T10:00:00Z", "2035-12-21T00:00:00Z"));
    assert_eq!((key.send, key.clock), (lifetime("2024-12-20T10:00:00Z", ""), Clock::Utc));
    let local = read_text(&profile(&format!("      {dates} local-time\n"))).chains[0].keys[0].clone();
    assert_eq!((local.send, local.clock), (key.send, Clock::Local));
    // Some releases write "peer-group".
    let text = "management security\n   !\n   session shared-secret profile P\n      secret 0 S3cretOfThePeers infinite\nrouter bgp 1\n   \
                neighbor G peer-group\n   neighbor G password shared-secret profile P algorithm hmac-sha1-96\n   neighbor 192.0.2.2 peer-group G\n   \
                neighbor interface Ethernet3 peer-group G remote-as 2\n   bgp listen range 198.51.100.0/24 peer-group G remote-as 3\n";
    let file = read(Path::new("x"), text, None).unwrap();
    assert_eq!(file.format, Some(Format::Eos));
    assert_eq!(neighbors(&file.chains[0]), ["192.0.2.2", "fe80::/10%Ethernet3", "198.51.100.0/24"]);
    let conversion = convert(&file, Format::Eos).unwrap();
    assert_eq!(
        (neighbors(&read_text(&conversion.text).chains[0]), conversion.losses),
        (neighbors(&file.chains[0]), vec![])
    );
}

#[test]
fn indentation_may_be_missing() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/routers/eos.cfg");
    let text = std::fs::read_to_string(path).unwrap();
    let flat: String = text.lines().flat_map(|line| [line.trim_start(), "\n"]).collect();
    let (whole, flat) = (read_text(&text), read_text(&flat));
    assert_eq!(flat.chains.len(), whole.chains.len());
    for (flat, whole) in flat.chains.iter().zip(&whole.chains) {
        assert_eq!((&flat.name, neighbors(flat), keys(flat)), (&whole.name, neighbors(whole), keys(whole)));
        assert_eq!(flat.remarks, []);
    }
    assert_eq!(flat.remarks, []);
    // A session with prompts, from a lab guide.
    let typed = "rtr(config)#management security\nrtr(config-mgmt-security)#session shared-secret profile PEERS\n\
                 rtr(config-mgmt-sec-sh-sec-profile-PEERS)#secret 0 Vd8zqkT1p0wYhU3m infinite\n\
                 rtr(config-mgmt-sec-sh-sec-profile-PEERS)#exit\nrtr(config)#banner login\n   Go away\nEOF\n\
                 rtr(config)#router bgp 65000\nrtr(config-router-bgp)#neighbor 192.0.2.2 password shared-secret profile PEERS algorithm \
                 hmac-sha1-96\n";
    let file = read(Path::new("x"), typed, None).unwrap();
    assert_eq!(file.format, Some(Format::Eos));
    assert_eq!(keys(&file.chains[0]), ["PEERS/0: 0/0 HMAC-SHA-1-96 Vd8zqkT1p0wYhU3m"]);
    assert_eq!(neighbors(&file.chains[0]), ["192.0.2.2"]);
    assert_eq!((&file.chains[0].remarks, &file.remarks), (&vec![], &vec![]));
    // A part without the lines around it.
    let alone =
        "router bgp 1\n   neighbor 192.0.2.2 password shared-secret profile P algorithm hmac-sha1-96\n";
    assert_eq!(Format::of(Path::new("x"), alone), Some(Format::Eos));
    let file = read_text(
        "session shared-secret profile P\n   secret 1 0 Vd8zqkT1p0wYhU3m infinite\nneighbor 192.0.2.2 password shared-secret \
         profile P algorithm aes-128-cmac-96\n",
    );
    assert_eq!((keys(&file.chains[0]).len(), neighbors(&file.chains[0])), (1, vec!["192.0.2.2".to_owned()]));
}

/// Without indentation, a line belongs to the mode of the last line that can contain it.
#[test]
fn modes_without_indentation_end_where_others_begin() {
    let head = "management security\nsession shared-secret profile P\n";
    let secret = "secret 1 0 Vd8zqkT1p0wYhU3m infinite\n";
    let neighbor = "neighbor 192.0.2.2 password shared-secret profile P algorithm hmac-sha1-96\n";
    let bgp = "router bgp 64501\nvrf RED\n";
    let unknown = vec![("not-understood", Some(3))];
    for (text, expected, warned) in [
        (format!("{head}{secret}{bgp}{neighbor}"), "192.0.2.2 vrf RED", vec![]),
        // A comment between.
        (format!("{head}!\n{secret}!\n{bgp}!\n{neighbor}"), "192.0.2.2 vrf RED", vec![]),
        // A line that is not known belongs to the one above.
        (format!("{head}rotate daily\n{secret}{bgp}{neighbor}"), "192.0.2.2 vrf RED", unknown),
        // Another mode directly above, or between.
        (format!("{head}{secret}!\nrouter ospf 1\n{bgp}{neighbor}"), "192.0.2.2 vrf RED", vec![]),
        (format!("{head}{secret}{bgp}!\nrouter isis X\n{neighbor}"), "192.0.2.2", vec![]),
    ] {
        let file = read_text(&text);
        assert_eq!(
            (neighbors(&file.chains[0]), warnings(&text)),
            (vec![expected.to_owned()], warned),
            "{text}"
        );
    }
}

#[test]
fn what_is_not_used_or_not_understood_is_said() {
    let key = "      secret 1 0 Vd8zqkT1p0wYhU3m infinite\n";
    assert_eq!(warnings(&profile(key)), []);
    assert_eq!(warnings(&profile(&format!("{key}      rotate daily\n"))), [("not-understood", Some(4))]);
    assert_eq!(
        warnings(&profile(&format!("{}\n", key.trim_end().to_owned() + " later"))),
        [("not-understood", Some(3))]
    );
    assert_eq!(
        warnings(&profile(&format!("{key}      secret Secret2 0 k2Lr9sXw4Qe7Zb1N infinite\n"))),
        [("left-out", Some(4))]
    );
    let and = |more: &str| warnings(&(profile(key) + more));
    assert_eq!(and("secret 2 0 k2Lr9sXw4Qe7Zb1N infinite\n"), [("not-understood", Some(7))]);
    assert_eq!(and("   no neighbor 192.0.2.2 password\n"), [("not-understood", Some(7))]);
    assert_eq!(and("   no neighbor 192.0.2.2 shutdown\n"), []);
    assert_eq!(and("username admin secret password\n"), []);
    let lost = "   neighbor 192.0.2.3 password shared-secret profile P algorithm hmac-sha1-96\n";
    assert_eq!(and(&format!("shutdown vrf\n{lost}")), [("not-understood", Some(8))]);
    assert_eq!(and("   neighbor 192.0.2.2 password shared-secret profile\n"), [("not-understood", Some(7))]);
    assert_eq!(and("   neighbor 192.0.2.2 password 7 CVzw2PKPQkg=\n"), [("refused", Some(7))]);
    assert_eq!(
        and("   neighbor 192.0.2.3 password shared-secret profile Q algorithm hmac-sha1-96\n"),
        [("missing", Some(7))]
    );
    assert_eq!(
        and("   neighbor 192.0.2.3 password shared-secret profile P algorithm hmac-sha-256\n"),
        [("left-out", Some(7))]
    );
    assert_eq!(and("service routing protocols model ribd\n"), [("refused", Some(7))]);
    assert_eq!(
        and("management security\n   session shared-secret profile Q\n      secret 1 0 x infinite\n"),
        [("left-out", Some(8))]
    );
    // The profile of an interface's IS-IS.
    let isis = "session shared-secret profile Q\n   secret 1 0 x infinite\ninterface Ethernet1\n   isis authentication mode shared-secret \
                profile Q algorithm sha-256\n";
    let file = read_text(&(profile(key) + isis));
    assert_eq!(file.skipped.iter().map(|skipped| skipped.position.line).collect::<Vec<_>>(), [7]);
    // A whole configuration without the routing model is a note.
    let file = read_text(&format!("hostname edge1\n{}", profile(key)));
    let notes: Vec<_> =
        findings(&file).into_iter().filter(|it| it.kind == "refused" && it.subject.is_empty()).collect();
    assert!(
        notes.len() == 1 && notes[0].weight == Weight::Note && notes[0].sentence.contains("multi-agent"),
        "{notes:?}"
    );
}

#[test]
fn errors_name_the_place_and_no_secret() {
    let line = |line: &str| error_of(&profile(&format!("      secret {line}\n")));
    let at = "edge1.cfg: line 3, column 7, ";
    for (text, expected) in [
        ("10 7 receive-lifetime infinite transmit-lifetime infinite", "secret: the secret is missing"),
        ("10 0 infinite", "secret: the secret is missing"),
        ("10 infinite infinite", "secret: the secret is missing"),
        ("10", "secret: the secret is missing"),
        ("", "secret: is missing"),
        ("10 0 hunter2", "transmit-lifetime: is missing"),
        ("10 0 hunter2 transmit-lifetime infinite", "receive-lifetime: is missing"),
    ] {
        assert_eq!(line(text), format!("{at}{expected}"));
    }
    for lifetime in [
        "2026-13-01 00:00:00 infinite",
        "2026-01-01 infinite",
        "31/12/2026 00:00:00 infinite",
        "2026-1-1-1 00:00:00 infinite",
    ] {
        let error = line(&format!("10 0 hunter2 receive-lifetime {lifetime} transmit-lifetime infinite"));
        assert!(error.contains("column 27, receive-lifetime: expected infinite, or YYYY-MM-DD"), "{error}");
    }
    let error = line(
        "10 0 hunter2 receive-lifetime 2026-01-02 00:00:00 2026-01-01 00:00:00 transmit-lifetime infinite",
    );
    assert_eq!(error, "edge1.cfg: line 3, column 27, receive-lifetime: must end after it begins");

    let unused =
        "management security\n   session shared-secret profile P\n      secret 1 0 hunter2 infinite\n";
    let error = error_of(unused);
    assert!(
        error.starts_with(
            "edge1.cfg: line 2, column 4: profile \"P\" is left out: no BGP neighbor in the file uses it"
        ),
        "{error}"
    );
    let used = |algorithm: &str| {
        error_of(&format!(
            "{unused}neighbor 192.0.2.2 password shared-secret profile P algorithm {algorithm}\n"
        ))
    };
    assert!(
        used("hmac-sha-256")
            .contains("line 4, column 10: profile \"P\" of this neighbor is left out: its algorithm is hmac-sha-256, whose KDF")
    );
    assert_eq!(
        used("md5"),
        "edge1.cfg: line 4, column 63, algorithm: expected hmac-sha1-96 or aes-128-cmac-96"
    );
}

#[test]
fn a_chain_without_neighbors_is_written_with_a_peer_group() {
    let toml = "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 1\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \
                \"Vd8zqkT1p0wYhU3m\"\n";
    let file = read(Path::new("keys.toml"), toml, None).unwrap();
    let conversion = convert(&file, Format::Eos).unwrap();
    assert_eq!(conversion.losses, [""; 0]);
    let expected = "\
! EOS needs \"service routing protocols model multi-agent\" for this.
management security
   session shared-secret profile core
      secret 1 0 Vd8zqkT1p0wYhU3m receive-lifetime infinite transmit-lifetime infinite
   !
!
! Replace AS with the AS number.
router bgp AS
   neighbor core-aes-128-cmac-96 peer group
   neighbor core-aes-128-cmac-96 password shared-secret profile core algorithm aes-128-cmac-96
!
";
    assert_eq!(*conversion.text, expected);
}

#[test]
fn what_eos_cannot_have_is_left_out_and_said() {
    let key =
        |number: u8, more: &str| format!("[[key-chain.key]]\n{more}\nsecret = \"{number}d8zqkT1p0wYhU3m\"\n");
    let toml = "[[key-chain]]\nname = \"c\"\ndescription = \"d\"\naccept-tolerance = 60\n".to_owned()
        + &key(
            1,
            "key-id = 3\nsend-id = 1\nalgorithm = \"hmac(sha1)\"\nsend = { until = 2027-01-01T00:00:00Z }",
        )
        + &key(2, "send-id = 2\nalgorithm = \"AES-128-CMAC-96\"")
        + &key(3, "key-id = 9\nsend-id = 4\nrecv-id = 5\nalgorithm = \"hmac(sha1)\"")
        + "[[key-chain.key]]\nsend-id = 6\nalgorithm = \"hmac(sha1)\"\nsecret = \"why? because\"\n";
    let file = read(Path::new("keys.toml"), &toml, None).unwrap();
    let conversion = convert(&file, Format::Eos).unwrap();
    assert_eq!(
        conversion.losses,
        [
            "key c/9 is left out: EOS has one id for both directions",
            "key c/2 is left out: EOS has one algorithm for all keys of a neighbor",
            "key c/6 is left out: EOS accepts only printable ASCII characters without blanks and question marks",
            "chain \"c\": its description, which EOS does not have",
            "chain \"c\": its tolerance, which EOS does not have",
            "key c/3: its number, because EOS identifies keys by their ids",
        ]
    );
    assert!(conversion.text.contains(
        "secret 1 0 1d8zqkT1p0wYhU3m receive-lifetime 1970-01-01 00:00:00 2027-01-01 00:00:00 transmit-lifetime 1970-01-01 \
         00:00:00 2027-01-01 00:00:00\n"
    ));
    let again = read_text(&conversion.text);
    assert_eq!(again.chains[0].keys[0].send, lifetime("", "2027-01-01T00:00:00Z"));
}
