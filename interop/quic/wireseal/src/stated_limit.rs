//! A lower confidentiality limit than a suite has, because s2n-quic starts a key update only when a key nears its limit.

use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use rustls::{CipherSuiteCommon, Error, SupportedCipherSuite, Tls13CipherSuite};

/// `provider`, whose QUIC keys state that they may seal `packets` packets. Each call leaks its suites, which rustls never frees.
pub(crate) fn with_limit(mut provider: CryptoProvider, packets: u64) -> CryptoProvider {
    for suite in &mut provider.cipher_suites {
        let Some((tls13, inner)) = suite.tls13().and_then(|tls13| Some((tls13, tls13.quic?))) else {
            continue;
        };
        let quic: &Limited<_> = Box::leak(Box::new(Limited { inner, packets }));
        let common = CipherSuiteCommon { ..tls13.common };
        let tls13 = Tls13CipherSuite { common, quic: Some(quic), ..*tls13 };
        *suite = SupportedCipherSuite::Tls13(Box::leak(Box::new(tls13)));
    }
    provider
}

/// An algorithm or a packet key, and the limit to state.
struct Limited<T> {
    inner: T,
    packets: u64,
}

impl Algorithm for Limited<&'static dyn Algorithm> {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        Box::new(Limited { inner: self.inner.packet_key(key, iv), packets: self.packets })
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        self.inner.header_protection_key(key)
    }

    fn aead_key_len(&self) -> usize {
        self.inner.aead_key_len()
    }
}

impl PacketKey for Limited<Box<dyn PacketKey>> {
    fn encrypt_in_place(&self, number: u64, header: &[u8], payload: &mut [u8]) -> Result<Tag, Error> {
        self.inner.encrypt_in_place(number, header, payload)
    }

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        self.inner.decrypt_in_place(number, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.packets
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}
