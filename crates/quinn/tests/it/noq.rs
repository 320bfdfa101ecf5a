//! noq: quinn with multipath.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use noq::{
    ClientConfig, Connection, Endpoint, EndpointConfig, FourTuple, PathError, PathId, PathStatus,
    ServerConfig, TokioRuntime, TransportConfig,
};
use rustls::CipherSuite;
use wireseal_quinn::{HandshakeData, ResetKey};

use crate::support::{
    BETWEEN_UPDATES, By, Identity, MEGABYTE, PAIRS, SUITES, ends_of, initial_suite, only, pattern,
};

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.max_concurrent_multipath_paths(2);
    Arc::new(transport)
}

ends_of!(noq);

fn client(identity: &Identity, by: By, suite: CipherSuite) -> ClientConfig {
    let mut config = ClientConfig::new(client_crypto(by, identity.client(only(suite))));
    config.transport_config(transport());
    config
}

fn server(identity: &Identity, by: By, suite: CipherSuite) -> ServerConfig {
    let mut config = server_of(by, identity.server(only(suite)));
    config.transport_config(transport());
    config
}

fn endpoint(server: Option<ServerConfig>) -> Endpoint {
    // Bound to all addresses, so that there can be two paths.
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a free port");
    let config = EndpointConfig::new(Arc::new(ResetKey::new(&[3; 32])));
    Endpoint::new(config, server, socket, Arc::new(TokioRuntime)).expect("an endpoint")
}

fn is_wireseal(connection: &Connection) -> bool {
    connection.handshake_data().is_some_and(|data| data.is::<HandshakeData>())
}

/// Opens a second path, once the peer has provided connection IDs for it.
async fn second_path(connection: &Connection, to: SocketAddr) -> PathId {
    loop {
        match connection.open_path(FourTuple::from_remote(to), PathStatus::Available).await {
            Ok(path) => return path.id(),
            Err(PathError::RemoteCidsExhausted) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(error) => panic!("no second path: {error}"),
        }
    }
}

/// The path's number is part of the nonce, so the ring end refuses a packet sealed for another path.
#[tokio::test]
async fn each_suite_on_two_paths_with_key_updates() {
    for suite in SUITES {
        for [client_by, server_by] in PAIRS {
            let identity = Identity::new();
            let listener = endpoint(Some(server(&identity, server_by, suite)));
            let port = listener.local_addr().expect("a bound socket").port();
            let (there, back) = (pattern(1, MEGABYTE), pattern(2, MEGABYTE));
            let serving = tokio::spawn({
                let (there, back) = (there.clone(), back.clone());
                async move {
                    let first = listener.accept().await.expect("a client");
                    first.retry().expect("the first Initial packet had no token");
                    let incoming = listener.accept().await.expect("the client again");
                    assert!(incoming.remote_address_validated());
                    let connection = incoming.await.expect("a handshake");
                    assert_eq!(is_wireseal(&connection), server_by == By::Wireseal);
                    exchange(&connection, &back, &there).await;
                    exchange(&connection, &back, &there).await;
                    connection.closed().await;
                }
            });
            let endpoint = endpoint(None);
            let [first, second] =
                [[127, 0, 0, 1], [127, 0, 0, 2]].map(|address| SocketAddr::from((address, port)));
            let connecting = endpoint.connect_with(client(&identity, client_by, suite), first, "localhost");
            let connection = connecting.expect("a configuration").await.expect("a handshake");
            assert_eq!(is_wireseal(&connection), client_by == By::Wireseal);
            exchange(&connection, &there, &back).await;

            let id = second_path(&connection, second).await;
            let path = |id| connection.path(id).expect("an open path");
            path(PathId::ZERO).set_status(PathStatus::Backup).expect("an open path");
            exchange(&connection, &there, &back).await;
            for id in [PathId::ZERO, id] {
                let sent = path(id).stats().udp_tx.bytes;
                assert!(sent > MEGABYTE as u64 * 9 / 10, "{sent} octets on path {id}");
            }
            connection.close(0_u8.into(), b"done");
            serving.await.expect("the server did not panic");
        }
    }
}

/// With a Retry, whose tag depends on the version.
#[tokio::test]
async fn each_version_of_the_default_list_is_spoken() {
    for &version in noq_proto::DEFAULT_SUPPORTED_VERSIONS {
        for [client_by, server_by] in PAIRS {
            let identity = Identity::new();
            let listener = endpoint(Some(server(&identity, server_by, SUITES[0])));
            let port = listener.local_addr().expect("a bound socket").port();
            let serving = tokio::spawn(async move {
                let first = listener.accept().await.expect("a client");
                first.retry().expect("the first Initial packet had no token");
                let connection = listener.accept().await.expect("the client").await.expect("a handshake");
                exchange(&connection, &pattern(2, BETWEEN_UPDATES), &pattern(1, BETWEEN_UPDATES)).await;
                connection.closed().await;
            });
            let endpoint = endpoint(None);
            let mut config = client(&identity, client_by, SUITES[0]);
            config.version(version);
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let connecting = endpoint.connect_with(config, address, "localhost").expect("a configuration");
            let connection = connecting.await.unwrap_or_else(|error| {
                panic!("{version:x} {client_by:?} {server_by:?}: {error}");
            });
            exchange(&connection, &pattern(1, BETWEEN_UPDATES), &pattern(2, BETWEEN_UPDATES)).await;
            connection.close(0_u8.into(), b"done");
            serving.await.expect("the server did not panic");
        }
    }
}

/// The second connection brings a token and early data, and is validated without a Retry.
#[tokio::test]
async fn tokens_and_data_in_0_rtt_packets() {
    for [client_by, server_by] in PAIRS {
        let identity = Identity::new();
        let listener = endpoint(Some(server(&identity, server_by, SUITES[0])));
        let port = listener.local_addr().expect("a bound socket").port();
        let serving = tokio::spawn(async move {
            let first = listener.accept().await.expect("a client").await.expect("a handshake");
            first.closed().await;
            let second = listener.accept().await.expect("a client");
            assert!(second.remote_address_validated() && second.may_retry());
            let (connection, _) = second.accept().expect("a client").into_0rtt().unwrap_or_else(|_| {
                panic!("a server always can");
            });
            let mut stream = connection.accept_uni().await.expect("a stream");
            let received = stream.read_to_end(MEGABYTE).await.expect("data");
            connection.closed().await;
            (stream.is_0rtt(), received)
        });
        let endpoint = endpoint(None);
        let config = client(&identity, client_by, SUITES[0]);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let connect = || endpoint.connect_with(config.clone(), address, "localhost").expect("an address");
        let first = connect().await.expect("a handshake");
        // The ticket and the token are in the server's first 1-RTT packets.
        tokio::time::sleep(Duration::from_millis(50)).await;
        first.close(0_u8.into(), b"done");
        endpoint.wait_idle().await;

        let (second, accepted) = connect().into_0rtt().unwrap_or_else(|_| panic!("there is a ticket"));
        let mut stream = second.open_uni().await.expect("a stream");
        stream.write_all(b"early").await.expect("room");
        stream.finish().expect("the stream is open");
        assert!(accepted.await, "{client_by:?} {server_by:?}");
        stream.stopped().await.expect("the server reads to the end");
        second.close(0_u8.into(), b"done");
        assert_eq!(serving.await.expect("the server did not panic"), (true, b"early".to_vec()));
    }
}
