//! QUIC with quinn, on the keys of any rustls provider, and on keys that do nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt};
use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::{SupportedCipherSuite, Tls13CipherSuite, quic};
use tokio::runtime::Runtime;

use super::ends::{Ends, Result, SENT, SUITE, is_sent};

/// The configurations of two endpoints, and a runtime for both.
pub(crate) struct Quic {
    runtime: Runtime,
    server: ServerConfig,
    client: ClientConfig,
}

fn transport(has_offload: bool) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.enable_segmentation_offload(has_offload);
    // Windows that loopback does not fill, so that packets wait only for their protection.
    let window = 16 << 20;
    transport.stream_receive_window(VarInt::from_u32(window)).send_window(u64::from(window));
    Arc::new(transport)
}

/// The keys for Initial packets, which a configuration with another suite alone does not have.
pub(crate) fn initial(provider: &CryptoProvider) -> Result<quic::Suite> {
    let mut suites = provider.cipher_suites.iter().filter(|suite| suite.suite() == SUITE);
    let suite = suites.next().and_then(|suite| suite.tls13()?.quic_suite());
    Ok(suite.ok_or("the provider has no suite for Initial packets")?)
}

impl Quic {
    pub(crate) fn new(provider: &CryptoProvider) -> Result<Self> {
        let initial = initial(provider)?;
        let Ends { server, client } = Ends::new(provider)?;
        let server = QuicServerConfig::with_initial(server.into(), initial)?;
        let client = QuicClientConfig::with_initial(client.into(), initial)?;
        Self::with(ServerConfig::with_crypto(Arc::new(server)), ClientConfig::new(Arc::new(client)), true)
    }

    /// `has_offload`: whether the kernel takes several packets in one call.
    pub(crate) fn with(
        mut server: ServerConfig,
        mut client: ClientConfig,
        has_offload: bool,
    ) -> Result<Self> {
        server.transport_config(transport(has_offload));
        client.transport_config(transport(has_offload));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        Ok(Self { runtime, server, client })
    }

    pub(crate) fn transfer(&self, write: usize, octets: usize) -> Result<Duration> {
        self.runtime.block_on(self.between_endpoints(write, octets))
    }

    async fn between_endpoints(&self, write: usize, octets: usize) -> Result<Duration> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = Endpoint::server(self.server.clone(), any)?;
        let mut dialer = Endpoint::client(any)?;
        dialer.set_default_client_config(self.client.clone());
        let address = listener.local_addr()?;
        let receiver = tokio::spawn(receive(listener));
        let connection = dialer.connect(address, "localhost")?.await?;
        // In a task of its own, so that each end has a worker.
        let sender = tokio::spawn(async move {
            let mut stream = connection.open_uni().await?;
            let start = Instant::now();
            for _ in 0..octets / write {
                stream.write_all(&SENT[..write]).await?;
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
        if chunk.offset as usize != received || !is_sent(&chunk.bytes) {
            return Err("other octets than were sent".into());
        }
        received += chunk.bytes.len();
    }
    // The sender closes when everything has arrived.
    connection.closed().await;
    Ok(received)
}

/// The provider with QUIC keys that leave packets as they are. The handshake is unchanged, and each packet has room for a tag.
pub(crate) fn without_encryption(base: CryptoProvider) -> CryptoProvider {
    let bare = |suite: SupportedCipherSuite| match suite.tls13() {
        Some(suite) => {
            let common = rustls::CipherSuiteCommon { ..suite.common };
            let bare = Tls13CipherSuite { common, quic: Some(&Bare), ..*suite };
            // rustls requires static suites; this is called once.
            SupportedCipherSuite::Tls13(Box::leak(Box::new(bare)))
        }
        None => suite,
    };
    CryptoProvider { cipher_suites: base.cipher_suites.iter().copied().map(bare).collect(), ..base }
}

const TAG: usize = 16;

/// No protection at all.
struct Bare;

impl quic::Algorithm for Bare {
    fn packet_key(&self, _: AeadKey, _: Iv) -> Box<dyn quic::PacketKey> {
        Box::new(Self)
    }

    fn header_protection_key(&self, _: AeadKey) -> Box<dyn quic::HeaderProtectionKey> {
        Box::new(Self)
    }

    fn aead_key_len(&self) -> usize {
        16
    }
}

impl quic::PacketKey for Bare {
    fn encrypt_in_place(
        &self,
        _: u64,
        _: &[u8],
        _: &mut [u8],
    ) -> std::result::Result<quic::Tag, rustls::Error> {
        Ok(quic::Tag::from(&[0; TAG][..]))
    }

    fn decrypt_in_place<'a>(
        &self,
        _: u64,
        _: &[u8],
        payload: &'a mut [u8],
    ) -> std::result::Result<&'a [u8], rustls::Error> {
        let (payload, tag) = payload.split_last_chunk::<TAG>().ok_or(rustls::Error::DecryptError)?;
        if *tag == [0; TAG] { Ok(payload) } else { Err(rustls::Error::DecryptError) }
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl quic::HeaderProtectionKey for Bare {
    fn encrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> std::result::Result<(), rustls::Error> {
        Ok(())
    }

    fn decrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> std::result::Result<(), rustls::Error> {
        Ok(())
    }

    fn sample_len(&self) -> usize {
        TAG
    }
}
