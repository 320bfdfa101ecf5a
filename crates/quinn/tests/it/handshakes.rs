//! Handshakes that do not go straight ahead, by which a session's secrets could be taken for another's or for another suite.

use std::sync::Arc;

use quinn::{ClientConfig, Connection, Endpoint};
use rustls::crypto::ring::kx_group;
use rustls::{CipherSuite, ServerConfig};

use crate::quinn::{client_crypto, endpoint, exchange, server_of};
use crate::support::{Identity, MEGABYTE, PAIRS, SUITES, loopback, only, pattern, with_suites};

/// How much is sent each way: enough for some key updates.
const LENGTH: usize = MEGABYTE / 4;

/// Serves connections: data both ways on each. Returns how many there were, once the endpoint is closed.
async fn serve(listener: Endpoint) -> usize {
    let mut serving = Vec::new();
    while let Some(incoming) = listener.accept().await {
        serving.push(tokio::spawn(async move {
            let connection = incoming.await.expect("a handshake");
            exchange(&connection, pattern(2, LENGTH), pattern(1, LENGTH)).await;
            connection.closed().await;
        }));
    }
    let count = serving.len();
    for connection in serving {
        connection.await.expect("data both ways");
    }
    count
}

/// Data both ways, and the end of the connection.
async fn use_and_close(connection: Connection) {
    exchange(&connection, pattern(1, LENGTH), pattern(2, LENGTH)).await;
    connection.close(0_u8.into(), b"done");
}

/// The client sends a key share that the server does not take, and a second ClientHello after the HelloRetryRequest.
#[tokio::test]
async fn a_hello_retry_request() {
    for suite in SUITES {
        for [client_by, server_by] in PAIRS {
            let identity = Identity::new();
            let (mut of_client, mut of_server) = (only(suite), only(suite));
            of_client.kx_groups = vec![kx_group::X25519, kx_group::SECP256R1];
            of_server.kx_groups = vec![kx_group::SECP256R1];
            let listener = endpoint(Some(server_of(server_by, identity.server(of_server))), loopback());
            let address = listener.local_addr().expect("a bound socket");
            let serving = tokio::spawn(serve(listener.clone()));

            let client = endpoint(None, loopback());
            let config = ClientConfig::new(client_crypto(client_by, identity.client(of_client)));
            let connecting = client.connect_with(config, address, "localhost").expect("an address");
            use_and_close(connecting.await.expect("a handshake")).await;
            client.wait_idle().await;
            listener.close(0_u8.into(), b"done");
            assert_eq!(serving.await.expect("the server did not panic"), 1);
        }
    }
}

/// The client resumes a session and sends early data. The server resumes it too, but has changed, as `change` says, and so refuses the
/// early data. What comes after is under the keys of this handshake.
async fn early_data_is_refused(change: fn(&mut ServerConfig)) {
    for [client_by, server_by] in PAIRS {
        let identity = Identity::new();
        let both = [SUITES[0], SUITES[2]];
        let before = identity.server(only(both[0]));
        let mut after = before.clone();
        change(&mut after);
        let listener = endpoint(Some(server_of(server_by, before)), loopback());
        let address = listener.local_addr().expect("a bound socket");
        let serving = tokio::spawn(serve(listener.clone()));

        let client = endpoint(None, loopback());
        let config = ClientConfig::new(client_crypto(client_by, identity.client(with_suites(&both))));
        let connect = || client.connect_with(config.clone(), address, "localhost").expect("an address");
        use_and_close(connect().await.expect("a handshake")).await;
        client.wait_idle().await;

        listener.set_server_config(Some(server_of(server_by, after)));
        let (connection, accepted) = connect().into_0rtt().unwrap_or_else(|_| panic!("there is a ticket"));
        let mut early = connection.open_uni().await.expect("a stream");
        early.write_all(b"early").await.expect("room");
        assert!(!accepted.await, "{client_by:?} {server_by:?}");
        assert_eq!(early.stopped().await, Err(quinn::StoppedError::ZeroRttRejected));
        use_and_close(connection).await;
        client.wait_idle().await;
        listener.close(0_u8.into(), b"done");
        assert_eq!(serving.await.expect("the server did not panic"), 2);
    }
}

#[tokio::test]
async fn early_data_for_a_server_that_takes_none_any_more() {
    early_data_is_refused(|server| server.max_early_data_size = 0).await;
}

/// The session is of another suite with the same hash, so it can be resumed, but not its early data.
#[tokio::test]
async fn early_data_of_another_suite() {
    early_data_is_refused(|server| {
        let suite: CipherSuite = SUITES[2];
        let identity = server.clone();
        let mut changed = ServerConfig::builder_with_provider(Arc::new(only(suite)))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider does TLS 1.3")
            .with_no_client_auth()
            .with_cert_resolver(identity.cert_resolver.clone());
        changed.session_storage = identity.session_storage.clone();
        changed.alpn_protocols.clone_from(&identity.alpn_protocols);
        changed.max_early_data_size = identity.max_early_data_size;
        *server = changed;
    })
    .await;
}

/// All on one configuration of the client and one of the server.
#[tokio::test]
async fn sessions_at_once() {
    const SESSIONS: usize = 8;
    for [client_by, server_by] in PAIRS {
        let identity = Identity::new();
        let listener =
            endpoint(Some(server_of(server_by, identity.server(with_suites(&SUITES)))), loopback());
        let address = listener.local_addr().expect("a bound socket");
        let serving = tokio::spawn(serve(listener.clone()));

        let client = endpoint(None, loopback());
        let config = ClientConfig::new(client_crypto(client_by, identity.client(with_suites(&SUITES))));
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            let connecting = client.connect_with(config.clone(), address, "localhost").expect("an address");
            sessions
                .push(tokio::spawn(async { use_and_close(connecting.await.expect("a handshake")).await }));
        }
        for session in sessions {
            session.await.expect("data both ways");
        }
        client.wait_idle().await;
        listener.close(0_u8.into(), b"done");
        assert_eq!(serving.await.expect("the server did not panic"), SESSIONS);
    }
}
