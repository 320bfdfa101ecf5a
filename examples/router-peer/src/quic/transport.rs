//! QUIC for the neighbours of a configuration.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use async_trait::async_trait;
use quinn::{ConnectionError, VarInt};
use speaker::message::Closed;
use tokio::time::timeout;
use tracing::{Span, info, info_span, warn};
use wireseal_rustls::CountedKeys;

use super::connection::{Acceptor, Connector, QuicConnection, refused_certificate};
use super::fingerprint::Fingerprint;
use super::tls::{Tls, is_wireseal, suite_name};
use crate::config::Neighbour;
use crate::connection::{Connection, Listener, Transport, Upkeep, cannot_open, peer_span};

/// How long to wait for the peer to close the connection after this end has ended the session.
const FAREWELL: Duration = Duration::from_secs(1);

/// The neighbours, each with the socket to call it from.
pub(crate) struct Quic {
    tls: Tls,
    neighbours: Vec<(Neighbour, Option<Connector>)>,
}

fn pinned(neighbour: &Neighbour) -> Fingerprint {
    neighbour.certificate.expect("the configuration was checked")
}

impl Quic {
    /// Opens the sockets for outgoing connections.
    pub(crate) fn new(tls: Tls, neighbours: &[Neighbour]) -> Result<Self> {
        info!(certificate = %tls.fingerprint(), "peers know this router by");
        let with_connector = |(index, neighbour): (usize, &Neighbour)| {
            let local = SocketAddr::new(neighbour.local_address, 0);
            let connector = (!neighbour.passive)
                .then(|| Connector::new(local, neighbour.remote(), &tls, pinned(neighbour)))
                .transpose();
            let connector = connector.map_err(|error| cannot_open("UDP", local, index, error))?;
            Ok((neighbour.clone(), connector))
        };
        let neighbours = neighbours.iter().enumerate().map(with_connector).collect::<Result<_>>()?;
        Ok(Self { tls, neighbours })
    }
}

/// A connection whose log context shows how it is protected.
fn connection((connection, stream): QuicConnection, keys: &CountedKeys) -> Connection {
    let remote = connection.remote_address();
    let span = keys.suite().map_or_else(
        Span::none,
        |suite| info_span!("quic", %remote, suite = %suite_name(suite), wireseal = is_wireseal(suite)),
    );
    Connection { remote, stream: Box::new(stream), span, upkeep: Box::new(Closing(connection)) }
}

/// Closes a connection after its session.
struct Closing(quinn::Connection);

#[async_trait]
impl Upkeep for Closing {
    async fn over(&mut self, closed: Option<Closed>) {
        // CONNECTION_CLOSE would overtake a NOTIFICATION. The peer answers that one by closing.
        if let Some(Closed::Sent(_)) = closed {
            let _ = timeout(FAREWELL, self.0.closed()).await;
        }
        match self.0.close_reason() {
            None | Some(ConnectionError::LocallyClosed | ConnectionError::ApplicationClosed(_)) => {}
            Some(reason) => match refused_certificate(&reason) {
                Some(which) => warn!("{which}"),
                None => info!(%reason, "QUIC connection lost"),
            },
        }
        self.0.close(VarInt::default(), b"");
    }
}

#[async_trait]
impl Transport for Quic {
    async fn connect(&self, neighbour: usize) -> Result<Connection> {
        let connector = self.neighbours[neighbour].1.as_ref().context("this neighbour calls")?;
        Ok(connection(connector.connect().await?, &connector.keys))
    }

    fn listen(&self, local: SocketAddr, neighbours: &[usize]) -> Result<Box<dyn Listener>> {
        let callers = neighbours.iter().map(|&index| {
            let neighbour = &self.neighbours[index].0;
            (neighbour.address, pinned(neighbour), peer_span(neighbour))
        });
        let acceptor = Acceptor::bind(local, &self.tls, callers.collect());
        let acceptor = acceptor.map_err(|error| cannot_open("UDP", local, neighbours[0], error))?;
        Ok(Box::new(QuicListener { acceptor, neighbours: neighbours.to_vec() }))
    }

    /// Also waits for connections without a session to close, possibly in vain if the peer does not answer.
    async fn settled(&self) {
        for connector in self.neighbours.iter().filter_map(|(_, connector)| connector.as_ref()) {
            connector.endpoint.wait_idle().await;
        }
    }
}

struct QuicListener {
    acceptor: Acceptor,
    neighbours: Vec<usize>,
}

#[async_trait]
impl Listener for QuicListener {
    async fn accept(&mut self) -> Result<(usize, Connection)> {
        let (caller, opened) = self.acceptor.accept().await?;
        let opened = opened.context("no connection")?;
        Ok((self.neighbours[caller], connection(opened, self.acceptor.keys(caller))))
    }
}
