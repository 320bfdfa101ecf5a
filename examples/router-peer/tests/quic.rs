//! Two processes that speak over QUIC, and what becomes of the stream under a session.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use common::pattern;
use common::program::{Router, shipped};
use router_peer::certificate;
use router_peer::quic::{Connector, Fingerprint, Listener, QuicStream, Tls, provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PATIENCE: Duration = Duration::from_secs(60);

/// Puts a port that is free for the moment in the place of the shipped one.
fn on_free_port(directory: &Path) {
    let port = UdpSocket::bind("127.0.0.2:0").unwrap().local_addr().unwrap().port();
    for config in ["quic-east.toml", "quic-west.toml"] {
        let file = directory.join(config);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, text.replace("17900", &port.to_string())).unwrap();
    }
}

#[test]
fn two_processes_speak_and_part_in_order() {
    let directory = shipped();
    on_free_port(directory.path());
    let mut west = Router::start(directory.path(), "quic-west.toml", &[]);
    west.wait_for(|line| line.contains("peers know this router by"));
    let mut east = Router::start(directory.path(), "quic-east.toml", &[]);
    west.wait_for(|line| line.contains("ipv4=2 ipv6=1"));
    // What both offer, and east prefers.
    let protected = "suite=TLS_AES_128_GCM_SHA256 wireseal=true";
    east.wait_for(|line| line.contains("connected, waiting for the peer's OPEN"));
    east.wait_for(|line| line.contains("session established") && line.contains(protected));
    assert!(east.said.contains("connecting to 127.0.0.2:"), "{}", east.said);
    let established = |line: &str| line.contains("session established") && line.contains(protected);
    assert!(west.said.lines().any(established), "{}", west.said);
    east.stop();
    west.wait_for(|line| line.contains("session over"));
    let log = west.stop();
    // The Cease has arrived before the connection was closed.
    assert!(log.contains("received CeaseError(AdministrativeShutdown"), "{log}");
    assert!(!log.contains("connection lost"), "{log}");
}

#[test]
fn a_peer_with_another_certificate_gets_no_session() {
    for stranger in ["east", "west"] {
        let directory = shipped();
        on_free_port(directory.path());
        let place = directory.path().join("stranger");
        certificate::create(&place, stranger).unwrap();
        let file = directory.path().join(format!("quic-{stranger}.toml"));
        let own = format!("key = \"certificates/{stranger}.key\"");
        let certificate = format!("certificate = \"certificates/{stranger}.pem\"\n{own}");
        let config = fs::read_to_string(&file).unwrap();
        fs::write(&file, config.replace(&certificate, &certificate.replace("certificates/", "stranger/")))
            .unwrap();

        let mut west = Router::start(directory.path(), "quic-west.toml", &[]);
        west.wait_for(|line| line.contains("peers know this router by"));
        let mut east = Router::start(directory.path(), "quic-east.toml", &[]);
        let verifies = "the peer's certificate is not the configured one";
        let is_shown = "the peer refused our certificate";
        let (in_east, in_west) = if stranger == "east" { (is_shown, verifies) } else { (verifies, is_shown) };
        west.wait_for(|line| line.contains("no connection") && line.contains(in_west));
        east.wait_for(|line| line.contains("WARN") && line.contains(in_east));
        let (seen, missing) = if stranger == "east" { (&west, &east) } else { (&east, &west) };
        let line = seen.said.lines().find(|line| line.contains("expected=")).unwrap();
        assert!(line.contains(verifies) && line.contains("shown=") && line.contains("peer{name="), "{line}");
        assert!(!missing.said.contains("expected="), "{}", missing.said);
        for log in [east.stop(), west.stop()] {
            assert!(!log.contains("session established"), "{log}");
            assert!(!log.contains("session over"), "{log}");
            assert!(!log.contains("took leave"), "{log}");
        }
    }
}

#[test]
fn a_peer_that_dies_is_missed_after_the_hold_time_and_welcome_again() {
    let directory = shipped();
    on_free_port(directory.path());
    let file = directory.path().join("quic-east.toml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, config.replace("as = 64513", "as = 64513\nhold-time = 3")).unwrap();
    let mut west = Router::start(directory.path(), "quic-west.toml", &[]);
    west.wait_for(|line| line.contains("peers know this router by"));
    let mut east = Router::start(directory.path(), "quic-east.toml", &[]);
    east.wait_for(|line| line.contains("session established"));
    west.wait_for(|line| line.contains("ipv4=2 ipv6=1"));
    // It is killed, and says nothing.
    drop(east);
    let east = Router::start(directory.path(), "quic-east.toml", &[]);
    west.wait_for(|line| line.contains("waiting behind the session that is up"));
    west.wait_for(|line| line.contains("session over"));
    assert!(west.said.contains("sent HoldTimerExpiredError"), "{}", west.said);
    west.wait_for(|line| line.contains("ipv4=2 ipv6=1"));
    east.stop();
    west.stop();
}

#[test]
fn a_router_whose_peer_is_not_there_stops_without_a_word_of_it() {
    let directory = shipped();
    on_free_port(directory.path());
    let mut east = Router::start(directory.path(), "quic-east.toml", &[]);
    east.wait_for(|line| line.contains("connecting to 127.0.0.2:"));
    let log = east.stop();
    assert!(!log.contains("took leave"), "{log}");
}

struct Side {
    tls: Tls,
    fingerprint: Fingerprint,
}

fn side(name: &str) -> Side {
    let directory = tempfile::tempdir().unwrap();
    let made = certificate::create(directory.path(), name).unwrap();
    let certificate = CertificateDer::from_pem_file(&made.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&made.key).unwrap();
    Side { tls: Tls::new(provider(), None, certificate, key).unwrap(), fingerprint: made.fingerprint }
}

/// A stream, seen from the side that has opened it and from the other, and the socket of the other.
async fn streams() -> (QuicStream, QuicStream, (Connector, Listener)) {
    let (a, b) = (side("a"), side("b"));
    let listener =
        Listener::bind(SocketAddr::from((LOOPBACK, 0)), &b.tls, &[(LOOPBACK, a.fingerprint)]).unwrap();
    let remote = listener.endpoint().local_addr().unwrap();
    let connector = Connector::new(LOOPBACK, remote, &a.tls, b.fingerprint).unwrap();
    let calling = async {
        let mut stream = connector.connect().await.unwrap();
        // Without an octet on it the other end does not see the stream.
        stream.write_all(b"!").await.unwrap();
        stream
    };
    let called = async { listener.incoming().await.unwrap().finish().await.unwrap() };
    let (near, mut far) = timeout(PATIENCE, async { tokio::join!(calling, called) }).await.unwrap();
    assert_eq!(far.read_u8().await.unwrap(), b'!');
    (near, far, (connector, listener))
}

#[tokio::test]
async fn all_that_was_written_arrives_although_the_connection_is_closed_at_once() {
    let (mut near, mut far, _sockets) = streams().await;
    let sent = pattern(3_000_000, 5);
    let expected = sent.clone();
    let writing = async move {
        near.write_all(&sent).await.unwrap();
        near.shutdown().await.unwrap();
        drop(near);
    };
    let mut received = Vec::new();
    let both = async { tokio::join!(writing, far.read_to_end(&mut received)) };
    timeout(PATIENCE, both).await.unwrap().1.unwrap();
    assert!(received == expected);
}

#[tokio::test]
async fn one_stream_is_all_that_a_peer_may_open() {
    let (near, far, _sockets) = streams().await;
    let second = Duration::from_millis(300);
    for connection in [near.connection(), far.connection()] {
        assert!(timeout(second, connection.open_bi()).await.is_err(), "a second bidirectional stream");
        assert!(timeout(second, connection.open_uni()).await.is_err(), "a unidirectional stream");
        assert_eq!(connection.max_datagram_size(), None);
    }
}

#[tokio::test]
async fn a_stranger_by_address_is_refused() {
    let (a, b) = (side("a"), side("b"));
    let configured = IpAddr::from([127, 0, 0, 9]);
    let listener =
        Listener::bind(SocketAddr::from((LOOPBACK, 0)), &b.tls, &[(configured, a.fingerprint)]).unwrap();
    let remote = listener.endpoint().local_addr().unwrap();
    let connector = Connector::new(LOOPBACK, remote, &a.tls, b.fingerprint).unwrap();
    tokio::select! {
        refused = connector.connect() => assert!(refused.unwrap_err().to_string().contains("refuse")),
        _ = listener.incoming() => panic!("it was let in"),
        () = tokio::time::sleep(PATIENCE) => panic!("no answer"),
    }
}

#[tokio::test]
async fn another_protocol_is_refused() {
    let (a, b) = (side("a"), side("b"));
    let listener =
        Listener::bind(SocketAddr::from((LOOPBACK, 0)), &b.tls, &[(LOOPBACK, a.fingerprint)]).unwrap();
    let remote = listener.endpoint().local_addr().unwrap();
    let mut tls = rustls::ClientConfig::builder_with_provider(provider().into())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"boq".to_vec()];
    let config = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
    let endpoint = quinn::Endpoint::client(SocketAddr::from((LOOPBACK, 0))).unwrap();
    let connecting = endpoint
        .connect_with(quinn::ClientConfig::new(std::sync::Arc::new(config)), remote, "127.0.0.1")
        .unwrap();
    let called = async { listener.incoming().await.unwrap().finish().await };
    let refused = tokio::select! {
        (refused, called) = async { tokio::join!(connecting, called) } => {
            assert!(called.is_err(), "it was let in");
            refused.unwrap_err().to_string()
        }
        () = tokio::time::sleep(PATIENCE) => panic!("no answer"),
    };
    // no_application_protocol (RFC 7301 section 3.2).
    assert!(refused.contains("error 120"), "{refused}");
}
