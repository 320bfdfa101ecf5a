//! Sealing (RFC 9001 §5.3): nonces, associated data and sizes. Whole packets with the caller's own numbers (feature `hazmat`) are the same
//! octets as step by step.

use aes_gcm::aead::{AeadInOut, KeyInit};
use proptest::prelude::*;
use wireseal_quic::hazmat::{MAX_PAYLOAD_LENGTH, PacketKey, PathId};
use wireseal_quic::{
    AeadAlgorithm, Backend, LongType, MAX_PACKET_NUMBER, NumberLength, OpenError, Outgoing,
    PacketNumberCounter, PacketType, Protected, SealError,
};

use crate::support::schedule::Schedule;
use crate::support::{
    DESTINATION, Draft, FRAMES as PAYLOAD, NUMBER_LENGTHS, Receiver, Side, Suite, TAG, protected, suites,
    suites_of_one_version,
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The nonce is the IV xor the path's 32 bits and the number's 64.
    #[test]
    fn q_20_the_nonce_is_iv_xor_path_and_number(
        key: [u8; 32],
        iv: [u8; 12],
        path in prop_oneof![Just(0), any::<u32>()],
        number in prop_oneof![0..300_u64, 0..=MAX_PACKET_NUMBER],
    ) {
        let mut nonce = iv;
        for (octet, by) in nonce.iter_mut().zip(path.to_be_bytes().into_iter().chain(number.to_be_bytes())) {
            *octet ^= by;
        }
        let mut expected = PAYLOAD.to_vec();
        let cipher = aes_gcm::Aes128Gcm::new_from_slice(&key[..16]).unwrap();
        let tag = cipher.encrypt_inout_detached(&nonce.into(), b"header", expected.as_mut_slice().into()).unwrap();
        for &backend in Backend::ALL {
            for algorithm in AeadAlgorithm::ALL {
                let key = &key[..algorithm.key_length()];
                let with_iv = |iv: &[u8; 12]| PacketKey::with_backend(backend, algorithm, key, iv).unwrap();
                let mut sealed = PAYLOAD.to_vec();
                let sealed_tag = with_iv(&iv).seal(PathId(path), number, b"header", &mut sealed).unwrap();
                let mut at_zero = PAYLOAD.to_vec();
                let tag_at_zero = with_iv(&nonce).seal(PathId(0), 0, b"header", &mut at_zero).unwrap();
                prop_assert_eq!((&sealed, sealed_tag), (&at_zero, tag_at_zero));
                if algorithm == AeadAlgorithm::Aes128Gcm {
                    prop_assert_eq!((&sealed, &sealed_tag[..]), (&expected, &tag[..]));
                }
            }
        }
    }
}

#[test]
fn q_20_path_0_is_the_single_path() {
    for suite in suites() {
        let mut one_rtt = suite.one_rtt(Side::Client, PacketNumberCounter::starting_at(0x0102_0304).unwrap());
        let mut schedule = Schedule::new(suite, Side::Client);
        let mut draft = Draft::short(NumberLength::Four, PAYLOAD);
        let number = one_rtt.seal(draft.outgoing()).unwrap();
        assert_eq!(schedule.open(0, &draft.octets), Some((number, PAYLOAD.to_vec())));
        let key = schedule.packet_key(0);
        for path in [PathId(1), PathId(0x0100_0000), PathId(u32::MAX)] {
            let mut body = [PAYLOAD, &[0; TAG]].concat();
            let (payload, tag) = body.split_at_mut(PAYLOAD.len());
            tag.copy_from_slice(&key.seal(path, number, b"header", payload).unwrap());
            assert_eq!(key.open(PathId(0), number, b"header", &mut body.clone()), None);
            assert_eq!(key.open(path, number, b"header", &mut body).as_deref(), Some(PAYLOAD));
        }
    }
}

/// A packet opens after others as it does alone: its associated data is its own header and nothing before it.
#[test]
fn q_21_the_associated_data_starts_at_this_packet() {
    for suite in suites() {
        let kinds = [LongType::Initial, LongType::Handshake];
        let mut lengths = Vec::new();
        let mut datagram = Vec::new();
        for kind in kinds {
            let mut sealer = suite.sealer_for(kind.into(), PacketNumberCounter::new());
            for length in NUMBER_LENGTHS {
                let draft = Draft::long(suite.version, kind, length, PAYLOAD);
                lengths.push(draft.octets.len());
                datagram.extend_from_slice(&draft.octets);
                let at = datagram.len() - draft.octets.len();
                let Draft { number_offset, number_length, .. } = draft;
                sealer.seal(Outgoing { packet: &mut datagram[at..], number_offset, number_length }).unwrap();
            }
        }
        // Each alone, then all of them coalesced.
        let mut levels = kinds.map(|kind| suite.level(kind.into()));
        let mut rest = &datagram[..];
        for (i, length) in lengths.into_iter().enumerate() {
            let (alone, behind) = rest.split_at(length);
            assert_eq!(levels[i / 4].open(alone).unwrap().payload, PAYLOAD);
            rest = behind;
        }
        let mut levels = kinds.map(|kind| suite.level(kind.into()));
        let opened = Protected::split(&mut datagram, DESTINATION.len())
            .enumerate()
            .map(|(i, packet)| levels[i / 4].open_parsed(packet.unwrap()).unwrap().number);
        assert!(opened.eq((0..4).chain(0..4)), "{suite:?}");
    }
}

#[test]
fn q_23_payloads_of_every_size() {
    let sizes =
        (1..40).chain([255, 256, 1200, 1452, 1500, 16_383, 16_384, 65_526, 65_527, MAX_PAYLOAD_LENGTH]);
    for size in sizes {
        let payload: Vec<u8> = (0..size).map(|i| i as u8).collect();
        for suite in suites_of_one_version() {
            for draft in Draft::both(suite.version, NumberLength::Four, &payload) {
                let mut level = suite.level(draft.packet_type);
                let sealed = suite.sealed(draft);
                assert_eq!(level.open(&sealed).unwrap().payload, payload, "{suite:?} {size}");
            }
        }
    }
}

/// The peer would treat it as a PROTOCOL_VIOLATION (RFC 9000 §12.4). The AEAD alone seals it.
#[test]
fn q_23_a_packet_without_frames_is_not_sealed() {
    for suite in suites() {
        let [mut end, _] = suite.ends();
        let mut early = suite.early(Side::Client, PacketNumberCounter::new());
        let mut schedule = Schedule::new(suite, Side::Client);
        let (packet_key, header_key) = (schedule.packet_key(0), schedule.header_key());
        for number_length in NUMBER_LENGTHS {
            let kinds = [LongType::Initial, LongType::ZeroRtt, LongType::Handshake];
            let long = kinds.map(|kind| Draft::long(suite.version, kind, number_length, b""));
            for draft in long.into_iter().chain([Draft::short(number_length, b"")]) {
                let mut sealer = suite.sealer_for(draft.packet_type, PacketNumberCounter::new());
                let is_short = draft.packet_type == PacketType::OneRtt;
                let refused = |seal: &mut dyn FnMut(Outgoing<'_>) -> Result<u64, SealError>| {
                    let mut tried = draft.clone();
                    assert_eq!(
                        seal(tried.outgoing()),
                        Err(SealError::NoFrames),
                        "{suite:?} {number_length:?}"
                    );
                    assert_eq!(tried.octets, draft.octets);
                };
                refused(&mut |outgoing| sealer.seal(outgoing));
                if is_short {
                    refused(&mut |outgoing| early.seal(outgoing));
                    refused(&mut |outgoing| end.one_rtt.seal(outgoing));
                }
                let mut packet = draft.octets.clone();
                packet[0] |= number_length.octets() as u8 - 1;
                let untouched = packet.clone();
                let offset = draft.payload_offset();
                let sealed = packet_key.seal_packet(&header_key, PathId(0), 0, &mut packet, offset);
                assert_eq!((sealed, packet), (Err(SealError::NoFrames), untouched));
                let unused = [sealer.next_number(), early.next_number(), end.one_rtt.next_number()];
                assert_eq!(unused, [Some(0); 3]);
            }
        }
        let mut tag = packet_key.seal(PathId(0), 0, b"header", &mut []).unwrap();
        assert_eq!(packet_key.open(PathId(0), 0, b"header", &mut tag).as_deref(), Some(&[][..]));
    }
}

#[test]
fn q_23_above_the_largest_payload_nothing_is_sealed() {
    for suite in suites_of_one_version() {
        let got = MAX_PAYLOAD_LENGTH + 1;
        let mut draft = Draft::short(NumberLength::One, &vec![7; got]);
        let untouched = draft.octets.clone();
        let error = SealError::TooLong { maximum: 65_535, got };
        let mut sealer = suite.sealer();
        assert_eq!(sealer.seal(draft.outgoing()), Err(error));
        assert_eq!((&draft.octets, sealer.next_number()), (&untouched, Some(0)));
        let key = Schedule::new(suite, Side::Client).packet_key(0);
        let mut payload = vec![7; got];
        assert_eq!(key.seal(PathId(0), 0, b"", &mut payload), Err(error));
        assert!(payload.iter().all(|&octet| octet == 7));
        assert!(key.seal(PathId(0), 0, b"", &mut payload[..MAX_PAYLOAD_LENGTH]).is_ok());
    }
}

/// The draft with number, its length and key phase filled in, as `seal_packet` expects it.
fn complete(mut draft: Draft, number: u64, key_phase: bool) -> Draft {
    let octets = draft.number_length.octets();
    let is_short = draft.octets[0] & 0x80 == 0;
    draft.octets[0] |= octets as u8 - 1;
    draft.octets[0] |= if is_short && key_phase { 0x04 } else { 0 };
    let range = draft.number_offset..draft.payload_offset();
    draft.octets[range].copy_from_slice(&number.to_be_bytes()[8 - octets..]);
    draft
}

/// AEAD first, mask afterwards.
fn step_by_step(suite: Suite, path: PathId, number: u64, draft: &Draft) -> Vec<u8> {
    let mut schedule = Schedule::new(suite, Side::Client);
    let mut packet = draft.octets.clone();
    let (header, body) = packet.split_at_mut(draft.payload_offset());
    let (payload, tag) = body.split_last_chunk_mut::<TAG>().unwrap();
    *tag = schedule.packet_key(0).seal(path, number, header, payload).unwrap();
    let sample = *packet[draft.number_offset + 4..].first_chunk().unwrap();
    let (before, number) = packet.split_at_mut(draft.number_offset);
    schedule.header_key().protect(&sample, &mut before[0], number);
    packet
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whole_packets_are_sealed_and_opened_as_step_by_step(
        payload in prop::collection::vec(any::<u8>(), 4..1500),
        number in prop_oneof![0..1000_u64, 0..=MAX_PACKET_NUMBER],
        path in prop_oneof![Just(0), any::<u32>()],
        length in 0..4_usize,
        key_phase: bool,
        flipped in any::<prop::sample::Index>(),
    ) {
        let path = PathId(path);
        for suite in suites() {
            let mut schedule = Schedule::new(suite, Side::Client);
            let (packet_key, header_key) = (schedule.packet_key(0), schedule.header_key());
            for draft in Draft::both(suite.version, NUMBER_LENGTHS[length], &payload) {
                let draft = complete(draft, number, key_phase);
                let (packet_type, header_length) = (draft.packet_type, draft.payload_offset());
                let mut packet = draft.octets.clone();
                packet_key.seal_packet(&header_key, path, number, &mut packet, header_length).unwrap();
                prop_assert_eq!(&packet, &step_by_step(suite, path, number, &draft), "{:?}", suite);

                // With one octet changed it is refused, and its octets are left as for any forgery.
                let mut forged = packet.clone();
                forged[draft.number_offset + flipped.index(packet.len() - draft.number_offset)] ^= 0x20;
                let before = forged.clone();
                let largest = number.checked_sub(1);
                let refused = header_key.unmask(protected(&mut forged), largest).unwrap().open_by(&packet_key, path);
                prop_assert_eq!(refused.map(|_| ()), Err(OpenError::AuthenticationFailed));
                prop_assert_eq!(&forged[..draft.number_offset], &before[..draft.number_offset]);
                prop_assert!(forged[draft.number_offset + 4..packet.len() - TAG].iter().all(|octet| *octet == 0));

                // Another path has another nonce.
                let mut other = packet.clone();
                let unmasked = header_key.unmask(protected(&mut other), largest).unwrap();
                prop_assert!(unmasked.open_by(&packet_key, PathId(path.0 ^ 1)).is_err());

                let unmasked = header_key.unmask(protected(&mut packet), largest).unwrap();
                let has_phase = key_phase && packet_type == PacketType::OneRtt;
                prop_assert_eq!((unmasked.number(), unmasked.key_phase()), (number, has_phase));
                let opened = unmasked.open_by(&packet_key, path).unwrap();
                prop_assert_eq!((opened.number, opened.key_phase, opened.packet_type()), (number, has_phase, packet_type));
                prop_assert_eq!(opened.header(), &draft.octets[..header_length]);
                prop_assert_eq!(&*opened.payload, &payload[..]);
            }
        }
    }
}

#[test]
fn whole_packets_that_do_not_fit_are_refused_with_nothing_written() {
    for suite in suites() {
        let mut schedule = Schedule::new(suite, Side::Client);
        let (packet_key, header_key) = (schedule.packet_key(0), schedule.header_key());
        let refused = |octets: &[u8], number: u64, payload_offset: usize| {
            let mut packet = octets.to_vec();
            let sealed = packet_key.seal_packet(&header_key, PathId(0), number, &mut packet, payload_offset);
            assert_eq!(packet, octets, "{suite:?}");
            sealed.unwrap_err()
        };
        assert_eq!(refused(&[], 0, 0), SealError::NoHeader);
        // The first octet announces four octets of number, but there is room for only three before the payload, or for no header.
        assert_eq!(refused(&[0x43; 64], 0, 3), SealError::NoHeader);
        assert_eq!(refused(&[0x43; 64], 0, 4), SealError::NoHeader);
        assert_eq!(refused(&[0x43; 20], 0, 5), SealError::BufferTooSmall { needed: 21, got: 20 });
        assert_eq!(
            refused(&[0x43; 64], 0, usize::MAX),
            SealError::BufferTooSmall { needed: usize::MAX, got: 64 }
        );
        assert_eq!(refused(&[0x43; 21], 0, 5), SealError::NoFrames);
        assert_eq!(refused(&[0x40; 20], 0, 2), SealError::TooShortForSample { needed: 4, got: 3 });
        assert_eq!(refused(&[0x43; 64], MAX_PACKET_NUMBER + 1, 5), SealError::NumbersExhausted);
        let long = vec![0x43; 5 + MAX_PAYLOAD_LENGTH + 1 + TAG];
        let got = MAX_PAYLOAD_LENGTH + 1;
        assert_eq!(refused(&long, 0, 5), SealError::TooLong { maximum: MAX_PAYLOAD_LENGTH, got });

        // Another number in the header: the peer would make another nonce of it. Octets above its length are not in the header.
        for (first, number) in [(0x40, 0x01), (0x41, 0x0143), (0x42, 0x43), (0x43, 0x4343_4344)] {
            let octets = [&[first][..], &[0x43; 63]].concat();
            assert_eq!(refused(&octets, number, 2 + usize::from(first & 3)), SealError::OtherHeader);
        }
        packet_key
            .seal_packet(
                &header_key,
                PathId(0),
                0x7_4343,
                &mut [0x41, 0x43, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                3,
            )
            .unwrap();
        // A header key of another AEAD.
        for other in suites().filter(|other| other.algorithm != suite.algorithm) {
            let header_key = Schedule::new(other, Side::Client).header_key();
            let mut packet = [0x43; 64];
            let sealed = packet_key.seal_packet(&header_key, PathId(0), 0x4343_4343, &mut packet, 5);
            assert_eq!((sealed, packet), (Err(SealError::OtherHeader), [0x43; 64]));
        }

        // Authentic, but the peer has set a reserved bit.
        let mut draft = complete(Draft::short(NumberLength::Two, b"some frames"), 7, false);
        draft.octets[0] |= 0x10;
        let header_length = draft.payload_offset();
        packet_key.seal_packet(&header_key, PathId(0), 7, &mut draft.octets, header_length).unwrap();
        let opened =
            header_key.unmask(protected(&mut draft.octets), None).unwrap().open_by(&packet_key, PathId(0));
        assert_eq!(opened.map(|_| ()), Err(OpenError::ReservedBits));
        assert!(draft.octets[header_length..].iter().all(|octet| *octet == 0));

        let mut short = [0x43; 20];
        assert!(matches!(header_key.unmask(protected(&mut short), None), Err(OpenError::Undecryptable)));
    }
}
