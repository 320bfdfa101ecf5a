//! What is known of the key that a peer asks for.

use super::*;

/// Two keys; the second one is preferred from 100 on, and the first is accepted until 200.
fn two_keys() -> KeyChain {
    let first = Key::new(1, mkt(1, 1, 1)).with_lifetimes(lifetime(None, 100), lifetime(None, 200)).unwrap();
    chain(0, [first, key(2, mkt(2, 2, 2), lifetime(0, None))])
}

/// A peer's connection with both keys, which signs with one and asks for one.
fn peer_that(signs: u8, asks: u8) -> Kernel {
    let kernel = Kernel::connected(&mkt(1, 1, 1)).with(name(2, 2), &mkt(2, 2, 2));
    Kernel { current: Some(name(signs, signs)), rnext: Some(name(asks, asks)), ..kernel }
}

/// Takes a step and returns the SendID of the key that the peer asks for.
fn asks_for(kernel: &mut Kernel, now: i64) -> Option<u8> {
    assert!(kernel.apply(&two_keys(), now).failed.is_empty());
    kernel.memory.asks_for().map(|key| key.send_id.0)
}

#[test]
fn a_segment_shows_what_the_peer_asks_for() {
    let mut kernel = Kernel::connected(&mkt(1, 1, 1));
    // The kernel may have chosen any key in the handshake.
    assert_eq!(asks_for(&mut kernel, 10), None);
    assert_eq!(asks_for(&mut kernel, 11), None);
    kernel.receive(&peer_that(1, 1).send()).unwrap();
    assert_eq!(asks_for(&mut kernel, 12), Some(1));
    kernel.receive(&peer_that(1, 2).send()).unwrap();
    assert_eq!((asks_for(&mut kernel, 13), kernel.current), (Some(2), Some(name(2, 2))));
    kernel.receive(&peer_that(2, 1).send()).unwrap();
    assert_eq!(asks_for(&mut kernel, 14), Some(1));
    // Another request shows itself by another current key.
    let mut kernel = Kernel::connected(&mkt(1, 1, 1));
    asks_for(&mut kernel, 10);
    kernel.receive(&peer_that(1, 2).send()).unwrap();
    assert_eq!(asks_for(&mut kernel, 11), Some(2));
}

#[test]
fn a_request_for_a_key_that_the_socket_lacks_is_not_seen() {
    let mut kernel = Kernel::connected(&mkt(1, 1, 1));
    asks_for(&mut kernel, 10);
    let segment = Segment { rnext_key_id: KeyId(9), ..peer_that(1, 1).send() };
    kernel.receive(&segment).unwrap();
    assert_eq!((asks_for(&mut kernel, 11), kernel.current), (Some(1), Some(name(1, 1))));
}

#[test]
fn what_this_end_chooses_itself_is_no_request() {
    // It chose the key to connect with; the SYN-ACK is verified, but its request is not obeyed.
    let mut kernel = Kernel::new(Closed);
    assert_eq!(asks_for(&mut kernel, 110), None);
    kernel.kind = Connection;
    kernel.keys.iter_mut().for_each(|key| key.good += 1);
    assert_eq!(asks_for(&mut kernel, 111), None);
    kernel.receive(&peer_that(2, 2).send()).unwrap();
    assert_eq!(asks_for(&mut kernel, 112), Some(2));

    // A key whose lifetime ends while the peer asks for it: its successor was not asked for.
    let mut kernel = Kernel::connected(&mkt(1, 1, 1));
    asks_for(&mut kernel, 10);
    kernel.receive(&peer_that(1, 1).send()).unwrap();
    assert_eq!(asks_for(&mut kernel, 11), Some(1));
    assert_eq!((asks_for(&mut kernel, 200), kernel.current), (None, Some(name(2, 2))));
    // A deleted key takes its count with it.
    assert_eq!(asks_for(&mut kernel, 201), None);
    kernel.receive(&peer_that(2, 2).send()).unwrap();
    assert_eq!(asks_for(&mut kernel, 202), Some(2));
}

#[test]
fn a_listener_is_asked_for_nothing() {
    let mut kernel = Kernel::new(Listener);
    for now in [10, 11] {
        assert_eq!(asks_for(&mut kernel, now), None);
        kernel.keys.iter_mut().for_each(|key| key.good += 1);
    }
}

/// Takes a step and returns what was done, and the SendID of the key that the peer insists on, if it is told.
fn step(kernel: &mut Kernel, now: i64) -> (String, Option<u8>) {
    let outcome = kernel.apply(&two_keys(), now);
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    (short(outcome.done), outcome.insists_on.map(|key| key.send_id.0))
}

fn nothing() -> (String, Option<u8>) {
    (String::new(), None)
}

/// A connection with [`two_keys`] at 10, which asks for the second one.
fn rolling() -> Kernel {
    let mut kernel = Kernel::connected(&mkt(1, 1, 1));
    assert_eq!(step(&mut kernel, 10), ("add 2 rnext".to_owned(), None));
    kernel
}

/// The peer signs with the new key and asks for the old one, as GoBGP and BIRD can be configured to.
#[test]
fn a_peer_that_goes_on_asking_for_an_old_key_gets_it_and_is_told_of_once() {
    let mut kernel = rolling();
    for (now, expected) in [
        (99, nothing()),
        (100, ("sign 2".to_owned(), None)),
        // The peer has undone it, and this end does not try again.
        (101, nothing()),
        (149, nothing()),
        // Half of the time for which the key is still accepted.
        (150, (String::new(), Some(1))),
        (151, nothing()),
        (199, nothing()),
        (200, ("delete 1 -> 2 current".to_owned(), None)),
        (201, nothing()),
    ] {
        if now <= 200 {
            kernel.receive(&peer_that(2, 1).send()).unwrap();
            assert_eq!(kernel.current, Some(name(1, 1)), "at {now}");
        }
        assert_eq!(step(&mut kernel, now), expected, "at {now}");
    }
}

#[test]
fn a_step_is_due_when_an_old_key_may_be_told_of() {
    for (accepted, late) in [(200, 150), (5000, 400)] {
        let first = Key::new(1, mkt(1, 1, 1)).with_lifetimes(lifetime(None, 100), lifetime(None, accepted));
        let chain = chain(0, [first.unwrap(), key(2, mkt(2, 2, 2), lifetime(0, None))]);
        let mut kernel = Kernel::connected(&mkt(1, 1, 1));
        assert_eq!(kernel.apply(&chain, 99).again, None);
        assert_eq!(kernel.apply(&chain, 100).again, Some(at(late)));
        assert_eq!(kernel.apply(&chain, late - 1).again, Some(at(late)));
        // The peer is silent: nothing is known of it.
        let outcome = kernel.apply(&chain, late);
        assert_eq!((outcome.again, outcome.insists_on), (None, None));
        kernel.receive(&peer_that(1, 1).send()).unwrap();
        assert_eq!(kernel.apply(&chain, late + 1).insists_on, Some(name(1, 1)));
    }
}

#[test]
fn a_peer_that_has_only_the_old_key_keeps_its_session_while_that_is_accepted() {
    let mut kernel = rolling();
    for (now, told) in [(100, None), (149, None), (150, Some(1)), (151, None), (199, None)] {
        kernel.receive(&Kernel::connected(&mkt(1, 1, 1)).send()).unwrap();
        assert_eq!(step(&mut kernel, now), (String::new(), told), "at {now}");
        assert_eq!(kernel.current, Some(name(1, 1)));
    }
    // It is told of once, although it moves for a moment.
    kernel.receive(&peer_that(2, 2).send()).unwrap();
    assert_eq!(step(&mut kernel, 199), nothing());
    kernel.receive(&peer_that(2, 1).send()).unwrap();
    assert_eq!(step(&mut kernel, 199).1, None);
    assert_eq!(short(kernel.apply(&two_keys(), 200).done), "delete 1");
}

#[test]
fn a_peer_whose_clock_is_a_little_behind_is_not_told_of() {
    let mut kernel = rolling();
    for (now, asks) in [(100, 1), (110, 1), (149, 1), (149, 2), (150, 2), (180, 2)] {
        kernel.receive(&peer_that(2, asks).send()).unwrap();
        assert_eq!(step(&mut kernel, now).1, None, "at {now}");
    }
    assert_eq!(kernel.current, Some(name(2, 2)));
}

/// The kernel does not tell of it, so this end's own choice is a question to the peer.
#[test]
fn a_peer_that_asks_for_a_key_that_this_end_lacks_does_not_hold_it_on_the_old_one() {
    let mut kernel = rolling();
    let segment = Segment { rnext_key_id: KeyId(9), ..peer_that(2, 2).send() };
    for (now, done) in [(99, ""), (100, "sign 2"), (101, ""), (150, "")] {
        kernel.receive(&segment).unwrap();
        assert_eq!(step(&mut kernel, now), (done.to_owned(), None), "at {now}");
    }
    assert_eq!(kernel.current, Some(name(2, 2)));
}

#[test]
fn another_key_under_old_ids_is_left_in_its_turn() {
    let keys = [
        (1, 1, lifetime(None, 100), lifetime(None, 150)),
        (2, 2, lifetime(0, 300), lifetime(0, 350)),
        (3, 1, lifetime(200, 400), lifetime(180, 450)),
        (4, 3, lifetime(400, None), lifetime(390, None)),
    ];
    let keys = keys.map(|(number, id, send, accept)| {
        Key::new(number, mkt(id, id, number as u32)).with_lifetimes(send, accept).unwrap()
    });
    let chain = chain(0, keys);
    let peer = |signs: (u8, u32), asks: u8| {
        let (id, secret) = signs;
        Segment { rnext_key_id: KeyId(asks), ..Kernel::connected(&mkt(id, id, secret)).send() }
    };
    let mut kernel = Kernel::connected(&mkt(1, 1, 1));
    for (now, segment, done) in [
        (10, peer((1, 1), 1), "add 2 rnext"),
        (100, peer((2, 2), 1), "sign 2"),
        (140, peer((2, 2), 1), ""),
        (150, peer((2, 2), 1), "delete 1 -> 2 current"),
        (200, peer((2, 2), 2), "add 3 as 1 rnext"),
        (300, peer((1, 3), 1), ""),
        (400, peer((1, 3), 1), "add 4 as 3 rnext, delete 2"),
        (410, peer((3, 4), 1), "sign 3"),
    ] {
        kernel.receive(&segment).unwrap();
        let outcome = kernel.apply(&chain, now);
        assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
        assert_eq!(short(outcome.done), done, "at {now}");
    }
}
