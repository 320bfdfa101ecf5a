//! Lines of routers' configurations that are given twice, have a value that is impossible, or are rarely seen: an error with its place, or what
//! is read and said.

use std::path::Path;

use wireseal_keys::{Format, read};

use crate::routers::{keys, neighbors, remarks};

/// The error; or each chain with its keys, tolerance and neighbors, then the remarks, then the lines of keys that are skipped.
pub(crate) fn outcome(text: &str, format: Format) -> String {
    let file = match read(Path::new("keys"), text, Some(format)) {
        Err(error) => return error.to_string().trim_start_matches("keys: ").to_owned(),
        Ok(file) => file,
    };
    let mut all: Vec<String> = Vec::new();
    for chain in &file.chains {
        let keys = chain.keys.iter().zip(keys(chain)).map(|(key, shown)| {
            let shown_of = |name, lifetime: wireseal_keys::Lifetime| {
                let moment =
                    |at: Option<wireseal_keys::Timestamp>| at.map_or_else(String::new, |at| at.to_string());
                format!(" {name} {}..{}", moment(lifetime.from()), moment(lifetime.until()))
            };
            format!(
                "{shown}{}{} {:?} {:?}",
                shown_of("send", key.send),
                shown_of("accept", key.accept),
                key.clock,
                key.options
            )
        });
        all.extend(keys);
        all.push(format!("{} s @ {}", chain.accept_tolerance, neighbors(chain).join(" ")));
    }
    all.extend(remarks(&file));
    all.extend(
        file.skipped.iter().map(|skipped| format!("{} skipped: {}", skipped.position.line, skipped.what)),
    );
    all.join("; ").replace("not-understood: this line is not understood, and ignored", "not understood")
}

/// What is in an outcome and not in the one before.
fn news(before: &str, after: &str) -> String {
    let before: Vec<_> = before.split("; ").collect();
    let news: Vec<_> = after.split("; ").filter(|part| !before.contains(part)).collect();
    news.join("; ")
}

const VRP: &str = "keychain core mode absolute
 receive-tolerance 5
 time mode utc
 key-id 1
  algorithm aes-128-cmac
  key-string plain hunter2
  send-time 00:00 2026-01-01 duration infinite
  receive-time 00:00 2026-01-01 duration infinite
tcp ao P
 binding keychain core
 option-authentication enable
 key-id 1
  send-id 1 receive-id 2
bgp 65000
 peer 192.0.2.1 tcp-ao policy P
";

pub(crate) const IOS_XE: &str = "key chain core tcp
 key 1
  send-id 1
  recv-id 2
  cryptographic-algorithm aes-128-cmac
  key-string 0 hunter2
  send-lifetime 00:00:00 Jan 1 2026 infinite
  accept-lifetime 00:00:00 Jan 1 2026 infinite
  include-tcp-options
router bgp 65000
 neighbor 192.0.2.1 ao core include-tcp-options
";

const IOS_XR: &str = "key chain core
 key 1
  accept-lifetime 00:00:00 january 01 2026 infinite
  key-string clear hunter2
  send-lifetime 00:00:00 january 01 2026 infinite
  cryptographic-algorithm AES-128-CMAC-96
 !
!
tcp ao
 keychain core
  key 1 SendID 1 ReceiveID 2
 !
!
router bgp 65000
 neighbor 192.0.2.1
  ao core include-tcp-options enable
 !
!
";

const EOS: &str = "management security
   session shared-secret profile core
      secret 1 0 hunter2 receive-lifetime infinite transmit-lifetime infinite
router bgp 65000
   neighbor 192.0.2.1 password shared-secret profile core algorithm aes-128-cmac-96
";

const FLAT: &str = "router bgp 65000 instance blue\nneighbor 192.0.2.1\nuse nothing\nao core include-tcp-options enable\n!\n!\ntcp ao\nkeychain core\nkey 1 SendID 1 ReceiveID 256\n";

/// Checks what is new in the outcome when a part of the text is replaced: nothing, an error, or what is read and said instead.
pub(crate) fn check(format: Format, text: &str, rows: &[(&str, &str, &str)]) {
    let before = outcome(text, format);
    for (from, to, expected) in rows {
        assert!(text.contains(from), "{from}");
        let after = outcome(&text.replacen(from, to, 1), format);
        assert_eq!(news(&before, &after), *expected, "{from} -> {to}");
    }
}

#[test]
fn lines_of_vrp() {
    check(
        Format::Vrp,
        VRP,
        &[
            (
                "algorithm aes-128-cmac\n",
                "algorithm aes-128-cmac\n  algorithm aes-128-cmac\n",
                "line 6, column 3, algorithm: is given twice",
            ),
            (
                "  send-time 00",
                "  send-time 00:00 2026-01-01 duration infinite\n  send-time 00",
                "line 8, column 3, send-time: is given twice",
            ),
            (
                "  receive-time 00",
                "  receive-time 00:00 2026-01-01 duration infinite\n  receive-time 00",
                "line 9, column 3, receive-time: is given twice",
            ),
            (
                " binding",
                " binding keychain core\n binding",
                "line 11, column 2, binding keychain: is given twice",
            ),
            (
                " receive-tol",
                " receive-tolerance 6\n receive-tol",
                "line 3, column 2, receive-tolerance: is given twice",
            ),
            (
                " receive-tol",
                " receive-tolerance seconds 6\n receive-tol",
                "line 3, column 2, receive-tolerance: is given twice",
            ),
            // Commands of the keychain mean the same below a key.
            (" time mode utc\n key-id 1\n", " key-id 1\n  time mode utc\n", ""),
            ("tolerance 5", "tolerance seconds 7", "7 s @ 192.0.2.1"),
            (
                "tolerance 5\n",
                "tolerance seconds 7\n receive-tolerance seconds 8\n",
                "line 3, column 2, receive-tolerance: is given twice",
            ),
            (
                "tolerance 5",
                "tolerance seconds 864001",
                "line 2, column 28, receive-tolerance: must be a whole number from 0 to 864000",
            ),
            ("tolerance 5", "tolerance infinite", "4294967295 s @ 192.0.2.1"),
            (
                "tolerance 5",
                "tolerance 14401",
                "line 2, column 20, receive-tolerance: must be a whole number from 0 to 14400",
            ),
            (
                "tcp ao P\n binding keychain core\n option-authentication enable\n key-id 1",
                "tcp ao P\n binding keychain core\n key-id 64",
                "line 11, column 9, key-id: must be a whole number from 0 to 63",
            ),
            (
                "option-authentication enable",
                "option-authentication disable",
                "P/1: 1/2 AES-128-CMAC-96 hunter2 send 2026-01-01T00:00:00Z.. accept 2026-01-01T00:00:00Z.. Utc Excluded",
            ),
            ("option-authentication enable", "option-authentication sometimes", "11 not understood"),
            (
                "send-id 1 receive-id 2",
                "send-id 256 receive-id 2",
                "line 13, column 11, send-id: must be a whole number from 0 to 255",
            ),
            (
                "send-id 1 receive-id 2",
                "send-id 1 receive-id 256",
                "line 13, column 24, receive-id: must be a whole number from 0 to 255",
            ),
            (
                "send-id 1 receive-id 2",
                "send-id 1 receive-id 2\n  send-id 3 receive-id 4",
                "line 14, column 3, send-id: is given twice",
            ),
            (" key-id 1\n  algorithm", " key-id 1\n  quit\n key-id 1\n  algorithm", ""),
            (
                "mode absolute",
                "mode periodic weekly",
                "P/1: 1/2 AES-128-CMAC-96 hunter2 send .. accept .. Utc Covered; 1 assumed: its keys are valid periodically, which no other format has: they are read as always valid",
            ),
            ("mode absolute", "mode sideways", "1 not understood"),
            ("keychain core mode absolute", "keychain core", ""),
            ("plain hunter2", "hunter2", ""),
            (
                "plain hunter2",
                "a b hunter2",
                "line 6, column 3, key-string: expected plain or cipher, and one word or text in double quotes",
            ),
            (
                "2026-01-01 duration infinite",
                "2026-01-01 duration 26280001",
                "line 7, column 39, send-time: must be a whole number from 0 to 26280000",
            ),
            (
                "2026-01-01 duration infinite",
                "2026-01-01 duration 60",
                "P/1: 1/2 AES-128-CMAC-96 hunter2 send 2026-01-01T00:00:00Z..2026-01-01T01:00:00Z accept 2026-01-01T00:00:00Z.. Utc Covered",
            ),
            (
                "2026-01-01 duration infinite",
                "2026-01-01 to 00:00 2026-13-01",
                "line 7, column 3, send-time: expected HH:MM YYYY-MM-DD and then to HH:MM YYYY-MM-DD, duration MINUTES or duration infinite",
            ),
            (
                "2026-01-01 duration infinite",
                "2026-01-01 to 00:00 2027-01-01",
                "P/1: 1/2 AES-128-CMAC-96 hunter2 send 2026-01-01T00:00:00Z..2027-01-01T00:00:00Z accept 2026-01-01T00:00:00Z.. Utc Covered",
            ),
            (
                "2026-01-01 duration infinite",
                "2026-01-01 until infinite",
                "line 7, column 3, send-time: expected HH:MM YYYY-MM-DD and then to HH:MM YYYY-MM-DD, duration MINUTES or duration infinite",
            ),
            (" key-id 1\n  send-id", " key-id 1\n key-id 1\n  send-id", ""),
            (
                " key-id 1\n  algorithm",
                " key-id 64\n  algorithm",
                "line 4, column 9, key-id: must be a whole number from 0 to 63",
            ),
            (
                "00:00 2026-01-01 duration",
                "00 2026-01-01 duration",
                "line 7, column 3, send-time: expected HH:MM YYYY-MM-DD and then to HH:MM YYYY-MM-DD, duration MINUTES or duration infinite",
            ),
            (
                "00:00 2026-01-01 duration",
                "x:00 2026-01-01 duration",
                "line 7, column 3, send-time: expected HH:MM YYYY-MM-DD and then to HH:MM YYYY-MM-DD, duration MINUTES or duration infinite",
            ),
            (
                "00:00 2026-01-01 duration",
                "00:x 2026-01-01 duration",
                "line 7, column 3, send-time: expected HH:MM YYYY-MM-DD and then to HH:MM YYYY-MM-DD, duration MINUTES or duration infinite",
            ),
            (
                "00:00 2026-01-01 duration",
                "00:00:x 2026-01-01 duration",
                "line 7, column 3, send-time: expected HH:MM YYYY-MM-DD and then to HH:MM YYYY-MM-DD, duration MINUTES or duration infinite",
            ),
            (
                "00:00 2026-01-01 duration",
                "00:00:00:00 2026-01-01 duration",
                "line 7, column 3, send-time: expected HH:MM YYYY-MM-DD and then to HH:MM YYYY-MM-DD, duration MINUTES or duration infinite",
            ),
        ],
    );
}

#[test]
fn lines_of_ios_xe() {
    check(
        Format::IosXe,
        IOS_XE,
        &[
            (
                "  recv-id 2\n",
                "  recv-id 256\n",
                "line 4, column 11, recv-id: must be a whole number from 0 to 255",
            ),
            (
                "  send-id 1\n",
                "  send-id 256\n",
                "line 3, column 11, send-id: must be a whole number from 0 to 255",
            ),
            ("  send-id 1\n", "  send-id 1\n  send-id 1\n", "line 4, column 3, send-id: is given twice"),
            ("  recv-id 2\n", "  recv-id 2\n  recv-id 2\n", "line 5, column 3, recv-id: is given twice"),
            (
                "  crypto",
                "  cryptographic-algorithm hmac-sha-1\n  crypto",
                "line 6, column 3, cryptographic-algorithm: is given twice",
            ),
            (
                "  key-string",
                "  key-string 0 hunter2\n  key-string",
                "line 7, column 3, key-string: is given twice",
            ),
            (
                "  send-life",
                "  send-lifetime 00:00:00 Jan 1 2026 infinite\n  send-life",
                "line 8, column 3, send-lifetime: is given twice",
            ),
            (
                "  accept-life",
                "  accept-lifetime 00:00:00 Jan 1 2026 infinite\n  accept-life",
                "line 9, column 3, accept-lifetime: is given twice",
            ),
            (
                "2026 infinite",
                "2026 duration 4294967296",
                "line 7, column 46, send-lifetime: must be a whole number from 0 to 4294967295",
            ),
            (
                "2026 infinite",
                "2026 duration 60",
                "core/1: 1/2 AES-128-CMAC-96 hunter2 send 2026-01-01T00:00:00Z..2026-01-01T00:01:00Z accept 2026-01-01T00:00:00Z.. Utc Covered",
            ),
            (
                "00:00:00 Jan 1 2026",
                "00:00:00 Jan 2026 1 1",
                "line 7, column 3, send-lifetime: expected HH:MM:SS DAY MONTH YEAR and then infinite, duration SECONDS or HH:MM:SS DAY MONTH YEAR",
            ),
            (" key 1\n", " description ours\n key 1\n", ""),
            (" key 1\n", " key 1\n key 1\n", ""),
            (
                " key 1\n",
                " key 2147483648\n",
                "line 2, column 6, key: must be a whole number from 0 to 2147483647",
            ),
            (
                " neighbor 192.0.2.1 ao core include-tcp-options\n",
                " bgp listen range everyone peer-group g\n neighbor 192.0.2.1 ao core include-tcp-options\n",
                "11 not understood",
            ),
            (
                " neighbor 192.0.2.1 ao core include-tcp-options\n",
                " neighbor g peer-group\n neighbor g ao core include-tcp-options\n address-family ipv4 vrf red\n  neighbor 192.0.2.1 peer-group g\n",
                "0 s @ 192.0.2.1 vrf red",
            ),
            (
                " neighbor 192.0.2.1 ao",
                " template peer-session t\n  inherit peer-session none\n neighbor g peer-group h\n neighbor 192.0.2.1 ao",
                "- missing: the group or template of \"t\" is not in the file: whether it uses TCP-AO is not known; - missing: the group or template of \"g\" is not in the file: whether it uses TCP-AO is not known",
            ),
            (
                "00:00:00 Jan 1 2026",
                "00:00:00 Jan May 2026",
                "line 7, column 3, send-lifetime: expected HH:MM:SS DAY MONTH YEAR and then infinite, duration SECONDS or HH:MM:SS DAY MONTH YEAR",
            ),
            (
                "00:00:00 Jan 1 2026 infinite",
                "00:00:00 Jan 1 2026 00:00:00 Jan 2",
                "line 7, column 3, send-lifetime: expected HH:MM:SS DAY MONTH YEAR and then infinite, duration SECONDS or HH:MM:SS DAY MONTH YEAR",
            ),
            (
                "ao core include-tcp-options\n",
                "remote-as 1\n neighbor g peer-group\n neighbor g ao core include-tcp-options accept-ao-mismatch\n",
                "0 s @ ; 13 accepts-mismatch: accepts connections without TCP-AO from a group of neighbors (accept-ao-mismatch)",
            ),
            ("key chain core tcp\n", "edge1(config)#key chain core tcp\n", ""),
        ],
    );
}

#[test]
fn lines_of_ios_xr() {
    check(
        Format::IosXr,
        IOS_XR,
        &[
            (
                "key-string clear",
                "key-string cleer",
                "line 4, column 3, key-string: expected clear, password or password6, and one word",
            ),
            (
                "  crypto",
                "  cryptographic-algorithm HMAC-SHA1-96\n  crypto",
                "line 7, column 3, cryptographic-algorithm: is given twice",
            ),
            (
                "AES-128-CMAC-96",
                "rot13",
                "line 6, column 27, cryptographic-algorithm: unknown TCP-AO algorithm (supported: HMAC-SHA-1-96, AES-128-CMAC-96, hmac(sha256), HMAC-SHA256-128, KMAC256-128)",
            ),
            (
                "  send-life",
                "  send-lifetime 00:00:00 january 01 2026 infinite\n  send-life",
                "line 6, column 3, send-lifetime: is given twice",
            ),
            (
                "  accept-life",
                "  accept-lifetime 00:00:00 january 01 2026 infinite\n  accept-life",
                "line 4, column 3, accept-lifetime: is given twice",
            ),
            ("SendID 1", "SendID 256", "line 11, column 16, SendID: must be a whole number from 0 to 255"),
            (
                "ReceiveID 2",
                "ReceiveID 256",
                "line 11, column 28, ReceiveID: must be a whole number from 0 to 255",
            ),
            (
                "infinite\n",
                "duration 4294967296\n",
                "line 3, column 53, accept-lifetime: must be a whole number from 0 to 4294967295",
            ),
            ("enable", "", "line 16, column 11, include-tcp-options: expected enable or disable"),
            ("enable", "perhaps", "line 16, column 31, include-tcp-options: expected enable or disable"),
            ("ao core include-tcp-options enable", "ao inheritance-disable", "0 s @ "),
            ("tcp ao\n", "tcp ao\n keychains core\n", "10 not understood"),
            ("  ao core", "  use nothing at-all\n  ao core", ""),
            ("  ao core", "  use af-group g\n  ao core", ""),
            (
                "  ao core include-tcp-options enable\n",
                "  ao inheritance-disable\n  ao core include-tcp-options enable\n",
                "17 refused: a neighbor or group of IOS XR has one chain, and this is its second: the last one is taken",
            ),
            (
                "key chain core\n",
                "clock timezone CET 1 2 3\nkey chain core\n timezone local\n",
                "core/1: 1/2 AES-128-CMAC-96 hunter2 send 2026-01-01T00:00:00Z.. accept 2026-01-01T00:00:00Z.. Local Covered",
            ),
            ("router bgp 65000\n", "router bgp 65000 instance blue\n", ""),
            (" key 1\n  accept", " key x\n  accept", "line 11, column 3, key chain ... key: is missing"),
            ("  ao core", "  keychain inheritance-disable\n  password inheritance-disable\n  ao core", ""),
            (
                "  ao core",
                "  keychain other\n  ao core",
                "15 refused: IOS XR refuses `ao` beside `password` or `keychain` of the same neighbor or group; 16 older-option: not TCP-AO but the older TCP option is used with a neighbor or group (keychain)",
            ),
        ],
    );
}

#[test]
fn lines_of_ios_xr_without_indentation() {
    let expected = "line 9, column 26, ReceiveID: must be a whole number from 0 to 255";
    assert_eq!(outcome(FLAT, Format::IosXr), expected);
    check(
        Format::IosXr,
        FLAT,
        &[(
            "256",
            "2\nkey chain core\nkey 1\naccept-lifetime 00:00:00 january 01 2026 infinite\nkey-string clear hunter2\nsend-lifetime 00:00:00 january 01 2026 infinite\ncryptographic-algorithm AES-128-CMAC-96",
            "core/1: 1/2 AES-128-CMAC-96 hunter2 send 2026-01-01T00:00:00Z.. accept 2026-01-01T00:00:00Z.. Utc Covered; 0 s @ 192.0.2.1; 11 assumed: lifetimes are read as UTC: a chain without `timezone` has them in the router's local time, and no `clock timezone` is in the file",
        )],
    );
}

#[test]
fn lines_of_eos() {
    check(
        Format::Eos,
        EOS,
        &[
            (
                "transmit-lifetime infinite",
                "transmit-lifetime tomorrow",
                "line 3, column 52, transmit-lifetime: expected infinite, or YYYY-MM-DD HH:MM:SS and then infinite or YYYY-MM-DD HH:MM:SS",
            ),
            (
                "transmit-lifetime infinite",
                "transmit-lifetime 2026-01-01 00:00:00",
                "line 3, column 52, transmit-lifetime: expected infinite, or YYYY-MM-DD HH:MM:SS and then infinite or YYYY-MM-DD HH:MM:SS",
            ),
            (
                "receive-lifetime infinite",
                "receive-lifetime 2026-01-01 00:00:00 2026-13-01 00:00:00",
                "line 3, column 26, receive-lifetime: expected infinite, or YYYY-MM-DD HH:MM:SS and then infinite or YYYY-MM-DD HH:MM:SS",
            ),
            (
                "transmit-lifetime infinite",
                "transmit-lifetime 01/31/2026 00:00:00 infinite",
                "core/1: 1/1 AES-128-CMAC-96 hunter2 send 2026-01-31T00:00:00Z.. accept .. Utc Covered",
            ),
            (
                "transmit-lifetime infinite",
                "transmit-lifetime infinite transmit-lifetime infinite",
                "3 not understood",
            ),
            ("neighbor 192.0.2.1", "neighbor fe80::1%Et1", "0 s @ fe80::1%Et1"),
            ("      secret 1", "      exit\n      secret 1", ""),
            ("   session shared", "   session shared-secret profile core\n   session shared", ""),
        ],
    );
}

/// A neighbor's templates may use each other up to a depth.
#[test]
fn ios_xe_templates_are_followed_sixteen_deep() {
    let text = |count: usize, last: &str| {
        let template = |number: usize| {
            let inherits = format!("  inherit peer-session t{}\n", number + 1);
            format!(" template peer-session t{number}\n{}", if number < count { &inherits } else { last })
        };
        let templates: String = (1..=count).map(template).collect();
        format!("{IOS_XE}{templates} neighbor 192.0.2.2 inherit peer-session t1\n")
    };
    let before = outcome(IOS_XE, Format::IosXe);
    let of = |count, last| news(&before, &outcome(&text(count, last), Format::IosXe));
    let ao = "  ao core include-tcp-options\n";
    assert_eq!([of(16, ao).as_str(), &of(16, "  remote-as 1\n")], ["0 s @ 192.0.2.1 192.0.2.2", ""]);
    for last in [ao, "  remote-as 1\n"] {
        let unknown =
            "not-understood: its groups use more than 16 others: whether it uses TCP-AO is not known";
        assert_eq!(of(17, last).split_once(' ').unwrap().1, unknown);
    }
}
