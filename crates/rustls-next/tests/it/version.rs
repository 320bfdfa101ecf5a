//! What tests need and versions of rustls do differently, for rustls 0.24.

use std::ptr;
use std::sync::Arc;

pub use rustls::crypto::CipherSuite;
use rustls::crypto::{self, CryptoProvider};
use rustls::pki_types::{FipsStatus, PrivateKeyDer, PrivatePkcs8KeyDer};
pub use rustls::quic::Side;
use rustls::quic::{Algorithm, Keys, PacketKey, Suite, Tag, Version};
use rustls::{ClientConfig, Error, RootCertStore, ServerConfig, Tls13CipherSuite};

use crate::support::Identity;

pub fn ring() -> CryptoProvider {
    rustls_ring::DEFAULT_PROVIDER
}

pub fn tls13_suites(provider: &CryptoProvider) -> Vec<&'static Tls13CipherSuite> {
    provider.tls13_cipher_suites.to_vec()
}

/// `provider` with what `change` makes of each TLS 1.3 suite.
pub fn change_tls13_suites(
    mut provider: CryptoProvider,
    change: impl Fn(&'static Tls13CipherSuite) -> Option<&'static Tls13CipherSuite>,
) -> CryptoProvider {
    let suites: Vec<_> = provider.tls13_cipher_suites.iter().filter_map(|suite| change(suite)).collect();
    provider.tls13_cipher_suites = suites.into();
    provider
}

pub fn ccm(provider: &CryptoProvider) -> Option<&'static Tls13CipherSuite> {
    wireseal_rustls::tls13_aes_128_ccm_sha256(provider)
}

pub fn add_ccm(provider: &mut CryptoProvider) {
    let ccm = ccm(provider).expect("ring has SHA-256");
    provider.tls13_cipher_suites.to_mut().push(ccm);
}

/// All suites by their names, in order.
pub fn names(provider: &CryptoProvider) -> Vec<CipherSuite> {
    let tls12 = provider.tls12_cipher_suites.iter().map(|suite| suite.common.suite);
    tls12.chain(provider.tls13_cipher_suites.iter().map(|suite| suite.common.suite)).collect()
}

pub fn tls12_addresses(provider: &CryptoProvider) -> Vec<usize> {
    provider.tls12_cipher_suites.iter().map(|suite| ptr::from_ref(*suite).addr()).collect()
}

pub fn claims_fips(provider: &CryptoProvider) -> bool {
    let suite = |suite: &Tls13CipherSuite| [Some(suite.fips()), suite.quic.map(|quic| quic.fips())];
    let suites = tls13_suites(provider).into_iter().flat_map(suite).flatten();
    suites.chain([provider.fips()]).any(|status| !matches!(status, FipsStatus::Unvalidated))
}

pub fn initial_suite(suite: &'static Tls13CipherSuite) -> Suite {
    suite.try_into().expect("a suite with QUIC")
}

/// The keys of one side of Initial packets from `algorithm`, with the hash of `suite`: different implementations make keys from the
/// same octets.
pub fn keys(
    suite: &'static Tls13CipherSuite,
    algorithm: &'static dyn Algorithm,
    connection_id: &[u8],
) -> Keys {
    let mut suite = initial_suite(suite);
    suite.quic = algorithm;
    suite.keys(connection_id, Side::Client, Version::V1)
}

/// Encrypts in place.
pub fn seal(
    key: &dyn PacketKey,
    path: Option<u32>,
    number: u64,
    header: &[u8],
    payload: &mut [u8],
) -> Result<Tag, Error> {
    key.encrypt_in_place(number, header, payload, path)
}

/// Decrypts in place.
pub fn open<'a>(
    key: &dyn PacketKey,
    path: Option<u32>,
    number: u64,
    header: &[u8],
    sealed: &'a mut [u8],
) -> Result<&'a [u8], Error> {
    key.decrypt_in_place(number, header, sealed, path)
}

/// `provider` without TLS 1.2.
fn tls13_only(mut provider: CryptoProvider) -> Arc<CryptoProvider> {
    provider.tls12_cipher_suites = Vec::new().into();
    Arc::new(provider)
}

impl Identity {
    /// A client of TLS 1.3 that trusts this certificate.
    pub fn client(&self, provider: CryptoProvider) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("a certificate of rcgen is one to webpki");
        ClientConfig::builder(tls13_only(provider))
            .with_root_certificates(roots)
            .with_no_client_auth()
            .expect("the provider does TLS 1.3")
    }

    /// A server of TLS 1.3 with this certificate.
    pub fn server(&self, provider: CryptoProvider) -> ServerConfig {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        let chain = crypto::Identity::from_cert_chain(vec![self.certificate.clone()]);
        ServerConfig::builder(tls13_only(provider))
            .with_no_client_auth()
            .with_single_cert(Arc::new(chain.expect("a chain of one")), key)
            .expect("the key is that of the certificate")
    }
}
