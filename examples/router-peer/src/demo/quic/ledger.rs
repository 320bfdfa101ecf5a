//! What each packet key did: rustls' own interface to it, with a count at the door.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use rustls::{CipherSuiteCommon, Error, SupportedCipherSuite, Tls13CipherSuite};

use crate::sync::Locked;

/// Set in the first octet of an Initial, 0-RTT or Handshake packet, and not in that of a 1-RTT packet (RFC 9000 section 17).
const LONG_HEADER: u8 = 0x80;

/// What was done with one packet key.
#[derive(Debug, Default)]
struct Uses {
    sealed: AtomicU64,
    opened: AtomicU64,
    refused: AtomicU64,
}

/// The 1-RTT packets of one router, by packet key.
#[derive(Debug, Default)]
pub(super) struct Ledger(Locked<Vec<Arc<Uses>>>);

impl Ledger {
    fn sum(&self, count: impl Fn(&Uses) -> u64) -> u64 {
        self.0.lock().iter().map(|uses| count(uses)).sum()
    }

    /// Packets sealed.
    pub(super) fn sealed(&self) -> u64 {
        self.sum(|uses| uses.sealed.load(Ordering::Relaxed))
    }

    /// Packets opened.
    pub(super) fn opened(&self) -> u64 {
        self.sum(|uses| uses.opened.load(Ordering::Relaxed))
    }

    /// Packets that did not authenticate.
    pub(super) fn refused(&self) -> u64 {
        self.sum(|uses| uses.refused.load(Ordering::Relaxed))
    }

    /// Keys that have sealed packets: one, and another with each key update.
    pub(super) fn sealing_keys(&self) -> u64 {
        self.sum(|uses| uses.sealed.load(Ordering::Relaxed).min(1))
    }

    /// Keys that have opened packets.
    pub(super) fn opening_keys(&self) -> u64 {
        self.sum(|uses| uses.opened.load(Ordering::Relaxed).min(1))
    }
}

/// The same provider with every QUIC packet key entered into a ledger.
///
/// rustls holds suites for the life of the program, so each call leaks some hundred octets for each suite.
pub(super) fn counted(mut provider: CryptoProvider) -> (CryptoProvider, Arc<Ledger>) {
    let ledger = Arc::<Ledger>::default();
    for suite in &mut provider.cipher_suites {
        let Some((tls13, quic)) = suite.tls13().and_then(|tls13| Some((tls13, tls13.quic?))) else {
            continue;
        };
        let quic: &'static CountedAlgorithm =
            Box::leak(Box::new(CountedAlgorithm { inner: quic, ledger: Arc::clone(&ledger) }));
        let common = CipherSuiteCommon { ..tls13.common };
        *suite = SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
            common,
            quic: Some(quic),
            ..*tls13
        })));
    }
    (provider, ledger)
}

struct CountedAlgorithm {
    inner: &'static dyn Algorithm,
    ledger: Arc<Ledger>,
}

impl Algorithm for CountedAlgorithm {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        let uses = Arc::<Uses>::default();
        self.ledger.0.lock().push(Arc::clone(&uses));
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

fn is_one_rtt(header: &[u8]) -> bool {
    header.first().is_some_and(|first| first & LONG_HEADER == 0)
}

impl PacketKey for CountedKey {
    fn encrypt_in_place(&self, number: u64, header: &[u8], payload: &mut [u8]) -> Result<Tag, Error> {
        let tag = self.inner.encrypt_in_place(number, header, payload)?;
        if is_one_rtt(header) {
            self.uses.sealed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(tag)
    }

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let opened = self.inner.decrypt_in_place(number, header, payload);
        if is_one_rtt(header) {
            let count = if opened.is_ok() { &self.uses.opened } else { &self.uses.refused };
            count.fetch_add(1, Ordering::Relaxed);
        }
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
