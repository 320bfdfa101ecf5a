//! Sessions over QUIC: sockets of the system in the place of the own TCP stack.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quinn::Endpoint;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::{Instrument, Span, info, info_span, warn};

use super::RunError;
use super::keep::{Source, keep_session, told_to_stop};
use crate::config::Neighbour;
use crate::quic::{Connector, Fingerprint, Handshake, Listener, QuicStream, Tls};

/// A neighbour that calls, and the task that waits for its call.
struct Call {
    /// Its place among the peers of the configuration.
    index: usize,
    local: SocketAddr,
    peer: (IpAddr, Fingerprint),
    span: Span,
    sender: mpsc::Sender<QuicStream>,
    /// Whether it has a session.
    busy: Arc<AtomicBool>,
}

/// Starts a task for each neighbour. Returns the sockets.
pub(super) fn start(
    tls: &Tls,
    neighbours: &[Neighbour],
    stopped: &watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) -> Result<Vec<Endpoint>, RunError> {
    info!(certificate = %tls.fingerprint(), "peers know this router by");
    let mut sockets = Vec::new();
    let mut calls: Vec<Call> = Vec::new();
    for (index, neighbour) in neighbours.iter().enumerate() {
        let span = info_span!("peer", name = %neighbour.name);
        let certificate = neighbour.certificate.expect("the configuration was checked");
        let source = if neighbour.passive {
            let (sender, receiver) = mpsc::channel(1);
            let local = SocketAddr::from((neighbour.local_address, neighbour.port));
            let peer = (neighbour.address, certificate);
            let busy = Arc::<AtomicBool>::default();
            calls.push(Call { index, local, peer, span: span.clone(), sender, busy: Arc::clone(&busy) });
            Source::AcceptQuic(receiver, busy)
        } else {
            let remote = SocketAddr::from((neighbour.address, neighbour.port));
            let local = neighbour.local_address;
            let connector = Connector::new(local, remote, tls, certificate)
                .map_err(|error| unopened(SocketAddr::from((local, 0)), index, error))?;
            sockets.push(connector.endpoint().clone());
            Source::ConnectQuic(connector)
        };
        tasks.spawn(keep_session(source, neighbour.clone(), stopped.clone()).instrument(span));
    }
    while let Some(first) = calls.first() {
        let address = first.local;
        let (here, elsewhere) = calls.into_iter().partition(|call| call.local == address);
        calls = elsewhere;
        let listener = listen(address, tls, &here)?;
        sockets.push(listener.endpoint().clone());
        tasks.spawn(accept(listener, here, stopped.clone()));
    }
    Ok(sockets)
}

fn listen(address: SocketAddr, tls: &Tls, calls: &[Call]) -> Result<Listener, RunError> {
    let peers: Vec<_> = calls.iter().map(|call| call.peer).collect();
    Listener::bind(address, tls, &peers).map_err(|error| unopened(address, calls[0].index, error))
}

/// A socket that cannot be opened for the peer at this place of the configuration.
fn unopened(address: SocketAddr, index: usize, error: io::Error) -> RunError {
    let field = match error.kind() {
        io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => format!("peer[{index}].port"),
        _ => "transport.addresses".to_owned(),
    };
    RunError::Socket { field, address, error }
}

/// Hands each connection to the neighbour that it comes from, once its certificate is verified.
async fn accept(listener: Listener, calls: Vec<Call>, mut stopped: watch::Receiver<bool>) {
    let mut handshakes = JoinSet::new();
    loop {
        let incoming = tokio::select! {
            incoming = listener.incoming() => incoming,
            Some(_) = handshakes.join_next() => continue,
            () = told_to_stop(&mut stopped) => return,
        };
        let Some(handshake) = incoming else { return };
        let call = &calls[handshake.peer()];
        handshakes.spawn(
            finish(handshake, call.sender.clone(), Arc::clone(&call.busy)).instrument(call.span.clone()),
        );
    }
}

async fn finish(handshake: Handshake, sender: mpsc::Sender<QuicStream>, busy: Arc<AtomicBool>) {
    let remote = handshake.remote_address();
    let stream = match handshake.finish().await {
        Ok(stream) => stream,
        Err(error) => return warn!(%remote, %error, "no connection"),
    };
    // While a session is up one more call waits for its end; others are turned away.
    let waits = busy.load(Ordering::Relaxed);
    match sender.try_send(stream) {
        Ok(()) if waits => {
            info!(%remote, "called again: waiting behind the session that is up, until it ends or its hold timer expires");
        }
        Ok(()) => info!(%remote, "connected, waiting for the peer's OPEN"),
        Err(TrySendError::Full(_)) => {
            warn!(%remote, "turned away: another call waits already behind the session that is up");
        }
        // The router is to stop.
        Err(TrySendError::Closed(_)) => {}
    }
}
