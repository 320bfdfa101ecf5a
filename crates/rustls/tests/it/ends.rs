//! Ends of quinn's connections, and counters for their keys.

use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::crypto::CryptoProvider;
use rustls::quic::Suite;
use wireseal_rustls::CountedKeys;

use crate::support::{COMMON, Identity, only, tls13};
use crate::version::{CipherSuite, initial_suite};

pub const MEGABYTE: usize = 1 << 20;

/// One end of a connection: a provider with one suite, and the suite of Initial packets.
pub struct End {
    pub provider: CryptoProvider,
    pub initial: Suite,
}

impl End {
    /// An end that offers only `suite`.
    pub fn only(provider: CryptoProvider, suite: CipherSuite) -> Self {
        let initial = initial_suite(tls13(&provider, COMMON[0]));
        Self { provider: only(provider, suite), initial }
    }

    /// Counts the keys of the one suite from here on.
    pub fn counted(&mut self) -> Arc<CountedKeys> {
        let (provider, keys) = wireseal_rustls::counted(self.provider.clone());
        self.provider = provider;
        keys
    }
}

impl Identity {
    pub fn quinn_client(&self, end: &End) -> quinn::ClientConfig {
        let tls = Arc::new(self.client(end.provider.clone()));
        let crypto =
            QuicClientConfig::with_initial(tls, end.initial).expect("Initial packets take AES-128-GCM");
        quinn::ClientConfig::new(Arc::new(crypto))
    }

    pub fn quinn_server(&self, end: &End) -> quinn::ServerConfig {
        let tls = Arc::new(self.server(end.provider.clone()));
        let crypto =
            QuicServerConfig::with_initial(tls, end.initial).expect("Initial packets take AES-128-GCM");
        quinn::ServerConfig::with_crypto(Arc::new(crypto))
    }
}
