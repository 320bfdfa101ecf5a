//! Choosing keys: what the peer asks for, what this end asks for, adding, removing, replacing.

use crate::support::*;

/// Ids of the current and the rnext key: a SendID and a RecvID.
fn chosen<const N: usize>(connection: &Connection<N>) -> (u8, u8) {
    (connection.current_key().send_id.0, connection.rnext_key().recv_id.0)
}

#[test]
fn ao_22_the_peer_chooses_the_current_key_with_a_verified_segment() {
    let mut ends = Ends::<2>::with_ids(&TWO);
    assert_eq!((chosen(&ends.active), chosen(&ends.passive)), ((1, 101), (101, 1)));
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    let asks = ends.passive_data(b"please sign with 2");
    let mut forged = asks.clone();
    let last = forged.len() - 1;
    forged[last] ^= 1;
    assert!(receive(&mut ends.active, &forged).is_err());
    assert_eq!(chosen(&ends.active), (1, 101));
    assert!(ends.obeys(&asks));
    assert_eq!(chosen(&ends.active), (2, 101));
    let signed = ends.active_data(b"with 2");
    assert_eq!(receive(&mut ends.passive, &signed).unwrap().key_id(), KeyId(2));
    // The same request again changes nothing.
    let asks = ends.passive_data(b"still");
    assert!(!ends.obeys(&asks));
}

#[test]
fn ao_22_a_late_segment_does_not_bring_the_old_key_back() {
    let mut ends = Ends::<2>::with_ids(&TWO);
    let late = ends.passive_data(b"asks for 1");
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    ends.back(b"asks for 2");
    assert!(!ends.obeys(&late));
    assert_eq!(chosen(&ends.active), (2, 101));
}

/// The passive end asks for key 2, removes its key 101 and retransmits what was lost; the active end must follow.
fn retransmits_after_a_rollover(ends: &mut Ends<2>, sequence: u32, acknowledges: u32) {
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    ends.passive.remove_key(KeyId(101), Some(KeyId(102))).unwrap();
    let again = Parts::new(ipv4_pair().reversed(), ACK, sequence, acknowledges).payload(b"lost at first");
    let again = again.signed(&mut ends.passive);
    assert!(ends.obeys(&again));
    ends.forth(b"acknowledged");
}

#[test]
fn ao_22_a_lost_segment_does_not_stop_a_rollover() {
    // The other end has sent data since, so the acknowledgment is newer.
    let mut ends = Ends::<2>::with_ids(&TWO);
    let lost = ends.passive_next;
    drop(ends.passive_data(b"lost at first"));
    ends.back(b"received");
    drop(ends.active_data(b"heard"));
    let acknowledges = ends.active_next;
    retransmits_after_a_rollover(&mut ends, lost, acknowledges);

    // No newer acknowledgment, but an MKT that has not signed before.
    let mut ends = Ends::<2>::with_ids(&TWO);
    let (lost, acknowledges) = (ends.passive_next, ends.active_next);
    drop(ends.passive_data(b"lost at first"));
    ends.back(b"received");
    retransmits_after_a_rollover(&mut ends, lost, acknowledges);

    // An MKT that has signed before and was never asked for.
    let mut ends = Ends::<2>::with_ids(&TWO);
    ends.passive.set_current_key(KeyId(102)).unwrap();
    let lost = ends.passive_next;
    drop(ends.passive_data(b"lost at first"));
    let next = ends.passive_data(b"received");
    receive(&mut ends.active, &next).unwrap();
    retransmits_after_a_rollover(&mut ends, lost, acknowledges);
}

#[test]
fn ao_22_a_segment_later_than_a_retransmission_does_not_stop_a_rollover() {
    let mut ends = Ends::<3>::with_ids(&TWO);
    drop(ends.numbered(0, b"lost"));
    let late = ends.numbered(4, b"");
    ends.passive.remove_key(KeyId(101), Some(KeyId(102))).unwrap();
    let again = ends.numbered(0, b"lost");
    assert!(ends.obeys(&again));
    // Its sequence number is higher than any before, but it was sent before the retransmission.
    receive(&mut ends.active, &late).unwrap();
    receive(&mut ends.active, &again).unwrap();
    assert_eq!(chosen(&ends.active), (2, 101));
    // Its replay is old, whatever arrived since.
    receive(&mut ends.active, &late).unwrap();
    assert_eq!(chosen(&ends.active), (2, 101));
}

#[test]
fn ao_22_asking_for_a_key_before_it_is_added_is_not_asking_for_it_the_first_time() {
    let mut ends = Ends::<3>::with_ids(&TWO);
    ends.active.remove_key(KeyId(2), None).unwrap();
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    let early = ends.numbered(4, b"");
    assert!(!ends.obeys(&early));
    ends.active.add_key(&hmac(2, 102)).unwrap();
    let again = ends.numbered(0, b"lost");
    assert!(ends.obeys(&again));
}

#[test]
fn ao_22_a_late_segment_that_asks_for_a_key_in_use_does_not_pass_for_the_first() {
    let mut ends = Ends::<3>::with_ids(&[(1, 101), (2, 102), (3, 103)]);
    ends.passive.set_current_key(KeyId(103)).unwrap();
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    let late = ends.numbered(0, b"");
    ends.active.remove_key(KeyId(1), Some(KeyId(2))).unwrap();
    ends.passive.set_rnext_key(KeyId(3)).unwrap();
    let new = ends.numbered(0, b"");
    assert!(ends.obeys(&new));
    assert!(!ends.obeys(&late));
    assert_eq!(chosen(&ends.active).0, 3);
}

#[test]
fn ao_22_an_older_acknowledgment_does_not_bring_the_old_key_back() {
    let mut ends = Ends::<2>::with_ids(&TWO);
    let (sequence, acknowledges) = (ends.passive_next, ends.active_next);
    // It arrives late, and its sequence number is higher than that of the retransmission that overtakes it.
    let late = sent(&mut ends.passive, ACK, sequence + 100, acknowledges);
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    let newer = acknowledgment(&mut ends, sequence, 1);
    assert!(ends.obeys(&newer));
    assert!(!ends.obeys(&late));
}

#[test]
fn ao_22_replaced_keys_do_not_let_a_replay_pass_for_the_first_segment_of_its_key() {
    // The same keys, as a key chain gives them repeatedly; and a key removed and added again, as when a clock is set back and forth.
    for replacements in [&[&TWO[..]][..], &[&TWO[1..], &TWO[..]]] {
        let mut ends = Ends::<2>::with_ids(&TWO);
        let old = ends.passive_data(b"asks for 1");
        receive(&mut ends.active, &old).unwrap();
        ends.passive.set_rnext_key(KeyId(2)).unwrap();
        ends.back(b"asks for 2");
        for keys in replacements {
            ends.active.replace_keys(&mkts(keys)).unwrap();
        }
        assert!(!ends.obeys(&old));
        assert_eq!(chosen(&ends.active).0, 2);
    }
}

/// A segment of the passive end's without data that acknowledges `octets` octets sent after the handshake. The active end sends them first.
fn acknowledgment(ends: &mut Ends<2>, sequence: u32, octets: u32) -> Vec<u8> {
    let acknowledges = ends.active_next + octets;
    drop(sent(&mut ends.active, ACK, acknowledges, ends.passive_next));
    sent(&mut ends.passive, ACK, sequence, acknowledges)
}

/// Two ends; the passive one asks for key 2 after an acknowledgment. Also its next sequence number, and the acknowledgment.
fn asking_after_an_acknowledgment() -> (Ends<2>, u32, Vec<u8>) {
    let mut ends = Ends::<2>::with_ids(&TWO);
    let next = ends.passive.highest_sent().1.0.wrapping_add(1);
    let old = acknowledgment(&mut ends, next, 1000);
    receive(&mut ends.active, &old).unwrap();
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    (ends, next, old)
}

#[test]
fn ao_22_a_replayed_acknowledgment_does_not_bring_the_old_key_back() {
    let (mut ends, next, old) = asking_after_an_acknowledgment();
    let new = acknowledgment(&mut ends, next, 1001);
    assert!(ends.obeys(&new));
    // Neither had data, so both have the same sequence number: the acknowledgment tells which is older.
    assert!(!ends.obeys(&old));
    assert_eq!(chosen(&ends.active), (2, 101));
}

#[test]
fn ao_22_a_keepalive_is_heard() {
    let (mut ends, next, _) = asking_after_an_acknowledgment();
    let keepalive = acknowledgment(&mut ends, next.wrapping_sub(1), 1000);
    assert!(ends.obeys(&keepalive));
}

#[test]
fn ao_22_a_syn_already_chooses() {
    let mut active = Connection::active(ipv4_pair(), Isn(100), &mkts::<2>(&TWO)).unwrap();
    active.set_rnext_key(KeyId(102)).unwrap();
    let syn = sent(&mut active, SYN, 100, 0);
    let listener = mirrored::<2>(&TWO);
    let verified = listener.verify_syn(view(ipv4_pair(), &syn)).unwrap();
    assert_eq!((verified.mkt().recv_id(), verified.rnext_key_id()), (KeyId(1), KeyId(102)));
    let mut passive = Connection::passive(&verified);
    assert_eq!(chosen(&passive), (102, 1));
    let syn_ack = sent(&mut passive, SYN | ACK, 700, 101);
    assert_eq!(receive(&mut active, &syn_ack).unwrap().key_id(), KeyId(102));
    assert_eq!(chosen(&active), (1, 102));
    // A listener without that MKT answers with the one that signed the SYN.
    let listener = mirrored::<2>(&TWO[..1]);
    let passive = Connection::passive(&listener.verify_syn(view(ipv4_pair(), &syn)).unwrap());
    assert_eq!(chosen(&passive), (101, 1));
}

#[test]
fn ao_23_rollover_to_a_key_added_on_a_live_connection_in_both_directions() {
    let mut ends = Ends::<2>::with_ids(&TWO[..1]);
    // The new key may have any algorithm and MAC length.
    let new = mkt(2, 102, TcpAoAlgorithm::Kmac256_128);
    let mirror = mkt(102, 2, TcpAoAlgorithm::Kmac256_128);
    ends.active.add_key(&new).unwrap();
    ends.exchange();
    ends.passive.add_key(&mirror).unwrap();
    ends.active.set_rnext_key(KeyId(102)).unwrap();
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    ends.exchange();
    ends.exchange();
    assert_eq!((chosen(&ends.active), chosen(&ends.passive)), ((2, 102), (102, 2)));
    assert_eq!(ends.active.option_length(), 20);
    let mut space = [0; 40];
    assert_eq!(ends.active.append_ao(&mut space, 12), Ok(32));
    assert_eq!(space[12..16], [29, 20, 2, 102]);
    assert_eq!(ends.active.append_ao(&mut [0; 40], 24), Err(SignError::NoRoom { needed: 20, free: 16 }));
    ends.active.remove_key(KeyId(1), None).unwrap();
    ends.passive.remove_key(KeyId(101), None).unwrap();
    ends.exchange();
    let good = |counters: &Counters| counters.bad + counters.key_not_found == 0;
    assert!(good(&ends.active.counters()) && good(&ends.passive.counters()));
}

#[test]
fn ao_23_segments_verify_under_every_key_in_any_order_and_forged_ones_under_none() {
    let algorithms = [TcpAoAlgorithm::Aes128Cmac, TcpAoAlgorithm::HmacSha1, TcpAoAlgorithm::Kmac256_128];
    let set = |shift: u8| {
        let keys = (0..3_u8).map(|i| mkt(1 + i + shift, 101 + i - shift, algorithms[usize::from(i)]));
        MktSet::<3>::from_mkts(keys).unwrap()
    };
    let mut ends = Ends::connect(ipv4_pair(), (100, 700), &set(0), &set(100));
    let mut late = Vec::new();
    for id in [1, 2, 3, 1, 3, 2, 2, 1] {
        ends.active.set_current_key(KeyId(id)).unwrap();
        late.push((id, ends.active_data(b"comes later")));
        let mut forged = ends.active_data(b"forged");
        *forged.last_mut().unwrap() ^= 1;
        assert!(matches!(receive(&mut ends.passive, &forged), Err(VerifyError::BadMac { .. })));
        let data = ends.active_data(b"in time");
        // Repeatedly: the key that a replay is verified with must not stay in memory.
        for (id, segment) in [(id, data)].iter().chain(&late) {
            assert_eq!(receive(&mut ends.passive, segment).unwrap().key_id(), KeyId(*id));
        }
    }
    // The key of the newest segment is removed, so its segments fail; the others still verify.
    ends.passive.remove_key(KeyId(101), Some(KeyId(103))).unwrap();
    for (id, segment) in &late {
        let expected = if *id == 1 { Err(VerifyError::UnknownKeyId(KeyId(1))) } else { Ok(KeyId(*id)) };
        assert_eq!(receive(&mut ends.passive, segment).map(|verified| verified.key_id()), expected);
    }
}

#[test]
fn ao_24_colliding_ids_are_refused_and_leave_the_set_as_it_was() {
    let mut set = mkts::<3>(&TWO);
    assert_eq!(set.push(hmac(1, 103)).unwrap_err(), MktError::SendIdInUse(KeyId(1)));
    assert_eq!(set.push(hmac(3, 102)).unwrap_err(), MktError::RecvIdInUse(KeyId(102)));
    assert_eq!(set.iter().count(), 2);
    set.push(hmac(3, 1)).unwrap();
    assert_eq!(set.push(hmac(4, 104)).unwrap_err(), MktError::TooMany { capacity: 3 });
    assert_eq!(
        MktSet::<2>::from_mkts([hmac(1, 101), hmac(2, 101)]).unwrap_err(),
        MktError::RecvIdInUse(KeyId(101))
    );
}

#[test]
fn ao_25_the_last_key_stays() {
    let mut ends = Ends::<3>::with_ids(&TWO[..1]);
    assert_eq!(ends.active.remove_key(KeyId(1), None).unwrap_err(), MktError::Last(KeyId(1)));
    assert_eq!(ends.active.remove_key(KeyId(1), Some(KeyId(1))).unwrap_err(), MktError::Last(KeyId(1)));
    assert_eq!(ends.active.replace_keys(&MktSet::new()).unwrap_err(), MktError::NoKey);
    ends.exchange();
    assert_eq!(Connection::active(ipv4_pair(), Isn(1), &MktSet::<2>::new()).unwrap_err(), MktError::NoKey);
}

#[test]
fn ao_25_replacing_all_keys_is_one_step() {
    let mut ends = Ends::<3>::with_ids(&TWO);
    // The current key's ids with another secret, and a new key before it.
    let secret = b"another secret, thirty-two octet";
    let replaced = [hmac(3, 103), mkt_with_secret(1, 101, TcpAoAlgorithm::Aes128Cmac, secret)];
    let mirror = [hmac(103, 3), mkt_with_secret(101, 1, TcpAoAlgorithm::Aes128Cmac, secret)];
    let old = ends.active_data(b"under the old secret");
    ends.active.replace_keys(&MktSet::from_mkts(replaced).unwrap()).unwrap();
    assert_eq!(chosen(&ends.active), (1, 103));
    let new = ends.active_data(b"under the new secret");
    assert_eq!(receive(&mut ends.passive, &new).unwrap_err(), VerifyError::BadMac { key_id: KeyId(1) });
    ends.passive.replace_keys(&MktSet::from_mkts(mirror).unwrap()).unwrap();
    assert_eq!(receive(&mut ends.passive, &old).unwrap_err(), VerifyError::BadMac { key_id: KeyId(1) });
    receive(&mut ends.passive, &new).unwrap();
    // Each end asks for the new first key, and gets it.
    ends.exchange();
    ends.exchange();
    assert_eq!((chosen(&ends.active), chosen(&ends.passive)), ((3, 103), (103, 3)));
}

#[test]
fn ao_25_a_connection_has_a_key_only_with_all_that_makes_it() {
    const OLD: &[u8] = b"the secret that has become known";
    const NEW: &[u8] = b"the secret to come tomorrow, new";
    let algorithm = TcpAoAlgorithm::HmacSha1;
    let secret = |send, recv, octets: &[u8]| mkt_with_secret(send, recv, algorithm, octets);
    let ours = secret(1, 2, OLD);
    let others = [
        secret(1, 2, NEW),
        secret(1, 2, &OLD[1..]),
        secret(1, 3, OLD),
        secret(3, 2, OLD),
        secret(1, 2, OLD).with_mac_length(16).unwrap(),
        secret(1, 2, OLD).with_options(OptionCoverage::Excluded),
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
    // Two MKTs are compared in the same way, but for whether they are accept-only.
    assert!(ours.is_same(&ours.clone()) && !ours.is_same(&ours.clone().accept_only()));
    assert!(others.iter().all(|other| !ours.is_same(other) && !other.is_same(&ours)));
    // A shorter key leaves nothing of the longer one that it replaces.
    let sha_256 = mkt_with_secret(1, 2, TcpAoAlgorithm::LinuxHmacSha256, OLD);
    established.replace_keys(&MktSet::from_mkts([sha_256.clone()]).unwrap()).unwrap();
    assert!(established.has_key(&sha_256) && !established.has_key(&ours));
    established.replace_keys(&set).unwrap();
    assert!(established.has_key(&ours));
    established.add_key(&secret(3, 4, NEW)).unwrap();
    established.remove_key(KeyId(1), Some(KeyId(3))).unwrap();
    assert!(established.has_key(&secret(3, 4, NEW)) && !established.has_key(&ours));
}

#[test]
fn ao_24_send_id_and_recv_id_may_differ_and_cross() {
    // SendID and RecvID are two spaces: one key's SendID may be another's RecvID.
    let mut ends = Ends::<2>::with_ids(&[(5, 6), (6, 5)]);
    ends.exchange();
    ends.passive.set_rnext_key(KeyId(6)).unwrap();
    ends.exchange();
    ends.exchange();
    assert_eq!(chosen(&ends.active), (6, 6));
}

/// The keys of [`TWO`] when the send lifetime of the first is over.
fn first_is_over() -> MktSet<3> {
    MktSet::from_mkts([hmac(2, 102), hmac(1, 101).accept_only()]).unwrap()
}

#[test]
fn ao_22_a_key_past_its_send_lifetime_serves_until_the_peer_has_moved() {
    let mut ends = Ends::<3>::with_ids(&TWO);
    ends.active.replace_keys(&first_is_over()).unwrap();
    assert_eq!(chosen(&ends.active), (1, 102));
    // The peer does not have the new key, or does not follow the request.
    for _ in 0..2 {
        let segment = ends.passive_data(b"under 101");
        receive(&mut ends.active, &segment).unwrap();
        assert_eq!((chosen(&ends.active).0, ends.active.peer_uses_rnext_key()), (1, false));
    }
    // It signs with the new key, and goes on asking for the old one.
    ends.passive.set_current_key(KeyId(102)).unwrap();
    let segment = ends.passive_data(b"under 102, asks for 1");
    assert!(!ends.obeys(&segment));
    assert_eq!((chosen(&ends.active).0, ends.active.peer_uses_rnext_key()), (1, true));
    assert!(ends.active.peer_insists());
    // It stays when keys change again.
    ends.active.replace_keys(&first_is_over()).unwrap();
    assert!(ends.active.peer_insists() && chosen(&ends.active).0 == 1);
    // A request for a key that this end lacks is none for the old one.
    ends.passive.add_key(&hmac(103, 3)).unwrap();
    ends.passive.set_rnext_key(KeyId(3)).unwrap();
    let segment = ends.passive_data(b"under 102, asks for 3");
    assert!(ends.obeys(&segment));
    assert_eq!((chosen(&ends.active), ends.active.peer_insists()), ((2, 102), false));
    ends.back(b"under 2");
    // Nothing is left of that once the peer asks for the key in use.
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    ends.back(b"asks for 2");
    assert_eq!((ends.active.asks_for(), ends.active.peer_insists()), (Some(KeyId(2)), false));
}

#[test]
fn ao_22_a_key_past_its_send_lifetime_is_left_only_for_the_one_that_the_peer_uses() {
    let other = mkt_with_secret(2, 102, TcpAoAlgorithm::HmacSha1, b"another secret, thirty-two octet");
    for (number, (asked, signs, next, current)) in [
        (101, 101, hmac(2, 102), 1),
        (102, 101, hmac(2, 102), 1),
        (102, 102, other, 1),
        (102, 102, hmac(2, 102), 2),
    ]
    .into_iter()
    .enumerate()
    {
        let mut ends = Ends::<3>::with_ids(&TWO);
        ends.active.set_rnext_key(KeyId(asked)).unwrap();
        ends.passive.set_current_key(KeyId(signs)).unwrap();
        // It asks for a key that the active end does not have.
        ends.passive.add_key(&hmac(103, 3)).unwrap();
        ends.passive.set_rnext_key(KeyId(3)).unwrap();
        ends.back(b"asks for 3");
        let replaced = [next, hmac(1, 101).accept_only()];
        ends.active.replace_keys(&MktSet::from_mkts(replaced).unwrap()).unwrap();
        assert_eq!(chosen(&ends.active), (current, 102), "row {number}");
    }
}

#[test]
fn asking_for_a_valid_key_is_not_insisting_on_an_old_one() {
    let mut ends = Ends::<3>::with_ids(&TWO);
    ends.active.replace_keys(&mkts(&TWO)).unwrap();
    ends.exchange();
    assert_eq!((ends.active.asks_for(), ends.active.peer_uses_rnext_key()), (Some(KeyId(1)), true));
    assert!(!ends.active.peer_insists());
}

#[test]
fn the_peers_rnext_key_is_known_after_keys_change_during_the_handshake() {
    let mut opening = Connection::active(ipv4_pair(), Isn(1), &mkts::<3>(&TWO)).unwrap();
    opening.replace_keys(&mkts(&TWO)).unwrap();
    assert_eq!(opening.asks_for(), None);
    let syn = sent(&mut opening, SYN, 1, 0);
    let listener = mirrored::<3>(&TWO);
    let mut passive = Connection::passive(&listener.verify_syn(view(ipv4_pair(), &syn)).unwrap());
    passive.add_key(&hmac(103, 3)).unwrap();
    assert_eq!(passive.asks_for(), Some(KeyId(101)));
}

#[test]
fn ao_22_a_key_past_its_send_lifetime_is_left_at_once_where_it_serves_nobody() {
    // This end's SYN has no answer yet.
    let mut opening = Connection::active(ipv4_pair(), Isn(1), &mkts::<3>(&TWO)).unwrap();
    opening.replace_keys(&first_is_over()).unwrap();
    assert_eq!(chosen(&opening), (2, 102));
    // It is gone, or has another secret.
    let secret = b"another secret, thirty-two octet";
    let other = mkt_with_secret(1, 101, TcpAoAlgorithm::HmacSha1, secret).accept_only();
    for rest in [vec![], vec![other]] {
        let mut ends = Ends::<3>::with_ids(&TWO);
        let replaced = [vec![hmac(2, 102)], rest].concat();
        ends.active.replace_keys(&MktSet::from_mkts(replaced).unwrap()).unwrap();
        assert_eq!(chosen(&ends.active), (2, 102));
    }
    // The peer has moved, and asks for neither.
    let mut ends = Ends::<3>::with_ids(&TWO);
    ends.active.set_rnext_key(KeyId(102)).unwrap();
    ends.passive.set_current_key(KeyId(102)).unwrap();
    ends.passive.add_key(&hmac(103, 3)).unwrap();
    ends.passive.set_rnext_key(KeyId(3)).unwrap();
    let segment = ends.passive_data(b"under 102, asks for 3");
    receive(&mut ends.active, &segment).unwrap();
    assert_eq!((chosen(&ends.active).0, ends.active.peer_uses_rnext_key()), (1, true));
    ends.active.replace_keys(&first_is_over()).unwrap();
    assert_eq!(chosen(&ends.active), (2, 102));
}

#[test]
fn ao_22_whether_the_peer_has_moved_is_not_known_of_another_key() {
    let mut ends = Ends::<3>::with_ids(&TWO);
    assert!(ends.active.peer_uses_rnext_key(), "the SYN-ACK has shown it");
    ends.active.set_rnext_key(KeyId(101)).unwrap();
    assert!(ends.active.peer_uses_rnext_key(), "it is the same key");
    ends.active.set_rnext_key(KeyId(102)).unwrap();
    assert!(!ends.active.peer_uses_rnext_key());
    ends.active.set_rnext_key(KeyId(101)).unwrap();
    ends.exchange();
    let secret = b"another secret, thirty-two octet";
    for (first, is_known) in
        [(hmac(1, 101), true), (mkt_with_secret(1, 101, TcpAoAlgorithm::HmacSha1, secret), false)]
    {
        ends.active.replace_keys(&MktSet::from_mkts([first, hmac(2, 102)]).unwrap()).unwrap();
        assert_eq!(ends.active.peer_uses_rnext_key(), is_known);
    }
}
