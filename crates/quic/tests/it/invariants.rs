//! Headers of any version (RFC 8999), and Version Negotiation packets.

use proptest::prelude::*;
use wireseal_quic::{
    AnyLongHeader, EncodeError, HeaderError, LongType, NumberLength, Protected, Version, VersionNegotiation,
};

use crate::support::{DESTINATION, Draft, FRAMES, destination};

/// A packet of version 0xbabababa with connection IDs of these lengths.
fn strange(destination: u8, source: u8) -> Vec<u8> {
    let mut packet = vec![0xc5, 0xba, 0xba, 0xba, 0xba, destination];
    packet.extend((0..destination).map(|octet| octet ^ 0x5a));
    packet.push(source);
    packet.extend((0..source).map(|octet| octet ^ 0xa5));
    packet.extend([7; 40]);
    packet
}

#[test]
fn headers_of_known_and_unknown_versions_are_read() {
    for &version in Version::ALL {
        let draft = Draft::long(version, LongType::Initial, NumberLength::Two, FRAMES);
        let header = AnyLongHeader::read(&draft.octets).unwrap();
        assert_eq!((header.version, header.destination), (version.to_wire(), &DESTINATION[..]));
    }
    for (to, from) in [(0, 0), (8, 0), (20, 20), (255, 255)] {
        let packet = strange(to, from);
        let header = AnyLongHeader::read(&packet).unwrap();
        assert_eq!((header.destination.len(), header.source.len()), (to.into(), from.into()));
        assert_eq!((header.version, header.rest), (0xbaba_baba, &[7; 40][..]));
        for length in 0..packet.len() - 40 {
            assert_eq!(AnyLongHeader::read(&packet[..length]), None, "{length}");
        }
    }
    assert_eq!(AnyLongHeader::read(&Draft::short(NumberLength::Two, FRAMES).octets), None);
}

/// RFC 9000 §17.2.1: four octets of zeros for a version, the connection IDs exchanged, then the versions.
#[test]
fn a_packet_has_the_layout_of_rfc_9000() {
    let asked = strange(3, 2);
    let asked = AnyLongHeader::read(&asked).unwrap();
    let mut out = [0xee; 30];
    let length = VersionNegotiation::write(0xff, &asked, &[1, 0x6b33_43cf], &mut out).unwrap();
    let expected = hex_literal::hex!("ff 00000000 02 a5a4 03 5a5b58 00000001 6b3343cf");
    assert_eq!(out[..length], expected);
    assert!(out[length..].iter().all(|octet| *octet == 0xee));
    VersionNegotiation::write(0, &asked, &[1], &mut out).unwrap();
    assert_eq!(out[0], 0xc0);

    // It is not taken for a packet that keys could open.
    let mut datagram = expected.to_vec();
    assert_eq!(Protected::split_first(&mut datagram, 8).unwrap_err(), HeaderError::VersionNegotiation);
    let mut short = [0xee; 16];
    let refused = VersionNegotiation::write(0, &asked, &[1, 2], &mut short);
    assert_eq!(refused, Err(EncodeError::BufferTooSmall { expected: 20, got: 16 }));
    assert_eq!(VersionNegotiation::write(0, &asked, &[1; 17], &mut out), Err(EncodeError::PayloadTooLong));
    assert_eq!(VersionNegotiation::write(0, &asked, &[], &mut out), Err(EncodeError::NoAnswer));
    let negotiation = AnyLongHeader::read(&expected).unwrap();
    assert_eq!(VersionNegotiation::write(0, &negotiation, &[1], &mut out), Err(EncodeError::NoAnswer));
    assert_eq!(short, [0xee; 16]);
}

#[test]
fn a_client_acts_on_answers_to_its_own_packet_alone() {
    let draft = Draft::long(Version::V1, LongType::Initial, NumberLength::Two, FRAMES);
    let sent = AnyLongHeader::read(&draft.octets).unwrap();
    let answer = |asked: &AnyLongHeader<'_>, versions: &[u32]| {
        let mut out = vec![0; 600];
        let length = VersionNegotiation::write(0, asked, versions, &mut out).unwrap();
        out.truncate(length);
        out
    };
    let answers = |octets: &[u8]| VersionNegotiation::read(octets).is_some_and(|read| read.answers(&sent));
    assert!(answers(&answer(&sent, &[0x6b33_43cf])));
    // It lists the version that was refused: forged, or a fault (RFC 9000 §6.2).
    assert!(!answers(&answer(&sent, &[0x6b33_43cf, 1])));
    let other = strange(8, 8);
    assert!(!answers(&answer(&AnyLongHeader::read(&other).unwrap(), &[0x6b33_43cf])));
    // No versions, part of one, another version than 0.
    let whole = answer(&sent, &[0x6b33_43cf]);
    assert!(VersionNegotiation::read(&whole[..whole.len() - 4]).is_none());
    assert!(VersionNegotiation::read(&whole[..whole.len() - 1]).is_none());
    assert!(VersionNegotiation::read(&draft.octets).is_none());
    assert_eq!(*destination(), DESTINATION);
}

proptest! {
    #[test]
    fn any_octets_are_read_without_panic(octets in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Some(header) = AnyLongHeader::read(&octets) {
            let length = 7 + header.destination.len() + header.source.len() + header.rest.len();
            prop_assert_eq!(length, octets.len());
        }
        if let Some(negotiation) = VersionNegotiation::read(&octets) {
            prop_assert!(negotiation.versions().count() > 0);
        }
    }
}
