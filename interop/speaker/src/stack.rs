//! A userspace TCP stack: smoltcp with Wireseal under it, driven by a task, with streams that tokio reads and writes.
//!
//! ```text
//! TcpStream, TcpListener     what a BGP session reads and writes
//!   smoltcp                  TCP and IP, unchanged
//!     AuthenticatedDevice    Wireseal: signs what goes out, verifies what comes in
//!       Link                 queues of frames, to and from a transport
//! ```

use std::array::from_fn;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use anyhow::{Result, ensure};
use ipnet::IpNet;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device as _, Medium};
use smoltcp::socket::AnySocket;
use smoltcp::socket::tcp::{CongestionControl, RecvError, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr, IpListenEndpoint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant as TokioInstant, sleep};
use wireseal_smoltcp::AuthenticatedDevice;
use wireseal_tcp_ao::Peer;
use wireseal_tcp_ao::shim::{Direction, HashKey, PeerSlot, ShimSlot, TracingObserver};

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
    /// Seed of initial sequence numbers and ports; use a different one at each start.
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
    /// Fails when two equally specific peers overlap and share key ids, or there are more addresses or gateways than smoltcp
    /// was built for.
    /// Panics outside a tokio runtime, and on an Ethernet link with a hardware address that is not unicast.
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
        tokio::spawn(drive(Arc::clone(&shared)));
        Ok(Self(shared))
    }

    /// Calls `f` with the device between two polls of the stack: to change keys and read counters. `f` must not block.
    pub fn with_device<R>(&self, f: impl FnOnce(&mut Device) -> R) -> R {
        let result = f(&mut self.0.core().device);
        self.0.wake.notify_one();
        result
    }

    /// What the device has counted so far.
    pub fn tally(&self) -> Tally {
        self.with_device(|device| Tally::of(device))
    }

    /// Opens a connection to `remote`, from `local` if given, whose port may be 0, and waits until it is established.
    /// Fails with `ConnectionRefused` when the peer resets the attempt, `AddrNotAvailable` when there is no address of that
    /// family. A peer that never answers is never given up: put a timeout around the call, which may be cancelled at any
    /// time.
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
    /// Fails with `InvalidInput` for port 0.
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

/// The device under every stack.
pub type Device = AuthenticatedDevice<'static, Link, TracingObserver>;

/// Octets of each socket's buffers, one each way; the receive buffer is also the largest window.
const BUFFER: usize = 256 * 1024;
/// How long a stack without users goes on sending what is queued; also its longest sleep.
const LINGER: Duration = Duration::from_secs(1);
/// How long to wait before asking a full device again; tokio's timer counts milliseconds.
const DEVICE_BUSY: Duration = Duration::from_millis(1);

struct Core {
    device: Device,
    interface: Interface,
    sockets: SocketSet<'static>,
    /// Sockets without a stream, which stay until TCP has nothing left to say on them.
    finishing: Vec<SocketHandle>,
    congestion_control: CongestionControl,
    next_port: u16,
}

impl Core {
    fn add(&mut self) -> SocketHandle {
        let mut socket = Socket::new(SocketBuffer::new(vec![0; BUFFER]), SocketBuffer::new(vec![0; BUFFER]));
        socket.set_congestion_control(self.congestion_control);
        // A BGP speaker writes whole batches, so waiting to fill a segment would only delay the last one.
        socket.set_nagle_enabled(false);
        self.sockets.add(socket)
    }

    /// Polls TCP; returns the longest time until the next poll.
    fn poll(&mut self, now: Instant) -> Option<Duration> {
        self.interface.poll(now, &mut self.device, &mut self.sockets);
        let sockets = &mut self.sockets;
        self.finishing.retain(|&handle| {
            let socket = sockets.get::<Socket<'_>>(handle);
            // An aborted socket keeps its addresses until its RST has been sent.
            let is_done = socket.state() == State::Closed && socket.remote_endpoint().is_none();
            if is_done {
                sockets.remove(handle);
            }
            !is_done
        });
        self.interface.poll_delay(now, &self.sockets).map(Duration::from)
    }

    /// Whether no socket has anything left to send.
    fn is_idle(&self) -> bool {
        let sockets = self.sockets.iter().filter_map(|(_, socket)| Socket::downcast(socket));
        sockets
            .map(Socket::state)
            .all(|state| matches!(state, State::Closed | State::Listen | State::TimeWait))
    }
}

struct Shared {
    core: Mutex<Core>,
    /// Wakes the driver.
    wake: Notify,
    link: Link,
}

impl Shared {
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap()
    }

    /// Uses a socket and wakes the driver.
    fn with<R>(&self, handle: SocketHandle, f: impl FnOnce(&mut Socket<'static>) -> R) -> R {
        let result = f(self.core().sockets.get_mut(handle));
        self.wake.notify_one();
        result
    }
}

/// Polls a stack whenever a frame, a user or a timer of TCP asks for it.
async fn drive(shared: Arc<Shared>) {
    let started = TokioInstant::now();
    let mut stop_at = None;
    loop {
        let now = i64::try_from(started.elapsed().as_micros()).unwrap_or(i64::MAX);
        let delay = shared.core().poll(Instant::from_micros(now));
        // Only this task still uses the stack.
        if Arc::strong_count(&shared) == 1 {
            let stop_at = *stop_at.get_or_insert_with(|| TokioInstant::now() + LINGER);
            if shared.core().is_idle() || TokioInstant::now() >= stop_at {
                return;
            }
        }
        tokio::select! {
            () = shared.link.to_stack.ready() => {}
            () = shared.wake.notified() => {}
            () = sleep(delay.unwrap_or(LINGER).clamp(DEVICE_BUSY, LINGER)) => {}
        }
    }
}

/// Connections that may be in their handshake at once on one listener.
const BACKLOG: usize = 4;

/// A TCP connection. Dropping it closes it in order: what was written is still sent.
pub struct TcpStream {
    shared: Arc<Shared>,
    handle: SocketHandle,
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl TcpStream {
    fn new(shared: Arc<Shared>, handle: SocketHandle) -> Self {
        Self { shared, handle }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Socket<'static>) -> R) -> R {
        self.shared.with(self.handle, f)
    }

    /// Waits until the handshake is over.
    async fn connected(&self) -> io::Result<()> {
        let poll = |socket: &mut Socket<'_>, context: &Context<'_>| match socket.state() {
            State::SynSent | State::SynReceived => {
                socket.register_send_waker(context.waker());
                Poll::Pending
            }
            State::Closed => Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into())),
            _ => Poll::Ready(Ok(())),
        };
        poll_fn(|context| self.with(|socket| poll(socket, context))).await
    }

    /// This end's address and port and the peer's, or nothing once the connection is gone.
    pub fn ends(&self) -> Option<[SocketAddr; 2]> {
        let ends = self.with(|socket| Some([socket.local_endpoint()?, socket.remote_endpoint()?]))?;
        Some(ends.map(|end| SocketAddr::new(end.addr.into(), end.port)))
    }

    /// The state of the connection (RFC 9293 §3.3.2).
    pub fn state(&self) -> State {
        self.with(|socket| socket.state())
    }

    /// Ends the connection with a RST; what was not yet sent is lost.
    pub fn abort(&self) {
        self.with(Socket::abort);
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        self.with(Socket::close);
        self.shared.core().finishing.push(self.handle);
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|socket| {
            if !socket.can_recv() && socket.may_recv() {
                socket.register_recv_waker(context.waker());
                return Poll::Pending;
            }
            match socket.recv_slice(buffer.initialize_unfilled()) {
                Ok(octets) => buffer.advance(octets),
                Err(RecvError::Finished) => {}
                Err(RecvError::InvalidState) => {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
                }
            }
            Poll::Ready(Ok(()))
        })
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|socket| {
            if socket.may_send() && !socket.can_send() {
                socket.register_send_waker(context.waker());
                return Poll::Pending;
            }
            Poll::Ready(socket.send_slice(data).map_err(|_| io::ErrorKind::BrokenPipe.into()))
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(Socket::close);
        Poll::Ready(Ok(()))
    }
}

/// Accepts connections on one port.
#[derive(Debug)]
pub struct TcpListener {
    endpoint: IpListenEndpoint,
    waiting: Vec<TcpStream>,
}

impl TcpListener {
    fn new(shared: &Arc<Shared>, endpoint: IpListenEndpoint) -> io::Result<Self> {
        let waiting = (0..BACKLOG).map(|_| listening_stream(shared, endpoint));
        Ok(Self { endpoint, waiting: waiting.collect::<io::Result<_>>()? })
    }

    /// Waits for a connection whose handshake is over. Cancelling the wait loses no connection.
    /// Fails when the port cannot be listened on again.
    pub async fn accept(&mut self) -> io::Result<TcpStream> {
        let is_open = |stream: &TcpStream, context: &Context<'_>| {
            stream.with(|socket| {
                socket.register_recv_waker(context.waker());
                !matches!(socket.state(), State::Listen | State::SynReceived)
            })
        };
        let place = poll_fn(|context| {
            let open = self.waiting.iter().position(|stream| is_open(stream, context));
            open.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        let fresh = listening_stream(&self.waiting[place].shared, self.endpoint)?;
        Ok(std::mem::replace(&mut self.waiting[place], fresh))
    }
}

fn listening_stream(shared: &Arc<Shared>, endpoint: IpListenEndpoint) -> io::Result<TcpStream> {
    let handle = shared.core().add();
    let stream = TcpStream::new(Arc::clone(shared), handle);
    let listening = stream.with(|socket| socket.listen(endpoint));
    listening.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    Ok(stream)
}

const NAMES: [&str; 7] = ["dropped", "good", "bad", "key not found", "required", "dropped ICMP", "not sent"];

/// The counters of a stack's device: packets dropped before TCP, Wireseal's verdicts, and TCP's packets that Wireseal did not sign.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tally([u64; 7]);

impl Tally {
    fn of(device: &Device) -> Self {
        let (shim, by) = (device.shim(), *device.shim().counters());
        let [dropped, withheld] =
            [Direction::Inbound, Direction::Outbound].map(|direction| shim.refused(direction).total());
        Self([dropped, by.good, by.bad, by.key_not_found, by.required, by.dropped_icmp, withheld])
    }

    /// Packets that were dropped before TCP.
    pub const fn dropped(&self) -> u64 {
        self.0[0]
    }

    /// Segments that verified.
    pub const fn verified(&self) -> u64 {
        self.0[1]
    }

    /// The growth since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self(from_fn(|place| self.0[place] - earlier.0[place]))
    }
}

/// For example `dropped 1, bad +1`; counters that have not grown are left out.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dropped {}", self.dropped())?;
        let mut grown = NAMES.iter().zip(self.0).skip(1).filter(|(_, count)| *count > 0);
        grown.try_for_each(|(name, count)| write!(f, ", {name} +{count}"))
    }
}
