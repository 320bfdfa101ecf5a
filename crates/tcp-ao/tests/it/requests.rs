//! Which requests for a key (RNextKeyIDs) are obeyed, and which are replays or late.

use crate::support::*;

const THREE: [(u8, u8); 3] = [(1, 101), (2, 102), (3, 103)];

/// Moves the active end, with these keys. `heard` replaces what the state says about earlier requests.
fn move_active<const N: usize>(ends: &mut Ends<N>, mkts: &MktSet<N>, heard: Option<HeardKeys>) {
    let placeholder = Connection::active(ipv4_pair(), Isn(0), mkts).unwrap();
    let mut state = std::mem::replace(&mut ends.active, placeholder).export().unwrap();
    state.heard = heard.unwrap_or(state.heard);
    let state = ConnectionState::from_octets(&state.to_octets()).unwrap();
    ends.active = Connection::import(&state, mkts).unwrap();
}

#[test]
fn ao_22_a_replay_after_a_rollover_that_was_broken_off_does_not_begin_it_anew() {
    let mut ends = Ends::<3>::with_ids(&TWO);
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    let begins = ends.numbered(0, b"asks for 2");
    assert!(ends.obeys(&begins));
    ends.passive.set_rnext_key(KeyId(1)).unwrap();
    let breaks_off = ends.numbered(10, b"asks for 1 again");
    assert!(ends.obeys(&breaks_off));
    assert!(!ends.obeys(&begins), "a replay, from a peer that holds the current key");
}

/// A key is identified by its secret, not by its ids, which are the first key's here. The lost segment acknowledges nothing new.
#[test]
fn ao_22_a_lost_segment_does_not_stop_a_rollover_to_a_new_key_under_old_ids() {
    let key = |send, recv, secret| mkt_with_secret(send, recv, TcpAoAlgorithm::HmacSha1, secret);
    for (send, recv) in [(3, 103), (1, 101)] {
        let mut ends = Ends::<3>::with_ids(&TWO);
        ends.passive.set_rnext_key(KeyId(2)).unwrap();
        ends.active.set_rnext_key(KeyId(102)).unwrap();
        ends.exchange();
        ends.active.remove_key(KeyId(1), None).unwrap();
        ends.passive.remove_key(KeyId(101), None).unwrap();
        ends.exchange();
        ends.active.add_key(&key(send, recv, b"a third secret")).unwrap();
        ends.passive.add_key(&key(recv, send, b"a third secret")).unwrap();
        drop(ends.numbered(0, b"lost"));
        let next = ends.numbered(4, b"received");
        assert!(!ends.obeys(&next));
        ends.passive.set_rnext_key(KeyId(send)).unwrap();
        ends.passive.remove_key(KeyId(102), Some(KeyId(recv))).unwrap();
        let again = ends.numbered(0, b"lost");
        assert!(ends.obeys(&again), "asks for {send}");
        ends.forth(b"acknowledged");
    }
}

#[test]
fn ao_22_a_key_that_is_given_back_after_a_move_was_asked_for_before() {
    let mut ends = Ends::<3>::with_ids(&TWO);
    let old = ends.numbered(0, b"asks for 1");
    receive(&mut ends.active, &old).unwrap();
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    let new = ends.numbered(10, b"asks for 2");
    assert!(ends.obeys(&new));
    // Another key is added and removed in between, under the ids of the first.
    ends.active.remove_key(KeyId(1), Some(KeyId(2))).unwrap();
    move_active(&mut ends, &mkts(&TWO[1..]), None);
    let other = mkt_with_secret(1, 101, TcpAoAlgorithm::HmacSha1, b"another secret");
    ends.active.replace_keys(&MktSet::from_mkts([hmac(2, 102), other]).unwrap()).unwrap();
    ends.active.replace_keys(&mkts(&TWO[1..])).unwrap();
    ends.active.replace_keys(&mkts(&TWO)).unwrap();
    assert_eq!(ends.active.current_key().send_id, KeyId(2));
    assert!(!ends.obeys(&old));
}

#[test]
fn ao_38_a_key_that_was_missing_at_a_move_was_asked_for_before() {
    let mut ends = Ends::<3>::with_ids(&TWO);
    let old = ends.numbered(0, b"asks for 1");
    receive(&mut ends.active, &old).unwrap();
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    let new = ends.numbered(10, b"asks for 2");
    assert!(ends.obeys(&new));
    ends.active.set_rnext_key(KeyId(102)).unwrap();
    move_active(&mut ends, &mkts(&TWO[1..]), None);
    ends.active.replace_keys(&mkts(&[TWO[1], TWO[0]])).unwrap();
    assert!(!ends.obeys(&old));
}

/// The operator changes the secret during the move.
#[test]
fn ao_38_another_secret_under_old_ids_at_a_move_was_never_asked_for() {
    let changed = |send, recv| mkt_with_secret(send, recv, TcpAoAlgorithm::HmacSha1, b"another secret");
    let mut ends = Ends::<3>::with_ids(&TWO);
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    ends.active.set_rnext_key(KeyId(102)).unwrap();
    ends.exchange();
    ends.exchange();
    move_active(&mut ends, &MktSet::from_mkts([hmac(2, 102), changed(1, 101)]).unwrap(), None);
    ends.passive.remove_key(KeyId(101), Some(KeyId(102))).unwrap();
    ends.passive.add_key(&changed(101, 1)).unwrap();
    drop(ends.numbered(0, b"lost"));
    let next = ends.numbered(4, b"received");
    assert!(!ends.obeys(&next));
    ends.passive.set_rnext_key(KeyId(1)).unwrap();
    ends.passive.remove_key(KeyId(102), Some(KeyId(101))).unwrap();
    let again = ends.numbered(0, b"lost");
    assert!(ends.obeys(&again));
}

/// A state has room for eight keys.
#[test]
fn ao_38_the_ninth_key_and_those_that_were_never_asked_for_may_have_been() {
    let ids: Vec<_> = (1..=10).map(|id| (id, 100 + id)).collect();
    for (asked_for, is_first) in [(8, true), (9, false)] {
        let mut ends = Ends::<10>::with_ids(&ids);
        for id in (1..=asked_for).chain([1]) {
            ends.active.set_current_key(KeyId(id)).unwrap();
        }
        let segments = [8, 9, 10].map(|id| {
            ends.passive.set_rnext_key(KeyId(id)).unwrap();
            (id, ends.numbered(0, b""))
        });
        ends.passive.set_rnext_key(KeyId(1)).unwrap();
        let newer = ends.numbered(1, b"");
        move_active(&mut ends, &mkts(&ids), None);
        receive(&mut ends.active, &newer).unwrap();
        for (id, segment) in segments {
            let expected = id > 8 && is_first;
            assert_eq!(ends.obeys(&segment), expected, "{id} after {asked_for}");
        }
    }
}

#[test]
fn ao_38_what_is_not_known_of_a_key_is_not_known_after_another_move() {
    let mut ends = Ends::<3>::with_ids(&TWO);
    move_active(&mut ends, &mkts(&TWO), Some(HeardKeys::ALL));
    ends.active.add_key(&hmac(3, 103)).unwrap();
    ends.passive.add_key(&hmac(103, 3)).unwrap();
    move_active(&mut ends, &mkts(&THREE), None);
    let segments = [2, 3, 1].map(|id| {
        ends.passive.set_rnext_key(KeyId(id)).unwrap();
        ends.numbered(0, b"")
    });
    receive(&mut ends.active, &segments[2]).unwrap();
    assert!(!ends.obeys(&segments[0]), "it may be a replay");
    assert!(ends.obeys(&segments[1]), "added in between");
}

/// A request names a SendID, so a request for one key is none for another with the same secret.
#[test]
fn ao_22_two_keys_with_one_secret_are_told_apart() {
    for is_moved in [false, true] {
        let key = |send, recv| mkt_with_secret(send, recv, TcpAoAlgorithm::HmacSha1, b"the only secret");
        let ours = MktSet::<3>::from_mkts([key(1, 101), key(2, 102)]).unwrap();
        let theirs = MktSet::from_mkts([key(101, 1), key(102, 2)]).unwrap();
        let mut ends = Ends::connect(ipv4_pair(), (1000, 5000), &ours, &theirs);
        if is_moved {
            move_active(&mut ends, &ours, None);
        }
        ends.active.add_key(&hmac(3, 103)).unwrap();
        drop(ends.numbered(0, b"lost"));
        let next = ends.numbered(4, b"received");
        receive(&mut ends.active, &next).unwrap();
        ends.passive.set_rnext_key(KeyId(2)).unwrap();
        ends.passive.remove_key(KeyId(101), Some(KeyId(102))).unwrap();
        let again = ends.numbered(0, b"lost");
        assert!(ends.obeys(&again), "moved: {is_moved}");
    }
}

/// Even if another key is added and removed many times in between.
#[test]
fn ao_22_three_keys_that_were_removed_are_remembered() {
    let mut ends = Ends::<3>::with_ids(&THREE);
    ends.passive.set_rnext_key(KeyId(3)).unwrap();
    let old = ends.numbered(0, b"asks for 3");
    assert!(ends.obeys(&old));
    for _ in 0..4 {
        ends.active.set_current_key(KeyId(1)).unwrap();
        ends.active.replace_keys(&mkts(&TWO[..1])).unwrap();
        ends.active.replace_keys(&mkts(&TWO)).unwrap();
        ends.active.set_current_key(KeyId(2)).unwrap();
    }
    ends.active.replace_keys(&mkts(&THREE)).unwrap();
    assert_eq!(ends.active.current_key().send_id, KeyId(2));
    assert!(!ends.obeys(&old));
}

/// The late segment switches back to the old key. The state records that this was doubtful, and the doubt moves with the connection.
#[test]
fn ao_38_a_segment_later_than_a_retransmission_does_not_stop_a_rollover_after_a_move() {
    for is_moved in [false, true] {
        let mut ends = Ends::<3>::with_ids(&TWO);
        let late = ends.numbered(4, b"");
        ends.passive.remove_key(KeyId(101), Some(KeyId(102))).unwrap();
        let again = ends.numbered(0, b"lost");
        assert!(ends.obeys(&again));
        assert!(ends.obeys(&late));
        if is_moved {
            move_active(&mut ends, &mkts(&TWO), None);
        }
        assert!(ends.obeys(&again));
        assert!(!ends.obeys(&late), "settled");
    }
}

/// A doubt is over once the operator chooses a key, or removes one that was asked for.
#[test]
fn ao_22_the_operators_choice_leaves_no_doubt() {
    for chooses in [true, false] {
        let mut ends = Ends::<3>::with_ids(&THREE);
        let late = ends.numbered(4, b"");
        ends.passive.set_current_key(KeyId(102)).unwrap();
        ends.passive.set_rnext_key(KeyId(2)).unwrap();
        let old = ends.numbered(0, b"lost");
        assert!(ends.obeys(&old));
        assert!(ends.obeys(&late), "a doubtful turn back");
        if chooses {
            ends.active.set_current_key(KeyId(3)).unwrap();
        } else {
            ends.active.remove_key(KeyId(1), Some(KeyId(3))).unwrap();
        }
        assert!(!ends.obeys(&old));
    }
}

/// If no request before the move is known, a key that is added afterwards was certainly not asked for.
#[test]
fn ao_38_a_lost_segment_does_not_stop_a_rollover_to_a_key_added_after_a_move() {
    let mut ends = Ends::<3>::with_ids(&TWO);
    move_active(&mut ends, &mkts(&TWO), Some(HeardKeys::ALL));
    drop(ends.numbered(0, b"lost"));
    let next = ends.numbered(4, b"received");
    receive(&mut ends.active, &next).unwrap();
    ends.active.add_key(&hmac(3, 103)).unwrap();
    ends.passive.add_key(&hmac(103, 3)).unwrap();
    ends.passive.set_rnext_key(KeyId(3)).unwrap();
    ends.passive.remove_key(KeyId(101), Some(KeyId(103))).unwrap();
    let again = ends.numbered(0, b"lost");
    assert!(ends.obeys(&again));
}

/// It is not known whether a key was asked for before the move. So the first request after it does not count as a return to an earlier key;
/// otherwise a segment from before the move could switch the key again.
#[test]
fn ao_38_a_request_for_a_key_that_may_have_been_asked_for_is_not_doubtful() {
    for moves_again in [false, true] {
        let mut ends = Ends::<3>::with_ids(&THREE);
        let old = ends.numbered(0, b"asks for 1");
        receive(&mut ends.active, &old).unwrap();
        move_active(&mut ends, &mkts(&THREE), Some(HeardKeys::ALL));
        if moves_again {
            move_active(&mut ends, &mkts(&THREE), None);
        }
        ends.passive.set_rnext_key(KeyId(3)).unwrap();
        let early = ends.numbered(0, b"retransmitted");
        assert!(!ends.obeys(&early), "it may be a replay");
        let new = ends.numbered(10, b"asks for 3");
        assert!(ends.obeys(&new));
        assert!(!ends.obeys(&old));
        // From here on it is known, and the next request is a return.
        ends.passive.set_rnext_key(KeyId(1)).unwrap();
        let back = ends.numbered(20, b"asks for 1");
        assert!(ends.obeys(&back));
    }
}

/// Linux reports the first octet that is not acknowledged, and a megabyte may be in flight after it.
#[test]
fn ao_38_acknowledgments_of_what_was_in_flight_at_a_move_are_heard() {
    for (beyond, is_heard) in [(0, true), (1, false)] {
        let mut ends = Ends::<2>::with_ids(&TWO);
        ends.exchange();
        let unacknowledged = SeqNum(ends.active_next);
        for _ in 0..800 {
            ends.forth(&[7; 1400]);
        }
        let state = ends.active.export().unwrap();
        assert_eq!(state.sent_end, SeqNum(ends.active_next));
        let state = ConnectionState {
            send_sequence: unacknowledged,
            acknowledged: unacknowledged,
            heard: HeardKeys::ALL,
            ..state
        };
        ends.active = Connection::import(&state, &mkts(&TWO)).unwrap();
        ends.passive.set_rnext_key(KeyId(2)).unwrap();
        let acknowledges = ends.active_next + beyond;
        // Not higher than the number of the last segment.
        let sequence = ends.passive.highest_sent().1.0 - 8;
        let segment = Parts::new(ipv4_pair().reversed(), ACK, sequence, acknowledges);
        let segment = segment.signed(&mut ends.passive);
        let verified = receive(&mut ends.active, &segment).unwrap();
        assert_eq!((verified.makes_progress(), verified.current_key_changed()), (is_heard, is_heard));
    }
}

/// As with a jumbogram, or before segmentation offload.
#[test]
fn ao_22_the_acknowledgment_of_a_segment_of_100_000_octets_is_heard() {
    let mut ends = Ends::<2>::connect(ipv6_pair(), (0xffff_ff00, 5), &mkts(&TWO), &mirrored(&TWO));
    let data = ends.active_data(&vec![7; 100_000]);
    receive(&mut ends.passive, &data).unwrap();
    assert_eq!(ends.active.highest_sent().1, SeqNum(ends.active_next));
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    let acknowledgment = sent(&mut ends.passive, ACK, ends.passive_next, ends.active_next);
    assert!(ends.obeys(&acknowledgment));
}

/// At 2^31 octets, an acknowledgment looks as far ahead as behind. It is a replay, since no window is that large.
#[test]
fn ao_22_an_acknowledgment_2_31_octets_behind_is_old() {
    for ahead in [0x7fff_ffff, 0x8000_0000, 0x8000_0001_u32] {
        let mut ends = Ends::<3>::with_ids(&TWO);
        let recorded = ends.numbered(0, b"");
        receive(&mut ends.active, &recorded).unwrap();
        ends.passive.set_rnext_key(KeyId(2)).unwrap();
        for octets in [0x4000_0000, ahead - 0x4000_0000] {
            ends.active_next = ends.active_next.wrapping_add(octets);
            drop(ends.active_data(b""));
            let parts = Parts::new(ipv4_pair().reversed(), ACK, ends.passive_next, ends.active_next);
            let segment = parts.signed(&mut ends.passive);
            assert!(receive(&mut ends.active, &segment).unwrap().makes_progress());
        }
        let replay = receive(&mut ends.active, &recorded).unwrap();
        assert!(!replay.current_key_changed() && !replay.makes_progress(), "{ahead:#x}");
        assert_eq!(ends.active.newest_acknowledgment(), Some(SeqNum(ends.active_next)));
    }
}

/// Only the newest segment tells which key the peer signs with, and so which key to keep ready.
#[test]
fn ao_22_a_replay_does_not_make_its_key_that_of_the_peer() {
    let mut ends = Ends::<3>::with_ids(&TWO);
    let old = ends.numbered(0, b"under 101");
    receive(&mut ends.active, &old).unwrap();
    ends.passive.set_current_key(KeyId(102)).unwrap();
    let new = ends.numbered(9, b"under 102");
    receive(&mut ends.active, &new).unwrap();
    assert_eq!(ends.active.peers_key().recv_id, KeyId(102));
    receive(&mut ends.active, &old).expect("a replay verifies");
    assert_eq!(ends.active.peers_key().recv_id, KeyId(102));
}

#[test]
fn ao_22_the_newest_segment_tells_which_key_the_peer_asks_for() {
    let mut ends = Ends::<3>::with_ids(&TWO);
    let asks_for = |ends: &Ends<3>| ends.active.asks_for().map(|id| id.0);
    assert_eq!(asks_for(&ends), Some(ends.active.current_key().send_id.0), "the SYN-ACK has asked");
    let old = ends.numbered(0, b"asks for the first");
    receive(&mut ends.active, &old).unwrap();
    assert_eq!(asks_for(&ends), Some(1));
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    let new = ends.numbered(18, b"asks for the second");
    receive(&mut ends.active, &new).unwrap();
    assert_eq!((asks_for(&ends), ends.active.current_key().send_id), (Some(2), KeyId(2)));
    receive(&mut ends.active, &old).expect("a replay verifies");
    assert_eq!(asks_for(&ends), Some(2));
    // This end's own choice is no request, and a key that this end lacks is asked for all the same.
    ends.active.set_current_key(KeyId(1)).unwrap();
    assert_eq!(asks_for(&ends), Some(2));
    ends.active.remove_key(KeyId(2), Some(KeyId(1))).unwrap();
    let again = ends.numbered(37, b"still asks for the second");
    receive(&mut ends.active, &again).unwrap();
    assert_eq!((asks_for(&ends), ends.active.current_key().send_id), (Some(2), KeyId(1)));
    let imported = Connection::import(&ends.active.export().unwrap(), &mkts::<3>(&[(1, 101)])).unwrap();
    assert_eq!(imported.asks_for(), None);
}

/// A receiver's pure ACKs all have one sequence number, and so one SNE. Recorded and replayed over 2^31 octets later, one of them looks
/// newer than all others, and requests are ignored for the next 2 GiB, even in new data.
#[test]
fn ao_22_a_replayed_acknowledgment_of_two_gigabytes_ago_does_not_deafen() {
    let mut ends = Ends::<2>::with_ids(&TWO);
    let (start, peers) = (ends.active_next, ends.passive_next);
    let ack =
        |ends: &mut Ends<2>, octets: u32| sent(&mut ends.passive, ACK, peers, start.wrapping_add(octets));
    let recorded = ack(&mut ends, 1);
    receive(&mut ends.active, &recorded).unwrap();
    for octets in [0x4000_0000, 0x8000_0000, 0x9000_0000] {
        ends.active_next = start.wrapping_add(octets);
        drop(ends.active_data(b""));
        let segment = ack(&mut ends, octets);
        receive(&mut ends.active, &segment).unwrap();
    }
    let replay = receive(&mut ends.active, &recorded).unwrap();
    let keeps_alive = replay.makes_progress();
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    for _ in 0..3 {
        ends.back(b"new data");
    }
    assert_eq!(ends.active.current_key().send_id, KeyId(2), "the peer is not heard any more");
    assert!(!keeps_alive, "a replay makes progress");
}

/// A pure ACK with the numbers of the newest segment. Replayed, it moves the current key back to one that the peer may have removed.
#[test]
fn ao_22_a_replay_with_the_newest_numbers_does_not_bring_the_old_key_back() {
    let mut ends = Ends::<2>::with_ids(&TWO);
    let (peers, next) = (ends.passive_next, ends.active_next);
    let ack = |ends: &mut Ends<2>| sent(&mut ends.passive, ACK, peers, next);
    let old = ack(&mut ends);
    receive(&mut ends.active, &old).unwrap();
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    let new = ack(&mut ends);
    assert!(ends.obeys(&new));
    assert!(!ends.obeys(&old));
}

/// After a move during a rollover, the retransmission is still the first segment under its key.
#[test]
fn ao_22_a_lost_segment_does_not_stop_a_rollover_after_a_move() {
    let mut ends = Ends::<2>::with_ids(&TWO);
    let (lost, acknowledges) = (ends.passive_next, ends.active_next);
    drop(ends.passive_data(b"lost at first"));
    ends.back(b"received");
    ends.active = Connection::import(&ends.active.export().unwrap(), &mkts(&TWO)).unwrap();
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    ends.passive.set_current_key(KeyId(102)).unwrap();
    ends.passive.remove_key(KeyId(101), None).unwrap();
    pass_with(&mut ends.passive, &mut ends.active, ACK, lost, acknowledges, b"lost at first");
    let acknowledgment = ends.active_data(b"");
    assert!(receive(&mut ends.passive, &acknowledgment).is_ok());
}
