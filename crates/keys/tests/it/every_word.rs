//! Configurations with nothing but keys and their users, in which every word counts: with any other word in its place, something else is read
//! or said.

use wireseal_keys::Format;

use crate::vendor_lines::outcome;

/// The words that another word can replace without any effect.
fn ignored(format: Format, text: &str) -> Vec<String> {
    let before = outcome(text, format);
    let starts = text.char_indices().filter(|(at, c)| {
        !c.is_whitespace() && text[..*at].chars().next_back().is_none_or(char::is_whitespace)
    });
    let mut ignored = Vec::new();
    for (at, _) in starts {
        let mistyped = format!("{}x{}", &text[..at], &text[at..]);
        if outcome(&mistyped, format) == before {
            let word = text[at..].split_whitespace().next().unwrap_or_default();
            ignored.push(format!("{}: {word}", text[..=at].lines().count()));
        }
    }
    ignored
}

const VRP: &str = "keychain core mode absolute
 receive-tolerance 5
 time mode utc
 key-id 1
  algorithm aes-128-cmac
  key-string plain hunter2
  send-time 00:00 2026-01-01 to 00:00 2027-01-01
  receive-time 00:00 2026-01-01 duration 600
 key-id 2
  algorithm hmac-sha1-12
  key-string cipher %^%#
  default send-key-id
  send-time 00:00 2026-06-01 duration infinite
  receive-time 00:00 2026-06-01 duration infinite
tcp ao P
 binding keychain core
 option-authentication disable
 key-id 1
  send-id 1 receive-id 2
 key-id 2
  send-id 3 receive-id 4
bgp 65000
 group G internal
 peer G tcp-ao policy P
 peer 192.0.2.1 group G
 peer 192.0.2.2 tcp-ao policy P
 ipv4-family vpn-instance red
  peer 192.0.2.3 tcp-ao policy P
msdp
 peer 192.0.2.4 tcp-ao P
mpls ldp
 authentication tcp-ao peer 192.0.2.5 name P
";

const IOS_XE: &str = "key chain core tcp
 key 1
  send-id 1
  recv-id 2
  cryptographic-algorithm aes-128-cmac
  key-string 0 hunter2
  send-lifetime local 00:00:00 Jan 1 2026 infinite
  accept-lifetime local 00:00:00 Jan 1 2026 duration 600000
  include-tcp-options
  accept-ao-mismatch
 key 2
  send-id 3
  recv-id 4
  cryptographic-algorithm hmac-sha-1
  key-string 7 011A08105E19091F
  send-lifetime 00:00:00 Jan 1 2026 00:00:00 Jan 1 2027
  accept-lifetime 00:00:00 Jan 1 2026 infinite
router bgp 65000
 template peer-session T
  ao core include-tcp-options accept-ao-mismatch-connections
 exit-peer-session
 bgp listen range 198.51.100.0/24 peer-group G
 neighbor G peer-group
 neighbor G ao core
 neighbor 192.0.2.1 ao core include-tcp-options
 neighbor 192.0.2.2 inherit peer-session T
 neighbor fe80::1 ao core
 neighbor fe80::1 update-source Gi1
 address-family ipv4 vrf red
  neighbor 192.0.2.3 ao core
 exit-address-family
";

const IOS_XR: &str = "clock timezone CET 1
key chain core
 accept-tolerance 60
 key 1
  accept-lifetime 00:00:00 january 01 2026 infinite
  key-string clear hunter2
  send-lifetime 00:00:00 january 01 2026 infinite
  cryptographic-algorithm AES-128-CMAC-96
 !
!
key chain edge
 timezone gmt
 accept-tolerance infinite
 key 2
  accept-lifetime 00:00:00 january 01 2026 00:00:00 january 01 2027
  key-string password 011A08105E19091F
  send-lifetime 00:00:00 january 01 2026 00:00:00 january 01 2027
  cryptographic-algorithm HMAC-SHA1-96
 !
!
tcp ao
 keychain core
  key 1 SendID 1 ReceiveID 2
 !
 keychain edge
  key 2 SendID 3 ReceiveID 4
 !
!
router bgp 65000
 session-group S
  ao edge include-tcp-options enable
 !
 neighbor-group G
  ao core include-tcp-options disable
 !
 neighbor 192.0.2.1
  use neighbor-group G
 !
 neighbor 192.0.2.2
  use session-group S
 !
 neighbor fe80::1
  update-source GigabitEthernet0/0/0/0
  ao core include-tcp-options disable
 !
 vrf red
  neighbor 192.0.2.3
   ao core include-tcp-options disable
  !
 !
!
";

const EOS: &str = "service routing protocols model multi-agent
management security
   session shared-secret profile core
      secret 1 0 hunter2 receive-lifetime 2026-01-01 00:00:00 infinite transmit-lifetime 2026-01-01 00:00:00 2027-01-01 00:00:00
      secret 2 7 hunter3 receive-lifetime infinite transmit-lifetime infinite
      secret 3 8a hunter4 infinite local-time
router bgp 65000
   neighbor G peer group
   neighbor G password shared-secret profile core algorithm aes-128-cmac-96
   neighbor 192.0.2.1 password shared-secret profile core algorithm hmac-sha1-96
   neighbor 192.0.2.2 peer group G
   neighbor interface Et1 peer-group G remote-as 65001
   bgp listen range 198.51.100.0/24 peer-group G remote-as 65001
   vrf red
      neighbor 192.0.2.3 password shared-secret profile core algorithm aes-128-cmac-96
";

const BIRD: &str = "template bgp T {
    authentication ao;
    keys { key { send id 1; recv id 2; secret \"hunter2\"; algorithm cmac aes128; preferred; }; };
}
protocol bgp one from T {
    neighbor 192.0.2.1 as 65000;
}
protocol bgp from T {
    neighbor 192.0.2.2 as 65000;
}
";

#[test]
fn every_word_counts() {
    let found = [
        (Format::Vrp, VRP),
        (Format::IosXe, IOS_XE),
        (Format::IosXr, IOS_XR),
        (Format::Eos, EOS),
        (Format::Bird, BIRD),
    ]
    .map(|(format, text)| format!("{format}: {}", ignored(format, text).join(", ")));
    // Names, settings of others, marks of an end, and secrets that only the router can decrypt.
    assert_eq!(
        found,
        [
            "vrp: 1: mode, 11: %^%#, 22: 65000, 23: group, 23: G, 23: internal, 27: ipv4-family",
            "ios-xe: 18: 65000, 21: exit-peer-session, 23: neighbor, 23: G, 23: peer-group, 29: ipv4, 31: exit-address-family",
            "ios-xr: 1: CET, 10: !, 20: !, 28: !, 29: 65000, 32: !, 35: !, 38: !, 41: !, 45: !, 49: !, 50: !, 51: !",
            "eos: 1: service, 1: routing, 1: protocols, 1: model, 2: management, 2: security, 5: hunter3, 6: hunter4, 7: 65000, 8: neighbor, \
             8: G, 8: peer, 8: group, 12: remote-as, 12: 65001, 13: remote-as, 13: 65001",
            "bird: 4: }, 6: as, 6: 65000;, 7: }, 9: as, 9: 65000;, 10: }",
        ]
    );
}

/// Where a command stands shows in its words, too: what a terminal has pasted without indentation is the same configuration.
#[test]
fn indentation_is_not_needed() {
    for (format, text) in
        [(Format::Vrp, VRP), (Format::IosXe, IOS_XE), (Format::IosXr, IOS_XR), (Format::Eos, EOS)]
    {
        let flat = text.lines().map(|line| line.trim_start().to_owned() + "\n").collect::<String>();
        assert_eq!(outcome(&flat, format), outcome(text, format), "{format}");
    }
}
