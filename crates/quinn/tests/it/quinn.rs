use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, ServerConfig, TokioRuntime,
};
use quinn_proto::HashedConnectionIdGenerator;
use rustls::CipherSuite;
use wireseal_quinn::{HandshakeData, ResetKey, counted_client};

use crate::support::{
    BETWEEN_UPDATES, By, Identity, MEGABYTE, PAIRS, SUITES, ends_of, initial_suite, loopback, only, pattern,
};

ends_of!(quinn);

fn client(identity: &Identity, by: By, suite: CipherSuite) -> ClientConfig {
    ClientConfig::new(client_crypto(by, identity.client(only(suite))))
}

pub fn server(identity: &Identity, by: By, suite: CipherSuite) -> ServerConfig {
    server_of(by, identity.server(only(suite)))
}

pub fn endpoint(server: Option<ServerConfig>, address: SocketAddr) -> Endpoint {
    let socket = std::net::UdpSocket::bind(address).expect("a free port");
    let mut config = EndpointConfig::new(Arc::new(ResetKey::new(&[3; 32])));
    // Connection IDs with a fixed key, which a server recognises after losing its state.
    config.cid_generator(|| Box::new(HashedConnectionIdGenerator::from_key(1)));
    Endpoint::new(config, server, socket, Arc::new(TokioRuntime)).expect("an endpoint")
}

fn handshake_data(connection: &Connection) -> Option<HandshakeData> {
    connection.handshake_data()?.downcast().ok().map(|data| *data)
}

#[tokio::test]
async fn each_suite_both_ways_with_key_updates() {
    for suite in SUITES {
        for [client_by, server_by] in PAIRS {
            let identity = Identity::new();
            let listener = endpoint(Some(server(&identity, server_by, suite)), loopback());
            let address = listener.local_addr().expect("a bound socket");
            let (there, back) = (pattern(1, MEGABYTE), pattern(2, MEGABYTE));
            let serving = tokio::spawn({
                let (there, back) = (there.clone(), back.clone());
                async move {
                    let connection = listener.accept().await.expect("a client").await.expect("a handshake");
                    exchange(&connection, &back, &there).await;
                    let data = handshake_data(&connection);
                    connection.closed().await;
                    data
                }
            });
            let endpoint = endpoint(None, loopback());
            let (crypto, keys) = counted_client(client_crypto(client_by, identity.client(only(suite))));
            let connecting = endpoint.connect_with(ClientConfig::new(crypto), address, "localhost");
            let connection = connecting.expect("a configuration").await.expect("a handshake");
            exchange(&connection, &there, &back).await;
            // Keys of Handshake packets, and of at least two phases.
            let keys = keys.packet_keys();
            let used = keys.chunks(2).filter(|pair| pair[0].sealed > 0 && pair[1].opened > 0).count();
            assert!(used >= 3, "{keys:?}");
            let of_client = handshake_data(&connection);
            connection.close(0_u8.into(), b"done");
            let of_server = serving.await.expect("the server did not panic");

            // Only connections on Wireseal return this type.
            for (by, data, name) in [(client_by, of_client, None), (server_by, of_server, Some("localhost"))]
            {
                let data = data.map(|data| (data.protocol, data.cipher_suite, data.server_name));
                let expected = (Some(b"echo".to_vec()), Some(suite), name.map(str::to_owned));
                assert_eq!(data, (by == By::Wireseal).then_some(expected), "{by:?}");
            }
        }
    }
}

/// The first connection gets a Retry; the second sends a token from the first and gets none.
#[tokio::test]
async fn retry_and_tokens() {
    for [client_by, server_by] in PAIRS {
        let identity = Identity::new();
        let listener = endpoint(Some(server(&identity, server_by, SUITES[0])), loopback());
        let address = listener.local_addr().expect("a bound socket");
        let serving = tokio::spawn(async move {
            let mut retries = 0;
            let mut validated = Vec::new();
            while validated.len() < 2 {
                let incoming = listener.accept().await.expect("a client comes");
                if !incoming.remote_address_validated() {
                    retries += 1;
                    incoming.retry().expect("the first Initial packet had no token");
                    continue;
                }
                validated.push(incoming.may_retry());
                incoming.await.expect("a handshake").closed().await;
            }
            (retries, validated)
        });
        // The second connection has a token from a NEW_TOKEN frame of the first.
        let endpoint = endpoint(None, loopback());
        let config = client(&identity, client_by, SUITES[0]);
        for _ in 0..2 {
            let connecting = endpoint.connect_with(config.clone(), address, "localhost");
            let connection = connecting.expect("a configuration").await.expect("a handshake");
            // The token is in the server's first 1-RTT packets.
            tokio::time::sleep(Duration::from_millis(50)).await;
            connection.close(0_u8.into(), b"done");
            endpoint.wait_idle().await;
        }
        assert_eq!(serving.await.expect("the server did not panic"), (1, vec![false, true]), "{client_by:?}");
    }
}

#[tokio::test]
async fn data_in_0_rtt_packets() {
    for suite in SUITES {
        for [client_by, server_by] in PAIRS {
            let identity = Identity::new();
            let listener = endpoint(Some(server(&identity, server_by, suite)), loopback());
            let address = listener.local_addr().expect("a bound socket");
            let serving = tokio::spawn(async move {
                let first = listener.accept().await.expect("a client").await.expect("a handshake");
                first.closed().await;
                let second = listener.accept().await.expect("a client").accept().expect("a client");
                let (connection, _) = second.into_0rtt().unwrap_or_else(|_| panic!("a server always can"));
                let mut stream = connection.accept_uni().await.expect("a stream");
                let received = stream.read_to_end(MEGABYTE).await.expect("data");
                connection.closed().await;
                (stream.is_0rtt(), received)
            });
            let endpoint = endpoint(None, loopback());
            let config = client(&identity, client_by, suite);
            let connect = || endpoint.connect_with(config.clone(), address, "localhost").expect("an address");
            let first = connect().await.expect("a handshake");
            // The ticket is in the server's first 1-RTT packets.
            tokio::time::sleep(Duration::from_millis(50)).await;
            first.close(0_u8.into(), b"done");
            endpoint.wait_idle().await;

            let (second, accepted) = connect().into_0rtt().unwrap_or_else(|_| panic!("there is a ticket"));
            let mut stream = second.open_uni().await.expect("a stream");
            stream.write_all(b"early").await.expect("room");
            stream.finish().expect("the stream is open");
            assert!(accepted.await, "{suite:?} {client_by:?} {server_by:?}");
            stream.stopped().await.expect("the server reads to the end");
            second.close(0_u8.into(), b"done");
            assert_eq!(serving.await.expect("the server did not panic"), (true, b"early".to_vec()));
        }
    }
}

/// A server in its own thread, dropped in the middle of its connection.
fn abandoned_server(
    config: ServerConfig,
    address: SocketAddr,
    is_connected: std::sync::mpsc::Receiver<()>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let kept = runtime.block_on(async {
            let endpoint = endpoint(Some(config), address);
            let connection = endpoint.accept().await.expect("a client").await.expect("a handshake");
            // Sends the rest of the handshake.
            while is_connected.try_recv().is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            (endpoint, connection)
        });
        // The runtime goes first, so that nothing can close the connection properly.
        drop(runtime);
        drop(kept);
    })
}

#[tokio::test]
async fn a_server_that_has_lost_its_state_resets_the_connection() {
    let identity = Identity::new();
    let config = || server(&identity, By::Wireseal, SUITES[0]);
    let address =
        std::net::UdpSocket::bind(loopback()).and_then(|socket| socket.local_addr()).expect("a free port");
    let (connected, is_connected) = std::sync::mpsc::channel();
    let first = abandoned_server(config(), address, is_connected);
    let endpoint_of_client = endpoint(None, loopback());
    let config_of_client = client(&identity, By::Wireseal, SUITES[0]);
    let connecting = endpoint_of_client.connect_with(config_of_client, address, "localhost");
    let connection = connecting.expect("an address").await.expect("a handshake");
    connected.send(()).expect("the first server waits");
    first.join().expect("the first server did not panic");

    let _second = endpoint(Some(config()), address);
    let mut stream = connection.open_uni().await.expect("a stream");
    stream.write_all(&pattern(4, 5000)).await.expect("room");
    assert_eq!(connection.closed().await, ConnectionError::Reset);
}
