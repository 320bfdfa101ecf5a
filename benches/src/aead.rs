//! AEADs alone, for messages from a packet's length to a file's, by several libraries with the same keys.

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Mutex;

use wireseal_aead::{AeadAlgorithm, AeadKey};

use crate::contender::Contender;
use crate::quic::{Aead, aeads};

/// The texts that the benches seal and open, in octets.
pub const LENGTHS: [usize; 7] = [64, 256, 1200, 4096, 16 << 10, 64 << 10, 1 << 20];

/// What is authenticated with each text: as much as a header of QUIC or TLS.
const AAD: [u8; 13] = [0x17; 13];

/// An AEAD's own name, without that of a TLS cipher suite.
#[must_use]
pub fn name(algorithm: AeadAlgorithm) -> &'static str {
    match algorithm {
        AeadAlgorithm::Aes128Gcm => "AES-128-GCM",
        AeadAlgorithm::Aes256Gcm => "AES-256-GCM",
        AeadAlgorithm::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        AeadAlgorithm::Aes128Ccm => "AES-128-CCM",
    }
}

fn wireseal(algorithm: AeadAlgorithm, key: &[u8]) -> Aead {
    let key = Rc::new(AeadKey::new(algorithm, key).expect("the algorithm's length"));
    let opening = key.clone();
    Aead {
        name: "wireseal",
        seal: Box::new(move |nonce, aad, message| key.seal(&nonce, aad, message).expect("not too long")),
        open: Box::new(move |nonce, aad, message| opening.open(&nonce, aad, message).is_ok()),
    }
}

/// Wireseal first, then the other libraries that have the AEAD.
///
/// # Panics
/// If two of them seal differently, or if one refuses a sealed message or opens an altered one.
fn libraries(algorithm: AeadAlgorithm) -> Vec<Aead> {
    static COMPARED: Mutex<Vec<AeadAlgorithm>> = Mutex::new(Vec::new());
    let key: Vec<u8> = (0..algorithm.key_length()).map(|i| i as u8).collect();
    let mut libraries = vec![wireseal(algorithm, &key)];
    libraries.extend(aeads(algorithm, &key));
    let mut compared = COMPARED.lock().expect("no comparison has panicked");
    if !compared.contains(&algorithm) {
        compare(algorithm, &mut libraries);
        compared.push(algorithm);
    }
    libraries
}

fn compare(algorithm: AeadAlgorithm, libraries: &mut [Aead]) {
    for length in (0..300).chain(LENGTHS) {
        let (plain, nonce) = (message(length), nonce(length as u64));
        let sealed = libraries.iter_mut().map(|library| {
            let mut sealed = plain.clone();
            (library.seal)(nonce, &AAD, &mut sealed);
            (library.name, sealed)
        });
        let sealed: Vec<_> = sealed.collect();
        for (name, message) in &sealed[1..] {
            // Not `assert_agree`, which would print a MiB.
            assert!(
                *message == sealed[0].1,
                "{algorithm}, {length} octets sealed: {name} and {} differ",
                sealed[0].0
            );
        }
        for (Aead { name, open, .. }, (_, sealed)) in libraries.iter_mut().zip(&sealed) {
            let mut opened = sealed.clone();
            assert!(open(nonce, &AAD, &mut opened), "{name} opens {length} octets under {algorithm}");
            assert!(opened[..length] == plain[..length], "{name}, {algorithm}, {length} octets opened");
            for at in [0, length / 2, length, length + 15] {
                let mut forged = sealed.clone();
                forged[at] ^= 1;
                assert!(!open(nonce, &AAD, &mut forged), "{name} opens a message altered at {at}");
            }
        }
    }
}

/// A text, and room for its tag.
fn message(length: usize) -> Vec<u8> {
    let text = (0..length).map(|i| (i * 31) as u8);
    text.chain([0; AeadAlgorithm::TAG_LENGTH]).collect()
}

fn nonce(number: u64) -> [u8; 12] {
    let mut nonce = [7; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}

/// Sealing a message of this length in place, each with the next nonce.
#[must_use]
pub fn seal(algorithm: AeadAlgorithm, length: usize) -> Vec<Contender> {
    // One buffer for all: its address changes the time by a few percent.
    let message = Rc::new(RefCell::new(message(length)));
    let contender = |Aead { name, mut seal, .. }| {
        let (message, mut number) = (message.clone(), 0);
        Contender::new(name, move || {
            number += 1;
            seal(nonce(number), &AAD, black_box(&mut message.borrow_mut()));
        })
    };
    libraries(algorithm).into_iter().map(contender).collect()
}

/// Opening a message of this length in place. Each round opens copies that were made before it.
#[must_use]
pub fn open(algorithm: AeadAlgorithm, length: usize) -> Vec<Contender> {
    // As many as take long enough to be timed, and fit in a near cache.
    let count = ((64 << 10) / length).clamp(1, 20);
    let mut libraries = libraries(algorithm);
    let mut sealed = message(length);
    (libraries[0].seal)(nonce(0), &AAD, &mut sealed);
    let copies = Rc::new(RefCell::new(vec![sealed.clone(); count]));
    let contender = |Aead { name, mut open, .. }| {
        let (ours, for_rounds, sealed) = (copies.clone(), copies.clone(), sealed.clone());
        let mut turn = 0;
        let run = move || {
            turn = (turn + 1) % count;
            assert!(open(nonce(0), &AAD, black_box(&mut ours.borrow_mut()[turn])), "a copy opens once");
        };
        let prepare =
            move || for_rounds.borrow_mut().iter_mut().for_each(|copy| copy.copy_from_slice(&sealed));
        Contender::new(name, run).prepared(count as u64, prepare)
    };
    libraries.into_iter().map(contender).collect()
}
