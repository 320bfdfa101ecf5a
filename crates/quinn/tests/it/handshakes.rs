//! Configurations that are refused and data that is passed on; and unusual handshakes, in which the secrets of one session, suite or
//! version could be used for another.

use std::sync::{Arc, Mutex};

use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, TokioRuntime};
use quinn_proto::DEFAULT_SUPPORTED_VERSIONS;
use rustls::crypto::ring::kx_group;
use rustls::{CipherSuite, CipherSuiteCommon, KeyLog, Tls13CipherSuite};
use wireseal_quinn::{HandshakeData, QuicClientConfig, QuicServerConfig, ResetKey, TokenKey};

use crate::quinn::{client_crypto, endpoint, exchange, server, server_of};
use crate::support::{
    BETWEEN_UPDATES, By, Identity, MEGABYTE, PAIRS, SUITES, initial_suite, loopback, only, pattern,
    with_suites,
};

#[test]
fn what_rustls_does_not_take_for_quic_is_refused_when_it_is_configured() {
    let identity = Identity::new();
    let mut server = identity.server(only(SUITES[0]));
    server.max_early_data_size = 16;
    assert!(QuicServerConfig::try_from(server).unwrap_err().to_string().contains("max early data"));

    let old = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS12])
        .expect("ring does TLS 1.2")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    assert!(QuicClientConfig::try_from(old).unwrap_err().to_string().contains("TLS 1.3"));
}

/// graviola's provider is an example.
#[test]
fn a_provider_without_quic_keys_is_refused_with_a_way_out() {
    let identity = Identity::new();
    let without = || {
        let mut provider = only(SUITES[0]);
        let suite = provider.cipher_suites[0].tls13().expect("a suite of TLS 1.3");
        let common = CipherSuiteCommon { ..suite.common };
        let suite: &'static _ = Box::leak(Box::new(Tls13CipherSuite { common, quic: None, ..*suite }));
        provider.cipher_suites = vec![suite.into()];
        provider
    };
    let client = QuicClientConfig::try_from(identity.client(without())).map(drop);
    let server = QuicServerConfig::try_from(identity.server(without())).map(drop);
    for refused in [client, server] {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("wireseal_rustls::provider"), "{text}");
    }
}

/// The functions that programs written for quinn's or noq's own configuration call.
#[tokio::test]
async fn a_suite_for_initial_packets_and_application_protocols_as_with_quinn() {
    let identity = Identity::new();
    let other = only(SUITES[2]);
    let other = other.cipher_suites[0].tls13().and_then(|suite| suite.quic_suite()).expect("ring does QUIC");
    let (client_tls, server_tls) =
        (Arc::new(identity.client(only(SUITES[2]))), Arc::new(identity.server(only(SUITES[2]))));
    assert!(QuicClientConfig::with_initial(client_tls.clone(), other).is_err());
    assert!(QuicServerConfig::with_initial(server_tls.clone(), other).is_err());
    let mut client = QuicClientConfig::with_initial(client_tls, initial_suite()).expect("QUIC");
    let mut server = QuicServerConfig::with_initial(server_tls, initial_suite()).expect("QUIC");
    client.set_alpn_protocols(vec![b"hq-29".to_vec(), b"ours".to_vec()]);
    server.set_alpn_protocols(vec![b"ours".to_vec()]);

    let server = quinn::ServerConfig::new(Arc::new(server), Arc::new(TokenKey::new(&[7; 32])));
    let (listener, connecting) = (endpoint(Some(server), loopback()), endpoint(None, loopback()));
    let address = listener.local_addr().expect("a bound socket");
    let config = ClientConfig::new(Arc::new(client));
    let connecting = connecting.connect_with(config, address, "localhost").expect("an address");
    let (incoming, connection) = tokio::join!(
        async { listener.accept().await.expect("a client").await.expect("a handshake") },
        async { connecting.await.expect("a handshake") }
    );
    for connection in [incoming, connection] {
        let data = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
        let data = data.expect("Wireseal's");
        assert_eq!((data.protocol.as_deref(), data.cipher_suite), (Some(&b"ours"[..]), Some(SUITES[2])));
    }
}

#[derive(Debug, Default)]
struct Labels(Mutex<Vec<String>>);

impl KeyLog for Labels {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        assert_eq!((client_random.len(), secret.len()), (32, 32));
        self.0.lock().unwrap().push(label.to_owned());
    }

    fn will_log(&self, label: &str) -> bool {
        label != "EXPORTER_SECRET"
    }
}

#[tokio::test]
async fn the_configured_key_log_gets_all_that_it_wants() {
    let (identity, log) = (Identity::new(), Arc::<Labels>::default());
    let mut tls = identity.client(only(SUITES[0]));
    tls.key_log = log.clone();
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("QUIC")));
    let listener = endpoint(Some(server(&identity, By::Wireseal, SUITES[0])), loopback());
    let client = endpoint(None, loopback());
    let address = listener.local_addr().expect("a bound socket");
    let connecting = client.connect_with(config, address, "localhost").expect("an address");
    let (incoming, connection) = tokio::join!(
        async { listener.accept().await.expect("a client").await.expect("a handshake") },
        async { connecting.await.expect("a handshake") }
    );
    drop((incoming, connection));
    let mut labels = log.0.lock().unwrap().clone();
    labels.sort();
    let expected = [
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_TRAFFIC_SECRET_0",
    ];
    assert_eq!(labels, expected);
}

#[test]
fn no_key_is_printed() {
    let printed = format!("{:?} {:?}", TokenKey::new(&[0xab; 32]), ResetKey::new(&[0xab; 32]));
    assert_eq!(printed, "TokenKey { .. } ResetKey { .. }");
}

/// How much is sent each way: enough for some key updates.
const LENGTH: usize = MEGABYTE / 4;

/// Serves connections: data both ways on each. Returns how many there were, once the endpoint is closed.
async fn serve(listener: Endpoint) -> usize {
    let mut serving = Vec::new();
    while let Some(incoming) = listener.accept().await {
        serving.push(tokio::spawn(async move {
            let connection = incoming.await.expect("a handshake");
            exchange(&connection, &pattern(2, LENGTH), &pattern(1, LENGTH)).await;
            connection.closed().await;
        }));
    }
    let count = serving.len();
    for connection in serving {
        connection.await.expect("data both ways");
    }
    count
}

/// Sends data both ways, and closes the connection.
async fn use_and_close(connection: Connection) {
    exchange(&connection, &pattern(1, LENGTH), &pattern(2, LENGTH)).await;
    connection.close(0_u8.into(), b"done");
}

/// The client sends a key share that the server does not accept, and a second ClientHello after the HelloRetryRequest.
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

/// The client resumes a session and sends early data. `change` has changed the server, so it resumes the session but refuses the early
/// data. Later packets use the keys of this handshake.
async fn early_data_is_refused(change: fn(&mut rustls::ServerConfig)) {
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

/// The session was of another suite with the same hash, so it can be resumed, but its early data cannot be accepted.
#[tokio::test]
async fn early_data_of_another_suite() {
    early_data_is_refused(|server| {
        let suite: CipherSuite = SUITES[2];
        let identity = server.clone();
        let mut changed = rustls::ServerConfig::builder_with_provider(Arc::new(only(suite)))
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

/// All sessions share one client configuration and one server configuration.
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

const DRAFT_29: u32 = 0xff00_001d;

/// A Retry, a handshake, and data both ways under several keys.
#[tokio::test]
async fn each_of_the_default_list_is_spoken() {
    for &version in DEFAULT_SUPPORTED_VERSIONS {
        for [client_by, server_by] in PAIRS {
            let identity = Identity::new();
            let listener = endpoint(Some(server(&identity, server_by, SUITES[0])), loopback());
            let address = listener.local_addr().expect("a bound socket");
            let (there, back) = (pattern(1, 4 * BETWEEN_UPDATES), pattern(2, 4 * BETWEEN_UPDATES));
            let serving = tokio::spawn({
                let (there, back) = (there.clone(), back.clone());
                async move {
                    let first = listener.accept().await.expect("a client");
                    first.retry().expect("the first Initial packet had no token");
                    let connection = listener.accept().await.expect("the client").await.expect("a handshake");
                    exchange(&connection, &back, &there).await;
                    connection.closed().await;
                }
            });
            let endpoint = endpoint(None, loopback());
            let mut config = ClientConfig::new(client_crypto(client_by, identity.client(only(SUITES[0]))));
            config.version(version);
            let connecting = endpoint.connect_with(config, address, "localhost").expect("a configuration");
            let connection = connecting.await.unwrap_or_else(|error| {
                panic!("{version:x} {client_by:?} {server_by:?}: {error}");
            });
            exchange(&connection, &there, &back).await;
            connection.close(0_u8.into(), b"done");
            serving.await.expect("the server did not panic");
        }
    }
}

/// A server without drafts in its list answers a client that starts with one by Version Negotiation (RFC 9000 §6.1).
#[tokio::test]
async fn what_is_not_in_the_list_is_answered_with_version_negotiation() {
    let identity = Identity::new();
    let mut config = EndpointConfig::new(Arc::new(ResetKey::new(&[3; 32])));
    config.supported_versions(vec![1]);
    let socket = std::net::UdpSocket::bind(loopback()).expect("a free port");
    let config_of_server = server(&identity, By::Wireseal, SUITES[0]);
    let listener = Endpoint::new(config, Some(config_of_server), socket, Arc::new(TokioRuntime));
    let address = listener.as_ref().expect("an endpoint").local_addr().expect("a bound socket");
    for client_by in [By::Wireseal, By::Ring] {
        let endpoint = endpoint(None, loopback());
        let mut config = ClientConfig::new(client_crypto(client_by, identity.client(only(SUITES[0]))));
        config.version(DRAFT_29);
        let connecting = endpoint.connect_with(config, address, "localhost").expect("a configuration");
        assert_eq!(connecting.await.err(), Some(ConnectionError::VersionMismatch), "{client_by:?}");
    }
}
