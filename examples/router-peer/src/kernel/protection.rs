//! How connections on kernel sockets are protected: with TCP-AO, or with TCP-MD5 until a peer has migrated.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use anyhow::{Result, ensure};
use cidr::IpCidr;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tracing::{Instrument, debug, warn};
use wireseal_linux::{Attachment, Error, KeyManager, ManagerError, StepReport, TcpAoSocket, probe};
use wireseal_tcp_ao::key_chain::KeyChain;
use wireseal_tcp_ao::{Counters, MasterKey};

use crate::config::Neighbour;
use crate::connection::peer_span;
use speaker::protection::{KeyChangeLog, now};

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
    /// The configured protection, if this kernel supports it. `tasks` keeps following a key chain.
    pub(super) fn of(neighbour: &Neighbour, tasks: &mut JoinSet<()>) -> Result<Self> {
        if let Some(chain) = &neighbour.key_chain {
            let support = probe()?;
            ensure!(support.tcp_ao, Error::NotSupported);
            let mut algorithms = chain.keys().iter().map(|key| key.mkt().parameters().algorithm);
            if let Some(missing) = algorithms.find(|algorithm| !support.supports(*algorithm)) {
                return Err(Error::AlgorithmMissing(missing).into());
            }
            let manager = KeyManager::new(KeyChain::clone(chain), IpCidr::new_host(neighbour.address), None)?;
            let (logged, mut log) = (Arc::clone(chain), KeyChangeLog::default());
            let follow = manager.clone().run_reporting(move |step| {
                log.has_changed(&logged, now());
                log_step(&step);
            });
            tasks.spawn(follow.instrument(peer_span(neighbour)));
            return Ok(Self::TcpAo(manager, Arc::clone(chain)));
        }
        let Some(secret) = &neighbour.md5_secret else { return Ok(Self::Nothing) };
        ensure!(probe()?.md5, "this kernel has no TCP-MD5 (it needs CONFIG_TCP_MD5SIG)");
        warn!(parent: &peer_span(neighbour), "TCP-MD5 is weak: give this peer a key chain");
        Ok(Self::TcpMd5(Arc::clone(secret)))
    }

    /// Has the manager install the chain's keys on a socket for as long as the attachment is kept.
    pub(super) fn manage(&self, socket: &impl AsFd) -> Result<Option<Managed>, ManagerError> {
        let Self::TcpAo(manager, chain) = self else { return Ok(None) };
        Ok(Some((manager.attach(socket, now())?, Arc::clone(chain))))
    }

    /// Installs the TCP-MD5 secret for a peer, if there is one, on a socket that is not connected yet.
    pub(super) fn set_md5_key(&self, socket: &TcpSocket, peer: SocketAddr) -> Result<(), Error> {
        let Self::TcpMd5(secret) = self else { return Ok(()) };
        TcpAoSocket::new(socket).set_md5_key(IpCidr::new_host(peer.ip()), None, secret)
    }
}

/// Logs what the manager did to the keys of a neighbour's sockets.
fn log_step(step: &StepReport) {
    for socket in &step.sockets {
        for action in &socket.done {
            debug!(socket = socket.attachment, "keys changed: {action}");
        }
        for (action, error) in &socket.failed {
            let action = action.as_ref().map_or("read the keys".to_owned(), ToString::to_string);
            warn!(%error, "cannot {action}, trying again");
        }
        for key in socket.taken_away() {
            warn!("the peer was still asking for the {key}: its keys or its clock are behind");
        }
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
