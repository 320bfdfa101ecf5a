//! Keeps a session with one neighbour, for as long as the router runs.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tracing::{info, info_span, warn};

use crate::bgp::session::{Session, SessionConfig, State, Status};
use crate::config::Neighbour;
use crate::protection::Protected;
use crate::quic::{Connector, QuicStream};
use crate::stack::{Stack, TcpStream};

/// Wait between two attempts to connect (RFC 4271 section 10 suggests 120 s, which is long to watch).
const CONNECT_RETRY: Duration = Duration::from_secs(5);
/// How long one attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Where the connection to a neighbour comes from.
pub(super) enum Source {
    Connect(Stack<Protected>),
    Accept(mpsc::Receiver<TcpStream>),
    ConnectQuic(Connector),
    /// And whether there is a session, for which a call has to wait.
    AcceptQuic(mpsc::Receiver<QuicStream>, Arc<AtomicBool>),
}

/// Waits until the router is to stop.
pub(super) async fn told_to_stop(stopped: &mut watch::Receiver<bool>) {
    // An error means that nobody is left to say it.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Opens a session with a neighbour whenever there is none.
pub(super) async fn keep_session(
    mut source: Source,
    neighbour: Neighbour,
    mut stopped: watch::Receiver<bool>,
) {
    let connects = matches!(source, Source::Connect(_) | Source::ConnectQuic(_));
    let remote = SocketAddr::from((neighbour.address, neighbour.port));
    let mut trying = false;
    loop {
        if connects && !trying {
            trying = true;
            info!("connecting to {remote}");
        }
        let session = tokio::select! {
            session = open_session(&mut source, &neighbour) => session,
            () = told_to_stop(&mut stopped) => return,
        };
        match session {
            Ok(Some(session)) => {
                trying = false;
                if follow(session, &neighbour, &mut stopped).await {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => warn!(%remote, %error, "cannot connect"),
        }
        if connects {
            tokio::select! {
                () = sleep(CONNECT_RETRY) => {}
                () = told_to_stop(&mut stopped) => return,
            }
        }
    }
}

/// A session over a new connection to a neighbour, or nothing when none will come any more.
async fn open_session(source: &mut Source, neighbour: &Neighbour) -> io::Result<Option<Session>> {
    let config = neighbour.session;
    Ok(match source {
        Source::Connect(stack) => {
            let remote = (neighbour.address, neighbour.port).into();
            let connecting = stack.connect(remote, Some(neighbour.local_address));
            let stream =
                timeout(CONNECT_TIMEOUT, connecting).await.map_err(|_| io::ErrorKind::TimedOut)??;
            Some(Session::start(stream, config))
        }
        Source::Accept(calls) => calls.recv().await.map(|stream| Session::start(stream, config)),
        Source::ConnectQuic(connector) => {
            let stream = connector.connect().await?;
            info!(remote = %stream.connection().remote_address(), "connected, waiting for the peer's OPEN");
            Some(over_quic(stream, config))
        }
        Source::AcceptQuic(calls, busy) => {
            busy.store(false, Ordering::Relaxed);
            let stream = calls.recv().await;
            busy.store(true, Ordering::Relaxed);
            stream.map(|stream| over_quic(stream, config))
        }
    })
}

/// A session whose every line in the log says what protects it.
fn over_quic(stream: QuicStream, config: SessionConfig) -> Session {
    let remote = stream.connection().remote_address();
    let span = match stream.negotiated() {
        Some(negotiated) => {
            info_span!("quic", %remote, suite = %negotiated, wireseal = negotiated.wireseal)
        }
        None => info_span!("quic", %remote),
    };
    span.in_scope(|| Session::start(stream, config))
}

/// Follows a session to its end; whether it ended because the router is to stop.
async fn follow(session: Session, neighbour: &Neighbour, stopped: &mut watch::Receiver<bool>) -> bool {
    let mut status = session.status();
    if session.announce(neighbour.routes.clone()).await.is_err() {
        return false;
    }
    let told = tokio::select! {
        () = log_until_closed(&mut status) => false,
        () = told_to_stop(stopped) => true,
    };
    if told && session.shutdown().await.is_ok() {
        // An error means that the session is gone, which is what is waited for.
        let _ = status.wait_for(|status| status.state == State::Closed).await;
    }
    told
}

/// Logs what changes in a session, until it is over.
async fn log_until_closed(status: &mut watch::Receiver<Status>) {
    let mut complete = false;
    loop {
        let now = status.borrow_and_update().clone();
        if now.state == State::Closed {
            return;
        }
        if !complete && now.end_of_rib == [true; 2] {
            complete = true;
            info!(ipv4 = now.ipv4_routes, ipv6 = now.ipv6_routes, "initial routes received");
        }
        if status.changed().await.is_err() {
            return;
        }
    }
}
