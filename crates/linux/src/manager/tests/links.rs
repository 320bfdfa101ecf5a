//! Two routers with one link-local address on two links.

use std::net::TcpListener;

use fastrand::Rng;
use proptest::prelude::*;

use super::*;
use crate::manager::peers::{Place, longest};
use crate::manager::{Attached, is_key_of};

/// The router with this address on an interface.
fn on(interface: u32) -> PeerName {
    PeerName { interface: Some(interface), ..peer("fe80::1") }
}

/// The scope of a listener that is bound to an interface, or to none.
fn bound(peers: &PeerTable<Configured>, device: Option<u32>, now: i64) -> Scope<'_> {
    Scope { device, ..scope(peers, now) }
}

/// A chain of one key with this id, and this secret.
fn secret_key(id: u8, secret: u32, from: impl Into<Option<i64>>, until: impl Into<Option<i64>>) -> KeyChain {
    chain(0, [key(id.into(), mkt(id, id, secret), lifetime(from, until))])
}

/// The ids and secrets of the keys on a socket.
fn held(kernel: &Kernel) -> Vec<(u8, Vec<u8>)> {
    let mut held: Vec<_> =
        kernel.keys.iter().map(|key| (key.name.send_id.0, secret_of(key).to_vec())).collect();
    held.sort_unstable();
    held
}

fn of(keys: &[(u8, u32)]) -> Vec<(u8, Vec<u8>)> {
    keys.iter()
        .map(|(id, secret)| {
            (*id, secret_of(&InstalledKey::of(name(*id, *id), &mkt(*id, *id, *secret))).to_vec())
        })
        .collect()
}

#[test]
fn a_listener_that_is_bound_to_a_link_has_its_keys_and_another_those_of_both() {
    let peers = peers([
        (on(2), secret_key(1, 12, None, None)),
        (on(3), secret_key(2, 23, None, None)),
        (peer("fe80::2"), secret_key(3, 3, None, None)),
    ]);
    for (device, expected) in [
        (Some(2), of(&[(1, 12), (3, 3)])),
        (Some(3), of(&[(2, 23), (3, 3)])),
        (Some(4), of(&[(3, 3)])),
        (None, of(&[(1, 12), (2, 23), (3, 3)])),
    ] {
        let (mut kernel, mut memories) = (Kernel::new(Listener), PeerTable::new());
        let (outcome, _) = kernel.apply_all(&bound(&peers, device, 0), &mut memories);
        assert!(outcome.failed.is_empty());
        assert_eq!(held(&kernel), expected, "{device:?}");
        let (again, _) = kernel.apply_all(&bound(&peers, device, 1), &mut memories);
        assert!(again.done.is_empty() && again.failed.is_empty(), "{again:?}");
    }
}

#[test]
fn keys_of_two_links_roll_over_and_leave_one_listener_apart() {
    let roll = |id: u8, secret| {
        let keys = [
            key(1, mkt(id, id, secret), lifetime(None, 150)),
            key(2, mkt(id + 1, id + 1, secret + 1), lifetime(100, None)),
        ];
        chain(0, keys)
    };
    let mut table = peers([(on(2), roll(1, 10)), (on(3), roll(3, 20))]);
    let (mut kernel, mut memories) = (Kernel::new(Listener), PeerTable::new());
    let mut step = |table: &PeerTable<Configured>, now| {
        let (outcome, _) = kernel.apply_all(&bound(table, None, now), &mut memories);
        assert!(outcome.failed.is_empty() && outcome.overdue.is_empty(), "{outcome:?}");
        held(&kernel)
    };
    assert_eq!(step(&table, 50), of(&[(1, 10), (3, 20)]));
    assert_eq!(step(&table, 120), of(&[(1, 10), (2, 11), (3, 20), (4, 21)]));
    assert_eq!(step(&table, 150), of(&[(2, 11), (4, 21)]));
    // One link's secret changes under the same id, then its router is removed.
    table.get_mut(&on(2)).unwrap().chain = secret_key(2, 99, None, None).into();
    assert_eq!(step(&table, 150), of(&[(2, 99), (4, 21)]));
    table.remove(&on(2));
    assert_eq!(step(&table, 150), of(&[(4, 21)]));
    // Its chain expires: a placeholder keeps the router out.
    table.get_mut(&on(3)).unwrap().chain = secret_key(4, 21, None, 160).into();
    assert_eq!(step(&table, 170).iter().map(|(id, _)| *id).collect::<Vec<_>>(), [255]);
    table.remove(&on(3));
    assert_eq!(step(&table, 170), of(&[]));
}

#[test]
fn ao_44_an_id_in_common_is_a_clash_where_one_listener_serves_both_links() {
    let manager = KeyManager::default();
    // Each link may have its own listener.
    manager.set_peer(on(2), secret_key(1, 12, None, None)).unwrap();
    manager.set_peer(on(3), secret_key(1, 13, None, None)).unwrap();
    // A router on any link cannot be told from either.
    let error = manager.set_peer(peer("fe80::1"), secret_key(1, 1, None, None)).unwrap_err();
    assert!(matches!(error, Error::PeersClash { other, .. } if [on(2), on(3)].contains(&other)), "{error}");
    let peers = Arc::clone(&manager.shared.state().peers);
    for (device, secret) in [(2, 12), (3, 13)] {
        let mut kernel = Kernel::new(Listener);
        let (outcome, _) = kernel.apply_all(&bound(&peers, Some(device), 0), &mut PeerTable::new());
        assert!(outcome.failed.is_empty());
        assert_eq!(held(&kernel), of(&[(1, secret)]));
    }
    let (mut kernel, mut memories) = (Kernel::new(Listener), PeerTable::new());
    for now in 0..3 {
        let (outcome, _) = kernel.apply_all(&bound(&peers, None, now), &mut memories);
        let [
            (Some(Action::Add { .. }), error @ Error::PeersClash { peer, key_id: 1, other, other_key_id: 1 }),
        ] = &outcome.failed[..]
        else {
            panic!("{:?}", outcome.failed)
        };
        assert_eq!((*peer, *other), (on(3), on(2)));
        let said = error.to_string();
        assert!(said.starts_with("peer fe80::1%3, key 1 and peer fe80::1%2, key 1 have a SendID"), "{said}");
        assert!(said.ends_with("choose other ids, or bind a listener to each interface"), "{said}");
        // The other one's keys are untouched, and both stay protected.
        let ids: Vec<u8> = held(&kernel).iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [1, 255]);
        assert!(held(&kernel).contains(&of(&[(1, 12)])[0]));
    }
}

#[test]
fn ao_44_a_connection_belongs_to_the_router_on_its_link() {
    let in_vrf = PeerName { vrf: Some(9), ..on(5) };
    let table: PeerTable<()> =
        [on(2), on(3), in_vrf, peer("fe80::/10"), PeerName { interface: Some(2), ..peer("192.0.2.7") }]
            .map(|peer| (peer, ()))
            .into();
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    for (remote, vrf, interface, expected) in [
        ("fe80::1", 0, Some(2), Some(on(2))),
        ("fe80::1", 0, Some(3), Some(on(3))),
        ("fe80::1", 9, Some(5), Some(in_vrf)),
        ("fe80::1", 0, Some(5), Some(peer("fe80::/10"))),
        ("fe80::1", 0, None, Some(peer("fe80::/10"))),
        ("fe80::2", 0, Some(2), Some(peer("fe80::/10"))),
        ("192.0.2.7", 0, Some(2), Some(PeerName { interface: Some(2), ..peer("192.0.2.7") })),
        ("192.0.2.7", 0, Some(3), None),
        ("192.0.2.7", 0, None, None),
    ] {
        let place = || Ok(Place { vrf, interface });
        assert_eq!(longest(&table, address(remote), place).unwrap(), expected, "{remote} on {interface:?}");
    }
}

#[test]
fn ao_44_a_key_of_the_other_link_opens_no_connection() {
    let both = peers([(on(2), secret_key(1, 12, None, None)), (on(3), secret_key(2, 23, None, None))]);
    let signed_with = |id: u8, secret| {
        let mkt = mkt(id, id, secret);
        InstalledKey::of(on(2).key(&mkt), &mkt)
    };
    for (peer, id, secret, is_its) in [
        (on(2), 1, 12, true),
        (on(2), 2, 23, false),
        (on(3), 2, 23, true),
        (on(3), 1, 12, false),
        // Whose it was is not known.
        (on(3), 2, 99, false),
    ] {
        assert_eq!(is_key_of(&both, peer, &signed_with(id, secret)), is_its, "{peer}, key {id}");
    }
    // With one link alone, a key that has just left the chain is the peer's.
    let alone = peers([(on(2), secret_key(1, 12, None, None))]);
    assert!(is_key_of(&alone, on(2), &signed_with(7, 77)));
    // On the connection itself the other link's keys are deleted.
    let mut accepted = Kernel::new(Listener);
    accepted.apply_all(&bound(&both, None, 0), &mut PeerTable::new());
    let mut accepted = accepted.accept("fe80::1", signed_with(2, 23).name, 0);
    let scope = Scope { only: Some(on(3)), kind: Connection, ..scope(&both, 0) };
    let (outcome, _) = accepted.apply_all(&scope, &mut PeerTable::new());
    assert!(outcome.failed.is_empty());
    assert_eq!(held(&accepted), of(&[(2, 23)]));
}

/// A real socket on the loopback device, which has an interface.
#[test]
fn a_bound_sockets_place_is_its_interface() {
    let lo = "fe80::1%lo".parse::<PeerName>().unwrap().interface;
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let socket = socket2::SockRef::from(&listener);
    if let Err(error) = socket.bind_device(Some(b"lo")) {
        // It takes CAP_NET_RAW.
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        return;
    }
    let mut attached = Attached::new(&listener).unwrap();
    assert_eq!(attached.place(None).unwrap(), Place { vrf: 0, interface: lo });
    assert_eq!(attached.look(|| true).unwrap().unwrap().device, lo);
    assert_eq!(attached.look(|| false).unwrap().unwrap().device, None, "no peer asks for it");
}

/// Random changes of routers on three links with disjoint ids: a listener has the keys of its own link's routers, whatever it had before.
fn change(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let device = [None, Some(2)][random.usize(0..2)];
    let mut table = PeerTable::new();
    let (mut kernel, mut memories) = (Kernel::new(Listener), PeerTable::new());
    for now in 0..10 {
        for interface in 2..5 {
            let id = interface as u8 * 10 + random.u8(0..3);
            match random.u8(0..4) {
                0 => {
                    let chain = secret_key(id, random.u32(0..5), None, [None, Some(5)][random.usize(0..2)]);
                    table.extend(peers([(on(interface), chain)]));
                }
                1 => drop(table.remove(&on(interface))),
                _ => {}
            }
        }
        let (outcome, _) = kernel.apply_all(&bound(&table, device, now), &mut memories);
        assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
        let served =
            table.iter().filter(|(peer, _)| device.is_none_or(|device| peer.interface == Some(device)));
        let (mut ids, mut expected) = (Vec::new(), Vec::new());
        for (_, configured) in served {
            expected.extend(configured.chain.at(at(now)).preferred().map(|key| key.mkt().send_id().0));
            ids.push(());
        }
        let placeholders = ids.len() - expected.len();
        let mut found: Vec<u8> = kernel.keys.iter().map(|key| key.name.send_id.0).collect();
        assert_eq!(found.iter().filter(|id| **id > 100).count(), placeholders, "at {now}");
        found.retain(|id| *id <= 100);
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "at {now}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_listener_has_the_keys_of_its_links(seed: u64) {
        change(seed);
    }
}
