//! The keys that are valid now, as a key chain gives them to a shim's peer and its live connections.

use crate::shim_support::*;
use crate::support::*;

/// The server's key of this SendID: 2 and 4 are those that the client has, too.
fn key(send_id: u8) -> Mkt {
    hmac(send_id, send_id - 1)
}

fn set(keys: &[Mkt]) -> MktSet<MKTS_PER_PEER> {
    MktSet::from_mkts(keys.iter().cloned()).unwrap()
}

/// A connected link whose client signs with its first key, the server's 2. The events so far have been read.
fn link() -> Link<Log> {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2), (3, 4)]).observed::<Log>();
    link.connect(ipv4_pair());
    assert_eq!(kinds(&mut link.server), [EventKind::Opened]);
    link
}

/// Gives the server's peer the keys `valid`; `early` ones are not valid yet.
fn give(link: &mut Link<Log>, valid: &[Mkt], early: &[Mkt]) -> Result<(), PeerError> {
    link.server.set_valid_mkts(0, &set(valid), |is| early.iter().any(is))
}

fn connection(link: &Link<Log>) -> Option<&Connection<MKTS_PER_PEER>> {
    link.server.connection(&link.pair.reversed())
}

/// The SendIDs of the keys that the server's connection holds, in order, and that of the current one.
fn held(link: &Link<Log>) -> Option<(Vec<u8>, u8)> {
    let connection = connection(link)?;
    let mut ids: Vec<u8> = connection.keys().map(|key| key.send_id.0).collect();
    ids.sort_unstable();
    Some((ids, connection.current_key().send_id.0))
}

#[test]
fn ao_26_a_key_that_is_not_valid_yet_stays_on_live_connections_alone() {
    let other = |send_id: u8| {
        mkt_with_secret(send_id, send_id - 1, TcpAoAlgorithm::HmacSha1, b"another secret, thirty-two octet")
    };
    let many = || [6, 8, 10, 12].map(key);
    for (number, (valid, early, expected)) in [
        (vec![key(2)], vec![], Some((vec![2], 2))),
        (vec![key(2)], vec![key(4)], Some((vec![2, 4], 2))),
        // The clock was set back: the peer signs with key 2, and may hold no other.
        (vec![key(4)], vec![key(2)], Some((vec![2, 4], 2))),
        (vec![], vec![key(2)], Some((vec![2], 2))),
        // None is left to sign with.
        (vec![], vec![key(4)], None),
        (vec![], vec![], None),
        // Another key under old ids takes the place of the early one, and is not taken for it.
        (vec![other(2)], vec![key(2)], Some((vec![2], 2))),
        (vec![key(2)], vec![other(4)], Some((vec![2], 2))),
        // There is room for four. The early key that the peer uses has priority, others have none.
        (many()[..2].to_vec(), vec![key(2), key(4)], Some((vec![2, 4, 6, 8], 2))),
        (many()[..3].to_vec(), vec![key(2), key(4)], Some((vec![2, 6, 8, 10], 2))),
        (many().to_vec(), vec![key(2), key(4)], Some((vec![2, 6, 8, 10], 2))),
        (many()[..3].to_vec(), vec![key(4)], Some((vec![4, 6, 8, 10], 6))),
        (many().to_vec(), vec![key(4)], Some((vec![6, 8, 10, 12], 6))),
    ]
    .into_iter()
    .enumerate()
    {
        let mut link = link();
        assert_eq!(give(&mut link, &valid, &early), Ok(()), "row {number}");
        assert_eq!(held(&link), expected, "row {number}");
        let ids = |mkts: &MktSet<MKTS_PER_PEER>| mkts.iter().map(Mkt::send_id).collect::<Vec<_>>();
        assert_eq!(ids(&link.server.peer(0).unwrap().mkts), ids(&set(&valid)), "row {number}");
        if let Some(connection) = connection(&link) {
            assert!(valid.iter().take(2).all(|mkt| connection.has_key(mkt)), "row {number}");
            // What it asks the peer to sign with is valid, if anything is.
            let preferred = valid.first().map_or(KeyId(2), Mkt::send_id);
            assert_eq!(connection.rnext_key().send_id, preferred, "row {number}");
        }
        let told = match expected {
            None => vec![EventKind::Ended(End::NoKey)],
            Some((_, 2)) => vec![],
            Some((_, to)) => vec![EventKind::KeySwitched { from: KeyId(2), to: KeyId(to) }],
        };
        assert_eq!(kinds(&mut link.server), told, "row {number}");
    }
}

#[test]
fn ao_26_early_keys_take_no_room_from_valid_ones() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2), (3, 4), (5, 6)]).observed::<Log>();
    link.connect(ipv4_pair());
    give(&mut link, &[2, 10, 12].map(key), &[4, 6].map(key)).unwrap();
    assert_eq!(held(&link), Some((vec![2, 4, 10, 12], 2)));
}

/// This end's clock was ahead, and its chain switched too soon.
#[test]
fn ao_26_a_key_that_is_not_valid_yet_is_left_if_the_peer_does_not_use_it() {
    let mut link = link();
    link.server.connection_mut(&link.pair.reversed()).unwrap().set_current_key(KeyId(4)).unwrap();
    give(&mut link, &[key(2)], &[key(4)]).unwrap();
    assert_eq!(held(&link), Some((vec![2, 4], 2)));
    // Without room it is the first to go.
    let mut link = self::link();
    link.server.connection_mut(&link.pair.reversed()).unwrap().set_current_key(KeyId(4)).unwrap();
    give(&mut link, &[2, 6, 8, 10].map(key), &[key(4)]).unwrap();
    assert_eq!(held(&link), Some((vec![2, 6, 8, 10], 2)));
}

#[test]
fn ao_24_keys_that_clash_with_another_peers_are_left_out_and_removed_ones_are_gone() {
    let mut link = link();
    assert_eq!(link.server.set_valid_mkts(7, &set(&[]), |_| false), Err(PeerError::NoSuchPeer(7)));
    assert_eq!(link.server.set_mkts(7, set(&[])), Err(PeerError::NoSuchPeer(7)));
    // Two peers for the same connections, as specific as each other.
    let between = |local_port, remote_port, keys: &[Mkt]| {
        let connections = ConnectionIdentifier {
            local_port,
            remote_port,
            ..ConnectionIdentifier::between("192.0.2.2/32".parse().unwrap(), "192.0.2.1/32".parse().unwrap())
        };
        Peer { connections, mkts: set(keys) }
    };
    let peers = [between(Some(179), None, &[key(2), key(4)]), between(None, Some(49152), &[key(6), key(8)])];
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2), (3, 4)]).observed::<Log>();
    link.server = shim_of(peers.map(PeerSlot::from).into(), 4).with_observer(Log::default());
    link.connect(ipv4_pair());
    let clash = hmac(6, 77);
    let other_clash = hmac(78, 7);
    let result = give(&mut link, &[clash, key(4), other_clash], &[]);
    let error = MktError::SendIdInUse(KeyId(6));
    assert_eq!(result, Err(PeerError::Overlap { peer: 0, other: 1, error }), "the first of the two");
    assert_eq!(held(&link), Some((vec![4], 4)));
    let mkts = &link.server.peer(0).unwrap().mkts;
    assert_eq!(mkts.iter().map(Mkt::send_id).collect::<Vec<_>>(), [KeyId(4)]);
}

/// The peer has the next key and uses it, but goes on asking for the one whose send lifetime is over.
#[test]
fn ao_26_a_peer_that_insists_on_an_old_key_is_reported_once() {
    let mut link = link();
    link.server.set_mkts(0, set(&[key(4), key(2).accept_only()])).unwrap();
    assert_eq!(held(&link), Some((vec![2, 4], 2)), "the peer has not moved yet");
    link.deliver_to_client(&link.server_data(b"asks for the client's 3")).unwrap();
    assert_eq!(kinds(&mut link.client)[1..], [EventKind::KeySwitched { from: KeyId(1), to: KeyId(3) }]);
    let mut sequence = CLIENT_ISN + 1;
    let mut hears = |link: &mut Link<Log>| {
        let data = Packet::new(link.pair, ACK, sequence, SERVER_ISN.wrapping_add(24)).payload(b"data");
        sequence += 4;
        link.deliver_to_server(&data).unwrap();
        kinds(&mut link.server)
    };
    assert_eq!(hears(&mut link), [EventKind::PeerInsists { on: KeyId(2) }]);
    assert_eq!(hears(&mut link), []);
    link.client.connection_mut(&ipv4_pair()).unwrap().set_rnext_key(KeyId(4)).unwrap();
    assert_eq!(hears(&mut link), [EventKind::KeySwitched { from: KeyId(2), to: KeyId(4) }]);
}

/// There is nothing to tell of a key that signs nothing any more, or nothing yet.
#[test]
fn new_keys_of_handshakes_and_closed_connections_raise_no_event() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2), (3, 4)]).observed::<Log>();
    link.forth(SYN, CLIENT_ISN, 0).unwrap();
    link.server.set_mkts(0, set(&[key(4)])).unwrap();
    assert_eq!(held(&link), Some((vec![4], 4)));
    assert_eq!(kinds(&mut link.server), []);
    let mut link = self::link();
    link.deliver_to_server(&Packet::new(link.pair, RST, CLIENT_ISN + 1, 0)).unwrap();
    assert_eq!(kinds(&mut link.server), [EventKind::Ended(End::Closed)]);
    link.server.set_mkts(0, set(&[key(4)])).unwrap();
    assert_eq!(held(&link), Some((vec![4], 4)));
    assert_eq!(kinds(&mut link.server), []);
}

#[test]
fn ao_26_whether_the_peer_uses_a_key_is_known_until_another_takes_its_ids() {
    let other = mkt_with_secret(2, 1, TcpAoAlgorithm::HmacSha1, b"another secret, thirty-two octet");
    for (first, current) in [(key(2), 2), (other, 4)] {
        let mut link = link();
        give(&mut link, std::slice::from_ref(&first), &[key(4)]).unwrap();
        give(&mut link, &[key(4)], &[first]).unwrap();
        assert_eq!(held(&link), Some((vec![2, 4], current)));
    }
}
