//! BGP over QUIC: one connection with one bidirectional stream per peer (draft-retana-idr-bgp-quic-01 §3). quinn carries it;
//! rustls's part, certificates and suites, is in `tls`.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use quinn::{
    ClientConfig, ConnectionError, Endpoint, EndpointConfig, RecvStream, SendStream, ServerConfig,
    TokioRuntime, TransportConfig, TransportErrorCode, VarInt,
};
use speaker::message::Closed;
use tokio::io::Join;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{Instrument, Span, info, info_span, warn};
use wireseal_rustls::CountedKeys;

use crate::config::Neighbour;
use crate::connection::{Connection, Listener, Transport, Upkeep, cannot_open, peer_span};
use crate::tls::{Fingerprint, Tls, is_wireseal, suite_name};

/// QUIC version 1 (RFC 9000 §15).
const VERSION_1: u32 = 1;
/// Time limit for a handshake, including the client's stream.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Opens a UDP socket for QUIC version 1. It accepts connections if given a configuration for them.
fn open(local: SocketAddr, server: Option<ServerConfig>) -> io::Result<Endpoint> {
    let mut config = EndpointConfig::default();
    config.supported_versions(vec![VERSION_1]);
    Endpoint::new(config, server, UdpSocket::bind(local)?, Arc::new(TokioRuntime))
}

/// Parameters of connections on which the peer may open this many streams.
fn transport(streams: u8) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport
        // BGP's hold timer decides when a silent peer is gone.
        .max_idle_timeout(None)
        .max_concurrent_bidi_streams(streams.into())
        .max_concurrent_uni_streams(0_u8.into())
        .datagram_receive_buffer_size(None);
    Arc::new(transport)
}

/// A connection and its stream.
pub(crate) type QuicConnection = (quinn::Connection, Join<RecvStream, SendStream>);

async fn within_limit(
    opening: impl Future<Output = Result<(quinn::Connection, SendStream, RecvStream), ConnectionError>>,
) -> Result<QuicConnection> {
    match timeout(HANDSHAKE, opening).await.context("timed out")? {
        Ok((connection, send, receive)) => Ok((connection, tokio::io::join(receive, send))),
        Err(error) => match refused_certificate(&error) {
            Some(which) => bail!(which),
            None => Err(error.into()),
        },
    }
}

/// Which end's certificate was refused, if one was: the alert is access_denied (RFC 8446 §6.2).
pub(crate) fn refused_certificate(error: &ConnectionError) -> Option<&'static str> {
    let denied = TransportErrorCode::crypto(49);
    match error {
        ConnectionError::TransportError(error) if error.code == denied => {
            Some("the peer's certificate is not the configured one")
        }
        ConnectionError::ConnectionClosed(close) if close.error_code == denied => {
            Some("the peer refused our certificate")
        }
        _ => None,
    }
}

/// Opens connections to one peer.
pub(crate) struct Connector {
    pub(crate) endpoint: Endpoint,
    pub(crate) keys: Arc<CountedKeys>,
    remote: SocketAddr,
    config: ClientConfig,
}

impl Connector {
    /// `peer` is the certificate that the peer must show.
    pub(crate) fn new(local: SocketAddr, remote: SocketAddr, tls: &Tls, peer: Fingerprint) -> Result<Self> {
        let (client, keys) = tls.client(peer)?;
        let mut config = ClientConfig::new(Arc::new(client));
        config.transport_config(transport(0));
        Ok(Self { endpoint: open(local, None)?, keys, remote, config })
    }

    /// Opens a connection and its stream. If the peer refuses this end's certificate, the stream fails later (RFC 8446
    /// §4.4.4).
    pub(crate) async fn connect(&self) -> Result<QuicConnection> {
        // The name is not checked, and an address is not even sent (RFC 6066 §3).
        let name = self.remote.ip().to_string();
        let connecting = self.endpoint.connect_with(self.config.clone(), self.remote, &name)?;
        within_limit(async {
            let connection = connecting.await?;
            let (send, receive) = connection.open_bi().await?;
            Ok((connection, send, receive))
        })
        .await
    }
}

/// A peer that may call.
pub(crate) struct Caller {
    /// Its index among the neighbours.
    pub(crate) neighbour: usize,
    pub(crate) address: IpAddr,
    pub(crate) certificate: Fingerprint,
    pub(crate) span: Span,
}

/// Accepts connections from configured peers.
pub(crate) struct Acceptor {
    pub(crate) endpoint: Endpoint,
    peers: Vec<(Caller, Arc<ServerConfig>, Arc<CountedKeys>)>,
    handshakes: JoinSet<(usize, Result<QuicConnection>)>,
}

impl Acceptor {
    pub(crate) fn bind(local: SocketAddr, tls: &Tls, callers: Vec<Caller>) -> Result<Self> {
        let configured = |caller: Caller| {
            let (server, keys) = tls.server(caller.certificate)?;
            let mut config = ServerConfig::with_crypto(Arc::new(server));
            // Peers are identified by address, so they must keep it.
            config.transport_config(transport(1)).migration(false);
            Ok((caller, Arc::new(config), keys))
        };
        let peers = callers.into_iter().map(configured).collect::<Result<Vec<_>>>()?;
        // The endpoint uses its configuration for Retry tokens only; each connection gets its peer's.
        let config = peers.first().map(|(_, config, _)| ServerConfig::clone(config));
        Ok(Self { endpoint: open(local, config)?, peers, handshakes: JoinSet::new() })
    }

    /// The packet keys of a caller's connections.
    pub(crate) fn keys(&self, caller: usize) -> &CountedKeys {
        &self.peers[caller].2
    }

    /// Waits until a handshake has succeeded or failed; returns the caller's index with the result. Refuses other addresses,
    /// and makes callers validate theirs with a Retry (RFC 9000 §8.1.2).
    pub(crate) async fn call(&mut self) -> Result<(usize, Result<QuicConnection>)> {
        loop {
            let incoming = tokio::select! {
                Some(call) = self.handshakes.join_next() => return Ok(call?),
                incoming = self.endpoint.accept() => incoming.context("the UDP socket is closed")?,
            };
            let remote = incoming.remote_address();
            let caller = self.peers.iter().position(|(caller, ..)| caller.address == remote.ip());
            let Some(caller) = caller else {
                warn!(%remote, "not a configured peer");
                incoming.refuse();
                continue;
            };
            if !incoming.remote_address_validated() {
                // Fails only for validated addresses.
                let _ = incoming.retry();
                continue;
            }
            let (Caller { span, .. }, config, _) = &self.peers[caller];
            let config = Arc::clone(config);
            let finish = within_limit(async move {
                let connection = incoming.accept_with(config)?.await?;
                let (send, receive) = connection.accept_bi().await?;
                Ok((connection, send, receive))
            });
            self.handshakes.spawn(async move { (caller, finish.await) }.instrument(span.clone()));
        }
    }
}

/// How long to wait for the peer to close the connection after this end has ended the session.
const FAREWELL: Duration = Duration::from_secs(1);

/// The neighbours, each with the socket to call it from.
pub(crate) struct Quic {
    tls: Tls,
    neighbours: Vec<(Neighbour, Option<Connector>)>,
}

fn pinned(neighbour: &Neighbour) -> Fingerprint {
    neighbour.certificate.expect("the configuration was checked")
}

impl Quic {
    /// Opens the sockets for outgoing connections.
    pub(crate) fn new(tls: Tls, neighbours: &[Neighbour]) -> Result<Self> {
        info!(certificate = %tls.fingerprint(), "peers know this router by");
        let with_connector = |(index, neighbour): (usize, &Neighbour)| {
            let local = SocketAddr::new(neighbour.local_address, 0);
            let connector = (!neighbour.passive)
                .then(|| Connector::new(local, neighbour.remote(), &tls, pinned(neighbour)))
                .transpose();
            let connector = connector.map_err(|error| cannot_open("UDP", local, index, error))?;
            Ok((neighbour.clone(), connector))
        };
        let neighbours = neighbours.iter().enumerate().map(with_connector).collect::<Result<_>>()?;
        Ok(Self { tls, neighbours })
    }
}

/// A connection whose log context shows how it is protected.
fn connection((connection, stream): QuicConnection, keys: &CountedKeys) -> Connection {
    let remote = connection.remote_address();
    let span = keys.suite().map_or_else(
        Span::none,
        |suite| info_span!("quic", %remote, suite = %suite_name(suite), wireseal = is_wireseal(suite)),
    );
    Connection { remote, stream: Box::new(stream), span, upkeep: Box::new(Closing(connection)) }
}

/// Closes a connection after its session.
struct Closing(quinn::Connection);

#[async_trait]
impl Upkeep for Closing {
    async fn over(&mut self, closed: Option<Closed>) {
        // CONNECTION_CLOSE would overtake a NOTIFICATION. The peer answers that one by closing.
        if let Some(Closed::Sent(_)) = closed {
            let _ = timeout(FAREWELL, self.0.closed()).await;
        }
        match self.0.close_reason() {
            None | Some(ConnectionError::LocallyClosed | ConnectionError::ApplicationClosed(_)) => {}
            Some(reason) => match refused_certificate(&reason) {
                Some(which) => warn!("{which}"),
                None => info!(%reason, "QUIC connection lost"),
            },
        }
        self.0.close(VarInt::default(), b"");
    }
}

#[async_trait]
impl Transport for Quic {
    async fn connect(&self, neighbour: usize) -> Result<Connection> {
        let connector = self.neighbours[neighbour].1.as_ref().context("this neighbour calls")?;
        Ok(connection(connector.connect().await?, &connector.keys))
    }

    fn listen(&self, local: SocketAddr, neighbours: &[usize]) -> Result<Box<dyn Listener>> {
        let callers = neighbours.iter().map(|&index| {
            let (peer, _) = &self.neighbours[index];
            let (certificate, span) = (pinned(peer), peer_span(peer));
            Caller { neighbour: index, address: peer.address, certificate, span }
        });
        let acceptor = Acceptor::bind(local, &self.tls, callers.collect());
        Ok(Box::new(acceptor.map_err(|error| cannot_open("UDP", local, neighbours[0], error))?))
    }

    /// Also waits for connections without a session to close, possibly in vain if the peer does not answer.
    async fn settled(&self) {
        for connector in self.neighbours.iter().filter_map(|(_, connector)| connector.as_ref()) {
            connector.endpoint.wait_idle().await;
        }
    }
}

#[async_trait]
impl Listener for Acceptor {
    async fn accept(&mut self) -> Result<(usize, Connection)> {
        let (caller, opened) = self.call().await?;
        let opened = opened.context("no connection")?;
        let (Caller { neighbour, .. }, _, keys) = &self.peers[caller];
        Ok((*neighbour, connection(opened, keys)))
    }
}
