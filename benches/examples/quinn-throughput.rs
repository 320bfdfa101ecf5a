//! How fast quinn sends over loopback on the QUIC keys of rustls' ring provider, and on Wireseal's: gigabits per second.
//!
//! `cargo run --release -p wireseal-benches --example quinn-throughput [MEBIBYTES [ROUNDS]]`. Both ends run in this process.
//! The two take turns, and each one's best round counts; a connection that got the wrong octets ends the run.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CipherSuite, RootCertStore, quic::Suite};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const SUITES: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS13_AES_256_GCM_SHA384,
    CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
];

/// What is sent, over and over.
static SENT: [u8; 1 << 16] = [0x5a; 1 << 16];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let mebibytes = arguments.next().transpose()?.unwrap_or(128);
    let rounds = arguments.next().transpose()?.unwrap_or(10);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("quinn over loopback, {mebibytes} MiB in one stream, best of {rounds} rounds\n");
    println!("| suite | on ring | on wireseal | wireseal / ring |");
    println!("|---|---|---|---|");
    for suite in SUITES {
        let providers = [ring::default_provider(), wireseal_rustls::provider(ring::default_provider())];
        let mut best = [0_f64; 2];
        for _ in 0..rounds {
            for (provider, best) in providers.iter().zip(&mut best) {
                *best = best.max(runtime.block_on(transfer(provider, suite, mebibytes << 20))?);
            }
        }
        let [on_ring, on_wireseal] = best;
        let ratio = on_wireseal / on_ring;
        println!("| {suite:?} | {on_ring:.2} Gbit/s | {on_wireseal:.2} Gbit/s | {ratio:.2} |");
    }
    Ok(())
}

/// The provider with one suite for the handshake and what follows, and its suite for Initial packets.
fn only(provider: &CryptoProvider, suite: CipherSuite) -> Result<(Arc<CryptoProvider>, Suite)> {
    let suite_of = |wanted| provider.cipher_suites.iter().copied().find(|found| found.suite() == wanted);
    let initial = suite_of(CipherSuite::TLS13_AES_128_GCM_SHA256)
        .and_then(|suite| suite.tls13()?.quic_suite())
        .ok_or("the provider has no suite for Initial packets")?;
    let chosen = suite_of(suite).ok_or("the provider has not this suite")?;
    Ok((Arc::new(CryptoProvider { cipher_suites: vec![chosen], ..provider.clone() }), initial))
}

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    // Windows that loopback does not fill, so that packets wait for nothing but their protection.
    let window = 16 << 20;
    transport.stream_receive_window(VarInt::from_u32(window)).send_window(u64::from(window));
    Arc::new(transport)
}

fn endpoints(provider: &CryptoProvider, suite: CipherSuite) -> Result<(Endpoint, Endpoint)> {
    let (provider, initial) = only(provider, suite)?;
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = CertificateDer::from(own.cert);
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der())?;
    let server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)?;
    let mut server =
        ServerConfig::with_crypto(Arc::new(QuicServerConfig::with_initial(server.into(), initial)?));
    server.transport_config(transport());
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::with_initial(client.into(), initial)?));
    client.transport_config(transport());
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = Endpoint::server(server, any)?;
    let mut dialer = Endpoint::client(any)?;
    dialer.set_default_client_config(client);
    Ok((listener, dialer))
}

/// Sends `octets` octets and waits until the peer has read them all: gigabits per second.
async fn transfer(provider: &CryptoProvider, suite: CipherSuite, octets: usize) -> Result<f64> {
    let (listener, dialer) = endpoints(provider, suite)?;
    let address = listener.local_addr()?;
    let receiver = tokio::spawn(async move {
        let connection = listener.accept().await.ok_or("the endpoint is closed")?.await?;
        let mut stream = connection.accept_uni().await?;
        let mut received = 0;
        while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
            let start = chunk.offset as usize;
            if start != received || chunk.bytes.chunks(SENT.len()).any(|part| part != &SENT[..part.len()]) {
                return Err("other octets than were sent".into());
            }
            received += chunk.bytes.len();
        }
        // The sender closes once it has seen that everything has arrived.
        connection.closed().await;
        Result::Ok(received)
    });
    let connection = dialer.connect(address, "localhost")?.await?;
    let mut stream = connection.open_uni().await?;
    let start = Instant::now();
    for _ in 0..octets / SENT.len() {
        stream.write_all(&SENT).await?;
    }
    stream.finish()?;
    stream.stopped().await?;
    let elapsed = start.elapsed();
    connection.close(VarInt::from_u32(0), b"");
    dialer.wait_idle().await;
    if receiver.await?? != octets {
        return Err("not all octets arrived".into());
    }
    Ok(octets as f64 * 8.0 / elapsed.as_nanos() as f64)
}
