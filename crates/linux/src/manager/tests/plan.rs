//! The key manager's decisions, one by one.

use super::*;

/// Three keys, one starting every 100 seconds. Each is sent with for 120 seconds and accepted for 20 more at each end.
fn three_keys() -> KeyChain {
    let keys = [(1, 0, 120), (2, 100, 220), (3, 200, 320)];
    chain(20, keys.map(|(id, from, until)| key(id.into(), mkt(id, id, id.into()), lifetime(from, until))))
}

/// A connection with these keys of [`three_keys`]; the first is current and rnext key.
fn connected(ids: &[u8]) -> Kernel {
    let kernel = Kernel::connected(&mkt(ids[0], ids[0], ids[0].into()));
    ids[1..].iter().fold(kernel, |kernel, id| kernel.with(name(*id, *id), &mkt(*id, *id, (*id).into())))
}

fn ids(kernel: &Kernel) -> Vec<u8> {
    let mut ids: Vec<u8> = kernel.keys.iter().map(|key| key.name.send_id.0).collect();
    ids.sort_unstable();
    ids
}

/// The SendIDs of the current and the rnext key.
fn in_use(kernel: &Kernel) -> [Option<u8>; 2] {
    [kernel.current, kernel.rnext].map(|key| key.map(|key| key.send_id.0))
}

fn secrets(kernel: &Kernel) -> Vec<Vec<u8>> {
    let mut secrets: Vec<_> = kernel.keys.iter().map(|key| secret_of(key).to_vec()).collect();
    secrets.sort_unstable();
    secrets
}

#[test]
fn each_kind_of_socket_gets_the_acceptable_keys_and_asks_for_the_preferred_one() {
    let accept_only =
        Key::new(2, mkt(2, 2, 2)).with_lifetimes(lifetime(100, None), lifetime(0, None)).unwrap();
    let with_accept_only = chain(0, [key(1, mkt(1, 1, 1), lifetime(None, None)), accept_only]);
    for (kernel, chain, now, expected) in [
        (Kernel::new(Listener), three_keys(), 110, "add 2, add 1"),
        (Kernel::new(Closed), three_keys(), 110, "add 2 current rnext, add 1"),
        (connected(&[1]), three_keys(), 110, "add 2 rnext"),
        // Before the chain begins.
        (Kernel::new(Listener), three_keys(), -50, "placeholder 255"),
        (Kernel::new(Closed), three_keys(), -50, "placeholder 255"),
        // The peer is not asked for it.
        (connected(&[1]), with_accept_only, 50, "add 2"),
    ] {
        assert_eq!(kernel.plan(&chain, now), (expected.to_owned(), now < 0), "{:?} at {now}", kernel.kind);
    }
}

#[test]
fn a_socket_that_waits_before_it_connects_keeps_up() {
    let (chain, mut kernel) = (three_keys(), Kernel::new(Closed));
    for now in [50, 90, 110, 190, 300] {
        assert!(kernel.apply(&chain, now).failed.is_empty());
        let preferred = chain.at(at(now)).preferred().map(|key| key.mkt().send_id().0);
        assert_eq!(in_use(&kernel), [preferred; 2]);
        assert!(!kernel.memory.is_peer_behind(), "there is no peer yet");
    }
    assert_eq!(ids(&kernel), [3]);
}

#[test]
fn a_connection_signs_as_before_until_the_peer_has_switched() {
    let mut kernel = connected(&[1]);
    kernel.apply(&three_keys(), 110);
    assert_eq!(in_use(&kernel), [Some(1), Some(2)]);
    assert!(kernel.memory.is_peer_behind());

    kernel.receive(&connected(&[2, 1]).send()).unwrap();
    kernel.apply(&three_keys(), 110);
    assert!(!kernel.memory.is_peer_behind());
}

#[test]
fn a_key_that_exists_already_is_asked_for_again() {
    let mut kernel = connected(&[2, 1]);
    kernel.keys[0].good = 1000;
    kernel.apply(&three_keys(), 50);
    assert_eq!(kernel.rnext, Some(name(1, 1)));
    assert!(kernel.memory.is_peer_behind(), "segments from before it was asked for prove nothing");
    kernel.keys[0].good += 1;
    kernel.apply(&three_keys(), 51);
    assert!(!kernel.memory.is_peer_behind());
}

#[test]
fn the_end_of_a_send_lifetime_waits_for_a_peer_that_is_behind() {
    let mut kernel = connected(&[1]);
    kernel.apply(&three_keys(), 110);
    for (now, done, again) in [(120, "", Some(130)), (129, "", Some(130)), (130, "sign 2", None)] {
        let outcome = kernel.apply(&three_keys(), now);
        assert_eq!((short(outcome.done), outcome.again), (done.to_owned(), again.map(at)), "at {now}");
    }
    // This end does not sign at once with a key that it asks for only now.
    let outcome = connected(&[1]).apply(&three_keys(), 125);
    assert_eq!((short(outcome.done), outcome.again), ("add 2 rnext".to_owned(), Some(at(130))));
}

#[test]
fn the_end_of_a_send_lifetime_is_kept_with_a_peer_that_has_switched() {
    let mut kernel = connected(&[1]);
    kernel.apply(&three_keys(), 110);
    kernel.keys.iter_mut().for_each(|key| key.good += 1);
    for (now, done) in [(119, ""), (120, "sign 2")] {
        assert_eq!(short(kernel.apply(&three_keys(), now).done), done, "at {now}");
    }
}

#[test]
fn a_key_is_deleted_after_its_accept_lifetime() {
    let (chain, kernel) = (three_keys(), connected(&[2, 1]));
    assert_eq!(kernel.plan(&chain, 139).0, "");
    assert_eq!(kernel.plan(&chain, 140).0, "delete 1");
    // Even if the peer still asks for it.
    let mut kernel = connected(&[1]);
    assert_eq!(short(kernel.apply(&chain, 140).done), "add 2 rnext, delete 1 -> 2 current");
    assert_eq!(in_use(&kernel), [Some(2); 2]);
}

#[test]
fn later_keys_use_the_ids_of_earlier_ones() {
    let keys = [
        key(1, mkt(1, 1, 1), lifetime(None, 100)),
        key(2, mkt(2, 2, 2), lifetime(80, 200)),
        key(3, mkt(1, 1, 3), lifetime(180, None)),
    ];
    // The process slept: key 1 is still current and on the socket when key 3 takes over its ids.
    let mut kernel = connected(&[1, 2]);
    let done = kernel.apply(&chain(10, keys), 185).done;
    assert_eq!(short(done), "delete 1 -> 2 current rnext, add 3 as 1 rnext");
    assert!(kernel.memory.is_peer_behind());
}

#[test]
fn an_mkt_may_be_in_a_chain_twice() {
    let again = [key(1, mkt(1, 1, 1), lifetime(None, 100)), key(9, mkt(1, 1, 1), lifetime(200, None))];
    let chain = chain(0, again);
    for (now, is_expired) in [(50, false), (250, false), (150, true)] {
        assert_eq!(connected(&[1]).plan(&chain, now), (String::new(), is_expired), "at {now}");
    }
}

#[test]
fn a_key_with_another_secret_is_replaced_through_the_other_key() {
    let keys = [key(1, mkt(1, 1, 77), lifetime(None, None)), key(2, mkt(2, 2, 2), lifetime(None, 10))];
    let mut kernel = connected(&[1, 2]);
    let done = short(kernel.apply(&chain(0, keys), 0).done);
    assert!(done.starts_with("delete leftover 1 -> 2 current rnext, "), "{done}");
    assert_eq!(ids(&kernel), [1, 2]);
}

#[test]
fn the_only_key_with_another_secret_is_replaced_through_a_placeholder() {
    let chain = chain(0, [key(1, mkt(1, 1, 77), lifetime(None, None))]);
    for (kind, [in_use, added, current]) in [
        (Listener, ["", "", ""]),
        (Closed, [" current rnext", " current rnext", ""]),
        (Connection, [" current rnext", " rnext", " current"]),
    ] {
        let mut kernel = Kernel { kind, ..connected(&[1]) };
        let expected = format!(
            "placeholder 255, delete leftover 1 -> 255{in_use}, add 1{added}, delete placeholder 255 -> 1{current}"
        );
        assert_eq!(short(kernel.apply(&chain, 0).done), expected, "{kind:?}");
        assert_eq!(ids(&kernel), [1]);
        assert_eq!(kernel.memory.is_peer_behind(), kind == Connection);
        assert_eq!(kernel.apply(&chain, 0).done, []);
    }
}

#[test]
fn a_listener_without_a_key_to_send_with_lets_no_peer_in() {
    let mut kernel = Kernel::new(Listener);
    // At 325, key 3 is still accepted but no longer sent with. In the last row the clock was wrong.
    for (now, expired, expected) in [(300, false, 3), (325, true, 255), (1000, true, 255), (310, false, 3)] {
        let outcome = kernel.apply(&three_keys(), now);
        assert_eq!((outcome.expired, ids(&kernel)), (expired, vec![expected]), "at {now}");
        assert!(now != 1000 || outcome.done.is_empty());
    }
}

#[test]
fn a_connection_without_a_key_to_send_with_stays_signed() {
    let mut kernel = connected(&[2, 3]);
    let outcome = kernel.apply(&three_keys(), 330);
    assert!(outcome.expired && outcome.overdue.is_empty());
    assert_eq!(ids(&kernel), [3], "key 2 is gone, key 3 is still accepted");
    let outcome = kernel.apply(&three_keys(), 1000);
    assert_eq!((outcome.done, outcome.overdue), (Vec::new(), vec![name(3, 3)]));
    // New keys have been configured.
    let outcome = kernel.apply(&chain(0, [key(3, mkt(3, 3, 33), lifetime(None, None))]), 1001);
    assert!(!outcome.expired && outcome.overdue.is_empty() && outcome.failed.is_empty());
    assert_eq!(ids(&kernel), [3]);
}

#[test]
fn a_clock_that_steps_back_does_not_tear_a_connection_down() {
    let mut kernel = connected(&[3, 2]);
    let mut listener = Kernel { kind: Listener, ..kernel.clone() };
    kernel.apply(&three_keys(), 50);
    assert_eq!((ids(&kernel), in_use(&kernel)), (vec![1, 2, 3], [Some(3), Some(1)]));
    let outcome = kernel.apply(&three_keys(), -1000);
    assert!(outcome.expired && outcome.done.is_empty() && outcome.overdue.is_empty());

    listener.apply(&three_keys(), 50);
    assert_eq!(ids(&listener), [1], "new connections keep to the clock");
}

#[test]
fn a_clock_that_steps_back_gives_ids_back_to_the_earlier_key() {
    let keys = [key(1, mkt(1, 1, 1), lifetime(None, 100)), key(2, mkt(1, 1, 2), lifetime(200, None))];
    let mut kernel = Kernel::connected(&mkt(1, 1, 2));
    assert!(kernel.apply(&chain(0, keys), 50).failed.is_empty());
    assert_eq!(secrets(&kernel), secrets(&connected(&[1])));
}

#[test]
fn keys_for_other_peers_stay_as_they_are() {
    let chain = three_keys();
    let other = |remote: &str, id| KeyName { remote: remote.parse().unwrap(), ..name(id, id) };
    let overlapping = other("192.0.2.0/24", 9);
    let kernel = Kernel::new(Listener)
        .with(other("198.51.100.0/24", 1), &mkt(1, 1, 50))
        .with(overlapping, &mkt(9, 9, 51))
        .with(KeyName { vrf: Some(4), ..name(255, 255) }, &mkt(255, 255, 52));
    assert_eq!(kernel.plan(&chain, 50).0, "add 1");
    // A placeholder does not take another key's ids.
    assert_eq!(kernel.plan(&chain, 1000).0, "placeholder 254");

    // A connection is different: it has only its peer's keys.
    let mut connection = kernel.accept("192.0.2.7", overlapping, 0);
    assert_eq!(ids(&connection), [9]);
    connection.apply(&chain, 50);
    assert_eq!((ids(&connection), in_use(&connection)), (vec![1], [Some(1); 2]));
}

#[test]
fn keys_for_other_peers_with_all_ids_do_not_open_a_listener() {
    let mut kernel = Kernel::new(Listener).with(name(1, 1), &mkt(1, 1, 1));
    for id in 0..=u8::MAX {
        let remote = IpAddr::from([198, 51, 100, id]).into();
        kernel = kernel.with(KeyName { remote, ..name(id, id) }, &mkt(id, id, 50));
    }
    kernel.apply(&three_keys(), 1000);
    let own = kernel.keys.iter().map(|key| key.name).filter(|key| key.peer() == peer(PEER));
    assert_eq!(own.collect::<Vec<_>>(), [name(255, 255)], "the placeholder");
}

#[test]
fn a_key_that_has_left_the_chain_is_deleted_at_once() {
    let mut kernel = connected(&[1, 2]);
    kernel.apply(&chain(20, [key(2, mkt(2, 2, 2), lifetime(0, None))]), 50);
    assert_eq!((ids(&kernel), kernel.current), (vec![2], Some(name(2, 2))));
}

#[test]
fn ao_43_a_connection_accepted_while_the_listeners_keys_changed_gets_the_configuration() {
    // The connection has keys 1 and 2 from its handshake, and a placeholder that the listener briefly had.
    let applied = |chain: &KeyChain, now| {
        let mut kernel = connected(&[1, 2]).with(name(255, 255), &mkt(255, 255, 0));
        assert!(kernel.apply(chain, now).failed.is_empty());
        kernel
    };
    for (now, left) in [(110, vec![1, 2]), (190, vec![2, 3]), (290, vec![3])] {
        assert_eq!(ids(&applied(&three_keys(), now)), left, "at {now}");
    }
    let keys = [key(1, mkt(1, 1, 10), lifetime(None, None)), key(2, mkt(2, 2, 20), lifetime(None, 500))];
    let configured = Kernel::connected(&mkt(1, 1, 10)).with(name(2, 2), &mkt(2, 2, 20));
    assert_eq!(secrets(&applied(&chain(0, keys), 110)), secrets(&configured));
}

#[test]
fn a_key_that_the_kernel_refuses_does_not_hold_up_the_others() {
    let mut kernel = connected(&[1]);
    kernel.keys.push(InstalledKey::of(name(9, 9), &mkt(9, 9, 9)));
    let outcome = kernel.apply_with(&three_keys(), 110, |kernel, call| match call {
        Call::Add { key_id: 2, .. } => Err(Error::NoMemory),
        call => kernel.call(call),
    });
    assert!(matches!(outcome.failed[..], [(Some(Action::Add { key_id: 2, .. }), Error::NoMemory)]));
    assert_eq!((ids(&kernel), kernel.rnext), (vec![1], Some(name(1, 1))), "the next best key is preferred");
    assert!(kernel.apply(&three_keys(), 110).failed.is_empty());
    assert_eq!((ids(&kernel), kernel.rnext), (vec![1, 2], Some(name(2, 2))));
}

#[test]
fn a_key_that_the_peer_asks_for_again_is_deleted_in_the_next_step() {
    let mut kernel = connected(&[2, 1]);
    let peer = Kernel { rnext: Some(name(1, 1)), ..kernel.clone() };
    let outcome = kernel.apply_with(&three_keys(), 150, |kernel, call| {
        kernel.receive(&peer.send()).unwrap();
        kernel.call(call)
    });
    assert!(matches!(outcome.failed[..], [(Some(Action::Delete { .. }), Error::KeyInUse(_))]));
    assert_eq!(short(outcome.done), "sign 2");
    kernel.receive(&peer.send()).unwrap();
    assert_eq!(short(kernel.apply(&three_keys(), 150).done), "delete 1 -> 2 current");
    assert_eq!((ids(&kernel), kernel.current), (vec![2], Some(name(2, 2))));
}

#[test]
fn a_key_that_takes_over_from_one_that_could_not_be_deleted_is_awaited() {
    let chain = chain(0, [key(1, mkt(1, 1, 1), lifetime(0, 100)), key(2, mkt(2, 2, 2), lifetime(50, None))]);
    let mut kernel = Kernel { current: Some(name(2, 2)), ..connected(&[1, 2]) };
    let outcome = kernel.apply_with(&chain, 100, |kernel, call| {
        // The peer asks for the key just before it is deleted.
        kernel.current = Some(name(1, 1));
        kernel.call(call)
    });
    let [(Some(Action::Delete { is_rnext: true, .. }), Error::KeyInUse(_))] = outcome.failed[..] else {
        panic!("{:?}", outcome.failed);
    };
    assert_eq!(kernel.rnext, Some(name(2, 2)), "the kernel changes it all the same");
    assert!(kernel.memory.is_peer_behind());
}

#[test]
fn a_key_that_cannot_be_replaced_leaves_the_placeholder() {
    let chain = chain(0, [key(1, mkt(1, 2, 1), lifetime(None, None))]);
    let mut kernel = Kernel { kind: Listener, ..connected(&[1]) };
    let outcome = kernel.apply_with(&chain, 0, |kernel, call| match call {
        Call::Delete { .. } => Err(Error::NoMemory),
        call => kernel.call(call),
    });
    assert_eq!((outcome.failed.len(), ids(&kernel)), (1, vec![1, 255]));
    assert!(kernel.apply(&chain, 0).failed.is_empty());
    assert!(matches!(&kernel.keys[..], [only] if only.name == name(1, 2)));
}

#[test]
fn a_key_with_the_ids_of_a_deleted_placeholder_is_not_a_placeholder() {
    let none_yet = chain(0, [key(1, mkt(255, 255, 1), lifetime(100, 200))]);
    let mut kernel = Kernel::new(Listener);
    kernel.apply(&none_yet, 0);
    assert_eq!(ids(&kernel), [255]);
    // Another program deletes the keys.
    kernel.keys.clear();
    kernel.apply(&none_yet, 100);
    let done = short(kernel.apply(&one_key(1, 500, None), 150).done);
    assert!(done.starts_with("placeholder 254, "), "{done}");
    assert_eq!(ids(&kernel), [254]);
}

#[test]
fn a_socket_whose_keys_cannot_be_read_is_reported() {
    struct Unreadable;
    impl Calls for Unreadable {
        fn look(&mut self) -> Result<Vec<InstalledKey>, Error> {
            Err(Error::NotATcpSocket)
        }

        fn call(&mut self, call: &Call<'_>) -> Result<(), Error> {
            panic!("{call:?}")
        }

        fn reset(&mut self) {}
    }
    let peers = peers([(peer(PEER), three_keys())]);
    let outcome = scope(&peers, 50).apply(&mut PeerTable::new(), &mut Unreadable);
    assert!(matches!(outcome.failed[..], [(None, Error::NotATcpSocket)]));
}

#[test]
fn a_key_that_is_reported_as_added_is_on_the_socket() {
    let (chain, mut kernel) = (three_keys(), Kernel::new(Listener));
    let mkt_of = |id| chain.keys().iter().find(|key| key.key_id() == id).map(Key::mkt).unwrap();
    let outcome = kernel.apply_with(&chain, 110, |kernel, call| {
        // The call holds the key itself, so nothing is looked up in the chain, which may have changed.
        let Call::Add { key_id, key } = *call else { panic!("{call:?}") };
        assert!(InstalledKey::of(key.name(), key.mkt).is(mkt_of(key_id)));
        kernel.call(call)
    });
    assert_eq!(short(outcome.done.clone()), "add 2, add 1");
    for action in outcome.done {
        let Action::Add { key_id, key, .. } = action else { panic!("{action}") };
        assert!(kernel.keys.iter().any(|held| held.name == key && held.is(mkt_of(key_id))), "{action}");
    }
}
