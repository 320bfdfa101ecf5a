//! Sessions over QUIC: sockets of the system in the place of the own TCP stack.

use std::net::{IpAddr, SocketAddr};

use quinn::Endpoint;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::{Instrument, Span, info, info_span, warn};

use super::RunError;
use super::keep::{Source, keep_session, told_to_stop};
use crate::config::Neighbour;
use crate::quic::{Connector, Fingerprint, Handshake, Listener, QuicStream, Tls};

/// A neighbour that calls, and the task that waits for its call.
struct Call {
    local: SocketAddr,
    peer: (IpAddr, Fingerprint),
    span: Span,
    sender: mpsc::Sender<QuicStream>,
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
    for neighbour in neighbours {
        let span = info_span!("peer", name = %neighbour.name);
        let certificate = neighbour.certificate.expect("the configuration was checked");
        let source = if neighbour.passive {
            let (sender, receiver) = mpsc::channel(1);
            let local = SocketAddr::from((neighbour.local_address, neighbour.port));
            let peer = (neighbour.address, certificate);
            calls.push(Call { local, peer, span: span.clone(), sender });
            Source::AcceptQuic(receiver)
        } else {
            let remote = SocketAddr::from((neighbour.address, neighbour.port));
            let local = neighbour.local_address;
            let connector = Connector::new(local, remote, tls, certificate)
                .map_err(|error| RunError::Socket { address: SocketAddr::from((local, 0)), error })?;
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
    Listener::bind(address, tls, &peers).map_err(|error| RunError::Socket { address, error })
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
        handshakes.spawn(finish(handshake, call.sender.clone()).instrument(call.span.clone()));
    }
}

async fn finish(handshake: Handshake, sender: mpsc::Sender<QuicStream>) {
    match handshake.finish().await {
        // While a session is up one more call waits for its end; others are turned away.
        Ok(stream) => drop(sender.try_send(stream)),
        Err(error) => warn!(%error, "no connection"),
    }
}
