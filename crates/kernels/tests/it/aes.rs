//! Header masks by AES.

use ::aes::cipher::{BlockCipherEncrypt, KeyInit};
use hex_literal::hex;
use wireseal_kernels::aes::AesMaskKey;
use wireseal_kernels::cpu::InstructionSet;
use wireseal_kernels::model;

use crate::guarded::Guarded;
use crate::paths;

const PATHS: [InstructionSet; 5] = [
    InstructionSet::AesNi,
    InstructionSet::AesNiAvx,
    InstructionSet::Vaes256,
    InstructionSet::Vaes512,
    InstructionSet::Aarch64Aes,
];

#[test]
fn fips_197_appendix_c_and_rfc_9001_appendix_a() {
    paths::each_alone(&PATHS, |path| {
        let key = hex!("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
        let plain = hex!("00112233445566778899aabbccddeeff");
        let Some(small) = AesMaskKey::new(&key[..16]) else { return assert_eq!(path, None) };
        assert_eq!(small.mask(&plain), hex!("69c4e0d86a7b0430d8cdb78070b4c55a"));
        assert_eq!(AesMaskKey::new(&key).unwrap().mask(&plain), hex!("8ea2b7ca516745bfeafc49904b496089"));
        let quic = AesMaskKey::new(&hex!("9f50449e04a0e810283a1e9933adedd2")).unwrap();
        assert_eq!(quic.mask(&hex!("d1b1c98dd7689fb8ec11d242b123dc9b"))[..5], hex!("437b9aec36"));
    });
}

#[test]
fn masks_are_those_of_the_model_and_of_a_library() {
    paths::each_alone(&PATHS, |path| {
        for seed in 0..20_u8 {
            let octets: [u8; 32] =
                core::array::from_fn(|at| (at as u8).wrapping_mul(77).wrapping_add(seed) ^ seed << 3);
            for key_octets in [&octets[..16], &octets] {
                let Some(key) = AesMaskKey::new(key_octets) else { return assert_eq!(path, None) };
                assert_eq!(Some(key.path()), path);
                let sample = octets[seed as usize % 16..][..16].try_into().unwrap();
                let mask = key.mask(sample);
                assert_eq!(mask, model::aes::encrypt(key_octets, *sample));
                let mut block = (*sample).into();
                match key_octets.len() {
                    16 => ::aes::Aes128::new_from_slice(key_octets).unwrap().encrypt_block(&mut block),
                    _ => ::aes::Aes256::new_from_slice(key_octets).unwrap().encrypt_block(&mut block),
                }
                assert_eq!(mask[..], block[..]);
            }
        }
    });
}

#[test]
fn a_sample_may_end_or_begin_where_memory_does() {
    paths::each_alone(&PATHS, |path| {
        for key_octets in [&[0x4d; 16][..], &[0x4d; 32]] {
            let Some(key) = AesMaskKey::new(key_octets) else { return assert_eq!(path, None) };
            for sample in (0..70).map(|at| [at ^ 0x51; 16]) {
                for guarded in Guarded::both(&sample) {
                    let mask = key.mask(guarded.first_chunk().unwrap());
                    assert_eq!(mask, model::aes::encrypt(key_octets, sample));
                    assert_eq!(*guarded, sample);
                }
            }
        }
    });
}
