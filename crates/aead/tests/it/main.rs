//! Every backend, and every path of the kernels: against published vectors, other libraries, and bad input.

mod differential;
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
        // Only the kernels choose between paths.
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

/// Ciphertext and tag, on which RustCrypto and ring agree; for AES-128-CCM, which ring lacks, from a model.
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
        AeadAlgorithm::Aes128Ccm => {
            let mut sealed = text.to_vec();
            let key = key.try_into().expect("16 octets");
            let tag = differential::seal_by_model(key, *nonce, aad, &mut sealed);
            sealed.extend_from_slice(&tag);
            return sealed;
        }
    };
    let sealed = sealed.expect("not too long");
    let by_ring = ring::aead::LessSafeKey::new(ring::aead::UnboundKey::new(by_ring, key).unwrap());
    let mut message = text.to_vec();
    let nonce = ring::aead::Nonce::assume_unique_for_key(*nonce);
    by_ring.seal_in_place_append_tag(nonce, ring::aead::Aad::from(aad), &mut message).unwrap();
    assert!(message == sealed, "the libraries differ");
    sealed
}
