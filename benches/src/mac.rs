//! MACs, computed by several libraries.

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Mutex;

use cmac::Cmac;
use hmac::digest::FixedOutputReset;
use hmac::{HmacReset, KeyInit};
use poly1305::Poly1305;
use sha1::Sha1;
use sha2::Sha256;
use wireseal_algorithms::MacAlgorithm;
use wireseal_mac::{Mac, MacKey, OneTimePoly1305Key, OutputLength, mac_batch};

use crate::contender::{Contender, assert_agree};

/// Computes a MAC with a prepared key over the slices in order; returns its first 12 octets.
pub(crate) type Keyed = Box<dyn FnMut(&[&[u8]]) -> [u8; 12]>;

/// Prepares a key of the algorithm's length.
type WithKey = Box<dyn Fn(&[u8]) -> Keyed>;

/// A library that has a MAC algorithm.
pub(crate) struct Library {
    pub(crate) name: &'static str,
    with_key: WithKey,
}

impl Library {
    fn new(name: &'static str, with_key: impl Fn(&[u8]) -> Keyed + 'static) -> Self {
        Self { name, with_key: Box::new(with_key) }
    }

    /// Prepares a key.
    pub(crate) fn with_key(&self, key: &[u8]) -> Keyed {
        (self.with_key)(key)
    }
}

/// A key of the algorithm's output length, as in TCP-AO; each `index` has its own.
fn key(algorithm: MacAlgorithm, index: usize) -> Vec<u8> {
    (0..algorithm.output_length()).map(|i| i as u8 ^ (index >> (i % 4 * 8)) as u8).collect()
}

/// The part of a MAC that is compared.
fn start(mac: &[u8]) -> [u8; 12] {
    *mac.first_chunk().expect("12 octets at least")
}

/// Wireseal first, then the other libraries that have the algorithm.
///
/// # Panics
/// If two of them differ on any length from 0 to 300 octets, whole or in two slices.
pub(crate) fn libraries(algorithm: MacAlgorithm) -> Vec<Library> {
    static COMPARED: Mutex<Vec<MacAlgorithm>> = Mutex::new(Vec::new());
    let libraries = all(algorithm);
    let mut compared = COMPARED.lock().expect("no comparison has panicked");
    if compared.contains(&algorithm) {
        return libraries;
    }
    let message: Vec<u8> = (0..300_usize).map(|i| (i * 31) as u8).collect();
    let mut keyed: Vec<_> =
        libraries.iter().map(|library| (library.name, library.with_key(&key(algorithm, 0)))).collect();
    for length in 0..=message.len() {
        let whole = &message[..length];
        let (head, tail) = whole.split_at(length / 3);
        let outputs =
            keyed.iter_mut().flat_map(|(name, mac)| [(*name, mac(&[head, tail])), (*name, mac(&[whole]))]);
        assert_agree(format_args!("{}, {length} octets", algorithm.name()), outputs);
    }
    compared.push(algorithm);
    libraries
}

/// The MAC of a message with a prepared key.
#[must_use]
pub fn message(algorithm: MacAlgorithm, length: usize) -> Vec<Contender> {
    many_keys(algorithm, length, 1)
}

/// The MACs of a message with `keys` prepared keys in random order.
#[must_use]
pub fn many_keys(algorithm: MacAlgorithm, length: usize, keys: usize) -> Vec<Contender> {
    let mut order: Vec<usize> = (0..keys).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    let message = Rc::new(vec![0x5a; length]);
    let contender = |library: Library| {
        let mut keyed: Vec<Keyed> =
            order.iter().map(|index| library.with_key(&key(algorithm, *index))).collect();
        let (message, mut turn) = (message.clone(), 0);
        Contender::new(library.name, move || {
            turn = if turn + 1 == keyed.len() { 0 } else { turn + 1 };
            black_box(keyed[turn](&[black_box(&message)]));
        })
    };
    libraries(algorithm).into_iter().map(contender).collect()
}

/// Wireseal's MACs of `count` messages at once, each under its own key.
#[must_use]
pub fn batch(algorithm: MacAlgorithm, length: usize, count: usize) -> Contender {
    let keys: Vec<MacKey> = (0..count).map(|index| prepared(algorithm, &key(algorithm, index))).collect();
    let message = vec![0x5a; length];
    let mut macs: Vec<Mac> = (0..count).map(|_| Mac::EMPTY).collect();
    Contender::new("wireseal", move || {
        let parts = [black_box(&message[..])];
        mac_batch(keys.iter().map(|key| (key, &parts[..])), black_box(&mut macs));
    })
}

/// Preparing a key and dropping it.
#[must_use]
pub fn keys(algorithm: MacAlgorithm) -> Vec<Contender> {
    let key = key(algorithm, 0);
    let contender = |library: Library| {
        let key = key.clone();
        Contender::new(library.name, move || drop(black_box(library.with_key(black_box(&key)))))
    };
    libraries(algorithm).into_iter().map(contender).collect()
}

/// A Poly1305 of one message under a new key.
///
/// # Panics
/// If two libraries differ on any length from 0 to 300 octets, or on `length`.
#[must_use]
pub fn poly1305(length: usize) -> Vec<Contender> {
    let message: Vec<u8> = (0..length.max(300)).map(|i| (i * 31) as u8).collect();
    let mut libraries = one_time();
    for length in (0..=300).chain([length]) {
        let key = std::array::from_fn(|i| (i * 7 + length) as u8);
        let outputs = libraries.iter_mut().map(|(name, mac)| (*name, mac(&key, &message[..length])));
        assert_agree(format_args!("Poly1305, {length} octets"), outputs);
    }
    let message = Rc::new(RefCell::new(message[..length].to_vec()));
    let contender = |(name, mut mac): (_, OneTime)| {
        let message = message.clone();
        Contender::new(name, move || {
            black_box(mac(black_box(&[7; 32]), black_box(&message.borrow())));
        })
    };
    libraries.into_iter().map(contender).collect()
}

/// Wireseal's key.
fn prepared(algorithm: MacAlgorithm, octets: &[u8]) -> MacKey {
    match algorithm {
        MacAlgorithm::HmacSha1 => MacKey::hmac_sha1(octets),
        MacAlgorithm::HmacSha256 => MacKey::hmac_sha256(octets),
        MacAlgorithm::Aes128Cmac => MacKey::aes_128_cmac(octets.try_into().expect("16 octets")),
        MacAlgorithm::Kmac256 => MacKey::kmac256(octets, b"", OutputLength::Octets32),
    }
}

fn all(algorithm: MacAlgorithm) -> Vec<Library> {
    let wireseal = Library::new("wireseal", move |octets| {
        let key = prepared(algorithm, octets);
        Box::new(move |message| start(key.mac(message).as_bytes()))
    });
    let mut libraries = vec![wireseal];
    match algorithm {
        MacAlgorithm::HmacSha1 => {
            libraries.extend([
                by_traits::<HmacReset<Sha1>>("rustcrypto"),
                ring(ring::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
            ]);
        }
        MacAlgorithm::HmacSha256 => {
            libraries.extend([by_traits::<HmacReset<Sha256>>("rustcrypto"), ring(ring::hmac::HMAC_SHA256)]);
        }
        MacAlgorithm::Aes128Cmac => libraries.push(by_traits::<Cmac<aes::Aes128Enc>>("rustcrypto")),
        MacAlgorithm::Kmac256 => libraries.push(cshake()),
    }
    #[cfg(feature = "peers")]
    libraries.extend(peers::libraries(algorithm));
    // The same code for Wireseal's types. KMAC256's has another length.
    libraries.extend(match algorithm {
        MacAlgorithm::HmacSha1 => Some(by_traits::<wireseal_mac::HmacSha1>("wireseal by traits")),
        MacAlgorithm::HmacSha256 => Some(by_traits::<wireseal_mac::HmacSha256>("wireseal by traits")),
        MacAlgorithm::Aes128Cmac => Some(by_traits::<wireseal_mac::Aes128Cmac>("wireseal by traits")),
        MacAlgorithm::Kmac256 => None,
    });
    libraries
}

/// A single instance, reset after each message: faster than cloning a prepared one, since each clone must be wiped.
fn by_traits<M>(name: &'static str) -> Library
where
    M: hmac::Mac + KeyInit + FixedOutputReset + 'static,
{
    Library::new(name, |key| {
        let mut mac = <M as KeyInit>::new_from_slice(key).expect("a length of the algorithm");
        Box::new(move |message| {
            message.iter().for_each(|part| hmac::Mac::update(&mut mac, part));
            start(&mac.finalize_reset().into_bytes())
        })
    })
}

fn ring(algorithm: ring::hmac::Algorithm) -> Library {
    Library::new("ring", move |key| {
        let key = ring::hmac::Key::new(algorithm, key);
        Box::new(move |message| {
            let mut context = ring::hmac::Context::with_key(&key);
            message.iter().for_each(|part| context.update(part));
            start(context.sign().as_ref())
        })
    })
}

/// No other maintained library has KMAC256, so this builds it from RustCrypto's cSHAKE256.
fn cshake() -> Library {
    use cshake::digest::{ExtendableOutput, Update, XofReader};
    Library::new("rustcrypto cshake", |key| {
        let mut block = vec![1, 136, 2, 1, 0];
        block.splice(2.., if key.len() < 32 { vec![1, (key.len() * 8) as u8] } else { vec![2, 1, 0] });
        block.extend_from_slice(key);
        block.resize(136, 0);
        let mut prepared = cshake::CShake256::new_with_function_name(b"KMAC", b"");
        prepared.update(&block);
        Box::new(move |message| {
            let mut xof = prepared.clone();
            message.iter().for_each(|part| xof.update(part));
            xof.update(&[1, 0, 2]);
            let mut output = [0; 32];
            xof.finalize_xof().read(&mut output);
            start(&output)
        })
    })
}

/// Prepares a key for one message, and returns the first 12 octets of its MAC.
type OneTime = Box<dyn FnMut(&[u8; 32], &[u8]) -> [u8; 12]>;

/// Wireseal first, then the other libraries that have Poly1305 outside an AEAD.
#[cfg_attr(not(feature = "peers"), allow(unused_mut))]
fn one_time() -> Vec<(&'static str, OneTime)> {
    let wireseal: OneTime =
        Box::new(|key, message| start(OneTimePoly1305Key::new(*key).mac(&[message]).as_bytes()));
    let rust_crypto: OneTime =
        Box::new(|key, message| start(&Poly1305::new(key.into()).compute_unpadded(message)));
    let mut libraries = vec![("wireseal", wireseal), ("rustcrypto", rust_crypto)];
    #[cfg(feature = "peers")]
    {
        use wireseal_bench_peers::{Algorithm, OpenSsl};
        libraries.extend(OpenSsl::new(Algorithm::Poly1305, &[0; 32]).map(|mut context| {
            let openssl: OneTime = Box::new(move |key, message| context.one_time(key, &[message]));
            ("openssl", openssl)
        }));
    }
    libraries
}

/// AWS-LC, OpenSSL and nettle.
#[cfg(feature = "peers")]
mod peers {
    use aws_lc_rs::{cmac, hmac};
    use wireseal_algorithms::MacAlgorithm;
    use wireseal_bench_peers::{Algorithm, Nettle, OpenSsl};

    use super::{Library, key, start};

    /// Those of the three libraries that have the algorithm and are installed.
    pub(super) fn libraries(algorithm: MacAlgorithm) -> impl Iterator<Item = Library> {
        let (aws_lc, other) = match algorithm {
            MacAlgorithm::HmacSha1 => (aws_lc_hmac(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY), Algorithm::HmacSha1),
            MacAlgorithm::HmacSha256 => (aws_lc_hmac(hmac::HMAC_SHA256), Algorithm::HmacSha256),
            MacAlgorithm::Aes128Cmac => (aws_lc_cmac(), Algorithm::Aes128Cmac),
            MacAlgorithm::Kmac256 => return [None, None, None].into_iter().flatten(),
        };
        let of_openssl = Library::new("openssl", move |key| {
            let mut context = OpenSsl::new(other, key).expect("a length of the algorithm");
            Box::new(move |message| context.mac(message))
        });
        let of_nettle = Library::new("nettle", move |key| {
            let mut context = Nettle::new(other, key).expect("a length of the algorithm");
            Box::new(move |message| context.mac(message))
        });
        let has_openssl = OpenSsl::new(other, &key(algorithm, 0)).is_some();
        [Some(aws_lc), has_openssl.then_some(of_openssl), Some(of_nettle)].into_iter().flatten()
    }

    fn aws_lc_hmac(algorithm: hmac::Algorithm) -> Library {
        Library::new("aws-lc-rs", move |key| {
            let key = hmac::Key::new(algorithm, key);
            Box::new(move |message| {
                let mut context = hmac::Context::with_key(&key);
                message.iter().for_each(|part| context.update(part));
                start(context.sign().as_ref())
            })
        })
    }

    fn aws_lc_cmac() -> Library {
        Library::new("aws-lc-rs", |key| {
            let key = cmac::Key::new(cmac::AES_128, key).expect("16 octets");
            Box::new(move |message| {
                let mut context = cmac::Context::with_key(&key);
                message.iter().for_each(|part| context.update(part).expect("cannot fail"));
                start(context.sign().expect("cannot fail").as_ref())
            })
        })
    }
}
