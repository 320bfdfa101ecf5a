//! Texts and associated data of any length: the kernels were first made for packets.

use std::cell::RefCell;
use std::collections::HashSet;

use crate::{each_key, expected, octets};
use proptest::prelude::*;

const NONCE: [u8; 12] = [0xfe; 12];

/// Checks every backend and path with texts and associated data of these lengths.
fn check(lengths: &[(usize, usize)], nonce: &[u8; 12]) {
    // What the libraries seal, computed once for all backends.
    let known = RefCell::new(Vec::new());
    let checked = RefCell::new(HashSet::new());
    each_key(|key, key_octets| {
        // Without a path the kernels hand over to another backend, which is checked in its own turn.
        if !checked.borrow_mut().insert((key.algorithm(), key.served_by())) {
            return;
        }
        for &(length, aad) in lengths {
            let algorithm = key.algorithm();
            let name = (algorithm, length, aad);
            let (text, aad) = (octets(length, length as u64), octets(aad, 9));
            let mut known = known.borrow_mut();
            let index = known.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                known.push((name, expected(key_octets, algorithm, nonce, &aad, &text)));
                known.len() - 1
            });
            let sealed = &known[index].1;
            let mut message = [&text, &[0xa5; 16][..]].concat();
            key.seal(nonce, &aad, &mut message).expect("room for a tag");
            assert!(message == *sealed, "sealed {name:?}, {}", key.served_by());
            assert!(key.open(nonce, &aad, &mut message).is_ok_and(|opened| *opened == text), "{name:?}");
            if length > 0 {
                // The last octet of the text.
                message.copy_from_slice(sealed);
                message[length - 1] ^= 0x80;
                assert!(key.open(nonce, &aad, &mut message).is_err(), "{name:?}");
                assert!(message[..length].iter().all(|octet| *octet == 0), "{name:?}");
            }
        }
    });
}

#[test]
fn every_length_up_to_three_groups() {
    // AES-GCM processes groups of 256 octets, ChaCha20-Poly1305 of 1280; the first group is handled apart.
    let lengths: Vec<_> = (0..850).chain(1180..1400).map(|length| (length, length % 37)).collect();
    check(&lengths, &NONCE);
}

#[test]
fn around_every_group_and_power_of_two() {
    let steps = [2, 3, 4].map(|group| 1280 * group).into_iter().chain((11..=17).map(|bits| 1 << bits));
    let around = steps.flat_map(|step: usize| {
        [-65, -64, -17, -16, -15, -1, 0, 1, 15, 16, 17, 63, 64, 65]
            .map(|by| (step.saturating_add_signed(by), 13))
    });
    check(&around.collect::<Vec<_>>(), &NONCE);
}

/// Counters above 2^16 blocks of AES, and of ChaCha20.
#[test]
fn megabytes() {
    let mib = 1 << 20;
    check(&[(mib - 1, 0), (mib, 5), (4 * mib + 77, 1), (5 * mib, 70_000)], &NONCE);
}

/// 2^24 - 1 octets is AES-128-CCM's maximum, and sets every bit of its field for the length.
#[test]
fn the_longest_text_of_aes_128_ccm() {
    check(&[((1 << 24) - 1, 3)], &NONCE);
}

/// AES-CCM writes the length of its associated data in two octets, from 0xff00 on in six.
#[test]
fn associated_data_of_any_length() {
    let lengths = [1, 13, 14, 15, 16, 17, 255, 256, 4095, 0xfeff, 0xff00, 0xff01, 65_535, 65_536, 1 << 20];
    check(&lengths.map(|aad| (20, aad)), &NONCE);
    check(&lengths.map(|aad| (0, aad)), &NONCE);
}

/// The counter, which follows the nonce in the block, does not mix with it.
#[test]
fn nonces_of_ones_and_zeros() {
    check(&[(5000, 12)], &[0xff; 12]);
    check(&[(5000, 12)], &[0; 12]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(
        nonce: [u8; 12],
        // Around the edges of groups of up to 20 blocks of 64 octets.
        lengths in prop::collection::vec(
            ((0..70_usize, prop_oneof![Just(64_usize), Just(128), Just(256), Just(1280)], -17..18_isize), 0..70_usize),
            1..12,
        ),
    ) {
        let around = |(groups, group, by): (usize, usize, isize)| (groups * group).saturating_add_signed(by);
        check(&lengths.into_iter().map(|(text, aad)| (around(text), aad)).collect::<Vec<_>>(), &nonce);
    }
}
