//! Sessions over the system's TCP sockets, protected by the kernel: with TCP-AO, or with TCP-MD5 until a peer has migrated.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use async_trait::async_trait;
use cidr::IpCidr;
use speaker::message::Closed;
use speaker::protection::{KeyChangeLog, RefusalLog};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{Span, debug, info, warn};
use wireseal_keys::{KeyChain, Timestamp};
use wireseal_linux::{Attachment, Error, KeyManager, PeerName, StepReport, TcpAoSocket, probe};
use wireseal_tcp_ao::{Counters, MasterKey};

use crate::config::Neighbour;
use crate::connection::{Connection, Listener, Transport, Upkeep, cannot_open, peer_span};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 64;
/// How often a socket's counters and its key chain are checked.
const CHECK: Duration = Duration::from_secs(1);

/// The neighbours and the protection of their connections.
pub(crate) struct Kernel {
    neighbours: Vec<(Neighbour, Protection)>,
    _keys: JoinSet<()>,
}

impl Kernel {
    /// Checks that the kernel supports what the neighbours need, and follows their key chains.
    pub(crate) fn new(neighbours: &[Neighbour]) -> Result<Self> {
        // One manager for all neighbours that call the same address.
        let mut managers: HashMap<SocketAddr, (KeyManager, StepLog)> = HashMap::new();
        let mut protected = Vec::new();
        for (index, neighbour) in neighbours.iter().enumerate() {
            let (manager, log) = managers.entry(neighbour.local()).or_default();
            let protection = Protection::of(neighbour, manager);
            let protection = protection.map_err(|error| in_field(index, neighbour, &error))?;
            if let Protection::TcpAo(_, chain) = &protection {
                log.add(neighbour, chain);
            }
            if !neighbour.passive {
                // Otherwise a wrong local address would show in the log only.
                let local = SocketAddr::new(neighbour.local_address, 0);
                bind(local).map_err(|error| cannot_open("TCP", local, index, error))?;
            }
            protected.push((neighbour.clone(), protection));
        }
        let mut keys = JoinSet::new();
        for (manager, mut log) in managers.into_values() {
            keys.spawn(manager.run_reporting(move |step| log.step(&step)));
        }
        Ok(Self { neighbours: protected, _keys: keys })
    }
}

/// Names the field with the neighbour's keys in an error.
fn in_field(index: usize, neighbour: &Neighbour, error: &anyhow::Error) -> anyhow::Error {
    let field = if neighbour.key_chain.is_some() { "key-chain" } else { "md5-secret-file" };
    anyhow!("peer[{index}].{field}: {error:#}")
}

/// A socket bound to an address of this machine. Port 0 is for outgoing connections.
fn bind(local: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if local.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of an earlier run may still be in TIME-WAIT.
    socket.set_reuseaddr(local.port() != 0)?;
    socket.bind(local)?;
    Ok(socket)
}

#[async_trait]
impl Transport for Kernel {
    async fn connect(&self, neighbour: usize) -> Result<Connection> {
        let (neighbour, protection) = &self.neighbours[neighbour];
        let remote = neighbour.remote();
        let socket = bind(SocketAddr::new(neighbour.local_address, 0))?;
        protection.set_md5_key(&socket, remote)?;
        let managed = protection.manage(&socket, Role::Connects(remote))?;
        Watched::connection(remote, socket.connect(remote).await?, managed)
    }

    fn listen(&self, local: SocketAddr, neighbours: &[usize]) -> Result<Box<dyn Listener>> {
        let cannot_open = |error: io::Error| cannot_open("TCP", local, neighbours[0], error);
        let socket = bind(local).map_err(cannot_open)?;
        let callers: Vec<Caller> =
            neighbours.iter().map(|&index| (index, self.neighbours[index].clone())).collect();
        for (index, (neighbour, protection)) in &callers {
            let set = protection.set_md5_key(&socket, neighbour.remote());
            set.map_err(|error| in_field(*index, neighbour, &error.into()))?;
        }
        let socket = socket.listen(BACKLOG).map_err(cannot_open)?;
        // Only on a socket that already listens can a peer whose chain has no key yet be shut out. `take_over` resets connections
        // that were faster.
        let is_managed = |(_, (_, protection)): &&Caller| matches!(protection, Protection::TcpAo(..));
        // Keys require TCP-AO from their own peers in any case.
        let role = if callers.iter().all(|caller| is_managed(&caller)) {
            Role::Listens
        } else {
            Role::ListensToOthers
        };
        let managed = match callers.iter().find(is_managed) {
            Some((_, (_, protection))) => protection.manage(&socket, role).map_err(|error| {
                let is_about = |(_, (neighbour, _)): &&Caller| concerns(&error, neighbour);
                let (index, (neighbour, _)) = callers.iter().find(is_about).unwrap_or(&callers[0]);
                in_field(*index, neighbour, &error.into())
            })?,
            None => None,
        };
        Ok(Box::new(KernelListener { _managed: managed, socket, callers, refused: RefusalLog::default() }))
    }
}

/// Whether an error is about a neighbour's keys.
fn concerns(error: &Error, neighbour: &Neighbour) -> bool {
    matches!(error, Error::Key { key, .. } if key.remote.contains(&neighbour.address))
}

type Caller = (usize, (Neighbour, Protection));

struct KernelListener {
    // Dropped first: the attachment keeps the socket open, too.
    _managed: Option<Managed>,
    socket: TcpListener,
    callers: Vec<Caller>,
    refused: RefusalLog,
}

#[async_trait]
impl Listener for KernelListener {
    /// Resets connections from other addresses, and those that are not signed but should be.
    async fn accept(&mut self) -> Result<(usize, Connection)> {
        loop {
            let accepted = timeout(CHECK, self.socket.accept()).await;
            self.refused.look(counters(&self.socket));
            let Ok(accepted) = accepted else { continue };
            let (stream, remote) = accepted?;
            let caller = self.callers.iter().find(|(_, (neighbour, _))| neighbour.address == remote.ip());
            let Some((index, (_, protection))) = caller else {
                stream.set_zero_linger()?;
                warn!(%remote, "not a configured peer");
                continue;
            };
            return Ok((*index, take_over(stream, remote, protection)?));
        }
    }
}

/// Takes over a connection that has inherited its keys from the listening socket.
fn take_over(stream: TcpStream, remote: SocketAddr, protection: &Protection) -> Result<Connection> {
    match protection.manage(&stream, Role::Connected) {
        Ok(managed) => Watched::connection(remote, stream, managed),
        Err(error) => {
            stream.set_zero_linger()?;
            bail!("call from {remote} refused: {error}");
        }
    }
}

/// A second descriptor of a connection's socket, and what manages its keys.
struct Watched {
    managed: Option<Managed>,
    socket: TcpStream,
    refused: RefusalLog,
}

impl Watched {
    fn connection(remote: SocketAddr, stream: TcpStream, managed: Option<Managed>) -> Result<Connection> {
        let socket = TcpStream::from_std(stream.as_fd().try_clone_to_owned()?.into())?;
        let upkeep = Box::new(Self { managed, socket, refused: RefusalLog::default() });
        Ok(Connection { remote, stream: Box::new(stream), span: Span::none(), upkeep })
    }
}

#[async_trait]
impl Upkeep for Watched {
    /// Resets the connection when its key chain has no key to send with.
    async fn broken(&mut self) {
        let Some((_, chain)) = &self.managed else { return std::future::pending().await };
        while chain.at(Timestamp::now()).preferred().is_some() {
            sleep(CHECK).await;
            self.refused.look(counters(&self.socket));
        }
        warn!("no key may be sent with: connection reset");
        let _ = self.socket.set_zero_linger();
    }

    async fn over(&mut self, _closed: Option<Closed>) {
        let counted = self.managed.as_ref().and_then(|_| counters(&self.socket));
        if let Some(Counters { good, bad, key_not_found, required, dropped_icmp }) = counted {
            info!(good, bad, key_not_found, required, dropped_icmp, "TCP-AO of the connection");
        }
    }
}

/// A socket's keys are managed while the attachment is kept.
type Managed = (Attachment, Arc<KeyChain>);

/// How the connections with one peer are protected.
#[derive(Clone)]
enum Protection {
    /// The manager installs the chain's keys on sockets.
    TcpAo(KeyManager, Arc<KeyChain>),
    /// TCP-MD5 (RFC 2385).
    TcpMd5(Arc<MasterKey>),
    Nothing,
}

impl Protection {
    /// The configured protection, if this kernel supports it. A key chain is given to the manager.
    fn of(neighbour: &Neighbour, manager: &KeyManager) -> Result<Self> {
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

    /// Lets the manager install the chain's keys on a socket for as long as the attachment is kept.
    fn manage(&self, socket: &impl AsFd, role: Role) -> Result<Option<Managed>, Error> {
        let Self::TcpAo(manager, chain) = self else { return Ok(None) };
        let attachment = match role {
            Role::Connects(remote) => manager.attach_connecting(socket, remote, Timestamp::now()),
            Role::Connected | Role::Listens => manager.attach(socket, Timestamp::now()),
            Role::ListensToOthers => manager.attach_mixed(socket, Timestamp::now()),
        };
        Ok(Some((attachment?, Arc::clone(chain))))
    }

    /// Installs the TCP-MD5 secret for a peer, if there is one, on a socket that is not connected yet.
    fn set_md5_key(&self, socket: &TcpSocket, peer: SocketAddr) -> Result<(), Error> {
        let Self::TcpMd5(secret) = self else { return Ok(()) };
        TcpAoSocket::new(socket).set_md5_key(IpCidr::new_host(peer.ip()), None, secret)
    }
}

/// What a socket does.
#[derive(Clone, Copy)]
enum Role {
    /// It will connect to this address.
    Connects(SocketAddr),
    Connected,
    /// It listens, to neighbours with TCP-AO alone.
    Listens,
    /// It listens, to neighbours without TCP-AO, too.
    ListensToOthers,
}

/// A neighbour's name in its manager.
fn peer_name(neighbour: &Neighbour) -> PeerName {
    PeerName::new(IpCidr::new_host(neighbour.address))
}

/// Logs what a manager does, under the name of the neighbour that it concerns.
#[derive(Default)]
struct StepLog(HashMap<PeerName, (Span, Arc<KeyChain>, KeyChangeLog)>);

impl StepLog {
    /// Adds a neighbour to the manager.
    fn add(&mut self, neighbour: &Neighbour, chain: &Arc<KeyChain>) {
        let new = (peer_span(neighbour), Arc::clone(chain), KeyChangeLog::default());
        self.0.insert(peer_name(neighbour), new);
    }

    fn step(&mut self, step: &StepReport) {
        for (span, chain, log) in self.0.values_mut() {
            span.in_scope(|| log.has_changed(chain, Timestamp::now()));
        }
        for socket in &step.sockets {
            for action in &socket.done {
                let (socket, span) = (socket.attachment, self.span(Some(action.key().peer())));
                span.in_scope(|| debug!(socket, "keys changed: {action}"));
            }
            for (action, error) in &socket.failed {
                let peer = action.as_ref().map(|action| action.key().peer()).or(socket.state.peer);
                let action = action.as_ref().map_or("read the keys".to_owned(), ToString::to_string);
                self.span(peer).in_scope(|| warn!(%error, "cannot {action}, trying again"));
            }
            if let Some(key) = socket.insists_on {
                let warning = || warn!("the peer goes on asking for the {key}, whose send lifetime is over");
                self.span(socket.state.peer).in_scope(warning);
            }
            for key in socket.taken_away() {
                let warning =
                    || warn!("the peer was still asking for the {key}: its keys or its clock are behind");
                self.span(socket.state.peer).in_scope(warning);
            }
        }
    }

    fn span(&self, peer: Option<PeerName>) -> Span {
        peer.and_then(|peer| self.0.get(&peer)).map_or_else(Span::none, |(span, ..)| span.clone())
    }
}

/// A socket's TCP-AO counters, if it uses TCP-AO.
fn counters(socket: &impl AsFd) -> Option<Counters> {
    TcpAoSocket::new(socket).info().ok().flatten().map(|info| info.counters)
}
