//! The sequence number extension against RFC 9187's own sample data, and against a model that counts in 64 bits.

use proptest::collection::vec;
use proptest::prelude::*;
use wireseal_tcp_ao::{Isn, SeqNum, Sne, SneTracker};

/// RFC 9187 §5: the SNE that each sequence number has, in the order in which they arrive, the first after 0.
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

/// As far behind as ahead, a number is an old one, and a replay must not take the tracker back.
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

/// A step that a tracker can tell: up to 2^31 - 1 octets ahead and 2^31 behind, the edges often.
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
            // Nothing on the wire comes from before the connection.
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
