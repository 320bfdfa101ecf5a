//! TLS for QUIC: this router's certificate and suites, the certificate of its peer, which is pinned, and new certificates.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::quic::Suite;
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{
    CertificateError, CipherSuite, ClientConfig, DigitallySignedStruct, DistinguishedName, Error,
    PeerIncompatible, ServerConfig, SignatureScheme, SupportedCipherSuite,
};
use sha2::{Digest, Sha256};
use tracing::warn;
use wireseal_rustls::{CountedKeys, counted};
use zeroize::Zeroizing;

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

/// This router's part in TLS handshakes.
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
    pub(crate) fn client(&self, peer: Fingerprint) -> Result<(QuicClientConfig, Arc<CountedKeys>)> {
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
    pub(crate) fn server(&self, peer: Fingerprint) -> Result<(QuicServerConfig, Arc<CountedKeys>)> {
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

/// The SHA-256 of a certificate's DER, as printed by `openssl x509 -fingerprint -sha256`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a certificate.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self.0.iter().map(|octet| format!("{octet:02X}")).collect();
        f.write_str(&pairs.join(":"))
    }
}

impl FromStr for Fingerprint {
    type Err = anyhow::Error;

    /// Parses 64 hexadecimal digits, with or without colons.
    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut octets = [0; 32];
        let read = base16ct::mixed::decode(text.replace(':', ""), &mut octets).map(<[u8]>::len);
        anyhow::ensure!(read == Ok(32), "not the 64 hexadecimal digits of a SHA-256 fingerprint");
        Ok(Self(octets))
    }
}

/// Accepts one certificate, whatever its name, dates and issuer. The handshake proves that the peer has the private key.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(crate) peer: Fingerprint,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        let shown = Fingerprint::of(shown);
        if shown == self.peer {
            return Ok(());
        }
        warn!(expected = %self.peer, %shown, "the peer's certificate is not the configured one");
        Err(CertificateError::ApplicationVerificationFailure.into())
    }
}

/// What both verifiers have in common. QUIC uses TLS 1.3 or later (RFC 9001 §4.2).
macro_rules! verify_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(PeerIncompatible::Tls13RequiredForQuic.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, certificate, signed, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(certificate).map(|()| ServerCertVerified::assertion())
    }

    verify_signatures!();
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(certificate).map(|()| ClientCertVerified::assertion())
    }

    verify_signatures!();
}

/// Creates `NAME.pem` and `NAME.key` in a directory, which is created if need be: a self-signed P-256 certificate, and its
/// private key, readable by its owner only. Returns what a peer can pin in place of the certificate.
///
/// # Errors
/// When the name is not a file name or a file cannot be written. Nothing is overwritten.
pub fn create_certificate(directory: &Path, name: &str) -> Result<Fingerprint> {
    let is_usable = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let fits = !name.is_empty() && !name.starts_with('.') && name.chars().all(is_usable);
    ensure!(fits, "`{name}` is no name for a certificate");
    let pair = KeyPair::generate()?;
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, name);
    let made = parameters.self_signed(&pair)?;

    fs::create_dir_all(directory).with_context(|| format!("{}: cannot write", directory.display()))?;
    let pair = Zeroizing::new(pair.serialize_pem());
    for (ending, text, mode) in [("key", &*pair, 0o600), ("pem", &made.pem(), 0o644)] {
        let file = directory.join(format!("{name}.{ending}"));
        let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(&file);
        let written = opened.and_then(|mut open| open.write_all(text.as_bytes()));
        written.with_context(|| format!("{}: cannot write", file.display()))?;
    }
    Ok(Fingerprint::of(made.der()))
}
