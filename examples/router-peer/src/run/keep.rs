//! Keeps a session with one neighbour, for as long as the router runs.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::calls::{Calls, Connection};
use super::tasks::told_to_stop;
use crate::bgp::session::{Session, State, Status};
use crate::config::Neighbour;

/// Wait between two attempts to connect (RFC 4271 section 10 suggests 120 s, which is long to watch).
const CONNECT_RETRY: Duration = Duration::from_secs(5);
/// How long one attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Opens connections to one neighbour.
pub(super) trait Connect: Send + Sync {
    /// May be cancelled at any time.
    fn connect(&self) -> BoxFuture<'_, io::Result<Connection>>;
}

/// Where the connection to a neighbour comes from.
pub(super) enum Source {
    Connect(Box<dyn Connect>),
    Accept(Calls),
}

/// Opens a session with a neighbour whenever there is none.
pub(super) async fn keep_session(
    mut source: Source,
    neighbour: Neighbour,
    mut stopped: watch::Receiver<bool>,
) {
    let connects = matches!(source, Source::Connect(_));
    let remote = SocketAddr::from((neighbour.address, neighbour.port));
    let mut trying = false;
    loop {
        if connects && !trying {
            trying = true;
            info!("connecting to {remote}");
        }
        let connection = tokio::select! {
            connection = open(&mut source) => connection,
            () = told_to_stop(&mut stopped) => return,
        };
        match connection {
            Ok(Some(connection)) => {
                trying = false;
                info!(remote = %connection.remote, "connected, waiting for the peer's OPEN");
                if follow(connection.start(neighbour.session), &neighbour, &mut stopped).await {
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

/// A new connection to a neighbour, or nothing when none will come any more.
async fn open(source: &mut Source) -> io::Result<Option<Connection>> {
    match source {
        Source::Connect(connector) => timeout(CONNECT_TIMEOUT, connector.connect())
            .await
            .map_err(|_| io::ErrorKind::TimedOut)?
            .map(Some),
        Source::Accept(calls) => Ok(calls.next().await),
    }
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
