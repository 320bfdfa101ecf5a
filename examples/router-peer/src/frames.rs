//! Sessions over links that carry frames: Wireseal runs under this process's own TCP stack.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use smoltcp::socket::tcp::CongestionControl;
use tokio::task::JoinSet;
use tracing::{Instrument, Span, warn};
use wireseal_keys::{KeyChain, Timestamp};

use crate::config::{self, Config, Neighbour, TransportKind};
use crate::connection::{Connection, Listener, Transport, peer_span};
use speaker::link::{Link, Wire};
use speaker::message::Export;
use speaker::protection;
use speaker::session::SessionConfig;
use speaker::stack::{Stack, StackConfig, TcpListener, TcpStream};

/// A stack on a link.
struct Frames {
    stack: Stack,
    neighbours: Vec<Neighbour>,
    _upkeep: JoinSet<()>,
}

/// A router and its neighbours.
type Router = (Arc<dyn Transport>, Vec<Neighbour>);

/// Starts the router, and with the memory transport also one that plays all its neighbours.
pub(crate) fn start(Config { transport, neighbours, .. }: &Config, seed: u64) -> Result<Vec<Router>> {
    let link = match transport.kind {
        TransportKind::Memory => {
            let wire = Wire::new(transport.mtu.into(), 0);
            let others = neighbours.iter().map(mirrored).collect::<Result<Vec<_>>>()?;
            let addresses = neighbours.iter().map(|neighbour| neighbour.address.into()).collect();
            let other = config::Transport { addresses, gateways: Vec::new(), ..transport.clone() };
            return Ok(vec![
                router(wire.a, transport, neighbours, seed)?,
                router(wire.b, &other, &others, seed ^ 1)?,
            ]);
        }
        #[cfg(target_os = "linux")]
        TransportKind::Tun => {
            let device = transport.device.as_deref().context("the configuration was checked")?;
            speaker::tun::open(transport.mtu, device)?
        }
        kind => bail!("this system has no {kind:?} transport"),
    };
    Ok(vec![router(link, transport, neighbours, seed)?])
}

/// The neighbour's own view of this router.
fn mirrored(neighbour: &Neighbour) -> Result<Neighbour> {
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
}

fn router(link: Link, transport: &config::Transport, neighbours: &[Neighbour], seed: u64) -> Result<Router> {
    let [a, b, c, d, e, ..] = seed.to_be_bytes();
    let config = StackConfig {
        // The first octet makes the address unicast and locally administered.
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
        protection::peer(neighbour.local_address, neighbour.address, chain.mkts(Timestamp::now()))
    });
    let stack = Stack::start(link, peers.collect(), &config)?;
    let mut upkeep = JoinSet::new();
    for (index, (neighbour, chain)) in protected.iter().enumerate() {
        let follow = protection::follow_lifetimes(stack.clone(), index, KeyChain::clone(chain));
        let refusals = protection::log_refusals(stack.clone(), index);
        upkeep.spawn(follow.instrument(peer_span(neighbour)));
        upkeep.spawn(refusals.instrument(peer_span(neighbour)));
    }
    let neighbours = neighbours.to_vec();
    Ok((Arc::new(Frames { stack, neighbours: neighbours.clone(), _upkeep: upkeep }), neighbours))
}

fn connection(remote: SocketAddr, stream: TcpStream) -> Connection {
    Connection { remote, stream: Box::new(stream), span: Span::none(), upkeep: Box::new(()) }
}

#[async_trait]
impl Transport for Frames {
    async fn connect(&self, neighbour: usize) -> Result<Connection> {
        let neighbour = &self.neighbours[neighbour];
        let local = SocketAddr::new(neighbour.local_address, 0);
        let stream = self.stack.connect(neighbour.remote(), Some(local)).await?;
        Ok(connection(neighbour.remote(), stream))
    }

    fn listen(&self, local: SocketAddr, neighbours: &[usize]) -> Result<Box<dyn Listener>> {
        let listener = self.stack.listen(Some(local.ip()), local.port())?;
        let callers = neighbours.iter().map(|&index| (self.neighbours[index].address, index));
        Ok(Box::new(FramesListener { listener, callers: callers.collect() }))
    }

    async fn settled(&self) {
        self.stack.idle().await;
    }
}

struct FramesListener {
    listener: TcpListener,
    callers: Vec<(IpAddr, usize)>,
}

#[async_trait]
impl Listener for FramesListener {
    async fn accept(&mut self) -> Result<(usize, Connection)> {
        loop {
            let stream = self.listener.accept().await?;
            // No addresses: the connection is already gone.
            let Some([_, remote]) = stream.ends() else { continue };
            if let Some((_, neighbour)) = self.callers.iter().find(|(address, _)| *address == remote.ip()) {
                return Ok((*neighbour, connection(remote, stream)));
            }
            warn!(%remote, "not a configured peer");
            stream.abort();
        }
    }
}
