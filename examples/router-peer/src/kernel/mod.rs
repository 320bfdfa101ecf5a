//! Sessions over the system's TCP sockets, protected by the kernel.

mod protection;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use async_trait::async_trait;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{Span, info, warn};
use wireseal_keys::Timestamp;
use wireseal_linux::{Error, KeyManager, TcpAoSocket};
use wireseal_tcp_ao::Counters;

use self::protection::{Managed, Protection, Refused, StepLog, counters, log_refused};
use crate::config::Neighbour;
use crate::connection::{Connection, Listener, Transport, Upkeep, cannot_open};
use speaker::message::Closed;

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
        let managed = protection.manage(&socket, Some(remote.ip()))?;
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
        // A chain that has no key yet can shut out its peer on a listening socket only. `take_over` turns away anything
        // that was faster.
        let is_managed = |(_, (_, protection)): &&Caller| matches!(protection, Protection::TcpAo(..));
        let managed = match callers.iter().find(is_managed) {
            Some((_, (_, protection))) => protection.manage(&socket, None).map_err(|error| {
                let is_about = |(_, (neighbour, _)): &&Caller| concerns(&error, neighbour);
                let (index, (neighbour, _)) = callers.iter().find(is_about).unwrap_or(&callers[0]);
                in_field(*index, neighbour, &error.into())
            })?,
            None => None,
        };
        if managed.is_some() && !callers.iter().all(|caller| is_managed(&caller)) {
            // The manager made the socket require TCP-AO of everyone; keys still require it of their own peers.
            TcpAoSocket::new(&socket).set_required(false)?;
        }
        let refused = Refused::default();
        Ok(Box::new(KernelListener { _managed: managed, socket, callers, refused }))
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
    refused: Refused,
}

#[async_trait]
impl Listener for KernelListener {
    /// Resets connections from other addresses, and those that are not signed but should be.
    async fn accept(&mut self) -> Result<(usize, Connection)> {
        loop {
            let accepted = timeout(CHECK, self.socket.accept()).await;
            log_refused(&self.socket, &mut self.refused);
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
    match protection.manage(&stream, None) {
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
    refused: Refused,
}

impl Watched {
    fn connection(remote: SocketAddr, stream: TcpStream, managed: Option<Managed>) -> Result<Connection> {
        let socket = TcpStream::from_std(stream.as_fd().try_clone_to_owned()?.into())?;
        let upkeep = Box::new(Self { managed, socket, refused: Refused::default() });
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
            log_refused(&self.socket, &mut self.refused);
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
