//! What is refused, and what is passed on.

use std::sync::{Arc, Mutex};

use rustls::{CipherSuiteCommon, KeyLog, Tls13CipherSuite};
use wireseal_quinn::{HandshakeData, QuicClientConfig, QuicServerConfig, ResetKey, TokenKey};

use crate::quinn::{endpoint, server};
use crate::support::{By, Identity, SUITES, initial_suite, loopback, only};

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

/// As with graviola's.
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

/// The calls that a program written for quinn's or noq's own configuration has.
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
    let config = quinn::ClientConfig::new(Arc::new(client));
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
    let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("QUIC")));
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
