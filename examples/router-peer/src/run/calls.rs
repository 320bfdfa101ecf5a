//! Connections with neighbours, and how those that a neighbour opens come to the task that waits for them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tracing::{Span, info, warn};

use crate::bgp::session::{Session, SessionConfig};
use crate::config::Neighbour;

/// What a session runs over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// An open connection with a neighbour.
pub(super) struct Connection {
    /// Where it comes from or goes to.
    pub(super) remote: SocketAddr,
    stream: Box<dyn Stream>,
    span: Span,
}

impl Connection {
    /// `span` is what each line of the session's log says of the connection.
    pub(super) fn new(remote: SocketAddr, stream: impl Stream + 'static, span: Span) -> Self {
        Self { remote, stream: Box::new(stream), span }
    }

    pub(super) fn start(self, config: SessionConfig) -> Session {
        self.span.in_scope(|| Session::start(self.stream, config))
    }
}

/// Where a neighbour's calls arrive.
pub(super) struct Calls {
    connections: mpsc::Receiver<Connection>,
    busy: Arc<AtomicBool>,
}

impl Calls {
    /// Waits for the next call, or returns nothing when none will come any more.
    pub(super) async fn next(&mut self) -> Option<Connection> {
        self.busy.store(false, Ordering::Relaxed);
        let connection = self.connections.recv().await;
        self.busy.store(true, Ordering::Relaxed);
        connection
    }
}

/// A neighbour that calls.
#[derive(Clone)]
pub(super) struct Caller {
    /// Its place among the peers of the configuration.
    pub(super) index: usize,
    pub(super) neighbour: Neighbour,
    pub(super) span: Span,
    connections: mpsc::Sender<Connection>,
    /// Whether it has a session, for which a call has to wait.
    busy: Arc<AtomicBool>,
}

impl Caller {
    pub(super) fn new(index: usize, neighbour: &Neighbour, span: &Span) -> (Self, Calls) {
        let (sender, receiver) = mpsc::channel(1);
        let busy = Arc::<AtomicBool>::default();
        let calls = Calls { connections: receiver, busy: Arc::clone(&busy) };
        let (neighbour, span) = (neighbour.clone(), span.clone());
        (Self { index, neighbour, span, connections: sender, busy }, calls)
    }

    /// The own address and port that it calls.
    pub(super) fn local(&self) -> SocketAddr {
        SocketAddr::from((self.neighbour.local_address, self.neighbour.port))
    }

    /// Hands a call over. While a session is up one more call waits for its end; others are turned away: the stream comes
    /// back.
    pub(super) fn hand_over<S: Stream + 'static>(
        &self,
        remote: SocketAddr,
        stream: S,
        span: Span,
    ) -> Result<(), S> {
        let waits = self.busy.load(Ordering::Relaxed);
        match self.connections.try_reserve() {
            Ok(room) => {
                if waits {
                    info!(parent: &self.span, %remote, "called again: waiting behind the session that is up, until it ends or its hold timer expires");
                }
                room.send(Connection::new(remote, stream, span));
                Ok(())
            }
            Err(TrySendError::Full(())) => {
                warn!(parent: &self.span, %remote, "turned away: another call waits already behind the session that is up");
                Err(stream)
            }
            // The router is to stop.
            Err(TrySendError::Closed(())) => Err(stream),
        }
    }
}

/// Callers with the own address and port that they call: one listener each.
pub(super) fn by_local_address(mut callers: Vec<Caller>) -> Vec<(SocketAddr, Vec<Caller>)> {
    let mut listeners = Vec::new();
    while let Some(first) = callers.first() {
        let local = first.local();
        let (here, elsewhere) = callers.into_iter().partition(|caller| caller.local() == local);
        callers = elsewhere;
        listeners.push((local, here));
    }
    listeners
}
