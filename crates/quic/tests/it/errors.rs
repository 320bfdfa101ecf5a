//! Errors name the field, the expected value and the actual one, and nothing was written.

use std::collections::BTreeSet;
use std::error::Error;
use std::time::Duration;

use wireseal_quic::hazmat::{HeaderKey, PacketKey};
use wireseal_quic::{
    AeadAlgorithm, ConnectionId, HeaderError, KeyError, LongHeader, LongType, NumberLength, OpenError,
    Outgoing, PacketHeader, PacketNumberCounter, PacketType, Protected, SealError, ShortHeader, TokenError,
    TokenPurpose, TrafficSecret, Version,
};

use crate::support::{Draft, FRAMES, Side, destination, suites_of_one_version};

/// The text of an error must contain these words.
fn assert_says(error: &dyn Error, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert!(text.starts_with(|first: char| first.is_lowercase()) && !text.ends_with('.'));
}

#[test]
fn a_secret_or_key_of_wrong_length() {
    for algorithm in AeadAlgorithm::ALL {
        let expected = algorithm.secret_length();
        let error = TrafficSecret::new(algorithm, &[7; 31]).unwrap_err();
        assert_eq!(error, KeyError::WrongLength { algorithm, expected, got: 31 });
        assert_says(&error, &[algorithm.name(), &expected.to_string(), "31"]);
        let expected = algorithm.key_length();
        for got in (0..64).filter(|got| *got != expected) {
            let error = KeyError::WrongLength { algorithm, expected, got };
            for suite in suites_of_one_version() {
                let key = PacketKey::with_backend(suite.backend, algorithm, &vec![1; got], &[2; 12]);
                assert_eq!(key.unwrap_err(), error);
                let key = HeaderKey::with_backend(suite.backend, algorithm, &vec![1; got]);
                assert_eq!(key.unwrap_err(), error);
            }
            assert_says(&error, &[algorithm.name(), &expected.to_string(), &got.to_string()]);
        }
    }
}

#[test]
fn an_unknown_version() {
    assert_eq!(Version::from_wire(0), Err(HeaderError::VersionNegotiation));
    for version in [2, 0xff00_001c, 0x709a_50c4, 0x1a2a_3a4a, u32::MAX] {
        let error = Version::from_wire(version).unwrap_err();
        assert_eq!(error, HeaderError::UnknownVersion(version));
        assert_says(&error, &[&format!("0x{version:08x}"), "0x00000001", "0x6b3343cf"]);
    }
    for &version in Version::ALL {
        assert_eq!(Version::from_wire(version.to_wire()), Ok(version));
    }
}

#[test]
fn a_connection_id_over_20_octets() {
    let expected = 20;
    for got in [21, 255, 256, 1 << 16] {
        let error = ConnectionId::new(&vec![1; got]).unwrap_err();
        assert_eq!(error, HeaderError::ConnectionIdTooLong { maximum: expected, got });
        assert_says(&error, &["20", &got.to_string()]);
    }
    // From a peer: destination, then source.
    for lengths in [[21, 0], [0, 21], [255, 255]] {
        let mut packet = vec![0xc0, 0, 0, 0, 1];
        for length in lengths {
            packet.push(length);
            packet.extend(vec![7; length.into()]);
        }
        packet.extend([0; 100]);
        let received = packet.clone();
        let got = lengths.into_iter().find(|length| *length > 20).unwrap().into();
        let error = Protected::split_first(&mut packet, 8).unwrap_err();
        assert_eq!(error, HeaderError::ConnectionIdTooLong { maximum: expected, got });
        assert_eq!(packet, received);
    }
    // The length alone says so, even if the packet ends there.
    for packet in [&[0xc0, 0, 0, 0, 1, 21][..], &[0xc0, 0, 0, 0, 1, 0, 21]] {
        let error = PacketHeader::read(packet, 8).map(drop).unwrap_err();
        assert_eq!(error, HeaderError::ConnectionIdTooLong { maximum: expected, got: 21 });
    }
}

#[test]
fn what_is_no_protected_packet() {
    let parse = |packet: &[u8]| {
        let error = Protected::split_first(&mut packet.to_vec(), 8).map(drop).unwrap_err();
        assert_eq!(PacketHeader::read(packet, 8).map(drop), Err(error));
        error
    };
    let short = PacketHeader::read(&[0x40, 1, 2, 3, 4], 2).unwrap();
    assert_eq!((short.packet_type(), short.version()), (PacketType::OneRtt, None));
    assert_eq!((short.destination(), short.source(), short.octets().len()), (&[1, 2][..], &[][..], 5));
    // The connection ID may be all there is, which is too short to open.
    let bare = PacketHeader::read(&[0x40; 9], 8).unwrap();
    assert_eq!((bare.destination(), bare.octets()), (&[0x40; 8][..], &[0x40; 9][..]));
    assert_eq!(parse(&[0x80, 0, 0, 0, 0, 0, 0]), HeaderError::VersionNegotiation);
    assert_eq!(parse(&[0xc0, 0, 0, 0, 2, 0, 0]), HeaderError::UnknownVersion(2));
    assert_eq!(parse(&[0xf0, 0, 0, 0, 1, 0, 0]), HeaderError::Retry);
    assert_eq!(parse(&[]), HeaderError::Truncated { needed: 1, got: 0 });
    assert_eq!(parse(&[0x40; 8]), HeaderError::Truncated { needed: 9, got: 8 });
    let draft = Draft::long(Version::V1, LongType::Initial, NumberLength::Two, FRAMES);
    let length = draft.octets.len();
    for got in 0..length {
        let HeaderError::Truncated { needed: expected, got: said } = parse(&draft.octets[..got]) else {
            panic!("{got} of {length} octets");
        };
        assert!(got < expected && expected <= length && said == got, "{got} {expected}");
    }
    // From the Length field on, the error gives the whole length.
    let cut = parse(&draft.octets[..length - 1]);
    assert_eq!(cut, HeaderError::Truncated { needed: length, got: length - 1 });
    assert_says(&cut, &[&length.to_string(), &(length - 1).to_string()]);
}

#[test]
fn a_coalesced_packet_for_another_connection_is_passed_over() {
    let draft = Draft::long(Version::V1, LongType::Handshake, NumberLength::Two, FRAMES);
    let mut other = draft.octets.clone();
    other[6] ^= 1;
    let mut datagram = [&draft.octets[..], &other, &draft.octets].concat();
    let packets: Vec<_> = Protected::split(&mut datagram, 8).map(|packet| packet.map(drop)).collect();
    assert_eq!(packets, [Ok(()), Err(HeaderError::OtherDestination), Ok(())]);
    // If the end of a packet is unknown, no packet follows.
    let mut datagram = [&draft.octets[..], &[0xf0, 0, 0, 0, 1, 0, 0], &draft.octets].concat();
    let packets: Vec<_> = Protected::split(&mut datagram, 8).map(|packet| packet.map(drop)).collect();
    assert_eq!(packets, [Ok(()), Err(HeaderError::Retry)]);
}

#[test]
fn a_header_that_does_not_fit_is_not_written() {
    let long = LongHeader {
        version: Version::V1,
        packet_type: LongType::Initial,
        destination: destination(),
        source: destination(),
        token: &[3; 100],
    };
    let short = ShortHeader { destination: destination(), spin: true };
    let needed = 1 + 4 + 1 + 8 + 1 + 8 + 2 + 100 + 2;
    let mut buffer = [0xa5; 200];
    for got in 0..needed {
        let error = long.encode(&mut buffer[..got], NumberLength::One, 100).unwrap_err();
        assert_eq!(error, SealError::BufferTooSmall { needed, got });
    }
    for got in 0..9 {
        let error = short.encode(&mut buffer[..got]).unwrap_err();
        assert_eq!(error, SealError::BufferTooSmall { needed: 9, got });
        assert_says(&error, &["9", &got.to_string()]);
    }
    for payload_length in [(1 << 30) - 17, 1 << 30, usize::MAX - 16, usize::MAX] {
        let error = long.encode(&mut buffer, NumberLength::One, payload_length).unwrap_err();
        assert_eq!(error, SealError::FieldTooLong);
    }
    assert_eq!(buffer, [0xa5; 200]);
    assert_eq!(long.encode(&mut buffer[..needed], NumberLength::One, 100), Ok(needed));
    assert_eq!(long.encode(&mut buffer, NumberLength::One, (1 << 30) - 18), Ok(needed + 2));
    assert_says(&SealError::FieldTooLong, &["payload", "token", "too long"]);
}

#[test]
fn a_packet_that_cannot_be_sealed_is_left_as_it_is() {
    for suite in suites_of_one_version() {
        let (mut sealer, mut one_rtt) = (suite.sealer(), suite.end(Side::Client).one_rtt);
        let number_length = NumberLength::Two;
        let mut fails = |length: usize, number_offset: usize| {
            // A short header, since `OneRtt` takes no other.
            let mut buffer = vec![0x25; length];
            let by_sealer = sealer.seal(Outgoing { packet: &mut buffer, number_offset, number_length });
            let by_one_rtt = one_rtt.seal(Outgoing { packet: &mut buffer, number_offset, number_length });
            assert_eq!(by_sealer, by_one_rtt);
            assert!(buffer.iter().all(|&octet| octet == 0x25));
            assert_eq!((sealer.next_number(), one_rtt.next_number()), (Some(0), Some(0)));
            by_sealer.unwrap_err()
        };
        for got in 0..27 {
            let error = fails(got, 9);
            assert_eq!(error, SealError::BufferTooSmall { needed: 9 + 2 + 16, got });
        }
        for number_offset in [100, usize::MAX - 17, usize::MAX] {
            assert!(matches!(fails(100, number_offset), SealError::BufferTooSmall { got: 100, .. }));
        }
        assert_eq!(fails(27, 9), SealError::NoFrames);
        assert_eq!(fails(28, 9), SealError::TooShortForSample { needed: 4, got: 3 });
        let mut long = Draft::long(suite.version, LongType::Handshake, number_length, FRAMES);
        let untouched = long.octets.clone();
        assert_eq!(one_rtt.seal(long.outgoing()), Err(SealError::OtherHeader));
        assert_eq!((&long.octets, one_rtt.next_number()), (&untouched, Some(0)));
    }
}

/// The header must be for these keys, and must describe the packet as the peer will read it.
#[test]
fn a_header_that_is_not_for_the_keys_is_not_sealed() {
    for suite in suites_of_one_version() {
        let kinds = [LongType::Initial, LongType::ZeroRtt, LongType::Handshake];
        let good = |version, kind| Draft::long(version, kind, NumberLength::Two, FRAMES);
        for kind in kinds {
            let mut sealer = suite.sealer_for(kind.into(), PacketNumberCounter::new());
            let mut refuse = |mut draft: Draft| {
                let untouched = draft.octets.clone();
                let error = sealer.seal(draft.outgoing()).unwrap_err();
                assert_eq!((draft.octets, sealer.next_number()), (untouched, Some(0)));
                error
            };
            assert_eq!(refuse(Draft::short(NumberLength::Two, FRAMES)), SealError::OtherHeader);
            assert_eq!(refuse(good(Version::V2, kind)), SealError::OtherHeader);
            for other in kinds.into_iter().filter(|other| *other != kind) {
                assert_eq!(refuse(good(Version::V1, other)), SealError::OtherHeader);
            }
            // Longer or shorter than the Length field says, with the number elsewhere, and of an unknown version.
            let mut longer = good(Version::V1, kind);
            longer.octets.push(0);
            let mut shorter = good(Version::V1, kind);
            shorter.octets.pop();
            let mut displaced = good(Version::V1, kind);
            displaced.number_offset -= 1;
            let mut unknown = good(Version::V1, kind);
            unknown.octets[1..5].fill(0);
            for draft in [longer, shorter, displaced, unknown] {
                assert_eq!(refuse(draft), SealError::OtherHeader);
            }
            assert_eq!(sealer.seal(good(Version::V1, kind).outgoing()), Ok(0));
        }
    }
}

/// If the offset is wrong, not the buffer, the error must not ask for a larger buffer.
#[test]
fn a_packet_number_without_a_header_before_it() {
    for suite in suites_of_one_version() {
        let mut buffer = [0x25; 60];
        let mut outgoing = |number_offset, length: usize| {
            let packet = &mut buffer[..length];
            suite.sealer().seal(Outgoing { packet, number_offset, number_length: NumberLength::Four })
        };
        assert_eq!([outgoing(0, 60), outgoing(0, 0)], [Err(SealError::NoHeader); 2]);
        assert_eq!(outgoing(41, 60), Err(SealError::BufferTooSmall { needed: 61, got: 60 }));
        assert_eq!(outgoing(1, 20), Err(SealError::BufferTooSmall { needed: 21, got: 20 }));
        assert_eq!(buffer, [0x25; 60]);
        assert_says(&SealError::NoHeader, &["packet number", "offset 0"]);
    }
}

#[test]
fn every_error_has_a_text_of_its_own() {
    let from = Duration::from_millis(1500);
    let (expected, got) = (Version::V1, Version::V2);
    let errors: [&dyn Error; 34] = [
        &KeyError::TooSoon { from },
        &KeyError::HandshakeNotConfirmed,
        &KeyError::NotAcknowledged,
        &SealError::NoHeader,
        &SealError::BufferTooSmall { needed: 27, got: 3 },
        &SealError::TooShortForSample { needed: 4, got: 3 },
        &SealError::TooLong { maximum: 65_535, got: 65_536 },
        &SealError::OtherHeader,
        &SealError::NumbersExhausted,
        &SealError::ConfidentialityLimit,
        &SealError::NoFrames,
        &OpenError::Undecryptable,
        &OpenError::AuthenticationFailed,
        &OpenError::ReservedBits,
        &OpenError::Duplicate,
        &OpenError::KeyUpdate,
        &OpenError::IntegrityLimit,
        &OpenError::NoFrames,
        &HeaderError::Retry,
        &HeaderError::VersionNegotiation,
        &HeaderError::UnknownVersion(5),
        &HeaderError::ConnectionIdTooLong { maximum: 20, got: 21 },
        &HeaderError::Truncated { needed: 9, got: 8 },
        &HeaderError::OtherDestination,
        &SealError::BufferTooSmall { needed: 9, got: 8 },
        &SealError::FieldTooLong,
        &SealError::NoToken,
        &SealError::NoTokenKey,
        &SealError::SameConnectionId,
        &HeaderError::NotRetry,
        &HeaderError::OtherVersion { expected, got },
        &HeaderError::RetryTag,
        &TokenError::Invalid,
        &TokenError::Expired { purpose: TokenPurpose::NewToken },
    ];
    let texts: BTreeSet<_> = errors.iter().map(|error| error.to_string()).collect();
    assert_eq!(texts.len(), errors.len());
    for error in errors {
        assert_says(error, &[" "]);
    }
    assert_says(errors[0], &["1.5s"]);
    assert_says(&SealError::NumbersExhausted, &["2^62-1"]);
}

#[test]
fn a_header_says_beforehand_how_long_it_makes_a_packet() {
    for version in Version::ALL {
        for packet_type in [LongType::Initial, LongType::ZeroRtt, LongType::Handshake] {
            for (destination, token) in [(0, 0), (8, 1), (20, 63), (20, 64), (3, 16_384)] {
                let destination = ConnectionId::new(&[0xdc; 20][..destination]).unwrap();
                let token = vec![0x70; token];
                let source = ConnectionId::new(&[0x5c; 4]).unwrap();
                let header =
                    LongHeader { version: *version, packet_type, destination, source, token: &token };
                for number_length in [NumberLength::One, NumberLength::Four] {
                    let overhead = header.overhead(number_length);
                    let mut out = vec![0; overhead + 100];
                    let number_offset = header.encode(&mut out, number_length, 100).unwrap();
                    assert_eq!(number_offset + number_length.octets() + 16, overhead);
                }
            }
        }
    }
}
