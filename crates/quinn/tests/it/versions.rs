//! The versions that quinn and noq offer by default: 1, and drafts 29 to 34.

use std::sync::Arc;

use quinn::{ClientConfig, ConnectionError, Endpoint, EndpointConfig, TokioRuntime};
use quinn_proto::DEFAULT_SUPPORTED_VERSIONS;
use wireseal_quinn::ResetKey;

use crate::quinn::{client_crypto, endpoint, exchange, server};
use crate::support::{BETWEEN_UPDATES, By, Identity, PAIRS, SUITES, loopback, only, pattern};

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
                    exchange(&connection, back, there).await;
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
            exchange(&connection, there, back).await;
            connection.close(0_u8.into(), b"done");
            serving.await.expect("the server did not panic");
        }
    }
}

/// A server that leaves drafts out of its list says so to a client that begins with one (RFC 9000 §6.1).
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
