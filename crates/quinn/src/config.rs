//! What endpoints are configured with.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error, NoKeyLog, ServerConfig};
use wireseal_quic::AeadAlgorithm;

use crate::session::Session;

/// A client's TLS, for `quinn::ClientConfig::new` and `noq::ClientConfig::new`: in place of `quinn::crypto::rustls::QuicClientConfig`.
#[derive(Clone, Debug)]
pub struct QuicClientConfig(pub(crate) Arc<ClientConfig>);

/// A server's TLS, for `quinn::ServerConfig::new` and `noq::ServerConfig::new`: in place of
/// `quinn::crypto::rustls::QuicServerConfig`. Its second argument is a [`TokenKey`](crate::TokenKey).
#[derive(Clone, Debug)]
pub struct QuicServerConfig(pub(crate) Arc<ServerConfig>);

impl TryFrom<ClientConfig> for QuicClientConfig {
    type Error = Error;

    /// # Errors
    ///
    /// Those of an [`Arc`] of the configuration.
    fn try_from(config: ClientConfig) -> Result<Self, Error> {
        Arc::new(config).try_into()
    }
}

impl TryFrom<Arc<ClientConfig>> for QuicClientConfig {
    type Error = Error;

    /// # Errors
    ///
    /// What rustls has against QUIC with this configuration: no TLS 1.3, or no suite with QUIC keys (`wireseal_rustls::provider`
    /// gives them to a provider without). A suite that Wireseal has no AEAD for.
    fn try_from(config: Arc<ClientConfig>) -> Result<Self, Error> {
        check_suites(config.crypto_provider())?;
        // A session that comes to nothing: it takes no ticket and logs nothing.
        let mut tried = (*config).clone();
        tried.resumption = Resumption::disabled();
        tried.key_log = Arc::new(NoKeyLog);
        Session::client(&tried, ServerName::try_from("localhost").expect("a name"), Vec::new())?;
        Ok(Self(config))
    }
}

impl TryFrom<ServerConfig> for QuicServerConfig {
    type Error = Error;

    /// # Errors
    ///
    /// Those of an [`Arc`] of the configuration.
    fn try_from(config: ServerConfig) -> Result<Self, Error> {
        Arc::new(config).try_into()
    }
}

impl TryFrom<Arc<ServerConfig>> for QuicServerConfig {
    type Error = Error;

    /// # Errors
    ///
    /// What rustls has against QUIC with this configuration: no TLS 1.3, no suite with QUIC keys (`wireseal_rustls::provider` gives
    /// them to a provider without), or a `max_early_data_size` other than 0 and `u32::MAX` (RFC 9001 §4.6.1). A suite that Wireseal
    /// has no AEAD for.
    fn try_from(config: Arc<ServerConfig>) -> Result<Self, Error> {
        check_suites(config.crypto_provider())?;
        Session::server(&config, Vec::new())?;
        Ok(Self(config))
    }
}

/// A peer chooses among the suites, so each has to be one that packets can be protected with.
fn check_suites(provider: &CryptoProvider) -> Result<(), Error> {
    let with_quic =
        provider.cipher_suites.iter().filter(|suite| suite.tls13().is_some_and(|suite| suite.quic.is_some()));
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
