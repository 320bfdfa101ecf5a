//! The crypto provider of the whole program: rustls's own of ring, with Wireseal for QUIC.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuiteCommon, SupportedCipherSuite, Tls13CipherSuite, quic};

use crate::Failure;
use crate::counted::Counted;

/// The suite of Initial packets (RFC 9001 §5.2).
const INITIAL_SUITE: &str = "TLS_AES_128_GCM_SHA256";

/// What rustls and quinn are to use, with counters at every key.
pub(crate) struct Provider {
    /// One suite, so that no handshake can come to another.
    pub(crate) crypto: Arc<CryptoProvider>,
    /// The suite of Initial packets.
    pub(crate) initial: quic::Suite,
    /// Keys of Initial packets: one pair for each connection ID they were derived from.
    pub(crate) initial_keys: &'static Counted,
    /// Keys of the suite: a pair for Handshake packets, then one for each generation of 1-RTT packets.
    pub(crate) keys: &'static Counted,
}

impl Provider {
    /// Wireseal's provider, cut down to the suite of this name in the TLS registry.
    ///
    /// Fails for a suite that it does not have, and for one whose QUIC keys are not Wireseal's.
    pub(crate) fn with_suite(name: &str) -> Result<Self, Failure> {
        let mut crypto = wireseal()?;
        let (initial_suite, initial_keys) = counted(&crypto, INITIAL_SUITE)?;
        let (suite, keys) = counted(&crypto, name)?;
        crypto.cipher_suites = vec![SupportedCipherSuite::Tls13(suite)];
        let initial = quic::Suite { suite: initial_suite, quic: initial_keys };
        Ok(Self { crypto: Arc::new(crypto), initial, initial_keys, keys })
    }
}

/// Every suite that Wireseal has QUIC keys for.
fn wireseal() -> Result<CryptoProvider, Failure> {
    let mut crypto = wireseal_rustls::provider(rustls::crypto::ring::default_provider());
    crypto.cipher_suites.push(wireseal_rustls::tls13_aes_128_ccm_sha256(&crypto).ok_or("no SHA-256")?);
    Ok(crypto)
}

/// The suite of this name, with counters around Wireseal's keys.
fn counted(
    provider: &CryptoProvider,
    name: &str,
) -> Result<(&'static Tls13CipherSuite, &'static Counted), Failure> {
    let registered = name.replace("TLS_", "TLS13_");
    let suite = provider
        .cipher_suites
        .iter()
        .filter_map(SupportedCipherSuite::tls13)
        .find(|suite| suite.common.suite.as_str() == Some(&registered))
        .ok_or_else(|| format!("the provider has no suite {name}"))?;
    let keys = match suite.quic {
        Some(quic) if wireseal_rustls::is_wireseal(suite) => Counted::new(quic),
        _ => return Err(format!("the QUIC keys of {name} are not Wireseal's").into()),
    };
    let common = CipherSuiteCommon { ..suite.common };
    Ok((Box::leak(Box::new(Tls13CipherSuite { common, quic: Some(keys), ..*suite })), keys))
}
