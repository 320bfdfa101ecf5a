//! A QUIC transfer on loopback, with both ends in this process.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt, crypto};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CipherSuite, RootCertStore};
use tokio::runtime::Runtime;

use crate::Result;

/// The data on streams, known so that the receiver can check it.
static SENT: [u8; 1 << 16] = [0x5a; 1 << 16];

/// The TLS 1.3 configurations of both ends, with a single suite and a new certificate.
pub(crate) fn tls(
    provider: &CryptoProvider,
    suite: CipherSuite,
) -> Result<(rustls::ClientConfig, rustls::ServerConfig)> {
    let suites = provider.cipher_suites.iter().filter(|offered| offered.suite() == suite);
    let provider = Arc::new(CryptoProvider { cipher_suites: suites.copied().collect(), ..provider.clone() });
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
    Ok((client, server))
}

/// The cryptography of both ends of a connection.
pub(crate) struct Crypto {
    pub(crate) client: Arc<dyn crypto::ClientConfig>,
    pub(crate) server: Arc<dyn crypto::ServerConfig>,
}

/// The configurations of two endpoints, and a runtime for both.
pub(crate) struct Transfer {
    runtime: Runtime,
    server: ServerConfig,
    client: ClientConfig,
}

impl Transfer {
    /// `has_offload`: whether the kernel accepts several packets in one call.
    pub(crate) fn new(Crypto { client, server }: Crypto, has_offload: bool) -> Result<Self> {
        let mut transport = TransportConfig::default();
        transport.enable_segmentation_offload(has_offload);
        // Windows larger than loopback fills, so that packets wait only for their protection.
        let window = 16 << 20;
        transport.stream_receive_window(VarInt::from_u32(window)).send_window(u64::from(window));
        let transport = Arc::new(transport);
        let (mut server, mut client) = (ServerConfig::with_crypto(server), ClientConfig::new(client));
        server.transport_config(transport.clone());
        client.transport_config(transport);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        Ok(Self { runtime, server, client })
    }

    /// Sends `octets` octets in writes of 64 KiB; returns the time until the peer has read them all.
    pub(crate) fn run(&self, octets: usize) -> Result<Duration> {
        self.runtime.block_on(self.between_endpoints(octets))
    }

    async fn between_endpoints(&self, octets: usize) -> Result<Duration> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = Endpoint::server(self.server.clone(), any)?;
        let mut dialer = Endpoint::client(any)?;
        dialer.set_default_client_config(self.client.clone());
        let address = listener.local_addr()?;
        let receiver = tokio::spawn(receive(listener));
        let connection = dialer.connect(address, "localhost")?.await?;
        // A task of its own, so that each end has a worker thread.
        let sender = tokio::spawn(async move {
            let mut stream = connection.open_uni().await?;
            let start = Instant::now();
            for _ in 0..octets / SENT.len() {
                stream.write_all(&SENT).await?;
            }
            stream.finish()?;
            stream.stopped().await?;
            let elapsed = start.elapsed();
            connection.close(VarInt::from_u32(0), b"");
            Result::Ok(elapsed)
        });
        let elapsed = sender.await??;
        dialer.wait_idle().await;
        if receiver.await?? == octets { Ok(elapsed) } else { Err("not all octets arrived".into()) }
    }
}

async fn receive(listener: Endpoint) -> Result<usize> {
    let connection = listener.accept().await.ok_or("the endpoint is closed")?.await?;
    let mut stream = connection.accept_uni().await?;
    let mut received = 0;
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
        let is_sent = chunk.bytes.chunks(SENT.len()).all(|part| part == &SENT[..part.len()]);
        if chunk.offset as usize != received || !is_sent {
            return Err("other octets than were sent".into());
        }
        received += chunk.bytes.len();
    }
    // The sender closes once everything has arrived.
    connection.closed().await;
    Ok(received)
}
