//! Sessions over links that carry frames: the own TCP stack, with Wireseal under it.

use std::any::Any;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ipnet::IpNet;
use smoltcp::phy::Medium;
use smoltcp::socket::tcp::CongestionControl;
use tracing::{Span, warn};
use wireseal_tcp_ao::key_chain::KeyChain;

use super::calls::{Caller, Connection, by_local_address};
use super::keep::{Connect, Source};
use super::tasks::Tasks;
use super::{RunError, Settled, peer_span, warn_of_no_protection};
use crate::bgp::session::SessionConfig;
use crate::bgp::update::Export;
use crate::config::{Config, Neighbour, Transport, TransportKind};
use crate::link::LinkDevice;
use crate::protection::{self, Protected, protect};
use crate::stack::{Stack, StackConfig, TcpListener};
use crate::transport::frame_mtu;
use crate::transport::memory::wire;

/// What must live as long as the link does.
type Guard = Box<dyn Any + Send>;

/// Starts the stack of a configuration, and on a wire in memory that of its neighbours too.
pub(super) fn start(config: &Config, seed: u64, tasks: &mut Tasks) -> Result<Settled, RunError> {
    let (device, mirror, guard) = open(&config.transport)?;
    let mut stacks = vec![start_router(device, &config.transport, &config.neighbours, seed, tasks)?];
    if let Some(device) = mirror {
        let (transport, neighbours) = mirrored(config);
        stacks.push(start_router(device, &transport, &neighbours, seed ^ 1, tasks)?);
    }
    Ok(Box::pin(async move {
        for stack in &stacks {
            stack.idle().await;
        }
        drop(guard);
    }))
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
        TransportKind::Quic | TransportKind::Kernel => unreachable!("it carries no frames"),
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
fn next_identifier(id: Ipv4Addr) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(id).checked_add(1).unwrap_or(1))
}

/// Starts one router: its stack, and a task for each neighbour.
fn start_router(
    device: LinkDevice,
    transport: &Transport,
    neighbours: &[Neighbour],
    seed: u64,
    tasks: &mut Tasks,
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
        let follow = protection::follow_lifetimes(stack.clone(), index, KeyChain::clone(chain));
        tasks.spawn(peer_span(neighbour), follow);
    }
    let mut callers = Vec::new();
    for (index, neighbour) in neighbours.iter().enumerate() {
        let span = peer_span(neighbour);
        warn_of_no_protection(neighbour, &span);
        let source = if neighbour.passive {
            let (caller, calls) = Caller::new(index, neighbour, &span);
            callers.push(caller);
            Source::Accept(calls)
        } else {
            let remote = SocketAddr::from((neighbour.address, neighbour.port));
            Source::Connect(Box::new(Connector {
                stack: stack.clone(),
                local: neighbour.local_address,
                remote,
            }))
        };
        tasks.keep_session(span, neighbour.clone(), source);
    }
    for (local, callers) in by_local_address(callers) {
        let listener = stack.listen(Some(local.ip()), local.port()).map_err(RunError::Stack)?;
        tasks.spawn(Span::none(), accept(listener, callers));
    }
    Ok(stack)
}

/// Opens connections to one neighbour over the own stack.
struct Connector {
    stack: Stack<Protected>,
    local: IpAddr,
    remote: SocketAddr,
}

impl Connect for Connector {
    fn connect(&self) -> BoxFuture<'_, io::Result<Connection>> {
        async {
            let stream = self.stack.connect(self.remote, Some(self.local)).await?;
            Ok(Connection::new(self.remote, stream, Span::none()))
        }
        .boxed()
    }
}

/// Hands each connection to the neighbour that it comes from.
async fn accept(mut listener: TcpListener, callers: Vec<Caller>) {
    loop {
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(error) => return warn!(%error, "cannot accept connections any more"),
        };
        // Without an address the connection is gone already.
        let Some(remote) = stream.peer_addr() else { continue };
        let caller = callers.iter().find(|caller| caller.neighbour.address == remote.ip());
        let Some(caller) = caller else {
            warn!(%remote, "not a configured peer");
            stream.abort();
            continue;
        };
        if let Err(stream) = caller.hand_over(remote, stream, Span::none()) {
            stream.abort();
        }
    }
}
