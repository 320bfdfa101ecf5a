//! What every transport gives: connections with neighbours.

use std::future::{pending, ready};
use std::net::SocketAddr;
use std::pin::Pin;

use anyhow::Result;
use speaker::bgp::message::Closed;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::{Span, info_span};

use crate::config::Neighbour;

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a session runs over.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// An open connection with a neighbour.
pub(crate) struct Connection {
    pub(crate) remote: SocketAddr,
    pub(crate) stream: Box<dyn Stream>,
    /// What each line of the session's log says of the connection.
    pub(crate) span: Span,
    pub(crate) upkeep: Box<dyn Upkeep>,
}

/// What a transport does for a connection beside carrying octets.
pub(crate) trait Upkeep: Send {
    /// Ends when nothing may be sent any more: then the stream is dropped at once.
    fn broken(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(pending())
    }

    /// Follows the end of the session.
    fn over(&mut self, _closed: Option<Closed>) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }
}

impl Upkeep for () {}

/// A way to connections with the neighbours of a configuration, which are named by their places in it.
pub(crate) trait Transport: Send + Sync {
    /// Opens a connection to a neighbour. It may be cancelled at any time.
    fn connect(&self, neighbour: usize) -> BoxFuture<'_, Result<Connection>>;

    /// Listens for neighbours on one of this router's addresses.
    fn listen(&self, local: SocketAddr, neighbours: &[usize]) -> Result<Box<dyn Listener>>;

    /// Waits until the last octets have left, which may never be.
    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }
}

/// Where neighbours call.
pub(crate) trait Listener: Send {
    /// Waits for a neighbour to call. It may be cancelled at any time, and called again after an error.
    fn accept(&mut self) -> BoxFuture<'_, Result<(usize, Connection)>>;
}

/// A socket of the system that cannot be opened for the neighbour at this place, with the field at fault.
pub(crate) fn cannot_open(
    protocol: &str,
    address: SocketAddr,
    neighbour: usize,
    error: impl Into<anyhow::Error>,
) -> anyhow::Error {
    use std::io::ErrorKind::{AddrInUse, PermissionDenied};
    let error = error.into();
    let field = match error.downcast_ref().map(std::io::Error::kind) {
        Some(AddrInUse | PermissionDenied) => format!("peer[{neighbour}].port"),
        _ => "transport.addresses".to_owned(),
    };
    error.context(format!("{field}: cannot open {protocol} socket {address}"))
}

/// What each line in the log of a neighbour begins with.
pub(crate) fn peer_span(neighbour: &Neighbour) -> Span {
    info_span!("peer", name = %neighbour.name)
}
