//! A userspace TCP stack: smoltcp with Wireseal under it, driven by a task, with streams that tokio reads and writes.
//!
//! ```text
//! TcpStream, TcpListener     what a BGP session reads and writes
//!   smoltcp                  TCP and IP, unchanged
//!     AuthenticatedDevice    Wireseal: signs what goes out, verifies what comes in
//!       Link                 queues of frames, to and from a transport
//! ```

mod shared;
mod stream;
mod tally;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use ipnet::IpNet;
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{Device as _, Medium};
use smoltcp::socket::tcp::{CongestionControl, Socket};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr, IpListenEndpoint};
use tokio::sync::Notify;
use tokio::time::sleep;
use wireseal_smoltcp::AuthenticatedDevice;
use wireseal_tcp_ao::Peer;
use wireseal_tcp_ao::shim::{HashKey, PeerSlot, ShimSlot, TracingObserver};

pub use self::shared::Device;
use self::shared::{Core, Shared};
pub use self::stream::{TcpListener, TcpStream};
pub use self::tally::Tally;
use crate::link::Link;

/// Connections that a device knows for each of its peers: the live one, ended ones, and handshakes.
const CONNECTIONS_PER_PEER: usize = 8;
/// How often [`Stack::idle`] looks.
const IDLE_CHECK: Duration = Duration::from_millis(10);
/// First port of the dynamic range (RFC 6335 §6).
const FIRST_DYNAMIC_PORT: u16 = 49152;

/// A stack's place on its link.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// Unicast address on an Ethernet link; unused on an IP link.
    pub hardware_address: [u8; 6],
    /// This router's addresses, at most eight, with the length of their networks.
    pub addresses: Vec<IpNet>,
    /// Routers for other networks: at most one for IPv4 and one for IPv6.
    pub gateways: Vec<IpAddr>,
    /// Congestion control of all connections: RFC 5681's on a network, none on a wire in memory.
    pub congestion_control: CongestionControl,
    /// Seed of initial sequence numbers and ports, to differ from start to start.
    pub seed: u64,
}

impl Default for StackConfig {
    /// For a wire in memory: no addresses yet, no congestion control, seed 0.
    fn default() -> Self {
        Self {
            hardware_address: [2, 0, 0, 0, 0, 1],
            addresses: Vec::new(),
            gateways: Vec::new(),
            congestion_control: CongestionControl::None,
            seed: 0,
        }
    }
}

/// A handle on a running stack, which stops when the last handle and the last stream are gone.
#[derive(Clone)]
pub struct Stack(Arc<Shared>);

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stack").finish_non_exhaustive()
    }
}

impl Stack {
    /// Starts a stack on a link, on the current tokio runtime. It protects connections with `peers`; all others pass
    /// unprotected.
    ///
    /// # Errors
    /// When two equally specific peers overlap and share key ids, or there are more addresses or gateways than smoltcp was built for.
    ///
    /// # Panics
    /// Outside a tokio runtime, and on an Ethernet link with a hardware address that is not unicast.
    pub fn start(link: Link, peers: Vec<Peer>, config: &StackConfig) -> Result<Self> {
        let table: Vec<_> = ShimSlot::many(peers.len() * CONNECTIONS_PER_PEER);
        let peers: Vec<_> = peers.into_iter().map(PeerSlot::from).collect();
        let longest = link.capabilities().max_transmission_unit;
        let buffers = [vec![0; longest], vec![0; longest]];
        let mut device: Device =
            AuthenticatedDevice::new(link.clone(), HashKey::random(), peers, table, buffers)?
                .with_observer(TracingObserver);
        let mut interface_config = Config::new(match link.medium {
            Medium::Ethernet => HardwareAddress::Ethernet(EthernetAddress(config.hardware_address)),
            Medium::Ip => HardwareAddress::Ip,
        });
        interface_config.random_seed = config.seed;
        let mut interface = Interface::new(interface_config, &mut device, Instant::ZERO);
        configure(&mut interface, config)?;
        let core = Core {
            device,
            interface,
            sockets: SocketSet::new(Vec::new()),
            finishing: Vec::new(),
            congestion_control: config.congestion_control,
            // The dynamic range has 2^14 ports; the seed picks where to begin, as RFC 6056 asks.
            next_port: FIRST_DYNAMIC_PORT | (config.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as u16,
        };
        let shared = Arc::new(Shared { core: core.into(), wake: Notify::new(), link });
        tokio::spawn(shared::drive(Arc::clone(&shared)));
        Ok(Self(shared))
    }

    /// Calls `f` with the device between two polls of the stack: to change keys and read counters. `f` must not block.
    pub fn with_device<R>(&self, f: impl FnOnce(&mut Device) -> R) -> R {
        let result = f(&mut self.0.core().device);
        self.0.wake.notify_one();
        result
    }

    /// What the device has counted so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.with_device(|device| Tally::of(device))
    }

    /// Opens a connection to `remote`, from `local` if given, whose port may be 0, and waits until it is established.
    ///
    /// # Errors
    /// `ConnectionRefused` when the peer resets the attempt, `AddrNotAvailable` when there is no address of that family.
    /// A peer that never answers is never given up: put a timeout around the call, which may be cancelled at any time.
    pub async fn connect(&self, remote: SocketAddr, local: Option<SocketAddr>) -> io::Result<TcpStream> {
        let (stream, connecting) = {
            let mut core = self.0.core();
            let port = match local {
                Some(local) if local.port() != 0 => local.port(),
                _ => {
                    let next = core.next_port.checked_add(1).unwrap_or(FIRST_DYNAMIC_PORT);
                    std::mem::replace(&mut core.next_port, next)
                }
            };
            let local = IpListenEndpoint { addr: local.map(|local| local.ip().into()), port };
            let handle = core.add();
            let Core { interface, sockets, .. } = &mut *core;
            let socket = sockets.get_mut::<Socket<'_>>(handle);
            let connecting = socket.connect(interface.context(), remote, local);
            (TcpStream::new(Arc::clone(&self.0), handle), connecting)
        };
        connecting.map_err(|error| io::Error::new(io::ErrorKind::AddrNotAvailable, error.to_string()))?;
        self.0.wake.notify_one();
        stream.connected().await?;
        Ok(stream)
    }

    /// Listens on a port, on one address or on all.
    ///
    /// # Errors
    /// `InvalidInput` for port 0.
    pub fn listen(&self, address: Option<IpAddr>, port: u16) -> io::Result<TcpListener> {
        let endpoint = IpListenEndpoint { addr: address.map(Into::into), port };
        TcpListener::new(&self.0, endpoint)
    }

    /// Waits until no connection has anything left to send, which may never be: put a timeout around it.
    pub async fn idle(&self) {
        while !self.0.core().is_idle() {
            sleep(IDLE_CHECK).await;
        }
    }
}

fn configure(interface: &mut Interface, config: &StackConfig) -> Result<()> {
    let mut fits = true;
    interface.update_ip_addrs(|addresses| {
        for net in &config.addresses {
            fits &= addresses.push(IpCidr::new(net.addr().into(), net.prefix_len())).is_ok();
        }
    });
    for gateway in &config.gateways {
        fits &= match gateway {
            IpAddr::V4(v4) => interface.routes_mut().add_default_ipv4_route(*v4).is_ok(),
            IpAddr::V6(v6) => interface.routes_mut().add_default_ipv6_route(*v6).is_ok(),
        };
    }
    ensure!(fits, "cannot start the TCP stack: too many addresses or gateways");
    Ok(())
}
