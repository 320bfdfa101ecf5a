//! Compares Wireseal's keys with those that rustls' ring provider makes from the same octets.

use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic::{Algorithm, DirectionalKeys, Keys, Version};
use rustls::{CipherSuite, Side, Tls13CipherSuite};
use wireseal_rustls::{AeadAlgorithm, quic_algorithm};

use crate::support::{ALL, CCM, COMMON, aead, pattern, ring, tls13, wireseal};

const TAG: usize = AeadAlgorithm::TAG_LENGTH;

/// The keys of one side's Initial packets from `algorithm`, with the hash of `suite`: different implementations get the same octets.
fn keys(suite: &'static Tls13CipherSuite, algorithm: &'static dyn Algorithm, connection_id: &[u8]) -> Keys {
    Keys::initial(Version::V1, suite, algorithm, connection_id, Side::Client)
}

/// Wireseal's keys and those of the ring provider, from the same octets.
fn both(suite: CipherSuite, connection_id: &[u8]) -> [Keys; 2] {
    let theirs = tls13(&ring(), suite);
    [quic_algorithm(aead(suite)), theirs.quic.expect("ring does QUIC")]
        .map(|algorithm| keys(theirs, algorithm, connection_id))
}

/// `payload` encrypted, followed by the tag.
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

/// Changes one octet of each part; `wireseal-quic` tests every bit.
#[test]
fn a_changed_packet_fails_and_leaves_no_plaintext() {
    for suite in COMMON {
        let [ours, _] = both(suite, b"changes");
        let (number, header, payload) = (77, pattern(2, 21), pattern(3, 100));
        let sealed = seal(&ours.local, None, number, &header, &payload);
        let changed =
            |octets: &[u8], at: usize| [&octets[..at], &[octets[at] ^ 1], &octets[at + 1..]].concat();
        for (number, header, mut sealed) in [
            (number, header.clone(), changed(&sealed, 50)),
            (number, header.clone(), changed(&sealed, 115)),
            (number, header.clone(), sealed[..60].to_vec()),
            (number, changed(&header, 20), sealed.clone()),
            (number ^ 1 << 61, header.clone(), sealed.clone()),
        ] {
            let opened = ours.local.packet.decrypt_in_place(number, &header, &mut sealed);
            assert_eq!(opened, Err(rustls::Error::DecryptError), "{suite:?}");
            assert!(sealed.windows(8).all(|part| payload.windows(8).all(|plain| plain != part)), "{suite:?}");
        }
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
                    ours.local
                        .packet
                        .decrypt_in_place_for_path(path, number, &header, &mut buffer)
                        .map(<[u8]>::to_vec)
                };
                assert_eq!(opened(path).as_ref(), Ok(&payload));
                assert_eq!(opened(path ^ 1), Err(rustls::Error::DecryptError));
            }
        }
    }
}

/// draft-ietf-quic-multipath, "Nonce Calculation": the IV, path and number of its example give the same packet as its nonce used directly.
#[test]
fn the_nonce_of_a_path_is_that_of_the_draft() {
    let key = |iv: u128| {
        let iv: [u8; 12] = iv.to_be_bytes()[4..].try_into().expect("twelve octets");
        quic_algorithm(AeadAlgorithm::ChaCha20Poly1305).packet_key(AeadKey::from([1; 32]), Iv::from(iv))
    };
    let (mut sealed, mut expected) = ([2; 40], [2; 40]);
    let tag =
        key(0x6b26_114b_9cba_2b63_a9e8_dd4f).encrypt_in_place_for_path(3, 54_321, b"header", &mut sealed);
    let wanted = key(0x6b26_1148_9cba_2b63_a9e8_097e).encrypt_in_place(0, b"header", &mut expected);
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
            let sealed = keys.local.packet.encrypt_in_place(number, b"header", &mut payload[..length]);
            assert_eq!(sealed.err(), Some(rustls::Error::EncryptError));
        }
        assert!(payload.iter().all(|octet| *octet == 7));
        let sealed = keys.local.packet.encrypt_in_place((1 << 62) - 1, b"header", &mut payload[..65_535]);
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
