use cmac::{Cmac, KeyInit, Mac};
use hex_literal::hex;
use wireseal_kernels::cmac::{Key, mac_many};
use wireseal_kernels::cpu::{InstructionSet, switch};
use wireseal_kernels::model::cmac as model;

use crate::macs::{Alone, Many, tests_many};
use crate::only;

struct Routine;

impl Alone for Routine {
    const PATHS: &'static [&'static [InstructionSet]] = &[
        &[InstructionSet::AesNi, InstructionSet::Vaes512],
        &[InstructionSet::AesNi],
        &[InstructionSet::Aarch64Aes],
    ];
    type Key = Key;

    fn key(octets: &[u8; 32]) -> Option<Key> {
        let key = Key::new(octets.first_chunk().expect("16 of 32 octets"));
        assert_eq!(key.is_some(), has_path());
        key
    }

    fn mac(key: &Key, message: &[&[u8]]) -> Option<Vec<u8>> {
        let mac = key.mac(message);
        if let [whole] = message {
            assert_eq!(mac, in_parts(key, whole));
        }
        Some(mac.to_vec())
    }

    fn by_model(key: &[u8; 32], message: &[u8]) -> Vec<u8> {
        model::mac(key.first_chunk().expect("16 of 32 octets"), message).to_vec()
    }

    fn by_library(key: &[u8; 32], message: &[u8]) -> Vec<u8> {
        let mut cmac = Cmac::<aes::Aes128>::new_from_slice(&key[..16]).expect("16 octets");
        cmac.update(message);
        cmac.finalize().into_bytes().to_vec()
    }
}

/// The MAC of a message whose blocks come in two parts, all but the last one.
fn in_parts(key: &Key, message: &[u8]) -> [u8; 16] {
    let (before, rest) = message.split_at(message.len().saturating_sub(1) / 16 * 16);
    let (blocks, _) = before.as_chunks();
    let (first, second) = blocks.split_at(blocks.len() / 3);
    let mut value = [0; 16];
    key.absorb(&mut value, first);
    key.absorb(&mut value, second);
    key.finish(&value, rest)
}

impl Many for Routine {
    const BLOCK: usize = 16;

    fn group(octets: usize) -> Option<usize> {
        (has_path() && octets >= 16).then_some(8)
    }

    fn macs<'a>(
        jobs: impl Iterator<Item = (usize, &'a Key, &'a [&'a [u8]])>,
        mut done: impl FnMut(usize, &[u8]),
    ) {
        mac_many(jobs, |number, mac| done(number, mac));
    }
}

tests_many!(Routine);

fn has_path() -> bool {
    [InstructionSet::AesNi, InstructionSet::Aarch64Aes].iter().any(|path| path.is_available())
}

/// RFC 4493 §4.
#[test]
fn published_vectors() {
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
    for paths in Routine::PATHS {
        only(paths, || {
            let Some(key) = Key::new(&key) else { return };
            for (length, mac) in macs {
                let message: &[&[u8]] = &[&message[..length]];
                assert_eq!(key.mac(message), mac);
                let mut count = 0;
                mac_many((0..16).map(|number| (number, &key, message)), |_, of_many| {
                    assert_eq!(*of_many, mac);
                    count += 1;
                });
                assert!(count == 16 || length < 16, "{length} octets, {count} MACs");
            }
        });
    }
}

#[test]
fn without_aes_there_is_no_key_and_those_made_before_go_on() {
    only(&InstructionSet::ALL, || {
        let made_before = Key::new(&[7; 16]);
        switch::only(&[]);
        assert!(Key::new(&[7; 16]).is_none());
        let Some(key) = made_before else { return };
        let mac = Routine::by_library(&[7; 32], &[1; 100]);
        let message: &[&[u8]] = &[&[1; 100]];
        assert_eq!(key.mac(message)[..], mac);
        mac_many((0..16).map(|number| (number, &key, message)), |_, of_many| assert_eq!(of_many[..], mac));
    });
}

#[test]
fn a_key_shows_nothing() {
    only(&InstructionSet::ALL, || {
        if let Some(key) = Key::new(&[7; 16]) {
            assert_eq!(format!("{key:?}"), "Key { .. }");
            assert_eq!(size_of_val(&key), 192);
        }
    });
}
