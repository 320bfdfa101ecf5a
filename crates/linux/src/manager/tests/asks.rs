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
