//! What protects connections on kernel sockets: TCP-AO, or TCP-MD5 for peers that are yet to migrate.

use std::mem::replace;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};
use cidr::IpCidr;
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{Instrument, debug, warn};
use wireseal_linux::{Error, KeyManager, StepReport, TcpAoSocket, probe};
use wireseal_tcp_ao::key_chain::KeyChain;
use wireseal_tcp_ao::{Counters, MasterKey};

use crate::config::Neighbour;
use crate::connection::peer_span;
use speaker::protection::{KeyLog, now};

/// What protects the connections with one peer.
#[derive(Clone)]
pub(super) enum Protection {
    /// The manager puts the keys of a chain on sockets; the watch tells when none may be sent with any more.
    TcpAo(KeyManager, watch::Receiver<bool>),
    /// TCP-MD5 (RFC 2385).
    TcpMd5(Arc<MasterKey>),
    Nothing,
}

impl Protection {
    /// What a neighbour is configured with, if this kernel can do it. A chain is followed as long as `tasks` are.
    pub(super) fn of(neighbour: &Neighbour, tasks: &mut JoinSet<()>) -> Result<Self> {
        if let Some(chain) = &neighbour.key_chain {
            let support = probe()?;
            ensure!(support.tcp_ao, Error::NotSupported);
            let mut algorithms = chain.keys().iter().map(|key| key.mkt().parameters().algorithm);
            if let Some(missing) = algorithms.find(|algorithm| !support.supports(*algorithm)) {
                return Err(Error::AlgorithmMissing(missing).into());
            }
            let remote = IpCidr::new_host(neighbour.address);
            let manager = KeyManager::new(KeyChain::clone(chain), remote, None)?;
            let (expired, is_expired) = watch::channel(false);
            let (chain, mut log) = (Arc::clone(chain), KeyLog::default());
            let follow = manager.clone().run_reporting(move |step| {
                log.has_changed(&chain, now());
                log_step(&step);
                expired.send_replace(step.expired);
            });
            tasks.spawn(follow.instrument(peer_span(neighbour)));
            return Ok(Self::TcpAo(manager, is_expired));
        }
        let Some(secret) = &neighbour.md5_secret else { return Ok(Self::Nothing) };
        ensure!(probe()?.md5, anyhow!("this kernel has no TCP-MD5 (it needs CONFIG_TCP_MD5SIG)"));
        warn!(parent: &peer_span(neighbour), "TCP-MD5 is weak: give this peer a key chain");
        Ok(Self::TcpMd5(Arc::clone(secret)))
    }

    /// Puts the secret of TCP-MD5 for a peer, if there is one, on a socket that is not connected.
    pub(super) fn set_md5_key(&self, socket: &TcpSocket, peer: SocketAddr) -> Result<(), Error> {
        match self {
            Self::TcpMd5(secret) => {
                TcpAoSocket::new(socket).set_md5_key(IpCidr::new_host(peer.ip()), None, secret)
            }
            Self::TcpAo(..) | Self::Nothing => Ok(()),
        }
    }
}

/// Logs what has been done to the keys of a neighbour's sockets.
fn log_step(step: &StepReport) {
    for socket in &step.sockets {
        for action in &socket.done {
            debug!(socket = socket.attachment, "keys changed: {action}");
        }
        for (action, error) in &socket.failed {
            match action {
                Some(action) => warn!(%error, "cannot {action}, trying again"),
                None => warn!(%error, "cannot read the keys of a connection, trying again"),
            }
        }
        for key in socket.taken_away() {
            warn!("the peer was still asking for the {key}: its keys or its clock are behind");
        }
    }
}

/// The segments that the kernel has refused on a socket by now.
#[derive(Default, PartialEq)]
pub(super) struct Refusals {
    bad: u64,
    key_not_found: u64,
    required: u64,
}

impl Refusals {
    /// Looks at the counters of a socket and logs them when they have grown.
    pub(super) fn warn_of_more<S: AsFd>(&mut self, socket: &S) {
        let Some(Counters { bad, key_not_found, required, .. }) = counters(socket) else { return };
        let before = replace(self, Self { bad, key_not_found, required });
        if *self != before {
            warn!(bad, key_not_found, required, "segments were refused: wrongly signed or unsigned");
        }
    }
}

/// What the kernel has counted on a socket, if it has TCP-AO.
pub(super) fn counters<S: AsFd>(socket: &S) -> Option<Counters> {
    TcpAoSocket::new(socket).info().ok().flatten().map(|info| info.counters)
}
