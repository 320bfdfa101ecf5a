//! Headers, variable-length integers and packet numbers, compared with slow readers; headers that are written read back the same.
//!
//! Input: eight octets of choices, and a datagram.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::quic::{self, Fault};
use wireseal_quic::{
    AeadAlgorithm, ConnectionId, HeaderError, LongHeader, LongType, MAX_PACKET_NUMBER, NumberLength,
    PacketType, Protected, SealError, ShortHeader, Version, decode_packet_number, decode_varint,
};

const NUMBER_LENGTHS: [NumberLength; 4] =
    [NumberLength::One, NumberLength::Two, NumberLength::Three, NumberLength::Four];

fuzz_target!(|input: &[u8]| {
    let Some((choice, datagram)) = input.split_first_chunk::<8>() else { return };
    split(datagram, usize::from(choice[0]));
    varints(datagram);
    numbers(u64::from_be_bytes(*choice), datagram);
    long(choice, datagram);
    short(choice, datagram);
});

/// Splits a datagram with both the crate and the slow reader.
fn split(datagram: &[u8], id_length: usize) {
    let mut buffer = datagram.to_vec();
    match (quic::first_packet(datagram, id_length), Protected::split_first(&mut buffer, id_length)) {
        (Ok(expected), Ok((packet, rest))) => {
            assert_eq!(packet.packet_type(), expected.kind);
            assert_eq!(packet.version().map(Version::to_wire), expected.version);
            assert_eq!(packet.destination(), &datagram[expected.destination]);
            assert_eq!(packet.source(), &datagram[expected.source]);
            assert_eq!(packet.token(), &datagram[expected.token]);
            assert_eq!((packet.octets(), &*rest), datagram.split_at(expected.end));
        }
        (Err(expected), Err(error)) => {
            let fault = match error {
                HeaderError::Retry => Fault::Retry,
                HeaderError::VersionNegotiation => Fault::VersionNegotiation,
                HeaderError::UnknownVersion(version) => Fault::UnknownVersion(version),
                HeaderError::ConnectionIdTooLong { .. } => Fault::ConnectionIdTooLong,
                HeaderError::Truncated { needed: expected, got } => {
                    assert!(expected > got && got == datagram.len());
                    Fault::Truncated
                }
                other => panic!("{other} is no fault of a packet alone"),
            };
            assert_eq!(fault, expected);
            assert!(!error.to_string().is_empty());
        }
        (expected, found) => panic!("{expected:?} expected, {found:?} found"),
    }
    assert_eq!(buffer, datagram, "nothing was changed");

    // The iterator finds the same packets as splitting one by one, up to the first with another destination.
    let mut at = 0;
    let mut first: Option<Vec<u8>> = None;
    for packet in Protected::split(&mut buffer, id_length) {
        let expected = quic::first_packet(&datagram[at..], id_length);
        let Ok(packet) = packet else {
            let other = expected.map(|expected| Some(datagram[at..][expected.destination].to_vec()) != first);
            assert!(other.unwrap_or(true));
            return;
        };
        let expected = expected.expect("as the code under test found");
        assert_eq!(packet.octets(), &datagram[at..at + expected.end]);
        let destination = first.get_or_insert_with(|| packet.destination().to_vec());
        assert_eq!(packet.destination(), destination);
        at += expected.end;
    }
    assert_eq!(at, datagram.len());
}

fn varints(octets: &[u8]) {
    assert_eq!(decode_varint(octets), quic::varint(octets));
}

fn numbers(largest: u64, octets: &[u8]) {
    let largest = largest % MAX_PACKET_NUMBER;
    let truncated = octets.iter().take(4).fold(0, |value: u32, octet| value << 8 | u32::from(*octet));
    for (bits, length) in [8, 16, 24, 32].into_iter().zip(NUMBER_LENGTHS) {
        let truncated = truncated & (u32::MAX >> (32 - bits));
        let found = decode_packet_number(Some(largest), truncated, length);
        assert_eq!(found, quic::closest(largest + 1, truncated.into(), bits));
        assert_eq!(decode_packet_number(None, truncated, length), quic::closest(0, truncated.into(), bits));
        // The receiver must decode the number, whichever packets since the largest acknowledged have arrived.
        let number = found.max(largest + 1);
        let needed = NumberLength::needed(number, Some(largest));
        let advised = NumberLength::advised(number, Some(largest));
        assert!(needed <= advised);
        let cut = |length: NumberLength| number as u32 & (u32::MAX >> (32 - 8 * length.octets()));
        if number - largest <= 1 << 31 {
            for received in [largest, number - 1] {
                assert_eq!(decode_packet_number(Some(received), cut(needed), needed), number);
            }
        }
        // With the advised length, also if as many later packets have arrived first.
        let later = number.saturating_add(number - largest);
        if number - largest <= 1 << 30 && later < MAX_PACKET_NUMBER {
            assert_eq!(decode_packet_number(Some(later), cut(advised), advised), number);
        }
    }
}

fn id(octets: &[u8], length: u8) -> ConnectionId {
    let octets = octets.get(..usize::from(length % 21)).unwrap_or_default();
    ConnectionId::new(octets).expect("at most 20 octets")
}

fn long(choice: &[u8; 8], octets: &[u8]) {
    let types = [LongType::Initial, LongType::ZeroRtt, LongType::Handshake];
    let packet_type = types[usize::from(choice[0] % 3)];
    let version = quic::version(choice[1]);
    let header = LongHeader {
        version,
        packet_type,
        destination: id(octets, choice[2]),
        source: id(octets, choice[3]),
        token: octets.get(usize::from(choice[4])..).unwrap_or_default(),
    };
    let number_length = NUMBER_LENGTHS[usize::from(choice[5] % 4)];
    let payload_length = usize::from(choice[6]) << (choice[7] % 9);
    let mut written = vec![0xa5; 100 + octets.len()];
    let number_offset = header.encode(&mut written, number_length, payload_length).expect("room");
    assert!(written[number_offset..].iter().all(|octet| *octet == 0xa5));
    let mut short = vec![0xa5; number_offset - 1];
    let expected = SealError::BufferTooSmall { needed: number_offset, got: number_offset - 1 };
    assert_eq!(header.encode(&mut short, number_length, payload_length), Err(expected));
    assert!(short.iter().all(|octet| *octet == 0xa5));

    let end = number_offset + number_length.octets() + payload_length + AeadAlgorithm::TAG_LENGTH;
    written.resize(end, 0xa5);
    let found = quic::first_packet(&written, 0).expect("as it was written");
    assert_eq!((found.number, found.end), (number_offset, end));
    written.push(0xa5);
    let (packet, rest) = Protected::split_first(&mut written, 0).expect("as it was written");
    assert_eq!((packet.packet_type(), packet.version()), (packet_type.into(), Some(version)));
    assert_eq!((packet.destination(), packet.source()), (&*header.destination, &*header.source));
    let has_token = packet_type == LongType::Initial;
    assert_eq!(packet.token(), if has_token { header.token } else { &[] });
    assert_eq!(rest, [0xa5]);
}

fn short(choice: &[u8; 8], octets: &[u8]) {
    let header = ShortHeader { destination: id(octets, choice[2]), spin: choice[0] & 1 == 1 };
    let mut written = [0xa5; 22];
    let number_offset = header.encode(&mut written).expect("room");
    let found = quic::first_packet(&written, header.destination.len()).expect("as it was written");
    assert_eq!((found.kind, found.number), (PacketType::OneRtt, number_offset));
    assert_eq!(written[found.destination], *header.destination);
    assert_eq!((written[0] & 0xc0, written[0] & 0x20 > 0), (0x40, header.spin));
    assert!(written[number_offset..].iter().all(|octet| *octet == 0xa5));
}
