//! BGP over QUIC: one connection with a peer, one stream on it, and BGP messages on the stream as they are on TCP.
//!
//! | to | call |
//! |---|---|
//! | name a peer by its certificate | [`Fingerprint`] |
//! | show a certificate of one's own | [`Tls::new`] |
//! | open a connection | [`Connector::connect`] |
//! | be called | [`Listener::incoming`], then [`Handshake::finish`] |
//!
//! The mapping is that of draft-retana-idr-bgp-quic-01 section 3 for speakers with one session: the QUIC client opens a
//! bidirectional stream by sending OPEN on it, and format and framing of messages are those of RFC 4271.

mod fingerprint;
mod negotiated;
mod stream;
mod tls;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use quinn::{
    ClientConfig, ConnectionError, Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime,
    TransportConfig, TransportErrorCode,
};
use tokio::time::timeout;
use tracing::warn;

pub use self::fingerprint::{BadFingerprint, Fingerprint};
pub use self::negotiated::Negotiated;
pub use self::stream::QuicStream;
pub use self::tls::{Tls, TlsError, provider, suite_name, suite_named};

/// What the TLS handshake agrees to speak (draft-retana-idr-bgp-quic-01 section 3.1). Later revisions say "boq", but mean
/// other messages by it: routes on streams of their own, which this speaker does not open, and none on the first.
pub const ALPN: &[u8] = b"bgp4";

/// QUIC version 1 (RFC 9000 section 15).
const VERSION_1: u32 = 1;
/// How long the peer may take to be connected and, called, to open its stream.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A UDP socket that speaks version 1 of QUIC and no draft of it, and takes calls where there is a configuration for them.
fn open(local: SocketAddr, calls: Option<ServerConfig>) -> io::Result<Endpoint> {
    let mut config = EndpointConfig::default();
    config.supported_versions(vec![VERSION_1]);
    Endpoint::new(config, calls, UdpSocket::bind(local)?, Arc::new(TokioRuntime))
}

/// How connections are to be: `streams` may be opened by the other end.
fn transport(streams: u8) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport
        // BGP's hold timer alone decides when a silent peer is gone, and tells it so.
        .max_idle_timeout(None)
        .max_concurrent_bidi_streams(streams.into())
        .max_concurrent_uni_streams(0_u8.into())
        .datagram_receive_buffer_size(None);
    Arc::new(transport)
}

/// Opens connections to one peer.
#[derive(Clone, Debug)]
pub struct Connector {
    endpoint: Endpoint,
    remote: SocketAddr,
    config: ClientConfig,
}

impl Connector {
    /// Binds a port that the system chooses. `peer` is the certificate that the peer must show.
    ///
    /// # Errors
    /// Those of the UDP socket.
    ///
    /// # Panics
    /// When called outside a tokio runtime.
    pub fn new(local: IpAddr, remote: SocketAddr, tls: &Tls, peer: Fingerprint) -> io::Result<Self> {
        let mut config = ClientConfig::new(tls.client(peer));
        config.transport_config(transport(0));
        Ok(Self { endpoint: open(SocketAddr::from((local, 0)), None)?, remote, config })
    }

    /// Opens a connection and the stream on it. That the peer has accepted this side's certificate shows only with its first
    /// message (RFC 8446 section 4.4.4): the stream fails if it has not.
    ///
    /// # Errors
    /// When the peer does not answer in ten seconds, shows another certificate, or refuses.
    pub async fn connect(&self) -> io::Result<QuicStream> {
        // The name is of no account to the peer, and as an address it is not even sent (RFC 6066 section 3).
        let name = self.remote.ip().to_string();
        let connecting = self.endpoint.connect_with(self.config.clone(), self.remote, &name);
        let connecting = connecting.map_err(io::Error::other)?;
        in_time(async {
            let connection = connecting.await?;
            let (send, receive) = connection.open_bi().await?;
            Ok(QuicStream::new(connection, send, receive))
        })
        .await
    }

    /// The socket, which outlives all connections.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// Takes connections from configured peers.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    peers: Vec<(IpAddr, Arc<ServerConfig>)>,
}

impl Listener {
    /// Listens for `peers`, each of which calls from its address and must show its certificate.
    ///
    /// # Errors
    /// Those of the UDP socket; [`io::ErrorKind::InvalidInput`] when there are no peers.
    ///
    /// # Panics
    /// When called outside a tokio runtime.
    pub fn bind(local: SocketAddr, tls: &Tls, peers: &[(IpAddr, Fingerprint)]) -> io::Result<Self> {
        let peers: Vec<_> = peers.iter().map(|(address, peer)| (*address, server(tls, *peer))).collect();
        let (_, config) = peers.first().ok_or(io::ErrorKind::InvalidInput)?;
        // The endpoint's own configuration makes the tokens of Retry packets; connections get their peer's.
        Ok(Self { endpoint: open(local, Some(ServerConfig::clone(config)))?, peers })
    }

    /// Waits until a peer calls. Calls from other addresses are refused, and an address that may be forged has to prove
    /// itself first (RFC 9000 section 8.1.2), so nobody makes work in a peer's name. `None` when the socket is closed.
    pub async fn incoming(&self) -> Option<Handshake> {
        loop {
            let incoming = self.endpoint.accept().await?;
            let remote = incoming.remote_address();
            let known = self.peers.iter().position(|(address, _)| *address == remote.ip());
            let Some(peer) = known else {
                warn!(%remote, "not a configured peer");
                incoming.refuse();
                continue;
            };
            if !incoming.remote_address_validated() {
                // It fails only for an address that is validated already.
                let _ = incoming.retry();
                continue;
            }
            return Some(Handshake { peer, incoming, config: Arc::clone(&self.peers[peer].1) });
        }
    }

    /// The socket, which outlives all connections.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

fn server(tls: &Tls, peer: Fingerprint) -> Arc<ServerConfig> {
    let mut config = ServerConfig::with_crypto(tls.server(peer));
    // A peer is known by its address, so there is nowhere for it to move to.
    config.transport_config(transport(1)).migration(false);
    Arc::new(config)
}

/// A connection that a peer has begun to open.
pub struct Handshake {
    peer: usize,
    incoming: Incoming,
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshake").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Handshake {
    /// Whose address it comes from: the place in the list that [`Listener::bind`] was given.
    #[must_use]
    pub fn peer(&self) -> usize {
        self.peer
    }

    /// The address that it comes from.
    #[must_use]
    pub fn remote_address(&self) -> SocketAddr {
        self.incoming.remote_address()
    }

    /// Completes the handshake and waits for the peer's stream.
    ///
    /// # Errors
    /// When the peer shows another certificate or none, speaks another protocol, or takes longer than ten seconds.
    pub async fn finish(self) -> io::Result<QuicStream> {
        in_time(async {
            let connection = self.incoming.accept_with(self.config)?.await?;
            let (send, receive) = connection.accept_bi().await?;
            Ok(QuicStream::new(connection, send, receive))
        })
        .await
    }
}

async fn in_time(
    opening: impl Future<Output = Result<QuicStream, ConnectionError>>,
) -> io::Result<QuicStream> {
    let opened = timeout(HANDSHAKE, opening).await.map_err(|_| io::ErrorKind::TimedOut)?;
    opened.map_err(|error| match refused_certificate(&error) {
        Some(which) => io::Error::new(io::ErrorKind::PermissionDenied, which),
        None => error.into(),
    })
}

/// Whose certificate a connection has failed for, if it has: that of a stranger is refused with the alert access_denied
/// (RFC 8446 section 6.2).
fn refused_certificate(error: &ConnectionError) -> Option<&'static str> {
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
