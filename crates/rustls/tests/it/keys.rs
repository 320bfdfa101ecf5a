//! Wireseal's keys against those that rustls' ring provider makes from the same octets.

use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic::{DirectionalKeys, Keys, Version};
use serde_json::Value;
use wireseal_rustls::{AeadAlgorithm, quic_algorithm};

use crate::support::{ALL, CCM, COMMON, aead, pattern, tls13, wireseal};
use crate::version::{self, CipherSuite, Side, initial_suite, keys, open, ring};

const TAG: usize = AeadAlgorithm::TAG_LENGTH;

/// Keys of the same octets: Wireseal's, and those of the ring provider.
fn both(suite: CipherSuite, connection_id: &[u8]) -> [Keys; 2] {
    let theirs = tls13(&ring(), suite);
    [quic_algorithm(aead(suite)), theirs.quic.expect("ring does QUIC")]
        .map(|algorithm| keys(theirs, algorithm, connection_id))
}

/// `payload` encrypted, with the tag behind it.
fn seal(keys: &DirectionalKeys, path: Option<u32>, number: u64, header: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut sealed = payload.to_vec();
    let tag = version::seal(&*keys.packet, path, number, header, &mut sealed);
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
                assert_eq!(open(&*opener.packet, None, number, &header, &mut buffer), Ok(&*payload));
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
            let opened = open(&*ours.local.packet, None, number, header, &mut buffer);
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
                let opened = |path: u32| {
                    let mut buffer = sealed.clone();
                    open(&*ours.local.packet, Some(path), number, &header, &mut buffer).map(<[u8]>::to_vec)
                };
                assert_eq!(opened(path).as_ref(), Ok(&payload));
                assert_eq!(opened(path ^ 1), Err(rustls::Error::DecryptError));
            }
        }
    }
}

/// draft-ietf-quic-multipath, "Nonce Calculation": the IV, the path and the number of its example make the same packet as its nonce
/// alone.
#[test]
fn the_nonce_of_a_path_is_that_of_the_draft() {
    let key = |iv: u128| {
        let iv: [u8; 12] = iv.to_be_bytes()[4..].try_into().expect("twelve octets");
        quic_algorithm(AeadAlgorithm::ChaCha20Poly1305).packet_key(AeadKey::from([1; 32]), Iv::from(iv))
    };
    let (mut sealed, mut expected) = ([2; 40], [2; 40]);
    let tag = version::seal(&*key(0x6b26_114b_9cba_2b63_a9e8_dd4f), Some(3), 54_321, b"header", &mut sealed);
    let wanted = version::seal(&*key(0x6b26_1148_9cba_2b63_a9e8_097e), None, 0, b"header", &mut expected);
    assert_eq!(tag.expect("in range").as_ref(), wanted.expect("in range").as_ref());
    assert_eq!(sealed, expected);
}

#[test]
fn a_number_or_a_payload_out_of_range_is_refused_unmodified() {
    for suite in ALL {
        let keys = keys(tls13(&wireseal(), suite), quic_algorithm(aead(suite)), b"range");
        let mut payload = vec![7; 65_536];
        let refused = [(1 << 62, 32), (u64::MAX, 32), (0, 65_536)];
        for (number, length) in refused {
            let sealed = version::seal(&*keys.local.packet, None, number, b"header", &mut payload[..length]);
            assert_eq!(sealed.err(), Some(rustls::Error::EncryptError));
        }
        assert!(payload.iter().all(|octet| *octet == 7));
        let sealed =
            version::seal(&*keys.local.packet, None, (1 << 62) - 1, b"header", &mut payload[..65_535]);
        assert!(sealed.is_ok());
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

/// RFC 9001 §A.1 to §A.3 and RFC 9369 §A.1 to §A.3: the Initial packets, from the connection ID and their parts to the octets on
/// the wire and back.
#[test]
fn initial_packets_are_those_of_the_rfcs() {
    let examples = [
        (Version::V1, include_str!("../../../quic/tests/data/vectors/rfc9001.json")),
        (Version::V2, include_str!("../../../quic/tests/data/vectors/rfc9369.json")),
    ];
    let suite = initial_suite(tls13(&wireseal(), COMMON[0]));
    for (version, example) in examples {
        let example: Value = serde_json::from_str(example).expect("JSON");
        let octets = |path: &str| {
            let text = example.pointer(path).and_then(Value::as_str).expect("a text");
            base16ct::mixed::decode_vec(text).expect("hexadecimal")
        };
        let id = octets("/destination_connection_id");
        let [client, server] = [Side::Client, Side::Server].map(|side| suite.keys(&id, side, version));
        for (name, sender, receiver) in [
            ("/client_initial", &client.local, &server.remote),
            ("/server_initial", &server.local, &client.remote),
        ] {
            let of = |part: &str| octets(&format!("{name}/{part}"));
            let number = |part: &str| example.pointer(&format!("{name}/{part}")).and_then(Value::as_u64);
            let (number, length) = (number("number").expect("a number"), number("number_length"));
            let (header, payload) = (of("header"), of("payload"));
            // The sample starts four octets after the start of the number.
            let number_at = header.len() - length.expect("a number") as usize;
            let mut packet = [&header[..], &seal(sender, None, number, &header, &payload)].concat();
            let sample = packet[number_at + 4..][..16].to_vec();
            let (first, rest) = packet.split_first_mut().expect("a header");
            let number_octets = &mut rest[number_at - 1..header.len() - 1];
            assert_eq!(sender.header.encrypt_in_place(&sample, first, number_octets), Ok(()));
            assert_eq!(packet, of("packet"), "{version:?} {name}");

            let (first, rest) = packet.split_first_mut().expect("a header");
            let four_octets = &mut rest[number_at - 1..][..4];
            assert_eq!(receiver.header.decrypt_in_place(&sample, first, four_octets), Ok(()));
            assert_eq!(packet[..header.len()], header);
            let opened = open(&*receiver.packet, None, number, &header, &mut packet[header.len()..]);
            assert_eq!(opened, Ok(payload.as_slice()));
        }
    }
}
