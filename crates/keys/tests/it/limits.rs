//! What each implementation can have, as its documentation says: one line for each format.

use std::path::Path;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{
    ChainKey, Clock, Format, Implementation, KeyFile, Lifetime, Notation, Secret, convert, read,
};
use wireseal_tcp_ao::{KeyId, OptionCoverage};

fn file() -> KeyFile {
    let text = "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 1\nrecv-id = 1\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \
                \"secret-of-the-tests\"\n";
    read(Path::new("keys"), text, Some(Format::Toml)).unwrap()
}

fn secret(octets: &[u8]) -> Secret {
    Secret::new(octets.to_vec().into(), Notation::Text)
}

/// The largest of these numbers with which a key is not refused.
fn most<T: Copy>(numbers: &[T], is_refused: impl Fn(T) -> bool) -> Option<T> {
    numbers.iter().copied().rev().find(|number| !is_refused(*number))
}

fn limits(format: Format) -> String {
    let implementation = Implementation::reading(Some(format));
    let key = file().chains.remove(0).keys.remove(0);
    let with = |edit: &dyn Fn(&mut ChainKey)| {
        let mut key = key.clone();
        edit(&mut key);
        key
    };
    let is_refused = |edit: &dyn Fn(&mut ChainKey)| !implementation.refusals(&with(edit)).is_empty();
    let is_objected_to = |edit: &dyn Fn(&mut ChainKey)| !implementation.objections(&with(edit)).is_empty();
    let algorithms: Vec<_> = TcpAoAlgorithm::ALL
        .into_iter()
        .map(|algorithm| {
            let macs = (4..=16)
                .filter(|length| !is_refused(&|key| (key.algorithm, key.mac_length) = (algorithm, *length)));
            let macs: Vec<_> = macs.map(|length| length.to_string()).collect();
            match (macs.first(), macs.last()) {
                (Some(first), Some(last)) if macs.len() > 2 => format!("{algorithm} {first}-{last}"),
                _ => format!("{algorithm} {}", macs.join("+")),
            }
        })
        .filter(|shown| !shown.ends_with(' '))
        .collect();
    let send_id =
        most(&[63, 64, 255], |id| is_refused(&|key| (key.send_id, key.recv_id) = (KeyId(id), KeyId(id))));
    let number =
        most(&[63, 64, 255, 2_147_483_647, 2_147_483_648, 281_474_976_710_655, u64::MAX], |number| {
            is_objected_to(&|key| key.key_id = number)
        });
    let length =
        most(&[80, 81, 255, 256], |length| is_refused(&|key| key.secret = secret(&vec![b'k'; length])));
    let life = Lifetime::starting("2026-01-01T00:00:00Z".parse().unwrap());
    let mut local = file();
    let key = &mut local.chains[0].keys[0];
    (key.clock, key.send, key.accept) = (Clock::Local, life, life);
    let marks = [
        ("two ids", !is_refused(&|key| key.send_id = KeyId(2))),
        ("excluded options", !is_refused(&|key| key.options = OptionCoverage::Excluded)),
        ("any octets", !is_refused(&|key| key.secret = secret(b"\xff\x00"))),
        ("blanks", !is_objected_to(&|key| key.secret = secret(b"a secret"))),
        (
            "two lifetimes",
            !is_objected_to(&|key| key.send = life)
                && implementation.refusals_at_home(&with(&|key| key.send = life)).is_empty(),
        ),
        ("local times", convert(&local, format).is_ok()),
        ("changes", format.cannot_change().is_none()),
    ];
    let marks: Vec<_> = marks.into_iter().filter(|(_, has)| *has).map(|(mark, _)| mark).collect();
    format!(
        "{format}: {} ({implementation}), {:?}, {:?}; {}; ids to {send_id:?}, numbers to {number:?}, secrets to {length:?}; {}",
        implementation.name(),
        implementation.sending(),
        implementation.options_setting(),
        algorithms.join(", "),
        marks.join(", "),
    )
}

const LIMITS: &str = r#"
toml: linux (Linux), LatestStart, Some("options: covered");
  HMAC-SHA-1-96 4-16, AES-128-CMAC-96 4-16, hmac(sha256) 4-16; ids to Some(255), numbers to Some(18446744073709551615), secrets to Some(80); two ids, excluded options, any octets, blanks, two lifetimes, changes
json: linux (Linux), LatestStart, Some("options: covered");
  HMAC-SHA-1-96 4-16, AES-128-CMAC-96 4-16, hmac(sha256) 4-16; ids to Some(255), numbers to Some(18446744073709551615), secrets to Some(80); two ids, excluded options, any octets, blanks, two lifetimes, changes
bird: bird (BIRD), Rank, None;
  HMAC-SHA-1-96 12, AES-128-CMAC-96 12, hmac(sha256) 12; ids to Some(255), numbers to Some(18446744073709551615), secrets to Some(80); two ids, any octets, blanks, two lifetimes, changes
junos: junos (Junos), LatestStart, Some("tcp-ao-option enabled");
  HMAC-SHA-1-96 12, AES-128-CMAC-96 12; ids to Some(255), numbers to Some(63), secrets to Some(256); two ids, excluded options, any octets, two lifetimes, changes
ios-xr: ios-xr (IOS XR), Unspecified, Some("include-tcp-options enable");
  HMAC-SHA-1-96 12, AES-128-CMAC-96 12; ids to Some(255), numbers to Some(281474976710655), secrets to Some(256); two ids, excluded options, any octets, changes
ios-xe: ios-xe (IOS XE), LongestLifetime, Some("include-tcp-options");
  HMAC-SHA-1-96 12, AES-128-CMAC-96 12; ids to Some(255), numbers to Some(2147483647), secrets to Some(256); two ids, excluded options, any octets, blanks, two lifetimes, local times
nx-os: ios-xe (IOS XE), LongestLifetime, Some("include-tcp-options");
  HMAC-SHA-1-96 12, AES-128-CMAC-96 12; ids to Some(255), numbers to Some(2147483647), secrets to Some(256); two ids, excluded options, any octets, blanks, two lifetimes
frr: linux (Linux), LatestStart, Some("options: covered");
  HMAC-SHA-1-96 4-16, AES-128-CMAC-96 4-16, hmac(sha256) 4-16; ids to Some(255), numbers to Some(18446744073709551615), secrets to Some(80); two ids, excluded options, any octets, blanks, two lifetimes
eos: eos (EOS), Unspecified, None;
  HMAC-SHA-1-96 12, AES-128-CMAC-96 12; ids to Some(255), numbers to Some(18446744073709551615), secrets to Some(256); any octets, two lifetimes, changes
vrp: vrp (VRP), LatestStart, Some("no option-authentication disable");
  HMAC-SHA-1-96 12, AES-128-CMAC-96 12; ids to Some(255), numbers to Some(63), secrets to Some(255); two ids, excluded options, any octets, blanks, two lifetimes, changes
sr-os: sr-os (SR OS), LatestStart, None;
  HMAC-SHA-1-96 12, AES-128-CMAC-96 12; ids to Some(63), numbers to Some(18446744073709551615), secrets to Some(256); two ids, blanks, two lifetimes, changes
sr-linux: sr-linux (SR Linux), LatestStart, None;
  ; ids to None, numbers to Some(18446744073709551615), secrets to None; blanks
gobgp: gobgp (GoBGP), Rank, Some("exclude-tcp-options = false");
  HMAC-SHA-1-96 12, AES-128-CMAC-96 12, hmac(sha256) 12+16; ids to Some(255), numbers to Some(18446744073709551615), secrets to Some(80); two ids, excluded options, any octets, blanks, two lifetimes, changes
xml: linux (Linux), LatestStart, Some("options: covered");
  HMAC-SHA-1-96 4-16, AES-128-CMAC-96 4-16, hmac(sha256) 4-16; ids to Some(255), numbers to Some(18446744073709551615), secrets to Some(80); two ids, excluded options, any octets, blanks, two lifetimes
openconfig: linux (Linux), LatestStart, Some("options: covered");
  HMAC-SHA-1-96 4-16, AES-128-CMAC-96 4-16, hmac(sha256) 4-16; ids to Some(255), numbers to Some(18446744073709551615), secrets to Some(80); two ids, excluded options, any octets, blanks, two lifetimes
"#;

#[test]
fn each_implementation_has_its_limits() {
    let expected = LIMITS.replace(";\n  ", "; ");
    let found: Vec<_> = Format::ALL.into_iter().map(limits).collect();
    assert_eq!(found, expected.trim().lines().collect::<Vec<_>>());
}

/// The name of each format and what it is; and the same of its implementation.
const NAMES: &str = "
toml: Key chains in TOML; linux: Linux sockets
json: Key chains in JSON (RFC 8177 with RFC 9648); linux: Linux sockets
bird: BIRD configuration; bird: BIRD, which uses Linux's TCP-AO
junos: Junos configuration, with braces or as `set` commands; junos: Junos
ios-xr: Cisco IOS XR configuration; ios-xr: IOS XR
ios-xe: Cisco IOS XE configuration; ios-xe: IOS XE
nx-os: Cisco NX-OS configuration; ios-xe: IOS XE
frr: FRR configuration, which has no TCP-AO; linux: Linux sockets
eos: Arista EOS configuration; eos: Arista EOS
vrp: Huawei VRP configuration; vrp: Huawei VRP
sr-os: Nokia SR OS configuration, MD-CLI or classic; sr-os: Nokia SR OS
sr-linux: Nokia SR Linux configuration, with braces or as `set` commands; sr-linux: Nokia SR Linux
gobgp: GoBGP configuration, in TOML, YAML or JSON; gobgp: GoBGP, which uses Linux's TCP-AO
xml: Key chains in XML, as NETCONF has them (RFC 8177 with RFC 9648); linux: Linux sockets
openconfig: OpenConfig key chains in JSON; linux: Linux sockets
";

#[test]
fn each_format_and_implementation_is_described() {
    let names = |format: Format| {
        let implementation = Implementation::reading(Some(format));
        format!("{format}: {}; {}: {}", format.about(), implementation.name(), implementation.about())
    };
    assert_eq!(Format::ALL.map(names)[..], NAMES.trim().lines().collect::<Vec<_>>());
}
