//! Every backend, and every path of the kernels: against published vectors, other libraries, and bad input.

mod errors;
mod keys;
mod long;
mod traits;
mod vectors;

use std::sync::{Mutex, PoisonError};

use wireseal_aead::{AeadAlgorithm, AeadKey, Backend};
use wireseal_kernels::cpu::{InstructionSet, switch};

/// One test at a time, because the switch that turns paths off affects the whole process.
static TURN: Mutex<()> = Mutex::new(());

/// Runs `test` with each backend, and with the kernels on each path that this processor has, and on none.
fn each_backend(test: impl Fn(Backend)) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    switch::all();
    let paths = InstructionSet::ALL.into_iter().filter(|path| path.is_available());
    let paths: Vec<_> = paths.map(Some).chain([None]).collect();
    for &backend in Backend::ALL {
        // Only the kernels ask for paths.
        let paths = if backend.name() == "Wireseal" { &paths[..] } else { &[None] };
        for path in paths {
            path.map_or_else(|| switch::only(&[]), switch::up_to);
            println!("{} with {}", backend.name(), path.map_or("no path", InstructionSet::name));
            test(backend);
        }
    }
    switch::all();
}

/// Runs `test` with a key of each algorithm, and the key's octets.
fn each_key(test: impl Fn(&AeadKey, &[u8])) {
    each_backend(|backend| {
        for algorithm in AeadAlgorithm::ALL {
            let key = octets(algorithm.key_length(), 1);
            test(&AeadKey::with_backend(backend, algorithm, &key).expect("the key's length"), &key);
        }
    });
}

/// Octets without a pattern that could hide a mistake, the same in each run.
fn octets(length: usize, seed: u64) -> Vec<u8> {
    let mut octets = vec![0; length];
    fastrand::Rng::with_seed(seed).fill(&mut octets);
    octets
}

/// Ciphertext and tag by RustCrypto, and by ring if it has the algorithm.
fn expected(key: &[u8], algorithm: AeadAlgorithm, nonce: &[u8; 12], aad: &[u8], text: &[u8]) -> Vec<u8> {
    use aes_gcm::aead::{Aead, KeyInit, Payload};

    let message = Payload { msg: text, aad };
    let nonce_array = nonce.into();
    let (sealed, by_ring) = match algorithm {
        AeadAlgorithm::Aes128Gcm => (
            aes_gcm::Aes128Gcm::new_from_slice(key).unwrap().encrypt(nonce_array, message),
            &ring::aead::AES_128_GCM,
        ),
        AeadAlgorithm::Aes256Gcm => (
            aes_gcm::Aes256Gcm::new_from_slice(key).unwrap().encrypt(nonce_array, message),
            &ring::aead::AES_256_GCM,
        ),
        AeadAlgorithm::ChaCha20Poly1305 => (
            chacha20poly1305::ChaCha20Poly1305::new_from_slice(key).unwrap().encrypt(nonce_array, message),
            &ring::aead::CHACHA20_POLY1305,
        ),
        AeadAlgorithm::Aes128Ccm => return ccm(key, nonce, aad, text),
    };
    let sealed = sealed.expect("not too long");
    let by_ring = ring::aead::LessSafeKey::new(ring::aead::UnboundKey::new(by_ring, key).unwrap());
    let mut message = text.to_vec();
    let nonce = ring::aead::Nonce::assume_unique_for_key(*nonce);
    by_ring.seal_in_place_append_tag(nonce, ring::aead::Aad::from(aad), &mut message).unwrap();
    assert!(message == sealed, "the libraries differ");
    sealed
}

/// AES-128-CCM with nonces of 12 octets and tags of 16, as RFC 3610 §2.2 and §2.3 have it: there is no second library.
fn ccm(key: &[u8], nonce: &[u8; 12], aad: &[u8], text: &[u8]) -> Vec<u8> {
    use aes::cipher::{BlockCipherEncrypt, KeyInit};

    let cipher = aes::Aes128Enc::new_from_slice(key).unwrap();
    let encrypt = |block: [u8; 16]| {
        let mut block = block.into();
        cipher.encrypt_block(&mut block);
        u128::from_be_bytes(block.into())
    };
    let block = |flags: u8, counter: u32| {
        let mut block = [0; 16];
        block[0] = flags;
        block[1..13].copy_from_slice(nonce);
        block[13..].copy_from_slice(&counter.to_be_bytes()[1..]);
        block
    };
    let mut prefix = match aad.len() {
        0 => vec![],
        length @ 1..0xff00 => (length as u16).to_be_bytes().to_vec(),
        length => [&[0xff, 0xfe][..], &(length as u32).to_be_bytes()].concat(),
    };
    prefix.extend_from_slice(aad);
    let flags = if aad.is_empty() { 0 } else { 1 << 6 } | (((16 - 2) / 2) << 3) | (3 - 1);
    let mut mac = encrypt(block(flags, text.len() as u32));
    for part in prefix.chunks(16).chain(text.chunks(16)) {
        let mut padded = [0; 16];
        padded[..part.len()].copy_from_slice(part);
        mac = encrypt((mac ^ u128::from_be_bytes(padded)).to_be_bytes());
    }
    let mut sealed = text.to_vec();
    for (counter, part) in (1..).zip(sealed.chunks_mut(16)) {
        let stream = encrypt(block(3 - 1, counter)).to_be_bytes();
        part.iter_mut().zip(stream).for_each(|(octet, by)| *octet ^= by);
    }
    sealed.extend_from_slice(&(mac ^ encrypt(block(3 - 1, 0))).to_be_bytes());
    sealed
}
