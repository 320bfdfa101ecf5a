//! Counts what QUIC keys do (feature `counted`), for tests and measurements: neither rustls nor quinn reports key updates or
//! packets by key.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic::{self, Algorithm, HeaderProtectionKey, PacketKey};
use rustls::{CipherSuiteCommon, Error, SupportedCipherSuite, Tls13CipherSuite};

/// What one packet key has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyUse {
    /// Packets sealed.
    pub sealed: u64,
    /// Packets opened.
    pub opened: u64,
    /// Packets with a short header sealed or opened: all of them for a 1-RTT key, none for others.
    pub one_rtt: u64,
    /// Packets that were not authentic.
    pub refused: u64,
}

#[derive(Default)]
struct Counters {
    sealed: AtomicU64,
    opened: AtomicU64,
    one_rtt: AtomicU64,
    refused: AtomicU64,
}

/// An [`Algorithm`] that counts the keys it makes and what they do.
pub struct CountedAlgorithm {
    inner: &'static dyn Algorithm,
    packet_keys: Mutex<Vec<Arc<Counters>>>,
    header_keys: AtomicUsize,
}

impl CountedAlgorithm {
    /// Counts the keys of `inner`, for the rest of the process: rustls requires algorithms that live that long.
    #[must_use]
    pub fn new(inner: &'static dyn Algorithm) -> &'static Self {
        Box::leak(Box::new(Self { inner, packet_keys: Mutex::default(), header_keys: AtomicUsize::new(0) }))
    }

    /// Every packet key so far, in the order in which rustls asked for them: by level and key update, each time the local key
    /// before the remote one.
    #[must_use]
    pub fn packet_keys(&self) -> Vec<KeyUse> {
        let keys = self.packet_keys.lock().unwrap_or_else(PoisonError::into_inner);
        let uses = keys.iter().map(|counters| KeyUse {
            sealed: counters.sealed.load(Relaxed),
            opened: counters.opened.load(Relaxed),
            one_rtt: counters.one_rtt.load(Relaxed),
            refused: counters.refused.load(Relaxed),
        });
        uses.collect()
    }

    /// How many header protection keys were made.
    #[must_use]
    pub fn header_keys(&self) -> usize {
        self.header_keys.load(Relaxed)
    }
}

impl fmt::Debug for CountedAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedAlgorithm").field("packet_keys", &self.packet_keys()).finish_non_exhaustive()
    }
}

/// `provider` with a [`CountedAlgorithm`] around the QUIC keys of every suite that has them, and those algorithms, in the order
/// of the suites. Each call leaks some hundred octets for each suite.
#[must_use]
pub fn counted(mut provider: CryptoProvider) -> (CryptoProvider, Vec<&'static CountedAlgorithm>) {
    let mut algorithms = Vec::new();
    for suite in &mut provider.cipher_suites {
        let Some((tls13, quic)) = suite.tls13().and_then(|tls13| Some((tls13, tls13.quic?))) else {
            continue;
        };
        let algorithm = CountedAlgorithm::new(quic);
        algorithms.push(algorithm);
        let common = CipherSuiteCommon { ..tls13.common };
        let counted = Tls13CipherSuite { common, quic: Some(algorithm), ..*tls13 };
        *suite = SupportedCipherSuite::Tls13(Box::leak(Box::new(counted)));
    }
    (provider, algorithms)
}

impl Algorithm for CountedAlgorithm {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        let counters = Arc::<Counters>::default();
        self.packet_keys.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&counters));
        Box::new(CountedKey { inner: self.inner.packet_key(key, iv), counters })
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        self.header_keys.fetch_add(1, Relaxed);
        self.inner.header_protection_key(key)
    }

    fn aead_key_len(&self) -> usize {
        self.inner.aead_key_len()
    }

    fn fips(&self) -> bool {
        self.inner.fips()
    }
}

struct CountedKey {
    inner: Box<dyn PacketKey>,
    counters: Arc<Counters>,
}

impl CountedKey {
    fn count<T>(&self, done: &AtomicU64, header: &[u8], result: Result<T, Error>) -> Result<T, Error> {
        match &result {
            Ok(_) => {
                done.fetch_add(1, Relaxed);
                // The header form bit (RFC 9000 §17.2 and §17.3).
                let is_short = header.first().is_some_and(|first| first & 0x80 == 0);
                self.counters.one_rtt.fetch_add(is_short.into(), Relaxed);
            }
            Err(Error::DecryptError) => {
                self.counters.refused.fetch_add(1, Relaxed);
            }
            Err(_) => {}
        }
        result
    }
}

impl PacketKey for CountedKey {
    fn encrypt_in_place(&self, number: u64, header: &[u8], payload: &mut [u8]) -> Result<quic::Tag, Error> {
        let sealed = self.inner.encrypt_in_place(number, header, payload);
        self.count(&self.counters.sealed, header, sealed)
    }

    fn encrypt_in_place_for_path(
        &self,
        path: u32,
        number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<quic::Tag, Error> {
        let sealed = self.inner.encrypt_in_place_for_path(path, number, header, payload);
        self.count(&self.counters.sealed, header, sealed)
    }

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let opened = self.inner.decrypt_in_place(number, header, payload);
        self.count(&self.counters.opened, header, opened)
    }

    fn decrypt_in_place_for_path<'a>(
        &self,
        path: u32,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let opened = self.inner.decrypt_in_place_for_path(path, number, header, payload);
        self.count(&self.counters.opened, header, opened)
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}
