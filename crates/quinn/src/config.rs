//! What endpoints are configured with.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error, ServerConfig};

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
    /// What rustls has against QUIC with this configuration: no TLS 1.3, or no suite with QUIC keys (`wireseal_rustls::provider`
    /// gives them to a provider without).
    fn try_from(config: ClientConfig) -> Result<Self, Error> {
        let name = ServerName::try_from("localhost").expect("a name");
        Session::client(&config, name, Vec::new())?;
        Ok(Self(Arc::new(config)))
    }
}

impl TryFrom<ServerConfig> for QuicServerConfig {
    type Error = Error;

    /// # Errors
    ///
    /// What rustls has against QUIC with this configuration: no TLS 1.3, no suite with QUIC keys (`wireseal_rustls::provider` gives
    /// them to a provider without), or a `max_early_data_size` other than 0 and `u32::MAX` (RFC 9001 §4.6.1).
    fn try_from(config: ServerConfig) -> Result<Self, Error> {
        Session::server(&config, Vec::new())?;
        Ok(Self(Arc::new(config)))
    }
}
