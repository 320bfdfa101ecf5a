//! The kernel's packet queues, many packets at a time (`linux/netfilter/nfnetlink_queue.h`), and which process has which.
//!
//! Waiting packets are taken together, and one message has all their verdicts. Sent one by one, each verdict would wake its packet's
//! receiver, which costs more than everything else on a busy machine.

use std::fs;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use libc::{
    NF_INET_LOCAL_IN, NF_INET_LOCAL_OUT, NF_INET_PRE_ROUTING, NFNL_SUBSYS_QUEUE, NFQA_CAP_LEN, NFQA_CFG_CMD,
    NFQA_CFG_PARAMS, NFQA_CFG_QUEUE_MAXLEN, NFQA_IFINDEX_INDEV, NFQA_IFINDEX_OUTDEV, NFQA_MARK,
    NFQA_PACKET_HDR, NFQA_PAYLOAD, NFQA_VERDICT_HDR, NFQNL_CFG_CMD_BIND, NFQNL_CFG_CMD_PF_BIND,
    NFQNL_COPY_PACKET, NFQNL_MSG_CONFIG, NFQNL_MSG_PACKET, NFQNL_MSG_VERDICT,
};
use netlink_packet_core::{
    NLA_ALIGNTO, NLA_HEADER_SIZE, NLM_F_ACK, NLM_F_REQUEST, NLMSG_ERROR, NetlinkBuffer, NlaBuffer,
};
use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use wireseal_tcp_ao::shim::{Direction, OPTION_ROOM};

use crate::error::Error;

/// Packets that are taken at once.
const BATCH: usize = 64;
/// Octets of the longest message with a packet: attributes and the longest payload.
const MESSAGE: usize = 4096 + 65_536;
/// Packets that the kernel keeps in each queue.
const QUEUE_LENGTH: u32 = 16_384;
/// Octets of packets that wait in the socket, and of verdicts in one message.
const RECEIVE_BUFFER: usize = 4 << 20;
const SEND_BUFFER: usize = 1 << 20;
/// Verdicts are sent once they have this many octets.
const FULL: usize = 256 << 10;
/// Octets of a verdict without a payload: `struct nfqnl_msg_verdict_hdr` has two numbers.
const VERDICT: usize = HEADERS + NLA_HEADER_SIZE + 8;
/// Free octets in front of a received message: room for the option, and for the headers of a verdict in front of the payload.
const HEADROOM: usize = OPTION_ROOM + VERDICT + NLA_HEADER_SIZE;
/// Octets of `struct nlmsghdr`.
const NETLINK_HEADER: usize = 16;
/// Octets of `struct nfgenmsg`, which follows the netlink header: family, version, a number, which is the queue's.
const GENERAL_HEADER: usize = 4;
pub(super) const HEADERS: usize = NETLINK_HEADER + GENERAL_HEADER;

const DROP: u32 = 0;
const ACCEPT: u32 = 1;

/// A packet queue without packets, used as a lock: the kernel gives it to only one process of a network namespace, which needs
/// CAP_NET_ADMIN, and frees it however that process ends. A gateway's queues cannot reach this number: the first is at most 65,000.
const LOCK: u16 = 65_179;
/// The bound packet queues of the calling thread's network namespace.
const BOUND: &str = "/proc/thread-self/net/netfilter/nfnetlink_queue";
/// How long to wait for the process that has the lock to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// The numbers of a gateway's packet queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Numbers {
    pub(super) first: u16,
    pub(super) threads: u16,
}

impl Numbers {
    /// Queues for packets from programs, one for each thread.
    pub(super) const fn outbound(self) -> Range<u16> {
        self.first..self.first + self.threads
    }

    /// Queues for packets to programs, one for each thread.
    pub(super) const fn inbound(self) -> Range<u16> {
        self.first + self.threads..self.errors()
    }

    /// The queue for ICMP errors.
    pub(super) const fn errors(self) -> u16 {
        self.first + 2 * self.threads
    }
}

/// A packet that waits for its verdict.
pub(super) struct Packet {
    /// The queue's number.
    queue: u16,
    id: u32,
    /// The hook at which it was queued (`enum nf_inet_hooks` of `linux/netfilter.h`).
    hook: u8,
    /// The indices of the devices by which it came and leaves; 0 if there is none.
    pub(super) from_device: u32,
    pub(super) to_device: u32,
    /// Its mark; 0 if it has none.
    pub(super) mark: u32,
    buffer: Vec<u8>,
    place: Range<usize>,
}

impl Packet {
    /// Its direction, by its hook; `None` if it is neither from a program nor for one. The queue's number proves nothing: rules of an
    /// earlier gateway, or of another program, may put any packet into any queue.
    pub(super) fn direction(&self) -> Option<Direction> {
        match i32::from(self.hook) {
            NF_INET_LOCAL_OUT => Some(Direction::Outbound),
            NF_INET_PRE_ROUTING | NF_INET_LOCAL_IN => Some(Direction::Inbound),
            _ => None,
        }
    }

    /// Its octets.
    pub(super) fn octets(&self) -> &[u8] {
        &self.buffer[self.place.clone()]
    }

    /// The octets at a place of its buffer.
    pub(super) fn octets_at(&self, place: Range<usize>) -> &[u8] {
        &self.buffer[place]
    }

    pub(super) fn octets_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.place.clone()]
    }

    /// Its place in its buffer.
    pub(super) fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// Its octets behind free ones, and how many are free: at least `OPTION_ROOM`.
    pub(super) fn buffer_with_room(&mut self) -> (&mut [u8], usize) {
        (&mut self.buffer[..self.place.end], self.place.start)
    }
}

/// A socket to which packet queues are bound. Its packets are dropped when it is closed.
pub(super) struct PacketQueues {
    socket: Socket,
    /// Buffers for reuse.
    free: Vec<Vec<u8>>,
    /// How many queues there are.
    queues: usize,
    /// Verdicts to be sent, each in its packet's buffer, and the sum of their octets.
    verdicts: Vec<(Vec<u8>, Range<usize>)>,
    octets: usize,
}

impl PacketQueues {
    /// Binds queues.
    pub(super) fn bind(numbers: impl IntoIterator<Item = u16>) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // When the buffer is full the kernel drops packets, and TCP sends them again.
        socket.set_no_enobufs(true)?;
        set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER)?;
        set_socket_send_buffer_size_force(&socket, SEND_BUFFER)?;
        let mut queues = Self { socket, free: Vec::new(), queues: 0, verdicts: Vec::new(), octets: 0 };
        for number in numbers {
            // `struct nfqnl_msg_config_cmd`: command, padding, protocol family.
            queues.configure(number, &[(NFQA_CFG_CMD, &[NFQNL_CFG_CMD_BIND as u8, 0, 0, 0])])?;
            // `struct nfqnl_msg_config_params`: octets to copy, mode.
            let [a, b, c, d] = u32::from(u16::MAX).to_be_bytes();
            let parameters = [a, b, c, d, NFQNL_COPY_PACKET as u8];
            let length = QUEUE_LENGTH.to_be_bytes();
            queues.configure(number, &[(NFQA_CFG_PARAMS, &parameters), (NFQA_CFG_QUEUE_MAXLEN, &length)])?;
            queues.queues += 1;
        }
        Ok(queues)
    }

    fn configure(&mut self, queue: u16, attributes: &[(i32, &[u8])]) -> io::Result<()> {
        let mut message = vec![0; HEADERS];
        for (kind, value) in attributes {
            let at = message.len();
            message.resize((at + NLA_HEADER_SIZE + value.len()).next_multiple_of(NLA_ALIGNTO), 0);
            write_attribute(&mut message[at..], *kind, value.len());
            message[at + NLA_HEADER_SIZE..][..value.len()].copy_from_slice(value);
        }
        write_headers(&mut message, NFNL_SUBSYS_QUEUE, NFQNL_MSG_CONFIG, NLM_F_ACK, queue);
        self.socket.send(&message, 0)?;
        loop {
            let mut answer = Vec::with_capacity(MESSAGE);
            self.socket.recv(&mut answer, 0)?;
            // Skips packets of queues that were bound before this one; the kernel drops them when the socket is closed.
            if let Some(result) = error_of(&answer) {
                return result;
            }
        }
    }

    /// Waits for packets, and takes up to a batch of them.
    pub(super) fn receive(&mut self, packets: &mut Vec<Packet>) -> io::Result<()> {
        self.take(packets, BATCH, 0)
    }

    /// Takes waiting packets; `first` are the flags for receiving the first one, 0 to wait for it.
    fn take(&mut self, packets: &mut Vec<Packet>, most: usize, first: i32) -> io::Result<()> {
        while packets.len() < most {
            let flags = if packets.is_empty() { first } else { libc::MSG_DONTWAIT };
            let mut buffer = self.free.pop().unwrap_or_else(|| Vec::with_capacity(HEADROOM + MESSAGE));
            buffer.clear();
            buffer.resize(HEADROOM, 0);
            match self.socket.recv(&mut buffer, flags) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.free.push(buffer);
                    break;
                }
                Err(error) => return Err(error),
            }
            match error_of(&buffer[HEADROOM..]) {
                // The packet is gone, for instance with its device.
                Some(Err(error)) => tracing::debug!(%error, "a verdict came too late"),
                Some(Ok(())) => {}
                None => {
                    if let Some(packet) = parse(buffer) {
                        packets.push(packet);
                    }
                }
            }
        }
        Ok(())
    }

    /// Accepts the packet unchanged.
    pub(super) fn accept(&mut self, packet: Packet) -> io::Result<()> {
        self.decide(packet, ACCEPT, None)
    }

    /// Accepts the packet with the octets at this place of its buffer in place of its own.
    pub(super) fn accept_at(&mut self, packet: Packet, place: Range<usize>) -> io::Result<()> {
        self.decide(packet, ACCEPT, Some(place))
    }

    /// Drops the packet.
    pub(super) fn drop(&mut self, packet: Packet) -> io::Result<()> {
        self.decide(packet, DROP, None)
    }

    /// Writes the verdict in front of the payload, if there is one, so that nothing is copied.
    fn decide(&mut self, packet: Packet, verdict: u32, payload: Option<Range<usize>>) -> io::Result<()> {
        let Packet { queue, id, mut buffer, .. } = packet;
        let message = match payload {
            Some(payload) => {
                let attribute = payload.start - NLA_HEADER_SIZE;
                write_attribute(&mut buffer[attribute..], NFQA_PAYLOAD, payload.len());
                let start = attribute - VERDICT;
                let end = start + (payload.end - start).next_multiple_of(NLA_ALIGNTO);
                buffer.truncate(payload.end);
                buffer.resize(end, 0);
                start..end
            }
            None => 0..VERDICT,
        };
        let octets = &mut buffer[message.clone()];
        write_headers(octets, NFNL_SUBSYS_QUEUE, NFQNL_MSG_VERDICT, 0, queue);
        write_attribute(&mut octets[HEADERS..], NFQA_VERDICT_HDR, 8);
        octets[HEADERS + NLA_HEADER_SIZE..][..4].copy_from_slice(&verdict.to_be_bytes());
        octets[HEADERS + NLA_HEADER_SIZE + 4..][..4].copy_from_slice(&id.to_be_bytes());
        self.octets += message.len();
        self.verdicts.push((buffer, message));
        if self.octets >= FULL || self.verdicts.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    /// Drops all waiting packets.
    pub(super) fn drain(&mut self) -> io::Result<()> {
        let mut packets = Vec::new();
        // No more than this can have been waiting.
        for _ in 0..self.queues * QUEUE_LENGTH as usize / BATCH {
            self.take(&mut packets, BATCH, libc::MSG_DONTWAIT)?;
            if packets.is_empty() {
                break;
            }
            packets.drain(..).try_for_each(|packet| self.drop(packet))?;
            self.flush()?;
        }
        Ok(())
    }

    /// Sends the verdicts.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.verdicts.is_empty() {
            return Ok(());
        }
        let slices: Vec<_> =
            self.verdicts.iter().map(|(buffer, message)| IoSlice::new(&buffer[message.clone()])).collect();
        let sent = sendmsg(&self.socket, &slices, &mut SendAncillaryBuffer::default(), SendFlags::empty());
        self.free.extend(self.verdicts.drain(..).map(|(buffer, _)| buffer));
        self.octets = 0;
        sent.map(drop).map_err(Into::into)
    }

    /// Accepts every packet uninspected, until an error; at most this many are taken at once.
    pub(super) fn accept_all(numbers: Range<u16>, most: usize) -> io::Result<()> {
        let mut queues = Self::bind(numbers)?;
        let mut packets = Vec::new();
        loop {
            queues.take(&mut packets, most, 0)?;
            for packet in packets.drain(..) {
                queues.accept(packet)?;
            }
            queues.flush()?;
        }
    }
}

/// Writes the headers of a message as long as these octets.
pub(super) fn write_headers(message: &mut [u8], subsystem: i32, kind: i32, flags: u16, resource: u16) {
    let length = message.len() as u32;
    message[..HEADERS].fill(0);
    message[NETLINK_HEADER + 2..HEADERS].copy_from_slice(&resource.to_be_bytes());
    let mut header = NetlinkBuffer::new(message);
    header.set_length(length);
    header.set_message_type((subsystem as u16) << 8 | kind as u16);
    header.set_flags(NLM_F_REQUEST | flags);
}

/// Writes the header of an attribute whose value has this length.
fn write_attribute(octets: &mut [u8], kind: i32, length: usize) {
    let mut attribute = NlaBuffer::new(octets);
    attribute.set_kind(kind as u16);
    attribute.set_length((NLA_HEADER_SIZE + length) as u16);
}

/// The result of a request in an answer of the kernel; `None` if it is no answer.
fn error_of(message: &[u8]) -> Option<io::Result<()>> {
    let message = NetlinkBuffer::new_checked(message).ok()?;
    if message.message_type() != NLMSG_ERROR {
        return None;
    }
    let code = i32::from_ne_bytes(*message.payload().first_chunk()?);
    Some(if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code.saturating_neg())) })
}

/// The packet in a message; `None` if there is none.
fn parse(buffer: Vec<u8>) -> Option<Packet> {
    let message = NetlinkBuffer::new_checked(&buffer[HEADROOM..]).ok()?;
    if message.message_type() != (NFNL_SUBSYS_QUEUE as u16) << 8 | NFQNL_MSG_PACKET as u16 {
        return None;
    }
    let queue = u16::from_be_bytes(*message.payload().get(2..)?.first_chunk()?);
    let number = |value: &[u8]| value.first_chunk().map(|octets| u32::from_be_bytes(*octets));
    let (mut header, mut place, mut is_cut) = (None, None, false);
    let (mut from_device, mut to_device, mut mark) = (0, 0, 0);
    let (mut at, end) = (HEADROOM + HEADERS, HEADROOM + message.length() as usize);
    while at + NLA_HEADER_SIZE <= end {
        let attribute = NlaBuffer::new_checked(buffer.get(at..end)?).ok()?;
        let value = attribute.value();
        match i32::from(attribute.kind()) {
            // `struct nfqnl_msg_packet_hdr`: identifier, protocol, hook.
            NFQA_PACKET_HDR => header = number(value).zip(value.get(6).copied()),
            NFQA_IFINDEX_INDEV => from_device = number(value)?,
            NFQA_IFINDEX_OUTDEV => to_device = number(value)?,
            NFQA_MARK => mark = number(value)?,
            NFQA_PAYLOAD => place = Some(at + NLA_HEADER_SIZE..at + NLA_HEADER_SIZE + value.len()),
            // The kernel cut it off, and the shim refuses what is left.
            NFQA_CAP_LEN => is_cut = true,
            _ => {}
        }
        at += usize::from(attribute.length()).next_multiple_of(NLA_ALIGNTO);
    }
    let place = if is_cut { HEADROOM..HEADROOM } else { place? };
    let (id, hook) = header?;
    Some(Packet { queue, id, hook, from_device, to_device, mark, place, buffer })
}

/// The lock of this network namespace, held by its gateway or by whoever removes the rules: two gateways would queue the same packets
/// twice.
pub(super) struct Lock(#[expect(dead_code, reason = "it is held")] PacketQueues);

impl Lock {
    /// Takes the lock. This must be the process's first netlink socket, because the kernel gives only that one the process number as its
    /// port. `taken` makes the error if another process has the lock.
    pub(super) fn take(taken: impl FnOnce(Option<u32>) -> Error) -> Result<Self, Error> {
        let started = Instant::now();
        let mut was_free = false;
        loop {
            let error = match PacketQueues::bind([LOCK]) {
                Ok(queue) => return Ok(Self(queue)),
                Err(error) => error,
            };
            match holder() {
                // The other process may be about to end.
                Some(_) if started.elapsed() < PATIENCE => thread::sleep(PATIENCE / 10),
                Some(holder) => return Err(taken(holder)),
                // It may have ended since.
                None if !was_free => was_free = true,
                None => return Err(cannot_bind(LOCK, LOCK, error)),
            }
        }
    }
}

/// Tries whether the kernel has packet queues. None is bound: the kernel still takes this command of earlier versions, and does nothing.
pub(crate) fn try_queues() -> io::Result<()> {
    let family = libc::AF_INET as u8;
    PacketQueues::bind([])?.configure(0, &[(NFQA_CFG_CMD, &[NFQNL_CFG_CMD_PF_BIND as u8, 0, 0, family])])
}

/// Whether a gateway runs in the calling thread's network namespace.
///
/// # Errors
/// If this process may not see that.
pub(crate) fn is_locked() -> io::Result<bool> {
    match fs::read_to_string(BOUND) {
        Ok(text) => Ok(numbers(&text).any(|numbers| numbers.first() == Some(&LOCK.into()))),
        // No process ever had a packet queue.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Who has the lock: the process, if it is known.
pub(super) fn holder() -> Option<Option<u32>> {
    bound().find(|(queue, _)| *queue == LOCK).map(|(_, port)| {
        // Only a process's first netlink socket has the process's number; others have one that the kernel chose.
        Path::new("/proc").join(port.to_string()).exists().then_some(port)
    })
}

/// How many packets of these queues the kernel has dropped for lack of room.
pub(super) fn lost(queues: RangeInclusive<u16>) -> u64 {
    let of_queue = |numbers: Vec<u64>| match numbers[..] {
        [queue, _port, _waiting, _form, _octets, by_full_queue, by_full_socket, ..] => {
            let is_own = u16::try_from(queue).is_ok_and(|queue| queues.contains(&queue));
            is_own.then_some(by_full_queue + by_full_socket)
        }
        _ => None,
    };
    lines().filter_map(of_queue).sum()
}

/// The bound packet queues of this network namespace, and their netlink sockets.
fn bound() -> impl Iterator<Item = (u16, u32)> {
    lines().filter_map(|numbers| match numbers[..] {
        [queue, port, ..] => Some((queue.try_into().ok()?, port.try_into().ok()?)),
        _ => None,
    })
}

/// A line of numbers for each bound packet queue of this network namespace; the first is the queue's.
fn lines() -> impl Iterator<Item = Vec<u64>> {
    let text = fs::read_to_string(BOUND).unwrap_or_default();
    numbers(&text).collect::<Vec<_>>().into_iter()
}

fn numbers(text: &str) -> impl Iterator<Item = Vec<u64>> {
    text.lines().map(|line| line.split_whitespace().map_while(|word| word.parse().ok()).collect())
}

/// The error that queues cannot be bound, with advice.
pub(super) fn cannot_bind(first: u16, last: u16, error: io::Error) -> Error {
    let is_taken = || bound().any(|(queue, _)| (first..=last).contains(&queue));
    let advice = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ResourceBusy if is_taken() => {
            " (another program has one of them: choose others with --queue)"
        }
        ErrorKind::PermissionDenied => " (it needs CAP_NET_ADMIN)",
        _ => "",
    };
    let error = io::Error::new(error.kind(), format!("{error}{advice}"));
    Error::cannot(format!("bind the packet queues {first} to {last}"))(error)
}

/// Source and destination in a packet's IP header.
pub(super) fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    Some(match packet.first()? >> 4 {
        4 => {
            let [from, to] = [12, 16].map(|at| packet.get(at..)?.first_chunk::<4>());
            (Ipv4Addr::from(*from?).into(), Ipv4Addr::from(*to?).into())
        }
        6 => {
            let [from, to] = [8, 24].map(|at| packet.get(at..)?.first_chunk::<16>());
            (Ipv6Addr::from(*from?).into(), Ipv6Addr::from(*to?).into())
        }
        _ => return None,
    })
}

/// The destination in a packet's IP header.
pub(super) fn destination(packet: &[u8]) -> Option<IpAddr> {
    ends(packet).map(|(_, to)| to)
}

/// What follows a packet's IP header, because the kernel changes some fields of that header.
pub(super) fn segment(packet: &[u8]) -> &[u8] {
    let header = match packet.first() {
        Some(first) if first >> 4 == 4 => usize::from(first & 0xf) * 4,
        _ => 40,
    };
    packet.get(header..).unwrap_or_default()
}

/// A queued packet: its queue, identifier, hook, devices and mark, and its octets.
#[cfg(fuzzing)]
pub type Queued = ([u32; 6], Vec<u8>);

/// For the fuzz targets: the packet in a message from the kernel, or the result of a request; neither in any other message.
#[cfg(fuzzing)]
#[must_use]
pub fn queue_message(message: &[u8]) -> (Option<Queued>, Option<io::Result<()>>) {
    let packet = parse([&[0; HEADROOM], message].concat()).map(|packet| {
        let Packet { queue, id, hook, from_device, to_device, mark, .. } = packet;
        ([queue.into(), id, hook.into(), from_device, to_device, mark], packet.octets().to_vec())
    });
    (packet, error_of(message))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The kernel's message for a packet that was queued at this hook.
    fn message(hook: u8, packet: &[u8]) -> Vec<u8> {
        let mut buffer = vec![0; HEADROOM + HEADERS];
        for (kind, value) in [(NFQA_PACKET_HDR, &[0, 0, 0, 7, 8, 0, hook][..]), (NFQA_PAYLOAD, packet)] {
            let at = buffer.len();
            buffer.resize((at + NLA_HEADER_SIZE + value.len()).next_multiple_of(NLA_ALIGNTO), 0);
            write_attribute(&mut buffer[at..], kind, value.len());
            buffer[at + NLA_HEADER_SIZE..][..value.len()].copy_from_slice(value);
        }
        // The hook decides, not the queue's number.
        write_headers(&mut buffer[HEADROOM..], NFNL_SUBSYS_QUEUE, NFQNL_MSG_PACKET, 0, 17_900);
        buffer
    }

    /// A packet of a program's.
    pub(crate) fn packet_of_a_program(packet: &[u8]) -> Packet {
        parse(message(NF_INET_LOCAL_OUT as u8, packet)).unwrap()
    }

    #[test]
    fn the_hook_says_which_way_a_packet_goes() {
        // `enum nf_inet_hooks`: prerouting, input, forward, output, postrouting.
        let (inbound, outbound) = (Some(Direction::Inbound), Some(Direction::Outbound));
        for (hook, direction) in (0..).zip([inbound, inbound, None, outbound, None, None]) {
            let packet = parse(message(hook, &[0x45; 20])).unwrap();
            assert_eq!((packet.id, packet.octets()), (7, &[0x45; 20][..]));
            assert_eq!(packet.direction(), direction, "{hook}");
        }
    }

    #[test]
    fn every_error_number_is_reported() {
        let results = [0, -2, i32::MIN].map(|code: i32| {
            let mut answer = [0; NETLINK_HEADER + 4];
            answer[NETLINK_HEADER..].copy_from_slice(&code.to_ne_bytes());
            let mut header = NetlinkBuffer::new(&mut answer[..]);
            header.set_length(NETLINK_HEADER as u32 + 4);
            header.set_message_type(NLMSG_ERROR);
            error_of(&answer).unwrap().err().and_then(|error| error.raw_os_error())
        });
        assert_eq!(results, [None, Some(2), Some(i32::MAX)]);
    }
}
