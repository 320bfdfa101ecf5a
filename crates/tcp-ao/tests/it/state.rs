//! Counters, SNEs, and moving a connection's state: the SNE against RFC 9187's sample data and a model that counts in 64 bits, exports and
//! imports.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::*;

/// RFC 9187 §5: the SNE of each sequence number, in order of arrival. The first arrives after 0.
const RFC_9187: [(u32, u32); 29] = [
    (0x0000_0000, 0x0000_0000),
    (0x0000_0000, 0x3000_0000),
    (0x0000_0000, 0x9000_0000),
    (0x0000_0000, 0x7000_0000),
    (0x0000_0000, 0xa000_0000),
    (0x0000_0001, 0x0000_0001),
    (0x0000_0000, 0xe000_0000),
    (0x0000_0001, 0x0000_0000),
    (0x0000_0001, 0x7fff_ffff),
    (0x0000_0001, 0x0000_0000),
    (0x0000_0001, 0x5000_0000),
    (0x0000_0001, 0x8000_0000),
    (0x0000_0001, 0x0000_0001),
    (0x0000_0001, 0x4000_0000),
    (0x0000_0001, 0x9000_0000),
    (0x0000_0001, 0xb000_0000),
    (0x0000_0002, 0x0fff_ffff),
    (0x0000_0002, 0x2000_0000),
    (0x0000_0002, 0x9000_0000),
    (0x0000_0002, 0x7000_0000),
    (0x0000_0002, 0xa000_0000),
    (0x0000_0003, 0x0000_4000),
    (0x0000_0002, 0xd000_0000),
    (0x0000_0003, 0x2000_0000),
    (0x0000_0003, 0x9000_0000),
    (0x0000_0003, 0x7000_0000),
    (0x0000_0003, 0xa000_0000),
    (0x0000_0004, 0x0000_4000),
    (0x0000_0003, 0xd000_0000),
];

#[test]
fn ao_28_sample_data_of_rfc_9187() {
    let mut tracker = SneTracker::new(Isn(0));
    for (number, (sne, sequence)) in RFC_9187.into_iter().enumerate() {
        assert_eq!(
            tracker.sne_of(SeqNum(sequence)),
            Sne(sne),
            "line {number}, sequence number {sequence:#x}"
        );
        tracker.advance(SeqNum(sequence));
    }
}

#[test]
fn ao_29_a_retransmission_from_before_the_wrap_has_its_own_sne() {
    let mut tracker = SneTracker::new(Isn(0xffff_ff00));
    tracker.advance(SeqNum(0xffff_fff0));
    tracker.advance(SeqNum(0x0000_0100));
    assert_eq!(tracker.highest(), (Sne(1), SeqNum(0x100)));
    assert_eq!(tracker.sne_of(SeqNum(0xffff_fff0)), Sne(0));
    tracker.advance(SeqNum(0xffff_fff0));
    assert_eq!(tracker.highest(), (Sne(1), SeqNum(0x100)), "an older number changes nothing");
    assert_eq!(tracker.sne_of(SeqNum(0x0000_0200)), Sne(1));
}

#[test]
fn ao_30_the_highest_isn_wraps_with_the_first_octet() {
    let mut tracker = SneTracker::new(Isn(0xffff_ffff));
    assert_eq!(tracker.sne_of(SeqNum(0xffff_ffff)), Sne(0));
    assert_eq!(tracker.sne_of(SeqNum(0)), Sne(1));
    tracker.advance(SeqNum(0));
    assert_eq!(tracker.sne_of(SeqNum(0xffff_ffff)), Sne(0));
}

#[test]
fn ao_30_no_number_from_before_the_first_wrap_goes_below_zero() {
    for isn in [0, 1, 5, 0x7fff_ffff] {
        let tracker = SneTracker::new(Isn(isn));
        for back in [1, 6, 0x1000_0000, 0x7fff_ffff] {
            assert_eq!(
                tracker.sne_of(SeqNum(isn.wrapping_sub(back))),
                Sne(0),
                "ISN {isn}, {back} octets before"
            );
        }
    }
}

#[test]
fn ao_30_the_last_turn_has_no_successor() {
    let tracker = SneTracker::resume(Sne(0xffff_ffff), SeqNum(0xffff_ff00));
    assert_eq!(tracker.sne_of(SeqNum(0x10)), Sne(0xffff_ffff));
    assert_eq!(tracker.sne_of(SeqNum(0xffff_fff0)), Sne(0xffff_ffff));
}

/// A number as far behind as ahead is an old one, and a replay must not move the tracker back.
#[test]
fn ao_29_a_number_2_31_octets_behind_moves_nothing() {
    for (sne, sequence) in
        [(0, 0x9000_0000), (1, 0x9000_0000), (1, 0x1000_0000), (5, 0x7fff_ffff), (5, 0x8000_0000)]
    {
        for behind in [0x7fff_ffff_u32, 0x8000_0000] {
            let mut tracker = SneTracker::resume(Sne(sne), SeqNum(sequence));
            let old = SeqNum(sequence.wrapping_sub(behind));
            let is_in_turn_before = behind > sequence;
            assert_eq!(tracker.sne_of(old), Sne(sne - u32::from(is_in_turn_before)));
            tracker.advance(old);
            assert_eq!(tracker.highest(), (Sne(sne), SeqNum(sequence)));
        }
        // One octet further away it is nearer to the number ahead.
        let mut tracker = SneTracker::resume(Sne(sne), SeqNum(sequence));
        let ahead = SeqNum(sequence.wrapping_add(0x7fff_ffff));
        tracker.advance(ahead);
        assert_eq!(tracker.highest(), (Sne(sne + u32::from(ahead.0 < sequence)), ahead));
    }
}

/// A step that a tracker can resolve: up to 2^31 - 1 octets ahead and 2^31 behind, often at the limits.
fn step() -> impl Strategy<Value = i64> {
    let edges = prop::sample::select(vec![i32::MAX, i32::MIN, i32::MIN + 1, 0, 1, -1]);
    prop_oneof![any::<i32>(), edges, -3000..=3000].prop_map(i64::from)
}

proptest! {
    #[test]
    fn ao_29_sne_is_the_upper_half_of_a_number_counted_in_64_bits(isn: u32, steps in vec(step(), 1..200)) {
        let mut tracker = SneTracker::new(Isn(isn));
        let mut highest = i64::from(isn);
        for step in steps {
            // No segment has a number from before the connection.
            let extended = (highest + step).max(i64::from(isn));
            let sequence = SeqNum(extended as u32);
            prop_assert_eq!(tracker.sne_of(sequence), Sne((extended >> 32) as u32));
            tracker.advance(sequence);
            highest = highest.max(extended);
            prop_assert_eq!(tracker.highest(), (Sne((highest >> 32) as u32), SeqNum(highest as u32)));
        }
    }

    #[test]
    fn ao_38_a_tracker_resumes_where_another_was(sne: u32, sequence: u32, steps in vec(step(), 1..20)) {
        let mut first = SneTracker::resume(Sne(sne), SeqNum(sequence));
        for step in steps {
            let (sne, highest) = first.highest();
            let second = SneTracker::resume(sne, highest);
            prop_assert_eq!(first, second);
            let sequence = SeqNum(highest.0.wrapping_add(step as u32));
            prop_assert_eq!(first.sne_of(sequence), second.sne_of(sequence));
            first.advance(sequence);
        }
    }

    #[test]
    fn ao_37_any_number_has_an_sne_and_none_takes_the_tracker_back(sne: u32, highest: u32, step in step()) {
        let mut tracker = SneTracker::resume(Sne(sne), SeqNum(highest));
        let sequence = SeqNum(highest.wrapping_add(step as u32));
        let next = tracker.sne_of(sequence).0;
        prop_assert!(next.abs_diff(sne) <= 1);
        tracker.advance(sequence);
        let (after, SeqNum(number)) = tracker.highest();
        prop_assert!((after.0, number) >= (sne, highest) || (sne, next) == (u32::MAX, u32::MAX));
    }
}

const IDS: [(u8, u8); 2] = [(1, 101), (2, 102)];

/// The same connection in another place that has only its state and the MKTs.
fn moved(connection: Connection<2>, mkts: &MktSet<2>) -> Connection<2> {
    let state = connection.export().unwrap();
    assert_eq!(Connection::import(&state, mkts).unwrap().export().unwrap(), state);
    let imported = Connection::import(&state, mkts).unwrap();
    assert!(imported.is_established());
    imported
}

#[test]
fn ao_38_either_end_moves_in_mid_connection_and_across_the_wrap() {
    let (ours, theirs) = (mkts(&IDS), mirrored(&IDS));
    let mut ends = Ends::<2>::connect(ipv4_pair(), (0xffff_ff00, 0xffff_fe00), &ours, &theirs);
    let first = ends.active_data(b"late, from before the wrap");
    for round in 0..20 {
        if round % 2 == 0 {
            ends.active = moved(ends.active, &ours);
        } else {
            ends.passive = moved(ends.passive, &theirs);
        }
        if round == 10 {
            ends.passive.set_rnext_key(KeyId(2)).unwrap();
        }
        ends.forth(&[round; 100]);
        ends.back(&[round; 100]);
    }
    receive(&mut ends.passive, &first).unwrap();
    let (active, passive) = (ends.active.export().unwrap(), ends.passive.export().unwrap());
    assert_eq!((active.send_sne, active.receive_sne), (Sne(1), Sne(1)));
    assert_eq!((active.current_key, active.rnext_key), (KeyId(2), KeyId(101)));
    assert_eq!((passive.current_key, passive.rnext_key), (KeyId(101), KeyId(2)));
    assert_eq!((active.counters.good, active.counters.bad), (21, 0));
    assert_eq!((passive.counters.good, passive.counters.bad), (23, 0));
}

#[test]
fn ao_38_the_sequence_numbers_need_only_be_near() {
    let (ours, theirs) = (mkts(&IDS), mirrored(&IDS));
    let mut ends = Ends::<2>::connect(ipv4_pair(), (0xffff_ff00, 5), &ours, &theirs);
    for _ in 0..4 {
        ends.exchange();
    }
    // As another stack may report it: the next number to send, and a window that starts far behind.
    let mut state = ends.active.export().unwrap();
    state.send_sequence = SeqNum(ends.active_next);
    state.receive_sequence = SeqNum(state.receive_sequence.0.wrapping_add(1000));
    ends.active = Connection::import(&state, &ours).unwrap();
    for _ in 0..100 {
        ends.exchange();
    }
    assert_eq!((ends.active.counters().bad, ends.passive.counters().bad), (0, 0));
    assert_eq!(ends.passive.highest_received().0, Sne(1));
}

#[test]
fn ao_38_a_state_and_other_mkts_are_refused() {
    let ends = Ends::<2>::with_ids(&IDS);
    let state = ends.active.export().unwrap();
    let error = Connection::import(&state, &mkts::<2>(&[(2, 101)])).unwrap_err();
    assert_eq!(error, StateError::CurrentKeyMissing(KeyId(1)));
    let error = Connection::import(&state, &mkts::<2>(&[(1, 102)])).unwrap_err();
    assert_eq!(error, StateError::RnextKeyMissing(KeyId(101)));
}

#[test]
fn ao_38_octets_are_the_state() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let mut ends = Ends::<2>::connect(pair, (0xffff_ff00, 5), &mkts(&IDS), &mirrored(&IDS));
        (0..4).for_each(|_| ends.exchange());
        let state = ends.active.export().unwrap();
        let octets = state.to_octets();
        assert_eq!(ConnectionState::from_octets(&octets), Ok(state.clone()));
        // Every octet is read.
        for place in 0..octets.len() {
            let mut altered = octets;
            altered[place] ^= 1;
            assert_ne!(ConnectionState::from_octets(&altered), Ok(state.clone()), "octet {place}");
            let length = StateError::Length { expected: octets.len(), got: place };
            let error = if place == 0 { StateError::Version(0) } else { length };
            assert_eq!(ConnectionState::from_octets(&octets[..place]), Err(error));
        }
        assert_eq!(ConnectionState::from_octets(&[3; 165]), Err(StateError::Version(3)));
    }
}

/// The encoding of version 2 never changes.
#[test]
fn ao_38_octets_of_version_2_are_read() {
    let mut octets = vec![2];
    for (address, port) in [([192, 0, 2, 1], 179_u16), ([192, 0, 2, 2], 50_000)] {
        octets.extend([&[0; 10][..], &[0xff, 0xff], &address].concat());
        octets.extend(port.to_be_bytes());
    }
    (1..=8).for_each(|number: u32| octets.extend(number.to_be_bytes()));
    octets.extend([9, 10]);
    octets.extend([0; 40]);
    octets.extend([1]);
    octets.extend([0; 13]);
    (11..=15).for_each(|count: u64| octets.extend(count.to_be_bytes()));
    let expected = ConnectionState {
        pair: SocketPair {
            local: Endpoint::new([192, 0, 2, 1], 179),
            remote: Endpoint::new([192, 0, 2, 2], 50_000),
        },
        local_isn: Isn(1),
        remote_isn: Isn(2),
        send_sne: Sne(3),
        send_sequence: SeqNum(4),
        sent_end: SeqNum(5),
        receive_sne: Sne(6),
        receive_sequence: SeqNum(7),
        acknowledged: SeqNum(8),
        current_key: KeyId(9),
        rnext_key: KeyId(10),
        heard: HeardKeys::ALL,
        counters: Counters { good: 11, bad: 12, key_not_found: 13, required: 14, dropped_icmp: 15 },
    };
    assert_eq!(ConnectionState::from_octets(&octets), Ok(expected));
}

#[test]
fn ao_38_a_handshake_cannot_move() {
    let mut active = Connection::active(ipv4_pair(), Isn(1), &mkts::<2>(&IDS)).unwrap();
    let syn = sent(&mut active, SYN, 1, 0);
    let listener = mirrored::<2>(&IDS);
    let passive = Connection::passive(&listener.verify_syn(view(ipv4_pair(), &syn)).unwrap());
    assert_eq!(active.export().unwrap_err(), StateError::NotEstablished);
    assert_eq!(passive.export().unwrap_err(), StateError::NotEstablished);
}

/// The state does not say which key the peer signs with. With one in use there is no other.
#[test]
fn ao_38_whether_the_peer_uses_the_rnext_key_is_not_known_of_another_than_the_current_one() {
    for (rnext, is_known) in [(101, true), (102, false)] {
        let mut ends = Ends::<2>::with_ids(&TWO);
        ends.active.set_rnext_key(KeyId(rnext)).unwrap();
        assert_eq!(moved(ends.active, &mkts(&TWO)).peer_uses_rnext_key(), is_known, "RecvID {rnext}");
    }
}
