//! Header protection (RFC 9001 §5.4) and the fields it covers (RFC 9000 §17, RFC 9369 §3.2).

use proptest::prelude::*;
use wireseal_kernels::model::{aes, chacha20};
use wireseal_quic::hazmat::{HeaderKey, PathId};
use wireseal_quic::{
    AeadAlgorithm, Backend, ConnectionId, HeaderError, LongHeader, LongType, NumberLength, OpenError,
    Outgoing, PacketHeader, PacketNumberCounter, PacketType, Protected, SealError, ShortHeader, Version,
};

use crate::support::schedule::Schedule;
use crate::support::{
    DESTINATION, Draft, FRAMES, NUMBER_LENGTHS, Receiver, Side, Suite, TAG, destination, protected, suites,
    suites_of_one_version,
};

const LONG_TYPES: [LongType; 3] = [LongType::Initial, LongType::ZeroRtt, LongType::Handshake];

/// A short and a long header with each length of packet number.
fn drafts(version: Version, payload: &[u8]) -> Vec<Draft> {
    NUMBER_LENGTHS.into_iter().flat_map(|length| Draft::both(version, length, payload)).collect()
}

#[test]
fn q_10_the_type_bits_of_each_version() {
    for (version, wire, bits) in [
        (Version::V1, [0x00, 0x00, 0x00, 0x01], [0b00, 0b01, 0b10]),
        (Version::V2, [0x6b, 0x33, 0x43, 0xcf], [0b01, 0b10, 0b11]),
    ] {
        for (packet_type, bits) in LONG_TYPES.into_iter().zip(bits) {
            let draft = Draft::long(version, packet_type, NumberLength::Two, FRAMES);
            assert_eq!(draft.octets[0] & 0xf0, 0xc0 | bits << 4, "{version} {packet_type:?}");
            assert_eq!(draft.octets[1..5], wire);
            let suite = Suite { backend: Backend::active(), version, algorithm: AeadAlgorithm::Aes128Gcm };
            let mut packet = suite.sealed(draft);
            assert_eq!(packet[0] & 0xf0, 0xc0 | bits << 4);
            let packet = protected(&mut packet);
            let expected = match packet_type {
                LongType::Initial => PacketType::Initial,
                LongType::ZeroRtt => PacketType::ZeroRtt,
                LongType::Handshake => PacketType::Handshake,
            };
            assert_eq!((packet.packet_type(), packet.version()), (expected, Some(version)));
        }
    }
    // Retry packets are 3 in version 1 and 0 in version 2.
    for (version, retry) in [(Version::V1, 0xf0), (Version::V2, 0xc0)] {
        let mut draft = Draft::long(version, LongType::Handshake, NumberLength::Two, FRAMES);
        draft.octets[0] = retry;
        let error = Protected::split_first(&mut draft.octets, DESTINATION.len()).unwrap_err();
        assert_eq!(error, HeaderError::Retry);
    }
}

#[test]
fn q_12_the_sample_starts_four_octets_after_the_start_of_the_number() {
    for suite in suites() {
        let mut schedule = Schedule::new(suite, Side::Client);
        let (header_key, packet_key) = (schedule.header_key(), schedule.packet_key(0));
        // The samples range from tag only, through tag with one octet of ciphertext before it, to ciphertext only.
        for length in 1..25_u8 {
            let payload: Vec<u8> = (0..length).collect();
            let long_enough = |draft: &Draft| draft.number_length.octets() + payload.len() >= 4;
            for draft in drafts(suite.version, &payload).into_iter().filter(long_enough) {
                let (number_offset, payload_offset) = (draft.number_offset, draft.payload_offset());
                let mut expected = draft.octets.clone();
                expected[0] |= draft.number_length.octets() as u8 - 1;
                expected[number_offset..payload_offset].fill(0);
                let (header, body) = expected.split_at_mut(payload_offset);
                let (sealed, tag) = body.split_at_mut(payload.len());
                tag.copy_from_slice(&packet_key.seal(PathId(0), 0, header, sealed).unwrap());
                let sample = expected[number_offset + 4..][..16].try_into().unwrap();
                let mask = header_key.mask(&sample);
                expected[0] ^= mask[0] & if expected[0] & 0x80 == 0 { 0x1f } else { 0x0f };
                for (octet, mask) in expected[number_offset..payload_offset].iter_mut().zip(&mask[1..]) {
                    *octet ^= mask;
                }
                let packet_type = draft.packet_type;
                let sealed = suite.sealed(draft);
                assert_eq!(sealed, expected, "{suite:?} {length}");
                assert_eq!(suite.level(packet_type).open(&sealed).unwrap().payload, payload);
            }
        }
    }
}

#[test]
fn q_13_the_mask_covers_five_bits_of_short_headers_and_four_of_long_ones() {
    for suite in suites_of_one_version() {
        let mut sealers = [PacketType::OneRtt, PacketType::Handshake]
            .map(|kind| suite.sealer_for(kind, PacketNumberCounter::new()));
        let mut covered = [[0; 2]; 4];
        for round in 0..400_usize {
            let length = NUMBER_LENGTHS[round % 4];
            for (kind, mut draft) in Draft::both(suite.version, length, FRAMES).into_iter().enumerate() {
                let header = draft.octets.clone();
                sealers[kind].seal(draft.outgoing()).unwrap();
                covered[round % 4][kind] |= draft.octets[0] ^ (header[0] | (length.octets() as u8 - 1));
                assert_eq!(draft.octets[1..draft.number_offset], header[1..draft.number_offset]);
            }
        }
        assert_eq!(covered, [[0x1f, 0x0f]; 4], "{suite:?}");
    }
}

#[test]
fn q_13_what_follows_the_number_is_not_masked() {
    for suite in suites_of_one_version() {
        let header_key = Schedule::new(suite, Side::Client).header_key();
        for draft in drafts(suite.version, FRAMES) {
            let (number_offset, payload_offset) = (draft.number_offset, draft.payload_offset());
            let mut level = suite.level(draft.packet_type);
            let sealed = suite.sealed(draft);
            // Removes the mask by hand, from a slice that continues with the payload.
            let mut packet = sealed.clone();
            let sample = packet[number_offset + 4..][..16].try_into().unwrap();
            let (before, behind) = packet.split_at_mut(number_offset);
            header_key.unprotect(&sample, &mut before[0], behind);
            assert_eq!(packet[payload_offset..], sealed[payload_offset..]);
            let unmasked = packet.clone();
            let (before, behind) = packet.split_at_mut(number_offset);
            header_key.protect(&sample, &mut before[0], behind);
            assert_eq!(packet, sealed);
            // The opened packet has the same header.
            let received = level.open(&sealed).unwrap();
            assert_eq!((&received.header[..], &received.payload[..]), (&unmasked[..payload_offset], FRAMES));
        }
    }
}

#[test]
fn q_14_a_packet_too_short_for_a_sample_is_no_forgery() {
    for suite in suites_of_one_version() {
        let number_offset = 1 + DESTINATION.len();
        for length in number_offset..number_offset + 24 {
            let mut received: Vec<u8> = (0..length as u8).collect();
            received[0] = 0x40;
            let long_enough = length >= number_offset + 4 + 16;
            let expected =
                if long_enough { OpenError::AuthenticationFailed } else { OpenError::Undecryptable };
            let (mut end, mut level) = (suite.end(Side::Server), suite.level(PacketType::OneRtt));
            for receiver in [&mut end as &mut dyn Receiver, &mut level] {
                let mut packet = received.clone();
                assert_eq!(receiver.open_in(&mut packet), Err(expected));
                assert!(long_enough || packet == received);
                assert_eq!(receiver.failures(), u64::from(long_enough), "{length}");
            }
            assert_eq!(OpenError::Undecryptable.transport_error(), None);
        }
    }
}

/// The sample must come from the packet itself, not from what follows it in the datagram.
#[test]
fn q_14_the_sample_does_not_reach_into_the_next_packet() {
    for suite in suites_of_one_version() {
        let first = Draft::long(suite.version, LongType::Handshake, NumberLength::One, b"").octets;
        let second =
            suite.sealed(Draft::long(suite.version, LongType::Handshake, NumberLength::Four, FRAMES));
        let mut datagram = [&first[..], &second].concat();
        let mut level = suite.level(PacketType::Handshake);
        let results: Vec<_> = Protected::split(&mut datagram, DESTINATION.len())
            .map(|packet| level.open_parsed(packet.unwrap()).map(|received| received.payload))
            .collect();
        assert_eq!(results, [Err(OpenError::Undecryptable), Ok(FRAMES.to_vec())]);
        assert_eq!((&datagram[..first.len()], level.failures()), (&first[..], 0));
    }
}

#[test]
fn q_15_number_and_payload_under_four_octets_are_not_sealed() {
    for suite in suites_of_one_version() {
        let (mut sealer, mut one_rtt) = (suite.sealer(), suite.end(Side::Client).one_rtt);
        for length in NUMBER_LENGTHS {
            for payload in 1..6 {
                let got = length.octets() + payload;
                let mut draft = Draft::short(length, &vec![0x11; payload]);
                let untouched = draft.octets.clone();
                let next = sealer.next_number().unwrap();
                if got >= 4 {
                    assert_eq!(sealer.seal(draft.outgoing()), Ok(next));
                    continue;
                }
                let error = Err(SealError::TooShortForSample { needed: 4, got });
                assert_eq!(sealer.seal(draft.outgoing()), error);
                assert_eq!(one_rtt.seal(draft.outgoing()), error);
                assert_eq!(draft.octets, untouched);
                assert_eq!((sealer.next_number(), one_rtt.next_number()), (Some(next), Some(0)));
            }
        }
    }
}

/// The mask for a sample, by the slow models (RFC 9001 §5.4.3 and §5.4.4).
fn mask(algorithm: AeadAlgorithm, key: &[u8], sample: &[u8; 16]) -> [u8; 5] {
    if algorithm == AeadAlgorithm::ChaCha20Poly1305 {
        chacha20::header_mask(key.try_into().unwrap(), sample)
    } else {
        *aes::encrypt(key, *sample).first_chunk().unwrap()
    }
}

#[test]
fn q_16_chacha20_counts_little_endian_to_the_end() {
    let key: [u8; 32] = std::array::from_fn(|i| i as u8);
    for &backend in Backend::ALL {
        let header_key = HeaderKey::with_backend(backend, AeadAlgorithm::ChaCha20Poly1305, &key).unwrap();
        for counter in [0, 1, 0x0102_0304, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff] {
            let mut sample = [0x5a; 16];
            sample[..4].copy_from_slice(&u32::to_le_bytes(counter));
            let expected = &chacha20::block(&key, counter, &[0x5a; 12])[..5];
            assert_eq!(header_key.mask(&sample), expected, "{counter:x}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn q_16_masks_are_those_of_the_ciphers(key: [u8; 32], samples in prop::collection::vec(any::<[u8; 16]>(), 0..40)) {
        for algorithm in AeadAlgorithm::ALL {
            let key = &key[..algorithm.header_protection_key_length()];
            for &backend in Backend::ALL {
                let header_key = HeaderKey::with_backend(backend, algorithm, key).unwrap();
                for sample in &samples {
                    prop_assert_eq!(header_key.mask(sample), mask(algorithm, key, sample));
                }
            }
        }
    }

    /// For all connection IDs, tokens and lengths.
    #[test]
    fn q_10_a_long_header_is_read_as_it_was_written(
        destination in prop::collection::vec(any::<u8>(), 0..=20),
        source in prop::collection::vec(any::<u8>(), 0..=20),
        token in prop::collection::vec(any::<u8>(), 0..300),
        payload_length in prop_oneof![0..100_usize, 16_350..16_400_usize],
    ) {
        let id = |octets: &[u8]| ConnectionId::new(octets).unwrap();
        for &version in Version::ALL {
            for packet_type in LONG_TYPES {
                let header = LongHeader { version, packet_type, destination: id(&destination), source: id(&source), token: &token };
                let mut datagram = vec![0xa5; 17_000];
                let number_offset = header.encode(&mut datagram, NumberLength::Three, payload_length).unwrap();
                prop_assert!(datagram[number_offset..].iter().all(|&octet| octet == 0xa5));
                let end = number_offset + 3 + payload_length + TAG;
                let is_initial = packet_type == LongType::Initial;
                let wanted_token = if is_initial { &token[..] } else { &[] };
                let read = PacketHeader::read(&datagram, 99).unwrap();
                prop_assert_eq!(read.octets(), &datagram[..end]);
                prop_assert_eq!((read.destination(), read.source(), read.token()), (&destination[..], &source[..], wanted_token));
                prop_assert_eq!((read.packet_type(), read.version()), (packet_type.into(), Some(version)));
                let (packet, rest) = Protected::split_first(&mut datagram, 99).unwrap();
                prop_assert_eq!((packet.octets().len(), rest.len()), (end, 17_000 - end));
                prop_assert_eq!((packet.destination(), packet.source()), (&destination[..], &source[..]));
                prop_assert_eq!(packet.token(), wanted_token);
                prop_assert_eq!((packet.packet_type(), packet.version()), (packet_type.into(), Some(version)));
            }
        }
    }
}

#[test]
fn q_13_the_spin_bit_travels_in_the_clear() {
    for suite in suites_of_one_version() {
        for spin in [false, true] {
            let mut packet = vec![0; 64];
            let number_offset = ShortHeader { destination: destination(), spin }.encode(&mut packet).unwrap();
            let number_length = NumberLength::One;
            suite.sealer().seal(Outgoing { packet: &mut packet, number_offset, number_length }).unwrap();
            assert_eq!(packet[0] & 0xe0, if spin { 0x60 } else { 0x40 });
        }
    }
}

/// Only the endpoint knows whether the fixed bit must be set (RFC 9287).
#[test]
fn q_13_the_fixed_bit_is_shown_and_not_judged() {
    for suite in suites_of_one_version() {
        for mut draft in drafts(suite.version, FRAMES) {
            assert!(protected(&mut draft.octets.clone()).fixed_bit());
            draft.octets[0] &= !0x40;
            let mut level = suite.level(draft.packet_type);
            let mut greased = suite.sealed(draft);
            assert!(!protected(&mut greased).fixed_bit());
            assert_eq!(level.open(&greased).unwrap().payload, FRAMES);
        }
    }
}

/// Sealing writes every masked bit, so leftovers in the first octet do not become reserved bits.
#[test]
fn q_13_sealing_overwrites_what_the_mask_will_cover() {
    for suite in suites_of_one_version() {
        for clean in drafts(suite.version, FRAMES) {
            let mut dirty = clean.clone();
            dirty.octets[0] |= if clean.octets[0] & 0x80 == 0 { 0x1f } else { 0x0f };
            assert_eq!(suite.sealed(dirty), suite.sealed(clean));
        }
    }
}
