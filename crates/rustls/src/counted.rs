//! Counts the work of QUIC keys (feature `counted`), for tests and measurements: neither rustls nor quinn reports key updates or packets by
//! key.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic::{self, Algorithm, HeaderProtectionKey, PacketKey};
use rustls::{CipherSuite, CipherSuiteCommon, Error, SupportedCipherSuite, Tls13CipherSuite};

/// The work of one packet key.
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
struct Entries {
    packet_keys: Vec<Arc<Mutex<KeyUse>>>,
    header_keys: usize,
    suite: Option<CipherSuite>,
}

/// The QUIC keys that a provider has created, and their work.
#[derive(Default)]
pub struct CountedKeys(Mutex<Entries>);

/// Locks even after a panic: the counts are always consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CountedKeys {
    /// Every packet key so far, in the order in which rustls asked for them: by level and key update, each time the local key
    /// before the remote one.
    #[must_use]
    pub fn packet_keys(&self) -> Vec<KeyUse> {
        lock(&self.0).packet_keys.iter().map(|key| *lock(key)).collect()
    }

    /// The number of header protection keys created.
    #[must_use]
    pub fn header_keys(&self) -> usize {
        lock(&self.0).header_keys
    }

    /// The suite of the newest packet key.
    #[must_use]
    pub fn suite(&self) -> Option<CipherSuite> {
        lock(&self.0).suite
    }
}

impl fmt::Debug for CountedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedKeys").field("packet_keys", &self.packet_keys()).finish_non_exhaustive()
    }
}

/// `provider` with every QUIC key counted, and the counts. rustls keeps suites until the process ends, so each call leaks a few hundred
/// octets for each suite.
#[must_use]
pub fn counted(mut provider: CryptoProvider) -> (CryptoProvider, Arc<CountedKeys>) {
    let keys = Arc::<CountedKeys>::default();
    for suite in &mut provider.cipher_suites {
        let Some((tls13, inner)) = suite.tls13().and_then(|tls13| Some((tls13, tls13.quic?))) else {
            continue;
        };
        let counted = CountedAlgorithm { inner, suite: suite.suite(), keys: Arc::clone(&keys) };
        let common = CipherSuiteCommon { ..tls13.common };
        let tls13 = Tls13CipherSuite { common, quic: Some(Box::leak(Box::new(counted))), ..*tls13 };
        *suite = SupportedCipherSuite::Tls13(Box::leak(Box::new(tls13)));
    }
    (provider, keys)
}

struct CountedAlgorithm {
    inner: &'static dyn Algorithm,
    suite: CipherSuite,
    keys: Arc<CountedKeys>,
}

impl Algorithm for CountedAlgorithm {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        let used = Arc::<Mutex<KeyUse>>::default();
        let mut entries = lock(&self.keys.0);
        entries.packet_keys.push(Arc::clone(&used));
        entries.suite = Some(self.suite);
        Box::new(CountedKey { inner: self.inner.packet_key(key, iv), used })
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        lock(&self.keys.0).header_keys += 1;
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
    used: Arc<Mutex<KeyUse>>,
}

impl CountedKey {
    fn count<T>(
        &self,
        done: fn(&mut KeyUse) -> &mut u64,
        header: &[u8],
        result: Result<T, Error>,
    ) -> Result<T, Error> {
        let mut used = lock(&self.used);
        match &result {
            Ok(_) => {
                *done(&mut used) += 1;
                // The header form bit (RFC 9000 §17.2 and §17.3).
                used.one_rtt += u64::from(header.first().is_some_and(|first| first & 0x80 == 0));
            }
            Err(Error::DecryptError) => used.refused += 1,
            Err(_) => {}
        }
        result
    }
}

impl PacketKey for CountedKey {
    fn encrypt_in_place(&self, number: u64, header: &[u8], payload: &mut [u8]) -> Result<quic::Tag, Error> {
        let sealed = self.inner.encrypt_in_place(number, header, payload);
        self.count(|used| &mut used.sealed, header, sealed)
    }

    fn encrypt_in_place_for_path(
        &self,
        path: u32,
        number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<quic::Tag, Error> {
        let sealed = self.inner.encrypt_in_place_for_path(path, number, header, payload);
        self.count(|used| &mut used.sealed, header, sealed)
    }

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let opened = self.inner.decrypt_in_place(number, header, payload);
        self.count(|used| &mut used.opened, header, opened)
    }

    fn decrypt_in_place_for_path<'a>(
        &self,
        path: u32,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let opened = self.inner.decrypt_in_place_for_path(path, number, header, payload);
        self.count(|used| &mut used.opened, header, opened)
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
