//! Opening (RFC 9001, section 5.5 and 9.5): what fails, what a failure leaves behind, and what is judged only afterwards.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

mod ends;

use ends::schedule::{PHASE, Schedule, seal_as_given};
use ends::{
    DESTINATION, Draft, End, NUMBER_LENGTHS, Side, Suite, TAG, protected, suites, suites_of_one_version,
};
use wireseal_quic::{
    AuthenticationFailures, DuplicateWindow, LongType, NumberLength, OpenError, PacketNumberCounter,
    PacketType, Protected, ReceiveSpace, Version,
};

const PAYLOAD: &[u8] = b"plaintext that must not stay";
/// The reserved bits of short headers and of long ones.
const RESERVED: [[u8; 3]; 2] = [[0x08, 0x10, 0x18], [0x04, 0x08, 0x0c]];

fn sealed(suite: Suite, mut draft: Draft) -> Vec<u8> {
    suite.sealer_for(Side::Client, draft.packet_type).seal(draft.outgoing()).unwrap();
    draft.octets
}

fn end(suite: Suite) -> End {
    End::new(suite.one_rtt(Side::Server, PacketNumberCounter::new()))
}

#[test]
fn q_22_any_one_flipped_bit_fails() {
    for suite in suites() {
        let drafts = [
            Draft::short(NumberLength::Two, b"some frames"),
            Draft::long(suite.version, LongType::Handshake, NumberLength::Two, b"some frames"),
            Draft::long(suite.version, LongType::Initial, NumberLength::One, b"some frames"),
        ];
        for draft in drafts {
            let keys = suite.keys_for(Side::Client, draft.packet_type);
            let packet = sealed(suite, draft);
            let (mut space, mut failures, mut opened) =
                (ReceiveSpace::new(), AuthenticationFailures::new(), 0);
            let mut open = |mut packet: Vec<u8>| {
                let parsed = Protected::split_first(&mut packet, DESTINATION.len());
                opened += usize::from(
                    parsed.is_ok_and(|(packet, _)| keys.open(packet, &mut space, &mut failures).is_ok()),
                );
                opened
            };
            for bit in 0..packet.len() * 8 {
                let mut flipped = packet.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(open(flipped), 0, "{suite:?} bit {bit}");
            }
            for end in 0..packet.len() {
                assert_eq!(open(packet[..end].to_vec()), 0, "{suite:?} cut to {end}");
            }
            assert_eq!(open(packet.clone()), 1);
            assert_eq!(space.largest(), Some(0));
            assert!(failures.count() >= 27 * 8, "tag and payload at least: {}", failures.count());
        }
    }
}

#[test]
fn q_22_any_one_flipped_bit_fails_for_one_rtt() {
    for suite in suites() {
        let mut end = end(suite);
        let packet = sealed(suite, Draft::short(NumberLength::Four, b"some frames"));
        let before = end.phases();
        // The header form bit makes it a long header.
        for bit in (0..packet.len() * 8).filter(|bit| *bit != 7) {
            let mut flipped = packet.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(end.open(&flipped), Err(OpenError::AuthenticationFailed), "{suite:?} bit {bit}");
        }
        let mut longer = packet.clone();
        longer.push(0);
        assert_eq!(end.open(&longer), Err(OpenError::AuthenticationFailed));
        assert_eq!((end.phases(), end.failures.count()), (before, packet.len() as u64 * 8));
        assert_eq!(end.open(&packet).unwrap().payload, b"some frames");
    }
}

#[test]
fn q_25_a_failed_open_leaves_no_plaintext() {
    for suite in suites_of_one_version() {
        for length in NUMBER_LENGTHS {
            for draft in [
                Draft::short(length, PAYLOAD),
                Draft::long(suite.version, LongType::Handshake, length, PAYLOAD),
            ] {
                let payload = draft.payload_offset()..draft.payload_offset() + PAYLOAD.len();
                let keys = suite.keys_for(Side::Client, draft.packet_type);
                let mut received = sealed(suite, draft);
                *received.last_mut().unwrap() ^= 1;
                let mut packet = received.clone();
                let (mut space, mut failures) = (ReceiveSpace::new(), AuthenticationFailures::new());
                let error = keys.open(protected(&mut packet), &mut space, &mut failures).unwrap_err();
                assert_eq!((error, failures.count()), (OpenError::AuthenticationFailed, 1));
                // Header and tag as they were, and zeros between.
                received[payload].fill(0);
                assert_eq!(packet, received, "{suite:?} {length:?}");
            }
        }
    }
}

#[test]
fn q_25_nor_does_an_authentic_packet_that_is_refused() {
    for suite in suites_of_one_version() {
        let mut schedule = Schedule::new(suite, Side::Client);
        for length in NUMBER_LENGTHS {
            let draft = Draft::short(length, PAYLOAD);
            let payload_offset = draft.payload_offset();
            let (packet_key, header_key) = (schedule.packet_key(0), schedule.header_key());
            let good = seal_as_given(&packet_key, &header_key, draft.clone(), 0, 3);
            let reserved = seal_as_given(&packet_key, &header_key, draft, 0x18, 4);
            let mut end = end(suite);
            end.open(&good).unwrap();
            for (packet, expected) in [(good, OpenError::Duplicate), (reserved, OpenError::ReservedBits)] {
                let mut by_keys = packet.clone();
                let keys = suite.keys(Side::Client);
                let error =
                    keys.open(protected(&mut by_keys), &mut end.space, &mut end.failures).unwrap_err();
                let (mut by_one_rtt, now) = (packet, end.now());
                let other =
                    end.one_rtt.open(protected(&mut by_one_rtt), now, &mut end.space, &mut end.failures);
                assert_eq!((error, other.unwrap_err()), (expected, expected));
                for packet in [by_keys, by_one_rtt] {
                    assert!(packet[payload_offset..].iter().all(|&octet| octet == 0));
                }
            }
            assert_eq!(end.failures.count(), 0);
        }
    }
}

#[test]
fn q_41_reserved_bits_are_judged_after_the_aead() {
    for suite in suites() {
        let mut schedule = Schedule::new(suite, Side::Client);
        let (packet_key, header_key) = (schedule.packet_key(0), schedule.header_key());
        let drafts = [
            Draft::short(NumberLength::Two, PAYLOAD),
            Draft::long(suite.version, LongType::Handshake, NumberLength::Two, PAYLOAD),
        ];
        for (draft, reserved) in drafts.into_iter().zip(RESERVED) {
            let keys = suite.keys_for(Side::Client, draft.packet_type);
            for bits in reserved {
                let authentic = seal_as_given(&packet_key, &header_key, draft.clone(), bits, 1);
                let (mut space, mut failures) = (ReceiveSpace::new(), AuthenticationFailures::new());
                let mut open = |mut packet: Vec<u8>| {
                    let result = keys
                        .open(protected(&mut packet), &mut space, &mut failures)
                        .map(|opened| opened.number);
                    (result, failures.count(), space.largest())
                };
                let mut forged = authentic.clone();
                *forged.last_mut().unwrap() ^= 1;
                assert_eq!(open(forged), (Err(OpenError::AuthenticationFailed), 1, None), "{bits:x}");
                // The attacker sets the bits of a good packet.
                let mut set = seal_as_given(&packet_key, &header_key, draft.clone(), 0, 1);
                set[0] ^= bits;
                assert_eq!(open(set), (Err(OpenError::AuthenticationFailed), 2, None));
                assert_eq!(open(authentic), (Err(OpenError::ReservedBits), 2, None));
                // Its number is not taken for seen.
                let good = seal_as_given(&packet_key, &header_key, draft.clone(), 0, 1);
                assert_eq!(open(good), (Ok(1), 2, Some(1)));
            }
        }
        assert_eq!(OpenError::ReservedBits.transport_error(), Some(0x0a));
    }
}

#[test]
fn q_41_reserved_bits_of_a_packet_that_would_update_change_nothing() {
    for suite in suites() {
        let mut end = end(suite);
        let before = end.phases();
        let packet = Schedule::new(suite, Side::Client).seal(1, PHASE | 0x18, 5, PAYLOAD);
        assert_eq!(end.open(&packet), Err(OpenError::ReservedBits));
        assert_eq!((end.phases(), end.failures.count()), (before, 0));
    }
}

#[test]
fn q_42_duplicates_are_judged_after_the_aead() {
    for suite in suites_of_one_version() {
        let mut schedule = Schedule::new(suite, Side::Client);
        let mut end = end(suite);
        let seen = schedule.seal(0, 0, 5000, PAYLOAD);
        let too_old = schedule.seal(0, 0, 5000 - DuplicateWindow::SPAN, PAYLOAD);
        let oldest = schedule.seal(0, 0, 5001 - DuplicateWindow::SPAN, PAYLOAD);
        let forge = |packet: &[u8]| {
            let mut forged = packet.to_vec();
            *forged.last_mut().unwrap() ^= 0x80;
            forged
        };
        // A forgery does not make its number seen.
        assert_eq!(end.open(&forge(&seen)), Err(OpenError::AuthenticationFailed));
        assert_eq!(end.open(&seen).unwrap().number, 5000);
        for packet in [&seen, &too_old] {
            assert_eq!(end.open(&forge(packet)), Err(OpenError::AuthenticationFailed));
            assert_eq!(end.open(packet), Err(OpenError::Duplicate));
        }
        assert_eq!(end.open(&oldest).unwrap().payload, PAYLOAD);
        assert_eq!(end.open(&oldest), Err(OpenError::Duplicate));
        assert_eq!((end.failures.count(), end.space.largest()), (3, Some(5000)));
        assert_eq!(OpenError::Duplicate.transport_error(), None);
    }
}

#[test]
fn q_42_a_stack_may_find_duplicates_itself() {
    for suite in suites_of_one_version() {
        let mut end = end(suite);
        end.space = ReceiveSpace::without_window();
        let packet = Schedule::new(suite, Side::Client).seal(0, 0, 7, PAYLOAD);
        assert_eq!(end.open(&packet), end.open(&packet));
        assert_eq!(end.space.largest(), Some(7));
    }
}

/// Whatever is wrong with a packet that is not authentic, what comes back is the same.
#[test]
fn q_43_there_is_one_kind_of_failure() {
    for suite in suites() {
        let mut schedule = Schedule::new(suite, Side::Client);
        let mut end = end(suite);
        end.open(&schedule.seal(0, 0, 100, PAYLOAD)).unwrap();
        let good = schedule.seal(0, 0, 101, PAYLOAD);
        let altered = |at: usize, by: u8| {
            let mut packet = good.clone();
            packet[at] ^= by;
            packet
        };
        let number_offset = 1 + DESTINATION.len();
        let packets = [
            ("of another connection", Schedule::new(suite, Side::Server).seal(0, 0, 101, PAYLOAD)),
            ("reserved bits", altered(0, 0x18)),
            ("key phase", altered(0, PHASE)),
            ("length of the number", altered(0, 0x03)),
            ("fixed bit", altered(0, 0x40)),
            ("connection ID", altered(1, 0x01)),
            ("number", altered(number_offset + 3, 0x02)),
            ("a number far away", altered(number_offset, 0x80)),
            ("sample", altered(number_offset + 4, 0x01)),
            ("payload", altered(number_offset + 4 + 20, 0x01)),
            ("tag", altered(good.len() - 1, 0x01)),
            ("of another phase, seen", schedule.seal(1, 0, 100, PAYLOAD)),
            ("of a phase far ahead", schedule.seal(2, 0, 101, PAYLOAD)),
            ("a number twice under a wrong key", schedule.seal(3, PHASE, 100, PAYLOAD)),
        ];
        for (count, (what, packet)) in (1..).zip(packets) {
            let before = end.phases();
            assert_eq!(end.open(&packet), Err(OpenError::AuthenticationFailed), "{suite:?} {what}");
            assert_eq!((end.phases(), end.failures.count()), (before, count), "{what}");
        }
        assert_eq!(end.open(&good).unwrap().number, 101);
        assert_eq!(OpenError::AuthenticationFailed.transport_error(), None);
    }
}

#[test]
fn q_45_a_corrupt_packet_in_the_middle_keeps_the_others() {
    for suite in suites() {
        let types = [PacketType::Initial, PacketType::Handshake, PacketType::ZeroRtt, PacketType::OneRtt];
        let keys = types.map(|packet_type| suite.keys_for(Side::Client, packet_type));
        let long = |kind| Draft::long(suite.version, kind, NumberLength::Two, PAYLOAD);
        let mut packets = [
            long(LongType::Initial),
            long(LongType::Handshake),
            long(LongType::ZeroRtt),
            Draft::short(NumberLength::Two, PAYLOAD),
        ]
        .map(|draft| sealed(suite, draft));
        for corrupt in 0..packets.len() {
            // From the number on: where a packet ends, its header says.
            let number_offset = packets[corrupt].len() - TAG - PAYLOAD.len() - 2;
            for at in (number_offset..packets[corrupt].len()).chain([0]) {
                packets[corrupt][at] ^= 1;
                let mut datagram = packets.concat();
                packets[corrupt][at] ^= 1;
                let mut failures = AuthenticationFailures::new();
                let mut seen = 0;
                for (i, packet) in Protected::split(&mut datagram, DESTINATION.len()).enumerate() {
                    let packet = packet.unwrap();
                    assert_eq!(packet.packet_type(), types[i]);
                    let mut space = ReceiveSpace::new();
                    let opened = keys[i].open(packet, &mut space, &mut failures);
                    if i == corrupt {
                        assert_eq!(opened.unwrap_err(), OpenError::AuthenticationFailed);
                    } else {
                        assert_eq!(opened.unwrap().payload, PAYLOAD, "{suite:?} {i}, {corrupt} is corrupt");
                    }
                    seen += 1;
                }
                assert_eq!((seen, failures.count()), (4, 1));
            }
        }
    }
}

/// Keys leave packets of other levels and versions alone, and those are no forgeries.
#[test]
fn q_45_packets_for_other_keys_are_left_as_they_are() {
    let types = [PacketType::Initial, PacketType::ZeroRtt, PacketType::Handshake, PacketType::OneRtt];
    for suite in suites() {
        let drafts = || {
            [LongType::Initial, LongType::ZeroRtt, LongType::Handshake]
                .map(|kind| Draft::long(suite.version, kind, NumberLength::Four, PAYLOAD))
                .into_iter()
                .chain([Draft::short(NumberLength::Four, PAYLOAD)])
        };
        for (packet_type, draft) in types.into_iter().zip(drafts()) {
            let received = sealed(suite, draft);
            for &version in Version::ALL {
                for other in types {
                    let mut packet = received.clone();
                    let keys = Suite { version, ..suite }.keys_for(Side::Client, other);
                    assert_eq!((keys.packet_type(), keys.version()), (other, version));
                    let (mut space, mut failures) = (ReceiveSpace::new(), AuthenticationFailures::new());
                    let result = keys.open(protected(&mut packet), &mut space, &mut failures).map(drop);
                    // A short header names no version.
                    if other != packet_type || (version != suite.version && other != PacketType::OneRtt) {
                        assert_eq!((result, &packet), (Err(OpenError::Undecryptable), &received));
                        assert_eq!(failures.count(), 0);
                    } else if version == suite.version {
                        assert_eq!(result, Ok(()));
                    }
                }
            }
            let mut end = end(suite);
            let is_one_rtt = packet_type == PacketType::OneRtt;
            assert_eq!(end.open(&received).is_ok(), is_one_rtt);
            assert_eq!(end.failures.count(), 0);
        }
    }
}
