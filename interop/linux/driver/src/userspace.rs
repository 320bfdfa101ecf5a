//! The driver's own end: a TCP stack in this process, with Wireseal between it and the wire.

use std::io;
use std::net::{IpAddr, SocketAddr};

use agent::{Pattern, Transfer};
use ipnet::IpNet;
use router_peer::link::{FrameQueue, LinkDevice};
use router_peer::protection::{self, Protected};
use router_peer::stack::{Stack, StackConfig, TcpListener, TcpStream};
use router_peer::transport::{DEFAULT_IP_MTU, frame_mtu};
use smoltcp::phy::Medium;
use smoltcp::socket::tcp::CongestionControl;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use wireseal_tcp_ao::{Counters, MKTS_PER_PEER, MktSet, Peer};

use crate::failure::{Failure, ensure};
use crate::lab::{Addresses, TIME_LIMIT, TIME_LIMIT_MILLISECONDS};
use crate::wire::{Plug, Port, Wire};

/// Octets that are handed to or taken from a stream at once.
const PIECE: usize = 64 * 1024;

/// A stack at [`Port::Userspace`]. There can be one at a time; dropping it pulls it out.
#[derive(Debug)]
pub struct Userspace {
    /// The stack.
    pub stack: Stack<Protected>,
    arrivals: std::sync::Arc<FrameQueue>,
    _plug: Plug,
}

impl Userspace {
    /// Starts a stack that protects its connections with `peers`; those with others are unprotected.
    ///
    /// # Errors
    /// When two peers overlap and share key ids.
    pub fn start(wire: &Wire, peers: Vec<Peer>) -> Result<Self, Failure> {
        Self::start_seeded(wire, peers, fastrand::u64(..))
    }

    /// The same with this seed, on which the stack's ISNs and ports depend.
    ///
    /// # Errors
    /// When two peers overlap and share key ids.
    pub fn start_seeded(wire: &Wire, peers: Vec<Peer>, seed: u64) -> Result<Self, Failure> {
        let addresses = Addresses::of(Port::Userspace);
        let (device, link) = LinkDevice::new(Medium::Ethernet, frame_mtu(Medium::Ethernet, DEFAULT_IP_MTU));
        let arrivals = device.arrivals();
        let config = StackConfig {
            hardware_address: addresses.hardware_address,
            addresses: vec![IpNet::new(addresses.ipv4.into(), 24)?, IpNet::new(addresses.ipv6.into(), 64)?],
            gateways: Vec::new(),
            congestion_control: CongestionControl::Reno,
            seed,
        };
        let device = protection::protect(device, peers)?;
        let stack = Stack::start(device, std::sync::Arc::clone(&arrivals), &config)?;
        Ok(Self { stack, arrivals, _plug: wire.plug_link(Port::Userspace, link) })
    }

    /// The peer at `remote`, with its MKTs as this end has them.
    #[must_use]
    pub fn peer(remote: IpAddr, mkts: MktSet<MKTS_PER_PEER>) -> Peer {
        protection::peer(Addresses::of(Port::Userspace).like(remote), remote, mkts)
    }

    /// What has been received for all peers together.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.stack.with_device(|device| *device.shim().counters())
    }

    /// Waits until the counters are as `wanted`, which is asked after each millisecond.
    ///
    /// # Errors
    /// Says what they are instead, after the time limit.
    pub async fn await_counters(&self, wanted: impl Fn(&Counters) -> bool) -> Result<Counters, Failure> {
        let wait = async {
            loop {
                let counters = self.counters();
                if wanted(&counters) {
                    return counters;
                }
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        };
        timeout(TIME_LIMIT, wait)
            .await
            .map_err(|_| Failure(format!("userspace has counted {:?}", self.counters())))
    }

    /// Waits until so many packets were refused, counted or not.
    ///
    /// # Errors
    /// When they are fewer after the time limit.
    pub async fn await_refused(&self, packets: u64) -> Result<(), Failure> {
        let wait = async {
            while self.stack.with_device(|device| device.refused().inbound) < packets {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        };
        timeout(TIME_LIMIT, wait).await.map_err(|_| Failure("userspace has refused nothing".to_owned()))
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// When it is refused, or not there within the time limit.
    pub async fn connect(&self, remote: SocketAddr) -> Result<TcpStream, Failure> {
        let connected = timeout(TIME_LIMIT, self.stack.connect(remote, None)).await;
        Ok(connected.map_err(|_| Failure(format!("userspace cannot connect to {remote}")))??)
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// When none is there within the time limit.
    pub async fn accept(&self, listener: &mut TcpListener) -> Result<TcpStream, Failure> {
        let accepted = timeout(TIME_LIMIT, listener.accept()).await;
        Ok(accepted.map_err(|_| Failure("no connection came to userspace".to_owned()))??)
    }

    /// Fails when frames were dropped on their way into the stack.
    ///
    /// # Errors
    /// How many they were.
    pub fn check_nothing_dropped(&self) -> Result<(), Failure> {
        let dropped = self.arrivals.dropped();
        ensure(dropped == 0, || format!("the queue into the stack has dropped {dropped} frames"))
    }
}

/// Octets to be sent or received.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// How many.
    pub octets: u64,
    /// The seed of the pattern they are from.
    pub seed: u64,
    /// The number of the first.
    pub from: u64,
}

impl Amount {
    /// Nothing at all.
    pub const NONE: Self = Self { octets: 0, seed: 0, from: 0 };
}

/// The same at a guest's end, for its agent to do.
#[must_use]
pub const fn guest_transfer(socket: u64, send: Amount, receive: Amount) -> Transfer {
    Transfer {
        socket,
        send: send.octets,
        send_seed: send.seed,
        send_from: send.from,
        receive: receive.octets,
        receive_seed: receive.seed,
        receive_from: receive.from,
        time_limit: TIME_LIMIT_MILLISECONDS,
    }
}

/// Sends and receives at once, and checks each octet received.
///
/// # Errors
/// When the stream ends, stands still for the time limit, or brings other octets.
pub async fn transfer(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    send: Amount,
    receive: Amount,
) -> Result<(), Failure> {
    let (read, write) = tokio::io::split(stream);
    tokio::try_join!(send_all(write, send), receive_all(read, receive))?;
    Ok(())
}

async fn send_all(mut write: impl AsyncWrite + Unpin, amount: Amount) -> Result<(), Failure> {
    let mut pattern = Pattern::new(amount.seed, amount.from);
    let mut buffer = vec![0; PIECE];
    let mut left = amount.octets;
    while left > 0 {
        let piece = usize::try_from(left.min(PIECE as u64))?;
        pattern.peek(&mut buffer[..piece]);
        let sent = timeout(TIME_LIMIT, write.write(&buffer[..piece])).await;
        let sent = sent.map_err(|_| Failure(format!("userspace cannot send: {left} octets are left")))??;
        pattern.advance(sent);
        left -= sent as u64;
    }
    Ok(())
}

async fn receive_all(mut read: impl AsyncRead + Unpin, amount: Amount) -> Result<(), Failure> {
    let mut pattern = Pattern::new(amount.seed, amount.from);
    let mut buffer = vec![0; PIECE];
    let mut left = amount.octets;
    while left > 0 {
        let piece = usize::try_from(left.min(PIECE as u64))?;
        let received = timeout(TIME_LIMIT, read.read(&mut buffer[..piece])).await;
        let received = received.map_err(|_| Failure(format!("userspace misses {left} octets")))??;
        ensure(received > 0, || format!("the stream ends, userspace misses {left} octets"))?;
        pattern.check(&buffer[..received]).map_err(|at| Failure(format!("octet {at} came altered")))?;
        left -= received as u64;
    }
    Ok(())
}

/// Closes the sending direction, and waits until the peer has closed its own.
///
/// # Errors
/// When it still sends, or does not close within the time limit.
pub async fn finish(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Result<(), Failure> {
    stream.shutdown().await?;
    let end = timeout(TIME_LIMIT, stream.read(&mut [0])).await;
    let end = end.map_err(|_| Failure("the peer of userspace does not close".to_owned()))?;
    match end {
        Ok(0) => Ok(()),
        Ok(_) => Err(Failure("the peer of userspace sends more than it should".to_owned())),
        // The stack has already gone through TIME-WAIT's beginning when both sides close at once.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
        Err(error) => Err(error.into()),
    }
}
