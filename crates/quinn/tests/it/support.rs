//! Providers, certificates and TLS configurations.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::quic::Suite;
use rustls::{CipherSuite, ClientConfig, RootCertStore, ServerConfig};

pub const SUITES: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS13_AES_256_GCM_SHA384,
    CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
];

pub const MEGABYTE: usize = 1 << 20;

/// How much is sent between two requests for a key update; the stacks ignore requests that come too early.
pub const BETWEEN_UPDATES: usize = 64 << 10;

pub fn loopback() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// rustls' ring provider with these TLS 1.3 suites.
pub fn with_suites(suites: &[CipherSuite]) -> CryptoProvider {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.retain(|offered| suites.contains(&offered.suite()));
    provider
}

/// The same with one suite.
pub fn only(suite: CipherSuite) -> CryptoProvider {
    with_suites(&[suite])
}

/// ring's keys for Initial packets, which quinn and noq cannot get from a provider with a single other suite.
pub fn initial_suite() -> Suite {
    let suite = only(SUITES[0]).cipher_suites[0].tls13().and_then(|suite| suite.quic_suite());
    suite.expect("ring does QUIC")
}

/// The library that protects the packets of an end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum By {
    Wireseal,
    Ring,
}

/// Client and server.
pub const PAIRS: [[By; 2]; 3] =
    [[By::Wireseal, By::Ring], [By::Ring, By::Wireseal], [By::Wireseal, By::Wireseal]];

/// A self-signed certificate for "localhost" and its key.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    pub fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])
            .expect("a certificate for localhost");
        Self { certificate: made.cert.der().clone(), key: made.signing_key.serialize_der() }
    }

    /// A client that trusts this certificate, and takes tickets for 0-RTT.
    pub fn client(&self, provider: CryptoProvider) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("a certificate of rcgen is one to webpki");
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider does TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"echo".to_vec()];
        config.enable_early_data = true;
        config
    }

    /// A server with this certificate, which accepts 0-RTT.
    pub fn server(&self, provider: CryptoProvider) -> ServerConfig {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider does TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)
            .expect("the key is that of the certificate");
        config.alpn_protocols = vec![b"echo".to_vec()];
        config.max_early_data_size = u32::MAX;
        config
    }
}

/// Random octets, the same for the same seed.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut octets = vec![0; length];
    rng.fill(&mut octets);
    octets
}

/// Shared by the tests of quinn and noq, with the types of one of them.
macro_rules! ends_of {
    ($stack:ident) => {
        pub fn client_crypto(by: By, tls: rustls::ClientConfig) -> Arc<dyn $stack::crypto::ClientConfig> {
            use $stack::crypto::rustls::QuicClientConfig as RingClient;
            match by {
                By::Wireseal => Arc::new(wireseal_quinn::QuicClientConfig::try_from(tls).expect("QUIC")),
                By::Ring => Arc::new(RingClient::with_initial(Arc::new(tls), initial_suite()).expect("QUIC")),
            }
        }

        pub fn server_of(by: By, tls: rustls::ServerConfig) -> $stack::ServerConfig {
            use $stack::crypto::rustls::QuicServerConfig as RingServer;
            match by {
                By::Wireseal => {
                    let tls = wireseal_quinn::QuicServerConfig::try_from(tls).expect("QUIC");
                    $stack::ServerConfig::new(
                        Arc::new(tls),
                        Arc::new(wireseal_quinn::TokenKey::new(&[7; 32])),
                    )
                }
                By::Ring => {
                    let tls = RingServer::with_initial(Arc::new(tls), initial_suite());
                    $stack::ServerConfig::with_crypto(Arc::new(tls.expect("QUIC")))
                }
            }
        }

        /// Sends `sent` with key updates in between, and checks that the peer sends `expected`.
        pub async fn exchange(connection: &$stack::Connection, sent: &[u8], expected: &[u8]) {
            let send = async {
                let mut stream = connection.open_uni().await.expect("the peer allows streams");
                for part in sent.chunks(BETWEEN_UPDATES) {
                    connection.force_key_update();
                    stream.write_all(part).await.expect("the peer reads");
                }
                stream.finish().expect("the stream is open");
                stream.stopped().await.expect("the peer reads to the end");
            };
            let receive = async {
                let mut stream = connection.accept_uni().await.expect("the peer opens a stream");
                stream.read_to_end(MEGABYTE).await.expect("the peer sends")
            };
            let ((), received) = tokio::join!(send, receive);
            assert!(received == expected, "octets changed on the way");
        }
    };
}

pub(crate) use ends_of;
