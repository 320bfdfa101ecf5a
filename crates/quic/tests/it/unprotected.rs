//! Packets without protection: Retry packets, written, read and refused; headers of any version (RFC 8999); and Version Negotiation
//! packets.

use aes_gcm::Aes128Gcm;
use aes_gcm::aead::{AeadInOut, KeyInit};
use hex_literal::hex;
use proptest::prelude::*;
use wireseal_quic::{
    AnyLongHeader, ConnectionId, HeaderError, LongType, NumberLength, Protected, Retry, SealError, Version,
    VersionNegotiation, retry_integrity_tag,
};

use crate::support::{DESTINATION, Draft, FRAMES, destination};

/// The keys and nonces as printed in RFC 9001 §5.8, RFC 9369 §3.3.3 and draft-ietf-quic-tls-29 §5.8.
const SECRETS: [(Version, [u8; 16], [u8; 12]); 3] = [
    (Version::V1, hex!("be0c690b9f66575a1d766b54e368c84e"), hex!("461599d35d632bf2239825bb")),
    (Version::V2, hex!("8fb4b01b56ac48e260fbcbcead7ccc92"), hex!("d86969bc2d7c6d9990efb04a")),
    (Version::Draft29, hex!("ccce187ed09a09d05728155a6cb96be1"), hex!("e54930f97f2136f0530a8c1c")),
];

fn id(octets: &[u8]) -> ConnectionId {
    ConnectionId::new(octets).unwrap()
}

/// The tag, by RustCrypto's AES-GCM over the pseudo-packet as one buffer.
fn tag_by_aes_gcm(version: Version, original: &[u8], packet: &[u8]) -> [u8; 16] {
    let (_, key, nonce) = SECRETS.iter().find(|(known, ..)| *known == version).unwrap();
    let pseudo_packet = [&[original.len() as u8], original, packet].concat();
    let cipher = Aes128Gcm::new(key.into());
    cipher.encrypt_inout_detached(nonce.into(), &pseudo_packet, (&mut [][..]).into()).unwrap().into()
}

fn encoded(retry: &Retry<'_>, original: &ConnectionId) -> Vec<u8> {
    let mut out = [0xa5; 400];
    let length = retry.encode(original, &mut out).unwrap();
    assert!(out[length..].iter().all(|octet| *octet == 0xa5));
    out[..length].to_vec()
}

#[test]
fn q_09_tags_agree_with_aes_gcm_for_every_length_of_connection_id() {
    let octets: [u8; 20] = core::array::from_fn(|i| i as u8 * 7 + 1);
    for version in Version::ALL {
        for length in 0..=20 {
            for token_length in (1..=64).chain([300]) {
                let token = vec![0x5c; token_length];
                let original = id(&octets[..length]);
                let retry = Retry {
                    version: *version,
                    destination: id(&octets[20 - length..]),
                    source: id(&[9; 20][..20 - length]),
                    token: &token,
                };
                let packet = encoded(&retry, &original);
                let (head, tag) = packet.split_last_chunk().unwrap();
                assert_eq!(*tag, tag_by_aes_gcm(*version, &original, head));
                assert_eq!(retry_integrity_tag(*version, &original, head), *tag);
                assert_eq!(Retry::open(*version, &original, &packet), Ok(retry));
            }
        }
    }
}

#[test]
fn q_07_draft_29_retry_is_that_of_its_appendix() {
    // draft-ietf-quic-tls-29 §A.4.
    let packet = hex!("ffff00001d0008f067a5502a4262b5746f6b656ed16926d81f6f9ca2953a8aa4575e1e49");
    let original = id(&hex!("8394c8f03e515708"));
    let retry = Retry::open(Version::Draft29, &original, &packet).unwrap();
    assert_eq!(retry.token, b"token");
    assert_eq!(*retry.source, hex!("f067a5502a4262b5"));
    assert_eq!(encoded(&retry, &original), packet);
}

#[test]
fn q_09_another_version_or_connection_id_fails() {
    let original = id(&[1; 8]);
    for version in Version::ALL {
        let retry = Retry { version: *version, destination: id(&[2; 4]), source: id(&[3; 5]), token: b"t" };
        let packet = encoded(&retry, &original);
        for other in Version::ALL.iter().filter(|other| *other != version) {
            assert_eq!(
                Retry::open(*other, &original, &packet),
                Err(HeaderError::OtherVersion { expected: *other, got: *version })
            );
            // The same packet with the other version in its header: its tag was made with another key.
            let mut changed = packet.clone();
            changed[1..5].copy_from_slice(&other.to_wire().to_be_bytes());
            let type_bits = if *other == Version::V2 { 0x00 } else { 0x30 };
            changed[0] = changed[0] & 0xcf | type_bits;
            assert_eq!(Retry::open(*other, &original, &changed), Err(HeaderError::RetryTag));
        }
        for wrong in [&[1; 7][..], &[1; 9], &[0; 8], &[]] {
            assert_eq!(Retry::open(*version, &id(wrong), &packet), Err(HeaderError::RetryTag));
        }
    }
}

#[test]
fn q_09_any_flipped_bit_is_refused() {
    let original = id(&[1; 8]);
    for version in Version::ALL {
        let retry =
            Retry { version: *version, destination: id(&[2; 4]), source: id(&[3; 5]), token: b"token" };
        let packet = encoded(&retry, &original);
        for bit in 0..8 * packet.len() {
            let mut damaged = packet.clone();
            damaged[bit / 8] ^= 0x80 >> (bit % 8);
            assert!(Retry::open(*version, &original, &damaged).is_err(), "{version}, bit {bit}");
        }
        for length in 0..packet.len() {
            let cut = Retry::open(*version, &original, &packet[..length]);
            assert!(cut.is_err(), "{version}, cut to {length}");
        }
    }
}

#[test]
fn what_is_no_usable_retry_is_named() {
    let original = id(&[1; 8]);
    let retry = Retry { version: Version::V1, destination: id(&[]), source: id(&[3; 5]), token: b"t" };
    let open = |packet: &[u8]| Retry::open(Version::V1, &original, packet).map(|retry| retry.source);

    // Built by hand, because `encode` refuses to write these.
    let by_hand = |source: &[u8], token: &[u8]| {
        let head = [&[0xff, 0, 0, 0, 1, 0, source.len() as u8], source, token].concat();
        let tag = retry_integrity_tag(Version::V1, &original, &head);
        [&head[..], &tag].concat()
    };
    assert!(open(&by_hand(&[3; 5], b"t")).is_ok());
    assert_eq!(open(&by_hand(&original, b"t")), Err(HeaderError::SameConnectionId));
    let without_token = by_hand(&[3; 5], b"");
    let (expected, got) = (without_token.len() + 1, without_token.len());
    assert_eq!(open(&without_token), Err(HeaderError::Truncated { needed: expected, got }));

    let mut packet = encoded(&retry, &original);
    packet[0] &= 0xcf;
    assert_eq!(open(&packet), Err(HeaderError::NotRetry), "an Initial packet");
    packet[0] &= 0x7f;
    assert_eq!(open(&packet), Err(HeaderError::NotRetry), "a short header");
    packet[0] |= 0xf0;
    packet[1..5].copy_from_slice(&[0xba; 4]);
    let unknown = HeaderError::UnknownVersion(0xbaba_baba);
    assert_eq!(open(&packet), Err(unknown));
    packet[1..5].fill(0);
    assert_eq!(open(&packet), Err(HeaderError::VersionNegotiation));
}

/// A header as short as it can be, so that less than a tag may follow it.
#[test]
fn a_retry_that_ends_inside_its_tag_is_truncated() {
    let retry = Retry { version: Version::V1, destination: id(&[]), source: id(&[]), token: b"t" };
    let original = id(&[1; 8]);
    let packet = encoded(&retry, &original);
    assert_eq!((packet.len(), Retry::open(Version::V1, &original, &packet)), (24, Ok(retry)));
    for got in 7..24 {
        let refused = Retry::open(Version::V1, &original, &packet[..got]);
        assert_eq!(refused, Err(HeaderError::Truncated { needed: 24, got }));
    }
}

#[test]
fn a_retry_that_no_client_would_take_is_not_written() {
    let original = id(&[1; 8]);
    let retry = Retry { version: Version::V1, destination: id(&[2; 4]), source: id(&[3; 5]), token: b"t" };
    for (retry, error) in [
        (Retry { token: b"", ..retry }, SealError::NoToken),
        (Retry { source: original, ..retry }, SealError::SameConnectionId),
    ] {
        let mut out = [0xa5; 100];
        assert_eq!(retry.encode(&original, &mut out), Err(error));
        assert_eq!(out, [0xa5; 100]);
    }
}

#[test]
fn nothing_is_written_where_there_is_no_room() {
    let retry =
        Retry { version: Version::V2, destination: id(&[2; 4]), source: id(&[3; 5]), token: b"token" };
    let expected = encoded(&retry, &id(&[])).len();
    for got in 0..expected {
        let mut out = vec![0xa5; got];
        assert_eq!(
            retry.encode(&id(&[]), &mut out),
            Err(SealError::BufferTooSmall { needed: expected, got })
        );
        assert!(out.iter().all(|octet| *octet == 0xa5));
    }
}

proptest! {
    #[test]
    fn q_49_no_octets_make_reading_a_retry_panic(octets in proptest::collection::vec(any::<u8>(), 0..120), long: bool) {
        let mut octets = octets;
        if let (true, Some(start)) = (long, octets.first_chunk_mut::<5>()) {
            *start = [0xf0, 0, 0, 0, 1];
        }
        prop_assert!(Retry::open(Version::V1, &id(&[1; 8]), &octets).is_err());
    }
}

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
        let mut packet = strange(to, from);
        // Without the first bit it is a short header, whose octets could mean anything.
        packet[0] ^= 0x80;
        assert_eq!(AnyLongHeader::read(&packet), None);
        packet[0] = 0x80;
        let header = AnyLongHeader::read(&packet).unwrap();
        assert_eq!((header.destination.len(), header.source.len()), (to.into(), from.into()));
        assert_eq!((header.version, header.rest), (0xbaba_baba, &[7; 40][..]));
        for length in 0..packet.len() - 40 {
            assert_eq!(AnyLongHeader::read(&packet[..length]), None, "{length}");
        }
    }
    assert_eq!(AnyLongHeader::read(&Draft::short(NumberLength::Two, FRAMES).octets), None);
}

/// RFC 9000 §17.2.1: four zero octets as version, the connection IDs exchanged, then the versions.
#[test]
fn a_packet_has_the_layout_of_rfc_9000() {
    let asked = strange(3, 2);
    let asked = AnyLongHeader::read(&asked).unwrap();
    let mut out = [0xee; 30];
    let length = VersionNegotiation::write(0xff, &asked, &[1, 0x6b33_43cf], &mut out).unwrap();
    let expected = hex!("ff 00000000 02 a5a4 03 5a5b58 00000001 6b3343cf");
    assert_eq!(out[..length], expected);
    assert!(out[length..].iter().all(|octet| *octet == 0xee));
    VersionNegotiation::write(0, &asked, &[1], &mut out).unwrap();
    assert_eq!(out[0], 0xc0);

    // It is not parsed as a packet that keys could open.
    let mut datagram = expected.to_vec();
    assert_eq!(Protected::split_first(&mut datagram, 8).unwrap_err(), HeaderError::VersionNegotiation);
    let mut short = [0xee; 16];
    let refused = VersionNegotiation::write(0, &asked, &[1, 2], &mut short);
    assert_eq!(refused, Err(SealError::BufferTooSmall { needed: 20, got: 16 }));
    assert_eq!(VersionNegotiation::write(0, &asked, &[1; 16], &mut [0; 76]), Ok(76));
    assert_eq!(VersionNegotiation::write(0, &asked, &[1; 17], &mut [0; 80]), Err(SealError::FieldTooLong));
    assert_eq!(VersionNegotiation::write(0, &asked, &[], &mut out), Err(SealError::NoAnswer));
    let negotiation = AnyLongHeader::read(&expected).unwrap();
    assert_eq!(VersionNegotiation::write(0, &negotiation, &[1], &mut out), Err(SealError::NoAnswer));
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
    // The client may have kept the fields of its packet, and not the packet.
    let kept = AnyLongHeader::new(1, &DESTINATION, b"source");
    assert_eq!((kept.destination, kept.source, kept.rest), (sent.destination, sent.source, &[][..]));
    let whole = answer(&kept, &[0x6b33_43cf]);
    assert!(VersionNegotiation::read(&whole).is_some_and(|read| read.answers(&kept)));
    let of_version_2 = AnyLongHeader::new(0x6b33_43cf, &DESTINATION, b"source");
    assert!(!VersionNegotiation::read(&whole).is_some_and(|read| read.answers(&of_version_2)));
    // It lists the version that the client sent, so it is forged or a fault (RFC 9000 §6.2).
    assert!(!answers(&answer(&sent, &[0x6b33_43cf, 1])));
    let other = strange(8, 8);
    assert!(!answers(&answer(&AnyLongHeader::read(&other).unwrap(), &[0x6b33_43cf])));
    // No versions, a truncated one, or a version other than 0.
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
