//! A build with some of the algorithms. The choice is for the whole build, so this is a program of its own.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

#[path = "it/vector.rs"]
#[allow(dead_code, reason = "the other tests need more of it")]
mod vector;

use wireseal_algorithms::{MacAlgorithm, TcpAoAlgorithm};
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, MktError, TrafficKey, TrafficKeyOctets, verify_segment};

/// The feature of an algorithm, and whether it is on.
fn feature(algorithm: TcpAoAlgorithm) -> (&'static str, bool) {
    match algorithm.mac() {
        MacAlgorithm::HmacSha1 => ("hmac-sha1", cfg!(feature = "hmac-sha1")),
        MacAlgorithm::HmacSha256 => ("hmac-sha256", cfg!(feature = "hmac-sha256")),
        MacAlgorithm::Aes128Cmac => ("aes-128-cmac", cfg!(feature = "aes-128-cmac")),
        MacAlgorithm::Kmac256 => ("kmac256", cfg!(feature = "kmac256")),
    }
}

fn refusal(algorithm: TcpAoAlgorithm) -> String {
    let (feature, _) = feature(algorithm);
    format!("{algorithm} is not built in: it needs the feature {feature} of wireseal-tcp-ao")
}

/// Another crate in the same build could turn an algorithm on again, and the tests would not show it. `.ci/stages/features` sets in the
/// environment which algorithm is built alone.
#[test]
fn nothing_turns_an_algorithm_on_again() {
    let Ok(alone) = std::env::var("WIRESEAL_ALONE") else { return };
    for algorithm in TcpAoAlgorithm::ALL {
        let (feature, is_on) = feature(algorithm);
        assert_eq!(is_on, feature == alone, "{algorithm}");
    }
}

#[test]
fn an_algorithm_that_is_left_out_is_refused_by_name() {
    for algorithm in TcpAoAlgorithm::ALL {
        for make in [Mkt::new, Mkt::with_short_master_key] {
            match make(KeyId(1), KeyId(2), algorithm, MasterKey::new(&[7; 32]).unwrap()) {
                Ok(_) => assert!(feature(algorithm).1, "{algorithm}"),
                Err(error) => {
                    assert!(!feature(algorithm).1, "{algorithm}");
                    assert_eq!(error, MktError::NotBuiltIn { algorithm });
                    assert_eq!(error.to_string(), refusal(algorithm));
                }
            }
        }
    }
}

#[test]
fn an_algorithm_that_is_built_in_works() {
    for vectors in [vector::rfc_9235(), vector::draft_tcp_ao_algs()] {
        for vector in vectors.iter().filter(|vector| feature(vector.algorithm()).1) {
            let (mkt, segment) = (vector.receivers_mkt(), vector.segment());
            let octets = TrafficKeyOctets::derive(&mkt, &vector.context());
            assert_eq!(octets.expose_secret(), vector.traffic_key.0, "section {}", vector.section);
            let key = TrafficKey::new(&octets);
            assert_eq!(verify_segment(&key, vector.sne(), mkt.parameters(), &segment), Ok(()));
        }
    }
}
