//! The driver's own end: a TCP stack in this process, with Wireseal between it and the wire.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use agent::{Amount, Counted, Pattern, TIME_LIMIT};
use anyhow::{Context, Result, bail, ensure};
use ipnet::IpNet;
use smoltcp::phy::Medium;
use smoltcp::socket::tcp::CongestionControl;
use speaker::link::{DEFAULT_IP_MTU, Link};
use speaker::protection;
use speaker::stack::{Stack, StackConfig, TcpListener, TcpStream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use wireseal_tcp_ao::{Mkt, MktSet, Peer};

use crate::wait::becomes;
use crate::wire::{Family, Port};
use crate::wire::{Plug, Wire};

/// Octets written to or read from a stream at once.
const PIECE: usize = 16 * 1024;
/// How often to check counters.
const CHECK: Duration = Duration::from_millis(1);

/// A stack at [`Port::Userspace`]. There can be one at a time; dropping it unplugs it.
pub struct Userspace {
    pub stack: Stack,
    link: Link,
    _plug: Plug,
}

impl Userspace {
    /// Starts a stack that protects its connections with `peers`; others are unprotected. Its ISNs and ports depend on the seed.
    pub fn start(wire: &Wire, peers: Vec<Peer>, seed: u64) -> Result<Self> {
        let own = Port::Userspace;
        let link = Link::new(Medium::Ethernet, DEFAULT_IP_MTU);
        let config = StackConfig {
            hardware_address: own.hardware_address(),
            addresses: vec![IpNet::new(own.ipv4().into(), 24)?, IpNet::new(own.ipv6().into(), 64)?],
            gateways: Vec::new(),
            congestion_control: CongestionControl::Reno,
            seed,
        };
        let stack = Stack::start(link.clone(), peers, &config)?;
        Ok(Self { stack, _plug: wire.plug_link(own, link.clone()), link })
    }

    /// The peer at `remote`, with its MKTs as this end has them.
    pub fn peer(remote: IpAddr, mkts: &[Mkt]) -> Result<Peer> {
        let family = if remote.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 };
        let mkts = MktSet::from_mkts(mkts.iter().cloned())?;
        Ok(protection::peer(Port::Userspace.address(family), remote, mkts))
    }

    /// Counters of what was received from all peers together.
    pub fn counters(&self) -> Counted {
        self.stack.with_device(|device| (*device.shim().counters()).into())
    }

    /// Waits until each counter has reached this.
    pub async fn await_counted(&self, at_least: Counted) -> Result<Counted> {
        self.wait(|| self.counters().has_reached(&at_least)).await?;
        Ok(self.counters())
    }

    /// Waits until this many packets were refused, counted or not.
    pub async fn await_refused(&self, packets: u64) -> Result<()> {
        self.wait(|| self.stack.tally().dropped() >= packets).await
    }

    async fn wait(&self, is_done: impl Fn() -> bool) -> Result<()> {
        let is_done = becomes(CHECK, async || Ok(is_done())).await?;
        ensure!(is_done, "userspace has counted {} by now", self.counters());
        Ok(())
    }

    pub async fn connect(&self, remote: SocketAddr) -> Result<TcpStream> {
        let connected = timeout(TIME_LIMIT, self.stack.connect(remote, None)).await;
        Ok(connected.with_context(|| format!("userspace cannot connect to {remote}"))??)
    }

    pub async fn accept(&self, listener: &mut TcpListener) -> Result<TcpStream> {
        let accepted = timeout(TIME_LIMIT, listener.accept()).await;
        Ok(accepted.context("no connection came to userspace")??)
    }

    /// Waits until its connections have ended, and fails when frames were dropped on their way into the stack.
    pub async fn idle(&self) -> Result<()> {
        let idle = timeout(TIME_LIMIT, self.stack.idle()).await;
        idle.context("the userspace connections do not end")?;
        let dropped = self.link.to_stack.dropped();
        ensure!(dropped == 0, "the queue into the stack has dropped {dropped} frames");
        Ok(())
    }
}

/// Sends and receives at once, and checks each octet received.
pub async fn transfer(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    send: Amount,
    receive: Amount,
) -> Result<()> {
    let (read, write) = tokio::io::split(stream);
    tokio::try_join!(send_all(write, send), receive_all(read, receive))?;
    Ok(())
}

async fn send_all(mut write: impl AsyncWrite + Unpin, amount: Amount) -> Result<()> {
    let mut pattern = Pattern::of(amount);
    while pattern.left() > 0 {
        let left = pattern.left();
        let sent = timeout(TIME_LIMIT, write.write_all(&pattern.take(PIECE))).await;
        sent.with_context(|| format!("userspace cannot send: {left} octets are left"))??;
    }
    Ok(())
}

async fn receive_all(mut read: impl AsyncRead + Unpin, amount: Amount) -> Result<()> {
    let mut pattern = Pattern::of(amount);
    let mut buffer = vec![0; PIECE];
    while pattern.left() > 0 {
        let left = pattern.left();
        let received = timeout(TIME_LIMIT, read.read(&mut buffer[..left.min(PIECE)])).await;
        let received = received.with_context(|| format!("userspace misses {left} octets"))??;
        ensure!(received > 0, "the stream ends, userspace misses {left} octets");
        pattern.check(&buffer[..received])?;
    }
    Ok(())
}

/// Closes the sending direction, and waits until the peer has closed its own.
pub async fn finish(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Result<()> {
    stream.shutdown().await?;
    let end = timeout(TIME_LIMIT, stream.read(&mut [0])).await;
    let end = end.context("the peer of userspace does not close")?;
    match end {
        Ok(0) => Ok(()),
        Ok(_) => bail!("the peer of userspace sends more than it should"),
        // When both ends close at once, the stack has already passed this state.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
        Err(error) => Err(error.into()),
    }
}
