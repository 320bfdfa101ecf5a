//! Turning a closed socket into a connection that was established elsewhere.

use std::ffi::c_int;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use linux_raw_sys::net::{
    TCP_AO_REPAIR, TCP_MAXSEG, TCP_NO_QUEUE, TCP_QUEUE_SEQ, TCP_RECV_QUEUE, TCP_REPAIR, TCP_REPAIR_OFF,
    TCP_REPAIR_ON, TCP_REPAIR_OPTIONS, TCP_REPAIR_QUEUE, TCP_REPAIR_WINDOW, TCP_SEND_QUEUE, TCP_TIMESTAMP,
    tcp_ao_repair, tcp_repair_opt, tcp_repair_window,
};
use socket2::{SockAddr, SockRef, Socket};
use wireseal_tcp_ao::{ConnectionState, Endpoint, SeqNum, SneTracker, canonical_network};

use crate::errno::Request;
use crate::info::Change;
use crate::key::Family;
use crate::repair::export::Frozen;
use crate::repair::{Exported, TcpState};
use crate::{Error, SocketKey, TcpAoSocket, sys};

/// The smallest and the largest TCP_MAXSEG that the kernel takes (`TCP_MIN_MSS`, `MAX_TCP_WINDOW`).
const MAXSEG: (u32, u32) = (88, 32_767);

/// Octets in a write. The kernel makes one buffer of each write to the receive queue.
const CHUNK: usize = 16 * 1024;

/// Turns a fresh, closed socket into the exported connection (`TCP_REPAIR`, `TCP_AO_REPAIR`).
///
/// The socket must have the connection's address family (IPv6 also works for IPv4), and the local address must be this host's. Bind it to
/// its interface first if the old socket was bound to one, and for link-local addresses. The exported state, not the flags of `keys`,
/// decides which keys are current and rnext. The receive and send buffers grow if necessary; the kernel then no longer resizes them. At the
/// end the peer gets a window probe; its answer shows what arrived meanwhile.
///
/// # Errors
/// Before anything is done, [`Error::CannotRestore`] on kernels that would crash, [`Error::NoSuchKey`] if no key for the peer is the
/// exported current or rnext key, [`Error::NotRestorable`] if the state contradicts itself, and [`Error::NoPermission`]. After any other
/// error close the socket, which sends nothing to the peer; you can then try again.
pub fn restore(
    socket: &(impl AsFd + ?Sized),
    exported: &Exported,
    keys: &[SocketKey<'_>],
) -> Result<(), Error> {
    let socket = TcpAoSocket::new(socket);
    check_release(sys::kernel_release()?)?;
    check(exported, keys)?;
    let mut frozen = socket.freeze()?;
    // From here on, dropping must not thaw the socket.
    frozen.is_exported = true;
    let restored = frozen.become_connection(exported, keys).and_then(|()| {
        frozen.thaw(TCP_REPAIR_OFF.cast_signed())?;
        // Data that was never sent is written like any other.
        let (_, unsent) = exported.tcp.split_send_queue();
        frozen.write(unsent, Socket::send_buffer_size, libc::SO_SNDBUFFORCE)
    });
    if restored.is_err() {
        // Closing the socket must send nothing, thawed or not.
        drop(socket.repair(TCP_REPAIR, &TCP_REPAIR_ON));
    }
    restored
}

/// Whether a kernel of this release, as `uname -r` prints it, can restore a connection with TCP-AO.
///
/// When a socket in repair connects, older kernels read the ISN from a SYN-ACK that does not exist, and crash (`tcp_ao_finish_connect`).
/// Adding the keys after connecting is too late: Linux then signs segments before it cuts them to size.
pub(crate) fn can_restore(release: &str) -> bool {
    let mut numbers = release.split(|char: char| !char.is_ascii_digit()).map(|number| number.parse::<u32>());
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or_default();
    let version = (next(), next(), next());
    version >= (6, 17, 0) || ((6, 12, 49)..(6, 13, 0)).contains(&version)
}

/// Whether restoring would crash the kernel.
///
/// # Errors
/// [`Error::CannotRestore`].
pub(super) fn check_release(release: String) -> Result<(), Error> {
    if can_restore(&release) { Ok(()) } else { Err(Error::CannotRestore { kernel: release }) }
}

/// Checks the state and the keys without the socket.
pub(super) fn check(exported: &Exported, keys: &[SocketKey<'_>]) -> Result<(), Error> {
    let ConnectionState { pair, current_key, rnext_key, .. } = &exported.authentication;
    if exported.tcp.unsent > exported.tcp.send_queue.len() {
        return Err(Error::NotRestorable("it has more unsent octets than octets in the send queue"));
    }
    let mut ours = keys.iter().filter(|key| canonical_network(key.remote).contains(&pair.remote.address()));
    if !ours.clone().any(|key| key.mkt.send_id() == *current_key) {
        return Err(Error::NoSuchKey { send_id: Some(*current_key), recv_id: None });
    }
    if !ours.any(|key| key.mkt.recv_id() == *rnext_key) {
        return Err(Error::NoSuchKey { send_id: None, recv_id: Some(*rnext_key) });
    }
    Ok(())
}

/// The address of one end, as a socket of this family takes it.
pub(super) fn address(end: Endpoint, family: Family) -> Result<SockAddr, Error> {
    let address = match (family, end.address()) {
        (Family::Ipv4, IpAddr::V6(_)) => {
            return Err(Error::NotRestorable("it is an IPv6 connection, and the socket is an IPv4 socket"));
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

const fn window(tcp: &TcpState) -> tcp_repair_window {
    tcp_repair_window {
        snd_wl1: tcp.window.send_update.0,
        snd_wnd: tcp.window.send,
        max_window: tcp.window.send_max,
        rcv_wnd: tcp.window.receive,
        rcv_wup: tcp.window.receive_update.0,
    }
}

/// The ISNs in network byte order, and the SNEs of the first octet not acknowledged and the next octet expected, whatever sequence numbers
/// the state has.
pub(super) fn ao_repair(exported: &Exported) -> tcp_ao_repair {
    let Exported { tcp, authentication, .. } = exported;
    let send = SneTracker::resume(authentication.send_sne, authentication.send_sequence);
    let receive = SneTracker::resume(authentication.receive_sne, authentication.receive_sequence);
    tcp_ao_repair {
        snt_isn: authentication.local_isn.0.to_be(),
        rcv_isn: authentication.remote_isn.0.to_be(),
        snd_sne: send.sne_of(start(tcp.send_next, &tcp.send_queue)).0,
        rcv_sne: receive.sne_of(tcp.receive_next).0,
    }
}

/// The options that were negotiated in the handshake.
pub(super) fn options(tcp: &TcpState) -> Vec<tcp_repair_opt> {
    const MSS: u32 = 2;
    const WINDOW_SCALE: u32 = 3;
    const SACK_PERMITTED: u32 = 4;
    const TIMESTAMPS: u32 = 8;
    let scales = tcp.window_scale.map(|scale| u32::from(scale.send) | u32::from(scale.receive) << 16);
    let all = [
        (MSS, Some(tcp.mss)),
        (WINDOW_SCALE, scales),
        (SACK_PERMITTED, tcp.sack.then_some(0)),
        (TIMESTAMPS, tcp.timestamp.map(|_| 0)),
    ];
    all.into_iter()
        .filter_map(|(opt_code, value)| Some(tcp_repair_opt { opt_code, opt_val: value? }))
        .collect()
}

impl TcpState {
    /// The sent and the unsent part; `check` ensures that `unsent` is not longer than the queue.
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
        // Before connecting, which derives the segment size from it.
        socket.repair(TCP_MAXSEG, &tcp.mss.clamp(MAXSEG.0, MAXSEG.1))?;
        view.bind(&address(authentication.pair.local, family)?)?;
        self.set_sequence(TCP_RECV_QUEUE as u32, start(tcp.receive_next, &tcp.receive_queue))?;
        self.set_sequence(TCP_SEND_QUEUE as u32, start(tcp.send_next, &tcp.send_queue))?;
        for key in keys {
            socket.add_key(&SocketKey { set_current: false, set_rnext: false, ..*key })?;
        }
        view.connect(&address(authentication.pair.remote, family)?)?;
        self.set_options(tcp)?;
        // Octets written in repair count as received or sent.
        self.restore_receive_queue(&tcp.receive_queue)?;
        socket.repair(TCP_REPAIR_QUEUE, &(TCP_SEND_QUEUE as u32))?;
        self.write(tcp.split_send_queue().0, Socket::send_buffer_size, libc::SO_SNDBUFFORCE)?;
        socket.repair(TCP_REPAIR_QUEUE, &(TCP_NO_QUEUE as u32))?;
        socket.repair(TCP_REPAIR_WINDOW, &window(tcp))?;
        // After the queues: the kernel keeps the SNEs of the first octet not acknowledged and the next octet expected.
        socket.repair(TCP_AO_REPAIR, &ao_repair(exported))?;
        socket.change(&Change {
            current_key: Some(authentication.current_key),
            rnext_key: Some(authentication.rnext_key),
            required: Some(exported.required),
            accept_icmps: Some(exported.accept_icmps),
            counters: Some(authentication.counters),
        })
    }

    pub(super) fn restore_receive_queue(&self, octets: &[u8]) -> Result<(), Error> {
        self.socket.repair(TCP_REPAIR_QUEUE, &(TCP_RECV_QUEUE as u32))?;
        self.write(octets, Socket::recv_buffer_size, libc::SO_RCVBUFFORCE)
    }

    fn set_sequence(&self, queue: u32, sequence: SeqNum) -> Result<(), Error> {
        self.socket.repair(TCP_REPAIR_QUEUE, &queue)?;
        self.socket.repair(TCP_QUEUE_SEQ, &sequence.0)
    }

    fn set_options(&self, tcp: &TcpState) -> Result<(), Error> {
        let (fd, name) = (self.socket.fd(), TCP_REPAIR_OPTIONS.cast_signed());
        sys::set_all(fd, libc::IPPROTO_TCP, name, &options(tcp))
            .map_err(|error| self.socket.error(&Request::Repair, error))?;
        tcp.timestamp.map_or(Ok(()), |timestamp| self.socket.repair(TCP_TIMESTAMP, &timestamp))
    }

    /// Writes all octets; enlarges the socket's buffer until they fit.
    fn write(
        &self,
        mut octets: &[u8],
        buffer_size: impl Fn(&Socket) -> io::Result<usize>,
        force_size: c_int,
    ) -> Result<(), Error> {
        let fd = self.socket.fd();
        let view = SockRef::from(&fd);
        while !octets.is_empty() {
            let chunk = &octets[..octets.len().min(CHUNK)];
            match view.send_with_flags(chunk, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
                Ok(written) => octets = &octets[written..],
                Err(error) if is_full(&error) => {
                    let before = buffer_size(&view)?;
                    // The kernel doubles the size.
                    sys::set_all(fd, libc::SOL_SOCKET, force_size, &[before as c_int])?;
                    if buffer_size(&view)? <= before {
                        return Err(Error::NoMemory);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Whether a queue is full. The send queue gives EAGAIN; the receive queue gives ENOMEM or, through a bug in `tcp_send_rcvq`, ENOBUFS.
fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM | libc::ENOBUFS))
}
