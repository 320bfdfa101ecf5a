//! The TLS side of QUIC: who this router is, which suites it offers, and whom it speaks with.

use std::fmt;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::quic::Suite;
use rustls::server::{NoServerSessionStorage, ParsedCertificate};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{CipherSuite, ClientConfig, ServerConfig, SupportedCipherSuite};

use super::ALPN;
use super::fingerprint::{Fingerprint, Pinned};
use super::negotiated::{Telling, noted};

/// All that TLS and QUIC need of cryptography: ring for the handshake, Wireseal for every QUIC packet. All suites are of TLS 1.3,
/// and TLS_AES_128_CCM_SHA256 is the last one.
#[must_use]
pub fn provider() -> CryptoProvider {
    let mut provider = wireseal_rustls::provider(rustls::crypto::ring::default_provider());
    provider.cipher_suites.retain(|suite| suite.tls13().is_some());
    provider.cipher_suites.extend(wireseal_rustls::tls13_aes_128_ccm_sha256(&provider));
    provider
}

/// The name of a TLS 1.3 suite, as RFC 8446 appendix B.4 has it.
#[must_use]
pub fn suite_name(suite: CipherSuite) -> String {
    // rustls says TLS13_ where the standard says TLS_.
    suite.as_str().unwrap_or("unknown").replacen("TLS13_", "TLS_", 1)
}

/// The suite of the provider that has this name.
#[must_use]
pub fn suite_named(provider: &CryptoProvider, name: &str) -> Option<SupportedCipherSuite> {
    provider.cipher_suites.iter().find(|suite| suite_name(suite.suite()) == name).copied()
}

/// Why a certificate and its key, or a choice of suites, cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TlsError {
    /// The certificate is no X.509 certificate.
    Certificate,
    /// The private key is of no algorithm that the provider can sign with.
    Key,
    /// The private key belongs to another certificate.
    KeyMismatch,
    /// The provider lacks TLS_AES_128_GCM_SHA256 for QUIC, which protects Initial packets (RFC 9001 section 5.2), or has no
    /// suite at all.
    Suites,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate => f.write_str("not an X.509 certificate"),
            Self::Key => f.write_str("not a private key of ECDSA, Ed25519 or RSA"),
            Self::KeyMismatch => f.write_str("the private key of another certificate"),
            Self::Suites => f.write_str("no suites to speak QUIC with"),
        }
    }
}

impl std::error::Error for TlsError {}

/// What this router is in a handshake.
#[derive(Clone)]
pub struct Tls {
    provider: Arc<CryptoProvider>,
    initial: Suite,
    identity: Arc<CertifiedKey>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("certificate", &self.fingerprint()).finish_non_exhaustive()
    }
}

impl Tls {
    /// A router that shows `certificate`, whose private key is `key`, and offers `suites`, the preferred one first; without
    /// a choice those of the provider except CCM, which no peer prefers.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn new(
        provider: CryptoProvider,
        suites: Option<Vec<SupportedCipherSuite>>,
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, TlsError> {
        ParsedCertificate::try_from(&certificate).map_err(|_| TlsError::Certificate)?;
        let key = provider.key_provider.load_private_key(key).map_err(|_| TlsError::Key)?;
        let identity = CertifiedKey::new(vec![certificate], key);
        identity.keys_match().map_err(|_| TlsError::KeyMismatch)?;
        let initial = suite_named(&provider, "TLS_AES_128_GCM_SHA256")
            .and_then(|suite| suite.tls13()?.quic_suite())
            .ok_or(TlsError::Suites)?;
        let cipher_suites = suites.unwrap_or_else(|| {
            let mut usual = provider.cipher_suites.clone();
            usual.retain(|suite| suite.suite() != CipherSuite::TLS13_AES_128_CCM_SHA256);
            usual
        });
        let cipher_suites = cipher_suites.into_iter().map(noted).collect();
        let provider = Arc::new(CryptoProvider { cipher_suites, ..provider });
        // What either end of a connection will ask for, so that later nothing can fail.
        ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|_| TlsError::Suites)?;
        Ok(Self { provider, initial, identity: Arc::new(identity) })
    }

    /// The fingerprint of the own certificate, for the peer's configuration.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.identity.cert[0])
    }

    /// The suites offered, the preferred one first.
    #[must_use]
    pub fn suites(&self) -> &[SupportedCipherSuite] {
        &self.provider.cipher_suites
    }

    fn pinned(&self, peer: Fingerprint) -> Arc<Pinned> {
        Arc::new(Pinned { peer, algorithms: self.provider.signature_verification_algorithms })
    }

    fn shown(&self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from(Arc::clone(&self.identity)))
    }

    /// The side that calls. Nothing is resumed and nothing sent before the peer has proved itself: the messages of 0-RTT
    /// can be replayed (RFC 9001 section 9.2), and a session that lasts for months saves nothing by it.
    pub(super) fn client(&self, peer: Fingerprint) -> Arc<Telling<QuicClientConfig>> {
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&TLS13])
            .expect("the constructor has tried it")
            .dangerous()
            .with_custom_certificate_verifier(self.pinned(peer))
            .with_client_cert_resolver(self.shown());
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_early_data = false;
        let config = QuicClientConfig::with_initial(Arc::new(config), self.initial);
        let config = config.expect("the constructor has chosen the suite of Initial packets");
        Arc::new(Telling(Arc::new(config)))
    }

    /// The side that is called, with the same restraint.
    pub(super) fn server(&self, peer: Fingerprint) -> Arc<Telling<QuicServerConfig>> {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&TLS13])
            .expect("the constructor has tried it")
            .with_client_cert_verifier(self.pinned(peer))
            .with_cert_resolver(self.shown());
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        let config = QuicServerConfig::with_initial(Arc::new(config), self.initial);
        let config = config.expect("the constructor has chosen the suite of Initial packets");
        Arc::new(Telling(Arc::new(config)))
    }
}
