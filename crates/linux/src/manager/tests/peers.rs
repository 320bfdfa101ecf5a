//! Many peers on one socket.

use std::net::Ipv4Addr;

use super::*;
use crate::manager::apply::WithoutWaiting;
use crate::manager::peers::{Place, longest};

/// The name of a key with the same id for sending and receiving.
fn name(peer: PeerName, id: u8) -> KeyName {
    peer.key(&mkt(id, id, 0))
}

/// The keys on a socket: network and id, in order.
fn held(kernel: &Kernel) -> String {
    let mut keys: Vec<_> =
        kernel.keys.iter().map(|key| (key.name.peer().to_string(), key.name.send_id.0)).collect();
    keys.sort_unstable();
    keys.iter().map(|(peer, id)| format!("{peer} {id}")).collect::<Vec<_>>().join(", ")
}

/// Two keys; the second one replaces the first at 100.
fn rolling(number: usize) -> KeyChain {
    let secret = |key: u32| 2 * number as u32 + key;
    let keys = [
        key(1, mkt(1, 1, secret(0)), lifetime(None, 150)),
        key(2, mkt(2, 2, secret(1)), lifetime(100, None)),
    ];
    chain(0, keys)
}

fn numbered(number: usize) -> PeerName {
    PeerName::new(IpCidr::new_host(IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + number as u32))))
}

#[test]
fn one_read_serves_ten_thousand_peers() {
    const PEERS: usize = 10_000;
    let chains: Vec<(PeerName, KeyChain)> = (0..PEERS).map(|n| (numbered(n), rolling(n))).collect();
    let mut kernel = Kernel::new(Listener);
    for (peer, chain) in &chains {
        let keys = chain.keys().iter().map(Key::mkt);
        kernel.keys.extend(keys.map(|mkt| InstalledKey::of(peer.key(mkt), mkt)));
    }
    let all = kernel.keys.len();
    let (mut peers, mut memories) = (peers(chains), PeerTable::new());

    // Nothing to do while both keys are accepted. A key is compared with the keys of its own peer's chain only.
    let (outcome, work) = kernel.apply_all(&scope(&peers, 120), &mut memories);
    assert!(outcome.done.is_empty() && outcome.failed.is_empty());
    assert_eq!(all, 2 * PEERS);
    assert!(work.comparisons <= 2 * all, "{work:?}");
    assert_eq!((work.reads, work.keys), (1, all));

    // A hundred peers get another chain, and ten are removed.
    for number in 0..100 {
        let changed = one_key(3, None, None);
        peers.get_mut(&numbered(number)).unwrap().chain = changed.into();
    }
    for number in 100..110 {
        peers.remove(&numbered(number));
    }
    let (outcome, work) = kernel.apply_all(&scope(&peers, 120), &mut memories);
    assert!(outcome.failed.is_empty());
    assert_eq!(outcome.done.len(), 100 * 3 + 10 * 2);
    assert_eq!((work.reads, work.keys), (1, all));
    assert_eq!((kernel.keys.len(), memories.len()), (all - 120, PEERS - 10));

    // For comparison, one manager for each peer: each reads all keys.
    let few: Vec<PeerName> = peers.keys().take(20).copied().collect();
    let mut reads = Work::default();
    for peer in few {
        let own = PeerTable::from([(peer, peers[&peer].clone())]);
        let (_, work) = kernel.apply_all(&scope(&own, 120), &mut PeerTable::new());
        (reads.reads, reads.keys) = (reads.reads + work.reads, reads.keys + work.keys);
    }
    assert_eq!((reads.reads, reads.keys), (20, 20 * kernel.keys.len()));
}

#[test]
fn a_listener_gets_and_loses_the_keys_of_a_thousand_peers() {
    let mut chains: Vec<(PeerName, KeyChain)> = (0..1000).map(|n| (numbered(n), rolling(n))).collect();
    // A network around them all.
    chains.push((peer("10.0.0.0/8"), one_key(9, None, None)));
    let (peers, mut memories) = (peers(chains), PeerTable::new());
    let mut kernel = Kernel::new(Listener);
    for (now, count) in [(50, 1001), (100, 2001), (149, 2001), (150, 1001)] {
        let (outcome, work) = kernel.apply_all(&scope(&peers, now), &mut memories);
        assert!(outcome.failed.is_empty());
        assert_eq!((kernel.keys.len(), work.reads), (count, 1), "at {now}");
    }
    let (outcome, _) = kernel.apply_all(&scope(&PeerTable::new(), 150), &mut memories);
    assert_eq!((outcome.done.len(), kernel.keys.len(), memories.len()), (1001, 0, 0));
}

#[test]
fn keys_that_the_kernel_refuses_are_read_again_once_for_all_peers() {
    let chains = (0..1000).map(|n| (numbered(n), rolling(n)));
    let (peers, mut memories) = (peers(chains), PeerTable::new());
    let mut kernel = Kernel::new(Listener);
    let no_memory = |_: &mut Kernel, _: &Call<'_>| Err(Error::NoMemory);
    let (outcome, work) = kernel.apply_all_with(&scope(&peers, 120), &mut memories, no_memory);
    // Both keys of each peer and its placeholder.
    assert_eq!((outcome.failed.len(), work.reads), (3 * 1000, 3));

    // One peer's key does not hold up the others.
    let unlucky = numbered(500);
    let (outcome, work) =
        kernel.apply_all_with(&scope(&peers, 120), &mut memories, |kernel, action| match action {
            Call::Add { key_id: 2, key } if key.name().peer() == unlucky => Err(Error::NoMemory),
            action => kernel.call(action),
        });
    assert_eq!((outcome.failed.len(), work.reads, kernel.keys.len()), (1, 2, 1999));
}

#[test]
fn ao_44_the_longest_prefix_decides() {
    let in_vrf = |remote: &str, index| PeerName { vrf: Some(index), ..peer(remote) };
    let table: PeerTable<()> = [
        peer("192.0.2.7"),
        peer("192.0.2.0/24"),
        in_vrf("192.0.2.0/24", 5),
        in_vrf("192.0.2.128/25", 6),
        peer("0.0.0.0/0"),
        in_vrf("2001:db8::/32", 0),
        peer("2001:db8::/48"),
    ]
    .map(|peer| (peer, ()))
    .into();
    let find = |address: &str, vrf| {
        longest(&table, address.parse().unwrap(), || Ok(Place { vrf, interface: None })).unwrap()
    };
    for (address, vrf, expected) in [
        ("192.0.2.7", 0, Some(peer("192.0.2.7"))),
        ("192.0.2.7", 5, Some(peer("192.0.2.7"))),
        ("192.0.2.8", 0, Some(peer("192.0.2.0/24"))),
        ("192.0.2.8", 5, Some(in_vrf("192.0.2.0/24", 5))),
        ("192.0.2.200", 6, Some(in_vrf("192.0.2.128/25", 6))),
        ("192.0.2.200", 5, Some(in_vrf("192.0.2.0/24", 5))),
        ("192.0.3.1", 5, Some(peer("0.0.0.0/0"))),
        ("2001:db8::1", 9, Some(peer("2001:db8::/48"))),
        ("2001:db8:1::1", 0, Some(in_vrf("2001:db8::/32", 0))),
        ("2001:db8:1::1", 9, None),
    ] {
        assert_eq!(find(address, vrf), expected, "{address} in VRF {vrf}");
    }
    let unasked = longest(&table, "192.0.2.7".parse().unwrap(), || panic!("no peer is for one VRF")).unwrap();
    assert_eq!(unasked, Some(peer("192.0.2.7")));
}

#[test]
fn ao_44_peers_that_overlap_need_other_ids() {
    let manager = KeyManager::default();
    let (neighbour, network) = (peer("192.0.2.7"), peer("192.0.2.0/24"));
    manager.set_peer(network, one_key(1, None, 100)).unwrap();
    let error = manager.set_peer(neighbour, one_key(1, 99, None)).unwrap_err();
    assert!(matches!(
        error,
        Error::PeersClash { peer, key_id: 1, other, other_key_id: 1 } if (peer, other) == (neighbour, network)
    ));
    assert!(error.to_string().starts_with("peer 192.0.2.7, key 1 and peer 192.0.2.0/24, key 1 "), "{error}");
    let ids = |send_id, recv_id| chain(0, [key(7, mkt(send_id, recv_id, 7), lifetime(None, None))]);
    for clashing in [ids(1, 2), ids(2, 1)] {
        assert!(manager.set_peer(neighbour, clashing).is_err());
    }
    // Other ids, another time, another VRF or separate addresses do not clash.
    manager.set_peer(neighbour, ids(2, 3)).unwrap();
    manager.set_peer(neighbour, one_key(1, 100, None)).unwrap();
    manager.set_peer(peer("192.0.3.7"), one_key(1, None, None)).unwrap();
    let in_vrf = |index| PeerName { vrf: Some(index), ..peer("198.51.100.0/24") };
    for index in [5, 6] {
        manager.set_peer(in_vrf(index), one_key(1, None, None)).unwrap();
    }
    assert!(manager.set_peer(peer("198.51.100.9"), one_key(1, None, None)).is_err());
    // A network is checked against all peers within it, but not against its own old chain or removed peers.
    assert!(manager.set_peer(peer("0.0.0.0/0"), one_key(1, None, 50)).is_err());
    manager.set_peer(network, one_key(1, 50, 100)).unwrap();
    assert!(manager.remove_peer(neighbour).is_some() && manager.remove_peer(neighbour).is_none());
    manager.set_peer(neighbour, one_key(2, None, None)).unwrap();
}

#[test]
fn ao_44_a_connection_keeps_the_keys_of_its_own_peer_alone() {
    let (neighbour, network) = (peer("192.0.2.7"), peer("192.0.2.0/24"));
    let peers = peers([(neighbour, one_key(1, None, None)), (network, one_key(2, None, None))]);
    let mut listener = Kernel::new(Listener);
    listener.apply_all(&scope(&peers, 0), &mut PeerTable::new());
    for (address, handshake, own, id) in [
        ("192.0.2.7", name(neighbour, 1), neighbour, 1),
        // A holder of the network's key connected from the neighbour's address.
        ("192.0.2.7", name(network, 2), neighbour, 1),
        ("192.0.2.8", name(network, 2), network, 2),
    ] {
        let mut accepted = listener.accept(address, handshake, 0);
        let scope = Scope { only: Some(own), kind: Connection, ..scope(&peers, 0) };
        let (outcome, work) = accepted.apply_all(&scope, &mut PeerTable::new());
        assert!(outcome.failed.is_empty() && !outcome.expired);
        assert_eq!((held(&accepted), work.reads), (format!("{own} {id}"), 1));
        assert_eq!((accepted.current, accepted.rnext), (Some(name(own, id)), Some(name(own, id))));
    }
}

#[test]
fn attaching_without_waiting_leaves_no_key_of_another_peer() {
    let (neighbour, network) = (peer("192.0.2.7"), peer("192.0.2.0/24"));
    let peers = peers([(neighbour, rolling(0)), (network, one_key(9, None, None))]);
    // The handshake was under key 1, which has expired since; key 5 has left the chain.
    let listener = Kernel::new(Listener)
        .with(name(neighbour, 1), &mkt(1, 1, 0))
        .with(name(neighbour, 5), &mkt(5, 5, 5))
        .with(name(network, 9), &mkt(9, 9, 9));
    let mut accepted = listener.accept("192.0.2.7", name(neighbour, 1), 0);
    let scope = Scope { only: Some(neighbour), kind: Connection, ..scope(&peers, 200) };
    let (mut memories, calls) = (PeerTable::new(), &mut accepted);
    let outcome = scope.apply(&mut memories, &mut WithoutWaiting { calls, peer: neighbour });
    assert!(outcome.failed.iter().all(|(action, error)| {
        matches!((action, error), (Some(Action::Delete { .. }), Error::KeyInUse(_)))
    }));
    assert_eq!((outcome.failed.len(), outcome.failing.len()), (2, 0));
    assert_eq!(held(&accepted), "192.0.2.7 1, 192.0.2.7 2, 192.0.2.7 5", "the network's key is gone");
    let preferred = Some(name(neighbour, 2));
    assert_eq!((accepted.current, accepted.rnext), (preferred, preferred));
    // The next step deletes the others.
    let (outcome, _) = accepted.apply_all(&scope, &mut memories);
    assert!(outcome.failed.is_empty());
    assert_eq!(held(&accepted), "192.0.2.7 2");
}

#[test]
fn a_socket_that_will_connect_has_the_keys_of_its_own_peer_alone() {
    let (one, other) = (peer("192.0.2.7"), peer("192.0.2.8"));
    let peers = peers([(one, rolling(0)), (other, rolling(1))]);
    let mut kernel = Kernel::new(Closed);
    let scope = Scope { only: Some(other), kind: Closed, ..scope(&peers, 120) };
    kernel.apply_all(&scope, &mut PeerTable::new());
    assert_eq!(held(&kernel), "192.0.2.8 1, 192.0.2.8 2");
    assert_eq!((kernel.current, kernel.rnext), (Some(name(other, 2)), Some(name(other, 2))));
}

#[test]
fn keys_of_a_removed_peer_leave_the_listener_and_those_of_other_programs_stay() {
    let (one, other) = (peer("192.0.2.7"), peer("192.0.2.8"));
    let mut peers = peers([(one, one_key(1, None, None)), (other, one_key(1, None, 50))]);
    let mut memories = PeerTable::new();
    let mut kernel = Kernel::new(Listener).with(name(peer("198.51.100.1"), 1), &mkt(1, 1, 50));
    // The other peer's chain has expired, and it has a placeholder.
    kernel.apply_all(&scope(&peers, 60), &mut memories);
    assert_eq!(held(&kernel), "192.0.2.7 1, 192.0.2.8 255, 198.51.100.1 1");
    peers.remove(&one);
    peers.remove(&other);
    let mut kernel_refuses = true;
    let (outcome, _) = kernel.apply_all_with(&scope(&peers, 60), &mut memories, |kernel, action| {
        if std::mem::take(&mut kernel_refuses) { Err(Error::NoMemory) } else { kernel.call(action) }
    });
    // A key that could not be deleted is deleted in the next step.
    assert_eq!((outcome.failed.len(), outcome.done.len(), memories.len()), (1, 1, 1));
    assert_eq!(short(outcome.done), "delete placeholder 255");
    let (outcome, _) = kernel.apply_all(&scope(&peers, 60), &mut memories);
    assert_eq!(short(outcome.done), "delete leftover 1");
    assert_eq!(held(&kernel), "198.51.100.1 1");
    assert!(memories.is_empty());
    let (_, work) = kernel.apply_all(&scope(&peers, 60), &mut memories);
    assert_eq!(work, Work::default(), "there is nothing to read for");
}

#[test]
fn an_id_goes_from_one_peer_to_another_that_overlaps_in_one_step() {
    let (neighbour, network) = (peer("192.0.2.7"), peer("192.0.2.0/24"));
    for (first, second) in [(neighbour, network), (network, neighbour)] {
        let rolling = [key(1, mkt(1, 1, 1), lifetime(None, 100)), key(2, mkt(2, 2, 2), lifetime(0, None))];
        let peers = peers([(first, chain(0, rolling)), (second, one_key(1, 100, None))]);
        let (mut kernel, mut memories) = (Kernel::new(Listener), PeerTable::new());
        kernel.apply_all(&scope(&peers, 50), &mut memories);
        let (outcome, _) = kernel.apply_all(&scope(&peers, 100), &mut memories);
        assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
        let expected =
            if first == neighbour { "192.0.2.0/24 1, 192.0.2.7 2" } else { "192.0.2.0/24 2, 192.0.2.7 1" };
        assert_eq!(held(&kernel), expected);
    }
}

#[test]
fn a_placeholder_gives_way_to_a_key_of_a_peer_that_overlaps() {
    let (neighbour, network) = (peer("192.0.2.7"), peer("192.0.2.0/24"));
    let (mut kernel, mut memories) = (Kernel::new(Listener), PeerTable::new());
    let before = peers([(network, one_key(1, None, 0))]);
    kernel.apply_all(&scope(&before, 10), &mut memories);
    assert_eq!(held(&kernel), "192.0.2.0/24 255");
    let after = peers([(network, one_key(1, None, 0)), (neighbour, one_key(255, None, None))]);
    let (outcome, _) = kernel.apply_all(&scope(&after, 10), &mut memories);
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    assert_eq!(held(&kernel), "192.0.2.0/24 254, 192.0.2.7 255");
    // Two placeholders have different ids, too.
    let expired = peers([(network, one_key(1, None, 0)), (neighbour, one_key(255, None, 0))]);
    kernel.apply_all(&scope(&expired, 10), &mut memories);
    assert_eq!(held(&kernel), "192.0.2.0/24 254, 192.0.2.7 253");
    let (outcome, _) = kernel.apply_all(&scope(&expired, 10), &mut memories);
    assert!(outcome.done.is_empty() && outcome.failed.is_empty());
}

#[test]
fn a_socket_of_one_family_gets_the_keys_of_its_family() {
    let peers = peers(["192.0.2.7", "2001:db8::7"].map(|remote| (peer(remote), one_key(1, None, None))));
    for (families, on_it) in [
        ([true, false], "192.0.2.7 1"),
        ([false, true], "2001:db8::7 1"),
        ([true, true], "192.0.2.7 1, 2001:db8::7 1"),
    ] {
        let mut kernel = Kernel::new(Listener);
        kernel.apply_all(&Scope { families, ..scope(&peers, 0) }, &mut PeerTable::new());
        assert_eq!(held(&kernel), on_it);
    }
}

/// `TCP_AO_DEL_KEY` of Linux 6.18, which searches for every key among those without a VRF.
fn deletes_no_key_of_a_vrf(kernel: &mut Kernel, action: &Call<'_>) -> Result<(), Error> {
    match action {
        Call::Delete { key, .. } if key.vrf.is_some_and(|vrf| vrf != 0) => {
            Err(Error::NoSuchKey { send_id: Some(key.send_id), recv_id: Some(key.recv_id) })
        }
        _ => kernel.call(action),
    }
}

#[test]
fn a_key_that_the_kernel_does_not_delete_is_overdue_for_as_long_as_it_is_there() {
    let in_vrf = PeerName { vrf: Some(5), ..peer("192.0.2.7") };
    let stolen = name(in_vrf, 1);
    for after in [peers([(in_vrf, one_key(2, None, None))]), peers([])] {
        let (mut kernel, mut memories) = (Kernel::new(Listener), PeerTable::new());
        kernel.apply_all(&scope(&peers([(in_vrf, one_key(1, None, None))]), 0), &mut memories);
        for now in 0..3 {
            let scope = scope(&after, now);
            let (outcome, _) = kernel.apply_all_with(&scope, &mut memories, deletes_no_key_of_a_vrf);
            assert_eq!(outcome.overdue, [stolen], "at {now}");
            assert!(matches!(outcome.failed[..], [(Some(Action::Delete { key, .. }), _)] if key == stolen));
        }
        let (outcome, _) = kernel.apply_all(&scope(&after, 3), &mut memories);
        assert!(outcome.overdue.is_empty() && outcome.failed.is_empty(), "{outcome:?}");
        assert!(kernel.keys.iter().all(|key| key.name != stolen));

        // Another program deletes it between reading and deleting.
        kernel = kernel.with(stolen, &mkt(1, 1, 1));
        memories.entry(in_vrf).or_default();
        let (outcome, _) = kernel.apply_all_with(&scope(&after, 4), &mut memories, |kernel, action| {
            kernel.keys.retain(|key| key.name != stolen);
            kernel.call(action)
        });
        assert!(outcome.overdue.is_empty() && outcome.failed.len() == 1, "{outcome:?}");
    }
}

#[test]
fn a_connection_does_not_go_on_under_a_key_that_the_kernel_does_not_delete() {
    let in_vrf = PeerName { vrf: Some(5), ..peer("192.0.2.7") };
    let stolen = name(in_vrf, 1);
    let after = peers([(in_vrf, one_key(2, None, None))]);
    let mut kernel = Kernel::new(Listener).with(stolen, &mkt(1, 1, 1)).accept("192.0.2.7", stolen, 5);
    let scope = Scope { only: Some(in_vrf), kind: Connection, ..scope(&after, 0) };
    let (outcome, _) = kernel.apply_all_with(&scope, &mut PeerTable::new(), deletes_no_key_of_a_vrf);
    assert_eq!(outcome.overdue, [stolen]);
    let new = Some(name(in_vrf, 2));
    assert_eq!((kernel.current, kernel.rnext), (new, new));
}

/// A connection may wait to be accepted while the keys change.
#[test]
fn a_handshake_counts_under_the_keys_that_the_chain_accepts_when_it_is_attached() {
    let (network, router) = (peer("192.0.2.0/24"), peer("192.0.2.7"));
    let peers = peers([(router, rolling(0))]);
    let [first, second, replaced, gone] = [mkt(1, 1, 0), mkt(2, 2, 1), mkt(2, 2, 7), mkt(3, 3, 2)];
    for (called_with, of, now, refused) in [
        (&first, router, 99, None),
        (&second, router, 120, None),
        (&first, router, 149, None),
        (&first, router, 150, Some("does not accept")),
        (&replaced, router, 120, Some("does not accept")),
        (&gone, router, 120, Some("does not accept")),
        (&first, network, 120, Some("has a key chain of its own")),
    ] {
        let key = InstalledKey::of(of.key(called_with), called_with);
        let handshake = InstalledKey { is_rnext: true, ..key.clone() };
        // The same for a segment after a handshake with the peer's key.
        let valid = if now < 120 { &first } else { &second };
        let good = InstalledKey::of(router.key(valid), valid);
        let later =
            [InstalledKey { is_rnext: true, ..good.clone() }, InstalledKey { good: 1, ..key.clone() }];
        let idle = [InstalledKey { is_rnext: true, ..good }, key];
        let address = IpAddr::from([192, 0, 2, 7]);
        let refusal = |keys: &[_]| {
            check_handshake(&peers, router, keys, address, at(now)).err().map(|error| error.to_string())
        };
        for error in [refusal(&[handshake]), refusal(&later)] {
            let is_expected = error.as_ref().zip(refused).map(|(error, refused)| error.contains(refused));
            assert_eq!(is_expected, refused.map(|_| true), "{called_with:?} at {now}: {error:?}");
        }
        assert_eq!(refusal(&idle), None, "a key that verified nothing says nothing");
    }
}
