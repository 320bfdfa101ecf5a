//! What a run does, from the program's arguments, and its cryptography: TLS by rustls with ring, and packets by Wireseal, through rustls
//! or as quinn's own keys.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use peer_program::{ALPN, Failure};
use pico_args::Arguments;
use quinn::Connection;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::crypto::{ClientConfig, ServerConfig};
use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use rustls::{CipherSuiteCommon, Error, RootCertStore, SupportedCipherSuite, Tls13CipherSuite};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use wireseal_quinn::HandshakeData;

/// The application protocol on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Application {
    /// The server sends back what it receives.
    Echo,
    /// One HTTP/3 request and its response, each with the octets as its body.
    Http3,
}

impl Application {
    pub(crate) fn alpn(self) -> &'static [u8] {
        match self {
            Self::Echo => ALPN,
            Self::Http3 => b"h3",
        }
    }

    fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "echo" => Ok(Self::Echo),
            "h3" => Ok(Self::Http3),
            _ => Err(format!("--application is echo or h3, not {name}")),
        }
    }
}

/// The QUIC stack that runs on Wireseal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    Quinn,
    S2nQuic,
}

impl Stack {
    fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "quinn" => Ok(Self::Quinn),
            "s2n-quic" => Ok(Self::S2nQuic),
            _ => Err(format!("--stack is quinn or s2n-quic, not {name}")),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) stack: Stack,
    /// The address a client connects to or a server listens on.
    pub(crate) address: SocketAddr,
    pub(crate) application: Application,
    /// The only suite offered or accepted, by its name in the TLS registry, such as `TLS_AES_128_GCM_SHA256`.
    pub(crate) suite: String,
    /// How Wireseal's keys get to the stack.
    pub(crate) keys: Keys,
    /// The QUIC version that a client offers, as on the wire. A server accepts its stack's.
    pub(crate) version: u32,
    /// Whether this end starts key updates.
    pub(crate) update_keys: bool,
    /// Whether a server validates the client's address with a Retry.
    pub(crate) retry: bool,
    /// Folder with `ca.pem`, `server.pem` and `server.key`.
    pub(crate) certificates: PathBuf,
    /// File with the octets that a client sends.
    pub(crate) payload: PathBuf,
    /// File to record this end's datagrams in.
    pub(crate) record: Option<PathBuf>,
}

impl Task {
    pub(crate) fn from_arguments(mut arguments: Arguments) -> Result<Self, Failure> {
        let version = |hex: &str| u32::from_str_radix(hex.trim_start_matches("0x"), 16);
        let task = Self {
            stack: arguments.value_from_fn("--stack", Stack::from_name)?,
            address: arguments.value_from_str("--address")?,
            application: arguments.value_from_fn("--application", Application::from_name)?,
            suite: arguments.value_from_str("--suite")?,
            keys: arguments.value_from_fn("--keys", Keys::from_name)?,
            version: arguments.opt_value_from_fn("--version", version)?.unwrap_or(1),
            update_keys: arguments.contains("--update-keys"),
            retry: arguments.contains("--retry"),
            certificates: arguments.value_from_str("--certificates")?,
            payload: arguments.opt_value_from_str("--payload")?.unwrap_or_default(),
            record: arguments.opt_value_from_str("--record")?,
        };
        match arguments.finish().first() {
            None => task.checked(),
            Some(unknown) => Err(format!("unknown argument {}", unknown.display()).into()),
        }
    }

    /// TLS of a client that trusts the run's CA.
    pub(crate) fn client_tls(&self, provider: Arc<CryptoProvider>) -> Result<rustls::ClientConfig, Failure> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.certificates.join("ca.pem"))?)?;
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![self.application.alpn().to_vec()];
        Ok(tls)
    }

    /// TLS of a server with the run's certificate.
    pub(crate) fn server_tls(&self, provider: Arc<CryptoProvider>) -> Result<rustls::ServerConfig, Failure> {
        let chain = vec![CertificateDer::from_pem_file(self.certificates.join("server.pem"))?];
        let key = PrivateKeyDer::from_pem_file(self.certificates.join("server.key"))?;
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        tls.alpn_protocols = vec![self.application.alpn().to_vec()];
        Ok(tls)
    }

    /// Refuses what only quinn's end can do.
    fn checked(self) -> Result<Self, Failure> {
        let only_quinn = [
            (self.application == Application::Http3, "--application h3"),
            (self.keys == Keys::KeyModule, "--keys key-module"),
            (self.version != 1, "--version"),
            (self.record.is_some(), "--record"),
        ];
        match only_quinn.iter().find(|(asked_for, _)| *asked_for && self.stack == Stack::S2nQuic) {
            None => Ok(self),
            Some((_, argument)) => Err(format!("s2n-quic's end cannot do {argument}").into()),
        }
    }
}

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

/// `provider`, whose QUIC keys state that they may seal `packets` packets. Each call leaks its suites, which rustls never frees.
pub(crate) fn with_limit(mut provider: CryptoProvider, packets: u64) -> CryptoProvider {
    for suite in &mut provider.cipher_suites {
        let Some((tls13, inner)) = suite.tls13().and_then(|tls13| Some((tls13, tls13.quic?))) else {
            continue;
        };
        let quic: &Limited<_> = Box::leak(Box::new(Limited { inner, packets }));
        let common = CipherSuiteCommon { ..tls13.common };
        let tls13 = Tls13CipherSuite { common, quic: Some(quic), ..*tls13 };
        *suite = SupportedCipherSuite::Tls13(Box::leak(Box::new(tls13)));
    }
    provider
}

/// An algorithm or a packet key, and the limit to state.
struct Limited<T> {
    inner: T,
    packets: u64,
}

impl Algorithm for Limited<&'static dyn Algorithm> {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        Box::new(Limited { inner: self.inner.packet_key(key, iv), packets: self.packets })
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        self.inner.header_protection_key(key)
    }

    fn aead_key_len(&self) -> usize {
        self.inner.aead_key_len()
    }
}

impl PacketKey for Limited<Box<dyn PacketKey>> {
    fn encrypt_in_place(&self, number: u64, header: &[u8], payload: &mut [u8]) -> Result<Tag, Error> {
        self.inner.encrypt_in_place(number, header, payload)
    }

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        self.inner.decrypt_in_place(number, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.packets
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}
