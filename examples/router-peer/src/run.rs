//! Runs a configuration until it is told to stop.

mod keep;
mod quic;

use std::any::Any;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use smoltcp::phy::Medium;
use smoltcp::socket::tcp::CongestionControl;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{Instrument, info, info_span, warn};
use wireseal_tcp_ao::PeerError;
use wireseal_tcp_ao::key_chain::KeyChain;

use self::keep::{Source, keep_session, told_to_stop};
use crate::bgp::session::SessionConfig;
use crate::bgp::update::Export;
use crate::config::{Config, Neighbour, Transport, TransportKind};
use crate::link::LinkDevice;
use crate::protection::{self, Protected, protect};
use crate::stack::{Stack, StackConfig, TcpListener, TcpStream};
use crate::transport::memory::wire;
use crate::transport::{OpenError, frame_mtu};

/// How long sessions may take to say goodbye.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why a checked configuration could not be started.
#[derive(Debug)]
pub enum RunError {
    /// The transport.
    Transport(OpenError),
    /// The TCP stack.
    Stack(io::Error),
    /// A UDP socket.
    Socket {
        /// The field of the configuration that is to blame.
        field: String,
        /// Its address.
        address: SocketAddr,
        /// What the operating system said.
        error: io::Error,
    },
    /// Neighbours whose keys cannot be told apart.
    Peers(PeerError),
    /// This system has no such transport.
    Unsupported(TransportKind),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport(error) => error.fmt(f),
            Self::Stack(error) => write!(f, "cannot start the TCP stack: {error}"),
            Self::Socket { field, address, error } => {
                write!(f, "{field}: cannot open UDP socket {address}: {error}")
            }
            Self::Peers(error) => error.fmt(f),
            Self::Unsupported(kind) => write!(f, "this system has no {kind:?} transport"),
        }
    }
}

impl std::error::Error for RunError {}

/// What must live as long as the link does.
type Guard = Box<dyn Any + Send>;

/// Runs all neighbours of a configuration until `stop` resolves, then ends their sessions in order.
///
/// # Errors
/// [`RunError`] when the transport or the stack cannot be started; nothing is left running then.
///
/// # Panics
/// When called outside a tokio runtime.
pub async fn run(config: Config, seed: u64, stop: impl Future<Output = ()>) -> Result<(), RunError> {
    let mut tasks = JoinSet::new();
    let (stopping, stopped) = watch::channel(false);
    let (mut stacks, mut sockets, mut guard) = (Vec::new(), Vec::new(), None);
    if let Some(tls) = &config.tls {
        sockets = quic::start(tls, &config.neighbours, &stopped, &mut tasks)?;
    } else {
        let (device, mirror, held) = open(&config.transport)?;
        guard = Some(held);
        stacks.push(start_router(device, &config.transport, &config.neighbours, seed, &stopped, &mut tasks)?);
        if let Some(device) = mirror {
            let (transport, neighbours) = mirrored(&config);
            stacks.push(start_router(device, &transport, &neighbours, seed ^ 1, &stopped, &mut tasks)?);
        }
    }
    stop.await;
    info!("stopping");
    stopping.send_replace(true);
    let ended = async {
        while tasks.join_next().await.is_some() {}
        for stack in &stacks {
            stack.idle().await;
        }
    };
    if timeout(FAREWELL, ended).await.is_err() {
        warn!("not all peers took leave in time");
    }
    // QUIC closes connections that never had a session too, and waits whether a peer that is not there still answers.
    let closed = async {
        for socket in &sockets {
            socket.wait_idle().await;
        }
    };
    let _ = timeout(FAREWELL, closed).await;
    drop(guard);
    Ok(())
}

type Opened = (LinkDevice, Option<LinkDevice>, Guard);

fn open(transport: &Transport) -> Result<Opened, RunError> {
    match transport.kind {
        TransportKind::Memory => {
            let (device, mirror, wire) = wire(Medium::Ip, transport.mtu.into(), 0);
            Ok((device, Some(mirror), Box::new(wire)))
        }
        TransportKind::Tun => open_tun(transport, Medium::Ip),
        TransportKind::Tap => open_tun(transport, Medium::Ethernet),
        TransportKind::Unix => open_unix(transport),
        TransportKind::Quic => unreachable!("QUIC carries no frames"),
    }
}

#[cfg(target_os = "linux")]
fn open_tun(transport: &Transport, medium: Medium) -> Result<Opened, RunError> {
    let (device, port) = LinkDevice::new(medium, frame_mtu(medium, transport.mtu.into()));
    let name = transport.device.as_deref().unwrap_or_default();
    let tun = crate::transport::tun::TunTransport::open(port, medium, transport.mtu, name);
    Ok((device, None, Box::new(tun.map_err(RunError::Transport)?)))
}

#[cfg(not(target_os = "linux"))]
fn open_tun(transport: &Transport, _medium: Medium) -> Result<Opened, RunError> {
    Err(RunError::Unsupported(transport.kind))
}

#[cfg(unix)]
fn open_unix(transport: &Transport) -> Result<Opened, RunError> {
    let mtu = frame_mtu(Medium::Ethernet, transport.mtu.into());
    let (device, port) = LinkDevice::new(Medium::Ethernet, mtu);
    let (Some(local), Some(peer)) = (&transport.local_path, &transport.peer_path) else {
        return Err(RunError::Unsupported(transport.kind));
    };
    let unix = crate::transport::unix::UnixTransport::open(port, mtu, local, peer);
    Ok((device, None, Box::new(unix.map_err(RunError::Transport)?)))
}

#[cfg(not(unix))]
fn open_unix(transport: &Transport) -> Result<Opened, RunError> {
    Err(RunError::Unsupported(transport.kind))
}

/// The other ends of all neighbours, for a wire in memory.
fn mirrored(config: &Config) -> (Transport, Vec<Neighbour>) {
    let mut transport = config.transport.clone();
    transport.addresses = config.neighbours.iter().map(|neighbour| IpNet::from(neighbour.address)).collect();
    transport.gateways.clear();
    let neighbours = config.neighbours.iter().map(|neighbour| {
        let SessionConfig { export, router_id, hold_time } = neighbour.session;
        let (next_hop_ipv4, next_hop_ipv6) = match neighbour.address {
            IpAddr::V4(address) => (Some(address), None),
            IpAddr::V6(address) => (None, Some(address)),
        };
        let export =
            Export { local_as: export.peer_as, peer_as: export.local_as, next_hop_ipv4, next_hop_ipv6 };
        Neighbour {
            name: format!("{} (played)", neighbour.name),
            address: neighbour.local_address,
            local_address: neighbour.address,
            passive: !neighbour.passive,
            session: SessionConfig { export, router_id: next_identifier(router_id), hold_time },
            key_chain: neighbour.key_chain.as_deref().map(protection::mirrored).map(Arc::new),
            routes: Arc::default(),
            ..neighbour.clone()
        }
    });
    (transport, neighbours.collect())
}

/// Any identifier but the own one.
fn next_identifier(id: std::net::Ipv4Addr) -> std::net::Ipv4Addr {
    std::net::Ipv4Addr::from(u32::from(id).checked_add(1).unwrap_or(1))
}

/// Starts one router: its stack, and a task for each neighbour.
fn start_router(
    device: LinkDevice,
    transport: &Transport,
    neighbours: &[Neighbour],
    seed: u64,
    stopped: &watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) -> Result<Stack<Protected>, RunError> {
    let [a, b, c, d, e, ..] = seed.to_be_bytes();
    let config = StackConfig {
        // The first octet marks an address as unicast and locally administered.
        hardware_address: [2, a, b, c, d, e],
        addresses: transport.addresses.clone(),
        gateways: transport.gateways.clone(),
        congestion_control: match transport.kind {
            TransportKind::Memory => CongestionControl::None,
            _ => CongestionControl::Reno,
        },
        seed,
    };
    let arrivals = device.arrivals();
    let protected: Vec<(&Neighbour, &Arc<KeyChain>)> =
        neighbours.iter().filter_map(|neighbour| Some((neighbour, neighbour.key_chain.as_ref()?))).collect();
    let peers = protected.iter().map(|(neighbour, chain)| {
        let mkts = chain.mkts(protection::now());
        protection::peer(neighbour.local_address, neighbour.address, mkts)
    });
    let device = protect(device, peers.collect()).map_err(RunError::Peers)?;
    let stack = Stack::start(device, arrivals, &config).map_err(RunError::Stack)?;
    for (index, (neighbour, chain)) in protected.iter().enumerate() {
        let span = info_span!("peer", name = %neighbour.name);
        let follow = protection::follow_lifetimes(stack.clone(), index, KeyChain::clone(chain));
        let mut stopped = stopped.clone();
        let task = async move {
            tokio::select! {
                () = follow => {}
                () = told_to_stop(&mut stopped) => {}
            }
        };
        tasks.spawn(task.instrument(span));
    }
    let mut calls: Vec<Call> = Vec::new();
    for neighbour in neighbours {
        let span = info_span!("peer", name = %neighbour.name);
        if neighbour.key_chain.is_none() {
            warn!(parent: &span, "no key chain: this session is not protected");
        }
        let source = if neighbour.passive {
            let (sender, receiver) = mpsc::channel(1);
            calls.push(Call { neighbour: neighbour.clone(), sender });
            Source::Accept(receiver)
        } else {
            Source::Connect(stack.clone())
        };
        tasks.spawn(keep_session(source, neighbour.clone(), stopped.clone()).instrument(span));
    }
    let mut ports: Vec<u16> = calls.iter().map(|call| call.neighbour.port).collect();
    ports.sort_unstable();
    ports.dedup();
    for port in ports {
        let listener = stack.listen(None, port).map_err(RunError::Stack)?;
        let calls = calls.iter().filter(|call| call.neighbour.port == port).cloned().collect();
        tasks.spawn(accept(listener, calls, stopped.clone()));
    }
    Ok(stack)
}

/// A neighbour that calls, and the task that waits for its call.
#[derive(Clone)]
struct Call {
    neighbour: Neighbour,
    sender: mpsc::Sender<TcpStream>,
}

/// Hands each connection to the neighbour that it comes from.
async fn accept(mut listener: TcpListener, calls: Vec<Call>, mut stopped: watch::Receiver<bool>) {
    loop {
        let stream = tokio::select! {
            stream = listener.accept() => stream,
            () = told_to_stop(&mut stopped) => return,
        };
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => {
                warn!(%error, "cannot accept connections any more");
                return;
            }
        };
        let (local, remote) = (stream.local_addr(), stream.peer_addr());
        let call = calls.iter().find(|call| {
            local.is_some_and(|local| local.ip() == call.neighbour.local_address)
                && remote.is_some_and(|remote| remote.ip() == call.neighbour.address)
        });
        match call {
            // While a session is up one more call waits for its end; others are turned away.
            Some(call) => {
                if let Err(error) = call.sender.try_send(stream) {
                    error.into_inner().abort();
                }
            }
            None => {
                warn!(?remote, "not a configured peer");
                stream.abort();
            }
        }
    }
}
