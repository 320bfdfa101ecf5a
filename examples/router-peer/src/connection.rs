//! What every transport provides: connections with neighbours.

use std::net::SocketAddr;

use anyhow::{Error, Result};
use async_trait::async_trait;
use speaker::message::Closed;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::{Span, info_span};

use crate::config::Neighbour;

/// The octet stream under a session.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// An open connection with a neighbour.
pub(crate) struct Connection {
    pub(crate) remote: SocketAddr,
    pub(crate) stream: Box<dyn Stream>,
    /// Log context of the session.
    pub(crate) span: Span,
    pub(crate) upkeep: Box<dyn Upkeep>,
}

/// What a transport does for a connection besides carrying octets.
#[async_trait]
pub(crate) trait Upkeep: Send {
    /// Returns when the connection must no longer send; the stream is then dropped at once.
    async fn broken(&mut self) {
        std::future::pending::<()>().await;
    }

    /// Called when the session has ended.
    async fn over(&mut self, _closed: Option<Closed>) {}
}

impl Upkeep for () {}

/// Connections with the neighbours of a configuration, which are given by index.
#[async_trait]
pub(crate) trait Transport: Send + Sync {
    /// Opens a connection to a neighbour. May be cancelled at any time.
    async fn connect(&self, neighbour: usize) -> Result<Connection>;

    /// Listens for neighbours on one of this router's addresses.
    fn listen(&self, local: SocketAddr, neighbours: &[usize]) -> Result<Box<dyn Listener>>;

    /// Waits until all data has been sent, possibly for ever: use a timeout.
    async fn settled(&self) {}
}

/// Accepts connections from neighbours.
#[async_trait]
pub(crate) trait Listener: Send {
    /// Waits for a neighbour to connect. May be cancelled at any time, and called again after an error.
    async fn accept(&mut self) -> Result<(usize, Connection)>;
}

/// The error for a socket that cannot be opened for a neighbour, with the configuration field at fault.
pub(crate) fn cannot_open(socket: &str, at: SocketAddr, neighbour: usize, error: impl Into<Error>) -> Error {
    use std::io::ErrorKind::{AddrInUse, PermissionDenied};
    let error = error.into();
    let field = match error.downcast_ref().map(std::io::Error::kind) {
        Some(AddrInUse | PermissionDenied) => format!("peer[{neighbour}].port"),
        _ => "transport.addresses".to_owned(),
    };
    error.context(format!("{field}: cannot open {socket} socket {at}"))
}

/// Log context of a neighbour.
pub(crate) fn peer_span(neighbour: &Neighbour) -> Span {
    info_span!("peer", name = %neighbour.name)
}
