//! HMAC-SHA-1 and HMAC-SHA-256.

use hex_literal::hex;
use wireseal_kernels::model::hmac::{SHA1, SHA256};

fn octets<const WORDS: usize>(words: [u32; WORDS]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Tests HMAC with one hash, whose chaining value has this many words.
macro_rules! tests_of {
    ($hash:ident, $words:literal, $model:ident, $algorithm:ident) => {
        mod $hash {
            use wireseal_kernels::cpu::InstructionSet;
            use wireseal_kernels::hmac::ShaInstructions;
            use wireseal_kernels::model::hmac::$model;
            use wireseal_kernels::$hash::{absorb, absorb_key, finish, hmac, hmac_many};

            use super::octets;
            use crate::macs::{Alone, Many, tests_many};

            struct Routine;

            impl Alone for Routine {
                /// With instructions for the hash, with instructions that help, and without.
                const PATHS: &'static [&'static [InstructionSet]] = &[
                    &[InstructionSet::ShaNi, InstructionSet::ShaNiAvx, InstructionSet::Avx512],
                    &[InstructionSet::Bmi2, InstructionSet::Avx512],
                    &[InstructionSet::Avx512],
                    &[InstructionSet::ShaNi],
                    &[InstructionSet::ShaNi, InstructionSet::ShaNiAvx],
                    &[InstructionSet::Bmi2],
                    &[InstructionSet::Aarch64Sha],
                ];
                type Key = [[u32; $words]; 2];

                fn key(octets: &[u8; 32]) -> Option<Self::Key> {
                    Some($model.key(octets))
                }

                fn mac(key: &Self::Key, message: &[&[u8]]) -> Option<Vec<u8>> {
                    let sha = ShaInstructions::detect();
                    let paths = [InstructionSet::ShaNi, InstructionSet::Bmi2, InstructionSet::Aarch64Sha];
                    assert_eq!(sha.is_some(), paths.iter().any(|path| path.is_available()));
                    let mac = hmac(sha?, key.each_ref(), message);
                    if let [whole] = message {
                        assert_eq!(mac, in_parts(sha?, key, whole));
                    }
                    Some(mac.to_vec())
                }

                fn by_model(key: &[u8; 32], message: &[u8]) -> Vec<u8> {
                    octets($model.hmac(key, message))
                }

                fn by_library(key: &[u8; 32], message: &[u8]) -> Vec<u8> {
                    let key = ring::hmac::Key::new(ring::hmac::$algorithm, key);
                    ring::hmac::sign(&key, message).as_ref().to_vec()
                }
            }

            /// The MAC of a message whose blocks come in two parts.
            fn in_parts(
                sha: ShaInstructions,
                [inner, outer]: &[[u32; $words]; 2],
                message: &[u8],
            ) -> [u8; 4 * $words] {
                let (blocks, rest) = message.as_chunks();
                let (first, second) = blocks.split_at(blocks.len() / 3);
                let mut value = *inner;
                absorb(sha, &mut value, first);
                absorb(sha, &mut value, second);
                finish(sha, [&value, outer], (64 + 64 * blocks.len()) as u64, rest)
            }

            impl Many for Routine {
                const BLOCK: usize = 64;

                fn group(_: usize) -> Option<usize> {
                    let twos = [InstructionSet::ShaNi, InstructionSet::Aarch64Sha];
                    if twos.iter().any(|path| path.is_available()) {
                        return Some(2);
                    }
                    InstructionSet::Avx512.is_available().then_some(16)
                }

                fn macs<'a>(
                    jobs: impl Iterator<Item = (usize, &'a Self::Key, &'a [&'a [u8]])>,
                    mut done: impl FnMut(usize, &[u8]),
                ) {
                    let jobs = jobs.map(|(number, key, message)| (number, key.each_ref(), message));
                    hmac_many(jobs, |number, mac| done(number, mac));
                }
            }

            tests_many!(Routine);

            #[test]
            fn key_blocks_of_every_length() {
                let octets: [u8; 64] = std::array::from_fn(|at| at as u8 + 1);
                let initial = [$model.initial; 2];
                for paths in Routine::PATHS {
                    crate::only(paths, || {
                        let Some(sha) = ShaInstructions::detect() else { return };
                        for length in 0..=octets.len() {
                            let mut values = initial;
                            absorb_key(sha, &mut values, &octets[..length]);
                            assert_eq!(
                                values,
                                $model.key(&octets[..length]),
                                "{length} octets with {paths:?}"
                            );
                        }
                    });
                }
            }

            #[test]
            fn without_a_path_all_are_left_to_the_caller() {
                crate::only(&[], || {
                    assert!(ShaInstructions::detect().is_none());
                    let key = $model.key(&[7; 32]);
                    let message: &[&[u8]] = &[&[1; 100]];
                    hmac_many((0..100).map(|number| (number, key.each_ref(), message)), |number, _| {
                        panic!("{number} was computed");
                    });
                });
            }
        }
    };
}

tests_of!(sha1, 5, SHA1, HMAC_SHA1_FOR_LEGACY_USE_ONLY);
tests_of!(sha256, 8, SHA256, HMAC_SHA256);

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

/// RFC 2202 §3 and RFC 4231 §4: their second cases.
#[test]
fn models_of_hmac() {
    let (key, message) = (b"Jefe", b"what do ya want for nothing?");
    assert_eq!(octets(SHA1.hmac(key, message)), hex!("effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"));
    assert_eq!(
        octets(SHA256.hmac(key, message)),
        hex!("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
    );
}
