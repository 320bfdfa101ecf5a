//! quinn on Wireseal against quinn on rustls' ring provider, over sockets on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig};
use rustls::CipherSuite;
use rustls::crypto::CryptoProvider;
use rustls::quic::Suite;
use wireseal_rustls::{counted, is_wireseal, provider};

use crate::support::{CCM, COMMON, Identity, only, pattern, ring, tls13, wireseal, without_quic};

const MEGABYTE: usize = 1 << 20;

/// One end of a connection: a provider with one suite, and the suite of Initial packets.
struct End {
    provider: CryptoProvider,
    initial: Suite,
}

impl End {
    /// An end that offers only `suite`.
    fn only(provider: CryptoProvider, suite: CipherSuite) -> Self {
        let initial = tls13(&provider, COMMON[0]).quic_suite().expect("a suite with QUIC");
        Self { provider: only(provider, suite), initial }
    }
}

impl Identity {
    fn quinn_client(&self, end: &End) -> quinn::ClientConfig {
        let tls = Arc::new(self.client(end.provider.clone()));
        let crypto =
            QuicClientConfig::with_initial(tls, end.initial).expect("Initial packets take AES-128-GCM");
        quinn::ClientConfig::new(Arc::new(crypto))
    }

    fn quinn_server(&self, end: &End) -> quinn::ServerConfig {
        let tls = Arc::new(self.server(end.provider.clone()));
        let crypto =
            QuicServerConfig::with_initial(tls, end.initial).expect("Initial packets take AES-128-GCM");
        quinn::ServerConfig::with_crypto(Arc::new(crypto))
    }
}

/// How much is sent between two requests for a key update; quinn ignores requests that come too early.
const BETWEEN_UPDATES: usize = 64 << 10;

/// Sends a megabyte with key updates in between, and expects the peer to do the same.
async fn exchange(connection: Connection, sent: Vec<u8>, expected: Vec<u8>) {
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

/// A megabyte each way.
async fn transfer(client: ClientConfig, server: ServerConfig) {
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = Endpoint::server(server, loopback).expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    let (there, back) = (pattern(1, MEGABYTE), pattern(2, MEGABYTE));

    let serving = tokio::spawn({
        let (there, back) = (there.clone(), back.clone());
        async move {
            let connection = listener.accept().await.expect("a client comes").await.expect("a handshake");
            exchange(connection, back, there).await;
            listener.wait_idle().await;
        }
    });
    let endpoint = Endpoint::client(loopback).expect("a free port");
    let connecting = endpoint.connect_with(client, address, "localhost").expect("a usable configuration");
    exchange(connecting.await.expect("a handshake"), there, back).await;
    endpoint.close(0u8.into(), b"done");
    endpoint.wait_idle().await;
    serving.await.expect("the server did not panic");
}

#[tokio::test]
async fn each_suite_against_the_ring_provider_both_ways() {
    for suite in COMMON {
        for [client, server] in [[wireseal, ring], [ring, wireseal]] {
            let [(client, of_client), (server, of_server)] =
                [client, server].map(|provider| counted(provider()));
            let (identity, client, server) =
                (Identity::new(), End::only(client, suite), End::only(server, suite));
            transfer(identity.quinn_client(&client), identity.quinn_server(&server)).await;
            // Keys of Initial and Handshake packets, and of at least two phases.
            for keys in [of_client.packet_keys(), of_server.packet_keys()] {
                let used = keys.chunks(2).filter(|pair| pair[0].sealed > 0 && pair[1].opened > 0).count();
                assert!(used >= 4, "{keys:?}");
            }
        }
    }
}

#[tokio::test]
async fn aes_128_ccm() {
    let end = || End::only(wireseal(), CCM);
    let identity = Identity::new();
    transfer(identity.quinn_client(&end()), identity.quinn_server(&end())).await;
}

/// quinn refuses a provider without QUIC, so Wireseal must have protected these packets.
#[tokio::test]
async fn a_provider_without_quic_serves_quinn_once_wireseal_is_in_it() {
    let identity = Identity::new();
    assert!(QuicClientConfig::try_from(identity.client(without_quic(ring()))).is_err());
    assert!(QuicServerConfig::try_from(identity.server(without_quic(ring()))).is_err());

    let given = provider(without_quic(ring()));
    assert!(given.cipher_suites.iter().filter(|suite| suite.tls13().is_some()).all(is_wireseal));
    let client = QuicClientConfig::try_from(identity.client(given.clone())).expect("a provider with QUIC");
    let server = QuicServerConfig::try_from(identity.server(given)).expect("a provider with QUIC");
    transfer(ClientConfig::new(Arc::new(client)), ServerConfig::with_crypto(Arc::new(server))).await;
}
