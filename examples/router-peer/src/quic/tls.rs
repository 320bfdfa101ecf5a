//! The TLS side of QUIC: who this router is, which suites it offers, and which peer it speaks with.

use std::fmt;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use counted::{Ledger, counted};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::quic::Suite;
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{CipherSuite, ClientConfig, ServerConfig, SupportedCipherSuite};

use super::fingerprint::{Fingerprint, Pinned};

/// What the TLS handshake agrees to speak (draft-retana-idr-bgp-quic-01 §3.1). Later revisions say "boq", but mean other
/// messages by it: routes on streams of their own, which this speaker does not open.
const ALPN: &[u8] = b"bgp4";

/// ring for the handshake, Wireseal for every QUIC packet. All suites are of TLS 1.3; TLS_AES_128_CCM_SHA256 is the last.
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

/// Whether Wireseal makes the QUIC keys of a suite of the provider's.
pub(super) fn is_wireseal(suite: CipherSuite) -> bool {
    let provider = provider();
    let suite = provider.cipher_suites.iter().find(|known| known.suite() == suite);
    suite.and_then(SupportedCipherSuite::tls13).is_some_and(wireseal_rustls::is_wireseal)
}

/// A router's part in handshakes.
#[derive(Clone)]
pub(crate) struct Tls {
    provider: CryptoProvider,
    initial: Suite,
    identity: Arc<CertifiedKey>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("certificate", &self.fingerprint()).finish_non_exhaustive()
    }
}

impl Tls {
    /// A router that shows `certificate`, whose private key is `key`, and offers `suites`, the preferred one first; unless
    /// they are given, those of the provider except CCM, which no peer prefers.
    pub(crate) fn new(
        mut provider: CryptoProvider,
        suites: Option<Vec<SupportedCipherSuite>>,
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self> {
        let key = provider.key_provider.load_private_key(key);
        let key = key.map_err(|_| anyhow!("not a private key of ECDSA, Ed25519 or RSA"))?;
        let identity = CertifiedKey::new(vec![certificate], key);
        identity.keys_match().map_err(|_| anyhow!("the private key of another certificate"))?;
        // Initial packets have this suite (RFC 9001 §5.2).
        let is_initial =
            |suite: &&SupportedCipherSuite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256;
        let initial = provider.cipher_suites.iter().find(is_initial).and_then(|suite| suite.tls13());
        let initial = initial.and_then(|suite| suite.quic_suite()).context("no suite for Initial packets")?;
        provider.cipher_suites.retain(|suite| suite.suite() != CipherSuite::TLS13_AES_128_CCM_SHA256);
        provider.cipher_suites = suites.unwrap_or(provider.cipher_suites);
        Ok(Self { provider, initial, identity: Arc::new(identity) })
    }

    /// The fingerprint of this router's certificate, for the peer's configuration.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.identity.cert[0])
    }

    /// What both sides need towards a peer that must show this certificate.
    fn towards(
        &self,
        peer: Fingerprint,
    ) -> (Arc<CryptoProvider>, Arc<Ledger>, Arc<Pinned>, Arc<SingleCertAndKey>) {
        let (provider, ledger) = counted(self.provider.clone());
        let pinned = Pinned { peer, algorithms: provider.signature_verification_algorithms };
        let shown = SingleCertAndKey::from(Arc::clone(&self.identity));
        (Arc::new(provider), ledger, Arc::new(pinned), Arc::new(shown))
    }

    /// The side that calls. It resumes nothing and sends nothing before the peer has proved itself: the messages of 0-RTT
    /// can be replayed (RFC 9001 §9.2), and a session that lasts for months saves nothing by it.
    pub(super) fn client(&self, peer: Fingerprint) -> Result<(QuicClientConfig, Arc<Ledger>)> {
        let (provider, ledger, pinned, shown) = self.towards(peer);
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(pinned)
            .with_client_cert_resolver(shown);
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_early_data = false;
        Ok((QuicClientConfig::with_initial(Arc::new(config), self.initial)?, ledger))
    }

    /// The side that is called, with the same restraint.
    pub(super) fn server(&self, peer: Fingerprint) -> Result<(QuicServerConfig, Arc<Ledger>)> {
        let (provider, ledger, pinned, shown) = self.towards(peer);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(pinned)
            .with_cert_resolver(shown);
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        Ok((QuicServerConfig::with_initial(Arc::new(config), self.initial)?, ledger))
    }
}
