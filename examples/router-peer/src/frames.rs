//! Sessions over links that carry frames: this process's own TCP stack, with Wireseal under it.

use std::any::Any;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use ipnet::IpNet;
use smoltcp::phy::Medium;
use smoltcp::socket::tcp::CongestionControl;
use tokio::task::JoinSet;
use tracing::{Instrument, Span, warn};
use wireseal_tcp_ao::key_chain::KeyChain;

use crate::config::{self, Config, Neighbour, TransportKind};
use crate::connection::{BoxFuture, Connection, Listener, Transport, peer_span};
use speaker::bgp::session::SessionConfig;
use speaker::bgp::update::Export;
use speaker::link::{self, Link};
use speaker::protection;
use speaker::stack::{Stack, StackConfig, TcpListener, TcpStream};
use speaker::wire::Wire;

/// A stack on a link.
pub(crate) struct Frames {
    stack: Stack,
    neighbours: Vec<Neighbour>,
    _keys: JoinSet<()>,
    /// What moves the link's frames.
    _mover: Box<dyn Any + Send + Sync>,
}

/// A router and its neighbours.
type Router = (Arc<dyn Transport>, Vec<Neighbour>);

/// Starts the stack of a configuration, and on a wire in memory that of its neighbours too.
pub(crate) fn start(config: &Config, seed: u64) -> Result<Vec<Router>> {
    let Config { transport, neighbours, .. } = config;
    let mtu = usize::from(transport.mtu);
    let (link, mover): (Link, Box<dyn Any + Send + Sync>) = match transport.kind {
        TransportKind::Memory => {
            let wire = Arc::new(Wire::new(mtu, 0));
            let (other, others) = mirrored(config)?;
            let router = router(wire.a.clone(), Box::new(Arc::clone(&wire)), transport, neighbours, seed)?;
            let mirror = self::router(wire.b.clone(), Box::new(wire), &other, &others, seed ^ 1)?;
            return Ok(vec![router, mirror]);
        }
        #[cfg(target_os = "linux")]
        kind @ (TransportKind::Tun | TransportKind::Tap) => {
            let medium = if kind == TransportKind::Tun { Medium::Ip } else { Medium::Ethernet };
            let link = Link::new(medium, mtu);
            let device = transport.device.as_deref().context("the configuration was checked")?;
            (link.clone(), link::tun::open(link, transport.mtu, device)?)
        }
        TransportKind::Unix => {
            let link = Link::new(Medium::Ethernet, mtu);
            let paths = transport.local_path.as_deref().zip(transport.peer_path.as_deref());
            let (local, peer) = paths.context("the configuration was checked")?;
            (link.clone(), link::unix::open(link, local, peer)?)
        }
        kind => bail!("this system has no {kind:?} transport"),
    };
    Ok(vec![router(link, mover, transport, neighbours, seed)?])
}

/// The other ends of all neighbours, for a wire in memory.
fn mirrored(config: &Config) -> Result<(config::Transport, Vec<Neighbour>)> {
    let mut transport = config.transport.clone();
    transport.addresses = config.neighbours.iter().map(|neighbour| IpNet::from(neighbour.address)).collect();
    transport.gateways.clear();
    let mirrored = |neighbour: &Neighbour| {
        let SessionConfig { export, router_id, hold_time } = neighbour.session;
        let address = neighbour.address;
        let next_hops = [true, false].map(|is_ipv4| Some(address).filter(|own| own.is_ipv4() == is_ipv4));
        let export = Export { local_as: export.peer_as, peer_as: export.local_as, next_hops };
        // Any identifier but this router's.
        let router_id = Ipv4Addr::from(u32::from(router_id).checked_add(1).unwrap_or(1));
        let chain = neighbour.key_chain.as_deref().map(protection::mirrored_chain).transpose()?;
        Ok(Neighbour {
            name: format!("{} (played)", neighbour.name),
            address: neighbour.local_address,
            local_address: address,
            passive: !neighbour.passive,
            session: SessionConfig { export, router_id, hold_time },
            key_chain: chain.map(Arc::new),
            routes: Arc::default(),
            ..neighbour.clone()
        })
    };
    Ok((transport, config.neighbours.iter().map(mirrored).collect::<Result<_>>()?))
}

fn router(
    link: Link,
    mover: Box<dyn Any + Send + Sync>,
    transport: &config::Transport,
    neighbours: &[Neighbour],
    seed: u64,
) -> Result<Router> {
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
    let with_chain = |neighbour: &Neighbour| Some((neighbour.clone(), neighbour.key_chain.clone()?));
    let protected: Vec<(Neighbour, Arc<KeyChain>)> = neighbours.iter().filter_map(with_chain).collect();
    let peers = protected.iter().map(|(neighbour, chain)| {
        protection::peer(neighbour.local_address, neighbour.address, chain.mkts(protection::now()))
    });
    let stack = Stack::start(link, peers.collect(), &config)?;
    let mut keys = JoinSet::new();
    for (index, (neighbour, chain)) in protected.iter().enumerate() {
        let follow = protection::follow_lifetimes(stack.clone(), index, KeyChain::clone(chain));
        keys.spawn(follow.instrument(peer_span(neighbour)));
    }
    let frames = Frames { stack, neighbours: neighbours.to_vec(), _keys: keys, _mover: mover };
    Ok((Arc::new(frames), neighbours.to_vec()))
}

fn connection(remote: SocketAddr, stream: TcpStream) -> Connection {
    Connection { remote, stream: Box::new(stream), span: Span::none(), upkeep: Box::new(()) }
}

impl Transport for Frames {
    fn connect(&self, neighbour: usize) -> BoxFuture<'_, Result<Connection>> {
        let neighbour = &self.neighbours[neighbour];
        Box::pin(async move {
            let local = SocketAddr::new(neighbour.local_address, 0);
            let stream = self.stack.connect(neighbour.remote(), Some(local)).await?;
            Ok(connection(neighbour.remote(), stream))
        })
    }

    fn listen(&self, local: SocketAddr, neighbours: &[usize]) -> Result<Box<dyn Listener>> {
        let listener = self.stack.listen(Some(local.ip()), local.port())?;
        let callers = neighbours.iter().map(|&index| (self.neighbours[index].address, index));
        Ok(Box::new(FramesListener { listener, callers: callers.collect() }))
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.stack.idle())
    }
}

struct FramesListener {
    listener: TcpListener,
    callers: Vec<(IpAddr, usize)>,
}

impl Listener for FramesListener {
    fn accept(&mut self) -> BoxFuture<'_, Result<(usize, Connection)>> {
        Box::pin(async move {
            loop {
                let stream = self.listener.accept().await?;
                // Without an address the connection is gone already.
                let Some([_, remote]) = stream.ends() else { continue };
                match self.callers.iter().find(|(address, _)| *address == remote.ip()) {
                    Some((_, neighbour)) => return Ok((*neighbour, connection(remote, stream))),
                    None => {
                        warn!(%remote, "not a configured peer");
                        stream.abort();
                    }
                }
            }
        })
    }
}
