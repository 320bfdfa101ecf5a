//! Sessions over TCP sockets of the system, with keys that the kernel signs and verifies with.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use cidr::IpCidr;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::sleep;
use tracing::{Span, debug, warn};
use wireseal_linux::{Error, KeyManager, StepReport, probe};
use wireseal_tcp_ao::key_chain::KeyChain;

use super::calls::{Caller, Connection, by_local_address};
use super::keep::{Connect, Source};
use super::tasks::Tasks;
use super::{RunError, Settled, peer_span, warn_of_no_protection};
use crate::config::Neighbour;
use crate::kernel::{self, Call, ListenError, Listener, Protection};
use crate::protection::{KeyLog, now};

/// Wait after the system could not give a connection away, for want of descriptors or memory.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// Starts a task for each neighbour, once the kernel is known to have what their keys need.
pub(super) fn start(neighbours: &[Neighbour], tasks: &mut Tasks) -> Result<Settled, RunError> {
    let protections = neighbours.iter().enumerate().map(|(index, neighbour)| protect(index, neighbour));
    let protections = protections.collect::<Result<Vec<Protection>, RunError>>()?;
    let mut callers = Vec::new();
    for (index, (neighbour, protection)) in neighbours.iter().zip(&protections).enumerate() {
        let span = peer_span(neighbour);
        let source = if neighbour.passive {
            let (caller, calls) = Caller::new(index, neighbour, &span);
            callers.push(caller);
            Source::Accept(calls)
        } else {
            let local = neighbour.local_address;
            let remote = SocketAddr::from((neighbour.address, neighbour.port));
            // An address that is not here would show only in the log otherwise.
            let any_port = SocketAddr::from((local, 0));
            kernel::bind(any_port).map_err(|error| RunError::socket("TCP", any_port, index, error))?;
            Source::Connect(Box::new(Connector { local, remote, protection: protection.clone() }))
        };
        match protection {
            Protection::TcpAo(manager, chain) => {
                let (mut log, chain) = (KeyLog::default(), Arc::clone(chain));
                let follow = manager.clone().run_reporting(move |step| {
                    log.changed(&chain, now());
                    log_step(&step);
                });
                tasks.spawn(span.clone(), follow);
            }
            Protection::TcpMd5(_) => warn!(parent: &span, "TCP-MD5 is weak: give this peer a key chain"),
            Protection::Nothing => warn_of_no_protection(neighbour, &span),
        }
        tasks.keep_session(span, neighbour.clone(), source);
    }
    for (local, callers) in by_local_address(callers) {
        let listener = listen(local, &callers, &protections)?;
        tasks.spawn(Span::none(), accept(listener, callers));
    }
    // What was written before a socket was closed is the kernel's to deliver.
    Ok(Box::pin(async {}))
}

/// What protects a neighbour's connections, if this kernel can.
fn protect(index: usize, neighbour: &Neighbour) -> Result<Protection, RunError> {
    let unsupported = |error| RunError::key(index, field_of_keys(neighbour), Box::new(error));
    let support = || probe().map_err(|error| unsupported(Error::from(error).into()));
    if let Some(chain) = &neighbour.key_chain {
        let support = support()?;
        if !support.tcp_ao {
            return Err(unsupported(Error::NotSupported.into()));
        }
        let mut algorithms = chain.keys().iter().map(|key| key.mkt().parameters().algorithm);
        if let Some(missing) = algorithms.find(|algorithm| !support.supports(*algorithm)) {
            return Err(unsupported(Error::AlgorithmMissing(missing).into()));
        }
        let remote = IpCidr::new_host(neighbour.address);
        let manager = KeyManager::new(KeyChain::clone(chain), remote, None).map_err(unsupported)?;
        return Ok(Protection::TcpAo(manager, Arc::clone(chain)));
    }
    let Some(secret) = &neighbour.md5_secret else { return Ok(Protection::Nothing) };
    if !support()?.md5 {
        let missing = io::Error::other("this kernel has no TCP-MD5 (it needs CONFIG_TCP_MD5SIG)");
        return Err(unsupported(Error::from(missing).into()));
    }
    Ok(Protection::TcpMd5(Arc::clone(secret)))
}

/// The field of a neighbour's configuration that says which keys it has.
fn field_of_keys(neighbour: &Neighbour) -> &'static str {
    if neighbour.key_chain.is_some() { "key-chain" } else { "md5-secret-file" }
}

/// Opens connections to one neighbour over sockets of the system.
struct Connector {
    local: IpAddr,
    remote: SocketAddr,
    protection: Protection,
}

impl Connect for Connector {
    fn connect(&self) -> BoxFuture<'_, io::Result<Connection>> {
        async {
            let stream = kernel::connect(self.local, self.remote, &self.protection).await?;
            Ok(Connection::new(self.remote, stream, Span::none()))
        }
        .boxed()
    }
}

fn listen(local: SocketAddr, callers: &[Caller], protections: &[Protection]) -> Result<Listener, RunError> {
    let peer = |caller: &Caller| (caller.neighbour.address, protections[caller.index].clone());
    Listener::bind(local, callers.iter().map(peer).collect()).map_err(|error| match error {
        ListenError::Socket(error) => RunError::socket("TCP", local, callers[0].index, error),
        ListenError::Peer { index, error } => {
            let Caller { index, neighbour, .. } = &callers[index];
            RunError::key(*index, field_of_keys(neighbour), error)
        }
    })
}

/// Hands each connection to the neighbour that it comes from.
async fn accept(mut listener: Listener, callers: Vec<Caller>) {
    loop {
        match listener.accept().await {
            Ok(Call { peer, remote, stream }) => {
                if let Err(stream) = callers[peer].hand_over(remote, stream, Span::none()) {
                    stream.reset();
                }
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Says what has been done to the keys of a neighbour's sockets.
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
