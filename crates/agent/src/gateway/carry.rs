//! The threads that carry packets between the queues and the shards, and the raw sockets for packets longer than a noted path MTU.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;

use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrLike, sendmsg};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
    set_socket_send_buffer_size_force,
};
use socket2::{Domain, Protocol, Socket, Type};
use wireseal_tcp_ao::shim::Direction;

use super::queues::{Numbers, Packet, PacketQueues, cannot_bind, ends, segment};
use super::shard::Verdict;
use super::shards::Shards;
use crate::error::Error;

/// The index of the loopback device in every network namespace (`LOOPBACK_IFINDEX`).
const LOOPBACK: u32 = 1;
/// `IPPROTO_RAW`: the packets come with their IP headers.
const WITH_HEADER: i32 = 255;
/// Octets of packets that may wait in a raw socket for the device.
const SEND_BUFFER: usize = 4 << 20;
/// How many sent packets are remembered: more than a thread sends before it receives again.
const MOST_SENT: usize = 256;

/// The bound queues of all threads. Their packets wait until threads carry them.
pub(super) struct Bound {
    threads: Vec<(PacketQueues, Wire)>,
    errors: PacketQueues,
}

impl Bound {
    pub(super) fn new(numbers: Numbers) -> Result<Self, Error> {
        let bind = |queues: &[u16]| {
            let bound = PacketQueues::bind(queues.iter().copied());
            bound.map_err(|error| cannot_bind(numbers.first, numbers.errors(), error))
        };
        let own = numbers
            .outbound()
            .zip(numbers.inbound())
            .map(|(outbound, inbound)| Ok((bind(&[outbound, inbound])?, Wire::open()?)));
        Ok(Self { threads: own.collect::<Result<_, Error>>()?, errors: bind(&[numbers.errors()])? })
    }

    /// Drops all packets that wait.
    pub(super) fn drain(&mut self) -> io::Result<()> {
        let queues = self.threads.iter_mut().map(|(queues, _)| queues);
        queues.chain([&mut self.errors]).try_for_each(PacketQueues::drain)
    }

    /// Starts the threads that carry their packets.
    pub(super) fn carry(self, shards: &Arc<Shards>) -> Result<(), Error> {
        for (thread, (queues, wire)) in (0..).zip(self.threads) {
            let shards = Arc::clone(shards);
            start("packets", move || carry(queues, thread, wire, &shards))?;
        }
        let shards = Arc::clone(shards);
        start("icmp errors", move || carry_errors(self.errors, &shards))
    }
}

/// Starts a thread with this name.
pub(super) fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map(drop).map_err(Error::cannot("run the gateway"))
}

/// Carries the packets of one thread's queues until the process ends.
fn carry(mut queues: PacketQueues, thread: u16, mut wire: Wire, shards: &Shards) {
    let mut packets = Vec::new();
    loop {
        if let Err(error) = queues.receive(&mut packets) {
            tracing::error!(%error, "packets could not be received from the kernel");
        }
        // The order between the two directions does not matter.
        let (mut outbound, mut inbound) = (Vec::new(), Vec::new());
        for packet in packets.drain(..) {
            match packet.direction() {
                // The raw socket sent it, already signed, and the rules queued it again.
                Some(Direction::Outbound) if wire.has_sent(packet.octets()) => {
                    log_lost(queues.accept(packet));
                }
                Some(Direction::Outbound) => outbound.push(packet),
                Some(Direction::Inbound) => inbound.push(packet),
                // The gateway's rules queue no such packet.
                None => log_lost(queues.drop(packet)),
            }
        }
        let mut shard = shards.shard(thread.into());
        outbound.iter().for_each(|packet| shards.claim(&mut shard, packet.octets(), true));
        inbound.iter().for_each(|packet| shards.claim(&mut shard, packet.octets(), false));
        let now = shards.now();
        let verdicts = [shard.outbound(now, &mut outbound), shard.inbound(now, &mut inbound)].concat();
        shard.log();
        drop(shard);
        for (packet, verdict) in outbound.into_iter().chain(inbound).zip(verdicts) {
            answer(&mut queues, packet, verdict, &mut wire);
        }
        log_lost(queues.flush());
    }
}

fn answer(queues: &mut PacketQueues, packet: Packet, verdict: Verdict, wire: &mut Wire) {
    let decided = match verdict {
        Verdict::Accept(place) => queues.accept_at(packet, place),
        Verdict::Send(place) => match wire.send(&packet, packet.octets_at(place.clone())) {
            // It does not fit the link. Passed on, it makes the kernel tell the program's TCP.
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => queues.accept_at(packet, place),
            // Either it was sent, or the buffer was full or a filter dropped it; then TCP sends it again.
            _ => queues.drop(packet),
        },
        Verdict::Drop => queues.drop(packet),
    };
    log_lost(decided);
}

/// Logs that the kernel had no memory, or gave a packet up; TCP sends it again.
fn log_lost(result: io::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "packets could not be given back to the kernel");
    }
}

/// Carries ICMP errors. The connection that one quotes may be in any shard.
fn carry_errors(mut queues: PacketQueues, shards: &Shards) {
    let mut packets = Vec::new();
    loop {
        if let Err(error) = queues.receive(&mut packets) {
            tracing::error!(%error, "packets could not be received from the kernel");
        }
        for mut packet in packets.drain(..) {
            if packet.direction() != Some(Direction::Inbound) {
                log_lost(queues.drop(packet));
                continue;
            }
            let is_own = packet.from_device == LOOPBACK;
            let (now, octets) = (shards.now(), packet.octets_mut());
            let is_admitted = shards.each().all(|mut shard| {
                let is_admitted = shard.admits_icmp(now, octets, is_own);
                shard.log();
                is_admitted
            });
            let place = packet.place();
            let decided = if is_admitted { queues.accept_at(packet, place) } else { queues.drop(packet) };
            log_lost(decided);
        }
        log_lost(queues.flush());
    }
}

/// A raw socket for each version of IP.
///
/// The path MTU that the kernel has noted is lowered by the option's length, so that TCP leaves room for it. The kernel applies it to
/// packets that come back from a queue, too, so a signed packet may not fit. A raw socket has only the link's MTU. It sends the packet with
/// the source, mark and device of the unsigned one, and so by the same route.
struct Wire {
    ipv4: Raw,
    /// `None` where the kernel has no IPv6.
    ipv6: Option<Raw>,
    /// Hashes of packets that were sent and have not reached the thread's queue yet: they tell these from packets of programs.
    sent: VecDeque<u64>,
    hash: RandomState,
}

struct Raw {
    socket: Socket,
    /// The mark of the previous packet.
    mark: u32,
}

impl Raw {
    fn open(domain: Domain) -> io::Result<Self> {
        let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(WITH_HEADER)))?;
        socket.set_nonblocking(true)?;
        set_socket_send_buffer_size_force(&socket, SEND_BUFFER)?;
        Ok(Self { socket, mark: 0 })
    }

    fn send(
        &mut self,
        packet: &[u8],
        mark: u32,
        from: ControlMessage<'_>,
        to: &impl SockaddrLike,
    ) -> io::Result<()> {
        if mark != self.mark {
            self.socket.set_mark(mark)?;
            self.mark = mark;
        }
        let socket = self.socket.as_raw_fd();
        sendmsg(socket, &[IoSlice::new(packet)], &[from], MsgFlags::empty(), Some(to))?;
        Ok(())
    }
}

impl Wire {
    fn open() -> Result<Self, Error> {
        Self::opened().map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::PermissionDenied => " (it needs CAP_NET_RAW)",
                _ => "",
            };
            Error::cannot("open a raw socket")(io::Error::new(error.kind(), format!("{error}{advice}")))
        })
    }

    fn opened() -> io::Result<Self> {
        let ipv4 = Raw::open(Domain::IPV4)?;
        let ipv6 = match Raw::open(Domain::IPV6) {
            Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => None,
            opened => Some(opened?),
        };
        // Only the link's MTU applies, not the path's.
        set_ip_mtu_discover(&ipv4.socket, Ipv4PathMtuDiscovery::PROBE)?;
        if let Some(ipv6) = &ipv6 {
            set_ipv6_mtu_discover(&ipv6.socket, Ipv6PathMtuDiscovery::PROBE)?;
        }
        Ok(Self { ipv4, ipv6, sent: VecDeque::new(), hash: RandomState::new() })
    }

    /// Sends a signed packet by the device of the unsigned one. It reaches the thread's own queue again, where [`has_sent`](Self::has_sent)
    /// recognises it.
    ///
    /// # Errors
    /// EMSGSIZE if it does not fit the link, and other errors of sending.
    fn send(&mut self, packet: &Packet, signed: &[u8]) -> io::Result<()> {
        let (from, to) = ends(signed).ok_or(io::ErrorKind::InvalidInput)?;
        // Remembered before it is sent, because it is in the queue at once.
        let hash = self.hash.hash_one(segment(signed));
        if self.sent.len() == MOST_SENT {
            self.sent.pop_front();
        }
        self.sent.push_back(hash);
        let sent = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let source = libc::in_pktinfo {
                    ipi_ifindex: packet.to_device.cast_signed(),
                    ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(from.octets()) },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                let to = SockaddrIn::from(SocketAddrV4::new(to, 0));
                self.ipv4.send(signed, packet.mark, ControlMessage::Ipv4PacketInfo(&source), &to)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let source = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr { s6_addr: from.octets() },
                    ipi6_ifindex: packet.to_device,
                };
                let scope = if to.is_unicast_link_local() { packet.to_device } else { 0 };
                let to = SockaddrIn6::from(SocketAddrV6::new(to, 0, 0, scope));
                let ipv6 = self.ipv6.as_mut().ok_or(io::ErrorKind::Unsupported)?;
                ipv6.send(signed, packet.mark, ControlMessage::Ipv6PacketInfo(&source), &to)
            }
            _ => Err(io::ErrorKind::InvalidInput.into()),
        };
        if sent.is_err() {
            self.sent.pop_back();
        }
        sent
    }

    /// Whether this thread sent a packet of its queue; true only once for each.
    fn has_sent(&mut self, packet: &[u8]) -> bool {
        if self.sent.is_empty() {
            return false;
        }
        let hash = self.hash.hash_one(segment(packet));
        let at = self.sent.iter().position(|sent| *sent == hash);
        at.is_some_and(|at| self.sent.remove(at).is_some())
    }
}
