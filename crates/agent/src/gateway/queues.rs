//! The kernel's packet queues, many packets at a time (`linux/netfilter/nfnetlink_queue.h`).
//!
//! Packets that wait are taken together, and one message has the verdicts on all of them: each verdict by itself wakes whoever waits for
//! the packet, and on a busy machine that costs more than everything else.

use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;

use libc::{
    NF_INET_LOCAL_IN, NF_INET_LOCAL_OUT, NF_INET_PRE_ROUTING, NFNL_SUBSYS_QUEUE, NFQA_CAP_LEN, NFQA_CFG_CMD,
    NFQA_CFG_PARAMS, NFQA_CFG_QUEUE_MAXLEN, NFQA_IFINDEX_INDEV, NFQA_IFINDEX_OUTDEV, NFQA_MARK,
    NFQA_PACKET_HDR, NFQA_PAYLOAD, NFQA_VERDICT_HDR, NFQNL_CFG_CMD_BIND, NFQNL_COPY_PACKET, NFQNL_MSG_CONFIG,
    NFQNL_MSG_PACKET, NFQNL_MSG_VERDICT,
};
use netlink_packet_core::{
    NLA_ALIGNTO, NLA_HEADER_SIZE, NLM_F_ACK, NLM_F_REQUEST, NLMSG_ERROR, NetlinkBuffer, NlaBuffer,
};
use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use wireseal_tcp_ao::shim::{Direction, OPTION_ROOM};

/// Packets that are taken at once.
const BATCH: usize = 64;
/// Octets of the longest message with a packet: what the kernel says of it, and its longest payload.
const MESSAGE: usize = 4096 + 65_536;
/// Packets that the kernel keeps in each queue.
const QUEUE_LENGTH: u32 = 16_384;
/// Octets of packets that wait in the socket, and of verdicts in one message.
const RECEIVE_BUFFER: usize = 4 << 20;
const SEND_BUFFER: usize = 1 << 20;
/// Verdicts are sent once there are so many octets of them.
const FULL: usize = 256 << 10;
/// Octets of a verdict without a payload: `struct nfqnl_msg_verdict_hdr` has two numbers.
const VERDICT: usize = HEADERS + NLA_HEADER_SIZE + 8;
/// Free octets in front of what is received: room for the option, and for a verdict around the payload.
const HEADROOM: usize = OPTION_ROOM + VERDICT + NLA_HEADER_SIZE;
/// Octets of `struct nlmsghdr`.
const NETLINK_HEADER: usize = 16;
/// Octets of `struct nfgenmsg`, which follows the netlink header: family, version, a number, which is the queue's.
const GENERAL_HEADER: usize = 4;
pub(super) const HEADERS: usize = NETLINK_HEADER + GENERAL_HEADER;

const DROP: u32 = 0;
const ACCEPT: u32 = 1;

/// A packet that waits for its verdict.
#[derive(Debug)]
pub(super) struct Packet {
    /// The queue's number.
    queue: u16,
    id: u32,
    /// Where on its way through the kernel it was queued (`enum nf_inet_hooks` of `linux/netfilter.h`).
    hook: u8,
    /// The indices of the devices that it came by and leaves by; 0 if there is none.
    pub(super) from_device: u32,
    pub(super) to_device: u32,
    /// Its mark; 0 if it has none.
    pub(super) mark: u32,
    buffer: Vec<u8>,
    place: Range<usize>,
}

impl Packet {
    /// Which way it goes. It is known by the hook alone, which the kernel says of each packet: rules of another gateway, or of another
    /// program, may put packets of any direction into any queue. `None` if it is neither from a program nor for one.
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

    /// Where it starts in its buffer.
    pub(super) const fn start(&self) -> usize {
        self.place.start
    }

    /// Its place in its buffer.
    pub(super) fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// Its octets, and how many lie in front of them that may be written to: more than `OPTION_ROOM`.
    pub(super) fn buffer_with_room(&mut self) -> (&mut [u8], usize) {
        (&mut self.buffer[..self.place.end], self.place.start)
    }
}

/// A socket to which packet queues are bound. Its packets are dropped when it is closed.
#[derive(Debug)]
pub struct PacketQueues {
    socket: Socket,
    /// Buffers to be used again.
    free: Vec<Vec<u8>>,
    /// How many queues there are.
    queues: usize,
    /// Verdicts to be sent, each somewhere in its packet's buffer, and their octets.
    verdicts: Vec<(Vec<u8>, Range<usize>)>,
    octets: usize,
}

impl PacketQueues {
    /// Binds queues.
    pub(super) fn bind(numbers: impl IntoIterator<Item = u16>) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // A full buffer drops packets, of which TCP takes care.
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
            // Another queue of the socket may have packets already; they are dropped in the end.
            if let Some(result) = error_of(&answer) {
                return result;
            }
        }
    }

    /// Waits for packets, and takes those that are there.
    pub(super) fn receive(&mut self, packets: &mut Vec<Packet>) -> io::Result<()> {
        self.take(packets, BATCH, 0)
    }

    /// Takes packets that are there; `first` are the flags with which the first is waited for.
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
                // The kernel has given a packet up, for instance because its device is gone.
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

    /// The packet goes on as it is.
    pub(super) fn accept(&mut self, packet: Packet) -> io::Result<()> {
        self.decide(packet, ACCEPT, None)
    }

    /// The packet goes on with the octets at this place of its buffer.
    pub(super) fn accept_at(&mut self, packet: Packet, place: Range<usize>) -> io::Result<()> {
        self.decide(packet, ACCEPT, Some(place))
    }

    /// The packet goes nowhere.
    pub(super) fn drop(&mut self, packet: Packet) -> io::Result<()> {
        self.decide(packet, DROP, None)
    }

    /// Writes the verdict around the payload, if it goes on with one, so that nothing is copied.
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

    /// Drops what waits, so that the next packet received is one that came since.
    pub(super) fn drain(&mut self) -> io::Result<()> {
        let mut packets = Vec::new();
        // No more can have waited.
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

    /// Accepts every packet unlooked, until an error: the cost of the queues alone, for measurements. At most so many packets are taken
    /// at once.
    ///
    /// # Errors
    /// Whatever the operating system says.
    #[doc(hidden)]
    pub fn accept_all(first: u16, queues: u16, most: usize) -> io::Result<()> {
        let mut queues = Self::bind(first..first + queues)?;
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

/// Writes the headers of a message that fills these octets.
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

/// What an answer of the kernel says of a request; `None` if it is none.
fn error_of(message: &[u8]) -> Option<io::Result<()>> {
    let message = NetlinkBuffer::new_checked(message).ok()?;
    if message.message_type() != NLMSG_ERROR {
        return None;
    }
    let code = i32::from_ne_bytes(*message.payload().first_chunk()?);
    Some(if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) })
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
            // It was cut, and what is left is refused.
            NFQA_CAP_LEN => is_cut = true,
            _ => {}
        }
        at += usize::from(attribute.length()).next_multiple_of(NLA_ALIGNTO);
    }
    let place = if is_cut { HEADROOM..HEADROOM } else { place? };
    let (id, hook) = header?;
    Some(Packet { queue, id, hook, from_device, to_device, mark, place, buffer })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A message of the kernel's with a packet that was queued at this hook.
    fn message(hook: u8, packet: &[u8]) -> Vec<u8> {
        let mut buffer = vec![0; HEADROOM + HEADERS];
        for (kind, value) in [(NFQA_PACKET_HDR, &[0, 0, 0, 7, 8, 0, hook][..]), (NFQA_PAYLOAD, packet)] {
            let at = buffer.len();
            buffer.resize((at + NLA_HEADER_SIZE + value.len()).next_multiple_of(NLA_ALIGNTO), 0);
            write_attribute(&mut buffer[at..], kind, value.len());
            buffer[at + NLA_HEADER_SIZE..][..value.len()].copy_from_slice(value);
        }
        // A queue's number says nothing.
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
}
