//! Test vectors of MACs.

use serde::Deserialize;
use wireseal_mac::{MacAlgorithm, MacKey, OneTimePoly1305Key, OutputLength, mac_batch};

use super::vectors::{Group, Octets, read};

/// How many messages are computed in one batch: more than any CPU path handles side by side.
const BATCH: usize = 40;

#[derive(Deserialize)]
struct File {
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    key: Octets,
    message: Octets,
    mac: Octets,
}

/// Each MAC is computed, verified, verified with a bit flipped, and computed in a batch.
pub(super) fn run(source: &'static str, algorithm: MacAlgorithm, text: &str) -> Group {
    let mut group = Group::new(source, algorithm.name().to_owned());
    for (place, vector) in read::<File>(text).vectors.iter().enumerate() {
        let passed = key(algorithm, &vector.key.0).is_some_and(|key| check(&key, vector));
        group.count(passed, || format!("test case {}", place + 1));
    }
    group
}

fn key(algorithm: MacAlgorithm, octets: &[u8]) -> Option<MacKey> {
    Some(match algorithm {
        MacAlgorithm::HmacSha1 => MacKey::hmac_sha1(octets),
        MacAlgorithm::HmacSha256 => MacKey::hmac_sha256(octets),
        MacAlgorithm::Aes128Cmac => MacKey::aes_128_cmac(octets.try_into().ok()?),
        MacAlgorithm::Kmac256 => MacKey::kmac256(octets, b"", OutputLength::Octets32),
    })
}

fn check(key: &MacKey, Vector { message, mac, .. }: &Vector) -> bool {
    let (message, mac): ([&[u8]; 1], &[u8]) = ([&message.0], &mac.0);
    let mut wrong = mac.to_vec();
    wrong[0] ^= 1;
    let mut batch: [_; BATCH] = std::array::from_fn(|_| key.mac(&[]));
    mac_batch((0..BATCH).map(|_| (key, &message[..])), &mut batch);
    key.mac(&message).truncated(mac.len()) == mac
        && key.verify(&message, mac).is_ok()
        && key.verify(&message, &wrong).is_err()
        && batch.iter().all(|computed| computed.truncated(mac.len()) == mac)
}

/// Poly1305, with one message per key.
pub(super) fn run_poly1305(source: &'static str, text: &str) -> Group {
    let mut group = Group::new(source, "Poly1305".to_owned());
    for (place, Vector { key, message, mac }) in read::<File>(text).vectors.iter().enumerate() {
        let key = || Some(OneTimePoly1305Key::new(key.0.as_slice().try_into().ok()?));
        let mac_is = |flip: u8| {
            let mut mac = mac.0.clone();
            mac[0] ^= flip;
            key().is_some_and(|key| key.verify(&[&message.0], &mac).is_ok())
        };
        let passed = key().is_some_and(|key| key.mac(&[&message.0]).as_bytes() == mac.0);
        group.count(passed && mac_is(0) && !mac_is(1), || format!("test vector {}", place + 1));
    }
    group
}
