//! The TLS configurations of endpoints.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::quic::Suite;
use rustls::{CipherSuite, ClientConfig, Error, NoKeyLog, ServerConfig};
use wireseal_quic::{AeadAlgorithm, Version};

use crate::session::Session;

/// A client's TLS, for `quinn::ClientConfig::new` and `noq::ClientConfig::new`: in place of `quinn::crypto::rustls::QuicClientConfig`.
#[derive(Clone, Debug)]
pub struct QuicClientConfig(pub(crate) Arc<ClientConfig>);

/// A server's TLS, for `quinn::ServerConfig::new` and `noq::ServerConfig::new`: in place of
/// `quinn::crypto::rustls::QuicServerConfig`. Its second argument is a [`TokenKey`](crate::TokenKey).
#[derive(Clone, Debug)]
pub struct QuicServerConfig(pub(crate) Arc<ServerConfig>);

impl QuicClientConfig {
    /// Same as `try_from`, for programs written for quinn's or noq's own configuration. Wireseal derives the keys of Initial packets
    /// itself, so it only checks `initial`.
    ///
    /// # Errors
    ///
    /// Those of `try_from`; and, as with quinn and noq, if `initial` is not TLS_AES_128_GCM_SHA256.
    pub fn with_initial(config: Arc<ClientConfig>, initial: Suite) -> Result<Self, Error> {
        check_initial(initial)?;
        config.try_into()
    }

    /// Offers these application protocols (ALPN) instead of those in the TLS configuration.
    pub fn set_alpn_protocols(&mut self, alpn_protocols: Vec<Vec<u8>>) {
        Arc::make_mut(&mut self.0).alpn_protocols = alpn_protocols;
    }
}

impl QuicServerConfig {
    /// Same as `try_from`, like [`QuicClientConfig::with_initial`].
    ///
    /// # Errors
    ///
    /// Those of `try_from`; and, as with quinn and noq, if `initial` is not TLS_AES_128_GCM_SHA256.
    pub fn with_initial(config: Arc<ServerConfig>, initial: Suite) -> Result<Self, Error> {
        check_initial(initial)?;
        config.try_into()
    }

    /// Accepts these application protocols (ALPN) instead of those in the TLS configuration.
    pub fn set_alpn_protocols(&mut self, alpn_protocols: Vec<Vec<u8>>) {
        Arc::make_mut(&mut self.0).alpn_protocols = alpn_protocols;
    }
}

impl TryFrom<ClientConfig> for QuicClientConfig {
    type Error = Error;

    /// # Errors
    ///
    /// The same as for an [`Arc`] of the configuration.
    fn try_from(config: ClientConfig) -> Result<Self, Error> {
        Arc::new(config).try_into()
    }
}

impl TryFrom<Arc<ClientConfig>> for QuicClientConfig {
    type Error = Error;

    /// # Errors
    ///
    /// Configurations that rustls refuses for QUIC: without TLS 1.3, or without a suite that has QUIC keys, as with graviola's provider
    /// (use `wireseal_rustls::provider` to add them). Also any suite for which Wireseal has no AEAD.
    fn try_from(config: Arc<ClientConfig>) -> Result<Self, Error> {
        check_suites(config.crypto_provider())?;
        // A trial session that is never used: it takes no ticket and logs nothing.
        let mut tried = (*config).clone();
        tried.resumption = Resumption::disabled();
        tried.key_log = Arc::new(NoKeyLog);
        Session::client(Version::V1, &tried, ServerName::try_from("localhost").expect("a name"), Vec::new())?;
        Ok(Self(config))
    }
}

impl TryFrom<ServerConfig> for QuicServerConfig {
    type Error = Error;

    /// # Errors
    ///
    /// The same as for an [`Arc`] of the configuration.
    fn try_from(config: ServerConfig) -> Result<Self, Error> {
        Arc::new(config).try_into()
    }
}

impl TryFrom<Arc<ServerConfig>> for QuicServerConfig {
    type Error = Error;

    /// # Errors
    ///
    /// Configurations that rustls refuses for QUIC: without TLS 1.3, without a suite that has QUIC keys, as with graviola's provider (use
    /// `wireseal_rustls::provider` to add them), or with a `max_early_data_size` other than 0 and `u32::MAX` (RFC 9001 §4.6.1). Also any
    /// suite for which Wireseal has no AEAD.
    fn try_from(config: Arc<ServerConfig>) -> Result<Self, Error> {
        check_suites(config.crypto_provider())?;
        Session::server(Version::V1, &config, Vec::new())?;
        Ok(Self(config))
    }
}

fn check_initial(initial: Suite) -> Result<(), Error> {
    match initial.suite.common.suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Ok(()),
        other => {
            Err(Error::General(format!("Initial packets are sealed with AES-128-GCM, not by {other:?}")))
        }
    }
}

/// The peer may choose any of the suites, so Wireseal needs an AEAD for each.
fn check_suites(provider: &CryptoProvider) -> Result<(), Error> {
    let mut with_quic = provider
        .cipher_suites
        .iter()
        .filter(|suite| suite.tls13().is_some_and(|suite| suite.quic.is_some()))
        .peekable();
    if with_quic.peek().is_none() {
        let without =
            "no suite of the provider has QUIC keys: give rustls `wireseal_rustls::provider(provider)`";
        return Err(Error::General(without.into()));
    }
    let mut unknown =
        with_quic.filter(|suite| AeadAlgorithm::from_tls_cipher_suite(suite.suite().into()).is_none());
    match unknown.next() {
        Some(suite) => Err(Error::General(format!(
            "Wireseal has no AEAD for {:?}: take it out of the provider",
            suite.suite()
        ))),
        None => Ok(()),
    }
}
