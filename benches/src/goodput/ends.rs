//! What both ends of a transfer share: the octets they move, and their TLS.

use std::error::Error;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CipherSuite, RootCertStore};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The suite of TLS and of QUIC.
pub(crate) const SUITE: CipherSuite = CipherSuite::TLS13_AES_128_GCM_SHA256;

/// What streams carry, so that the receiver can check it.
pub(crate) static SENT: [u8; 1 << 16] = [0x5a; 1 << 16];

/// Whether these octets are part of [`SENT`], repeated.
pub(crate) fn is_sent(octets: &[u8]) -> bool {
    octets.chunks(SENT.len()).all(|part| part == &SENT[..part.len()])
}

/// Both ends' TLS, with a new certificate.
pub(crate) struct Ends {
    pub(crate) server: rustls::ServerConfig,
    pub(crate) client: rustls::ClientConfig,
}

impl Ends {
    /// TLS 1.3 with [`SUITE`] only.
    pub(crate) fn new(provider: &CryptoProvider) -> Result<Self> {
        Self::with(provider, SUITE)
    }

    /// TLS 1.3 with one suite only.
    pub(crate) fn with(provider: &CryptoProvider, suite: CipherSuite) -> Result<Self> {
        let suites = provider.cipher_suites.iter().filter(|offered| offered.suite() == suite);
        let provider = CryptoProvider { cipher_suites: suites.copied().collect(), ..provider.clone() };
        let provider = std::sync::Arc::new(provider);
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let certificate = CertificateDer::from(own.cert);
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der())?;
        let server = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate)?;
        let client = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { server, client })
    }
}
