//! What the tests share: providers, certificates and configurations.
#![allow(dead_code)] // Each test is a program of its own, and none uses all of this.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::quic::{self, Algorithm, HeaderProtectionKey, PacketKey, Suite};
use rustls::{
    CipherSuite, CipherSuiteCommon, ClientConfig, RootCertStore, ServerConfig, SupportedCipherSuite,
    Tls13CipherSuite,
};
use wireseal_quic::AeadAlgorithm;

/// The suites that the ring provider has too.
pub const COMMON: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS13_AES_256_GCM_SHA384,
    CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
];

pub fn ring() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// Wireseal on the ring provider, with all four suites.
pub fn wireseal() -> CryptoProvider {
    let mut provider = wireseal_rustls::provider(ring());
    let ccm = wireseal_rustls::tls13_aes_128_ccm_sha256(&provider).expect("ring has SHA-256");
    provider.cipher_suites.push(ccm);
    assert!(
        provider.cipher_suites.iter().filter_map(|suite| suite.tls13()).all(wireseal_rustls::is_wireseal)
    );
    provider
}

/// `provider` with its TLS 1.3 suites as `change` makes them.
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

/// Keeps count of the keys that an algorithm makes.
pub struct Counting {
    inner: &'static dyn Algorithm,
    packet_keys: AtomicUsize,
    header_keys: AtomicUsize,
}

impl Counting {
    pub fn new(inner: &'static dyn Algorithm) -> &'static Self {
        Box::leak(Box::new(Self {
            inner,
            packet_keys: AtomicUsize::new(0),
            header_keys: AtomicUsize::new(0),
        }))
    }

    pub fn packet_keys(&self) -> usize {
        self.packet_keys.load(Ordering::Relaxed)
    }

    pub fn header_keys(&self) -> usize {
        self.header_keys.load(Ordering::Relaxed)
    }
}

impl Algorithm for Counting {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        self.packet_keys.fetch_add(1, Ordering::Relaxed);
        self.inner.packet_key(key, iv)
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        self.header_keys.fetch_add(1, Ordering::Relaxed);
        self.inner.header_protection_key(key)
    }

    fn aead_key_len(&self) -> usize {
        self.inner.aead_key_len()
    }
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

    /// A server that shows this certificate.
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

/// One end of a connection: a provider with one suite, and what its Initial packets take.
pub struct End {
    pub provider: CryptoProvider,
    pub initial: Suite,
}

impl End {
    /// An end of `provider` that offers `suite` and no other.
    pub fn only(mut provider: CryptoProvider, suite: CipherSuite) -> Self {
        let initial = tls13(&provider, CipherSuite::TLS13_AES_128_GCM_SHA256);
        let initial = initial.quic_suite().expect("a provider with QUIC");
        provider.cipher_suites.retain(|offered| offered.suite() == suite);
        Self { provider, initial }
    }

    /// Counts from here on the keys of the one suite.
    pub fn counted(&mut self) -> &'static Counting {
        let quic = self.provider.cipher_suites[0].tls13().and_then(|suite| suite.quic);
        let counting = Counting::new(quic.expect("a suite with QUIC"));
        self.provider =
            map_suites(self.provider.clone(), |suite| Tls13CipherSuite { quic: Some(counting), ..suite });
        counting
    }
}

/// The keys of one side of Initial packets, made by `algorithm` with the hash of `suite`: a way to have both implementations
/// make keys of the same octets.
pub fn keys(
    suite: &'static Tls13CipherSuite,
    algorithm: &'static dyn Algorithm,
    connection_id: &[u8],
) -> quic::Keys {
    quic::Keys::initial(quic::Version::V1, suite, algorithm, connection_id, rustls::Side::Client)
}

/// Octets that look like none of their neighbours, the same for the same seed.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut octets = vec![0; length];
    rng.fill(&mut octets);
    octets
}
