//! The cryptography of this program: TLS by rustls with ring, and packets by Wireseal, through rustls or as quinn's own keys.

use std::sync::Arc;

use peer_program::Failure;
use quinn::Connection;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::crypto::{ClientConfig, ServerConfig};
use rustls::crypto::CryptoProvider;
use wireseal_quinn::HandshakeData;

/// How Wireseal's keys get to quinn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// rustls makes them from Wireseal's provider.
    Rustls,
    /// They are those of `wireseal-quinn`.
    KeyModule,
}

impl Keys {
    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "rustls" => Ok(Self::Rustls),
            "key-module" => Ok(Self::KeyModule),
            _ => Err(format!("--keys is rustls or key-module, not {name}")),
        }
    }

    /// TLS for quinn's clients.
    pub(crate) fn client(self, tls: rustls::ClientConfig) -> Result<Arc<dyn ClientConfig>, Failure> {
        Ok(match self {
            Self::Rustls => Arc::new(QuicClientConfig::with_initial(Arc::new(tls), initial()?)?),
            Self::KeyModule => Arc::new(wireseal_quinn::QuicClientConfig::try_from(tls)?),
        })
    }

    /// TLS for quinn's servers.
    pub(crate) fn server(self, tls: rustls::ServerConfig) -> Result<Arc<dyn ServerConfig>, Failure> {
        Ok(match self {
            Self::Rustls => Arc::new(QuicServerConfig::with_initial(Arc::new(tls), initial()?)?),
            Self::KeyModule => Arc::new(wireseal_quinn::QuicServerConfig::try_from(tls)?),
        })
    }

    /// That a connection has keys of the kind that was asked for.
    pub(crate) fn check(self, connection: &Connection) -> Result<(), Failure> {
        let is_key_module = connection.handshake_data().is_some_and(|data| data.is::<HandshakeData>());
        if is_key_module == (self == Self::KeyModule) { Ok(()) } else { Err("these are other keys".into()) }
    }
}

/// The suite of Initial packets (RFC 9001 §5.2).
fn initial() -> Result<rustls::quic::Suite, Failure> {
    let provider = with_suite("TLS_AES_128_GCM_SHA256")?;
    let suite = provider.cipher_suites[0].tls13().and_then(|suite| suite.quic_suite());
    Ok(suite.ok_or("no Initial keys")?)
}

/// Wireseal's provider with only the suite of this name in the TLS registry, so that no other can be negotiated.
///
/// Fails if it has no such suite, or if the suite's QUIC keys are not Wireseal's.
pub(crate) fn with_suite(name: &str) -> Result<CryptoProvider, Failure> {
    let mut crypto = wireseal_rustls::provider(rustls::crypto::ring::default_provider());
    crypto.cipher_suites.push(wireseal_rustls::tls13_aes_128_ccm_sha256(&crypto).ok_or("no SHA-256")?);
    let registered = name.replace("TLS_", "TLS13_");
    crypto.cipher_suites.retain(|suite| suite.suite().as_str() == Some(&registered));
    let suite = crypto.cipher_suites.first().ok_or_else(|| format!("the provider has no suite {name}"))?;
    if !wireseal_rustls::is_wireseal(suite) {
        return Err(format!("the QUIC keys of {name} are not Wireseal's").into());
    }
    Ok(crypto)
}
