//! The stream that BGP messages go over.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use quinn::{Connection, ConnectionError, RecvStream, SendStream, StoppedError, VarInt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tracing::{info, warn};

use super::{Negotiated, refused_certificate};

type Delivered = Pin<Box<dyn Future<Output = Result<Option<VarInt>, StoppedError>> + Send>>;

/// Both directions of the one stream of a connection. Shutting it down waits until the peer has acknowledged all that was
/// written; dropping it closes the connection.
pub struct QuicStream {
    send: SendStream,
    receive: RecvStream,
    delivered: Option<Delivered>,
    connection: Connection,
}

impl fmt::Debug for QuicStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicStream").field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl QuicStream {
    pub(super) fn new(connection: Connection, send: SendStream, receive: RecvStream) -> Self {
        Self { send, receive, delivered: None, connection }
    }

    /// The connection that the stream is on.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// What protects its packets.
    #[must_use]
    pub fn negotiated(&self) -> Option<Negotiated> {
        self.connection.handshake_data()?.downcast().ok().map(|negotiated| *negotiated)
    }
}

impl AsyncRead for QuicStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.receive).poll_read(cx, buffer)
    }
}

impl AsyncWrite for QuicStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut self.send), cx, buffer)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the stream. A connection that closes drops what is still on its way, so the end is to be acknowledged before: a
    /// NOTIFICATION would be lost otherwise.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let delivered = this.delivered.get_or_insert_with(|| {
            // It fails only for a stream that the peer has stopped, and the future tells that too.
            let _ = this.send.finish();
            Box::pin(this.send.stopped())
        });
        delivered.as_mut().poll(cx).map(|end| end.map(|_| ()).map_err(io::Error::from))
    }
}

impl Drop for QuicStream {
    fn drop(&mut self) {
        match self.connection.close_reason() {
            None | Some(ConnectionError::LocallyClosed | ConnectionError::ApplicationClosed(_)) => {}
            Some(reason) => match refused_certificate(&reason) {
                Some(which) => warn!("{which}"),
                None => info!(%reason, "QUIC connection lost"),
            },
        }
        self.connection.close(VarInt::default(), b"");
    }
}
