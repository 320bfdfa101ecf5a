//! Runs a configuration until it is told to stop.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use speaker::session::{Session, State, Status};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{Instrument, Span, info, warn};

use crate::config::{Config, Neighbour, TransportKind};
use crate::connection::{Connection, Listener, Transport, peer_span};
use crate::frames;
#[cfg(target_os = "linux")]
use crate::kernel::Kernel;
use crate::quic::Quic;

/// How long sessions may take to shut down.
const FAREWELL: Duration = Duration::from_secs(2);
/// Delay between connection attempts. RFC 4271 §10 suggests 120 s, too long for a demonstration.
const CONNECT_RETRY: Duration = Duration::from_secs(5);
/// Time limit of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay after a failed accept.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// Runs all neighbours of a configuration until `stop` resolves, then shuts their sessions down.
///
/// # Errors
/// When a transport cannot be started. Nothing is left running.
///
/// # Panics
/// When called outside a tokio runtime.
pub async fn run(config: Config, seed: u64, stop: impl Future<Output = ()>) -> Result<()> {
    let neighbours = config.neighbours.clone();
    let routers: Vec<(Arc<dyn Transport>, Vec<Neighbour>)> = match (&config.tls, config.transport.kind) {
        (Some(tls), _) => vec![(Arc::new(Quic::new(tls.clone(), &neighbours)?), neighbours)],
        #[cfg(target_os = "linux")]
        (None, TransportKind::Kernel) => vec![(Arc::new(Kernel::new(&neighbours)?), neighbours)],
        (None, _) => frames::start(&config, seed)?,
    };
    let stopping = watch::Sender::new(false);
    let (mut sessions, mut listeners) = (JoinSet::new(), JoinSet::new());
    for (transport, neighbours) in &routers {
        let mut callers = BTreeMap::<SocketAddr, Vec<Caller>>::new();
        for (index, neighbour) in neighbours.iter().enumerate() {
            let span = peer_span(neighbour);
            if neighbour.is_unprotected() {
                warn!(parent: &span, "no key chain: this session is not protected");
            }
            let calls = neighbour.passive.then(|| {
                let (sender, calls) = mpsc::channel(1);
                callers.entry(neighbour.local()).or_default().push((index, span.clone(), sender));
                calls
            });
            let neighbour = (index, neighbour.clone());
            let session = keep_session(Arc::clone(transport), neighbour, calls, stopping.subscribe());
            sessions.spawn(session.instrument(span));
        }
        for (local, callers) in callers {
            let neighbours: Vec<usize> = callers.iter().map(|(index, ..)| *index).collect();
            listeners.spawn(answer(transport.listen(local, &neighbours)?, callers));
        }
    }
    stop.await;
    info!("stopping");
    stopping.send_replace(true);
    listeners.shutdown().await;
    if timeout(FAREWELL, async { while sessions.join_next().await.is_some() {} }).await.is_err() {
        warn!("not all peers took leave in time");
    }
    for (transport, _) in &routers {
        let _ = timeout(FAREWELL, transport.settled()).await;
    }
    Ok(())
}

/// A neighbour that calls us: its index, its log context, and where its connections go.
type Caller = (usize, Span, mpsc::Sender<Connection>);

/// Hands each connection to its neighbour. While a session is up one connection may wait; more are closed.
async fn answer(mut listener: Box<dyn Listener>, callers: Vec<Caller>) {
    loop {
        match listener.accept().await {
            Ok((index, connection)) => {
                let caller = callers.iter().find(|caller| caller.0 == index);
                let (_, span, calls) = caller.expect("the transport was given these callers");
                let remote = connection.remote;
                match calls.try_send(connection) {
                    Ok(()) => info!(parent: span, %remote, "called; a session that is up has to end first"),
                    Err(_) => warn!(parent: span, %remote, "turned away: another call waits already"),
                }
            }
            Err(error) => {
                warn!("{error:#}");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Opens a session with a neighbour whenever there is none, until told to stop. `calls` is set if the neighbour calls.
async fn keep_session(
    transport: Arc<dyn Transport>,
    (index, neighbour): (usize, Neighbour),
    mut calls: Option<mpsc::Receiver<Connection>>,
    mut stop: watch::Receiver<bool>,
) {
    let remote = neighbour.remote();
    let mut open = async || match &mut calls {
        Some(calls) => calls.recv().await.context("no longer listening"),
        None => timeout(CONNECT_TIMEOUT, transport.connect(index)).await.context("timed out")?,
    };
    let mut is_trying = neighbour.passive;
    loop {
        if !is_trying {
            is_trying = true;
            info!("connecting to {remote}");
        }
        tokio::select! {
            biased;
            () = told_to(&mut stop) => return,
            opened = open() => match opened {
                Ok(connection) => {
                    is_trying = neighbour.passive;
                    info!(remote = %connection.remote, "connected, waiting for the peer's OPEN");
                    let span = connection.span.clone();
                    follow(connection, &neighbour, &mut stop).instrument(span).await;
                }
                Err(error) => warn!(%remote, "cannot connect: {error:#}"),
            },
        }
        let wait = if neighbour.passive { Duration::ZERO } else { CONNECT_RETRY };
        let _ = timeout(wait, told_to(&mut stop)).await;
    }
}

async fn told_to(stop: &mut watch::Receiver<bool>) {
    // Fails when the sender is gone, which also means to stop.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Runs a session over a connection to its end.
async fn follow(connection: Connection, neighbour: &Neighbour, stop: &mut watch::Receiver<bool>) {
    let Connection { stream, mut upkeep, .. } = connection;
    let session = Session::start(stream, neighbour.session);
    let mut status = session.status();
    // Orders fail only when the session is over, which is awaited below.
    let _ = session.announce(neighbour.routes.clone()).await;
    tokio::select! {
        () = log_until_closed(&mut status) => {}
        () = upkeep.broken() => session.abort(),
        () = told_to(stop) => drop(session.shutdown().await),
    }
    // The session drops the sender after the stream.
    while status.changed().await.is_ok() {}
    let closed = status.borrow().closed.clone();
    upkeep.over(closed).await;
}

/// Logs when the peer's initial table is complete, and waits until the session is over.
async fn log_until_closed(status: &mut watch::Receiver<Status>) {
    let is_complete = |status: &Status| status.end_of_rib == [true; 2] || status.state == State::Closed;
    if let Ok(status) = status.wait_for(is_complete).await
        && status.state != State::Closed
    {
        let [ipv4, ipv6] = status.routes;
        info!(ipv4, ipv6, "initial routes received");
    }
    let _ = status.wait_for(|status| status.state == State::Closed).await;
}
