//! HMAC-SHA-1 and HMAC-SHA-256 by every path that this processor has, against the standards, the models and another library.

#[path = "support/guarded.rs"]
mod guarded;

use std::sync::{Mutex, MutexGuard};

use guarded::Guarded;
use hex_literal::hex;
use proptest::prelude::*;
use wireseal_kernels::cpu::{Path, switch};
use wireseal_kernels::hmac::model::{SHA1, SHA256};
use wireseal_kernels::hmac::{Job, ShaInstructions};
use wireseal_kernels::{sha1, sha256};

/// With instructions for the hash and without.
const PATHS: [&[Path]; 3] = [&[Path::ShaNi, Path::Avx512], &[Path::Avx512], &[Path::ShaNi]];

/// The switch is for the whole process, so that only one test at a time may turn it.
static SWITCH: Mutex<()> = Mutex::new(());

fn only(paths: &[Path]) -> MutexGuard<'static, ()> {
    let guard = SWITCH.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    switch::only(paths);
    guard
}

/// A prepared key of either hash, and the same of the other library.
struct Keys {
    sha1: [[u32; 5]; 2],
    sha256: [[u32; 8]; 2],
    ring: [ring::hmac::Key; 2],
}

impl Keys {
    fn new(key: &[u8]) -> Self {
        let algorithms = [ring::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, ring::hmac::HMAC_SHA256];
        Self {
            sha1: SHA1.key(key),
            sha256: SHA256.key(key),
            ring: algorithms.map(|algorithm| ring::hmac::Key::new(algorithm, key)),
        }
    }

    /// What the other library says.
    fn expected(&self, message: &[u8]) -> ([u8; 20], [u8; 32]) {
        let [sha1, sha256] = self.ring.each_ref().map(|key| ring::hmac::sign(key, message));
        (sha1.as_ref().try_into().expect("20 octets"), sha256.as_ref().try_into().expect("32 octets"))
    }

    fn alone(&self, sha: ShaInstructions, message: &[&[u8]]) -> ([u8; 20], [u8; 32]) {
        let sha1 = sha1::hmac(sha, self.sha1.each_ref(), message);
        (sha1, sha256::hmac(sha, self.sha256.each_ref(), message))
    }
}

fn octets<const WORDS: usize>(hash: [u32; WORDS]) -> Vec<u8> {
    hash.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Both HMACs of a message, where they gained by being computed with others.
type Together = (Option<[u8; 20]>, Option<[u8; 32]>);

/// The HMACs of the messages, each under its own key, computed at once; without those that had rather be computed alone.
fn together(jobs: &[(&Keys, &[&[u8]])]) -> Vec<Together> {
    let mut macs = vec![(None, None); jobs.len()];
    let mut told = vec![(0, 0); jobs.len()];
    let numbered = jobs.iter().enumerate();
    let jobs1 =
        numbered.clone().map(|(at, (key, message))| -> Job<'_, 5> { (at, key.sha1.each_ref(), message) });
    let jobs256 = numbered.map(|(at, (key, message))| -> Job<'_, 8> { (at, key.sha256.each_ref(), message) });
    sha1::hmac_many(jobs1, |at, mac| (macs[at].0, told[at].0) = (mac.copied(), told[at].0 + 1));
    sha256::hmac_many(jobs256, |at, mac| (macs[at].1, told[at].1) = (mac.copied(), told[at].1 + 1));
    assert!(told.iter().all(|told| *told == (1, 1)));
    macs
}

/// FIPS 180-4's own examples, as NIST publishes them.
#[test]
fn models_of_the_hashes() {
    let long = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    assert_eq!(octets(SHA1.hash(&[], b"abc")), hex!("a9993e364706816aba3e25717850c26c9cd0d89d"));
    assert_eq!(octets(SHA1.hash(&[], long)), hex!("84983e441c3bd26ebaae4aa1f95129e5e54670f1"));
    assert_eq!(
        octets(SHA256.hash(&[], b"abc")),
        hex!("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    );
    assert_eq!(
        octets(SHA256.hash(&[], long)),
        hex!("248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1")
    );
}

/// RFC 2202, section 3, and RFC 4231, section 4: their second cases.
#[test]
fn models_of_hmac() {
    let (key, message) = (b"Jefe", b"what do ya want for nothing?");
    assert_eq!(octets(SHA1.hmac(key, message)), hex!("effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"));
    assert_eq!(
        octets(SHA256.hmac(key, message)),
        hex!("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
    );
}

#[test]
fn every_length_at_every_alignment() {
    let keys = Keys::new(&[7; 20]);
    let message: Vec<u8> = (0..1500).map(|at| (at * 31 % 251) as u8).collect();
    let mut moved = vec![0; message.len() + 64];
    let start = moved.as_ptr().align_offset(64);
    let _guard = only(&Path::ALL);
    for length in 0..=message.len() {
        let expected = keys.expected(&message[..length]);
        if length < 300 {
            assert_eq!(octets(SHA1.hmac(&[7; 20], &message[..length])), expected.0);
            assert_eq!(octets(SHA256.hmac(&[7; 20], &message[..length])), expected.1);
        }
        let Some(sha) = ShaInstructions::detect() else { continue };
        for alignment in 0..64 {
            let at = (start + alignment) % 64;
            moved[at..at + length].copy_from_slice(&message[..length]);
            assert_eq!(
                keys.alone(sha, &[&moved[at..at + length]]),
                expected,
                "{length} octets at {alignment}"
            );
        }
    }
}

#[test]
fn many_of_every_length_at_every_alignment() {
    let message: Vec<u8> = (0..1564).map(|at| (at * 31 % 251) as u8).collect();
    let start = message.as_ptr().align_offset(64);
    let keys: Vec<Keys> = (0..64).map(|number| Keys::new(&[number; 32])).collect();
    for length in 0..=1500 {
        let slices: Vec<[&[u8]; 1]> =
            (0..keys.len()).map(|at| [&message[(start + at) % 64..][..length]]).collect();
        let jobs: Vec<(&Keys, &[&[u8]])> =
            keys.iter().zip(&slices).map(|(key, slice)| (key, &slice[..])).collect();
        let _guard = only(&[Path::Avx512]);
        for (at, (sha1, sha256)) in together(&jobs).into_iter().enumerate() {
            assert_eq!(sha1.is_some() && sha256.is_some(), Path::Avx512.is_available());
            let expected = keys[at].expected(slices[at][0]);
            assert!(sha1.is_none_or(|mac| mac == expected.0), "{length} octets");
            assert!(sha256.is_none_or(|mac| mac == expected.1), "{length} octets");
        }
    }
}

/// The slices before the last one as TCP-AO has them: whole blocks in front of a segment's octets. Sixteen messages of one shape
/// go in step, and what is left over goes on otherwise.
#[test]
fn messages_of_one_shape() {
    const COUNTS: [usize; 9] = [7, 8, 9, 15, 16, 17, 31, 32, 33];
    let keys: Vec<Keys> = (1..=33).map(|lane| Keys::new(&[lane; 20])).collect();
    for shape in [&[64][..], &[128], &[0, 64]] {
        let whole: usize = shape.iter().sum();
        for length in 1..=130 {
            let messages: Vec<Vec<u8>> = (0..33)
                .map(|lane| (0..whole + length).map(|at| (at * 31 + lane * 89) as u8).collect())
                .collect();
            let expected: Vec<_> =
                keys.iter().zip(&messages).map(|(key, message)| key.expected(message)).collect();
            let slices: Vec<Vec<&[u8]>> = messages.iter().map(|message| cut(message, shape)).collect();
            let jobs: Vec<(&Keys, &[&[u8]])> =
                keys.iter().zip(&slices).map(|(key, slices)| (key, &slices[..])).collect();
            for paths in PATHS {
                let _guard = only(paths);
                for count in COUNTS {
                    for (at, (sha1, sha256)) in together(&jobs[..count]).into_iter().enumerate() {
                        let context = format!("{at} of {count} of {shape:?} and {length}, {paths:?}");
                        assert_eq!(sha1.unwrap_or(expected[at].0), expected[at].0, "{context}");
                        assert_eq!(sha256.unwrap_or(expected[at].1), expected[at].1, "{context}");
                        // Whole groups are not left to the caller.
                        if at < count / 16 * 16 && Path::Avx512.is_available() {
                            assert!(sha1.is_some() && sha256.is_some(), "{context}");
                        }
                    }
                }
            }
        }
    }
}

/// A message that is like the others but for one length, at every place among them.
#[test]
fn one_of_another_shape_among_them() {
    let keys: Vec<Keys> = (1..=33).map(|lane| Keys::new(&[lane; 20])).collect();
    for (shape, other) in [([128, 20], [128, 21]), ([128, 20], [64, 20]), ([128, 20], [64, 84])] {
        for place in 0..33 {
            let messages: Vec<Vec<u8>> = (0..33)
                .map(|lane| {
                    let lengths = if lane == place { other } else { shape };
                    (0..lengths[0] + lengths[1]).map(|at| (at * 31 + lane * 89) as u8).collect()
                })
                .collect();
            let slices: Vec<Vec<&[u8]>> = messages
                .iter()
                .enumerate()
                .map(|(lane, message)| cut(message, &[if lane == place { other } else { shape }[0]]))
                .collect();
            let jobs: Vec<(&Keys, &[&[u8]])> =
                keys.iter().zip(&slices).map(|(key, slices)| (key, &slices[..])).collect();
            for paths in PATHS {
                let _guard = only(paths);
                for (lane, (sha1, sha256)) in together(&jobs).into_iter().enumerate() {
                    let expected = keys[lane].expected(&messages[lane]);
                    assert_eq!(sha1.unwrap_or(expected.0), expected.0, "{lane}, {other:?} at {place}");
                    assert_eq!(sha256.unwrap_or(expected.1), expected.1, "{lane}, {other:?} at {place}");
                }
            }
        }
    }
}

/// The message in slices of these lengths, and the rest.
fn cut<'a>(message: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = message;
    let whole = lengths.iter().map(|length| rest.split_off(..*length).expect("as many octets"));
    let mut slices: Vec<&[u8]> = whole.collect();
    slices.push(rest);
    slices
}

#[test]
fn nothing_is_read_outside_of_the_slices() {
    let keys = Keys::new(&[7; 20]);
    let _guard = only(&Path::ALL);
    for length in 0..=260 {
        let message: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let expected = keys.expected(&message);
        for guarded in Guarded::both(&message) {
            let (head, tail) = guarded.split_at(length / 3);
            for slices in [&[&guarded[..]][..], &[head, tail]] {
                if let Some(sha) = ShaInstructions::detect() {
                    assert_eq!(keys.alone(sha, slices), expected);
                }
                for (sha1, sha256) in together(&[(&keys, slices); 24]) {
                    assert!(sha1.is_none_or(|mac| mac == expected.0));
                    assert!(sha256.is_none_or(|mac| mac == expected.1));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn many_are_as_good_as_each_alone(
        jobs in prop::collection::vec(
            (any::<[u8; 16]>(), prop::collection::vec(any::<u8>(), 0..900), any::<[prop::sample::Index; 3]>()),
            0..60,
        ),
    ) {
        let keys: Vec<Keys> = jobs.iter().map(|(key, ..)| Keys::new(key)).collect();
        let cut: Vec<[&[u8]; 4]> = jobs
            .iter()
            .map(|(_, message, cuts)| {
                let mut at = cuts.map(|cut| cut.index(message.len() + 1));
                at.sort_unstable();
                [&message[..at[0]], &message[at[0]..at[1]], &message[at[1]..at[2]], &message[at[2]..]]
            })
            .collect();
        let slices: Vec<(&Keys, &[&[u8]])> = keys.iter().zip(&cut).map(|(key, cut)| (key, &cut[..])).collect();
        for paths in PATHS {
            let _guard = only(paths);
            for (at, (sha1, sha256)) in together(&slices).into_iter().enumerate() {
                let expected = keys[at].expected(&jobs[at].1);
                prop_assert!(sha1.is_none_or(|mac| mac == expected.0));
                prop_assert!(sha256.is_none_or(|mac| mac == expected.1));
                if let Some(sha) = ShaInstructions::detect() {
                    prop_assert_eq!(keys[at].alone(sha, &cut[at]), expected);
                }
            }
        }
    }
}

/// Lanes that pad to one block go on while others still have a second one.
#[test]
fn last_blocks_of_one_and_two_lie_side_by_side() {
    let keys = Keys::new(&[7; 20]);
    let message = [3; 128];
    let lengths = [0, 55, 56, 63, 64, 119, 120, 128];
    let slices: Vec<[&[u8]; 1]> = (0..64).map(|at| [&message[..lengths[at % 8]]]).collect();
    let jobs: Vec<(&Keys, &[&[u8]])> = slices.iter().map(|slice| (&keys, &slice[..])).collect();
    let _guard = only(&[Path::Avx512]);
    for (at, (sha1, sha256)) in together(&jobs).into_iter().enumerate() {
        let expected = keys.expected(slices[at][0]);
        assert_eq!(sha1.unwrap_or(expected.0), expected.0);
        assert_eq!(sha256.unwrap_or(expected.1), expected.1);
        assert_eq!(sha1.is_some() && sha256.is_some(), Path::Avx512.is_available());
    }
}

#[test]
fn without_a_path_all_are_left_to_the_caller() {
    let _guard = only(&[]);
    assert!(ShaInstructions::detect().is_none());
    let keys = Keys::new(&[7; 20]);
    let message: &[&[u8]] = &[&[1; 100]];
    assert!(together(&vec![(&keys, message); 100]).iter().all(|macs| *macs == (None, None)));
}
