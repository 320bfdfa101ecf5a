//! Names and lists that differ between versions of rustls, for rustls 0.23. `algorithm.rs`, `ccm.rs` and `suites.rs` serve all versions.

use rustls::crypto::CryptoProvider;
use rustls::{SupportedCipherSuite, Tls13CipherSuite};

pub(crate) use rustls::crypto::cipher::{
    MessageDecrypter as RecordDecrypter, MessageEncrypter as RecordEncrypter,
};
pub(crate) use rustls::crypto::hash::HashAlgorithm;

/// The TLS 1.3 suites of a provider.
pub(crate) fn tls13_suites(provider: &CryptoProvider) -> impl Iterator<Item = &'static Tls13CipherSuite> {
    provider.cipher_suites.iter().filter_map(SupportedCipherSuite::tls13)
}

/// Replaces each TLS 1.3 suite of a provider by what `change` returns.
pub(crate) fn change_tls13_suites(
    provider: &mut CryptoProvider,
    change: fn(&'static Tls13CipherSuite) -> &'static Tls13CipherSuite,
) {
    for suite in &mut provider.cipher_suites {
        if let Some(tls13) = suite.tls13() {
            *suite = SupportedCipherSuite::Tls13(change(tls13));
        }
    }
}
