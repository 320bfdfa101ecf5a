//! Wireseal's keys against those that rustls' ring provider makes from the same octets.

use hex_literal::hex;
use rustls::quic::{DirectionalKeys, Keys, Version};
use rustls::{CipherSuite, Side};
use wireseal_quic::hazmat;
use wireseal_rustls::{AeadAlgorithm, quic_algorithm};

use crate::support::{ALL, CCM, COMMON, aead, keys, pattern, ring, tls13, wireseal};

const TAG: usize = AeadAlgorithm::TAG_LENGTH;

/// Keys of the same octets: Wireseal's, and those of the ring provider.
fn both(suite: CipherSuite, connection_id: &[u8]) -> [Keys; 2] {
    let theirs = tls13(&ring(), suite);
    [quic_algorithm(aead(suite)), theirs.quic.expect("ring does QUIC")]
        .map(|algorithm| keys(theirs, algorithm, connection_id))
}

/// Encrypts `payload` with the tag behind it, by the call for a path or the one without.
fn seal(keys: &DirectionalKeys, path: Option<u32>, number: u64, header: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut sealed = payload.to_vec();
    let tag = match path {
        None => keys.packet.encrypt_in_place(number, header, &mut sealed),
        Some(path) => keys.packet.encrypt_in_place_for_path(path, number, header, &mut sealed),
    };
    sealed.extend_from_slice(tag.expect("number and payload are in range").as_ref());
    sealed
}

#[test]
fn every_length_seals_to_the_same_octets_and_opens_from_them() {
    for suite in COMMON {
        let [ours, theirs] = both(suite, b"lengths");
        for length in 0..=1500 {
            let number = length as u64 * 0x0001_0003_0007_0001 % (1 << 62);
            let (header, payload) = (pattern(1, length % 65), pattern(length as u64, length));
            let sealed = seal(&ours.local, None, number, &header, &payload);
            assert_eq!(sealed, seal(&theirs.local, None, number, &header, &payload), "{suite:?} {length}");

            for opener in [&ours.local, &theirs.local] {
                let mut buffer = sealed.clone();
                assert_eq!(opener.packet.decrypt_in_place(number, &header, &mut buffer), Ok(&*payload));
            }
        }
    }
}

#[test]
fn every_flipped_bit_fails_and_leaves_no_plaintext() {
    for suite in COMMON {
        let [ours, _] = both(suite, b"flips");
        let (number, header, payload) = (77, pattern(2, 21), pattern(3, 100));
        let sealed = seal(&ours.local, None, number, &header, &payload);
        let refused = |number, header: &[u8], sealed: &[u8]| {
            let mut buffer = sealed.to_vec();
            let opened = ours.local.packet.decrypt_in_place(number, header, &mut buffer);
            assert_eq!(opened, Err(rustls::Error::DecryptError), "{suite:?}");
            assert!(buffer.windows(8).all(|part| payload.windows(8).all(|plain| plain != part)), "{suite:?}");
        };
        let flips = |octets: &[u8]| {
            let octets = octets.to_vec();
            (0..octets.len() * 8).map(move |bit| {
                let mut flipped = octets.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                flipped
            })
        };
        flips(&sealed).for_each(|sealed| refused(number, &header, &sealed));
        flips(&header).for_each(|header| refused(number, &header, &sealed));
        (0..62).for_each(|bit| refused(number ^ (1 << bit), &header, &sealed));
        (0..sealed.len()).for_each(|length| refused(number, &header, &sealed[..length]));
    }
}

#[test]
fn paths_have_the_nonces_of_rustls_and_path_0_that_of_no_path() {
    for suite in COMMON {
        let [ours, theirs] = both(suite, b"paths");
        let (header, payload) = (pattern(4, 13), pattern(5, 64));
        for number in [0, 1, (1 << 32) - 1, (1 << 62) - 1] {
            let single = seal(&ours.local, None, number, &header, &payload);
            assert_eq!(seal(&ours.local, Some(0), number, &header, &payload), single);
            for path in [1, 2, 0x0102_0304, u32::MAX] {
                let sealed = seal(&ours.local, Some(path), number, &header, &payload);
                assert_ne!(sealed, single);
                assert_eq!(sealed, seal(&theirs.local, Some(path), number, &header, &payload));
                let open = |path: u32| {
                    let mut buffer = sealed.clone();
                    let opened =
                        ours.local.packet.decrypt_in_place_for_path(path, number, &header, &mut buffer);
                    opened.map(<[u8]>::to_vec)
                };
                assert_eq!(open(path).as_ref(), Ok(&payload));
                assert_eq!(open(path ^ 1), Err(rustls::Error::DecryptError));
            }
        }
    }
}

#[test]
fn a_number_or_a_payload_out_of_range_is_refused_unmodified() {
    for suite in ALL {
        let keys = keys(tls13(&wireseal(), suite), quic_algorithm(aead(suite)), b"range");
        let mut payload = vec![7; 65_536];
        let refused = [(1 << 62, 32), (u64::MAX, 32), (0, 65_536)];
        for (number, length) in refused {
            let sealed = keys.local.packet.encrypt_in_place(number, b"header", &mut payload[..length]);
            assert_eq!(sealed.err(), Some(rustls::Error::EncryptError));
        }
        assert!(payload.iter().all(|octet| *octet == 7));
        assert!(keys.local.packet.encrypt_in_place((1 << 62) - 1, b"header", &mut payload[..65_535]).is_ok());
    }
}

#[test]
fn header_protection_is_that_of_rustls() {
    for suite in COMMON {
        let [ours, theirs] = both(suite, b"headers").map(|keys| keys.local.header);
        assert_eq!(ours.sample_len(), theirs.sample_len());
        for first in 0..=u8::MAX {
            let sample = pattern(first.into(), 16);
            // quinn always passes four octets; with fewer there is less to mask.
            for length in 0..=4 {
                let number = pattern(6, length);
                let mut results = Vec::new();
                for key in [&ours, &theirs] {
                    let (mut protected, mut masked) = (first, number.clone());
                    assert_eq!(key.encrypt_in_place(&sample, &mut protected, &mut masked), Ok(()));
                    let (mut plain, mut unmasked) = (protected, masked.clone());
                    assert_eq!(key.decrypt_in_place(&sample, &mut plain, &mut unmasked), Ok(()));
                    assert_eq!((plain, &unmasked), (first, &number));
                    results.push((protected, masked));
                }
                assert_eq!(results[0], results[1], "{suite:?} {first:#04x} {length}");
                let (beyond, kept) = (usize::from(first & 3) + 1, &results[0].1);
                assert_eq!(kept.get(beyond..), number.get(beyond..));
            }
        }
    }
}

#[test]
fn header_protection_refuses_what_rustls_refuses_and_modifies_nothing() {
    for suite in ALL {
        let keys = keys(tls13(&wireseal(), suite), quic_algorithm(aead(suite)), b"refused");
        let sizes = (0..=32).filter(|length| *length != 16).map(|sample| (sample, 4));
        for (sample, number) in sizes.chain([(16, 5), (16, 20), (15, 5)]) {
            let (sample, before) = (pattern(7, sample), pattern(8, number));
            let (mut first, mut after) = (0xc3, before.clone());
            assert!(keys.local.header.encrypt_in_place(&sample, &mut first, &mut after).is_err());
            assert!(keys.local.header.decrypt_in_place(&sample, &mut first, &mut after).is_err());
            assert_eq!((first, after), (0xc3, before));
        }
    }
}

#[test]
fn lengths_and_limits() {
    let ccm = 2_965_820; // 2^21.5
    for (suite, key, confidentiality, integrity) in [
        (COMMON[0], 16, 1 << 23, 1 << 52),
        (COMMON[1], 32, 1 << 23, 1 << 52),
        (COMMON[2], 32, u64::MAX, 1 << 36),
        (CCM, 16, ccm, ccm),
    ] {
        let algorithm = quic_algorithm(aead(suite));
        assert_eq!(algorithm.aead_key_len(), key);
        let ours = keys(tls13(&wireseal(), suite), algorithm, b"limits").local.packet;
        assert_eq!((ours.tag_len(), ours.confidentiality_limit()), (TAG, confidentiality));
        assert_eq!(ours.integrity_limit(), integrity);
        if COMMON.contains(&suite) {
            let [_, theirs] = both(suite, b"limits").map(|keys| keys.local.packet);
            assert_eq!(theirs.confidentiality_limit(), confidentiality);
            assert_eq!(theirs.integrity_limit(), integrity);
        }
    }
}

/// The connection ID of RFC 9001 §A.
const CONNECTION_ID: [u8; 8] = hex!("8394c8f03e515708");

fn initial(side: Side, version: Version) -> Keys {
    let suite = tls13(&wireseal(), COMMON[0]);
    suite.quic_suite().expect("QUIC is what the crate is for").keys(&CONNECTION_ID, side, version)
}

/// RFC 9001 §A.1 and RFC 9369 §A.1: key, IV and header protection key, of client and server.
const PRINTED: [(Version, [[u8; 44]; 2]); 2] = [
    (
        Version::V1,
        [
            hex!(
                "1f369613dd76d5467730efcbe3b1a22d fa044b2f42a3fd3b46fb255c 9f50449e04a0e810283a1e9933adedd2"
            ),
            hex!(
                "cf3a5331653c364c88f0f379b6067e37 0ac1493ca1905853b0bba03e c206b8d9b9f0f37644430b490eeaa314"
            ),
        ],
    ),
    (
        Version::V2,
        [
            hex!(
                "8b1a0bc121284290a29e0971b5cd045d 91f73e2351d8fa91660e909f 45b95e15235d6f45a6b19cbcb0294ba9"
            ),
            hex!(
                "82db637861d55e1d011f19ea71d5d2a7 dd13c276499c0249d3310652 edf6d05c83121201b436e16877593c3a"
            ),
        ],
    ),
];

#[test]
fn initial_keys_are_those_of_the_rfcs() {
    let sides = [Side::Client, Side::Server];
    let cases =
        PRINTED.iter().flat_map(|(version, keys)| sides.iter().zip(keys).map(move |of| (*version, of)));
    for (version, (&side, keys)) in cases {
        let (key, iv, header_key) = (&keys[..16], keys[16..28].try_into().expect("12 octets"), &keys[28..]);
        let sender = initial(side, version);
        let receiver = initial(if side == Side::Client { Side::Server } else { Side::Client }, version);
        let (header, payload, sample) = (pattern(9, 18), pattern(10, 1162), [0x5a; 16]);

        let packet = hazmat::PacketKey::new(AeadAlgorithm::Aes128Gcm, key, iv).expect("16 octets");
        let sealed = seal(&sender.local, None, 2, &header, &payload);
        let mut expected = payload.clone();
        let tag = packet.seal(hazmat::PathId(0), 2, &header, &mut expected).expect("in range");
        expected.extend(tag);
        assert_eq!(sealed, expected, "{version:?} {side:?}");
        assert_eq!(receiver.remote.packet.decrypt_in_place(2, &header, &mut sealed.clone()), Ok(&*payload));

        let mask =
            hazmat::HeaderKey::new(AeadAlgorithm::Aes128Gcm, header_key).expect("16 octets").mask(&sample);
        let (mut first, mut number) = (0xc3, [0; 4]);
        assert_eq!(sender.local.header.encrypt_in_place(&sample, &mut first, &mut number), Ok(()));
        assert_eq!((first, number.as_slice()), (0xc3 ^ mask[0] & 0x0f, &mask[1..]), "{version:?} {side:?}");
    }
}

/// RFC 9001 §A.3: the server's Initial packet, from its parts to the octets on the wire and back.
#[test]
fn the_initial_packet_of_rfc_9001_a_3() {
    let header = hex!("c1000000010008f067a5502a4262b50040750001");
    let payload = hex!(
        "02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf73988cfc79825df566dc5430b9a045a12"
        "00130100002e00330024001d00209d3c940d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a00"
        "2b00020304"
    );
    let wire = hex!(
        "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780b"
        "b38cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19"
        "fb84022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc42158407dd074ee"
    );
    // The packet number is the last two octets of the header; the sample starts four octets after its start.
    let (number_at, sample_at) = (18, 22);

    let server = initial(Side::Server, Version::V1).local;
    let mut packet = header.to_vec();
    packet.extend(seal(&server, None, 1, &header, &payload));
    let sample = packet[sample_at..][..16].to_vec();
    let (first, rest) = packet.split_first_mut().expect("a header");
    assert_eq!(server.header.encrypt_in_place(&sample, first, &mut rest[number_at - 1..][..2]), Ok(()));
    assert_eq!(packet, wire);

    let client = initial(Side::Client, Version::V1).remote;
    let (first, rest) = packet.split_first_mut().expect("a header");
    assert_eq!(client.header.decrypt_in_place(&sample, first, &mut rest[number_at - 1..][..4]), Ok(()));
    assert_eq!(packet[..header.len()], header);
    let opened = client.packet.decrypt_in_place(1, &header, &mut packet[header.len()..]);
    assert_eq!(opened, Ok(payload.as_slice()));
}
