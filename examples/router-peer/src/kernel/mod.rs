//! Sessions over TCP sockets of the system, which the kernel protects.

mod protection;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};
use tracing::{Span, info, warn};
use wireseal_linux::{Attachment, Managed, TcpAoSocket};
use wireseal_tcp_ao::Counters;

use self::protection::{Protection, Refusals, counters};
use crate::config::Neighbour;
use crate::connection::{BoxFuture, Connection, Listener, Stream, Transport, Upkeep, cannot_open};
use speaker::bgp::message::Closed;
use speaker::protection::now;

/// Connections that may wait to be accepted on one socket.
const BACKLOG: u32 = 64;
/// How often the counters of a socket are looked at.
const COUNTERS_CHECK: Duration = Duration::from_secs(5);

/// The neighbours, each with what protects its connections.
pub(crate) struct Kernel {
    neighbours: Vec<(Neighbour, Protection)>,
    _keys: JoinSet<()>,
}

impl Kernel {
    /// Finds out whether the kernel has what the neighbours need, and follows their key chains.
    pub(crate) fn new(neighbours: &[Neighbour]) -> Result<Self> {
        let mut keys = JoinSet::new();
        let mut protected = Vec::new();
        for (index, neighbour) in neighbours.iter().enumerate() {
            let protection = Protection::of(neighbour, &mut keys);
            let protection = protection.map_err(|error| in_field(index, neighbour, &error))?;
            if !neighbour.passive {
                // An address that is not here would show only in the log otherwise.
                let local = SocketAddr::new(neighbour.local_address, 0);
                bind(local).map_err(|error| cannot_open("TCP", local, index, error))?;
            }
            protected.push((neighbour.clone(), protection));
        }
        Ok(Self { neighbours: protected, _keys: keys })
    }
}

/// What the field of a neighbour's configuration with its keys asks of the kernel in vain.
fn in_field(index: usize, neighbour: &Neighbour, error: &anyhow::Error) -> anyhow::Error {
    let field = if neighbour.key_chain.is_some() { "key-chain" } else { "md5-secret-file" };
    anyhow!("peer[{index}].{field}: {error:#}")
}

/// A socket with an address of this machine; with port 0 it is one to connect from.
fn bind(local: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if local.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if local.port() != 0 {
        // Connections of an earlier run may still wait for their end.
        socket.set_reuseaddr(true)?;
    }
    socket.bind(local)?;
    Ok(socket)
}

impl Transport for Kernel {
    fn connect(&self, neighbour: usize) -> BoxFuture<'_, Result<Connection>> {
        let (neighbour, protection) = &self.neighbours[neighbour];
        Box::pin(async move {
            let remote = neighbour.remote();
            let socket = bind(SocketAddr::new(neighbour.local_address, 0))?;
            protection.set_md5_key(&socket, remote)?;
            if let Protection::TcpAo(manager, expired) = protection {
                let stream = Managed::new(socket, manager, now())?.connect(remote).await?;
                return Watched::connection(remote, stream, Some(expired));
            }
            Watched::connection(remote, socket.connect(remote).await?, None)
        })
    }

    fn listen(&self, local: SocketAddr, neighbours: &[usize]) -> Result<Box<dyn Listener>> {
        let socket = bind(local).map_err(|error| cannot_open("TCP", local, neighbours[0], error))?;
        let callers = neighbours.iter().map(|&index| (index, self.neighbours[index].clone()));
        let callers: Vec<Caller> = callers.collect();
        for (index, (neighbour, protection)) in &callers {
            let set = protection.set_md5_key(&socket, neighbour.remote());
            set.map_err(|error| in_field(*index, neighbour, &error.into()))?;
        }
        let socket =
            socket.listen(BACKLOG).map_err(|error| cannot_open("TCP", local, neighbours[0], error))?;
        // A chain may have no key yet, and only a socket that listens can be kept shut. Calls before it was are turned away
        // by `accepted`.
        let mut attachments = Vec::new();
        for (index, (neighbour, protection)) in &callers {
            let Protection::TcpAo(manager, _) = protection else { continue };
            let attachment = manager.attach(&socket, now());
            attachments.push(attachment.map_err(|error| in_field(*index, neighbour, &error.into()))?);
        }
        if !attachments.is_empty() && attachments.len() < callers.len() {
            // The managers had the socket require TCP-AO of all; keys require it of the peers that they are for.
            TcpAoSocket::new(&socket).set_required(false)?;
        }
        let mut look = interval(COUNTERS_CHECK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let refusals = Refusals::default();
        Ok(Box::new(KernelListener { _attachments: attachments, socket, callers, look, refusals }))
    }
}

type Caller = (usize, (Neighbour, Protection));

struct KernelListener {
    // First, because they hold the socket open too.
    _attachments: Vec<Attachment>,
    socket: TcpListener,
    callers: Vec<Caller>,
    look: Interval,
    refusals: Refusals,
}

impl Listener for KernelListener {
    /// Calls from other addresses are reset, as are those that are not signed but should be.
    fn accept(&mut self) -> BoxFuture<'_, Result<(usize, Connection)>> {
        Box::pin(async move {
            loop {
                let (stream, remote) = tokio::select! {
                    accepted = self.socket.accept() => accepted?,
                    _ = self.look.tick() => {
                        self.refusals.warn_of_more(&self.socket);
                        continue;
                    }
                };
                let caller = self.callers.iter().find(|(_, (neighbour, _))| neighbour.address == remote.ip());
                let Some((index, (_, protection))) = caller else {
                    stream.set_zero_linger()?;
                    warn!(%remote, "not a configured peer");
                    continue;
                };
                return Ok((*index, accepted(stream, remote, protection)?));
            }
        })
    }
}

/// Takes charge of a connection that was accepted with keys from the listening socket.
fn accepted(stream: TcpStream, remote: SocketAddr, protection: &Protection) -> Result<Connection> {
    let Protection::TcpAo(manager, expired) = protection else {
        return Watched::connection(remote, stream, None);
    };
    let socket = duplicate(&stream)?;
    match Managed::new(stream, manager, now()) {
        Ok(stream) => Watched::connection(remote, stream, Some(expired)),
        Err(error) => {
            socket.set_zero_linger()?;
            bail!("call from {remote} refused: {error}");
        }
    }
}

/// Another descriptor of a socket.
fn duplicate(socket: &impl AsFd) -> io::Result<TcpStream> {
    let socket = std::net::TcpStream::from(socket.as_fd().try_clone_to_owned()?);
    TcpStream::from_std(socket)
}

/// A connection, while a session uses it.
struct Watched {
    socket: TcpStream,
    expired: Option<watch::Receiver<bool>>,
    refusals: Refusals,
}

impl Watched {
    fn connection<S: Stream + AsFd + 'static>(
        remote: SocketAddr,
        stream: S,
        expired: Option<&watch::Receiver<bool>>,
    ) -> Result<Connection> {
        let (socket, expired) = (duplicate(&stream)?, expired.cloned());
        let upkeep = Box::new(Self { socket, expired, refusals: Refusals::default() });
        Ok(Connection { remote, stream: Box::new(stream), span: Span::none(), upkeep })
    }
}

impl Upkeep for Watched {
    /// Resets the connection when its key chain has run out: nothing can be signed any more.
    fn broken(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(expired) = &mut self.expired else { return std::future::pending().await };
            loop {
                tokio::select! {
                    Ok(_) = expired.wait_for(|expired| *expired) => break,
                    () = sleep(COUNTERS_CHECK) => self.refusals.warn_of_more(&self.socket),
                }
            }
            warn!("no key may be sent with: connection reset");
            // If it fails the connection ends in order, unheard.
            let _ = self.socket.set_zero_linger();
        })
    }

    fn over(&mut self, _closed: Option<Closed>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if self.expired.is_some()
                && let Some(counted) = counters(&self.socket)
            {
                let Counters { good, bad, key_not_found, required, dropped_icmp } = counted;
                info!(good, bad, key_not_found, required, dropped_icmp, "TCP-AO of the connection");
            }
        })
    }
}
