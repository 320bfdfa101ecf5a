//! Names and lists that differ between versions of rustls, for rustls 0.24. `algorithm.rs`, `ccm.rs` and `suites.rs` serve all versions.

use rustls::Tls13CipherSuite;
use rustls::crypto::CryptoProvider;

pub(crate) use rustls::crypto::HashAlgorithm;
pub(crate) use rustls::crypto::cipher::{RecordDecrypter, RecordEncrypter};

/// The TLS 1.3 suites of a provider.
pub(crate) fn tls13_suites(provider: &CryptoProvider) -> impl Iterator<Item = &'static Tls13CipherSuite> {
    provider.tls13_cipher_suites.iter().copied()
}

/// Replaces each TLS 1.3 suite of a provider by what `change` returns.
pub(crate) fn change_tls13_suites(
    provider: &mut CryptoProvider,
    change: fn(&'static Tls13CipherSuite) -> &'static Tls13CipherSuite,
) {
    let changed: Vec<_> = tls13_suites(provider).map(change).collect();
    provider.tls13_cipher_suites = changed.into();
}
