//! What the key manager decides, decision by decision.
#![cfg(target_os = "linux")]

mod kernel_model;

use kernel_model::{Kernel, at, chain, key, lifetime, mkt, name, situation};
use wireseal_linux::plan::SocketKind::{Closed, Connection, Listener};
use wireseal_linux::plan::{Action, Memory, Origin, Plan, Situation};
use wireseal_linux::{Error, KeyName};
use wireseal_tcp_ao::key_chain::{Key, KeyChain};

/// Three keys that follow each other every 100 seconds, sent with for 120 and accepted for 20 more at each end.
fn three_keys() -> KeyChain {
    let keys = [(1, 0, 120), (2, 100, 220), (3, 200, 320)];
    chain(
        20,
        keys.map(|(id, from, until)| key(id, mkt(id as u8, id as u8, id as u32), lifetime(from, until))),
    )
}

/// A decision without anything remembered or set aside.
fn plan(kernel: &Kernel, situation: &Situation<'_>) -> Plan {
    let memory = Memory::default();
    situation.plan(&kernel.found(situation, &memory), &memory, &[])
}

fn add(id: u8, set_current: bool, set_rnext: bool) -> Action {
    Action::Add { key_id: id.into(), key: name(id, id), set_current, set_rnext }
}

fn delete(id: u8) -> Action {
    let (key, origin) = (name(id, id), Origin::Chain(id.into()));
    Action::Delete { key, origin, heir: None, is_current: false, is_rnext: false }
}

/// Deletes a key in use over its heir.
fn replace(key: KeyName, origin: Origin, heir: KeyName, (is_current, is_rnext): (bool, bool)) -> Action {
    Action::Delete { key, origin, heir: Some(heir), is_current, is_rnext }
}

fn ids(kernel: &Kernel) -> Vec<u8> {
    let mut ids: Vec<u8> = kernel.keys.iter().map(|key| key.name.send_id.0).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn a_listener_gets_every_acceptable_key() {
    let chain = three_keys();
    let plan = plan(&Kernel::new(Listener), &situation(&chain, 110, Listener));
    assert_eq!(plan.actions, [add(2, false, false), add(1, false, false)]);
}

#[test]
fn a_socket_about_to_connect_signs_with_and_asks_for_the_preferred_key() {
    let chain = three_keys();
    let plan = plan(&Kernel::new(Closed), &situation(&chain, 110, Closed));
    assert_eq!(plan.actions, [add(2, true, true), add(1, false, false)]);
}

#[test]
fn a_socket_that_waits_before_it_connects_keeps_up() {
    let (chain, mut kernel, mut memory) = (three_keys(), Kernel::new(Closed), Memory::default());
    for now in [50, 90, 110, 190, 300] {
        let outcome = kernel.settle(&situation(&chain, now, Closed), &mut memory);
        assert!(outcome.failed.is_empty());
        let preferred =
            chain.at(at(now)).preferred().map(|key| name(key.mkt().send_id().0, key.mkt().recv_id().0));
        assert_eq!((kernel.current, kernel.rnext), (preferred, preferred));
        assert!(!memory.is_peer_behind(), "there is no peer yet");
    }
    assert_eq!(ids(&kernel), [3]);
}

#[test]
fn a_connection_asks_for_the_preferred_key_and_signs_as_before() {
    let (chain, mut kernel, mut memory) = (three_keys(), Kernel::connected(mkt(1, 1, 1)), Memory::default());
    let now = situation(&chain, 110, Connection);
    assert_eq!(plan(&kernel, &now).actions, [add(2, false, true)]);
    kernel.settle(&now, &mut memory);
    assert_eq!((kernel.current, kernel.rnext), (Some(name(1, 1)), Some(name(2, 2))));
    assert!(memory.is_peer_behind());

    let peer = Kernel::connected(mkt(2, 2, 2)).with(name(1, 1), mkt(1, 1, 1));
    kernel.receive(&peer.send()).unwrap();
    kernel.settle(&now, &mut memory);
    assert!(!memory.is_peer_behind());
}

#[test]
fn a_key_that_exists_already_is_asked_for_again() {
    let (chain, mut memory) = (three_keys(), Memory::default());
    let mut kernel = Kernel::connected(mkt(2, 2, 2)).with(name(1, 1), mkt(1, 1, 1));
    kernel.keys[0].good = 1000;
    kernel.settle(&situation(&chain, 50, Connection), &mut memory);
    assert_eq!(kernel.rnext, Some(name(1, 1)));
    assert!(memory.is_peer_behind(), "segments from before it was asked for prove nothing");
    kernel.keys[0].good += 1;
    kernel.settle(&situation(&chain, 51, Connection), &mut memory);
    assert!(!memory.is_peer_behind());
}

#[test]
fn the_end_of_a_send_lifetime_waits_for_a_peer_that_is_behind() {
    let (chain, mut kernel, mut memory) = (three_keys(), Kernel::connected(mkt(1, 1, 1)), Memory::default());
    kernel.settle(&situation(&chain, 110, Connection), &mut memory);
    let outcome = kernel.settle(&situation(&chain, 120, Connection), &mut memory);
    assert_eq!((outcome.done.as_slice(), outcome.again), (&[][..], Some(at(130))));
    kernel.settle(&situation(&chain, 129, Connection), &mut memory);
    assert_eq!(kernel.current, Some(name(1, 1)));
    let outcome = kernel.settle(&situation(&chain, 130, Connection), &mut memory);
    assert_eq!(outcome.done, [Action::SetCurrent(name(2, 2))]);
    assert_eq!(outcome.again, None);
}

#[test]
fn a_key_that_is_asked_for_only_now_is_not_signed_with_at_once() {
    let (chain, mut memory) = (three_keys(), Memory::default());
    let mut kernel = Kernel::connected(mkt(1, 1, 1));
    let outcome = kernel.settle(&situation(&chain, 125, Connection), &mut memory);
    assert_eq!((outcome.done.as_slice(), outcome.again), (&[add(2, false, true)][..], Some(at(130))));
}

#[test]
fn the_end_of_a_send_lifetime_is_kept_with_a_peer_that_has_switched() {
    let (chain, mut kernel, mut memory) = (three_keys(), Kernel::connected(mkt(1, 1, 1)), Memory::default());
    kernel.settle(&situation(&chain, 110, Connection), &mut memory);
    kernel.keys.iter_mut().for_each(|key| key.good += 1);
    let outcome = kernel.settle(&situation(&chain, 119, Connection), &mut memory);
    assert_eq!(outcome.done, []);
    let outcome = kernel.settle(&situation(&chain, 120, Connection), &mut memory);
    assert_eq!(outcome.done, [Action::SetCurrent(name(2, 2))]);
}

#[test]
fn a_key_goes_when_it_is_accepted_no_more() {
    let chain = three_keys();
    let kernel = Kernel::connected(mkt(2, 2, 2)).with(name(1, 1), mkt(1, 1, 1));
    assert_eq!(plan(&kernel, &situation(&chain, 139, Connection)).actions, []);
    assert_eq!(plan(&kernel, &situation(&chain, 140, Connection)).actions, [delete(1)]);
}

#[test]
fn a_key_that_the_peer_still_asks_for_goes_all_the_same() {
    let chain = three_keys();
    let mut kernel = Kernel::connected(mkt(1, 1, 1));
    let (deleted, heir) = (name(1, 1), name(2, 2));
    let outcome = kernel.settle(&situation(&chain, 140, Connection), &mut Memory::default());
    let taken = replace(deleted, Origin::Chain(1), heir, (true, false));
    assert_eq!(outcome.done, [add(2, false, true), taken]);
    assert_eq!((kernel.current, kernel.rnext), (Some(heir), Some(heir)));
}

#[test]
fn later_keys_use_the_ids_of_earlier_ones() {
    let keys = [
        key(1, mkt(1, 1, 1), lifetime(None, 100)),
        key(2, mkt(2, 2, 2), lifetime(80, 200)),
        key(3, mkt(1, 1, 3), lifetime(180, None)),
    ];
    let chain = chain(10, keys);
    let mut kernel = Kernel::connected(mkt(1, 1, 1)).with(name(2, 2), mkt(2, 2, 2));
    let memory = &mut Memory::default();
    // The process slept: key 1 is still current and on the socket when key 3 takes over its ids.
    let outcome = kernel.settle(&situation(&chain, 185, Connection), memory);
    let taken = replace(name(1, 1), Origin::Chain(1), name(2, 2), (true, true));
    let added = Action::Add { key_id: 3, key: name(1, 1), set_current: false, set_rnext: true };
    assert_eq!(outcome.done, [taken, added]);
    assert!(memory.is_peer_behind());
}

#[test]
fn an_mkt_may_be_in_a_chain_twice() {
    let again = [key(1, mkt(1, 1, 1), lifetime(None, 100)), key(9, mkt(1, 1, 1), lifetime(200, None))];
    let chain = chain(0, again);
    for (now, settled) in [(50, true), (250, true), (150, false)] {
        let plan = plan(&Kernel::connected(mkt(1, 1, 1)), &situation(&chain, now, Connection));
        assert_eq!((plan.actions.as_slice(), plan.expired), (&[][..], !settled), "at {now}");
    }
}

#[test]
fn another_secret_goes_over_the_other_key() {
    let chain =
        chain(0, [key(1, mkt(1, 1, 77), lifetime(None, None)), key(2, mkt(2, 2, 2), lifetime(None, 10))]);
    let mut kernel = Kernel::connected(mkt(1, 1, 1)).with(name(2, 2), mkt(2, 2, 2));
    let outcome = kernel.settle(&situation(&chain, 0, Connection), &mut Memory::default());
    let replaced = replace(name(1, 1), Origin::Leftover, name(2, 2), (true, true));
    assert_eq!(outcome.done[0], replaced);
    assert_eq!(ids(&kernel), [1, 2]);
}

#[test]
fn another_secret_of_the_only_key_goes_over_a_placeholder() {
    let chain = chain(0, [key(1, mkt(1, 1, 77), lifetime(None, None))]);
    let (own, placeholder) = (name(1, 1), name(255, 255));
    for kind in [Listener, Closed, Connection] {
        let in_use = if kind == Listener { (false, false) } else { (true, true) };
        let mut kernel = Kernel { kind, ..Kernel::connected(mkt(1, 1, 1)) };
        let memory = &mut Memory::default();
        let outcome = kernel.settle(&situation(&chain, 0, kind), memory);
        let set_current = kind == Closed;
        let added = Action::Add { key_id: 1, key: own, set_current, set_rnext: kind != Listener };
        let expected = [
            Action::AddPlaceholder { key: placeholder },
            replace(own, Origin::Leftover, placeholder, in_use),
            added,
            replace(placeholder, Origin::Placeholder, own, (kind == Connection, false)),
        ];
        assert_eq!(outcome.done, expected, "{kind:?}");
        assert_eq!(ids(&kernel), [1]);
        assert_eq!(memory.is_peer_behind(), kind == Connection);
        assert_eq!(kernel.settle(&situation(&chain, 0, kind), memory).done, []);
    }
}

#[test]
fn a_listener_without_a_key_to_send_with_lets_nobody_in() {
    let (chain, mut kernel, mut memory) = (three_keys(), Kernel::new(Listener), Memory::default());
    kernel.settle(&situation(&chain, 300, Listener), &mut memory);
    assert_eq!(ids(&kernel), [3]);
    let outcome = kernel.settle(&situation(&chain, 325, Listener), &mut memory);
    assert!(outcome.expired, "key 3 is still accepted, but to send with it is over");
    assert_eq!(ids(&kernel), [255]);
    assert_eq!(kernel.settle(&situation(&chain, 1000, Listener), &mut memory).done, []);
    // The clock was wrong.
    assert!(!kernel.settle(&situation(&chain, 310, Listener), &mut memory).expired);
    assert_eq!(ids(&kernel), [3]);
}

#[test]
fn a_listener_or_closed_socket_before_its_chain_begins_has_a_placeholder() {
    let chain = three_keys();
    for kind in [Listener, Closed] {
        let plan = plan(&Kernel::new(kind), &situation(&chain, -50, kind));
        assert_eq!(plan.actions, [Action::AddPlaceholder { key: name(255, 255) }]);
        assert!(plan.expired);
    }
}

#[test]
fn a_connection_without_a_key_to_send_with_stays_signed() {
    let (chain, mut memory) = (three_keys(), Memory::default());
    let mut kernel = Kernel::connected(mkt(2, 2, 2)).with(name(3, 3), mkt(3, 3, 3));
    let outcome = kernel.settle(&situation(&chain, 330, Connection), &mut memory);
    assert!(outcome.expired && outcome.overdue.is_empty());
    assert_eq!(ids(&kernel), [3], "key 2 has gone, key 3 is still accepted");
    let outcome = kernel.settle(&situation(&chain, 1000, Connection), &mut memory);
    assert_eq!((outcome.done.as_slice(), outcome.overdue.as_slice()), (&[][..], &[name(3, 3)][..]));
    // New keys have come.
    let chain = self::chain(0, [key(3, mkt(3, 3, 33), lifetime(None, None))]);
    let outcome = kernel.settle(&situation(&chain, 1001, Connection), &mut memory);
    assert!(!outcome.expired && outcome.overdue.is_empty() && outcome.failed.is_empty());
    assert_eq!(ids(&kernel), [3]);
}

#[test]
fn a_clock_that_steps_back_does_not_tear_a_connection_down() {
    let (chain, mut memory) = (three_keys(), Memory::default());
    let keys = |kind| Kernel { kind, ..Kernel::connected(mkt(3, 3, 3)).with(name(2, 2), mkt(2, 2, 2)) };
    let mut kernel = keys(Connection);
    kernel.settle(&situation(&chain, 50, Connection), &mut memory);
    assert_eq!(
        (ids(&kernel), kernel.current, kernel.rnext),
        (vec![1, 2, 3], Some(name(3, 3)), Some(name(1, 1)))
    );
    let outcome = kernel.settle(&situation(&chain, -1000, Connection), &mut memory);
    assert!(outcome.expired && outcome.done.is_empty() && outcome.overdue.is_empty());

    let mut listener = keys(Listener);
    listener.settle(&situation(&chain, 50, Listener), &mut Memory::default());
    assert_eq!(ids(&listener), [1], "new connections keep to the clock");
}

#[test]
fn a_clock_that_steps_back_gives_ids_back_to_the_earlier_key() {
    let keys = [key(1, mkt(1, 1, 1), lifetime(None, 100)), key(2, mkt(1, 1, 2), lifetime(200, None))];
    let chain = chain(0, keys);
    let mut kernel = Kernel::connected(mkt(1, 1, 2));
    let outcome = kernel.settle(&situation(&chain, 50, Connection), &mut Memory::default());
    assert!(outcome.failed.is_empty());
    let secret = |kernel: &Kernel| kernel.keys[0].mkt.master_key().expose_secret().to_vec();
    assert_eq!(secret(&kernel), mkt(1, 1, 1).master_key().expose_secret());
}

#[test]
fn keys_for_other_peers_stay_as_they_are() {
    let chain = three_keys();
    let other = |remote: &str, id| KeyName { remote: remote.parse().unwrap(), ..name(id, id) };
    let kernel = Kernel::new(Listener)
        .with(other("198.51.100.0/24", 1), mkt(1, 1, 50))
        .with(other("192.0.2.0/24", 9), mkt(9, 9, 51))
        .with(KeyName { vrf: Some(4), ..name(255, 255) }, mkt(255, 255, 52));
    let plan = plan(&kernel, &situation(&chain, 50, Listener));
    assert_eq!(plan.actions, [add(1, false, false)]);
    let expired = self::plan(&kernel, &situation(&chain, 1000, Listener));
    assert_eq!(expired.actions, [Action::AddPlaceholder { key: name(254, 254) }], "not the ids of another");

    let mut connection = Kernel { kind: Connection, ..kernel };
    connection.keys.remove(2);
    (connection.current, connection.rnext) = (Some(other("192.0.2.0/24", 9)), Some(other("192.0.2.0/24", 9)));
    connection.settle(&situation(&chain, 50, Connection), &mut Memory::default());
    assert_eq!(ids(&connection), [1, 9, 255]);
    assert_eq!((connection.current, connection.rnext), (Some(other("192.0.2.0/24", 9)), Some(name(1, 1))));
}

#[test]
fn other_peers_with_all_ids_between_them_do_not_open_a_listener() {
    let chain = three_keys();
    let mut kernel = Kernel::new(Listener).with(name(1, 1), mkt(1, 1, 1));
    for id in 0..=u8::MAX {
        let remote = std::net::Ipv4Addr::new(198, 51, 100, id);
        kernel = kernel
            .with(KeyName { remote: std::net::IpAddr::from(remote).into(), ..name(id, id) }, mkt(id, id, 50));
    }
    kernel.settle(&situation(&chain, 1000, Listener), &mut Memory::default());
    let own: Vec<KeyName> =
        kernel.keys.iter().map(|key| key.name).filter(|key| key.remote == name(0, 0).remote).collect();
    assert_eq!(own, [name(255, 255)], "the placeholder");
}

#[test]
fn a_key_that_has_left_the_chain_goes_at_once() {
    let without = chain(20, [key(2, mkt(2, 2, 2), lifetime(0, None))]);
    let mut kernel = Kernel::connected(mkt(1, 1, 1)).with(name(2, 2), mkt(2, 2, 2));
    kernel.settle(&situation(&without, 50, Connection), &mut Memory::default());
    assert_eq!((ids(&kernel), kernel.current), (vec![2], Some(name(2, 2))));
}

#[test]
fn ao_43_a_connection_accepted_while_the_listeners_keys_changed_gets_the_configuration() {
    let chain = three_keys();
    // The handshake ended under keys 1 and 2, and with a placeholder that the listener had for a moment.
    let accepted = || {
        Kernel::connected(mkt(1, 1, 1)).with(name(2, 2), mkt(2, 2, 2)).with(name(255, 255), mkt(255, 255, 0))
    };
    for (now, left) in [(110, vec![1, 2]), (190, vec![2, 3]), (290, vec![3])] {
        let mut kernel = accepted();
        let outcome = kernel.settle(&situation(&chain, now, Connection), &mut Memory::default());
        assert!(outcome.failed.is_empty());
        assert_eq!(ids(&kernel), left, "at {now}");
    }
    let replaced = self::chain(
        0,
        [key(1, mkt(1, 1, 10), lifetime(None, None)), key(2, mkt(2, 2, 20), lifetime(None, 500))],
    );
    let mut kernel = accepted();
    let outcome = kernel.settle(&situation(&replaced, 110, Connection), &mut Memory::default());
    assert!(outcome.failed.is_empty());
    let mut secrets: Vec<_> =
        kernel.keys.iter().map(|key| key.mkt.master_key().expose_secret().to_vec()).collect();
    secrets.sort_unstable();
    assert_eq!(secrets, [mkt(1, 1, 10), mkt(2, 2, 20)].map(|mkt| mkt.master_key().expose_secret().to_vec()));
}

#[test]
fn a_key_that_the_kernel_refuses_holds_up_no_other() {
    let chain = three_keys();
    let (mut kernel, mut memory) = (Kernel::connected(mkt(1, 1, 1)), Memory::default());
    kernel.keys.push(kernel_model::KernelKey { name: name(9, 9), mkt: mkt(9, 9, 9), good: 0 });
    let now = situation(&chain, 110, Connection);
    let kernel = std::cell::RefCell::new(kernel);
    let outcome = now.carry_out(
        &mut memory,
        |memory| Ok(kernel.borrow().found(&now, memory)),
        |action| match action {
            Action::Add { key_id: 2, .. } => Err(Error::NoMemory),
            action => kernel.borrow_mut().apply(action, &now),
        },
    );
    assert!(matches!(outcome.failed[..], [(Some(Action::Add { key_id: 2, .. }), Error::NoMemory)]));
    let mut kernel = kernel.into_inner();
    assert_eq!((ids(&kernel), kernel.rnext), (vec![1], Some(name(1, 1))), "the next best key is preferred");
    assert!(kernel.settle(&now, &mut memory).failed.is_empty());
    assert_eq!((ids(&kernel), kernel.rnext), (vec![1, 2], Some(name(2, 2))));
}

#[test]
fn a_key_that_the_peer_asks_for_again_is_deleted_in_the_next_step() {
    let chain = three_keys();
    let kernel = std::cell::RefCell::new(Kernel::connected(mkt(2, 2, 2)).with(name(1, 1), mkt(1, 1, 1)));
    let peer = Kernel { rnext: Some(name(1, 1)), ..kernel.borrow().clone() };
    let now = situation(&chain, 150, Connection);
    let mut memory = Memory::default();
    let outcome = now.carry_out(
        &mut memory,
        |memory| Ok(kernel.borrow().found(&now, memory)),
        |action| {
            kernel.borrow_mut().receive(&peer.send()).unwrap();
            kernel.borrow_mut().apply(action, &now)
        },
    );
    assert!(matches!(outcome.failed[..], [(Some(Action::Delete { .. }), Error::KeyInUse(_))]));
    assert_eq!(outcome.done, [Action::SetCurrent(name(2, 2))]);
    let mut kernel = kernel.into_inner();
    kernel.receive(&peer.send()).unwrap();
    let outcome = kernel.settle(&now, &mut memory);
    assert!(matches!(outcome.done[..], [Action::Delete { is_current: true, .. }]));
    assert_eq!((ids(&kernel), kernel.current), (vec![2], Some(name(2, 2))));
}

#[test]
fn a_key_that_takes_over_from_one_that_could_not_be_deleted_is_awaited() {
    let chain = chain(0, [key(1, mkt(1, 1, 1), lifetime(0, 100)), key(2, mkt(2, 2, 2), lifetime(50, None))]);
    let before = Kernel::connected(mkt(1, 1, 1)).with(name(2, 2), mkt(2, 2, 2));
    let kernel = std::cell::RefCell::new(Kernel { current: Some(name(2, 2)), ..before });
    let now = situation(&chain, 100, Connection);
    let mut memory = Memory::default();
    let outcome = now.carry_out(
        &mut memory,
        |memory| Ok(kernel.borrow().found(&now, memory)),
        |action| {
            // The peer asks for the key just before it would go.
            kernel.borrow_mut().current = Some(name(1, 1));
            kernel.borrow_mut().apply(action, &now)
        },
    );
    assert!(matches!(
        outcome.failed[..],
        [(Some(Action::Delete { is_rnext: true, .. }), Error::KeyInUse(_))]
    ));
    assert_eq!(kernel.borrow().rnext, Some(name(2, 2)), "the kernel changes it all the same");
    assert!(memory.is_peer_behind());
}

#[test]
fn a_key_that_cannot_be_replaced_leaves_the_placeholder() {
    let chain = chain(0, [key(1, mkt(1, 2, 1), lifetime(None, None))]);
    let now = situation(&chain, 0, Listener);
    let kernel = std::cell::RefCell::new(Kernel { kind: Listener, ..Kernel::connected(mkt(1, 1, 1)) });
    let mut memory = Memory::default();
    let outcome = now.carry_out(
        &mut memory,
        |memory| Ok(kernel.borrow().found(&now, memory)),
        |action| match action {
            Action::Delete { .. } => Err(Error::NoMemory),
            action => kernel.borrow_mut().apply(action, &now),
        },
    );
    assert_eq!(outcome.failed.len(), 1);
    let mut kernel = kernel.into_inner();
    assert_eq!(ids(&kernel), [1, 255]);
    assert!(kernel.settle(&now, &mut memory).failed.is_empty());
    assert_eq!(kernel.keys[0].name, name(1, 2));
    assert_eq!(kernel.keys.len(), 1);
}

#[test]
fn a_key_with_the_ids_of_a_placeholder_that_is_gone_is_no_placeholder() {
    let none_yet = chain(0, [key(1, mkt(255, 255, 1), lifetime(100, 200))]);
    let (mut kernel, mut memory) = (Kernel::new(Listener), Memory::default());
    kernel.settle(&situation(&none_yet, 0, Listener), &mut memory);
    assert_eq!(ids(&kernel), [255]);
    // Another program deletes it.
    kernel.keys.clear();
    kernel.settle(&situation(&none_yet, 100, Listener), &mut memory);
    let another = chain(0, [key(1, mkt(1, 1, 1), lifetime(500, None))]);
    let outcome = kernel.settle(&situation(&another, 150, Listener), &mut memory);
    assert_eq!(outcome.done[0], Action::AddPlaceholder { key: name(254, 254) });
    assert_eq!(ids(&kernel), [254]);
}

#[test]
fn a_socket_that_cannot_be_read_is_reported() {
    let chain = three_keys();
    let now = situation(&chain, 50, Connection);
    let applied = std::cell::Cell::new(0);
    let outcome = now.carry_out(
        &mut Memory::default(),
        |_| Err(Error::NotATcpSocket),
        |_| {
            applied.set(applied.get() + 1);
            Ok(())
        },
    );
    assert!(matches!(outcome.failed[..], [(None, Error::NotATcpSocket)]));
    assert_eq!(applied.get(), 0);
}

#[test]
fn accept_only_keys_are_no_choice() {
    let accept_only =
        Key::new(2, mkt(2, 2, 2)).with_lifetimes(lifetime(100, None), lifetime(0, None)).unwrap();
    let chain = chain(0, [key(1, mkt(1, 1, 1), lifetime(None, None)), accept_only]);
    let plan = plan(&Kernel::connected(mkt(1, 1, 1)), &situation(&chain, 50, Connection));
    assert_eq!(plan.actions, [add(2, false, false)]);
}
