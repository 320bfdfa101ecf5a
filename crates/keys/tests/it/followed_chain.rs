//! A shim's live connections under a chain's keys: clocks that step, keys that expire or clash, chains that change.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{Key, KeyChain, Lifetime, Timestamp};
use wireseal_tcp_ao::shim::{End, Event, EventKind, Observer, PeerSlot, Refusal, Shim, ShimConfig};
use wireseal_tcp_ao::{Connection, KeyId, Mkt, MktError, MktSet, Peer, PeerError, VerifyError};

use crate::shim_support::{Link, Packet, TestShim, hash_key, inbound, peer, slots, with_ports};
use crate::support::{SYN, ipv4_pair, mirrored, mkt, mkt_with_secret, mkts};

const OLD: &[u8] = b"the secret that has become known";
const NEW: &[u8] = b"the secret to come tomorrow, new";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_seconds(seconds)
}

fn hmac(ids: (u8, u8), secret: &[u8]) -> Mkt {
    mkt_with_secret(ids.0, ids.1, TcpAoAlgorithm::HmacSha1, secret)
}

fn key(number: u64, ids: (u8, u8), secret: &[u8], from: i64) -> Key {
    let lifetime = Lifetime::starting(at(from));
    Key::new(number, hmac(ids, secret)).with_lifetimes(lifetime, lifetime).unwrap()
}

/// A key with the secret that every link uses for these ids.
fn links_key(number: u64, ids: (u8, u8), from: i64, until: Option<i64>) -> Key {
    let lifetime = Lifetime::new(Some(at(from)), until.map(at)).unwrap();
    Key::new(number, mkt(ids.0, ids.1, TcpAoAlgorithm::HmacSha1)).with_lifetimes(lifetime, lifetime).unwrap()
}

fn chain(keys: Vec<Key>) -> KeyChain {
    KeyChain::new("chain", keys).unwrap()
}

#[derive(Default)]
struct Log(Vec<Event>);

impl Observer for Log {
    fn observe(&mut self, event: &Event) {
        self.0.push(*event);
    }
}

/// The events since the last call, all about the first peer.
fn kinds(shim: &mut TestShim<Log>) -> Vec<EventKind> {
    let events = std::mem::take(&mut shim.observer_mut().0);
    assert!(events.iter().all(|event| event.peer == Some(0)), "{events:?}");
    events.into_iter().map(|event| event.kind).collect()
}

/// An emergency change: the secret has leaked, another replaces it now, and tomorrow's key has the old one's ids.
#[test]
fn ao_25_a_secret_taken_out_of_a_chain_goes_although_a_later_key_has_its_ids() {
    let old = |ids| MktSet::from_mkts([hmac(ids, OLD)]).unwrap();
    let changed = chain(vec![key(1, (4, 3), NEW, 0), key(2, (2, 1), NEW, 2000)]);

    let mut link = Link::with_mkts(ipv4_pair(), old((1, 2)), old((2, 1)));
    link.connect(ipv4_pair());
    changed.apply_to(&mut link.server, 0, at(1000)).unwrap();
    assert!(link.deliver_to_server(&link.client_data(b"from whoever knows the secret")).is_err());
    let ids = |connection: &Connection<4>| connection.keys().map(|key| key.send_id.0).collect::<Vec<_>>();
    assert_eq!(link.server.connections().map(ids).collect::<Vec<_>>(), [[4]]);

    // The same in the handshake, while the connection has master keys.
    let mut link = Link::with_mkts(ipv4_pair(), old((1, 2)), old((2, 1)));
    link.deliver_to_server(&Packet::new(ipv4_pair(), SYN, 1, 0)).unwrap();
    changed.apply_to(&mut link.server, 0, at(1000)).unwrap();
    assert_eq!(link.server.connections().map(ids).collect::<Vec<_>>(), [[4]]);
}

#[test]
fn ao_26_a_key_that_is_early_stays_with_its_own_secret() {
    let secrets = MktSet::from_mkts([hmac((1, 2), OLD)]).unwrap();
    let mut link = Link::with_mkts(ipv4_pair(), secrets, MktSet::from_mkts([hmac((2, 1), OLD)]).unwrap());
    link.connect(ipv4_pair());
    let changed = chain(vec![key(1, (4, 3), NEW, 0), key(2, (2, 1), OLD, 2000)]);
    changed.apply_to(&mut link.server, 0, at(1000)).unwrap();
    link.deliver_to_server(&link.client_data(b"forth")).unwrap();
    link.deliver_to_client(&link.server_data(b"back")).unwrap();
}

/// The clock was ahead; a replay under tomorrow's key does not show that the peer uses it.
#[test]
fn ao_26_a_replay_does_not_keep_a_future_key_in_use() {
    for is_replayed in [false, true] {
        let ours = MktSet::from_mkts([hmac((1, 2), OLD), hmac((3, 4), NEW)]).unwrap();
        let theirs = MktSet::from_mkts([hmac((2, 1), OLD), hmac((4, 3), NEW)]).unwrap();
        let mut link = Link::with_mkts(ipv4_pair(), ours, theirs);
        link.connect(ipv4_pair());
        let signs_with = |link: &mut Link, id| {
            link.client.connection_mut(&ipv4_pair()).unwrap().set_current_key(KeyId(id)).unwrap();
        };
        signs_with(&mut link, 3);
        let recorded = link.client_sends(&link.client_data(b"tried")).unwrap();
        inbound(&mut link.server, link.now, &recorded).unwrap();
        signs_with(&mut link, 1);
        let mut next = link.client_data(b"given up");
        next.tcp.sequence_number += 5;
        link.deliver_to_server(&next).unwrap();
        let lifetime = Lifetime::new(None, Some(at(2000))).unwrap();
        let first = Key::new(1, hmac((2, 1), OLD)).with_lifetimes(lifetime, lifetime).unwrap();
        let chain = chain(vec![first, key(2, (4, 3), NEW, 2000)]);
        for (now, current) in [(1000, 2), (2500, 4), (1000, 2)] {
            chain.apply_to(&mut link.server, 0, at(now)).unwrap();
            let server = link.server.connection(&ipv4_pair().reversed()).unwrap();
            assert_eq!(server.current_key().send_id, KeyId(current), "at {now}, replayed: {is_replayed}");
            if is_replayed {
                inbound(&mut link.server, link.now, &recorded).unwrap();
            }
        }
    }
}

/// The clock was ahead. A connection has room for four keys, and the peer holds only the oldest.
#[test]
fn ao_26_a_future_key_that_the_peer_does_not_use_takes_no_valid_keys_place() {
    let until = |number, ids, from| {
        let key = Key::new(number, hmac(ids, OLD));
        key.with_lifetimes(Lifetime::starting(at(from)), Lifetime::ALWAYS).unwrap()
    };
    let valid = [until(1, (2, 1), 0), until(2, (4, 3), 10), until(3, (6, 5), 20), until(4, (8, 7), 30)];
    let chain = chain([&valid[..], &[key(5, (10, 9), NEW, 2000)]].concat());
    let set = |ids| MktSet::from_mkts([hmac(ids, OLD)]).unwrap();
    let mut link = Link::with_mkts(ipv4_pair(), set((1, 2)), set((2, 1)));
    link.connect(ipv4_pair());
    for now in [1000, 2500, 1000] {
        chain.apply_to(&mut link.server, 0, at(now)).unwrap();
    }
    let server = link.server.connection(&ipv4_pair().reversed()).unwrap();
    assert_eq!(server.keys().map(|key| key.send_id.0).collect::<Vec<_>>(), [8, 6, 4, 2]);
    link.deliver_to_server(&link.client_data(b"under its only key")).unwrap();
}

#[test]
fn ao_26_a_clock_that_is_set_back_costs_no_session() {
    let (client, server) = (
        chain(vec![links_key(1, (1, 2), 1000, None), links_key(2, (3, 4), 2000, None)]),
        chain(vec![links_key(1, (2, 1), 1000, None), links_key(2, (4, 3), 2000, None)]),
    );
    let mut link = Link::with_mkts(ipv4_pair(), client.mkts(at(3000)), server.mkts(at(3000)));
    link.connect(ipv4_pair());
    // Before the second key, before both, and back.
    for now in [1500, 500, 0, 3000] {
        server.apply_to(&mut link.server, 0, at(now)).unwrap();
        link.deliver_to_server(&link.client_data(b"forth")).unwrap();
        link.deliver_to_client(&link.server_data(b"back")).unwrap();
        let syn = Packet::new(with_ports(link.pair, 4000, 179), SYN, 1, 0);
        let is_valid = now >= 2000;
        assert_eq!(link.deliver_to_server(&syn).is_ok(), is_valid, "at {now}");
        link.client.forget(&with_ports(link.pair, 4000, 179));
    }
}

#[test]
fn ao_26_a_chain_that_is_over_still_ends_its_sessions() {
    let over = |seconds| Lifetime::new(None, Some(at(seconds))).unwrap();
    let key = Key::new(1, mkt(2, 1, TcpAoAlgorithm::HmacSha1)).with_lifetimes(over(100), over(100)).unwrap();
    // A later key under the same ids does not keep the first one alive.
    for later in [vec![], vec![links_key(2, (2, 1), 200, None)]] {
        let server = chain([vec![key.clone()], later].concat());
        let mut link = Link::connected(ipv4_pair());
        server.apply_to(&mut link.server, 0, at(150)).unwrap();
        assert_eq!(link.server.connections().count(), 0);
    }
}

/// The clock was briefly ahead: the peer has not heard of the key that is not valid yet.
#[test]
fn ao_26_a_clock_that_was_ahead_for_a_moment_leaves_no_future_key_in_use() {
    for tolerance in [0, 60] {
        let chain = |first, second| {
            let keys = vec![links_key(1, first, 1000, Some(2000)), links_key(2, second, 2000, Some(3000))];
            chain(keys).with_accept_tolerance(tolerance).unwrap()
        };
        let (client, server) = (chain((1, 2), (3, 4)), chain((2, 1), (4, 3)));
        let mut link = Link::with_mkts(ipv4_pair(), client.mkts(at(1500)), server.mkts(at(1500)));
        link.connect(ipv4_pair());
        for now in [2500, 1500, 1990] {
            server.apply_to(&mut link.server, 0, at(now)).unwrap();
            let is_right = now < 2000;
            let key = link.server.connection(&link.pair.reversed()).unwrap().current_key().send_id;
            assert_eq!(key, KeyId(if is_right { 2 } else { 4 }), "at {now}");
            assert_eq!(link.deliver_to_client(&link.server_data(b"data")).is_ok(), is_right, "at {now}");
            assert_eq!(link.deliver_to_server(&link.client_data(b"data")).is_ok(), is_right, "at {now}");
        }
    }
}

/// Within the tolerance before its lifetime, a key is only accepted, so the current key would go back to one that the peer no longer uses.
#[test]
fn ao_26_a_clock_set_back_into_the_tolerance_costs_no_session() {
    let chain = |ids: [(u8, u8); 2]| {
        let keys = vec![links_key(1, ids[0], 1000, Some(2100)), links_key(2, ids[1], 2000, None)];
        chain(keys).with_accept_tolerance(60).unwrap()
    };
    let (client, server) = (chain([(1, 2), (3, 4)]), chain([(2, 1), (4, 3)]));
    for has_moved in [false, true] {
        let mut link = Link::with_mkts(ipv4_pair(), client.mkts(at(3000)), server.mkts(at(3000)));
        link.connect(ipv4_pair());
        if has_moved {
            let state = link.server.export(&link.pair.reversed()).unwrap();
            let imported = Connection::import(&state, &server.mkts(at(3000))).unwrap();
            link.server.adopt(link.now, imported).unwrap();
        }
        for now in [1900, 1950] {
            server.apply_to(&mut link.server, 0, at(now)).unwrap();
            assert!(link.deliver_to_client(&link.server_data(b"back")).is_ok(), "at {now}, {has_moved}");
        }
    }
}

#[test]
fn ao_26_an_expired_key_goes_although_its_successor_clashes() {
    let until = |moment| Lifetime::new(None, Some(at(moment))).unwrap();
    let key = |number, ids, lifetime| {
        Key::new(number, hmac(ids, b"secret")).with_lifetimes(lifetime, lifetime).unwrap()
    };
    let expired = key(1, (2, 1), until(1000));
    let clashing = key(2, (6, 5), Lifetime::starting(at(1000)));
    for (more, is_open) in [(vec![], false), (vec![key(3, (8, 7), Lifetime::ALWAYS)], true)] {
        let chain = chain([vec![expired.clone(), clashing.clone()], more].concat());
        let mut link = Link::with_mkts(ipv4_pair(), mkts(&[(1, 2), (7, 8)]), MktSet::new());
        let taken = peer(ipv4_pair().reversed(), mirrored(&[(5, 6)]));
        let own = peer(ipv4_pair().reversed(), chain.mkts(at(0)));
        let peers = vec![own, taken];
        link.server = Shim::new(ShimConfig::new(1500), hash_key(), peers, slots(8)).unwrap();
        chain.apply_to(&mut link.server, 0, at(999)).unwrap();
        let clash = chain.apply_to(&mut link.server, 0, at(1000));
        let error = MktError::SendIdInUse(KeyId(6));
        assert_eq!(clash, Err(PeerError::Overlap { peer: 0, other: 1, error }));
        let left: Vec<_> = link.server.peer(0).unwrap().mkts.iter().map(Mkt::send_id).collect();
        assert_eq!(left, if is_open { vec![KeyId(8)] } else { vec![] });
        // Once the id is free, the next key is added.
        link.server.remove_peer(1).unwrap();
        chain.apply_to(&mut link.server, 0, at(1001)).unwrap();
        assert!(link.server.peer(0).unwrap().mkts.by_send_id(KeyId(6)).is_some());
    }
}

#[test]
fn ao_26_a_session_ends_with_its_expired_key_although_the_successor_clashes() {
    let until = Lifetime::new(None, Some(at(1000))).unwrap();
    let mut link = Link::connected(ipv4_pair()).observed::<Log>();
    link.server.set_mkts(0, mirrored(&[(1, 2)])).unwrap();
    let first = mirrored::<4>(&[(1, 2)]).iter().next().unwrap().clone();
    let keys = vec![
        Key::new(1, first).with_lifetimes(until, until).unwrap(),
        Key::new(2, hmac((6, 5), b"secret"))
            .with_lifetimes(Lifetime::starting(at(1000)), Lifetime::starting(at(1000)))
            .unwrap(),
    ];
    let chain = chain(keys);
    let more = vec![PeerSlot::EMPTY, PeerSlot::EMPTY];
    link.server.move_peers(more).unwrap();
    let own = link.server.peer(0).unwrap().connections;
    link.server.add_peer(Peer { connections: own, mkts: mirrored(&[(5, 6)]) }).unwrap();
    assert!(chain.apply_to(&mut link.server, 0, at(1000)).is_err());
    assert_eq!(kinds(&mut link.server), [EventKind::Ended(End::NoKey)]);
    assert_eq!(
        link.deliver_to_server(&link.client_data(b"too late")),
        Err(Refusal::Verify(VerifyError::UnknownKeyId(KeyId(1))))
    );
}

/// A rollover by the chain's own lifetimes is reported once at each end, whichever end is first. Neither end leaves the old key before the
/// other has moved.
#[test]
fn ao_26_a_rollover_by_lifetimes_is_told_once() {
    let chain = |first: (u8, u8), second: (u8, u8)| {
        let until = Lifetime::new(None, Some(at(1000))).unwrap();
        let algorithm = TcpAoAlgorithm::HmacSha1;
        let keys = vec![
            Key::new(1, mkt(first.0, first.1, algorithm)).with_lifetimes(until, Lifetime::ALWAYS).unwrap(),
            Key::new(2, mkt(second.0, second.1, algorithm))
                .with_lifetimes(Lifetime::starting(at(1000)), Lifetime::ALWAYS)
                .unwrap(),
        ];
        chain(keys)
    };
    let switched = |from, to| vec![EventKind::KeySwitched { from: KeyId(from), to: KeyId(to) }];
    for asks_first in [false, true] {
        let (clients, servers) = (chain((1, 2), (3, 4)), chain((2, 1), (4, 3)));
        let mut link =
            Link::with_mkts(ipv4_pair(), clients.mkts(at(0)), servers.mkts(at(0))).observed::<Log>();
        link.connect(ipv4_pair());
        // A handshake is not reported, and nobody has seen its key in use.
        link.client_sends(&Packet::new(with_ports(ipv4_pair(), 5, 179), SYN, 1, 0)).unwrap();
        for shim in [&mut link.client, &mut link.server] {
            assert_eq!(kinds(shim).len(), 1);
        }
        clients.apply_to(&mut link.client, 0, at(1000)).unwrap();
        assert_eq!(kinds(&mut link.client), []);
        if asks_first {
            link.deliver_to_server(&link.client_data(b"asks for the new key")).unwrap();
            assert_eq!(kinds(&mut link.server), switched(2, 4));
        }
        servers.apply_to(&mut link.server, 0, at(1000)).unwrap();
        assert_eq!(kinds(&mut link.server), []);
        let mut data = link.client_data(b"more");
        data.tcp.sequence_number += 20;
        link.deliver_to_server(&data).unwrap();
        assert_eq!(kinds(&mut link.server), if asks_first { vec![] } else { switched(2, 4) });
        link.deliver_to_client(&link.server_data(b"back")).unwrap();
        clients.apply_to(&mut link.client, 0, at(1001)).unwrap();
        assert_eq!((kinds(&mut link.client), kinds(&mut link.server)), (switched(1, 3), vec![]));
        // A manual change is reported too.
        link.server.set_mkts(0, mirrored(&[(1, 2)])).unwrap();
        assert_eq!(kinds(&mut link.server), switched(4, 2));
    }
}

/// A chain whose first key is sent with until 1000 and accepted until 2000; the second one is sent with from 900 on.
fn overlapping(first: (u8, u8), second: (u8, u8)) -> KeyChain {
    let until = |moment| Lifetime::new(None, Some(at(moment))).unwrap();
    let algorithm = TcpAoAlgorithm::HmacSha1;
    let first = Key::new(1, mkt(first.0, first.1, algorithm)).with_lifetimes(until(1000), until(2000));
    chain(vec![first.unwrap(), links_key(2, second, 900, None)])
}

/// The peer has one key on its socket, and neither holds the next one nor asks for it.
#[test]
fn ao_26_a_peer_with_the_old_key_alone_is_served_while_that_is_accepted() {
    let server = overlapping((2, 1), (4, 3));
    let mut link = Link::with_mkts(ipv4_pair(), mkts(&[(1, 2)]), server.mkts(at(0)));
    link.connect(ipv4_pair());
    for now in [899, 900, 999, 1000, 1500, 1999] {
        server.apply_to(&mut link.server, 0, at(now)).unwrap();
        link.deliver_to_server(&link.client_data(b"forth")).unwrap();
        link.deliver_to_client(&link.server_data(b"back")).unwrap();
    }
    server.apply_to(&mut link.server, 0, at(2000)).unwrap();
    assert_eq!(
        link.deliver_to_server(&link.client_data(b"too late")),
        Err(Refusal::Verify(VerifyError::UnknownKeyId(KeyId(1))))
    );
}

/// The peer signs with the new key and asks for the old one, as GoBGP and BIRD can be configured to.
#[test]
fn ao_26_a_peer_that_goes_on_asking_for_the_old_key_gets_it_and_is_told_of_once() {
    let server = overlapping((2, 1), (4, 3));
    let mut link =
        Link::with_mkts(ipv4_pair(), mkts(&[(1, 2), (3, 4)]), server.mkts(at(0))).observed::<Log>();
    link.connect(ipv4_pair());
    kinds(&mut link.server);
    server.apply_to(&mut link.server, 0, at(900)).unwrap();
    let client = |link: &mut Link<Log>, signs, asks| {
        let client = link.client.connection_mut(&ipv4_pair()).unwrap();
        client.set_current_key(KeyId(signs)).unwrap();
        client.set_rnext_key(KeyId(asks)).unwrap();
    };
    let mut sequence = 0;
    let mut exchange = |link: &mut Link<Log>| {
        let mut data = link.client_data(b"forth");
        (data.tcp.sequence_number, sequence) = (data.tcp.sequence_number + sequence, sequence + 5);
        link.deliver_to_server(&data).unwrap();
        link.deliver_to_client(&link.server_data(b"back")).unwrap();
    };
    client(&mut link, 3, 2);
    exchange(&mut link);
    assert_eq!(kinds(&mut link.server), [], "its time is not over");
    for now in [1000, 1001, 1999] {
        server.apply_to(&mut link.server, 0, at(now)).unwrap();
        client(&mut link, 3, 2);
        exchange(&mut link);
        let told = EventKind::PeerInsists { on: KeyId(2) };
        assert_eq!(kinds(&mut link.server), if now == 1000 { vec![told] } else { vec![] }, "at {now}");
    }
    // It gives in.
    client(&mut link, 3, 4);
    exchange(&mut link);
    assert_eq!(kinds(&mut link.server), [EventKind::KeySwitched { from: KeyId(2), to: KeyId(4) }]);
}
