//! Neighbors, ranks and names as each format writes them: what is kept can be read again, and what is not is said.

use std::path::Path;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{
    Chain, ChainKey, Conversion, Format, Implementation, KeyFile, Lifetime, Neighbor, Notation, Preference,
    Secret, convert, read,
};
use wireseal_tcp_ao::{KeyId, OptionCoverage};

use crate::losses::file;

fn converted(format: Format, edit: &dyn Fn(&mut Chain)) -> Conversion {
    let mut file = file();
    edit(&mut file.chains[0]);
    convert(&file, format).unwrap()
}

fn losses(format: Format, edit: &dyn Fn(&mut Chain)) -> Vec<String> {
    converted(format, edit).losses
}

fn neighbor(address: &str, vrf: Option<&str>, interface: Option<&str>) -> Neighbor {
    Neighbor {
        vrf: vrf.map(str::to_owned),
        address: address.parse().unwrap(),
        interface: interface.map(str::to_owned),
    }
}

/// A second key, after this change.
fn second(chain: &mut Chain, edit: impl Fn(&mut ChainKey)) {
    let mut key = ChainKey { key_id: 2, send_id: KeyId(2), recv_id: KeyId(2), ..chain.keys[0].clone() };
    key.secret = Secret::new(b"another-secret-of-them".to_vec().into(), Notation::Text);
    edit(&mut key);
    chain.keys.push(key);
}

/// Two chains of these names, the second one after a change, each for one neighbor.
fn two(names: [&str; 2], edit: &dyn Fn(&mut Chain)) -> KeyFile {
    let mut file = file();
    second(&mut file.chains[0], |_| {});
    file.chains.push(file.chains[0].clone());
    for (chain, (name, address)) in
        file.chains.iter_mut().zip(names.into_iter().zip(["192.0.2.1", "192.0.2.2"]))
    {
        (chain.name, chain.neighbors) = (name.to_owned(), vec![neighbor(address, None, None)]);
    }
    edit(&mut file.chains[1]);
    file
}

#[test]
fn neighbors_are_read_as_they_are_written_or_said_to_be_lost() {
    let all = [
        neighbor("192.0.2.1", None, None),
        neighbor("192.0.2.1", Some("red"), None),
        neighbor("192.0.2.1", None, Some("GigabitEthernet0/0/0/1")),
        neighbor("198.51.100.0/24", None, None),
        neighbor("198.51.100.0/24", None, Some("GigabitEthernet0/0/0/1")),
        neighbor("2001:db8::1", None, None),
        neighbor("fe80::1", None, None),
        neighbor("fe80::1", None, Some("GigabitEthernet0/0/0/1")),
        neighbor("fe80::/10", None, Some("GigabitEthernet0/0/0/1")),
    ];
    for format in Format::ALL.into_iter().filter(|format| format.is_written()) {
        for one in &all {
            let Conversion { text, losses, .. } =
                converted(format, &|chain| chain.neighbors = vec![one.clone()]);
            let again = read(Path::new("again"), &text, Some(format)).unwrap();
            let said = again.chains[0].neighbors.iter().map(ToString::to_string).collect::<Vec<_>>();
            // That a link-local neighbor needs an interface is said, and its address is written.
            let is_nowhere = one == &neighbor("fe80::1", None, None);
            if losses.iter().any(|loss| loss.contains("chain ")) {
                assert!(is_nowhere || said != [one.to_string()], "{format} {one}: {losses:?}");
            } else {
                assert_eq!(said, [one.to_string()], "{format}: {losses:?}\n{}", *text);
            }
        }
    }
}

#[test]
fn ranks_are_kept_or_said_to_be_lost() {
    use Preference::{Deprecated, Ordinary, Preferred};
    let of = |format: Format, ranks: [Preference; 2], has_neighbor: bool| {
        let lost = losses(format, &|chain| {
            second(chain, |_| {});
            chain.keys.iter_mut().zip(ranks).for_each(|(key, rank)| key.preference = rank);
            chain.neighbors = if has_neighbor { vec![neighbor("192.0.2.1", None, None)] } else { vec![] };
        });
        lost.into_iter().filter(|loss| loss.starts_with("key ")).collect::<Vec<_>>()
    };
    let lost = |key: u8| format!("key core/{key}: its being preferred or deprecated");
    assert_eq!(of(Format::Toml, [Preferred, Ordinary], false), [""; 0]);
    assert_eq!(of(Format::Toml, [Preferred, Preferred], false), [lost(2)]);
    assert_eq!(of(Format::Toml, [Deprecated, Preferred], false), [lost(1)]);
    assert_eq!(of(Format::Xml, [Deprecated, Preferred], false), [lost(1), lost(2)]);
    let once =
        |key: u8| format!("key core/{key}: its being preferred, which GoBGP has once for each neighbor");
    let deprecated = |key: u8| format!("key core/{key}: its being deprecated, which GoBGP does not have");
    let first = |key: u8| {
        format!("key core/{key} is preferred, because GoBGP's neighbors need one key to start with")
    };
    for (ranks, has_neighbor, expected) in [
        ([Ordinary, Ordinary], false, vec![]),
        ([Ordinary, Ordinary], true, vec![first(1)]),
        ([Deprecated, Ordinary], true, vec![deprecated(1), first(2)]),
        ([Preferred, Ordinary], true, vec![]),
        ([Preferred, Ordinary], false, vec![once(1)]),
        ([Preferred, Preferred], true, vec![once(2)]),
        ([Deprecated, Deprecated], true, vec![deprecated(1), deprecated(2)]),
    ] {
        assert_eq!(of(Format::GoBgp, ranks, has_neighbor), expected, "{ranks:?}");
    }
}

#[test]
fn key_chains_of_rfc_8177_lose_interfaces_and_vrfs() {
    let lost =
        losses(Format::Toml, &|chain| chain.neighbors = vec![neighbor("fe80::1", Some("red"), Some("eth0"))]);
    assert_eq!(
        lost,
        [
            "chain \"core\": the interface eth0 of fe80::1",
            "chain \"core\": the VRF red of fe80::1",
            "chain \"core\": its peers, which key chains of RFC 8177 do not have"
        ]
    );
}

#[test]
fn losses_of_ios_xe() {
    let of = |edit: &dyn Fn(&mut Chain)| losses(Format::IosXe, edit);
    assert_eq!(
        of(&|chain| chain.accept_tolerance = 1),
        ["chain \"core\": its tolerance, which IOS XE does not have"]
    );
    for (vrf, interface, is_lost) in [
        (Some("red"), None, false),
        (Some("two words"), None, true),
        (Some(""), None, true),
        (Some("a?b"), None, true),
        (None, Some("two words"), true),
        (None, Some("Gi?"), true),
    ] {
        let lost = of(&|chain| chain.neighbors = vec![neighbor("fe80::1", vrf, interface)]);
        let expected =
            "chain \"core\": fe80::1, whose VRF or interface has a name that IOS XE does not take".to_owned();
        assert_eq!(lost, if is_lost { vec![expected] } else { vec![] }, "{vrf:?} {interface:?}");
    }
    for address in ["192.0.2.1", "fe80::/64"] {
        let lost = of(&|chain| chain.neighbors = vec![neighbor(address, None, Some("Gi1"))]);
        assert_eq!(lost, [format!("chain \"core\": the interface Gi1 of {address}")]);
    }
    assert_eq!(of(&|chain| chain.name = "a?b%c d\te".into()), ["chain \"a?b%c d\\te\" is named a_b_c_d_e"]);
}

#[test]
fn losses_of_ios_xr() {
    let of = |edit: &dyn Fn(&mut Chain)| converted(Format::IosXr, edit);
    assert_eq!(of(&|chain| chain.accept_tolerance = 8_640_000).losses, [""; 0]);
    assert_eq!(
        of(&|chain| chain.accept_tolerance = 8_640_001).losses,
        ["chain \"core\": its tolerance of 8640001 s, of which IOS XR has 8640000 s at most"]
    );
    let link_local = of(&|chain| chain.neighbors = vec![neighbor("fe80::1", None, None)]);
    assert_eq!(
        link_local.losses,
        ["chain \"core\": the interface of fe80::1, which is link-local: add \"update-source\""]
    );
    // Six octets are the largest number of a key.
    let number = |number: u64| of(&|chain| chain.keys[0].key_id = number).losses;
    assert_eq!(number((1 << 48) - 1), [""; 0]);
    assert_eq!(number(1 << 48), ["key core/281474976710656 is number 0 of its chain"]);
    // Only lifetimes need a clock.
    let from: wireseal_keys::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let life = Lifetime::starting(from);
    for (life, has_clock) in [(Lifetime::ALWAYS, false), (life, true)] {
        let text = of(&|chain| (chain.keys[0].send, chain.keys[0].accept) = (life, life)).text;
        assert_eq!(text.contains("timezone gmt"), has_clock, "{}", *text);
    }
}

/// Neighbors that cover the TCP options and others that do not can use one chain of IOS XR, if nothing else differs.
#[test]
fn chains_of_ios_xr_are_one_only_if_their_keys_are() {
    let chains = |names, edit: &dyn Fn(&mut Chain)| {
        let file = two(names, &|chain| {
            chain.keys.iter_mut().for_each(|key| key.options = OptionCoverage::Excluded);
            edit(chain);
        });
        convert(&file, Format::IosXr).unwrap().text.matches("\nkey chain ").count()
            + usize::from(convert(&file, Format::IosXr).unwrap().text.starts_with("key chain "))
    };
    assert_eq!(chains(["core"; 2], &|_| {}), 1);
    assert_eq!(chains(["core", "edge"], &|_| {}), 2);
    assert_eq!(chains([""; 2], &|_| {}), 2);
    assert_eq!(chains(["core"; 2], &|chain| chain.accept_tolerance = 5), 2);
    assert_eq!(chains(["core"; 2], &|chain| drop(chain.keys.pop())), 2);
    assert_eq!(chains(["core"; 2], &|chain| chain.keys[1].recv_id = KeyId(9)), 2);
    let covered =
        |chain: &mut Chain| chain.keys.iter_mut().for_each(|key| key.options = OptionCoverage::Covered);
    assert_eq!(chains(["core"; 2], &covered), 2);
}

/// A profile of EOS serves neighbors with either algorithm, if nothing else differs.
#[test]
fn profiles_of_eos_are_one_only_if_their_keys_are() {
    let of = |chain: &mut Chain, algorithm| chain.keys.iter_mut().for_each(|key| key.algorithm = algorithm);
    let profiles = |names, edit: &dyn Fn(&mut KeyFile)| {
        let mut file = two(names, &|_| {});
        of(&mut file.chains[0], TcpAoAlgorithm::HmacSha1);
        edit(&mut file);
        convert(&file, Format::Eos).unwrap().text.matches("session shared-secret profile ").count()
    };
    assert_eq!(profiles(["core"; 2], &|_| {}), 1);
    assert_eq!(profiles(["core", "edge"], &|_| {}), 2);
    assert_eq!(profiles([""; 2], &|_| {}), 2);
    assert_eq!(profiles(["core"; 2], &|file| of(&mut file.chains[1], TcpAoAlgorithm::HmacSha1)), 2);
    assert_eq!(profiles(["core"; 2], &|file| file.chains.swap(0, 1)), 2);
    assert_eq!(profiles(["core"; 2], &|file| drop(file.chains[1].keys.pop())), 2);
    let another = |file: &mut KeyFile| {
        let ids = KeyId(9);
        (file.chains[1].keys[1].send_id, file.chains[1].keys[1].recv_id) = (ids, ids);
    };
    assert_eq!(profiles(["core"; 2], &another), 2);
}

/// EOS has the algorithm at a neighbor, or at a group for those that have no line of their own.
#[test]
fn eos_has_a_group_only_for_neighbors_without_a_line() {
    for (address, interface, group) in
        [("192.0.2.1", None, false), ("198.51.100.0/24", None, true), ("fe80::/10", Some("Ethernet1"), true)]
    {
        let written =
            converted(Format::Eos, &|chain| chain.neighbors = vec![neighbor(address, None, interface)]);
        assert_eq!(written.losses, [""; 0]);
        assert_eq!(written.text.contains(" peer group\n"), group, "{}", *written.text);
        let range = format!("   bgp listen range {address} peer-group core-aes-128-cmac-96 remote-as AS\n");
        assert_eq!(written.text.contains(&range), group && interface.is_none(), "{}", *written.text);
    }
    let always = "secret 1 0 secret-of-the-tests receive-lifetime infinite transmit-lifetime infinite\n";
    assert!(converted(Format::Eos, &|_| {}).text.contains(always));
    // A start that EOS cannot have is none.
    let first = Lifetime::starting("1970-01-01T00:00:00Z".parse().unwrap());
    let text =
        converted(Format::Eos, &|chain| (chain.keys[0].send, chain.keys[0].accept) = (first, first)).text;
    assert!(text.contains(always), "{}", *text);
    let named = losses(Format::Eos, &|chain| chain.name = "a?b c".into());
    assert_eq!(named, ["chain \"a?b c\" is named a_b_c"]);
}

/// No buffer moves while secrets are written, however long the words beside them are.
#[test]
fn words_of_any_length_are_written_into_one_buffer() {
    let long = "\"".repeat(20_000);
    for format in Format::ALL.into_iter().filter(|format| format.is_written()) {
        let longest = Implementation::reading(Some(format)).max_secret().unwrap_or(20_000);
        let edits: [&dyn Fn(&mut Chain); 6] = [
            &|chain| chain.keys[0].secret = Secret::new(vec![b'\\'; longest].into(), Notation::Text),
            &|chain| chain.name = long.clone(),
            &|chain| chain.description = Some(long.clone()),
            &|chain| chain.neighbors = vec![neighbor("192.0.2.1", Some(&long), None)],
            &|chain| chain.neighbors = vec![neighbor("fe80::1", None, Some(&long))],
            &|chain| {
                chain.name = long[..5000].to_owned();
                chain.neighbors =
                    (1..100).map(|last| neighbor(&format!("192.0.2.{last}"), None, None)).collect();
                for id in 2..40_u8 {
                    let ids = KeyId(id);
                    second(chain, |key| {
                        (key.key_id, key.send_id, key.recv_id) = (id.into(), ids, ids);
                    });
                }
            },
        ];
        for edit in edits {
            let written = converted(format, edit);
            assert!(!written.text.is_empty());
        }
    }
}
