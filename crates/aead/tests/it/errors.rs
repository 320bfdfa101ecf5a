//! Bad input: each is refused with an error that names it, and leaves behind what the documentation says.

use wireseal_aead::{AeadAlgorithm, AeadError, AeadKey, Backend, MaskKey};

use crate::{each_backend, each_key, octets};

const NONCE: [u8; 12] = [7; 12];
const TAG: usize = AeadAlgorithm::TAG_LENGTH;

#[test]
fn keys_of_other_lengths() {
    each_backend(|backend| {
        for algorithm in AeadAlgorithm::ALL {
            let expected = algorithm.key_length();
            for got in (0..70).filter(|got| *got != expected) {
                let error = Some(AeadError::KeyLength { algorithm, expected, got });
                let key = octets(got, 1);
                assert_eq!(AeadKey::with_backend(backend, algorithm, &key).err(), error);
                assert_eq!(MaskKey::with_backend(backend, algorithm, &key).err(), error);
            }
        }
    });
}

/// An error names the algorithm, not the cipher suite of TLS.
#[test]
fn every_error_has_its_message() {
    let key_of_7 = |algorithm| AeadKey::new(algorithm, &[0; 7]).expect_err("no key").to_string();
    assert_eq!(
        AeadAlgorithm::ALL.map(key_of_7),
        [
            "a key for AES-128-GCM has 16 octets, not 7",
            "a key for AES-256-GCM has 32 octets, not 7",
            "a key for ChaCha20-Poly1305 has 32 octets, not 7",
            "a key for AES-128-CCM has 16 octets, not 7",
        ]
    );
    let maximum = 16_777_215;
    let too_long = AeadError::TooLong { algorithm: AeadAlgorithm::Aes128Ccm, maximum, got: 16_777_216 };
    let texts = [
        (too_long, "a text for AES-128-CCM has at most 16777215 octets, not 16777216"),
        (
            AeadError::NoRoomForTag { needed: 16, got: 15 },
            "a buffer to seal ends with 16 octets of room for the tag, and this one has only 15",
        ),
        (
            AeadError::SampleOutside { needed: 20, got: 19 },
            "the sample ends 20 octets after the start of the text, which has only 19 with its tag",
        ),
        (
            AeadError::Truncated { needed: 16, got: 3 },
            "a sealed message has a tag of 16 octets, and this one only 3 octets",
        ),
        (AeadError::NotAuthentic, "the message is not authentic"),
    ];
    for (error, text) in texts {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn buffers_without_room_and_messages_without_a_tag() {
    each_key(|key, key_octets| {
        for got in 0..TAG {
            let mut buffer = octets(got, 2);
            assert_eq!(key.seal(&NONCE, b"", &mut buffer), Err(AeadError::NoRoomForTag { needed: TAG, got }));
            assert_eq!(
                key.open(&NONCE, b"", &mut buffer).err(),
                Some(AeadError::Truncated { needed: TAG, got })
            );
            let mask = MaskKey::new(key.algorithm(), key_octets).unwrap();
            assert_eq!(
                key.seal_with_mask(&mask, &NONCE, b"", &mut buffer, 0),
                Err(AeadError::NoRoomForTag { needed: TAG, got })
            );
            assert_eq!(buffer, octets(got, 2));
        }
    });
}

#[test]
fn samples_outside_of_the_message() {
    each_backend(|backend| {
        for algorithm in AeadAlgorithm::ALL {
            let key_octets = octets(algorithm.key_length(), 1);
            let key = AeadKey::with_backend(backend, algorithm, &key_octets).unwrap();
            for mask_backend in Backend::ALL {
                let mask = MaskKey::with_backend(*mask_backend, algorithm, &key_octets).unwrap();
                for sample in [81 - TAG, 81, usize::MAX] {
                    let mut message = octets(80, 3);
                    let error = AeadError::SampleOutside { needed: sample.saturating_add(16), got: 80 };
                    assert_eq!(key.seal_with_mask(&mask, &NONCE, b"", &mut message, sample), Err(error));
                    assert_eq!(message, octets(80, 3));
                }
                let (mut message, mut alone) = (octets(80, 3), octets(80, 3));
                let masked = key.seal_with_mask(&mask, &NONCE, b"aad", &mut message, 80 - TAG).unwrap();
                key.seal(&NONCE, b"aad", &mut alone).unwrap();
                assert_eq!(message, alone);
                assert_eq!(masked, mask.mask(message.last_chunk().unwrap()));
            }
        }
    });
}

/// A test cannot allocate texts beyond the limits of the other algorithms, so only the numbers are checked for those.
#[test]
fn texts_that_are_too_long() {
    assert_eq!(
        AeadAlgorithm::ALL.map(AeadAlgorithm::max_text_length),
        [(1_u64 << 36) - 32, (1 << 36) - 32, (1 << 38) - 64, (1 << 24) - 1]
    );
    let algorithm = AeadAlgorithm::Aes128Ccm;
    let key = AeadKey::new(algorithm, &[7; 16]).unwrap();
    let got = 1 << 24;
    let error = AeadError::TooLong { algorithm, maximum: (1 << 24) - 1, got };
    let mut message = vec![0x5a; got + TAG];
    assert_eq!(key.seal(&NONCE, b"", &mut message), Err(error));
    assert_eq!(key.open(&NONCE, b"", &mut message).err(), Some(error));
    let mask = MaskKey::new(algorithm, &[7; 16]).unwrap();
    assert_eq!(key.seal_with_mask(&mask, &NONCE, b"", &mut message, 0), Err(error));
    let (text, tag) = message.split_last_chunk_mut().unwrap();
    assert_eq!(key.seal_detached(&NONCE, b"", text), Err(error));
    assert_eq!(key.open_detached(&NONCE, b"", text, tag), Err(error));
    assert!(message.iter().all(|octet| *octet == 0x5a));
    // The other algorithms take it.
    for algorithm in AeadAlgorithm::ALL.into_iter().filter(|other| *other != algorithm) {
        let key = AeadKey::new(algorithm, &octets(algorithm.key_length(), 1)).unwrap();
        assert_eq!(key.seal(&NONCE, b"", &mut message), Ok(()));
        assert!(key.open(&NONCE, b"", &mut message).unwrap().iter().all(|octet| *octet == 0x5a));
    }
}

#[test]
fn what_is_not_authentic_leaves_zeros() {
    let flipped = |octets: &[u8], bit: usize| {
        let mut octets = octets.to_vec();
        octets[bit / 8] ^= 1 << (bit % 8);
        octets
    };
    each_key(|key, _| {
        for length in [0, 1, 16, 100, 1300, 70_000] {
            let (aad, mut sealed) = (octets(13, 4), octets(length + TAG, 5));
            key.seal(&NONCE, &aad, &mut sealed).unwrap();
            let refused = |nonce: &[u8], aad: &[u8], sealed: &[u8]| {
                let nonce = nonce.try_into().unwrap();
                let mut message = sealed.to_vec();
                assert_eq!(key.open(nonce, aad, &mut message).err(), Some(AeadError::NotAuthentic));
                let (text, tag) = sealed.split_last_chunk().unwrap();
                assert!(message == [&vec![0; length], &tag[..]].concat(), "{length}");
                let mut text = text.to_vec();
                assert_eq!(key.open_detached(nonce, aad, &mut text, tag), Err(AeadError::NotAuthentic));
                assert!(text.iter().all(|octet| *octet == 0), "{length}");
            };
            for bit in (0..8 * sealed.len()).step_by(8 * sealed.len() / 20) {
                refused(&NONCE, &aad, &flipped(&sealed, bit));
            }
            for bit in [0, 60, 95] {
                refused(&flipped(&NONCE, bit), &aad, &sealed);
                refused(&NONCE, &flipped(&aad, bit), &sealed);
            }
            refused(&NONCE, &aad[..12], &sealed);
            refused(&NONCE, &[&aad[..], &[0]].concat(), &sealed);
            assert_eq!(key.open(&NONCE, &aad, &mut sealed).map(|text| text.to_vec()), Ok(octets(length, 5)));
        }
    });
}
