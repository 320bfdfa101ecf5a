//! Counts the packets that pass each QUIC packet key, and notes which suite they have: neither rustls nor a QUIC stack tells,
//! so it is done where rustls makes the keys and the stack uses them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use rustls::{CipherSuite, CipherSuiteCommon, Error, SupportedCipherSuite, Tls13CipherSuite};

/// Set in the first octet of an Initial, 0-RTT or Handshake packet, but not of a 1-RTT packet (RFC 9000 §17).
const LONG_HEADER: u8 = 0x80;

/// What was done with a packet key, in 1-RTT packets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Packets {
    /// Sealed with it.
    pub sealed: u64,
    /// Opened with it.
    pub opened: u64,
    /// Not authentic under it.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Uses {
    sealed: AtomicU64,
    opened: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Entries {
    keys: Vec<Arc<Uses>>,
    suite: Option<CipherSuite>,
}

/// The packet keys of a provider.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Entries>);

impl Ledger {
    /// What was done with each key, in the order in which rustls asked for them: by level and generation, in each the local
    /// one before the remote one.
    ///
    /// # Panics
    /// When a thread has panicked while it used the ledger.
    #[must_use]
    pub fn keys(&self) -> Vec<Packets> {
        let packets = |uses: &Arc<Uses>| Packets {
            sealed: uses.sealed.load(Ordering::Relaxed),
            opened: uses.opened.load(Ordering::Relaxed),
            refused: uses.refused.load(Ordering::Relaxed),
        };
        self.0.lock().unwrap().keys.iter().map(packets).collect()
    }

    /// What was done with all keys together.
    ///
    /// # Panics
    /// As [`Self::keys`].
    #[must_use]
    pub fn total(&self) -> Packets {
        self.keys().iter().fold(Packets::default(), |sum, key| Packets {
            sealed: sum.sealed + key.sealed,
            opened: sum.opened + key.opened,
            refused: sum.refused + key.refused,
        })
    }

    /// The suite of the newest key.
    ///
    /// # Panics
    /// When a thread has panicked while it used the ledger.
    #[must_use]
    pub fn suite(&self) -> Option<CipherSuite> {
        self.0.lock().unwrap().suite
    }
}

/// The same provider, with every QUIC packet key entered into a ledger.
///
/// rustls holds suites for the life of the program, so each call leaks some hundred octets for each suite.
#[must_use]
pub fn counted(mut provider: CryptoProvider) -> (CryptoProvider, Arc<Ledger>) {
    let ledger = Arc::<Ledger>::default();
    for suite in &mut provider.cipher_suites {
        let Some((tls13, inner)) = suite.tls13().and_then(|tls13| Some((tls13, tls13.quic?))) else {
            continue;
        };
        let counted = Counted { inner, suite: suite.suite(), ledger: Arc::clone(&ledger) };
        let common = CipherSuiteCommon { ..tls13.common };
        let tls13 = Tls13CipherSuite { common, quic: Some(Box::leak(Box::new(counted))), ..*tls13 };
        *suite = SupportedCipherSuite::Tls13(Box::leak(Box::new(tls13)));
    }
    (provider, ledger)
}

struct Counted {
    inner: &'static dyn Algorithm,
    suite: CipherSuite,
    ledger: Arc<Ledger>,
}

impl Algorithm for Counted {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        let uses = Arc::<Uses>::default();
        let mut entries = self.ledger.0.lock().unwrap();
        entries.keys.push(Arc::clone(&uses));
        entries.suite = Some(self.suite);
        Box::new(CountedKey { inner: self.inner.packet_key(key, iv), uses })
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        self.inner.header_protection_key(key)
    }

    fn aead_key_len(&self) -> usize {
        self.inner.aead_key_len()
    }
}

struct CountedKey {
    inner: Box<dyn PacketKey>,
    uses: Arc<Uses>,
}

fn count(counter: &AtomicU64, header: &[u8]) {
    if header.first().is_some_and(|first| first & LONG_HEADER == 0) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl PacketKey for CountedKey {
    fn encrypt_in_place(&self, number: u64, header: &[u8], payload: &mut [u8]) -> Result<Tag, Error> {
        let tag = self.inner.encrypt_in_place(number, header, payload)?;
        count(&self.uses.sealed, header);
        Ok(tag)
    }

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let opened = self.inner.decrypt_in_place(number, header, payload);
        count(if opened.is_ok() { &self.uses.opened } else { &self.uses.refused }, header);
        opened
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
