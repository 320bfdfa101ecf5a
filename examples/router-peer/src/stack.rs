//! A userspace TCP stack: smoltcp over any [`Device`], driven by a task, with streams that tokio can read and write.

mod stream;
mod table;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use smoltcp::iface::{Config, Interface};
use smoltcp::phy::{Device, Medium};
use smoltcp::socket::tcp::{CongestionControl, State};
use smoltcp::time::Instant as StackInstant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr, IpEndpoint, IpListenEndpoint};
use tokio::time::{Instant, sleep};

pub use self::stream::{TcpListener, TcpStream};
use self::table::SocketTable;
use crate::link::FrameQueue;
use crate::sync::Locked;

/// How long a stack without users keeps sending what its sockets still owe, before it stops.
const LINGER: Duration = Duration::from_secs(1);
/// Wait before asking again a device that had no room; the timer of tokio counts milliseconds.
const DEVICE_BUSY: Duration = Duration::from_millis(1);
/// How often [`Stack::idle`] looks.
const IDLE_CHECK: Duration = Duration::from_millis(10);
/// First port of the dynamic range (RFC 6335 section 6).
const FIRST_DYNAMIC_PORT: u16 = 49152;

/// How a stack presents itself on its link.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// Address on an Ethernet link; unused on an IP link. It must be a unicast address.
    pub hardware_address: [u8; 6],
    /// Own addresses with the length of their networks, at most eight.
    pub addresses: Vec<IpNet>,
    /// Routers for other networks: at most one for IPv4 and one for IPv6.
    pub gateways: Vec<IpAddr>,
    /// Congestion control of all connections: RFC 5681's on a network, none on a wire in memory.
    pub congestion_control: CongestionControl,
    /// Seed of initial sequence numbers and ports. It should differ from start to start.
    pub seed: u64,
}

struct Core<D> {
    device: D,
    interface: Interface,
    next_port: u16,
}

/// Wakes the driver when the last user of a stack goes.
struct Users(Arc<SocketTable>);

impl Drop for Users {
    fn drop(&mut self) {
        self.0.wake.notify_one();
    }
}

/// A handle on a running stack. Cloning it gives another handle on the same stack; the stack stops when the last handle and
/// the last stream are gone.
pub struct Stack<D> {
    core: Arc<Locked<Core<D>>>,
    table: Arc<SocketTable>,
    users: Arc<Users>,
    started: Instant,
}

impl<D> Clone for Stack<D> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            table: Arc::clone(&self.table),
            users: Arc::clone(&self.users),
            started: self.started,
        }
    }
}

impl<D> fmt::Debug for Stack<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").finish_non_exhaustive()
    }
}

impl<D: Device + Send + 'static> Stack<D> {
    /// Starts a stack over a device, on the current tokio runtime.
    ///
    /// `arrivals` is the queue at the bottom of the device: the stack polls the device whenever a frame comes in there.
    ///
    /// # Errors
    /// `InvalidInput` when there are more addresses or gateways than smoltcp was built for; nothing is started then.
    ///
    /// # Panics
    /// When called outside a tokio runtime, or with a hardware address that is not unicast on an Ethernet link.
    pub fn start(mut device: D, arrivals: Arc<FrameQueue>, config: &StackConfig) -> io::Result<Self> {
        let hardware_address = if device.capabilities().medium == Medium::Ethernet {
            HardwareAddress::Ethernet(EthernetAddress(config.hardware_address))
        } else {
            HardwareAddress::Ip
        };
        let mut interface_config = Config::new(hardware_address);
        interface_config.random_seed = config.seed;
        let mut interface = Interface::new(interface_config, &mut device, StackInstant::ZERO);
        configure(&mut interface, config)?;

        let table = Arc::new(SocketTable::new(config.congestion_control));
        // The dynamic range has 2^14 ports; the seed picks where to begin, as RFC 6056 asks.
        let next_port = FIRST_DYNAMIC_PORT | (config.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as u16;
        let core = Arc::new(Locked::new(Core { device, interface, next_port }));
        let users = Arc::new(Users(Arc::clone(&table)));
        let stack = Self { core, table, users, started: Instant::now() };
        tokio::spawn(drive(
            Arc::clone(&stack.core),
            Arc::clone(&stack.table),
            Arc::downgrade(&stack.users),
            arrivals,
            stack.started,
        ));
        Ok(stack)
    }

    /// Calls `f` with the device between two polls of the stack, then polls. This is how keys are changed and counters read
    /// in a device that wraps the link; `f` must not block.
    pub fn with_device<R>(&self, f: impl FnOnce(&mut D) -> R) -> R {
        let result = f(&mut self.core.lock().device);
        self.table.wake.notify_one();
        result
    }

    /// Opens a connection from `local` (or the address that the stack chooses) to `remote` and waits until it is
    /// established.
    ///
    /// # Errors
    /// `ConnectionRefused` when the peer resets the attempt, `AddrNotAvailable` when there is no own address of that family.
    /// A peer that never answers is never given up: put a timeout around the call, which may be cancelled at any time.
    pub async fn connect(&self, remote: SocketAddr, local: Option<IpAddr>) -> io::Result<TcpStream> {
        let port = {
            let mut core = self.core.lock();
            let port = core.next_port;
            core.next_port = port.checked_add(1).unwrap_or(FIRST_DYNAMIC_PORT);
            port
        };
        self.connect_from(IpListenEndpoint { addr: local.map(Into::into), port }, remote).await
    }

    /// The same from an endpoint of the caller's, which no other connection to `remote` may be using.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect).
    pub async fn connect_from(
        &self,
        local: impl Into<IpListenEndpoint>,
        remote: SocketAddr,
    ) -> io::Result<TcpStream> {
        let handle = self.table.add();
        let stream = TcpStream::new(Arc::clone(&self.table), handle, self.keep_alive());
        {
            let mut core = self.core.lock();
            let mut sockets = self.table.sockets.lock();
            SocketTable::tcp(&mut sockets, handle)
                .connect(core.interface.context(), IpEndpoint::from(remote), local)
                .map_err(|error| io::Error::new(io::ErrorKind::AddrNotAvailable, error.to_string()))?;
        }
        self.table.wake.notify_one();
        stream.connected().await?;
        Ok(stream)
    }

    /// Listens on a port, on one own address or on all of them.
    ///
    /// # Errors
    /// `InvalidInput` for port 0.
    pub fn listen(&self, address: Option<IpAddr>, port: u16) -> io::Result<TcpListener> {
        let endpoint = IpListenEndpoint { addr: address.map(Into::into), port };
        TcpListener::new(Arc::clone(&self.table), endpoint, self.keep_alive())
    }

    /// The states of all sockets, listening ones included.
    #[must_use]
    pub fn socket_states(&self) -> Vec<State> {
        self.table.states()
    }

    /// Waits until no connection has anything left to send, which may be for ever: put a timeout around it.
    pub async fn idle(&self) {
        while !self.table.is_idle() {
            sleep(IDLE_CHECK).await;
        }
    }

    fn keep_alive(&self) -> Arc<dyn Send + Sync> {
        Arc::clone(&self.users) as Arc<dyn Send + Sync>
    }
}

fn configure(interface: &mut Interface, config: &StackConfig) -> io::Result<()> {
    let too_many = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("too many {what}"));
    let mut overflow = false;
    interface.update_ip_addrs(|addresses| {
        for net in &config.addresses {
            overflow |= addresses.push(IpCidr::new(net.addr().into(), net.prefix_len())).is_err();
        }
    });
    if overflow {
        return Err(too_many("addresses"));
    }
    for gateway in &config.gateways {
        match gateway {
            IpAddr::V4(v4) => interface.routes_mut().add_default_ipv4_route(*v4).map(drop),
            IpAddr::V6(v6) => interface.routes_mut().add_default_ipv6_route(*v6).map(drop),
        }
        .map_err(|_| too_many("gateways"))?;
    }
    Ok(())
}

/// Polls the stack whenever a frame, a user or a timer of TCP asks for it.
async fn drive<D: Device>(
    core: Arc<Locked<Core<D>>>,
    table: Arc<SocketTable>,
    users: std::sync::Weak<Users>,
    arrivals: Arc<FrameQueue>,
    started: Instant,
) {
    let mut stop_at = None;
    loop {
        let delay = {
            let mut core = core.lock();
            let Core { device, interface, .. } = &mut *core;
            let mut sockets = table.sockets.lock();
            let now =
                StackInstant::from_micros(i64::try_from(started.elapsed().as_micros()).unwrap_or(i64::MAX));
            interface.poll(now, device, &mut sockets);
            table.remove_finished(&mut sockets);
            interface.poll_delay(now, &sockets).map(Duration::from)
        };
        if users.strong_count() == 0 {
            let stop_at = *stop_at.get_or_insert_with(|| Instant::now() + LINGER);
            if table.is_idle() || Instant::now() >= stop_at {
                return;
            }
        }
        let timer = async {
            match (delay, stop_at) {
                (None, None) => std::future::pending().await,
                (delay, _) => sleep(delay.unwrap_or(LINGER).clamp(DEVICE_BUSY, LINGER)).await,
            }
        };
        tokio::select! {
            () = arrivals.ready() => {}
            () = table.wake.notified() => {}
            () = timer => {}
        }
    }
}
