//! Providers, certificates and octets for tests.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{
    CipherSuite, CipherSuiteCommon, ClientConfig, RootCertStore, ServerConfig, SupportedCipherSuite,
    Tls13CipherSuite,
};
use wireseal_rustls::{AeadAlgorithm, is_wireseal};

/// The suites that the ring provider has.
pub const COMMON: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS13_AES_256_GCM_SHA384,
    CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
];

pub const CCM: CipherSuite = CipherSuite::TLS13_AES_128_CCM_SHA256;

/// The same, and the one that Wireseal adds.
pub const ALL: [CipherSuite; 4] = [COMMON[0], COMMON[1], COMMON[2], CCM];

pub fn ring() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

pub fn tls13_suites(provider: &CryptoProvider) -> Vec<&'static Tls13CipherSuite> {
    provider.cipher_suites.iter().filter_map(SupportedCipherSuite::tls13).collect()
}

/// `provider` with `change` applied to each TLS 1.3 suite.
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

/// Whether a suite that did not come from a handshake has Wireseal's keys.
pub fn has_wireseal(suite: &'static Tls13CipherSuite) -> bool {
    is_wireseal(&SupportedCipherSuite::Tls13(suite))
}

/// Wireseal on the ring provider, with all four suites.
pub fn wireseal() -> CryptoProvider {
    let mut provider = wireseal_rustls::provider(ring());
    provider.cipher_suites.push(ccm(&provider).expect("ring has SHA-256").into());
    assert!(tls13_suites(&provider).into_iter().all(has_wireseal));
    provider
}

/// `provider` with its TLS 1.3 suites changed.
pub fn map_suites(
    provider: CryptoProvider,
    change: impl Fn(Tls13CipherSuite) -> Tls13CipherSuite,
) -> CryptoProvider {
    change_tls13_suites(provider, |suite| {
        let copy = Tls13CipherSuite { common: CipherSuiteCommon { ..suite.common }, ..*suite };
        Some(Box::leak(Box::new(change(copy))))
    })
}

/// A provider that cannot do QUIC.
pub fn without_quic(provider: CryptoProvider) -> CryptoProvider {
    map_suites(provider, |suite| Tls13CipherSuite { quic: None, ..suite })
}

/// `provider` with a single TLS 1.3 suite.
pub fn only(provider: CryptoProvider, wanted: CipherSuite) -> CryptoProvider {
    change_tls13_suites(provider, |suite| Some(suite).filter(|suite| suite.common.suite == wanted))
}

pub fn tls13(provider: &CryptoProvider, wanted: CipherSuite) -> &'static Tls13CipherSuite {
    let mut suites = tls13_suites(provider).into_iter();
    suites.find(|suite| suite.common.suite == wanted).expect("the provider has the suite")
}

pub fn aead(suite: CipherSuite) -> AeadAlgorithm {
    AeadAlgorithm::from_tls_cipher_suite(u16::from(suite)).expect("QUIC has the suite")
}

/// A self-signed certificate for "localhost" and its key.
pub struct Identity {
    pub certificate: CertificateDer<'static>,
    pub key: Vec<u8>,
}

impl Identity {
    pub fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])
            .expect("a certificate for localhost");
        Self { certificate: made.cert.der().clone(), key: made.signing_key.serialize_der() }
    }

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

/// Random octets, the same for the same seed.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut octets = vec![0; length];
    rng.fill(&mut octets);
    octets
}
