//! Keys of a chain that changes, on live connections: ids alone do not make a key.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::key_chain::{Key, KeyChain, Lifetime, Timestamp};
use wireseal_tcp_ao::{Connection, Isn, KeyId, Mkt, MktSet, OptionCoverage};

use crate::shim_support::{Link, Packet, inbound};
use crate::support::{Ends, SYN, ipv4_pair, mkt_with_secret};

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

fn chain(keys: Vec<Key>) -> KeyChain {
    KeyChain::new("chain", keys).unwrap()
}

/// The emergency change: the secret has become known, another takes its place now, and tomorrow's key has the old one's ids.
#[test]
fn ao_25_a_secret_taken_out_of_a_chain_goes_although_a_later_key_has_its_ids() {
    let old = |ids| MktSet::from_mkts([hmac(ids, OLD)]).unwrap();
    let changed = chain(vec![key(1, (4, 3), NEW, 0), key(2, (2, 1), NEW, 2000)]);

    let mut link = Link::with_mkts(ipv4_pair(), old((1, 2)), old((2, 1)));
    link.connect(ipv4_pair());
    link.server.follow_key_chain(0, &changed, at(1000)).unwrap();
    assert!(link.deliver_to_server(&link.client_data(b"from whoever knows the secret")).is_err());
    let ids = |connection: &Connection<4>| connection.keys().map(|key| key.send_id.0).collect::<Vec<_>>();
    assert_eq!(link.server.connections().map(ids).collect::<Vec<_>>(), [[4]]);

    // In the handshake, too, while the connection has master keys.
    let mut link = Link::with_mkts(ipv4_pair(), old((1, 2)), old((2, 1)));
    link.deliver_to_server(&Packet::new(ipv4_pair(), SYN, 1, 0)).unwrap();
    link.server.follow_key_chain(0, &changed, at(1000)).unwrap();
    assert_eq!(link.server.connections().map(ids).collect::<Vec<_>>(), [[4]]);
}

#[test]
fn ao_26_a_key_that_is_early_stays_with_its_own_secret() {
    let secrets = MktSet::from_mkts([hmac((1, 2), OLD)]).unwrap();
    let mut link = Link::with_mkts(ipv4_pair(), secrets, MktSet::from_mkts([hmac((2, 1), OLD)]).unwrap());
    link.connect(ipv4_pair());
    let changed = chain(vec![key(1, (4, 3), NEW, 0), key(2, (2, 1), OLD, 2000)]);
    link.server.follow_key_chain(0, &changed, at(1000)).unwrap();
    link.deliver_to_server(&link.client_data(b"forth")).unwrap();
    link.deliver_to_client(&link.server_data(b"back")).unwrap();
}

/// The clock was ahead; a replay under tomorrow's key is no sign that the peer uses it.
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
        let first = Key::new(1, hmac((2, 1), OLD)).with_lifetimes(lifetime, Lifetime::ALWAYS).unwrap();
        let chain = chain(vec![first, key(2, (4, 3), NEW, 2000)]);
        for (now, current) in [(1000, 2), (2500, 4), (1000, 2)] {
            link.server.follow_key_chain(0, &chain, at(now)).unwrap();
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
        link.server.follow_key_chain(0, &chain, at(now)).unwrap();
    }
    let server = link.server.connection(&ipv4_pair().reversed()).unwrap();
    assert_eq!(server.keys().map(|key| key.send_id.0).collect::<Vec<_>>(), [8, 6, 4, 2]);
    link.deliver_to_server(&link.client_data(b"under its only key")).unwrap();
}

#[test]
fn ao_25_a_connection_has_a_key_only_with_all_that_makes_it() {
    let algorithm = TcpAoAlgorithm::HmacSha1;
    let ours = hmac((1, 2), OLD);
    let others = [
        hmac((1, 2), NEW),
        hmac((1, 2), &OLD[1..]),
        hmac((1, 3), OLD),
        hmac((3, 2), OLD),
        hmac((1, 2), OLD).with_mac_length(16).unwrap(),
        hmac((1, 2), OLD).with_options(OptionCoverage::Excluded),
        mkt_with_secret(1, 2, TcpAoAlgorithm::LinuxHmacSha256, OLD),
    ];
    let set = MktSet::<2>::from_mkts([ours.clone()]).unwrap();
    let theirs = MktSet::<2>::from_mkts([mkt_with_secret(2, 1, algorithm, OLD)]).unwrap();
    let opening = Connection::active(ipv4_pair(), Isn(1), &set).unwrap();
    let Ends { active: mut established, .. } = Ends::connect(ipv4_pair(), (1, 2), &set, &theirs);
    for connection in [&opening, &established] {
        assert!(connection.has_key(&ours) && connection.has_key(&ours.clone().accept_only()));
        for other in &others {
            assert!(!connection.has_key(other), "{other:?}");
        }
    }
    // A key that was shorter leaves nothing of the longer one behind that was in its place.
    let sha_256 = mkt_with_secret(1, 2, TcpAoAlgorithm::LinuxHmacSha256, OLD);
    established.replace_keys(&MktSet::from_mkts([sha_256.clone()]).unwrap()).unwrap();
    assert!(established.has_key(&sha_256) && !established.has_key(&ours));
    established.replace_keys(&set).unwrap();
    assert!(established.has_key(&ours));
    established.add_key(&hmac((3, 4), NEW)).unwrap();
    established.remove_key(KeyId(1), Some(KeyId(3))).unwrap();
    assert!(established.has_key(&hmac((3, 4), NEW)) && !established.has_key(&ours));
}
