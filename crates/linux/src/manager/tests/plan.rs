//! What the key manager decides, decision by decision.

use super::*;

/// Three keys that follow each other every 100 seconds, sent with for 120 and accepted for 20 more at each end.
fn three_keys() -> KeyChain {
    let keys = [(1, 0, 120), (2, 100, 220), (3, 200, 320)];
    chain(20, keys.map(|(id, from, until)| key(id.into(), mkt(id, id, id.into()), lifetime(from, until))))
}

/// A connection with these keys of [`three_keys`]; the first is current and rnext key.
fn connected(ids: &[u8]) -> Kernel {
    let kernel = Kernel::connected(&mkt(ids[0], ids[0], ids[0].into()));
    ids[1..].iter().fold(kernel, |kernel, id| kernel.with(name(*id, *id), &mkt(*id, *id, (*id).into())))
}

/// A plan without anything remembered or set aside: its actions, and whether no key is valid for sending.
fn plan(kernel: &Kernel, chain: &KeyChain, now: i64) -> (Vec<Action>, bool) {
    let (memory, target) = (Memory::default(), target(chain, now, kernel.kind));
    let plan = target.plan(&kernel.found(&target, &memory), &memory, &[]);
    (plan.calls.iter().map(Call::action).collect(), plan.expired)
}

fn actions(kernel: &Kernel, chain: &KeyChain, now: i64) -> Vec<Action> {
    plan(kernel, chain, now).0
}

fn add(id: u8, set_current: bool, set_rnext: bool) -> Action {
    Action::Add { key_id: id.into(), key: name(id, id), set_current, set_rnext }
}

/// Deletes a key in use and names what takes over.
fn replace(key: KeyName, origin: Origin, successor: KeyName, (is_current, is_rnext): (bool, bool)) -> Action {
    Action::Delete { key, origin, successor: Some(successor), is_current, is_rnext }
}

fn ids(kernel: &Kernel) -> Vec<u8> {
    let mut ids: Vec<u8> = kernel.keys.iter().map(|key| key.name.send_id.0).collect();
    ids.sort_unstable();
    ids
}

fn secrets(kernel: &Kernel) -> Vec<Vec<u8>> {
    let mut secrets: Vec<_> = kernel.keys.iter().map(|key| secret_of(key).to_vec()).collect();
    secrets.sort_unstable();
    secrets
}

#[test]
fn each_kind_of_socket_gets_the_acceptable_keys_and_asks_for_the_preferred_one() {
    let chain = three_keys();
    let placeholder = || vec![Action::AddPlaceholder { key: name(255, 255) }];
    for (kernel, now, expected) in [
        (Kernel::new(Listener), 110, vec![add(2, false, false), add(1, false, false)]),
        (Kernel::new(Closed), 110, vec![add(2, true, true), add(1, false, false)]),
        (connected(&[1]), 110, vec![add(2, false, true)]),
        // Before the chain begins.
        (Kernel::new(Listener), -50, placeholder()),
        (Kernel::new(Closed), -50, placeholder()),
    ] {
        assert_eq!(plan(&kernel, &chain, now), (expected, now < 0), "{:?} at {now}", kernel.kind);
    }
    let accept_only =
        Key::new(2, mkt(2, 2, 2)).with_lifetimes(lifetime(100, None), lifetime(0, None)).unwrap();
    let chain = self::chain(0, [key(1, mkt(1, 1, 1), lifetime(None, None)), accept_only]);
    assert_eq!(actions(&connected(&[1]), &chain, 50), [add(2, false, false)], "it is not asked for");
}

#[test]
fn a_socket_that_waits_before_it_connects_keeps_up() {
    let (chain, mut kernel, mut memory) = (three_keys(), Kernel::new(Closed), Memory::default());
    for now in [50, 90, 110, 190, 300] {
        let outcome = kernel.apply(&target(&chain, now, Closed), &mut memory);
        assert!(outcome.failed.is_empty());
        let preferred =
            chain.at(at(now)).preferred().map(|key| name(key.mkt().send_id().0, key.mkt().recv_id().0));
        assert_eq!((kernel.current, kernel.rnext), (preferred, preferred));
        assert!(!memory.is_peer_behind(), "there is no peer yet");
    }
    assert_eq!(ids(&kernel), [3]);
}

#[test]
fn a_connection_signs_as_before_until_the_peer_has_switched() {
    let (chain, mut kernel, mut memory) = (three_keys(), connected(&[1]), Memory::default());
    let now = target(&chain, 110, Connection);
    kernel.apply(&now, &mut memory);
    assert_eq!((kernel.current, kernel.rnext), (Some(name(1, 1)), Some(name(2, 2))));
    assert!(memory.is_peer_behind());

    kernel.receive(&connected(&[2, 1]).send()).unwrap();
    kernel.apply(&now, &mut memory);
    assert!(!memory.is_peer_behind());
}

#[test]
fn a_key_that_exists_already_is_asked_for_again() {
    let (chain, mut kernel, mut memory) = (three_keys(), connected(&[2, 1]), Memory::default());
    kernel.keys[0].good = 1000;
    kernel.apply(&target(&chain, 50, Connection), &mut memory);
    assert_eq!(kernel.rnext, Some(name(1, 1)));
    assert!(memory.is_peer_behind(), "segments from before it was asked for prove nothing");
    kernel.keys[0].good += 1;
    kernel.apply(&target(&chain, 51, Connection), &mut memory);
    assert!(!memory.is_peer_behind());
}

#[test]
fn the_end_of_a_send_lifetime_waits_for_a_peer_that_is_behind() {
    let chain = three_keys();
    let (mut kernel, mut memory) = (connected(&[1]), Memory::default());
    kernel.apply(&target(&chain, 110, Connection), &mut memory);
    for (now, done, again) in [
        (120, vec![], Some(130)),
        (129, vec![], Some(130)),
        (130, vec![Action::SetCurrent(name(2, 2))], None),
    ] {
        let outcome = kernel.apply(&target(&chain, now, Connection), &mut memory);
        assert_eq!((outcome.done, outcome.again), (done, again.map(at)), "at {now}");
    }
    // A key that is asked for only now is not signed with at once either.
    let outcome = connected(&[1]).apply(&target(&chain, 125, Connection), &mut Memory::default());
    assert_eq!((outcome.done, outcome.again), (vec![add(2, false, true)], Some(at(130))));
}

#[test]
fn the_end_of_a_send_lifetime_is_kept_with_a_peer_that_has_switched() {
    let (chain, mut kernel, mut memory) = (three_keys(), connected(&[1]), Memory::default());
    kernel.apply(&target(&chain, 110, Connection), &mut memory);
    kernel.keys.iter_mut().for_each(|key| key.good += 1);
    for (now, done) in [(119, vec![]), (120, vec![Action::SetCurrent(name(2, 2))])] {
        assert_eq!(kernel.apply(&target(&chain, now, Connection), &mut memory).done, done, "at {now}");
    }
}

#[test]
fn a_key_is_deleted_after_its_accept_lifetime() {
    let (chain, kernel) = (three_keys(), connected(&[2, 1]));
    let (key, origin) = (name(1, 1), Origin::Chain(1));
    let delete = Action::Delete { key, origin, successor: None, is_current: false, is_rnext: false };
    assert_eq!(actions(&kernel, &chain, 139), []);
    assert_eq!(actions(&kernel, &chain, 140), [delete]);
    // Even if the peer still asks for it.
    let mut kernel = connected(&[1]);
    let outcome = kernel.apply(&target(&chain, 140, Connection), &mut Memory::default());
    assert_eq!(outcome.done, [add(2, false, true), replace(key, origin, name(2, 2), (true, false))]);
    assert_eq!((kernel.current, kernel.rnext), (Some(name(2, 2)), Some(name(2, 2))));
}

#[test]
fn later_keys_use_the_ids_of_earlier_ones() {
    let keys = [
        key(1, mkt(1, 1, 1), lifetime(None, 100)),
        key(2, mkt(2, 2, 2), lifetime(80, 200)),
        key(3, mkt(1, 1, 3), lifetime(180, None)),
    ];
    let (chain, memory) = (chain(10, keys), &mut Memory::default());
    // The process slept: key 1 is still current and on the socket when key 3 takes over its ids.
    let outcome = connected(&[1, 2]).apply(&target(&chain, 185, Connection), memory);
    let deleted = replace(name(1, 1), Origin::Chain(1), name(2, 2), (true, true));
    let added = Action::Add { key_id: 3, key: name(1, 1), set_current: false, set_rnext: true };
    assert_eq!(outcome.done, [deleted, added]);
    assert!(memory.is_peer_behind());
}

#[test]
fn an_mkt_may_be_in_a_chain_twice() {
    let again = [key(1, mkt(1, 1, 1), lifetime(None, 100)), key(9, mkt(1, 1, 1), lifetime(200, None))];
    let chain = chain(0, again);
    for (now, settled) in [(50, true), (250, true), (150, false)] {
        assert_eq!(plan(&connected(&[1]), &chain, now), (Vec::new(), !settled), "at {now}");
    }
}

#[test]
fn a_key_with_another_secret_is_replaced_through_the_other_key() {
    let keys = [key(1, mkt(1, 1, 77), lifetime(None, None)), key(2, mkt(2, 2, 2), lifetime(None, 10))];
    let (chain, mut kernel) = (chain(0, keys), connected(&[1, 2]));
    let outcome = kernel.apply(&target(&chain, 0, Connection), &mut Memory::default());
    assert_eq!(outcome.done[0], replace(name(1, 1), Origin::Leftover, name(2, 2), (true, true)));
    assert_eq!(ids(&kernel), [1, 2]);
}

#[test]
fn the_only_key_with_another_secret_is_replaced_through_a_placeholder() {
    let chain = chain(0, [key(1, mkt(1, 1, 77), lifetime(None, None))]);
    let (own, placeholder) = (name(1, 1), name(255, 255));
    for kind in [Listener, Closed, Connection] {
        let in_use = if kind == Listener { (false, false) } else { (true, true) };
        let mut kernel = Kernel { kind, ..connected(&[1]) };
        let memory = &mut Memory::default();
        let outcome = kernel.apply(&target(&chain, 0, kind), memory);
        let expected = [
            Action::AddPlaceholder { key: placeholder },
            replace(own, Origin::Leftover, placeholder, in_use),
            add(1, kind == Closed, kind != Listener),
            replace(placeholder, Origin::Placeholder, own, (kind == Connection, false)),
        ];
        assert_eq!(outcome.done, expected, "{kind:?}");
        assert_eq!(ids(&kernel), [1]);
        assert_eq!(memory.is_peer_behind(), kind == Connection);
        assert_eq!(kernel.apply(&target(&chain, 0, kind), memory).done, []);
    }
}

#[test]
fn a_listener_without_a_key_to_send_with_lets_no_peer_in() {
    let (chain, mut kernel, mut memory) = (three_keys(), Kernel::new(Listener), Memory::default());
    // At 325 key 3 is still accepted, but no longer sent with. At the end the clock was wrong.
    for (now, expired, expected) in [(300, false, 3), (325, true, 255), (1000, true, 255), (310, false, 3)] {
        let outcome = kernel.apply(&target(&chain, now, Listener), &mut memory);
        assert_eq!((outcome.expired, ids(&kernel)), (expired, vec![expected]), "at {now}");
        assert!(now != 1000 || outcome.done.is_empty());
    }
}

#[test]
fn a_connection_without_a_key_to_send_with_stays_signed() {
    let (chain, mut kernel, mut memory) = (three_keys(), connected(&[2, 3]), Memory::default());
    let outcome = kernel.apply(&target(&chain, 330, Connection), &mut memory);
    assert!(outcome.expired && outcome.overdue.is_empty());
    assert_eq!(ids(&kernel), [3], "key 2 is gone, key 3 is still accepted");
    let outcome = kernel.apply(&target(&chain, 1000, Connection), &mut memory);
    assert_eq!((outcome.done.as_slice(), outcome.overdue.as_slice()), (&[][..], &[name(3, 3)][..]));
    // New keys have come.
    let chain = self::chain(0, [key(3, mkt(3, 3, 33), lifetime(None, None))]);
    let outcome = kernel.apply(&target(&chain, 1001, Connection), &mut memory);
    assert!(!outcome.expired && outcome.overdue.is_empty() && outcome.failed.is_empty());
    assert_eq!(ids(&kernel), [3]);
}

#[test]
fn a_clock_that_steps_back_does_not_tear_a_connection_down() {
    let (chain, mut kernel, mut memory) = (three_keys(), connected(&[3, 2]), Memory::default());
    let mut listener = Kernel { kind: Listener, ..kernel.clone() };
    kernel.apply(&target(&chain, 50, Connection), &mut memory);
    assert_eq!(ids(&kernel), [1, 2, 3]);
    assert_eq!((kernel.current, kernel.rnext), (Some(name(3, 3)), Some(name(1, 1))));
    let outcome = kernel.apply(&target(&chain, -1000, Connection), &mut memory);
    assert!(outcome.expired && outcome.done.is_empty() && outcome.overdue.is_empty());

    listener.apply(&target(&chain, 50, Listener), &mut Memory::default());
    assert_eq!(ids(&listener), [1], "new connections keep to the clock");
}

#[test]
fn a_clock_that_steps_back_gives_ids_back_to_the_earlier_key() {
    let keys = [key(1, mkt(1, 1, 1), lifetime(None, 100)), key(2, mkt(1, 1, 2), lifetime(200, None))];
    let (chain, mut kernel) = (chain(0, keys), Kernel::connected(&mkt(1, 1, 2)));
    let outcome = kernel.apply(&target(&chain, 50, Connection), &mut Memory::default());
    assert!(outcome.failed.is_empty());
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
    assert_eq!(actions(&kernel, &chain, 50), [add(1, false, false)]);
    // Not the ids of another key.
    assert_eq!(actions(&kernel, &chain, 1000), [Action::AddPlaceholder { key: name(254, 254) }]);

    // But not on a connection, which has only its peer's.
    let mut connection = kernel.accept("192.0.2.7", overlapping, 0);
    assert_eq!(ids(&connection), [9]);
    connection.apply(&target(&chain, 50, Connection), &mut Memory::default());
    assert_eq!(ids(&connection), [1]);
    assert_eq!((connection.current, connection.rnext), (Some(name(1, 1)), Some(name(1, 1))));
}

#[test]
fn keys_for_other_peers_with_all_ids_do_not_open_a_listener() {
    let mut kernel = Kernel::new(Listener).with(name(1, 1), &mkt(1, 1, 1));
    for id in 0..=u8::MAX {
        let remote = std::net::IpAddr::from([198, 51, 100, id]).into();
        kernel = kernel.with(KeyName { remote, ..name(id, id) }, &mkt(id, id, 50));
    }
    kernel.apply(&target(&three_keys(), 1000, Listener), &mut Memory::default());
    let own: Vec<KeyName> =
        kernel.keys.iter().map(|key| key.name).filter(|key| key.remote == name(0, 0).remote).collect();
    assert_eq!(own, [name(255, 255)], "the placeholder");
}

#[test]
fn a_key_that_has_left_the_chain_is_deleted_at_once() {
    let without = chain(20, [key(2, mkt(2, 2, 2), lifetime(0, None))]);
    let mut kernel = connected(&[1, 2]);
    kernel.apply(&target(&without, 50, Connection), &mut Memory::default());
    assert_eq!((ids(&kernel), kernel.current), (vec![2], Some(name(2, 2))));
}

#[test]
fn ao_43_a_connection_accepted_while_the_listeners_keys_changed_gets_the_configuration() {
    let chain = three_keys();
    // The handshake ended under keys 1 and 2, and with a placeholder that the listener had briefly.
    let accepted = || connected(&[1, 2]).with(name(255, 255), &mkt(255, 255, 0));
    let settle = |chain, now| {
        let mut kernel = accepted();
        let outcome = kernel.apply(&target(chain, now, Connection), &mut Memory::default());
        assert!(outcome.failed.is_empty());
        kernel
    };
    for (now, left) in [(110, vec![1, 2]), (190, vec![2, 3]), (290, vec![3])] {
        assert_eq!(ids(&settle(&chain, now)), left, "at {now}");
    }
    let keys = [key(1, mkt(1, 1, 10), lifetime(None, None)), key(2, mkt(2, 2, 20), lifetime(None, 500))];
    let configured = Kernel::connected(&mkt(1, 1, 10)).with(name(2, 2), &mkt(2, 2, 20));
    assert_eq!(secrets(&settle(&self::chain(0, keys), 110)), secrets(&configured));
}

#[test]
fn a_key_that_the_kernel_refuses_does_not_hold_up_the_others() {
    let chain = three_keys();
    let (mut kernel, mut memory) = (connected(&[1]), Memory::default());
    kernel.keys.push(installed(name(9, 9), &mkt(9, 9, 9)));
    let now = target(&chain, 110, Connection);
    let outcome = kernel.apply_with(&now, &mut memory, |kernel, action| match action {
        Call::Add { key_id: 2, .. } => Err(Error::NoMemory),
        action => kernel.call(action),
    });
    assert!(matches!(outcome.failed[..], [(Some(Action::Add { key_id: 2, .. }), Error::NoMemory)]));
    assert_eq!((ids(&kernel), kernel.rnext), (vec![1], Some(name(1, 1))), "the next best key is preferred");
    assert!(kernel.apply(&now, &mut memory).failed.is_empty());
    assert_eq!((ids(&kernel), kernel.rnext), (vec![1, 2], Some(name(2, 2))));
}

#[test]
fn a_key_that_the_peer_asks_for_again_is_deleted_in_the_next_step() {
    let (chain, mut kernel, mut memory) = (three_keys(), connected(&[2, 1]), Memory::default());
    let peer = Kernel { rnext: Some(name(1, 1)), ..kernel.clone() };
    let now = target(&chain, 150, Connection);
    let outcome = kernel.apply_with(&now, &mut memory, |kernel, action| {
        kernel.receive(&peer.send()).unwrap();
        kernel.call(action)
    });
    assert!(matches!(outcome.failed[..], [(Some(Action::Delete { .. }), Error::KeyInUse(_))]));
    assert_eq!(outcome.done, [Action::SetCurrent(name(2, 2))]);
    kernel.receive(&peer.send()).unwrap();
    let outcome = kernel.apply(&now, &mut memory);
    assert!(matches!(outcome.done[..], [Action::Delete { is_current: true, .. }]));
    assert_eq!((ids(&kernel), kernel.current), (vec![2], Some(name(2, 2))));
}

#[test]
fn a_key_that_takes_over_from_one_that_could_not_be_deleted_is_awaited() {
    let chain = chain(0, [key(1, mkt(1, 1, 1), lifetime(0, 100)), key(2, mkt(2, 2, 2), lifetime(50, None))]);
    let mut kernel = Kernel { current: Some(name(2, 2)), ..connected(&[1, 2]) };
    let now = target(&chain, 100, Connection);
    let mut memory = Memory::default();
    let outcome = kernel.apply_with(&now, &mut memory, |kernel, action| {
        // The peer asks for the key just before it is deleted.
        kernel.current = Some(name(1, 1));
        kernel.call(action)
    });
    let [(Some(Action::Delete { is_rnext: true, .. }), Error::KeyInUse(_))] = outcome.failed[..] else {
        panic!("{:?}", outcome.failed);
    };
    assert_eq!(kernel.rnext, Some(name(2, 2)), "the kernel changes it all the same");
    assert!(memory.is_peer_behind());
}

#[test]
fn a_key_that_cannot_be_replaced_leaves_the_placeholder() {
    let chain = chain(0, [key(1, mkt(1, 2, 1), lifetime(None, None))]);
    let now = target(&chain, 0, Listener);
    let mut kernel = Kernel { kind: Listener, ..connected(&[1]) };
    let mut memory = Memory::default();
    let outcome = kernel.apply_with(&now, &mut memory, |kernel, action| match action {
        Call::Delete { .. } => Err(Error::NoMemory),
        action => kernel.call(action),
    });
    assert_eq!(outcome.failed.len(), 1);
    assert_eq!(ids(&kernel), [1, 255]);
    assert!(kernel.apply(&now, &mut memory).failed.is_empty());
    assert!(matches!(&kernel.keys[..], [only] if only.name == name(1, 2)));
}

#[test]
fn a_key_with_the_ids_of_a_deleted_placeholder_is_not_a_placeholder() {
    let none_yet = chain(0, [key(1, mkt(255, 255, 1), lifetime(100, 200))]);
    let (mut kernel, mut memory) = (Kernel::new(Listener), Memory::default());
    kernel.apply(&target(&none_yet, 0, Listener), &mut memory);
    assert_eq!(ids(&kernel), [255]);
    // Another program deletes it.
    kernel.keys.clear();
    kernel.apply(&target(&none_yet, 100, Listener), &mut memory);
    let another = chain(0, [key(1, mkt(1, 1, 1), lifetime(500, None))]);
    let outcome = kernel.apply(&target(&another, 150, Listener), &mut memory);
    assert_eq!(outcome.done[0], Action::AddPlaceholder { key: name(254, 254) });
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
    }
    let peers = peers([(peer(PEER), three_keys())]);
    let outcome = scope(&peers, 50).apply(&mut PeerTable::new(), &mut Unreadable);
    assert!(matches!(outcome.failed[..], [(None, Error::NotATcpSocket)]));
}

#[test]
fn a_key_that_is_reported_as_added_is_on_the_socket() {
    let (mut kernel, mut memory, mut added) = (Kernel::new(Listener), Memory::default(), Vec::new());
    let chain = three_keys();
    let outcome = kernel.apply_with(&target(&chain, 110, Listener), &mut memory, |kernel, call| {
        // The call has the key itself: whatever becomes of the chain, there is nothing to look up.
        if let Call::Add { key_id, key } = *call {
            let of_chain = chain.keys().iter().find(|of_chain| of_chain.key_id() == key_id).unwrap();
            assert_eq!(key.mkt.master_key().expose_secret(), of_chain.mkt().master_key().expose_secret());
            added.push(key_id);
        }
        kernel.call(call)
    });
    assert_eq!((added.as_slice(), outcome.done.len()), (&[2, 1][..], 2));
    for action in outcome.done {
        let Action::Add { key_id, key, .. } = action else { panic!("{action}") };
        let mkt = chain.keys().iter().find(|of_chain| of_chain.key_id() == key_id).unwrap().mkt();
        assert!(kernel.keys.iter().any(|held| held.name == key && held.is(mkt)), "{action}");
    }
}
