//! Making a closed socket a connection that was established elsewhere.

use std::ffi::c_int;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use socket2::{SockAddr, SockRef};
use wireseal_tcp_ao::{ConnectionState, Endpoint, SeqNum, SneTracker};

use super::{Exported, Frozen, TcpState};
use crate::address::{Family, canonical};
use crate::errno::Asked;
use crate::error::Error;
use crate::info::Change;
use crate::key::SocketKey;
use crate::layout::{AoRepair, RepairOption, RepairWindow};
use crate::socket::TcpAoSocket;
use crate::sys;

/// The smallest and the largest TCP_MAXSEG that the kernel takes (`TCP_MIN_MSS`, `MAX_TCP_WINDOW`).
const MAXSEG: (u32, u32) = (88, 32_767);

/// Octets that go to the kernel at once: it makes one buffer of what the receive queue is given.
const CHUNK: usize = 16 * 1024;

/// Makes a fresh, closed socket the connection that was exported elsewhere (`TCP_REPAIR`, `TCP_AO_REPAIR`).
///
/// The socket must be of the connection's family (IPv6 will do for IPv4) and the local address must be this host's. It is
/// to be bound to its interface beforehand when it was, and for link-local addresses. Which of the keys are current and
/// rnext key the exported state says; their own flags do not matter. The receive and send buffers grow if they must, and
/// then no longer by themselves. As it ends the peer gets a window probe, whose answer says what arrived meanwhile.
///
/// # Errors
/// [`Error::NoSuchKey`] when no key for the peer is the exported current or rnext key, [`Error::NotRestorable`] when the
/// state is contradictory, and [`Error::NoPermission`], before anything was done. After any other error the socket must
/// be closed, which sends nothing to the peer; then another attempt can be made.
pub fn restore<S: AsFd + ?Sized>(
    socket: &S,
    exported: &Exported,
    keys: &[SocketKey<'_>],
) -> Result<(), Error> {
    let socket = TcpAoSocket::new(socket);
    check(exported, keys)?;
    let frozen = socket.freeze()?;
    let restored = frozen.become_connection(exported, keys).and_then(|()| {
        frozen.thaw(sys::TCP_REPAIR_OFF)?;
        // What was never sent goes the way of all data.
        let (_, unsent) = exported.tcp.split_send_queue();
        frozen.write(unsent, libc::SO_SNDBUF, libc::SO_SNDBUFFORCE)
    });
    if restored.is_err() {
        // Whether it was thawed already or not: closing it is to send nothing.
        drop(socket.repair(libc::TCP_REPAIR, &sys::TCP_REPAIR_ON));
    }
    frozen.abandon();
    restored
}

/// What can be found wrong without a socket.
pub(super) fn check(exported: &Exported, keys: &[SocketKey<'_>]) -> Result<(), Error> {
    let ConnectionState { pair, current_key, rnext_key, .. } = &exported.authentication;
    if exported.tcp.unsent > exported.tcp.send_queue.len() {
        return Err(Error::NotRestorable("more octets are unsent than the send queue has"));
    }
    let mut ours = keys.iter().filter(|key| canonical(key.remote).contains(&pair.remote.address()));
    if !ours.clone().any(|key| key.mkt.send_id() == *current_key) {
        return Err(Error::NoSuchKey { send_id: Some(*current_key), recv_id: None });
    }
    if !ours.any(|key| key.mkt.recv_id() == *rnext_key) {
        return Err(Error::NoSuchKey { send_id: None, recv_id: Some(*rnext_key) });
    }
    Ok(())
}

/// An end of the connection as a socket of this family takes it.
pub(super) fn address(end: Endpoint, family: Family) -> Result<SockAddr, Error> {
    let address = match (family, end.address()) {
        (Family::Ipv4, IpAddr::V6(_)) => {
            return Err(Error::NotRestorable("it is one of IPv6, and the socket is one of IPv4"));
        }
        (Family::Ipv6, IpAddr::V4(address)) => address.to_ipv6_mapped().into(),
        (_, address) => address,
    };
    Ok(SocketAddr::new(address, end.port()).into())
}

/// The sequence number of a queue's first octet.
const fn start(next: SeqNum, queue: &[u8]) -> SeqNum {
    SeqNum(next.0.wrapping_sub(queue.len() as u32))
}

const fn window(tcp: &TcpState) -> RepairWindow {
    RepairWindow {
        snd_wl1: tcp.window.send_update.0,
        snd_wnd: tcp.window.send,
        max_window: tcp.window.send_max,
        rcv_wnd: tcp.window.receive,
        rcv_wup: tcp.window.receive_update.0,
    }
}

/// The SNEs at the kernel's own sequence numbers, whichever ones the state names.
pub(super) const fn ao_repair(exported: &Exported) -> AoRepair {
    let Exported { tcp, authentication, .. } = exported;
    let send = SneTracker::resume(authentication.send_sne, authentication.send_sequence);
    let receive = SneTracker::resume(authentication.receive_sne, authentication.receive_sequence);
    AoRepair {
        snt_isn: authentication.local_isn.0.to_be_bytes(),
        rcv_isn: authentication.remote_isn.0.to_be_bytes(),
        snd_sne: send.sne_of(SeqNum(tcp.send_next.0.wrapping_sub(tcp.send_queue.len() as u32))).0,
        rcv_sne: receive.sne_of(tcp.receive_next).0,
    }
}

/// The options that were agreed on in the handshake.
pub(super) fn options(tcp: &TcpState) -> Vec<RepairOption> {
    const MSS: u32 = 2;
    const WINDOW_SCALE: u32 = 3;
    const SACK_PERMITTED: u32 = 4;
    const TIMESTAMPS: u32 = 8;
    let scales = tcp.window_scale.map(|scale| u32::from(scale.send) | u32::from(scale.receive) << 16);
    let all = [
        Some(RepairOption { code: MSS, value: tcp.mss }),
        scales.map(|value| RepairOption { code: WINDOW_SCALE, value }),
        tcp.sack.then_some(RepairOption { code: SACK_PERMITTED, value: 0 }),
        tcp.timestamp.map(|_| RepairOption { code: TIMESTAMPS, value: 0 }),
    ];
    all.into_iter().flatten().collect()
}

impl TcpState {
    /// What was sent, and what was not. The latter is no longer than the queue, as `check` has seen.
    fn split_send_queue(&self) -> (&[u8], &[u8]) {
        self.send_queue.split_at(self.send_queue.len() - self.unsent)
    }
}

impl Frozen<'_> {
    fn become_connection(&self, exported: &Exported, keys: &[SocketKey<'_>]) -> Result<(), Error> {
        let (socket, fd) = (self.socket, self.socket.fd());
        let Exported { tcp, authentication, .. } = exported;
        let family = socket.family()?;
        let view = SockRef::from(&fd);
        // What connecting derives the size of segments from.
        socket.repair(libc::TCP_MAXSEG, &tcp.mss.clamp(MAXSEG.0, MAXSEG.1))?;
        view.bind(&address(authentication.pair.local, family)?)?;
        self.set_sequence(sys::TCP_RECV_QUEUE, start(tcp.receive_next, &tcp.receive_queue))?;
        self.set_sequence(sys::TCP_SEND_QUEUE, start(tcp.send_next, &tcp.send_queue))?;
        for key in keys {
            socket.add_key(&SocketKey { set_current: false, set_rnext: false, ..*key })?;
        }
        view.connect(&address(authentication.pair.remote, family)?)?;
        self.set_options(tcp)?;
        self.fill(sys::TCP_RECV_QUEUE, &tcp.receive_queue)?;
        self.fill(sys::TCP_SEND_QUEUE, tcp.split_send_queue().0)?;
        socket.repair(libc::TCP_REPAIR_QUEUE, &sys::TCP_NO_QUEUE)?;
        socket.repair(libc::TCP_REPAIR_WINDOW, &window(tcp))?;
        // The kernel's SNEs belong to what is not acknowledged and what is expected, and both are in place now.
        socket.repair(sys::TCP_AO_REPAIR, &ao_repair(exported))?;
        socket.change(&Change {
            current_key: Some(authentication.current_key),
            rnext_key: Some(authentication.rnext_key),
            required: Some(exported.required),
            accept_icmps: Some(exported.accept_icmps),
            counters: Some(authentication.counters),
        })
    }

    fn set_sequence(&self, queue: c_int, sequence: SeqNum) -> Result<(), Error> {
        self.socket.repair(libc::TCP_REPAIR_QUEUE, &queue)?;
        self.socket.repair(libc::TCP_QUEUE_SEQ, &sequence.0)
    }

    fn set_options(&self, tcp: &TcpState) -> Result<(), Error> {
        sys::set_all(self.socket.fd(), libc::IPPROTO_TCP, libc::TCP_REPAIR_OPTIONS, &options(tcp))
            .map_err(|error| self.socket.error(&Asked::Repair, error))?;
        tcp.timestamp.map_or(Ok(()), |timestamp| self.socket.repair(libc::TCP_TIMESTAMP, &timestamp))
    }

    /// Fills a queue as if its octets had been received, or sent, before.
    fn fill(&self, queue: c_int, octets: &[u8]) -> Result<(), Error> {
        self.socket.repair(libc::TCP_REPAIR_QUEUE, &queue)?;
        match queue {
            sys::TCP_RECV_QUEUE => self.write(octets, libc::SO_RCVBUF, libc::SO_RCVBUFFORCE),
            _ => self.write(octets, libc::SO_SNDBUF, libc::SO_SNDBUFFORCE),
        }
    }

    /// Gives all octets to the kernel, and the socket more room as long as they do not fit: they did once.
    fn write(&self, mut octets: &[u8], size: c_int, force: c_int) -> Result<(), Error> {
        let fd = self.socket.fd();
        let view = SockRef::from(&fd);
        while !octets.is_empty() {
            let chunk = &octets[..octets.len().min(CHUNK)];
            match view.send_with_flags(chunk, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
                Ok(written) => octets = &octets[written..],
                Err(error) if is_full(&error) => {
                    let before: c_int = sys::get_buffer_size(fd, size)?;
                    // The kernel doubles what it is told.
                    sys::set_all(fd, libc::SOL_SOCKET, force, &[before])?;
                    if sys::get_buffer_size(fd, size)? <= before {
                        return Err(Error::NoMemory);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOMEM)
}
