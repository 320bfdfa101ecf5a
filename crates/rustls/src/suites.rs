//! Cipher suites with Wireseal in their field `quic`.

use std::ptr;
use std::sync::{Mutex, PoisonError};

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, CipherSuiteCommon, SupportedCipherSuite, Tls13CipherSuite};
use wireseal_quic::AeadAlgorithm;

use crate::quic_algorithm;

/// The provider `base`, with Wireseal for its QUIC keys.
///
/// In each TLS 1.3 suite that QUIC has packet protection for (RFC 9001 §5.3) the field `quic` is replaced, or
/// filled where it was `None`. All else is as it was: order, hash, HKDF, record protection, TLS 1.2 suites, key
/// exchange groups, signatures, random numbers.
///
/// rustls wants suites that live for ever, so the first call for a suite leaks a copy of it, of about 100 octets;
/// later calls for the same suite use that copy again. What [`provider`] gave can be given to it again and comes out
/// the same.
#[must_use]
pub fn provider(mut base: CryptoProvider) -> CryptoProvider {
    for suite in &mut base.cipher_suites {
        if let Some(tls13) = suite.tls13() {
            *suite = SupportedCipherSuite::Tls13(on_wireseal(tls13));
        }
    }
    base
}

/// Whether the QUIC keys of `suite` are Wireseal's.
///
/// It holds exactly where the field `quic` is the [`quic_algorithm`] of the suite's own AEAD. On a connection of
/// rustls, the suite is `connection.negotiated_cipher_suite()`.
#[must_use]
pub fn is_wireseal(suite: &Tls13CipherSuite) -> bool {
    match (aead_of(suite.common.suite), suite.quic) {
        (Some(aead), Some(quic)) => ptr::addr_eq(quic, quic_algorithm(aead)),
        _ => false,
    }
}

fn aead_of(suite: CipherSuite) -> Option<AeadAlgorithm> {
    AeadAlgorithm::from_tls_cipher_suite(u16::from(suite))
}

fn on_wireseal(base: &'static Tls13CipherSuite) -> &'static Tls13CipherSuite {
    match aead_of(base.common.suite) {
        Some(aead) if !is_wireseal(base) => {
            let common = CipherSuiteCommon { ..base.common };
            leaked_once(base, Tls13CipherSuite { common, quic: Some(quic_algorithm(aead)), ..*base })
        }
        _ => base,
    }
}

/// `made`, which follows from `base` and its own code point alone, at the address it was given when first made.
pub(crate) fn leaked_once(
    base: &'static Tls13CipherSuite,
    made: Tls13CipherSuite,
) -> &'static Tls13CipherSuite {
    static LEAKED: Mutex<Vec<(&Tls13CipherSuite, &Tls13CipherSuite)>> = Mutex::new(Vec::new());

    // The list is whole between any two statements, so a panic elsewhere cannot have spoilt it.
    let mut leaked = LEAKED.lock().unwrap_or_else(PoisonError::into_inner);
    // Suites compare by code point, which providers share: only the address tells them apart.
    if let Some((_, known)) = leaked.iter().find(|(from, known)| ptr::eq(*from, base) && **known == made) {
        return known;
    }
    let made = Box::leak(Box::new(made));
    leaked.push((base, made));
    made
}
