//! What tests need and versions of rustls do differently, for rustls 0.23.

use std::ptr;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::quic::{Algorithm, Keys, PacketKey, Suite, Tag, Version};
pub use rustls::{CipherSuite, Side};
use rustls::{ClientConfig, Error, RootCertStore, ServerConfig, SupportedCipherSuite, Tls13CipherSuite};

use crate::support::Identity;

pub fn ring() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

pub fn tls13_suites(provider: &CryptoProvider) -> Vec<&'static Tls13CipherSuite> {
    provider.cipher_suites.iter().filter_map(SupportedCipherSuite::tls13).collect()
}

/// `provider` with what `change` makes of each TLS 1.3 suite.
pub fn change_tls13_suites(
    mut provider: CryptoProvider,
    change: impl Fn(&'static Tls13CipherSuite) -> Option<&'static Tls13CipherSuite>,
) -> CryptoProvider {
    let suites = provider.cipher_suites.into_iter();
    provider.cipher_suites = suites
        .filter_map(|suite| match suite.tls13() {
            Some(tls13) => change(tls13).map(SupportedCipherSuite::Tls13),
            None => Some(suite),
        })
        .collect();
    provider
}

pub fn ccm(provider: &CryptoProvider) -> Option<&'static Tls13CipherSuite> {
    wireseal_rustls::tls13_aes_128_ccm_sha256(provider).and_then(|suite| suite.tls13())
}

pub fn add_ccm(provider: &mut CryptoProvider) {
    provider.cipher_suites.push(ccm(provider).expect("ring has SHA-256").into());
}

/// All suites by their names, in order.
pub fn names(provider: &CryptoProvider) -> Vec<CipherSuite> {
    provider.cipher_suites.iter().map(SupportedCipherSuite::suite).collect()
}

pub fn tls12_addresses(provider: &CryptoProvider) -> Vec<usize> {
    let tls12 = |suite: &SupportedCipherSuite| match suite {
        SupportedCipherSuite::Tls12(suite) => Some(ptr::from_ref(*suite).addr()),
        _ => None,
    };
    provider.cipher_suites.iter().filter_map(tls12).collect()
}

pub fn claims_fips(provider: &CryptoProvider) -> bool {
    let suite = |suite: &Tls13CipherSuite| suite.fips() || suite.quic.is_some_and(|quic| quic.fips());
    provider.fips() || tls13_suites(provider).into_iter().any(suite)
}

pub fn initial_suite(suite: &'static Tls13CipherSuite) -> Suite {
    suite.quic_suite().expect("a suite with QUIC")
}

/// The keys of one side of Initial packets from `algorithm`, with the hash of `suite`: different implementations make keys from the
/// same octets.
pub fn keys(
    suite: &'static Tls13CipherSuite,
    algorithm: &'static dyn Algorithm,
    connection_id: &[u8],
) -> Keys {
    Keys::initial(Version::V1, suite, algorithm, connection_id, Side::Client)
}

/// Encrypts in place, by the call for a path or the one without.
pub fn seal(
    key: &dyn PacketKey,
    path: Option<u32>,
    number: u64,
    header: &[u8],
    payload: &mut [u8],
) -> Result<Tag, Error> {
    match path {
        None => key.encrypt_in_place(number, header, payload),
        Some(path) => key.encrypt_in_place_for_path(path, number, header, payload),
    }
}

/// Decrypts in place, by the call for a path or the one without.
pub fn open<'a>(
    key: &dyn PacketKey,
    path: Option<u32>,
    number: u64,
    header: &[u8],
    sealed: &'a mut [u8],
) -> Result<&'a [u8], Error> {
    match path {
        None => key.decrypt_in_place(number, header, sealed),
        Some(path) => key.decrypt_in_place_for_path(path, number, header, sealed),
    }
}

impl Identity {
    /// A client of TLS 1.3 that trusts this certificate.
    pub fn client(&self, provider: CryptoProvider) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("a certificate of rcgen is one to webpki");
        ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider does TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    /// A server of TLS 1.3 with this certificate.
    pub fn server(&self, provider: CryptoProvider) -> ServerConfig {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider does TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)
            .expect("the key is that of the certificate")
    }
}
