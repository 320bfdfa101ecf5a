//! AES-128-CMAC by every path that this processor has, against RFC 4493, the model and another library.

#[path = "support/guarded.rs"]
mod guarded;

use std::sync::{Mutex, MutexGuard};

use ::cmac::{Cmac, KeyInit, Mac};
use guarded::Guarded;
use hex_literal::hex;
use proptest::prelude::*;
use wireseal_kernels::cmac::{Key, mac_many, model};
use wireseal_kernels::cpu::{Path, switch};

/// From all that helps to the least that a key can be made with.
const PATHS: [&[Path]; 2] = [&[Path::AesNi, Path::Vaes512], &[Path::AesNi]];

/// The switch is for the whole process, so that only one test at a time may turn it.
static SWITCH: Mutex<()> = Mutex::new(());

fn only(paths: &[Path]) -> MutexGuard<'static, ()> {
    let guard = SWITCH.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    switch::only(paths);
    guard
}

fn rust_crypto(key: &[u8; 16], message: &[u8]) -> [u8; 16] {
    let mut cmac = Cmac::<aes::Aes128>::new(key.into());
    cmac.update(message);
    cmac.finalize().into_bytes().into()
}

/// A key, which there is exactly where AES-NI is.
fn key(octets: &[u8; 16]) -> Option<Key> {
    let key = Key::new(octets);
    assert_eq!(key.is_some(), Path::AesNi.is_available());
    key
}

/// The MACs of the messages, each under its own key, computed at once.
fn together(jobs: &[(&Key, &[&[u8]])]) -> Vec<[u8; 16]> {
    let mut macs = vec![None; jobs.len()];
    let numbered = jobs.iter().enumerate().map(|(number, (key, message))| (number, *key, *message));
    mac_many(numbered, |number, mac| assert!(macs[number].replace(*mac).is_none()));
    macs.into_iter().map(|mac| mac.expect("every job is done")).collect()
}

#[test]
fn rfc_4493() {
    let key = hex!("2b7e151628aed2a6abf7158809cf4f3c");
    let message = hex!(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    );
    let macs = [
        (0, hex!("bb1d6929e95937287fa37d129b756746")),
        (16, hex!("070a16b46b4d4144f79bdd9dd04a287c")),
        (40, hex!("dfa66747de9ae63030ca32611497c827")),
        (64, hex!("51f0bebf7e3b9d92fc49741779363cfe")),
    ];
    for (length, mac) in macs {
        assert_eq!(model::mac(&key, &message[..length]), mac);
    }
    for paths in PATHS {
        let _guard = only(paths);
        let Some(key) = self::key(&key) else { continue };
        for (length, mac) in macs {
            assert_eq!(key.mac(&[&message[..length]]), mac);
        }
        // So many that they are computed side by side.
        let messages = macs.map(|(length, _)| [&message[..length]]);
        let jobs: Vec<(&Key, &[&[u8]])> = (0..400).map(|at| (&key, &messages[at % 4][..])).collect();
        for (at, mac) in together(&jobs).into_iter().enumerate() {
            assert_eq!(mac, macs[at % 4].1);
        }
    }
}

#[test]
fn every_length_at_every_alignment() {
    let octets = [7; 16];
    let _guard = only(&Path::ALL);
    let key = key(&octets);
    let message: Vec<u8> = (0..1500).map(|at| (at * 31 % 251) as u8).collect();
    let mut moved = vec![0; message.len() + 64];
    let start = moved.as_ptr().align_offset(64);
    for length in 0..=message.len() {
        let expected = rust_crypto(&octets, &message[..length]);
        if length < 300 {
            assert_eq!(model::mac(&octets, &message[..length]), expected);
        }
        let Some(key) = &key else { continue };
        for alignment in 0..64 {
            let at = (start + alignment) % 64;
            moved[at..at + length].copy_from_slice(&message[..length]);
            assert_eq!(key.mac(&[&moved[at..at + length]]), expected, "{length} octets at {alignment}");
        }
    }
}

#[test]
fn many_of_every_length_at_every_alignment() {
    let message: Vec<u8> = (0..1564).map(|at| (at * 31 % 251) as u8).collect();
    let start = message.as_ptr().align_offset(64);
    for paths in PATHS {
        let _guard = only(paths);
        let octets: Vec<[u8; 16]> = (0..64).map(|number| [number; 16]).collect();
        let keys: Vec<Key> = octets.iter().filter_map(key).collect();
        for length in 0..=1500 {
            let slices: Vec<[&[u8]; 1]> =
                (0..keys.len()).map(|at| [&message[(start + at) % 64..][..length]]).collect();
            let jobs: Vec<(&Key, &[&[u8]])> =
                keys.iter().zip(&slices).map(|(key, slice)| (key, &slice[..])).collect();
            for (at, mac) in together(&jobs).into_iter().enumerate() {
                assert_eq!(mac, keys[at].mac(&slices[at]), "{length} octets, {paths:?}");
            }
        }
    }
}

/// The slices before the last one as TCP-AO has them: whole blocks in front of a segment's octets. Messages of one shape go in
/// step, in groups of eight or sixteen, and what is left over goes on otherwise.
#[test]
fn messages_of_one_shape() {
    const COUNTS: [usize; 9] = [7, 8, 9, 15, 16, 17, 31, 32, 33];
    let octets: [[u8; 16]; 33] = std::array::from_fn(|lane| [lane as u8 + 1; 16]);
    for shape in [&[64][..], &[128], &[16], &[0, 64]] {
        let whole: usize = shape.iter().sum();
        for length in 1..=130 {
            let messages = octets.map(|[lane, ..]| -> Vec<u8> {
                (0..whole + length).map(|at| (at * 31 + usize::from(lane) * 89) as u8).collect()
            });
            let expected: Vec<[u8; 16]> =
                octets.iter().zip(&messages).map(|(key, message)| rust_crypto(key, message)).collect();
            let slices = messages.each_ref().map(|message| cut(message, shape));
            for paths in PATHS {
                let _guard = only(paths);
                let keys: Vec<Key> = octets.iter().filter_map(key).collect();
                let jobs: Vec<(&Key, &[&[u8]])> =
                    keys.iter().zip(&slices).map(|(key, slices)| (key, &slices[..])).collect();
                for count in COUNTS.map(|count| count.min(jobs.len())) {
                    let macs = together(&jobs[..count]);
                    assert_eq!(macs, expected[..count], "{count} of {shape:?} and {length}, {paths:?}");
                }
            }
        }
    }
}

/// A message that is like the others but for one length, at every place among them.
#[test]
fn one_of_another_shape_among_them() {
    for (shape, other) in [([64, 20], [64, 21]), ([64, 20], [48, 20]), ([64, 20], [48, 36])] {
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
            for paths in PATHS {
                let _guard = only(paths);
                let keys: Vec<Key> = (1..=33).filter_map(|lane| key(&[lane; 16])).collect();
                let jobs: Vec<(&Key, &[&[u8]])> =
                    keys.iter().zip(&slices).map(|(key, slices)| (key, &slices[..])).collect();
                for (lane, mac) in together(&jobs).into_iter().enumerate() {
                    assert_eq!(
                        mac,
                        rust_crypto(&[lane as u8 + 1; 16], &messages[lane]),
                        "{other:?} at {place}"
                    );
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
    for paths in PATHS {
        let _guard = only(paths);
        let Some(key) = key(&[7; 16]) else { continue };
        for length in 0..=260 {
            let message: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let expected = rust_crypto(&[7; 16], &message);
            for guarded in Guarded::both(&message) {
                let (head, tail) = guarded.split_at(length / 3);
                assert_eq!(key.mac(&[&guarded]), expected);
                assert_eq!(key.mac(&[head, tail]), expected);
                for slices in [&[&guarded[..]][..], &[head, tail]] {
                    assert!(together(&vec![(&key, slices); 150]).iter().all(|mac| *mac == expected));
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
        for paths in PATHS {
            let _guard = only(paths);
            let keys: Vec<Key> = jobs.iter().filter_map(|(octets, ..)| key(octets)).collect();
            let cut: Vec<[&[u8]; 4]> = jobs
                .iter()
                .map(|(_, message, cuts)| {
                    let mut at = cuts.map(|cut| cut.index(message.len() + 1));
                    at.sort_unstable();
                    [&message[..at[0]], &message[at[0]..at[1]], &message[at[1]..at[2]], &message[at[2]..]]
                })
                .collect();
            let slices: Vec<(&Key, &[&[u8]])> = keys.iter().zip(&cut).map(|(key, cut)| (key, &cut[..])).collect();
            for (at, mac) in together(&slices).into_iter().enumerate() {
                prop_assert_eq!(mac, rust_crypto(&jobs[at].0, &jobs[at].1));
                prop_assert_eq!(mac, keys[at].mac(&cut[at]));
            }
        }
    }
}

#[test]
fn without_aes_there_is_no_key_and_those_made_before_go_on() {
    let _guard = only(&Path::ALL);
    let made_before = key(&[7; 16]);
    switch::only(&[]);
    assert!(key(&[7; 16]).is_none());
    if let Some(key) = made_before {
        let message: &[&[u8]] = &[&[1; 100]];
        assert!(
            together(&vec![(&key, message); 200]).iter().all(|mac| *mac == rust_crypto(&[7; 16], &[1; 100]))
        );
    }
}

#[test]
fn a_key_shows_nothing() {
    let _guard = only(&Path::ALL);
    if let Some(key) = key(&[7; 16]) {
        assert_eq!(format!("{key:?}"), "Key { .. }");
        assert_eq!(size_of_val(&key), 192);
    }
}
