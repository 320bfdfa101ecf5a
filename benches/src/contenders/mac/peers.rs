//! MACs of AWS-LC, OpenSSL and nettle.

use aws_lc_rs::{cmac, hmac};
use wireseal_algorithms::MacAlgorithm;
use wireseal_bench_peers::{Algorithm, Nettle, OpenSsl};

use super::library::{Library, start};

/// Those of the three that have the algorithm. `key` has its length.
pub(super) fn libraries(algorithm: MacAlgorithm, key: &[u8]) -> impl Iterator<Item = Library> {
    let (aws_lc, other) = match algorithm {
        MacAlgorithm::HmacSha1 => {
            (Some(aws_lc_hmac(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY)), Some(Algorithm::HmacSha1))
        }
        MacAlgorithm::HmacSha256 => (Some(aws_lc_hmac(hmac::HMAC_SHA256)), Some(Algorithm::HmacSha256)),
        MacAlgorithm::Aes128Cmac => (Some(aws_lc_cmac()), Some(Algorithm::Aes128Cmac)),
        MacAlgorithm::Kmac256 => (None, None),
    };
    let others = other.map(|algorithm| [openssl(algorithm, key), nettle(algorithm, key)]);
    aws_lc.into_iter().chain(others.into_iter().flatten().flatten())
}

pub(super) fn umac96() -> Library {
    nettle(Algorithm::Umac96, &[0; 24]).expect("nettle has UMAC96")
}

fn aws_lc_hmac(algorithm: hmac::Algorithm) -> Library {
    Library::new("aws-lc-rs", size_of::<hmac::Key>(), move |key| {
        let key = hmac::Key::new(algorithm, key);
        Box::new(move |message| {
            let mut context = hmac::Context::with_key(&key);
            message.iter().for_each(|part| context.update(part));
            start(context.sign().as_ref())
        })
    })
}

fn aws_lc_cmac() -> Library {
    Library::new("aws-lc-rs", None, |key| {
        let key = cmac::Key::new(cmac::AES_128, key).expect("16 octets");
        Box::new(move |message| {
            let mut context = cmac::Context::with_key(&key);
            message.iter().for_each(|part| context.update(part).expect("cannot fail"));
            start(context.sign().expect("cannot fail").as_ref())
        })
    })
}

fn nettle(algorithm: Algorithm, key: &[u8]) -> Option<Library> {
    let octets = Nettle::new(algorithm, key)?.octets();
    Some(Library::new("nettle", octets, move |key| {
        let mut context = Nettle::new(algorithm, key).expect("a length of the algorithm");
        Box::new(move |message| context.mac(message))
    }))
}

fn openssl(algorithm: Algorithm, key: &[u8]) -> Option<Library> {
    OpenSsl::new(algorithm, key)?;
    Some(Library::new("openssl", None, move |key| {
        let mut context = OpenSsl::new(algorithm, key).expect("a length of the algorithm");
        Box::new(move |message| context.mac(message))
    }))
}
