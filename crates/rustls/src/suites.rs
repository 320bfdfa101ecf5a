//! Cipher suites with Wireseal in their field `quic`.

use std::ptr;
use std::sync::{Mutex, PoisonError};

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuiteCommon, SupportedCipherSuite, Tls13CipherSuite};
use wireseal_quic::AeadAlgorithm;

use crate::algorithm::quic_algorithm;

/// Returns the provider with Wireseal's QUIC keys.
///
/// It sets the field `quic` of each TLS 1.3 suite that QUIC can use (RFC 9001 §5.3), and changes nothing else: order, hash, HKDF,
/// record protection, TLS 1.2 suites, key exchange groups, signatures and random numbers stay.
///
/// rustls requires suites with a static lifetime, so the first call for a suite leaks a copy of about 100 octets; later calls
/// reuse it. A provider that already has Wireseal's keys is returned unchanged.
#[must_use]
pub fn provider(mut base: CryptoProvider) -> CryptoProvider {
    for suite in &mut base.cipher_suites {
        if let Some(tls13) = suite.tls13() {
            *suite = SupportedCipherSuite::Tls13(on_wireseal(tls13));
        }
    }
    base
}

/// Whether the QUIC keys of `suite` are Wireseal's: it is a TLS 1.3 suite whose field `quic` is the [`quic_algorithm`] of its own AEAD.
/// Pass it what a rustls connection returns from `connection.negotiated_cipher_suite()`.
#[must_use]
pub fn is_wireseal(suite: &SupportedCipherSuite) -> bool {
    matches!(suite, SupportedCipherSuite::Tls13(suite) if has_wireseal(suite))
}

fn has_wireseal(suite: &Tls13CipherSuite) -> bool {
    match (aead_of(suite), suite.quic) {
        (Some(aead), Some(quic)) => ptr::addr_eq(quic, quic_algorithm(aead)),
        _ => false,
    }
}

fn aead_of(suite: &Tls13CipherSuite) -> Option<AeadAlgorithm> {
    AeadAlgorithm::from_tls_cipher_suite(u16::from(suite.common.suite))
}

fn on_wireseal(base: &'static Tls13CipherSuite) -> &'static Tls13CipherSuite {
    match aead_of(base) {
        Some(aead) if !has_wireseal(base) => {
            let common = CipherSuiteCommon { ..base.common };
            leaked_once(base, Tls13CipherSuite { common, quic: Some(quic_algorithm(aead)), ..*base })
        }
        _ => base,
    }
}

/// `made` with a static lifetime. The same `base` and code point always return the same address.
pub(crate) fn leaked_once(
    base: &'static Tls13CipherSuite,
    made: Tls13CipherSuite,
) -> &'static Tls13CipherSuite {
    static LEAKED: Mutex<Vec<(&Tls13CipherSuite, &Tls13CipherSuite)>> = Mutex::new(Vec::new());

    // The list is always consistent, so a poisoned lock is harmless.
    let mut leaked = LEAKED.lock().unwrap_or_else(PoisonError::into_inner);
    // Compares addresses: suites compare by code point, which different providers share.
    if let Some((_, known)) = leaked.iter().find(|(from, known)| ptr::eq(*from, base) && **known == made) {
        return known;
    }
    let made = Box::leak(Box::new(made));
    leaked.push((base, made));
    made
}
