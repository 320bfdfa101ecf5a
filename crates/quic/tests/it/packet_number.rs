//! Packet numbers: how many octets are sent, which number they mean, and that no number is used twice (RFC 9000 §12.3, §17.1 and §A).

use std::time::Duration;

use proptest::prelude::*;
use wireseal_quic::hazmat::PathId;
use wireseal_quic::{
    Keys, MAX_PACKET_NUMBER, Now, NumberLength, OneRtt, OpenError, PacketNumberCounter, PacketType,
    Protected, SealError, Sealer, TrafficSecret, decode_packet_number,
};

use crate::support::schedule::Schedule;
use crate::support::{
    DESTINATION, Draft, End, FRAMES, NUMBER_LENGTHS, PROBE_TIMEOUT, Receiver, Side, deliver, forged, nearest,
    suites_of_one_version,
};

const NOW: Now = Now { time: Duration::ZERO, probe_timeout: PROBE_TIMEOUT };

/// Mostly numbers near the edges of windows and of the range.
fn number() -> impl Strategy<Value = u64> {
    let near = |center: u64| (0..600_u64).prop_map(move |by| center.saturating_add(by).saturating_sub(300));
    prop_oneof![
        0..=MAX_PACKET_NUMBER,
        near(0),
        near(1 << 8),
        near(1 << 16),
        near(1 << 24),
        near(1 << 31),
        near(1 << 32),
        near(MAX_PACKET_NUMBER - (1 << 32)),
        near(MAX_PACKET_NUMBER - (1 << 16)),
        near(MAX_PACKET_NUMBER),
    ]
    .prop_map(|number| number.min(MAX_PACKET_NUMBER))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn q_17_the_nearest_number_is_meant(largest in prop::option::of(number()), truncated: u32) {
        for length in NUMBER_LENGTHS {
            let decoded = decode_packet_number(largest, truncated, length);
            prop_assert_eq!(decoded, nearest(largest, truncated, length), "{:?} {:x} {:?}", largest, truncated, length);
        }
    }

    /// The largest number the receiver knows may be any from the largest acknowledged to the one before this.
    #[test]
    fn q_17_as_many_octets_as_needed_are_recognised(number in number(), in_flight in number(), received in number()) {
        let in_flight = in_flight % 0x8000_0000;
        let acknowledged = number.checked_sub(in_flight + 1);
        let unknown = acknowledged.map_or(0, |acknowledged| acknowledged + 1);
        let largest = match acknowledged {
            Some(acknowledged) => Some(acknowledged + received % (number - acknowledged)),
            None => (unknown + received % (number + 1)).checked_sub(1),
        };
        let length = NumberLength::needed(number, acknowledged);
        if acknowledged.is_some() || number < 0x8000_0000 {
            prop_assert_eq!(decode_packet_number(largest, number as u32, length), number, "{:?} {:?}", largest, length);
        }
    }

    #[test]
    fn q_17_no_octet_more_than_needed(in_flight in 1..0x8000_0000_u64, number in number()) {
        let acknowledged = number.checked_sub(in_flight);
        let unacknowledged = acknowledged.map_or(number + 1, |_| in_flight);
        // RFC 9000 §17.1: twice as many numbers as are unacknowledged.
        let fewest = (1..4).find(|octets| 2 * unacknowledged <= 1 << (8 * octets)).unwrap_or(4);
        prop_assert_eq!(NumberLength::needed(number, acknowledged).octets(), fewest);
    }
}

#[test]
fn q_17_the_edges_of_each_window() {
    for length in NUMBER_LENGTHS {
        let half = 1_u64 << (8 * length.octets() - 1);
        let largest = 0x1234_5678_9abc;
        let expected = largest + 1;
        for number in [expected - half + 1, expected - 1, expected, expected + half - 1, expected + half] {
            assert_eq!(decode_packet_number(Some(largest), number as u32, length), number, "{length:?}");
        }
        let (too_old, too_new) = (expected - half, expected + half + 1);
        assert_eq!(decode_packet_number(Some(largest), too_old as u32, length), too_old + 2 * half);
        assert_eq!(decode_packet_number(Some(largest), too_new as u32, length), too_new - 2 * half);
        // There are no numbers below 0 or above 2^62-1.
        assert_eq!(decode_packet_number(None, (2 * half - 1) as u32, length), 2 * half - 1);
        for low in [0, 5] {
            let number = (1 << 62) - 2 * half + u64::from(low);
            assert_eq!(decode_packet_number(Some(MAX_PACKET_NUMBER - 1), low, length), number);
        }
        assert_eq!(decode_packet_number(Some(MAX_PACKET_NUMBER - 1), u32::MAX, length), MAX_PACKET_NUMBER);
    }
    // RFC 9000 §A.2: one octet distinguishes 0x80 numbers, and so on.
    for (unacknowledged, octets) in
        [(1, 1), (0x80, 1), (0x81, 2), (0x8000, 2), (0x8001, 3), (0x80_0000, 3), (0x80_0001, 4), (1 << 40, 4)]
    {
        assert_eq!(NumberLength::needed(1 << 50, Some((1 << 50) - unacknowledged)).octets(), octets);
        assert_eq!(NumberLength::needed(unacknowledged - 1, None).octets(), octets);
    }
    assert_eq!(NumberLength::needed(5, Some(5)), NumberLength::One);
    assert_eq!(NumberLength::needed(5, Some(u64::MAX)), NumberLength::One);
}

/// RFC 9000 §17.1: a packet must be decodable even if it arrives after others that were sent later.
#[test]
fn q_17_as_many_octets_as_advised_are_recognised_after_later_packets() {
    for (unacknowledged, octets, later) in [
        (1, 2, 0x7ffe),
        (0x4000, 2, 0x7ffe),
        (0x4001, 3, 0x7f_fffe),
        (0x40_0000, 3, 0x7f_fffe),
        (0x40_0001, 4, 0x7fff_fffe),
    ] {
        let number = 0x1234_5678_9abc_u64;
        let advised = NumberLength::advised(number, Some(number - unacknowledged));
        assert_eq!(advised.octets(), octets, "{unacknowledged}");
        assert_eq!(NumberLength::advised(unacknowledged - 1, None), advised);
        let decoded = |received| decode_packet_number(Some(received), number as u32, advised);
        // The highest packet received: from the acknowledged one to the last one that may overtake this packet.
        for received in [number - unacknowledged, number - 1, number + 1, number + later] {
            assert_eq!(decoded(received), number, "{unacknowledged} {received}");
        }
        assert_ne!(decoded(number + later + 1), number);
        // This packet may be at least twice as far behind the latest as it is ahead of the largest acknowledged.
        assert!(later >= 2 * unacknowledged - 2 || octets == 4);
    }
}

#[test]
fn q_17_packets_of_the_advised_length_may_be_overtaken_by_hundreds() {
    for suite in suites_of_one_version() {
        let [mut ours, mut theirs] = suite.ends();
        let mut packets: Vec<_> = (0..600_u64)
            .map(|_| {
                let mut draft = Draft::short(ours.one_rtt.number_length(), FRAMES);
                let number = ours.one_rtt.seal(draft.outgoing()).unwrap();
                (number, draft.octets)
            })
            .collect();
        packets.rotate_left(300);
        for (number, packet) in packets {
            assert_eq!(theirs.open(&packet).map(|received| received.number), Ok(number));
        }
        assert_eq!(theirs.failures(), 0);
    }
}

/// A peer that makes up acknowledgments must not cause shorter numbers (RFC 9000 §21.4).
#[test]
fn q_17_an_acknowledgment_of_a_skipped_number_does_not_shorten_the_next() {
    let suite = suites_of_one_version().next().unwrap();
    // The gap may be made before there are 1-RTT keys, which take over the counter from 0-RTT.
    for is_early in [false, true] {
        let mut counter = PacketNumberCounter::new();
        if is_early {
            let mut sealer = suite.sealer_for(PacketType::OneRtt, counter);
            sealer.seal(Draft::short(NumberLength::Four, FRAMES).outgoing()).unwrap();
            sealer.skip_numbers(20_000);
            sealer.skip_numbers(20_000);
            counter = sealer.into_counter();
        }
        let mut end = suite.end(Side::Client);
        end.one_rtt = suite.one_rtt(Side::Client, counter);
        if !is_early {
            end.seal(FRAMES);
            end.one_rtt.skip_numbers(20_000);
            end.one_rtt.skip_numbers(20_000);
        }
        let length = |end: &mut End, acknowledged| {
            end.one_rtt.acknowledged(acknowledged, 0, NOW).unwrap();
            end.one_rtt.number_length()
        };
        for skipped in [1, 20_000, 20_001, 40_000, 40_001, u64::MAX] {
            assert_eq!(length(&mut end, skipped), NumberLength::Three, "{skipped}");
        }
        end.seal(FRAMES);
        assert_eq!(length(&mut end, 40_000), NumberLength::Three);
        assert_eq!(length(&mut end, 40_001), NumberLength::Two);
    }
}

/// A peer that has received only what it acknowledged would decode a shorter number wrongly, and count the packet as a forgery.
#[test]
fn q_17_no_number_too_short_for_the_peer_is_sealed() {
    for suite in suites_of_one_version() {
        for (distance, expected) in
            [(1, 1), (0x80, 1), (0x81, 2), (0x82, 2), (0x8000, 2), (0x8002, 3), (0x80_0002, 4)]
        {
            let [mut ours, mut theirs] = suite.ends();
            ours.one_rtt.skip_numbers(0x10_0000);
            deliver(&mut ours, &mut theirs);
            theirs.acknowledge_to(&mut ours);
            ours.one_rtt.skip_numbers(distance - 1);
            assert!(ours.one_rtt.number_length().octets() >= expected);
            for length in NUMBER_LENGTHS {
                let (number, got) = (0x10_0000 + distance, length.octets());
                let mut draft = Draft::short(length, FRAMES);
                let untouched = draft.octets.clone();
                let result = ours.one_rtt.seal(draft.outgoing());
                if got < expected {
                    assert_eq!(
                        result,
                        Err(SealError::NumberTooShort { needed: expected, got }),
                        "{distance}"
                    );
                    assert_eq!((draft.octets, ours.one_rtt.next_number()), (untouched, Some(number)));
                } else {
                    assert_eq!(theirs.open(&draft.octets).map(|received| received.number), Ok(number));
                    break;
                }
            }
        }
    }
}

/// RFC 9000 §17.1: with more than 2^31 numbers unacknowledged, the peer cannot decode any.
#[test]
fn q_17_where_four_octets_are_too_few_nothing_is_sealed() {
    let suite = suites_of_one_version().next().unwrap();
    let mut draft = Draft::short(NumberLength::Four, FRAMES);
    for (acknowledged, last) in [(None, (1 << 31) - 1), (Some(5), (1 << 31) + 5)] {
        let counter = PacketNumberCounter::starting_at(last).unwrap();
        let mut one_rtt = suite.one_rtt(Side::Client, counter);
        if let Some(largest) = acknowledged {
            one_rtt.acknowledged(largest, 0, NOW).unwrap();
        }
        assert_eq!(one_rtt.seal(draft.clone().outgoing()), Ok(last));
        let too_short = Err(SealError::NumberTooShort { needed: 5, got: 4 });
        assert_eq!(one_rtt.seal(draft.outgoing()), too_short);
        assert_eq!(one_rtt.number_length(), NumberLength::Four);
        // A number that was not sent acknowledges nothing; one that was sent does.
        one_rtt.acknowledged(last + 1, 0, NOW).unwrap();
        assert_eq!(one_rtt.seal(draft.outgoing()), too_short);
        one_rtt.acknowledged(last, 0, NOW).unwrap();
        assert_eq!(one_rtt.number_length(), NumberLength::Two);
        assert_eq!(one_rtt.seal(draft.clone().outgoing()), Ok(last + 1));
        one_rtt.skip_numbers(u64::MAX / 4 - last - 2);
        let too_short = Err(SealError::NumberTooShort { needed: 8, got: 4 });
        assert_eq!(one_rtt.seal(draft.outgoing()), too_short);
    }
}

#[test]
fn q_17_the_last_numbers_are_sealed_with_their_own_nonces() {
    for suite in suites_of_one_version() {
        let mut schedule = Schedule::new(suite, Side::Client);
        let (header_key, packet_key) = (schedule.header_key(), schedule.packet_key(0));
        let counter = PacketNumberCounter::starting_at(MAX_PACKET_NUMBER - 1).unwrap();
        let mut sealer = suite.sealer_for(PacketType::OneRtt, counter);
        for expected in [MAX_PACKET_NUMBER - 1, MAX_PACKET_NUMBER] {
            let mut draft = Draft::short(NumberLength::Four, FRAMES);
            assert_eq!(sealer.seal(draft.outgoing()), Ok(expected));
            let payload_offset = draft.payload_offset();
            let sample = *draft.octets[draft.number_offset + 4..].first_chunk().unwrap();
            let (before, behind) = draft.octets.split_at_mut(draft.number_offset);
            header_key.unprotect(&sample, &mut before[0], behind);
            let (header, body) = draft.octets.split_at_mut(payload_offset);
            assert_eq!(header[1 + DESTINATION.len()..], (expected as u32).to_be_bytes());
            assert_eq!(packet_key.open(PathId(0), expected, header, body).unwrap(), FRAMES);
        }
    }
}

#[test]
fn q_17_no_number_above_the_last_is_opened() {
    for suite in suites_of_one_version() {
        let key = Schedule::new(suite, Side::Client).packet_key(0);
        for number in [MAX_PACKET_NUMBER + 1, u64::MAX] {
            let mut body = *b"some frames, and a tag of 16 octets";
            assert_eq!(key.open(PathId(0), number, b"", &mut body), None);
            assert!(body[..body.len() - 16].iter().all(|&octet| octet == 0));
        }
    }
}

#[test]
fn q_18_decoding_is_relative_to_the_largest_that_was_authentic() {
    for suite in suites_of_one_version() {
        let mut level = suite.level(PacketType::OneRtt);
        let mut schedule = Schedule::new(suite, Side::Client);
        let mut seal =
            |number, length, bits| schedule.seal_draft(0, bits, number, Draft::short(length, FRAMES));
        let mut open = |packet: Vec<u8>| {
            let opened = level.open(&packet).map(|received| received.number);
            (opened, level.space.largest())
        };
        assert_eq!(open(seal(1000, NumberLength::Four, 0)), (Ok(1000), Some(1000)));
        // Neither a forgery nor a refused packet moves the window.
        let forged = forged(&seal(100_000, NumberLength::Four, 0));
        assert_eq!(open(forged), (Err(OpenError::AuthenticationFailed), Some(1000)));
        let reserved = seal(100_000, NumberLength::Four, 0x10);
        assert_eq!(open(reserved), (Err(OpenError::ReservedBits), Some(1000)));
        assert_eq!(open(seal(1000, NumberLength::One, 0)), (Err(OpenError::Duplicate), Some(1000)));
        assert_eq!(open(seal(1129, NumberLength::One, 0)), (Ok(1129), Some(1129)));
        // A late packet does not move it back: 1002 is too old for one octet, 1003 is not.
        assert_eq!(open(seal(1003, NumberLength::One, 0)), (Ok(1003), Some(1129)));
        assert_eq!(open(seal(1002, NumberLength::One, 0)).0, Err(OpenError::AuthenticationFailed));
        assert_eq!(open(seal(1258, NumberLength::One, 0)), (Ok(1258), Some(1258)));
    }
}

#[test]
fn q_19_no_number_above_the_last_is_sealed() {
    assert_eq!(PacketNumberCounter::starting_at(1 << 62), Err(SealError::NumbersExhausted));
    assert_eq!(PacketNumberCounter::starting_at(u64::MAX), Err(SealError::NumbersExhausted));
    for suite in suites_of_one_version() {
        let counter = || PacketNumberCounter::starting_at(MAX_PACKET_NUMBER - 1).unwrap();
        let mut sealer = suite.sealer_for(PacketType::OneRtt, counter());
        let mut one_rtt = suite.one_rtt(Side::Client, counter());
        one_rtt.acknowledged(MAX_PACKET_NUMBER - 2, 0, NOW).unwrap();
        let mut draft = Draft::short(NumberLength::Four, FRAMES);
        let untouched = draft.octets.clone();
        for last in [MAX_PACKET_NUMBER - 1, MAX_PACKET_NUMBER] {
            assert_eq!(sealer.next_number(), Some(last));
            assert_eq!(sealer.seal(draft.clone().outgoing()), Ok(last));
            assert_eq!(one_rtt.seal(draft.clone().outgoing()), Ok(last));
        }
        for _ in 0..3 {
            assert_eq!((sealer.next_number(), one_rtt.next_number()), (None, None));
            assert_eq!(sealer.seal(draft.outgoing()), Err(SealError::NumbersExhausted));
            assert_eq!(one_rtt.seal(draft.outgoing()), Err(SealError::NumbersExhausted));
            sealer.skip_numbers(u64::MAX);
            one_rtt.skip_numbers(u64::MAX);
        }
        assert_eq!(draft.octets, untouched);
        let key = Schedule::new(suite, Side::Client).packet_key(0);
        let mut payload = FRAMES.to_vec();
        for number in [1 << 62, u64::MAX] {
            assert_eq!(key.seal(PathId(0), number, b"", &mut payload), Err(SealError::NumbersExhausted));
        }
        assert_eq!(payload, FRAMES);
        assert!(key.seal(PathId(0), MAX_PACKET_NUMBER, b"", &mut payload).is_ok());
        // The last number, whose two low octets are ones, by the key alone.
        let header_key = Schedule::new(suite, Side::Client).header_key();
        let mut packet = [0x41, 0xff, 0xff, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(key.seal_packet(&header_key, PathId(0), MAX_PACKET_NUMBER, &mut packet, 3), Ok(()));
        let (packet, _) = Protected::split_first(&mut packet, 0).unwrap();
        let unmasked = header_key.unmask(packet, Some(MAX_PACKET_NUMBER - 1)).unwrap();
        assert_eq!(unmasked.number(), MAX_PACKET_NUMBER);
        assert_eq!(unmasked.open_by(&key, PathId(0)).unwrap().payload, [1, 2, 3]);
    }
}

#[derive(Clone, Debug)]
enum Sealing {
    One,
    Skip(u16),
    Refused,
    /// The counter moves to other keys, as after a Retry.
    Rekey,
}

fn sealings() -> impl Strategy<Value = Vec<Sealing>> {
    let sealing = prop_oneof![
        Just(Sealing::One),
        any::<u16>().prop_map(Sealing::Skip),
        Just(Sealing::Refused),
        Just(Sealing::Rekey),
    ];
    prop::collection::vec(sealing, 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn q_19_every_number_is_given_once(first in number(), sealings in sealings()) {
        let suite = suites_of_one_version().next().unwrap();
        let first = first.min(MAX_PACKET_NUMBER - (1 << 22));
        let counter = PacketNumberCounter::starting_at(first).unwrap();
        let mut sealer = suite.sealer_for(PacketType::OneRtt, counter);
        let draft = Draft::short(NumberLength::Four, FRAMES);
        let mut next = first;
        for sealing in sealings {
            match sealing {
                Sealing::One => {
                    prop_assert_eq!(sealer.seal(draft.clone().outgoing()), Ok(next));
                    next += 1;
                }
                Sealing::Skip(count) => {
                    sealer.skip_numbers(count.into());
                    next += u64::from(count);
                }
                Sealing::Refused => {
                    let mut short = Draft::short(NumberLength::Two, b"1");
                    prop_assert!(sealer.seal(short.outgoing()).is_err());
                }
                Sealing::Rekey => {
                    sealer = Sealer::new(suite.keys_for(Side::Server, PacketType::OneRtt), sealer.into_counter());
                }
            }
            prop_assert_eq!(sealer.next_number(), Some(next));
        }
    }
}

/// A clone could seal with the same number again. If any of these could be cloned, this would not compile.
#[test]
fn q_19_neither_keys_nor_counters_can_be_cloned() {
    trait AmbiguousIfClone<Marker> {
        const IS_NO_CLONE: bool = true;
    }
    struct Clonable;
    impl<T> AmbiguousIfClone<()> for T {}
    impl<T: Clone> AmbiguousIfClone<Clonable> for T {}
    assert!(
        [
            <PacketNumberCounter as AmbiguousIfClone<_>>::IS_NO_CLONE,
            <Keys as AmbiguousIfClone<_>>::IS_NO_CLONE,
            <Sealer as AmbiguousIfClone<_>>::IS_NO_CLONE,
            <OneRtt as AmbiguousIfClone<_>>::IS_NO_CLONE,
            <TrafficSecret as AmbiguousIfClone<_>>::IS_NO_CLONE,
        ]
        .iter()
        .all(|is_no_clone| *is_no_clone)
    );
}
