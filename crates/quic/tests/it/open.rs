//! Opening (RFC 9001 §5.5 and §9.5): what fails, what a failure leaves in the buffer, and what is checked only afterwards.

use wireseal_quic::{
    AuthenticationFailures, LongType, NumberLength, OpenError, PacketNumberCounter, PacketType, Protected,
    ReceiveSpace, Version,
};

use crate::support::schedule::{PHASE, Schedule};
use crate::support::{
    DESTINATION, Draft, End, FRAMES, Level, Receiver, Side, Suite, TAG, deliver, forged, suites,
    suites_of_one_version,
};

const PAYLOAD: &[u8] = b"plaintext that must not stay";
const TYPES: [PacketType; 4] =
    [PacketType::Initial, PacketType::Handshake, PacketType::ZeroRtt, PacketType::OneRtt];

/// One packet of each of [`TYPES`].
fn one_of_each(suite: Suite, length: NumberLength) -> [Vec<u8>; 4] {
    let long = |kind| Draft::long(suite.version, kind, length, PAYLOAD);
    let [initial, handshake, early] = [LongType::Initial, LongType::Handshake, LongType::ZeroRtt].map(long);
    [initial, handshake, early, Draft::short(length, PAYLOAD)].map(|draft| suite.sealed(draft))
}

/// The packet with each of its bits flipped, and each of its prefixes.
fn altered(packet: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let flipped = (0..packet.len() * 8).map(|bit| {
        let mut flipped = packet.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    });
    flipped.chain((0..packet.len()).map(|end| packet[..end].to_vec()))
}

#[test]
fn q_22_any_one_flipped_bit_fails() {
    for suite in suites() {
        let [short, handshake] = Draft::both(suite.version, NumberLength::Two, FRAMES);
        let initial = Draft::long(suite.version, LongType::Initial, NumberLength::One, FRAMES);
        for draft in [short, handshake, initial] {
            let mut level = suite.level(draft.packet_type);
            let packet = suite.sealed(draft);
            for mut altered in altered(&packet) {
                let parsed = Protected::split_first(&mut altered, DESTINATION.len());
                assert!(!parsed.is_ok_and(|(packet, _)| level.open_parsed(packet).is_ok()), "{suite:?}");
            }
            assert!(level.failures() >= 27 * 8, "tag and payload at least: {}", level.failures());
            level.open(&packet).unwrap();
            assert_eq!(level.space.largest(), Some(0));
        }
    }
}

#[test]
fn q_22_any_one_flipped_bit_fails_for_one_rtt() {
    for suite in suites() {
        let mut end = suite.end(Side::Server);
        let packet = suite.sealed(Draft::short(NumberLength::Four, FRAMES));
        let before = end.phases();
        let longer = [&packet[..], &[0]].concat();
        // Flipping the header form bit makes a long header.
        let flipped = altered(&packet).take(packet.len() * 8).filter(|packet| packet[0] & 0x80 == 0);
        for altered in flipped.chain([longer]) {
            assert_eq!(end.open(&altered), Err(OpenError::AuthenticationFailed), "{suite:?}");
        }
        assert_eq!((end.phases(), end.failures()), (before, packet.len() as u64 * 8));
        assert_eq!(end.open(&packet).unwrap().payload, FRAMES);
    }
}

#[test]
fn q_41_reserved_bits_are_judged_after_the_aead() {
    for suite in suites() {
        let mut schedule = Schedule::new(suite, Side::Client);
        let reserved = [[0x08, 0x10, 0x18], [0x04, 0x08, 0x0c]];
        for (draft, reserved) in
            Draft::both(suite.version, NumberLength::Two, PAYLOAD).into_iter().zip(reserved)
        {
            let mut seal = |bits| schedule.seal_draft(0, bits, 1, draft.clone());
            for bits in reserved {
                let mut level = suite.level(draft.packet_type);
                let mut open = |packet: &[u8]| {
                    let result = level.open(packet).map(|received| received.number);
                    (result, level.failures(), level.space.largest())
                };
                let failed = Err(OpenError::AuthenticationFailed);
                assert_eq!(open(&forged(&seal(bits))), (failed, 1, None), "{bits:x}");
                // The attacker sets the bits in a good packet.
                let mut set = seal(0);
                set[0] ^= bits;
                assert_eq!(open(&set), (failed, 2, None));
                assert_eq!(open(&seal(bits)), (Err(OpenError::ReservedBits), 2, None));
                // Its number was not recorded.
                assert_eq!(open(&seal(0)), (Ok(1), 2, Some(1)));
            }
        }
        assert_eq!(OpenError::ReservedBits.transport_error(), Some(0x0a));
    }
}

#[test]
fn q_41_reserved_bits_of_a_packet_that_would_update_change_nothing() {
    for suite in suites() {
        let mut end = suite.end(Side::Server);
        let before = end.phases();
        let packet = Schedule::new(suite, Side::Client).seal(1, PHASE | 0x18, 5, PAYLOAD);
        assert_eq!(end.open(&packet), Err(OpenError::ReservedBits));
        assert_eq!((end.phases(), end.failures()), (before, 0));
    }
}

#[test]
fn q_42_duplicates_are_judged_after_the_aead() {
    for suite in suites_of_one_version() {
        let mut schedule = Schedule::new(suite, Side::Client);
        let mut end = suite.end(Side::Server);
        let seen = schedule.seal(0, 0, 5000, PAYLOAD);
        let too_old = schedule.seal(0, 0, 5000 - ReceiveSpace::WINDOW, PAYLOAD);
        let oldest = schedule.seal(0, 0, 5001 - ReceiveSpace::WINDOW, PAYLOAD);
        // A forgery does not record its number.
        assert_eq!(end.open(&forged(&seen)), Err(OpenError::AuthenticationFailed));
        assert_eq!(end.open(&seen).unwrap().number, 5000);
        for packet in [&seen, &too_old] {
            assert_eq!(end.open(&forged(packet)), Err(OpenError::AuthenticationFailed));
            assert_eq!(end.open(packet), Err(OpenError::Duplicate));
        }
        assert_eq!(end.open(&oldest).unwrap().payload, PAYLOAD);
        assert_eq!(end.open(&oldest), Err(OpenError::Duplicate));
        assert_eq!((end.failures(), end.space.largest()), (3, Some(5000)));
        assert_eq!(OpenError::Duplicate.transport_error(), None);
    }
}

#[test]
fn q_42_a_stack_may_find_duplicates_itself() {
    for suite in suites_of_one_version() {
        let mut end = suite.end(Side::Server);
        end.space = ReceiveSpace::without_window();
        let packet = Schedule::new(suite, Side::Client).seal(0, 0, 7, PAYLOAD);
        let first = end.open(&packet);
        assert!(first.is_ok() && end.open(&packet) == first);
        assert_eq!(end.space.largest(), Some(7));
    }
}

/// RFC 9001 §5.7. Packets that a server seals before that use the same keys and numbers; `OneRttSealer` shows what does not compile.
#[test]
fn packets_of_before_the_handshake_is_complete_open_after_it() {
    for suite in suites() {
        let (mut client, mut server) = (
            suite.end(Side::Client),
            suite.early(Side::Server, PacketNumberCounter::starting_at(7).unwrap()),
        );
        server.skip_numbers(1);
        let mut draft = Draft::short(server.number_length(), b"0.5-RTT data");
        assert_eq!((server.next_number(), server.seal(draft.outgoing())), (Some(8), Ok(8)));
        assert_eq!(client.open(&draft.octets).unwrap().payload, b"0.5-RTT data");
        let early = client.seal(b"before the server has the client's Finished");
        let mut server = End { one_rtt: server.complete_handshake(), ..suite.end(Side::Server) };
        assert_eq!(server.open(&early).unwrap().number, 0);
        assert_eq!(deliver(&mut server, &mut client).number, 9);
    }
}

/// Every packet that is not authentic gets the same error.
#[test]
fn q_43_there_is_one_kind_of_failure() {
    for suite in suites() {
        let mut schedule = Schedule::new(suite, Side::Client);
        let mut end = suite.end(Side::Server);
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
            assert_eq!((end.phases(), end.failures()), (before, count), "{what}");
        }
        assert_eq!(end.open(&good).unwrap().number, 101);
        assert_eq!(OpenError::AuthenticationFailed.transport_error(), None);
    }
}

/// An empty payload is a PROTOCOL_VIOLATION of the peer (RFC 9000 §12.4), which only an authentic packet shows.
#[test]
fn q_43_a_packet_without_frames_is_refused_after_the_aead() {
    for suite in suites() {
        let mut schedule = Schedule::new(suite, Side::Client);
        for draft in Draft::both(suite.version, NumberLength::Four, b"") {
            let (mut level, payload_offset) = (suite.level(draft.packet_type), draft.payload_offset());
            let mut packet = schedule.seal_draft(0, 0, 7, draft);
            assert_eq!(level.open(&forged(&packet)), Err(OpenError::AuthenticationFailed));
            let error = level.open_in(&mut packet).unwrap_err();
            assert_eq!((error, error.transport_error()), (OpenError::NoFrames, Some(0x0a)));
            assert!(packet[payload_offset..].iter().all(|&octet| octet == 0));
            assert_eq!((level.space.largest(), level.failures()), (None, 1));
        }
        // Nor does it update the keys.
        let mut end = suite.end(Side::Server);
        let before = end.phases();
        assert_eq!(end.open(&schedule.seal(1, PHASE, 7, b"")), Err(OpenError::NoFrames));
        assert_eq!((end.phases(), end.failures()), (before, 0));
    }
}

#[test]
fn q_45_a_corrupt_packet_in_the_middle_keeps_the_others() {
    for suite in suites() {
        let keys = TYPES.map(|packet_type| suite.keys_for(Side::Client, packet_type));
        let packets = one_of_each(suite, NumberLength::Two);
        for corrupt in 0..packets.len() {
            // Starting at the number: the header says where a packet ends.
            let number_offset = packets[corrupt].len() - TAG - PAYLOAD.len() - 2;
            for at in (number_offset..packets[corrupt].len()).chain([0]) {
                let mut packets = packets.clone();
                packets[corrupt][at] ^= 1;
                let mut datagram = packets.concat();
                let mut failures = AuthenticationFailures::new();
                let mut seen = 0;
                for (i, packet) in Protected::split(&mut datagram, DESTINATION.len()).enumerate() {
                    let packet = packet.unwrap();
                    assert_eq!(packet.packet_type(), TYPES[i]);
                    let opened = keys[i].open(packet, &mut ReceiveSpace::new(), &mut failures);
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

/// Keys leave packets of other levels and versions unchanged, and do not count them as forgeries.
#[test]
fn q_45_packets_for_other_keys_are_left_as_they_are() {
    for suite in suites() {
        for (packet_type, received) in TYPES.into_iter().zip(one_of_each(suite, NumberLength::Four)) {
            for &version in Version::ALL {
                for other in TYPES {
                    let mut packet = received.clone();
                    let keys = Suite { version, ..suite }.keys_for(Side::Client, other);
                    assert_eq!((keys.packet_type(), keys.version()), (other, version));
                    let mut level = Level::new(keys);
                    let result = level.open_in(&mut packet).map(drop);
                    // A short header names no version.
                    if other != packet_type || (version != suite.version && other != PacketType::OneRtt) {
                        assert_eq!((result, &packet), (Err(OpenError::Undecryptable), &received));
                        assert_eq!(level.failures(), 0);
                    } else if version == suite.version {
                        assert_eq!(result, Ok(()));
                    }
                }
            }
            let mut end = suite.end(Side::Server);
            assert_eq!(end.open(&received).is_ok(), packet_type == PacketType::OneRtt);
            assert_eq!(end.failures(), 0);
        }
    }
}

/// The fields of a header are parsed once and stay readable on the authentic packet.
#[test]
fn what_is_opened_says_what_its_header_said() {
    for suite in suites() {
        for (packet_type, mut packet) in TYPES.into_iter().zip(one_of_each(suite, NumberLength::Three)) {
            let keys = suite.keys_for(Side::Client, packet_type);
            let (parsed, _) = Protected::split_first(&mut packet, DESTINATION.len()).unwrap();
            let fields = |version, ids: [&[u8]; 3]| (version, ids.map(<[u8]>::to_vec));
            let before = fields(parsed.version(), [parsed.destination(), parsed.source(), parsed.token()]);
            let opened =
                keys.open(parsed, &mut ReceiveSpace::new(), &mut AuthenticationFailures::new()).unwrap();
            let after = fields(opened.version(), [opened.destination(), opened.source(), opened.token()]);
            assert_eq!((&before, opened.packet_type()), (&after, packet_type));
            let is_long = packet_type != PacketType::OneRtt;
            let (source, token): (&[u8], &[u8]) = (
                if is_long { b"source" } else { b"" },
                if packet_type == PacketType::Initial { b"a token" } else { b"" },
            );
            assert_eq!(after, fields(is_long.then_some(suite.version), [&DESTINATION, source, token]));
        }
    }
}
