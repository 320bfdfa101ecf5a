//! The crypto provider of this program: rustls' own with ring, except that Wireseal makes the QUIC keys.

use std::sync::Arc;

use peer_program::Failure;
use rustls::crypto::CryptoProvider;
use rustls::{SupportedCipherSuite, quic};
use wireseal_rustls::CountedKeys;

/// What rustls and quinn use, with every key counted.
pub(crate) struct Provider {
    /// Has only one suite, so that no other can be negotiated.
    pub(crate) crypto: Arc<CryptoProvider>,
    /// The suite of Initial packets (RFC 9001 §5.2).
    pub(crate) initial: quic::Suite,
    /// Keys of Initial packets: one pair for each connection ID they were derived from.
    pub(crate) initial_keys: Arc<CountedKeys>,
    /// Keys of the suite: a pair for Handshake packets, then one for each generation of 1-RTT packets.
    pub(crate) keys: Arc<CountedKeys>,
}

impl Provider {
    /// Wireseal's provider with only the suite of this name in the TLS registry.
    ///
    /// Fails if it has no such suite, or if the suite's QUIC keys are not Wireseal's.
    pub(crate) fn with_suite(name: &str) -> Result<Self, Failure> {
        let (initial, initial_keys) = counted("TLS_AES_128_GCM_SHA256")?;
        let (crypto, keys) = counted(name)?;
        let initial = initial.cipher_suites[0].tls13().and_then(|suite| suite.quic_suite());
        Ok(Self { crypto: Arc::new(crypto), initial: initial.ok_or("no Initial keys")?, initial_keys, keys })
    }
}

/// Wireseal's provider with only one suite, and the counts of its keys.
fn counted(name: &str) -> Result<(CryptoProvider, Arc<CountedKeys>), Failure> {
    let mut crypto = wireseal_rustls::provider(rustls::crypto::ring::default_provider());
    crypto.cipher_suites.push(wireseal_rustls::tls13_aes_128_ccm_sha256(&crypto).ok_or("no SHA-256")?);
    let registered = name.replace("TLS_", "TLS13_");
    crypto.cipher_suites.retain(|suite| suite.suite().as_str() == Some(&registered));
    let suite = crypto.cipher_suites.first().and_then(SupportedCipherSuite::tls13);
    if !wireseal_rustls::is_wireseal(suite.ok_or_else(|| format!("the provider has no suite {name}"))?) {
        return Err(format!("the QUIC keys of {name} are not Wireseal's").into());
    }
    Ok(wireseal_rustls::counted(crypto))
}
