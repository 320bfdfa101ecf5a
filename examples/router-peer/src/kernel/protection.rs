//! How connections on kernel sockets are protected: with TCP-AO, or with TCP-MD5 until a peer has migrated.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;

use anyhow::{Result, ensure};
use cidr::IpCidr;
use tokio::net::TcpSocket;
use tracing::{Span, debug, warn};
use wireseal_keys::{KeyChain, Timestamp};
use wireseal_linux::{Attachment, Error, KeyManager, PeerName, StepReport, TcpAoSocket, probe};
use wireseal_tcp_ao::{Counters, MasterKey};

use crate::config::Neighbour;
use crate::connection::peer_span;
use speaker::protection::KeyChangeLog;

/// A socket's keys are managed while the attachment is kept.
pub(super) type Managed = (Attachment, Arc<KeyChain>);

/// How the connections with one peer are protected.
#[derive(Clone)]
pub(super) enum Protection {
    /// The manager installs the chain's keys on sockets.
    TcpAo(KeyManager, Arc<KeyChain>),
    /// TCP-MD5 (RFC 2385).
    TcpMd5(Arc<MasterKey>),
    Nothing,
}

impl Protection {
    /// The configured protection, if this kernel supports it. A key chain is given to the manager.
    pub(super) fn of(neighbour: &Neighbour, manager: &KeyManager) -> Result<Self> {
        if let Some(chain) = &neighbour.key_chain {
            let support = probe()?;
            ensure!(support.tcp_ao, Error::NotSupported);
            let mut algorithms = chain.keys().iter().map(|key| key.mkt().parameters().algorithm);
            if let Some(missing) = algorithms.find(|algorithm| !support.algorithms.contains(algorithm)) {
                return Err(Error::AlgorithmMissing(missing).into());
            }
            manager.set_peer(peer_name(neighbour), KeyChain::clone(chain))?;
            return Ok(Self::TcpAo(manager.clone(), Arc::clone(chain)));
        }
        let Some(secret) = &neighbour.md5_secret else { return Ok(Self::Nothing) };
        ensure!(probe()?.md5, "this kernel has no TCP-MD5 (it needs CONFIG_TCP_MD5SIG)");
        warn!(parent: &peer_span(neighbour), "TCP-MD5 is weak: give this peer a key chain");
        Ok(Self::TcpMd5(Arc::clone(secret)))
    }

    /// Has the manager install the chain's keys on a socket for as long as the attachment is kept; on one that will connect, with
    /// the address to which.
    pub(super) fn manage(
        &self,
        socket: &impl AsFd,
        remote: Option<IpAddr>,
    ) -> Result<Option<Managed>, Error> {
        let Self::TcpAo(manager, chain) = self else { return Ok(None) };
        let attachment = match remote {
            Some(remote) => manager.attach_connecting(socket, remote, Timestamp::now()),
            None => manager.attach(socket, Timestamp::now()),
        };
        Ok(Some((attachment?, Arc::clone(chain))))
    }

    /// Installs the TCP-MD5 secret for a peer, if there is one, on a socket that is not connected yet.
    pub(super) fn set_md5_key(&self, socket: &TcpSocket, peer: SocketAddr) -> Result<(), Error> {
        let Self::TcpMd5(secret) = self else { return Ok(()) };
        TcpAoSocket::new(socket).set_md5_key(IpCidr::new_host(peer.ip()), None, secret)
    }
}

/// A neighbour's name in its manager.
fn peer_name(neighbour: &Neighbour) -> PeerName {
    PeerName::new(IpCidr::new_host(neighbour.address))
}

/// Logs what a manager does, under the name of the neighbour that it concerns.
#[derive(Default)]
pub(super) struct StepLog(HashMap<PeerName, (Span, Arc<KeyChain>, KeyChangeLog)>);

impl StepLog {
    /// Adds a neighbour of the manager's.
    pub(super) fn add(&mut self, neighbour: &Neighbour, chain: &Arc<KeyChain>) {
        let new = (peer_span(neighbour), Arc::clone(chain), KeyChangeLog::default());
        self.0.insert(peer_name(neighbour), new);
    }

    pub(super) fn step(&mut self, step: &StepReport) {
        for (span, chain, log) in self.0.values_mut() {
            span.in_scope(|| log.has_changed(chain, Timestamp::now()));
        }
        for socket in &step.sockets {
            for action in &socket.done {
                let (socket, span) = (socket.attachment, self.span(Some(action.key().peer())));
                span.in_scope(|| debug!(socket, "keys changed: {action}"));
            }
            for (action, error) in &socket.failed {
                let peer = action.as_ref().map(|action| action.key().peer()).or(socket.peer);
                let action = action.as_ref().map_or("read the keys".to_owned(), ToString::to_string);
                self.span(peer).in_scope(|| warn!(%error, "cannot {action}, trying again"));
            }
            for key in socket.taken_away() {
                let warning =
                    || warn!("the peer was still asking for the {key}: its keys or its clock are behind");
                self.span(socket.peer).in_scope(warning);
            }
        }
    }

    fn span(&self, peer: Option<PeerName>) -> Span {
        peer.and_then(|peer| self.0.get(&peer)).map_or_else(Span::none, |(span, ..)| span.clone())
    }
}

/// Counters of refused segments: bad, key not found, required.
pub(super) type Refused = [u64; 3];

/// Logs the counters of a socket if they have changed.
pub(super) fn log_refused(socket: &impl AsFd, logged: &mut Refused) {
    let Some(Counters { bad, key_not_found, required, .. }) = counters(socket) else { return };
    if *logged != [bad, key_not_found, required] {
        *logged = [bad, key_not_found, required];
        warn!(bad, key_not_found, required, "segments were refused: wrongly signed or unsigned");
    }
}

/// A socket's TCP-AO counters, if it uses TCP-AO.
pub(super) fn counters(socket: &impl AsFd) -> Option<Counters> {
    TcpAoSocket::new(socket).info().ok().flatten().map(|info| info.counters)
}
