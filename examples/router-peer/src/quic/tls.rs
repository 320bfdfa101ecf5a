//! TLS for QUIC: this router's certificate and suites, and the certificate of its peer.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::quic::Suite;
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{CipherSuite, ClientConfig, ServerConfig, SupportedCipherSuite};
use wireseal_rustls::{CountedKeys, counted};

use super::fingerprint::{Fingerprint, Pinned};

/// The ALPN protocol (draft-retana-idr-bgp-quic-01 §3.1). Later revisions say "boq", for a mapping with streams for routes.
const ALPN: &[u8] = b"bgp4";

/// ring for handshakes, Wireseal for QUIC packets. It has TLS 1.3 suites only; TLS_AES_128_CCM_SHA256 is the last one.
#[must_use]
pub fn provider() -> CryptoProvider {
    let mut provider = wireseal_rustls::provider(rustls::crypto::ring::default_provider());
    provider.cipher_suites.retain(|suite| suite.tls13().is_some());
    provider.cipher_suites.extend(wireseal_rustls::tls13_aes_128_ccm_sha256(&provider));
    provider
}

/// The name of a TLS 1.3 suite in RFC 8446 appendix B.4.
#[must_use]
pub fn suite_name(suite: CipherSuite) -> String {
    // rustls writes TLS13_ for TLS_.
    suite.as_str().unwrap_or("unknown").replacen("TLS13_", "TLS_", 1)
}

/// Whether the packet protection of a suite is Wireseal's.
pub(crate) fn is_wireseal(suite: CipherSuite) -> bool {
    provider().cipher_suites.iter().any(|known| known.suite() == suite && wireseal_rustls::is_wireseal(known))
}

/// The suite of Initial packets (RFC 9001 §5.2).
fn initial() -> Result<Suite> {
    let provider = provider();
    let mut suites = provider.cipher_suites.iter().filter_map(SupportedCipherSuite::tls13);
    let suite = suites.find(|suite| suite.common.suite == CipherSuite::TLS13_AES_128_GCM_SHA256);
    suite.and_then(|suite| suite.quic_suite()).context("no suite for Initial packets")
}

/// What a router brings to TLS handshakes.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    provider: CryptoProvider,
    identity: Arc<CertifiedKey>,
}

/// What client and server need for one peer.
type Common = (Arc<CryptoProvider>, Arc<CountedKeys>, Arc<Pinned>, Arc<SingleCertAndKey>);

impl Tls {
    /// A router with this certificate and private key. It offers `suites`, the preferred one first, or all except CCM.
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
        provider.cipher_suites.retain(|suite| suite.suite() != CipherSuite::TLS13_AES_128_CCM_SHA256);
        provider.cipher_suites = suites.unwrap_or(provider.cipher_suites);
        Ok(Self { provider, identity: Arc::new(identity) })
    }

    /// The fingerprint of this router's certificate.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.identity.cert[0])
    }

    fn towards(&self, peer: Fingerprint) -> Common {
        let (provider, keys) = counted(self.provider.clone());
        let pinned = Pinned { peer, algorithms: provider.signature_verification_algorithms };
        let shown = SingleCertAndKey::from(Arc::clone(&self.identity));
        (Arc::new(provider), keys, Arc::new(pinned), Arc::new(shown))
    }

    /// The client. Without resumption and 0-RTT, which can be replayed (RFC 9001 §9.2) and saves nothing in a session of months.
    pub(super) fn client(&self, peer: Fingerprint) -> Result<(QuicClientConfig, Arc<CountedKeys>)> {
        let (provider, keys, pinned, shown) = self.towards(peer);
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(pinned)
            .with_client_cert_resolver(shown);
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_early_data = false;
        Ok((QuicClientConfig::with_initial(Arc::new(config), initial()?)?, keys))
    }

    /// The server, also without resumption and 0-RTT.
    pub(super) fn server(&self, peer: Fingerprint) -> Result<(QuicServerConfig, Arc<CountedKeys>)> {
        let (provider, keys, pinned, shown) = self.towards(peer);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(pinned)
            .with_cert_resolver(shown);
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        Ok((QuicServerConfig::with_initial(Arc::new(config), initial()?)?, keys))
    }
}
