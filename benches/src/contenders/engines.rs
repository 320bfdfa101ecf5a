//! Messages of any length by whatever computes on this machine: Wireseal on each of its paths, and the libraries. Outputs are
//! compared.

use aes::Aes128Enc;
use aes_gcm::AesGcm;
use aes_gcm::aead::{AeadInOut, KeyInit, consts::U12};
use ctr::cipher::{InnerIvInit, StreamCipher, StreamCipherCoreWrapper};
use ctr::{CtrCore, flavors::Ctr128BE};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use wireseal_algorithms::MacAlgorithm;
use wireseal_kernels::gcm::GcmKey;

use super::{af_alg, mac, start};
use crate::paths;

/// The libraries that are shown, with or without a call for the algorithm.
const LIBRARIES: &[&str] = if cfg!(feature = "peers") {
    &["ring", "aws-lc-rs", "rustcrypto", "openssl"]
} else {
    &["ring", "rustcrypto"]
};

const KEY: [u8; 16] = *b"one key for all!";
/// A first counter block for CTR; OpenSSL reads GCM's nonce from its start.
const CTR_NONCE: [u8; 16] = [7; 16];
const GCM_NONCE: [u8; 12] = [7; 12];

/// What an engine computes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Encrypts without authentication; Wireseal has no call for it.
    Aes128Ctr,
    Aes128Gcm,
    Mac(MacAlgorithm),
}

impl Operation {
    pub(crate) const ALL: [Self; 5] = [
        Self::Aes128Ctr,
        Self::Aes128Gcm,
        Self::Mac(MacAlgorithm::Aes128Cmac),
        Self::Mac(MacAlgorithm::HmacSha1),
        Self::Mac(MacAlgorithm::HmacSha256),
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Aes128Ctr => "AES-128-CTR",
            Self::Aes128Gcm => "AES-128-GCM",
            Self::Mac(algorithm) => algorithm.name(),
        }
    }
}

/// Takes a message under a prepared key: encrypts it in place, or leaves it alone; returns 12 octets of its tag or MAC, zeros for
/// CTR.
pub(crate) type Run = Box<dyn FnMut(&mut [u8]) -> [u8; 12]>;

/// An engine, `None` if it has no call for the operation.
pub(crate) type Engine = (String, Option<Run>);

/// All engines, Wireseal's paths first.
///
/// # Panics
/// If two of them differ on any length from 0 to 300 octets, or on 64,512.
pub(crate) fn engines(operation: Operation) -> Vec<Engine> {
    let mut engines = wireseal(operation);
    engines.extend(LIBRARIES.iter().map(|name| ((*name).to_owned(), library(operation, name))));
    engines.extend(linux(operation).map(|run| ("linux, AF_ALG".to_owned(), Some(run))));
    let message: Vec<u8> = (0..64_512_usize).map(|i| (i * 31) as u8).collect();
    for length in (0..=300).chain([message.len()]) {
        let mut expected = None;
        for (name, run) in engines.iter_mut().filter_map(|(name, run)| Some((name, run.as_mut()?))) {
            let mut octets = message[..length].to_vec();
            let output = (run(&mut octets), octets);
            assert!(
                *expected.get_or_insert_with(|| output.clone()) == output,
                "{name} differs in {} at {length} octets",
                operation.name()
            );
        }
    }
    engines
}

fn wireseal(operation: Operation) -> Vec<Engine> {
    match operation {
        Operation::Aes128Ctr => vec![("wireseal".to_owned(), None)],
        Operation::Aes128Gcm => by_path(
            || GcmKey::new(&KEY).map(|key| (key.path().name(), key)),
            |key| Box::new(move |octets| start(&key.seal_detached(&GCM_NONCE, &[], octets))),
        ),
        Operation::Mac(algorithm) => by_path(
            || {
                let key = mac::wireseal_key(algorithm, &mac::key(algorithm));
                Some((key.served_by(), key))
            },
            |key| Box::new(move |octets| start(key.mac(&[octets]).as_bytes())),
        ),
    }
}

/// Wireseal on each of its paths. `new` makes a key, if there is a path, with the path's name.
fn by_path<K>(new: impl Fn() -> Option<(&'static str, K)>, run: impl Fn(K) -> Run) -> Vec<Engine> {
    let engines = paths::each(
        || new().map(|(name, _)| name),
        |_| new().map(|(name, key)| (format!("wireseal, {name}"), Some(run(key)))),
    );
    engines.into_iter().flatten().collect()
}

/// The kernel, where programs reach its ciphers.
fn linux(operation: Operation) -> Option<Run> {
    match operation {
        Operation::Aes128Ctr => af_alg::ctr(&KEY, &CTR_NONCE),
        Operation::Aes128Gcm => af_alg::gcm(&KEY, &GCM_NONCE),
        Operation::Mac(algorithm) => af_alg::mac(algorithm),
    }
}

fn library(operation: Operation, name: &str) -> Option<Run> {
    if let Operation::Mac(algorithm) = operation {
        let library = mac::libraries(algorithm).into_iter().find(|library| library.name == name)?;
        let mut contender = library.with_key(&mac::key(algorithm));
        return Some(Box::new(move |octets| contender(&[octets])));
    }
    match (operation, name) {
        (Operation::Aes128Gcm, "ring") => {
            let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &KEY).ok()?);
            Some(Box::new(move |octets| {
                let nonce = Nonce::assume_unique_for_key(GCM_NONCE);
                start(key.seal_in_place_separate_tag(nonce, Aad::empty(), octets).expect("short").as_ref())
            }))
        }
        (Operation::Aes128Gcm, "rustcrypto") => {
            let key = AesGcm::<Aes128Enc, U12>::new(&KEY.into());
            Some(Box::new(move |octets| {
                start(&key.encrypt_inout_detached(&GCM_NONCE.into(), &[], octets.into()).expect("short"))
            }))
        }
        (_, "rustcrypto") => {
            let key = Aes128Enc::new(&KEY.into());
            Some(Box::new(move |octets| {
                let core = CtrCore::<&Aes128Enc, Ctr128BE>::inner_iv_init(&key, &CTR_NONCE.into());
                StreamCipherCoreWrapper::from_core(core).apply_keystream(octets);
                [0; 12]
            }))
        }
        #[cfg(feature = "peers")]
        (_, "aws-lc-rs") => Some(aws_lc(operation)),
        #[cfg(feature = "peers")]
        (_, "openssl") => {
            let is_gcm = operation == Operation::Aes128Gcm;
            let mut cipher = wireseal_bench_peers::OpenSslCipher::new(is_gcm, &KEY)?;
            Some(Box::new(move |octets| start(&cipher.encrypt(&CTR_NONCE, octets))))
        }
        _ => None,
    }
}

#[cfg(feature = "peers")]
fn aws_lc(operation: Operation) -> Run {
    use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
    use aws_lc_rs::cipher::{AES_128, EncryptingKey, EncryptionContext, UnboundCipherKey};
    if operation == Operation::Aes128Gcm {
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &KEY).expect("16 octets"));
        return Box::new(move |octets| {
            let nonce = Nonce::assume_unique_for_key(GCM_NONCE);
            start(key.seal_in_place_separate_tag(nonce, Aad::empty(), octets).expect("short").as_ref())
        });
    }
    let key = EncryptingKey::ctr(UnboundCipherKey::new(&AES_128, &KEY).expect("16 octets"));
    let key = key.expect("AES-128 has CTR");
    Box::new(move |octets| {
        let context = EncryptionContext::Iv128((&CTR_NONCE).into());
        key.less_safe_encrypt(octets, context).expect("any length");
        [0; 12]
    })
}
