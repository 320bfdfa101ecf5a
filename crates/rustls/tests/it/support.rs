//! Providers, certificates and configurations for tests.

use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::quic::{self, Algorithm, Suite};
use rustls::{
    CipherSuite, CipherSuiteCommon, ClientConfig, RootCertStore, ServerConfig, SupportedCipherSuite,
    Tls13CipherSuite,
};
use wireseal_rustls::{AeadAlgorithm, CountedKeys};

/// The suites that the ring provider has.
pub const COMMON: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS13_AES_256_GCM_SHA384,
    CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
];

pub const CCM: CipherSuite = CipherSuite::TLS13_AES_128_CCM_SHA256;
pub const MEGABYTE: usize = 1 << 20;

/// Those, and the one that Wireseal adds.
pub const ALL: [CipherSuite; 4] = [COMMON[0], COMMON[1], COMMON[2], CCM];

pub fn ring() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// Wireseal on the ring provider, with all four suites.
pub fn wireseal() -> CryptoProvider {
    let mut provider = wireseal_rustls::provider(ring());
    let ccm = wireseal_rustls::tls13_aes_128_ccm_sha256(&provider).expect("ring has SHA-256");
    provider.cipher_suites.push(ccm);
    assert!(
        provider
            .cipher_suites
            .iter()
            .filter(|suite| suite.tls13().is_some())
            .all(wireseal_rustls::is_wireseal)
    );
    provider
}

/// `provider` with its TLS 1.3 suites changed.
pub fn map_suites(
    mut provider: CryptoProvider,
    change: impl Fn(Tls13CipherSuite) -> Tls13CipherSuite,
) -> CryptoProvider {
    for suite in &mut provider.cipher_suites {
        if let Some(tls13) = suite.tls13() {
            let copy = Tls13CipherSuite { common: CipherSuiteCommon { ..tls13.common }, ..*tls13 };
            *suite = SupportedCipherSuite::Tls13(Box::leak(Box::new(change(copy))));
        }
    }
    provider
}

/// A provider that cannot do QUIC.
pub fn without_quic(provider: CryptoProvider) -> CryptoProvider {
    map_suites(provider, |suite| Tls13CipherSuite { quic: None, ..suite })
}

pub fn tls13(provider: &CryptoProvider, wanted: CipherSuite) -> &'static Tls13CipherSuite {
    let mut suites = provider.cipher_suites.iter().filter_map(|suite| suite.tls13());
    suites.find(|suite| suite.common.suite == wanted).expect("the provider has the suite")
}

pub fn aead(suite: CipherSuite) -> AeadAlgorithm {
    AeadAlgorithm::from_tls_cipher_suite(u16::from(suite)).expect("QUIC has the suite")
}

/// A self-signed certificate for "localhost" and its key.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    pub fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])
            .expect("a certificate for localhost");
        Self { certificate: made.cert.der().clone(), key: made.signing_key.serialize_der() }
    }

    /// A client that trusts this certificate.
    pub fn client(&self, provider: CryptoProvider) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("a certificate of rcgen is one to webpki");
        ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider does TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    /// A server with this certificate.
    pub fn server(&self, provider: CryptoProvider) -> ServerConfig {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider does TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)
            .expect("the key is that of the certificate")
    }

    pub fn quinn_client(&self, end: &End) -> quinn::ClientConfig {
        let tls = Arc::new(self.client(end.provider.clone()));
        let crypto =
            QuicClientConfig::with_initial(tls, end.initial).expect("Initial packets take AES-128-GCM");
        quinn::ClientConfig::new(Arc::new(crypto))
    }

    pub fn quinn_server(&self, end: &End) -> quinn::ServerConfig {
        let tls = Arc::new(self.server(end.provider.clone()));
        let crypto =
            QuicServerConfig::with_initial(tls, end.initial).expect("Initial packets take AES-128-GCM");
        quinn::ServerConfig::with_crypto(Arc::new(crypto))
    }
}

/// One end of a connection: a provider with one suite, and the suite of Initial packets.
pub struct End {
    pub provider: CryptoProvider,
    pub initial: Suite,
}

impl End {
    /// An end that offers only `suite`.
    pub fn only(mut provider: CryptoProvider, suite: CipherSuite) -> Self {
        let initial = tls13(&provider, CipherSuite::TLS13_AES_128_GCM_SHA256);
        let initial = initial.quic_suite().expect("a provider with QUIC");
        provider.cipher_suites.retain(|offered| offered.suite() == suite);
        Self { provider, initial }
    }

    /// Counts the keys of the one suite from here on.
    pub fn counted(&mut self) -> Arc<CountedKeys> {
        let (provider, keys) = wireseal_rustls::counted(self.provider.clone());
        self.provider = provider;
        keys
    }
}

/// The keys of one side of Initial packets from `algorithm`, with the hash of `suite`: different implementations make keys from the
/// same octets.
pub fn keys(
    suite: &'static Tls13CipherSuite,
    algorithm: &'static dyn Algorithm,
    connection_id: &[u8],
) -> quic::Keys {
    quic::Keys::initial(quic::Version::V1, suite, algorithm, connection_id, rustls::Side::Client)
}

/// Random octets, the same for the same seed.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut octets = vec![0; length];
    rng.fill(&mut octets);
    octets
}
