//! Providers, certificates and octets for tests.

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::{CipherSuiteCommon, SupportedCipherSuite, Tls13CipherSuite};
use wireseal_rustls::{AeadAlgorithm, is_wireseal};

use crate::version::{CipherSuite, add_ccm, change_tls13_suites, ring, tls13_suites};

/// The suites that the ring provider has.
pub const COMMON: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS13_AES_256_GCM_SHA384,
    CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
];

pub const CCM: CipherSuite = CipherSuite::TLS13_AES_128_CCM_SHA256;

/// Those, and the one that Wireseal adds.
pub const ALL: [CipherSuite; 4] = [COMMON[0], COMMON[1], COMMON[2], CCM];

/// Of a suite that is no result of a handshake.
pub fn has_wireseal(suite: &'static Tls13CipherSuite) -> bool {
    is_wireseal(&SupportedCipherSuite::Tls13(suite))
}

/// Wireseal on the ring provider, with all four suites.
pub fn wireseal() -> CryptoProvider {
    let mut provider = wireseal_rustls::provider(ring());
    add_ccm(&mut provider);
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

/// `provider` with one suite of TLS 1.3.
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
}

/// Random octets, the same for the same seed.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut octets = vec![0; length];
    rng.fill(&mut octets);
    octets
}
