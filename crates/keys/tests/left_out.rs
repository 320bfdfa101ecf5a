//! A build with some of the algorithms. The choice is for the whole build, so this is a program of its own.

use wireseal_algorithms::{MacAlgorithm, TcpAoAlgorithm};
use wireseal_keys::KeyChains;

/// The feature of an algorithm, and whether it is on.
fn feature(algorithm: TcpAoAlgorithm) -> (&'static str, bool) {
    match algorithm.mac() {
        MacAlgorithm::HmacSha1 => ("hmac-sha1", cfg!(feature = "hmac-sha1")),
        MacAlgorithm::HmacSha256 => ("hmac-sha256", cfg!(feature = "hmac-sha256")),
        MacAlgorithm::Aes128Cmac => ("aes-128-cmac", cfg!(feature = "aes-128-cmac")),
        MacAlgorithm::Kmac256 => ("kmac256", cfg!(feature = "kmac256")),
    }
}

#[test]
fn a_key_chain_is_refused_at_the_key_whose_algorithm_is_left_out() {
    for algorithm in TcpAoAlgorithm::ALL {
        let file = format!(
            "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 1\nalgorithm = \"{algorithm}\"\n\
             secret = \"a secret of 32 octets or of more\"\n"
        );
        let (feature, is_on) = feature(algorithm);
        match KeyChains::from_toml(&file) {
            Ok(chains) => assert!(is_on, "{chains:?}"),
            Err(error) => {
                assert!(!is_on, "{error}");
                let text = format!(
                    "line 5, column 13, key chain \"core\", key 1, algorithm: {algorithm} is not built in: it needs the feature \
                     {feature} of wireseal-tcp-ao"
                );
                assert_eq!(error.to_string(), text);
            }
        }
    }
}
