//! Sessions over QUIC: sockets of the system in the place of the own TCP stack.

use std::io;
use std::net::SocketAddr;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tracing::{Instrument, Span, info, info_span, warn};

use super::calls::{Caller, Connection, by_local_address};
use super::keep::{Connect, Source};
use super::tasks::Tasks;
use super::{RunError, Settled, peer_span};
use crate::config::Neighbour;
use crate::quic::{Connector, Fingerprint, Handshake, Listener, QuicStream, Tls};

/// Starts a task for each neighbour.
pub(super) fn start(tls: &Tls, neighbours: &[Neighbour], tasks: &mut Tasks) -> Result<Settled, RunError> {
    info!(certificate = %tls.fingerprint(), "peers know this router by");
    let mut sockets = Vec::new();
    let mut callers = Vec::new();
    for (index, neighbour) in neighbours.iter().enumerate() {
        let span = peer_span(neighbour);
        let source = if neighbour.passive {
            let (caller, calls) = Caller::new(index, neighbour, &span);
            callers.push(caller);
            Source::Accept(calls)
        } else {
            let remote = SocketAddr::from((neighbour.address, neighbour.port));
            let local = neighbour.local_address;
            let connector = Connector::new(local, remote, tls, certificate(neighbour))
                .map_err(|error| RunError::socket("UDP", SocketAddr::from((local, 0)), index, error))?;
            sockets.push(connector.endpoint().clone());
            Source::Connect(Box::new(connector))
        };
        tasks.keep_session(span, neighbour.clone(), source);
    }
    for (local, callers) in by_local_address(callers) {
        let listener = listen(local, tls, &callers)?;
        sockets.push(listener.endpoint().clone());
        tasks.spawn(Span::none(), accept(listener, callers));
    }
    // QUIC closes connections that never had a session too, and waits whether a peer that is not there still answers.
    Ok(Box::pin(async move {
        for socket in &sockets {
            socket.wait_idle().await;
        }
    }))
}

fn certificate(neighbour: &Neighbour) -> Fingerprint {
    neighbour.certificate.expect("the configuration was checked")
}

impl Connect for Connector {
    fn connect(&self) -> BoxFuture<'_, io::Result<Connection>> {
        async {
            let stream = Self::connect(self).await?;
            let remote = stream.connection().remote_address();
            let span = stream_span(&stream);
            Ok(Connection::new(remote, stream, span))
        }
        .boxed()
    }
}

/// What protects a stream, for every line in the log of its session.
fn stream_span(stream: &QuicStream) -> Span {
    let remote = stream.connection().remote_address();
    match stream.negotiated() {
        Some(negotiated) => {
            info_span!("quic", %remote, suite = %negotiated, wireseal = negotiated.wireseal)
        }
        None => info_span!("quic", %remote),
    }
}

fn listen(local: SocketAddr, tls: &Tls, callers: &[Caller]) -> Result<Listener, RunError> {
    let peers: Vec<_> =
        callers.iter().map(|caller| (caller.neighbour.address, certificate(&caller.neighbour))).collect();
    Listener::bind(local, tls, &peers)
        .map_err(|error| RunError::socket("UDP", local, callers[0].index, error))
}

/// Hands each connection to the neighbour that it comes from, once its certificate is verified.
async fn accept(listener: Listener, callers: Vec<Caller>) {
    let mut handshakes = JoinSet::new();
    loop {
        let incoming = tokio::select! {
            incoming = listener.incoming() => incoming,
            Some(_) = handshakes.join_next() => continue,
        };
        let Some(handshake) = incoming else { return };
        let caller = callers[handshake.peer()].clone();
        let span = caller.span.clone();
        handshakes.spawn(finish(handshake, caller).instrument(span));
    }
}

async fn finish(handshake: Handshake, caller: Caller) {
    let remote = handshake.remote_address();
    match handshake.finish().await {
        Ok(stream) => {
            let span = stream_span(&stream);
            // A stream that is turned away closes its connection as it is dropped.
            let _ = caller.hand_over(remote, stream, span);
        }
        Err(error) => warn!(%remote, %error, "no connection"),
    }
}
