//! Which key is used when: limits of lifetimes, overlaps, clocks that differ and step, and expired chains.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::shim_support::hash_key;

use proptest::prelude::*;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{Key, KeyChain, Lifetime, Problem, Timestamp};
use wireseal_tcp_ao::shim::{PeerSlot, Refusal, Shim, ShimConfig, ShimSlot};
use wireseal_tcp_ao::{
    Connection, ConnectionIdentifier, Endpoint, Isn, KeyId, MKTS_PER_PEER, MasterKey, Mkt, MktError, Peer,
    SocketPair,
};

const HOUR: i64 = 3600;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_seconds(seconds)
}

fn between(from: i64, until: i64) -> Lifetime {
    Lifetime::new(Some(at(from)), Some(at(until))).unwrap()
}

fn mkt(send_id: u8, recv_id: u8) -> Mkt {
    let master_key = MasterKey::new(b"a secret of some length").unwrap();
    Mkt::new(KeyId(send_id), KeyId(recv_id), TcpAoAlgorithm::Aes128Cmac, master_key).unwrap()
}

fn key(id: u8, send: Lifetime, accept: Lifetime) -> Key {
    Key::new(id.into(), mkt(id, id)).with_lifetimes(send, accept).unwrap()
}

fn chain(keys: Vec<Key>) -> KeyChain {
    KeyChain::new("core", keys).unwrap()
}

fn ids(chain: &KeyChain, now: i64) -> Vec<u64> {
    chain.at(at(now)).iter().map(Key::key_id).collect()
}

fn preferred(chain: &KeyChain, now: i64) -> Option<u64> {
    chain.at(at(now)).preferred().map(Key::key_id)
}

#[test]
fn a_lifetime_includes_its_start_but_not_its_end() {
    for (now, contained) in [(9, false), (10, true), (19, true), (20, false)] {
        assert_eq!(between(10, 20).contains(at(now)), contained, "at {now}");
    }
    assert!(Lifetime::ALWAYS.contains(Timestamp::MIN) && Lifetime::ALWAYS.contains(Timestamp::MAX));
    assert!(Lifetime::starting(at(10)).contains(Timestamp::MAX));
    assert_eq!(
        Lifetime::new(Some(at(10)), Some(at(10))),
        Err(Problem::LifetimeEmpty { from: at(10), until: at(10) }.into())
    );
}

#[test]
fn lifetimes_that_touch_do_not_overlap() {
    assert!(!between(10, 20).overlaps(&between(20, 30)));
    assert!(!between(20, 30).overlaps(&between(10, 20)));
    assert!(between(10, 21).overlaps(&between(20, 30)));
    assert!(Lifetime::ALWAYS.overlaps(&between(10, 20)));
    assert!(between(10, 20).widened_by(1).overlaps(&between(20, 30)));
}

#[test]
fn the_overlap_of_two_lifetimes_is_in_both() {
    let [from, until] = [Lifetime::starting(at(15)), Lifetime::new(None, Some(at(15))).unwrap()];
    for (one, other, expected) in [
        (between(10, 20), between(15, 30), Some(between(15, 20))),
        (between(10, 30), between(15, 20), Some(between(15, 20))),
        (between(10, 20), between(20, 30), None),
        (between(10, 20), from, Some(between(15, 20))),
        (between(10, 20), until, Some(between(10, 15))),
        (from, until, None),
        (Lifetime::ALWAYS, until, Some(until)),
    ] {
        assert_eq!((one.common(&other), other.common(&one)), (expected, expected), "{one:?} {other:?}");
    }
    let wide = between(10, 20).widened_by(3);
    assert_eq!((wide.from(), wide.until()), (Some(at(7)), Some(at(23))));
    let [first, last] = [Timestamp::MIN, Timestamp::MAX];
    let all = Lifetime::new(Some(first), Some(last)).unwrap();
    assert_eq!(all.widened_by(u32::MAX), all, "clamped");
}

/// A key is early until its send lifetime has begun, and the chain is over once all send lifetimes are.
#[test]
fn keys_start_and_expire_to_the_second() {
    let chain = chain(vec![key(1, between(10, 20), between(0, 40)), key(2, between(30, 35), between(0, 40))]);
    let is_first = |mkt: &Mkt| mkt.send_id() == KeyId(1);
    for (now, is_early, is_expired) in
        [(9, true, false), (10, false, false), (20, false, false), (34, false, false), (35, false, true)]
    {
        assert_eq!(
            (chain.is_early(is_first, at(now)), chain.is_expired(at(now))),
            (is_early, is_expired),
            "at {now}"
        );
    }
    assert!(!chain.is_early(|mkt| mkt.send_id() == KeyId(3), at(0)), "it is in no chain");
    // With the same ids and secret twice, the MKT is early only before both.
    assert!(chain.is_early(|_| true, at(9)) && !chain.is_early(|_| true, at(10)));
    let always = self::chain(vec![Key::new(1, mkt(1, 1))]);
    assert!(!always.is_early(|_| true, Timestamp::MIN) && !always.is_expired(Timestamp::MAX));
}

#[test]
fn chains_with_only_irrelevant_differences_have_the_same_keys() {
    let one = chain(vec![key(1, between(10, 20), between(10, 20)), Key::new(2, mkt(2, 2))]);
    let described = one.clone().with_description("another text");
    assert!(one.has_same_keys(&described));
    assert_eq!((one.description(), described.description()), (None, Some("another text")));
    let secret = MasterKey::new(b"a secret of same length").unwrap();
    let other_secret = Mkt::new(KeyId(2), KeyId(2), TcpAoAlgorithm::Aes128Cmac, secret).unwrap();
    for keys in [
        vec![key(1, between(10, 20), between(10, 20))],
        vec![Key::new(2, mkt(2, 2)), key(1, between(10, 20), between(10, 20))],
        vec![key(1, between(10, 19), between(10, 20)), Key::new(2, mkt(2, 2))],
        vec![key(1, between(10, 20), between(9, 20)), Key::new(2, mkt(2, 2))],
        vec![key(1, between(10, 20), between(10, 20)), Key::new(3, mkt(2, 2))],
        vec![key(1, between(10, 20), between(10, 20)), Key::new(2, mkt(2, 3))],
        vec![key(1, between(10, 20), between(10, 20)), Key::new(2, other_secret)],
    ] {
        let other = chain(keys);
        assert!(!one.has_same_keys(&other) && !other.has_same_keys(&one), "{other:?}");
    }
    assert!(!one.has_same_keys(&one.clone().with_preferred(1).unwrap()));
    assert!(!one.has_same_keys(&one.clone().with_accept_tolerance(1).unwrap()));
}

/// A key that ends makes room for one that starts then, and one that is accepted earlier does not.
#[test]
fn room_is_needed_only_for_keys_accepted_at_the_same_time() {
    let follow = |from: i64| {
        chain(vec![key(1, between(0, 100), between(0, 100)), key(2, between(150, 200), between(from, 200))])
    };
    assert!(follow(100).check_room(1).is_ok());
    assert!(follow(99).check_room(1).is_err() && follow(99).check_room(2).is_ok());
    assert!(follow(100).with_accept_tolerance(1).unwrap().check_room(1).is_err());
}

#[test]
fn an_accept_lifetime_covers_the_send_lifetime() {
    for accept in [between(11, 20), between(10, 19)] {
        let refused = Key::new(1, mkt(1, 1)).with_lifetimes(between(10, 20), accept);
        assert_eq!(refused.unwrap_err().problem(), &Problem::AcceptLifetimeTooShort);
    }
    assert!(Key::new(1, mkt(1, 1)).with_lifetimes(Lifetime::ALWAYS, between(10, 20)).is_err());
    assert!(Key::new(1, mkt(1, 1)).with_lifetimes(between(10, 20), Lifetime::ALWAYS).is_ok());
}

#[test]
fn the_send_lifetime_that_started_last_is_preferred() {
    let always = Key::new(1, mkt(1, 1));
    let second = key(2, between(100, 300), Lifetime::ALWAYS);
    let third = key(3, Lifetime::starting(at(200)), Lifetime::ALWAYS);
    let chain = chain(vec![always, second, third]);
    assert_eq!(ids(&chain, 99), [1, 2, 3]);
    assert_eq!(preferred(&chain, 99), Some(1));
    assert_eq!(preferred(&chain, 100), Some(2));
    assert_eq!(ids(&chain, 200), [3, 2, 1]);
    assert_eq!(ids(&chain, 300), [3, 1, 2]);
}

#[test]
fn a_key_that_is_named_is_preferred_while_it_is_valid_for_sending() {
    let keys = || vec![Key::new(1, mkt(1, 1)), key(2, between(100, 300), Lifetime::ALWAYS)];
    let plain = chain(keys());
    let first = plain.clone().with_preferred(1).unwrap();
    assert_eq!((plain.preferred(), first.preferred()), (None, Some(1)));
    for (now, without, with) in [(99, [1, 2], [1, 2]), (100, [2, 1], [1, 2]), (300, [1, 2], [1, 2])] {
        assert_eq!((ids(&plain, now), ids(&first, now)), (without.to_vec(), with.to_vec()), "at {now}");
    }
    // Outside its send lifetime, it is as if none were named.
    let second = plain.clone().with_preferred(2).unwrap();
    for (now, expected) in [(99, 1), (100, 2), (299, 2), (300, 1)] {
        assert_eq!(preferred(&second, now), Some(expected), "at {now}");
        assert_eq!(second.at(at(now)).sendable().count(), plain.at(at(now)).sendable().count());
    }
    // Without lifetimes, the name alone decides, and the others keep their order.
    let three = chain((1..=3).map(|id| Key::new(id.into(), mkt(id, id))).collect());
    for (named, expected) in [(1, [1, 2, 3]), (2, [2, 1, 3]), (3, [3, 1, 2])] {
        let named = three.clone().with_preferred(named).unwrap();
        assert_eq!((ids(&named, 0), named.next_change(at(0))), (expected.to_vec(), None));
    }
    assert!(!plain.has_same_keys(&first) && !first.has_same_keys(&second) && first.has_same_keys(&first));
}

#[test]
fn a_key_that_the_chain_lacks_cannot_be_preferred() {
    let error = chain(vec![Key::new(1, mkt(7, 7))]).with_preferred(7).unwrap_err();
    assert_eq!(error.problem(), &Problem::NoSuchKey);
    assert_eq!(error.to_string(), "key chain \"core\", preferred: no key of the chain has this key id");
}

#[test]
fn next_change_gives_every_change() {
    let chain = chain(vec![
        key(1, between(10, 100), between(5, 110)),
        key(2, Lifetime::starting(at(90)), Lifetime::starting(at(80))),
    ])
    .with_accept_tolerance(2)
    .unwrap();
    let mut now = at(0);
    let mut changes = Vec::new();
    while let Some(next) = chain.next_change(now) {
        changes.push(next.unix_seconds());
        now = next;
    }
    assert_eq!(changes, [3, 10, 78, 90, 100, 112]);
}

#[test]
fn ao_24_ids_may_be_used_again_once_the_earlier_key_is_gone() {
    let first = key(1, between(0, 100), between(0, 100));
    let follows =
        |from| Key::new(2, mkt(1, 1)).with_lifetimes(between(150, 200), between(from, 200)).unwrap();
    assert!(KeyChain::new("core", vec![first.clone(), follows(100)]).is_ok());
    let error = KeyChain::new("core", vec![first.clone(), follows(99)]).unwrap_err();
    assert_eq!(error.problem(), &Problem::IdInUse { by: 1 });
    assert_eq!(
        error.to_string(),
        "key chain \"core\", key 2, send-id: key 1 has this id too, and their accept lifetimes overlap"
    );
    let tolerant = KeyChain::new("core", vec![first, follows(101)]).unwrap();
    assert!(tolerant.clone().with_accept_tolerance(0).is_ok());
    assert!(tolerant.with_accept_tolerance(1).is_err());
}

#[test]
fn ao_24_a_recv_id_in_common_is_refused_too() {
    let error = KeyChain::new("core", vec![Key::new(1, mkt(1, 7)), Key::new(2, mkt(2, 7))]).unwrap_err();
    assert!(error.to_string().starts_with("key chain \"core\", key 2, recv-id: "), "{error}");
    // A SendID may be another key's RecvID.
    assert!(KeyChain::new("core", vec![Key::new(1, mkt(1, 2)), Key::new(2, mkt(2, 1))]).is_ok());
}

#[test]
fn ao_24_more_keys_at_once_than_there_is_room_for_are_known_beforehand() {
    let chain = chain((1..=3).map(|id| Key::new(id.into(), mkt(id, id))).collect());
    assert_eq!(chain.check_room(2).unwrap_err().problem(), &Problem::Mkt(MktError::TooMany { capacity: 2 }));
    assert!(chain.check_room(3).is_ok());
    assert_eq!(chain.mkts::<3>(at(0)).iter().count(), 3);
    let two: Vec<_> = chain.mkts::<2>(at(0)).iter().map(Mkt::send_id).collect();
    let preferred: Vec<_> = chain.at(at(0)).iter().take(2).map(|key| key.mkt().send_id()).collect();
    assert_eq!(two, preferred, "the preferred ones are taken");
}

#[test]
fn ao_26_a_live_connection_stops_signing_when_the_send_lifetime_is_over() {
    let chain =
        chain(vec![key(1, between(0, 100), Lifetime::ALWAYS), key(2, between(50, 200), Lifetime::ALWAYS)]);
    let pair = SocketPair {
        local: Endpoint::new([192, 0, 2, 1], 50_000),
        remote: Endpoint::new([192, 0, 2, 2], 179),
    };
    let mut connection = Connection::active(pair, Isn(1), &chain.mkts::<2>(at(10))).unwrap();
    assert_eq!(connection.current_key().send_id, KeyId(1));
    for (now, current, rnext) in [(60, 1, 2), (99, 1, 2), (100, 2, 2)] {
        connection.replace_keys(&chain.mkts(at(now))).unwrap();
        assert_eq!(connection.current_key().send_id, KeyId(current), "signed with at {now}");
        assert_eq!(connection.rnext_key().recv_id, KeyId(rnext), "asked for at {now}");
        assert_eq!(connection.keys().count(), 2, "both are accepted");
    }
    assert_eq!(connection.replace_keys(&chain.mkts(at(200))), Err(MktError::NoKey));
}

#[test]
fn ao_26_a_clock_step_in_the_overlap_loses_nothing() {
    let (start, end) = (100 * HOUR, 104 * HOUR);
    let chain = chain(vec![
        key(1, between(0, end), between(0, end)),
        key(2, Lifetime::starting(at(start)), Lifetime::starting(at(start))),
    ]);
    let mut clock = start + HOUR;
    for step in [HOUR, -HOUR, 2 * HOUR, -2 * HOUR, 2 * HOUR - 1, -HOUR, -HOUR] {
        clock += step;
        assert_eq!(ids(&chain, clock), [2, 1], "at {}", clock - start);
    }
    // One second outside the overlap, only the right key is left.
    assert_eq!(ids(&chain, start - 1), [1]);
    assert_eq!(ids(&chain, end), [2]);
}

#[test]
fn ao_26_a_key_past_its_send_lifetime_is_accepted_but_not_chosen() {
    let chain = chain(vec![key(1, between(10, 20), between(5, 25))]);
    for now in [5, 9, 20, 24] {
        assert_eq!(ids(&chain, now), [1]);
        assert_eq!(preferred(&chain, now), None);
        assert_eq!(chain.mkts::<1>(at(now)).iter().count(), 0, "no connection can be opened");
    }
    assert_eq!(preferred(&chain, 10), Some(1));
    assert!(!chain.is_expired(at(19)));
    assert!(chain.is_expired(at(20)));
    assert!(!chain.is_expired(at(0)), "it has not begun");
}

/// An unsigned SYN from 192.0.2.2 to 192.0.2.1, port 179.
const UNSIGNED_SYN: [u8; 40] = [
    0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0xf6, 0xcc, 192, 0, 2, 2, 192, 0, 2, 1, //
    4, 0, 0, 179, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0, 0, 0x26, 0xf2, 0, 0,
];

fn shim_with_keys_of(chain: &KeyChain, now: i64) -> Shim<[PeerSlot; 1], [ShimSlot; 1]> {
    let mkts = chain.mkts::<MKTS_PER_PEER>(at(now));
    let connections =
        ConnectionIdentifier::between("192.0.2.1/32".parse().unwrap(), "192.0.2.2/32".parse().unwrap());
    let config = ShimConfig { check_checksum: false, ..ShimConfig::new(1500) };
    Shim::new(config, hash_key(), [Peer { connections, mkts }.into()], [const { ShimSlot::EMPTY }]).unwrap()
}

#[test]
fn ao_26_an_expired_chain_fails_closed() {
    let chain = chain(vec![key(1, between(10, 20), between(5, 25))]);
    let mut syn_to_send = vec![0; 24];
    syn_to_send.extend_from_slice(&UNSIGNED_SYN);
    syn_to_send[24 + 12..24 + 20].rotate_left(4);
    syn_to_send[24 + 20..24 + 24].rotate_left(2);
    for now in [4, 20, 25, 1_000_000] {
        let mut shim = shim_with_keys_of(&chain, now);
        assert!(shim.inbound(Duration::ZERO, &mut UNSIGNED_SYN.clone()).is_err());
        let sent = shim.outbound(Duration::ZERO, &mut syn_to_send.clone(), 24);
        assert_eq!(sent.unwrap_err(), Refusal::NoKey);
    }
    let mut shim = shim_with_keys_of(&chain, 10);
    let sent = shim.outbound(Duration::ZERO, &mut syn_to_send, 24).unwrap();
    assert!(sent.len() > UNSIGNED_SYN.len(), "while the chain is valid, the same SYN leaves signed");
}

/// Successive keys, each accepted `lead` seconds before and after it is sent with. The second chain is the other end's.
fn mirrored_chains(lengths: &[u32], lead: u32, tolerance: u32) -> [KeyChain; 2] {
    let mut start = 1_000_000_i64;
    let mut send_lifetimes = Vec::new();
    for length in lengths {
        let end = start + i64::from(*length);
        send_lifetimes.push(between(start, end));
        start = end;
    }
    let end_of = |swap: bool| {
        let keys = send_lifetimes.iter().zip(1..).map(|(send, id)| {
            let (ours, theirs) = if swap { (id + 100, id) } else { (id, id + 100) };
            Key::new(id.into(), mkt(ours, theirs)).with_lifetimes(*send, send.widened_by(lead)).unwrap()
        });
        KeyChain::new("core", keys.collect()).unwrap().with_accept_tolerance(tolerance).unwrap()
    };
    [end_of(false), end_of(true)]
}

fn accepts(chain: &KeyChain, now: i64, key_id: KeyId) -> bool {
    chain.at(at(now)).iter().any(|key| key.mkt().recv_id() == key_id)
}

proptest! {
    #[test]
    fn ao_26_clocks_apart_by_less_than_the_overlap_lose_nothing(
        lengths in prop::collection::vec(1_u32..5_000, 1..6),
        lead in 0_u32..2_000,
        tolerance in 0_u32..2_000,
        moment in 0.0_f64..1.0,
        skew in -1.0_f64..1.0,
    ) {
        let [ours, theirs] = mirrored_chains(&lengths, lead, tolerance);
        let total: u32 = lengths.iter().sum();
        let now = 1_000_000 + (f64::from(total) * moment) as i64;
        let apart = (f64::from(lead + tolerance) * skew) as i64;
        for (sender, receiver) in [(&ours, &theirs), (&theirs, &ours)] {
            let active = sender.at(at(now));
            let key = active.preferred().expect("the send lifetimes have no gaps");
            prop_assert!(accepts(receiver, now + apart, key.mkt().send_id()));
        }
    }

    /// Naming a key changes neither which keys are valid nor when; it only puts one that may be sent with in front.
    #[test]
    fn a_named_key_comes_first_and_the_rest_stays(
        lifetimes in prop::collection::vec((0_i64..20, 1_i64..20, 0_u32..10), 1..6),
        named in any::<prop::sample::Index>(),
        now in 0_i64..45,
    ) {
        let keys = lifetimes.iter().zip(1..).map(|((from, length, lead), id)| {
            let send = between(*from, from + length);
            Key::new(id, mkt(id as u8, id as u8)).with_lifetimes(send, send.widened_by(*lead)).unwrap()
        });
        let plain = chain(keys.collect());
        let named = 1 + named.index(lifetimes.len()) as u64;
        let with = plain.clone().with_preferred(named).unwrap();
        let may_send = plain.at(at(now)).sendable().any(|key| key.key_id() == named);
        prop_assert_eq!(preferred(&with, now), if may_send { Some(named) } else { preferred(&plain, now) });
        let sendable = |chain: &KeyChain| chain.at(at(now)).sendable().count();
        prop_assert_eq!(sendable(&with), sendable(&plain));
        prop_assert_eq!(with.next_change(at(now)), plain.next_change(at(now)));
        let others = |chain: &KeyChain| ids(chain, now).into_iter().filter(|id| *id != named).collect::<Vec<_>>();
        prop_assert_eq!(others(&with), others(&plain));
        prop_assert_eq!(ids(&with, now).len(), ids(&plain, now).len());
    }

    #[test]
    fn ao_26_nothing_changes_before_it_is_announced(
        lengths in prop::collection::vec(1_u32..5_000, 1..6),
        lead in 0_u32..2_000,
        now in 990_000_i64..1_040_000,
        wait in 0_i64..5_000,
    ) {
        let [chain, _] = mirrored_chains(&lengths, lead, 0);
        let later = match chain.next_change(at(now)) {
            Some(change) => (now + wait).min(change.unix_seconds() - 1),
            None => now + wait,
        };
        prop_assert_eq!(ids(&chain, now), ids(&chain, later));
        prop_assert_eq!(preferred(&chain, now), preferred(&chain, later));
    }
}

#[test]
fn timestamps_are_within_the_years_that_can_be_written() {
    let [first, last] = [-62_167_219_200, 253_402_300_799];
    for (seconds, text) in [
        (i64::MIN, "0000-01-01T00:00:00Z"),
        (first - 1, "0000-01-01T00:00:00Z"),
        (first, "0000-01-01T00:00:00Z"),
        (first + 1, "0000-01-01T00:00:01Z"),
        (0, "1970-01-01T00:00:00Z"),
        (last - 1, "9999-12-31T23:59:58Z"),
        (last, "9999-12-31T23:59:59Z"),
        (last + 1, "9999-12-31T23:59:59Z"),
        (i64::MAX, "9999-12-31T23:59:59Z"),
    ] {
        assert_eq!(at(seconds).to_string(), text, "{seconds}");
    }
}

#[test]
fn timestamps_are_system_times_rounded_down() {
    for (time, seconds) in [
        (UNIX_EPOCH, 0),
        (UNIX_EPOCH + Duration::from_millis(1999), 1),
        (UNIX_EPOCH - Duration::from_millis(1), -1),
        (UNIX_EPOCH - Duration::from_secs(1), -1),
    ] {
        assert_eq!(Timestamp::from(time), at(seconds));
    }
    for timestamp in [at(-5), at(1_800_000_000), Timestamp::MAX] {
        assert_eq!(Timestamp::from(SystemTime::from(timestamp)), timestamp);
    }
    let (before, now) = (Timestamp::from(SystemTime::now()), Timestamp::now());
    assert!(before <= now);
    let text = serde_json::to_string(&at(0)).unwrap();
    assert_eq!(text, r#""1970-01-01T00:00:00Z""#);
    assert_eq!(serde_json::from_str::<Timestamp>(&text).unwrap(), at(0));
}
