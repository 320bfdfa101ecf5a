//! Huawei VRP: policies of `tcp ao` with their keychains and peers, and what VRP has differently.

use std::path::Path;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{
    Clock, Finding, Format, Implementation, KeyFile, Lifetime, Neighbor, Timestamp, Weight, check, convert,
    load, read,
};
use wireseal_tcp_ao::OptionCoverage;

use super::routers::{keys, lifetime, neighbors};

fn read_text(text: &str) -> KeyFile {
    read(Path::new("DeviceA.cfg"), text, Some(Format::Vrp)).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn error_of(text: &str) -> String {
    read(Path::new("DeviceA.cfg"), text, Some(Format::Vrp)).map(drop).unwrap_err().to_string()
}

const ALGORITHM: &str = "  algorithm hmac-sha1-12\n";
const SECRET: &str = "  key-string plain Vd8zqkT1p0wYhU3m\n";
const TIMES: &str =
    "  send-time 00:00 2026-01-01 duration infinite\n  receive-time 00:00 2026-01-01 duration infinite\n";

/// A policy P with a keychain k in universal time, with these lines for its key 1 and behind it.
fn policy(of_key: &str, more: &str) -> String {
    format!(
        "keychain k mode absolute\n time mode utc\n key-id 1\n{of_key}#\ntcp ao P\n binding keychain k\n key-id 1\n  send-id 1 \
         receive-id 2\n{more}"
    )
}

fn findings(text: &str, weight: Weight) -> Vec<Finding> {
    let now: Timestamp = "2026-07-15T00:00:00Z".parse().unwrap();
    let found = check(&read_text(text), now, &[Implementation::reading(Some(Format::Vrp))]);
    found.into_iter().filter(|finding| finding.weight == weight).collect()
}

/// The kinds and lines of the warnings in July 2026.
fn warnings(text: &str) -> Vec<(&'static str, Option<usize>)> {
    let found = findings(text, Weight::Warning).into_iter();
    found.map(|finding| (finding.kind, finding.position.map(|at| at.line))).collect()
}

#[test]
fn a_policy_is_a_chain_with_the_keys_of_its_keychain() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/routers/vrp.cfg");
    let file = load(&path, None).unwrap();
    assert_eq!(file.format, Some(Format::Vrp));
    let [core, edge] = &file.chains[..] else { panic!("two policies") };
    assert_eq!(
        keys(core),
        ["core/1: 1/1 HMAC-SHA-1-96 Vd8zqkT1p0wYhU3m", "core/2: 3/4 AES-128-CMAC-96 k2Lr9sXw 4Qe7Zb1N"]
    );
    assert_eq!(keys(edge), ["edge/0: 0/255 HMAC-SHA-1-96 q8Wc5Rt1Yx6Lm0Zd"]);
    // BGP's peer and MSDP's are one neighbor. Those with other passwords, or with none, do not use their group's policy.
    assert_eq!(neighbors(core), ["192.0.2.2", "192.0.2.7", "192.0.2.8"]);
    assert_eq!(neighbors(edge), ["192.0.2.3", "2001:db8::2", "192.0.2.2 vrf RED"]);
    assert_eq!((core.accept_tolerance, edge.accept_tolerance), (300, 0));
    assert_eq!(core.keys[0].send, lifetime("2026-01-01T00:00:00Z", "2026-07-01T00:00:00Z"));
    assert_eq!(core.keys[0].accept, lifetime("2026-01-01T00:00:00Z", "2026-08-01T00:00:00Z"));
    assert_eq!(core.keys[1].send, lifetime("2026-07-01T00:00:00Z", ""));
    assert_eq!(edge.keys[0].send, Lifetime::ALWAYS);
    assert_eq!(
        (core.keys[0].options, edge.keys[0].options),
        (OptionCoverage::Covered, OptionCoverage::Excluded)
    );
    assert!(
        file.chains
            .iter()
            .flat_map(|chain| &chain.keys)
            .all(|key| key.clock == Clock::Utc && key.mac_length == 12)
    );
    // The other key of "edge" has no ids.
    assert_eq!(file.skipped.iter().map(|skipped| skipped.position.line).collect::<Vec<_>>(), [33]);
    assert_eq!((&core.remarks, &edge.remarks, &file.remarks), (&vec![], &vec![], &vec![]));
}

#[test]
fn indentation_may_be_missing() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/routers/vrp.cfg");
    let text = std::fs::read_to_string(path).unwrap();
    let flat: String = text.lines().flat_map(|line| [line.trim_start(), "\n"]).collect();
    let (whole, flat) = (read_text(&text), read_text(&flat));
    assert_eq!(flat.chains.len(), whole.chains.len());
    for (flat, whole) in flat.chains.iter().zip(&whole.chains) {
        assert_eq!((&flat.name, neighbors(flat), keys(flat)), (&whole.name, neighbors(whole), keys(whole)));
        assert_eq!((flat.accept_tolerance, &flat.remarks), (whole.accept_tolerance, &vec![]));
    }
    // Commands as they are typed, in Huawei's guide (BGP TCP-AO, NetEngine 8000).
    let typed = "system-view\nkeychain kc1 mode absolute\nreceive-tolerance 600\nkey-id 1\nalgorithm aes-128-cmac\nkey-string plain \
                 Vd8zqkT1p0wYhU3m\nsend-time 00:00 2021-1-1 to 23:59 2022-2-1\nreceive-time 00:00 2021-1-1 to 23:59 \
                 2022-2-1\nquit\nquit\ntcp ao a1\nbinding keychain kc1\nkey-id 1\nsend-id 1 receive-id 2\nquit\nquit\nbgp 100\npeer \
                 192.0.2.2 as-number 100\npeer 192.0.2.2 tcp-ao policy a1\ncommit\n";
    let file = read_text(typed);
    let chain = &file.chains[0];
    assert_eq!(
        (keys(chain), neighbors(chain)),
        (vec!["a1/1: 1/2 AES-128-CMAC-96 Vd8zqkT1p0wYhU3m".to_owned()], vec!["192.0.2.2".to_owned()])
    );
    assert_eq!((chain.accept_tolerance, chain.keys[0].clock), (36_000, Clock::Local));
    assert_eq!(chain.keys[0].accept, lifetime("2021-01-01T00:00:00Z", "2022-02-01T23:59:00Z"));
    assert_eq!((&chain.remarks, &file.remarks), (&vec![], &vec![]));
    let prompts = |line: &str| match line.starts_with("key") {
        true => format!("[*HUAWEI-keychain-kc1] {line}\n"),
        false => format!("[~HUAWEI]{line}\n"),
    };
    let prompted: String = typed.lines().map(prompts).collect();
    let again = read(Path::new("x"), &prompted, None).unwrap();
    assert_eq!((again.format, keys(&again.chains[0])), (Some(Format::Vrp), keys(chain)));
}

/// Where a command belongs shows in its words, whatever lines are between.
#[test]
fn lines_may_be_empty_where_indentation_is_missing() {
    let users = "bgp 1\n group ao internal\n peer ao tcp-ao policy P\n peer 192.0.2.2 group ao\n";
    let text = policy(&[ALGORITHM, SECRET, TIMES].concat(), users);
    let whole = read_text(&text);
    assert_eq!(neighbors(&whole.chains[0]), ["192.0.2.2"]);
    let flat: String = text.lines().flat_map(|line| [line.trim_start(), "\n"]).collect();
    for text in [flat.replace('\n', "\n\n"), flat] {
        let file = read_text(&text);
        assert_eq!(neighbors(&file.chains[0]), neighbors(&whole.chains[0]), "{text}");
        assert!(file.chains[0].keys[0].is_same_key(&whole.chains[0].keys[0]), "{text}");
        assert_eq!((&file.chains[0].remarks, &file.remarks), (&vec![], &vec![]), "{text}");
    }
}

#[test]
fn a_text_is_vrps_by_its_own_words() {
    for text in [
        "keychain core mode absolute\n",
        "[*HUAWEI]tcp ao core\n",
        " peer 192.0.2.2 tcp-ao core\n",
        "tcp-algorithm-id hmac-sha-256 17\n",
    ] {
        assert_eq!(Format::of(Path::new("router"), text), Some(Format::Vrp), "{text}");
    }
}

/// Huawei, Example for Configuring TCP-AO Authentication for BGP (NetEngine 8000): two keys with HMAC-SHA-256, whose key derivation is not
/// documented.
#[test]
fn keys_with_other_algorithms_are_left_out() {
    let guide = "#\n sysname DeviceA\n#\nkeychain huawei mode absolute\n receive-tolerance 5\n #\n key-id 1\n  algorithm hmac-sha-256\n  \
                 key-string cipher %^%#aB3-x>>[k,Lm2}##;\"}pQ9#r>T~s-w%^%#\n  send-time 12:00 2019-12-10 to 15:00 2019-12-10\n \
                 #\n key-id 2\n  algorithm hmac-sha-256\n  key-string cipher %^%#!<u'N%[f)|g$h$!a@!K%^%#\n  \
                 send-time 15:01 2019-12-10 to 18:00 2019-12-10\n#\ntcp ao huawei\n binding keychain huawei\n #\n key-id 1\n  send-id 1 \
                 receive-id 2\n key-id 2\n  send-id 3 receive-id 4\n#\nbgp 1\n router-id 192.0.2.1\n peer 192.0.2.2 as-number 1\n peer \
                 192.0.2.2 tcp-ao policy huawei\n #\n ipv4-family unicast\n  peer 192.0.2.2 enable\n#\nreturn\n";
    assert_eq!(
        error_of(guide),
        "DeviceA.cfg: line 8, column 13: key huawei/1 is left out: its algorithm is hmac-sha-256, whose KDF Huawei does not document; key \
         huawei/2 is left out: its algorithm is hmac-sha-256, whose KDF Huawei does not document"
    );
    assert_eq!(Format::of(Path::new("x"), guide), Some(Format::Vrp));
    let one = guide.replacen("hmac-sha-256", "hmac-sha1-12", 1);
    let file = read_text(&one);
    assert_eq!(file.chains[0].keys[0].secret.encryption(), Some("cipher"));
    assert_eq!(file.chains[0].keys[0].algorithm, TcpAoAlgorithm::HmacSha1);
    assert!(warnings(&one).contains(&("left-out", Some(13))));
    let twenty = warnings(&guide.replacen("hmac-sha-256", "hmac-sha1-12", 1).replacen(
        "hmac-sha-256",
        "hmac-sha1-20",
        1,
    ));
    assert!(twenty.contains(&("left-out", Some(13))));
}

#[test]
fn what_vrp_has_differently_is_said() {
    let good = [ALGORITHM, SECRET, TIMES].concat();
    assert_eq!(warnings(&policy(&good, "")), []);
    let of_key = |line: &str| warnings(&policy(&(good.clone() + line + "\n"), ""));
    let more = |lines: &str| warnings(&policy(&good, lines));
    assert_eq!(of_key("  rotate daily"), [("not-understood", Some(8))]);
    assert_eq!(of_key(" rotate daily"), [("not-understood", Some(8))]);
    assert_eq!(more(" rotate daily\n"), [("not-understood", Some(13))]);
    assert_eq!(more(" accept-mismatch enable\n"), [("accepts-mismatch", Some(13))]);
    assert_eq!(more(" key-id 2\n  send-id 2 receive-id 2\n"), [("missing", Some(13))]);
    assert_eq!(more("tcp ao Q\n key-id 2\n  send-id 2 receive-id 2\n"), [("missing", Some(13))]);
    assert_eq!(more("tcp ao Q\n"), [("missing", Some(13))]);
    assert_eq!(more("tcp ao Q\n binding keychain q\n"), [("missing", Some(14))]);
    assert_eq!(more("tcp ao Q\n binding keychain k\n"), [("missing", Some(13))]);
    assert_eq!(more("bgp 1\n peer 192.0.2.2 tcp-ao policy Q\n"), [("missing", Some(14))]);
    assert_eq!(more("bgp 1\n peer 192.0.2.2 tcp-ao later\n"), [("not-understood", Some(14))]);
    assert_eq!(more("mpls ldp\n authentication tcp-ao all name P\n"), [("not-understood", Some(14))]);
    assert_eq!(more("#\n key-string plain x\n"), [("not-understood", Some(14))]);
    // A part without the lines around it.
    let file = read_text(&policy(&good, "peer 192.0.2.2 tcp-ao policy P\n"));
    assert_eq!(neighbors(&file.chains[0]), ["192.0.2.2"]);
    // A key without a send-time is not sent with, unless it is the default one.
    let without = |times: &str| policy(&[ALGORITHM, SECRET, times].concat(), "");
    let accept = "  receive-time 00:00 2026-01-01 duration infinite\n";
    assert_eq!(warnings(&without(accept)), [("accept-too-short", Some(3)), ("refused", Some(3))]);
    let default = "  send-time 00:00 2026-01-01 duration infinite\n  default send-key-id\n";
    assert_eq!(read_text(&without(default)).chains[0].keys[0].send, Lifetime::ALWAYS);
    let notes = findings(&without(default), Weight::Note);
    assert_eq!(notes.iter().filter(|note| note.kind == "assumed").count(), 2, "{notes:?}");

    let another = |time: &str| {
        let key = format!(
            " key-id 2\n{ALGORITHM}  key-string plain k2Lr9sXw4Qe7Zb1N\n  send-time {time}\n{accept}"
        );
        policy(&(good.clone() + &key), " key-id 2\n  send-id 5 receive-id 6\n")
    };
    assert!(warnings(&another("00:00 2026-07-01 duration 60")).contains(&("refused", Some(8))));
    assert!(!warnings(&another("00:00 2025-12-31 duration 60")).contains(&("refused", Some(8))));

    let periodic = policy(&[ALGORITHM, SECRET, "  send-time daily 08:00 to 18:00\n"].concat(), "")
        .replace("mode absolute", "mode periodic daily");
    assert_eq!(warnings(&periodic), [("assumed", Some(1))]);
    assert_eq!(read_text(&periodic).chains[0].keys[0].send, Lifetime::ALWAYS);
    let losses = convert(&read_text(&periodic), Format::Toml).unwrap().losses;
    assert!(losses.iter().any(|loss| loss.contains("periodically")), "{losses:?}");
}

#[test]
fn errors_name_the_place_and_no_secret() {
    let at = "DeviceA.cfg: line ";
    let of_key = |lines: &str| error_of(&policy(lines, ""));
    for (lines, expected) in [
        (SECRET.to_owned(), "3, column 2, algorithm: is missing"),
        (ALGORITHM.to_owned(), "3, column 2, key-string: is missing"),
        (ALGORITHM.to_owned() + "  key-string cipher\n", "5, column 3, key-string: the secret is missing"),
        (ALGORITHM.to_owned() + "  key-string plain\n", "5, column 3, key-string: the secret is missing"),
        ([ALGORITHM, SECRET, SECRET].concat(), "6, column 3, key-string: is given twice"),
        ("  algorithm rot13\n".to_owned(), "4, column 13, algorithm: expected hmac-sha1-12 or aes-128-cmac"),
    ] {
        assert_eq!(of_key(&lines), format!("{at}{expected}"));
    }
    for time in [
        "24:00 2026-01-01 duration 1",
        "00:00 2026-02-29 duration 1",
        "00:00 2026-01-01",
        "00:00 2026-01-01 to 00:00",
        "daily 08:00 to 18:00",
    ] {
        let error = of_key(&format!("{ALGORITHM}  key-string plain hunter2\n  send-time {time}\n"));
        assert!(
            error.starts_with("DeviceA.cfg: line 6, column 3, send-time: expected HH:MM YYYY-MM-DD"),
            "{error}"
        );
    }
    let error = of_key(&format!("{ALGORITHM}{SECRET}  receive-time 00:00 2026-01-02 to 00:00 2026-01-01\n"));
    assert_eq!(error, "DeviceA.cfg: line 6, column 3, receive-time: must end after it begins");
    let error = error_of("keychain k mode absolute\n key-id 64\n");
    assert_eq!(error, "DeviceA.cfg: line 2, column 9, key-id: must be a whole number from 0 to 63");
    let error =
        error_of(&policy(&[ALGORITHM, SECRET, TIMES].concat(), "").replace("  send-id 1 receive-id 2\n", ""));
    assert_eq!(error, "DeviceA.cfg: line 11, column 2, send-id: is missing");

    // H3C 12900E, Security Configuration Guide, keychains.
    let comware = "#\nkeychain abc mode absolute\n tcp-kind 253\n key 1\n  authentication-algorithm hmac-md5\n  key-string plain \
                   hunter2\n  accept-lifetime utc 11:00:00 2026/02/06 to 18:00:00 2026/02/06\n#\n";
    let error = read(Path::new("x.cfg"), comware, None).map(drop).unwrap_err().to_string();
    assert!(
        error.starts_with("x.cfg: line 4, column 2, keychain: this is a keychain of HPE/H3C Comware"),
        "{error}"
    );
}

#[test]
fn send_times_are_written_one_after_the_other() {
    let key = |id: u8, more: &str| {
        format!(
            "[[key-chain.key]]\nsend-id = {id}\nalgorithm = \"hmac(sha1)\"\nsecret = \"{id} 8zqkT1p0wYhU3m\"\n{more}\n"
        )
    };
    let toml = "[[key-chain]]\nname = \"c\"\naccept-tolerance = 90\n".to_owned()
        + &key(1, "")
        + &key(2, "send = { from = 2026-01-01T00:00:30Z }")
        + &key(3, "send = { from = 2026-07-01T00:00:00Z, until = 2060-01-01T00:00:00Z }")
        + &key(4, "")
        + &key(5, "send = { from = 2026-07-01T00:00:00Z }")
        + &key(6, "options = \"excluded\"");
    let file = read(Path::new("keys.toml"), &toml, None).unwrap();
    let conversion = convert(&file, Format::Vrp).unwrap();
    assert_eq!(
        conversion.losses,
        [
            "key c/2: its lifetimes, for which VRP has minutes from 1970 to 2050",
            "key c/3: its lifetimes, for which VRP has minutes from 1970 to 2050",
            "key c/6 is left out: VRP covers TCP options for all keys of a policy or for none",
            "key c/5 is left out: VRP refuses send-times that overlap, and another one starts with it",
            "key c/2: its send lifetime from 2026-07-01T00:00:00Z on: VRP refuses send-times that overlap",
            "chain \"c\": its tolerance, for which VRP has up to 14400 minutes",
            "key c/4: its send lifetime, because in VRP only one key is always sent with",
        ]
    );
    let expected = "\
#
keychain c mode absolute
 receive-tolerance 2
 time mode utc
 #
 key-id 1
  algorithm hmac-sha1-12
  key-string plain \"1 8zqkT1p0wYhU3m\"
  default send-key-id
  receive-time 00:00 1970-01-01 duration infinite
 #
 key-id 2
  algorithm hmac-sha1-12
  key-string plain \"2 8zqkT1p0wYhU3m\"
  send-time 00:00 2026-01-01 to 00:00 2026-07-01
  receive-time 00:00 2026-01-01 duration infinite
 #
 key-id 3
  algorithm hmac-sha1-12
  key-string plain \"3 8zqkT1p0wYhU3m\"
  send-time 00:00 2026-07-01 duration infinite
  receive-time 00:00 2026-07-01 duration infinite
 #
 key-id 4
  algorithm hmac-sha1-12
  key-string plain \"4 8zqkT1p0wYhU3m\"
  receive-time 00:00 1970-01-01 duration infinite
#
tcp ao c
 binding keychain c
 #
 key-id 1
  send-id 1 receive-id 1
 #
 key-id 2
  send-id 2 receive-id 2
 #
 key-id 3
  send-id 3 receive-id 3
 #
 key-id 4
  send-id 4 receive-id 4
#
return
";
    assert_eq!(*conversion.text, expected);
}

#[test]
fn what_vrp_cannot_write_is_said() {
    let with = |name: &str, send: &str, neighbors: &[Neighbor]| {
        let toml = format!(
            "[[key-chain]]\nname = \"c\"\n[[key-chain.key]]\nsend-id = 1\nalgorithm = \"hmac(sha1)\"\nsecret = \"8zqkT1p0wYhU3m\"\n\
             send = {{ {send} }}\n"
        );
        let mut file = read(Path::new("keys.toml"), &toml.replace("send = {  }\n", ""), None).unwrap();
        file.chains[0].name = name.to_owned();
        file.chains[0].neighbors = neighbors.to_vec();
        convert(&file, Format::Vrp).unwrap()
    };
    // Its times begin in 1970, where a start is none, and end with 2050, where an end is none.
    let minutes = "key c/1: its lifetimes, for which VRP has minutes from 1970 to 2050";
    for (send, is_said, written) in [
        ("from = 1970-01-01T00:00:00Z", true, "send-time 00:00 1970-01-01 duration infinite"),
        ("from = 1970-01-01T00:01:00Z", false, "send-time 00:01 1970-01-01 duration infinite"),
        ("until = 2050-12-31T23:59:00Z", false, "send-time 00:00 1970-01-01 to 23:59 2050-12-31"),
        ("until = 2051-01-01T00:00:00Z", true, "send-time 00:00 1970-01-01 duration infinite"),
    ] {
        let conversion = with("c", send, &[]);
        assert_eq!(conversion.losses, Vec::from_iter(is_said.then_some(minutes)), "{send}");
        assert!(conversion.text.contains(written), "{}", *conversion.text);
    }
    let named = with("a b?\"c\u{e9}", "", &[]);
    assert_eq!(named.losses, ["chain \"a b?\\\"c\u{e9}\" is named a_b__c_"]);
    for (address, interface, reason) in [
        ("198.51.100.0/24", None, "because VRP names peers by their addresses"),
        ("198.51.100.0/24", Some("GE0/1/0"), "because VRP names peers by their addresses"),
        ("fe80::1", Some("GE0/1/0"), "because VRP has no interface there"),
    ] {
        let interface = interface.map(str::to_owned);
        let neighbor = Neighbor { vrf: None, address: address.parse().unwrap(), interface };
        let conversion = with("c", "", &[neighbor]);
        assert_eq!(conversion.losses, [format!("chain \"c\": {address}, {reason}")]);
        assert!(!conversion.text.contains("peer"), "{}", *conversion.text);
    }
}
