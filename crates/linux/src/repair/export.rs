//! Stopping a connection, and reading its state.

use std::ffi::{c_int, c_ulong};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use linux_raw_sys::net::{
    TCP_QUEUE_SEQ, TCP_RECV_QUEUE, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP, TCP_REPAIR_ON, TCP_REPAIR_QUEUE,
    TCP_SEND_QUEUE, TCPI_OPT_SACK, TCPI_OPT_TIMESTAMPS, TCPI_OPT_WSCALE,
};
use socket2::{SockAddr, SockFilter, SockRef};
use wireseal_tcp_ao::{ConnectionState, Endpoint, HeardKeys, Isn, SeqNum, Sne, SocketPair};

use crate::errno::Request;
use crate::repair::{Exported, TcpState, Window, WindowScale};
use crate::{Error, TcpAoSocket, sys};

/// `TCP_ESTABLISHED` of the kernel's states.
const ESTABLISHED: u8 = 1;

/// Octets of the largest segment. A partly acknowledged segment stays whole in the send queue, and peeking at the queue with less room than
/// that fails.
const LARGEST_SEGMENT: usize = 64 * 1024;

/// A stopped connection, whose state can be read. Dropping it lets the connection continue, unless it has been [exported](Frozen::export).
/// Then it stays frozen, so that it never lives in two places, and closing its socket sends nothing to the peer. [`Frozen::resume`] lets it
/// continue anyway.
///
/// Meanwhile, a socket filter counts and drops arriving segments, as if lost, and the peer sends them again. The filter permanently
/// replaces any other. Data that fits the peer's window may still be sent until the connection is exported; it counts as sent and lost, and
/// the restored connection sends it again.
///
/// If the process ends while the connection is frozen, the connection is gone and the peer is not told.
#[derive(Debug)]
pub struct Frozen<'fd> {
    pub(super) socket: TcpAoSocket<'fd>,
    /// `SO_REUSEADDR`, which the kernel clears at the end of repair. Without it no listening socket could be bound beside this one.
    reuse_address: bool,
    /// Whether dropping it leaves it frozen.
    pub(super) is_exported: bool,
}

impl<'fd> TcpAoSocket<'fd> {
    /// Stops the connection (`TCP_REPAIR`), so that its state can be read and does not change afterwards.
    ///
    /// # Errors
    /// [`Error::NoPermission`] without CAP_NET_ADMIN, or on a listening socket.
    pub fn freeze(&self) -> Result<Frozen<'fd>, Error> {
        let reuse_address = SockRef::from(&self.fd()).reuse_address()?;
        self.repair(TCP_REPAIR, &TCP_REPAIR_ON)?;
        let frozen = Frozen { socket: *self, reuse_address, is_exported: false };
        drop_all_segments(self.fd())?;
        Ok(frozen)
    }

    /// Sets one of the socket options of repair.
    pub(super) fn repair<T: sys::Plain>(&self, name: u32, value: &T) -> Result<(), Error> {
        sys::set(self.fd(), name, value).map_err(|error| self.error(&Request::Repair, error))
    }
}

impl Frozen<'_> {
    /// Lets segments in again, then out. `TCP_REPAIR_OFF` sends a window probe, `TCP_REPAIR_OFF_NO_WP` does not.
    pub(super) fn thaw(&self, mode: c_int) -> Result<(), Error> {
        let fd = self.socket.fd();
        let view = SockRef::from(&fd);
        let detached = view.detach_filter();
        self.socket.repair(TCP_REPAIR, &mode)?;
        view.set_reuse_address(self.reuse_address)?;
        match detached {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Lets an exported connection continue here after all. Discard the [`Exported`](crate::Exported): restored elsewhere, it would be the
    /// same connection twice, with SNEs that soon differ.
    ///
    /// # Errors
    /// [`Error::Io`]; the connection may then still be frozen.
    pub fn resume(mut self) -> Result<(), Error> {
        // Dropping must not thaw it again.
        self.is_exported = true;
        self.thaw(TCP_REPAIR_OFF_NO_WP)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        if !self.is_exported {
            // Nobody can receive the error.
            drop(self.thaw(TCP_REPAIR_OFF_NO_WP));
        }
    }
}

/// One direction's octets in the kernel, and where they end.
#[derive(PartialEq, Eq)]
struct Queue {
    /// The sequence number after the last octet.
    next: u32,
    octets: Vec<u8>,
}

/// The values that may change between two readings.
#[derive(PartialEq, Eq)]
struct Queues {
    send: Queue,
    /// How many octets at the end of `send` were never sent.
    unsent: usize,
    receive: Queue,
}

impl Frozen<'_> {
    /// Reads the whole connection. From now on the socket stays frozen even when this is dropped. Before you move it to a kernel, check
    /// [`Support::can_restore`](crate::Support::can_restore) there.
    ///
    /// Do not move a connection whose protocol has urgent data: the receive queue can be read only up to an unread urgent octet (RFC 9293
    /// §3.8.5).
    ///
    /// # Errors
    /// [`Error::NotEstablished`]; [`Error::Connected`] for a connection without TCP-AO; [`Error::NoPermission`]. The connection then
    /// continues when this is dropped.
    pub fn export(&mut self) -> Result<Exported, Error> {
        let mut queues = self.read_queues()?;
        loop {
            let exported = self.read(&queues)?;
            let again = self.read_queues()?;
            // A segment that was already past the filter may have arrived in between, and one that fits the window may have left.
            if again == queues {
                self.is_exported = true;
                return Ok(exported);
            }
            queues = again;
        }
    }

    fn read(&self, Queues { send, unsent, receive }: &Queues) -> Result<Exported, Error> {
        let socket = self.socket;
        let tcp = self.get(sys::INFO)?;
        if tcp.tcpi_state != ESTABLISHED {
            return Err(Error::NotEstablished);
        }
        let info = socket.info()?.ok_or(Error::Connected)?;
        let (Some(current_key), Some(rnext_key)) = (info.current_key, info.rnext_key) else {
            return Err(Error::Connected);
        };
        let ao = self.get(sys::AO_REPAIR)?;
        let window = self.get(sys::REPAIR_WINDOW)?;
        let unacknowledged = SeqNum(send.next.wrapping_sub(send.octets.len() as u32));
        let sent_end = SeqNum(send.next.wrapping_sub(*unsent as u32));
        let option = |flag| u32::from(tcp.tcpi_options) & flag != 0;
        let scales = WindowScale { send: tcp.tcpi_snd_wscale(), receive: tcp.tcpi_rcv_wscale() };
        Ok(Exported {
            authentication: ConnectionState {
                pair: self.pair()?,
                local_isn: Isn(u32::from_be(ao.snt_isn)),
                remote_isn: Isn(u32::from_be(ao.rcv_isn)),
                send_sne: Sne(ao.snd_sne),
                // The kernel keeps the SNEs of the first octet not acknowledged (snd_una) and the next octet expected (rcv_nxt).
                send_sequence: unacknowledged,
                sent_end,
                receive_sne: Sne(ao.rcv_sne),
                receive_sequence: SeqNum(receive.next),
                acknowledged: unacknowledged,
                heard: HeardKeys::ALL,
                current_key,
                rnext_key,
                counters: info.counters,
            },
            required: info.required,
            accept_icmps: info.accept_icmps,
            tcp: TcpState {
                send_next: SeqNum(send.next),
                send_queue: send.octets.clone(),
                unsent: *unsent,
                receive_next: SeqNum(receive.next),
                receive_queue: receive.octets.clone(),
                mss: self.get(sys::MAXSEG)?,
                window_scale: option(TCPI_OPT_WSCALE).then_some(scales),
                sack: option(TCPI_OPT_SACK),
                timestamp: match option(TCPI_OPT_TIMESTAMPS) {
                    true => Some(self.get(sys::TIMESTAMP)?),
                    false => None,
                },
                window: Window {
                    send: window.snd_wnd,
                    send_max: window.max_window,
                    send_update: SeqNum(window.snd_wl1),
                    receive: window.rcv_wnd,
                    receive_update: SeqNum(window.rcv_wup),
                },
            },
        })
    }

    fn pair(&self) -> Result<SocketPair, Error> {
        let fd = self.socket.fd();
        let socket = SockRef::from(&fd);
        let endpoint = |address: io::Result<SockAddr>| -> Result<Endpoint, Error> {
            Ok(Endpoint::from(address?.as_socket().ok_or(Error::NotATcpSocket)?))
        };
        Ok(SocketPair { local: endpoint(socket.local_addr())?, remote: endpoint(socket.peer_addr())? })
    }

    /// Reads the send queue last and leaves it selected: the kernel then counts what it would send as sent, but does not send it. Otherwise
    /// a frozen socket keeps sending within the peer's window, and the restored connection, which takes this data for unsent, would not
    /// accept the acknowledgment.
    fn read_queues(&self) -> Result<Queues, Error> {
        let receive = self.read_queue(TCP_RECV_QUEUE as u32, sys::SIOCINQ)?;
        let send = self.read_queue(TCP_SEND_QUEUE as u32, sys::SIOCOUTQ)?;
        Ok(Queues { send, unsent: self.queued(sys::SIOCOUTQNSD)?, receive })
    }

    fn read_queue(&self, which: u32, request: c_ulong) -> Result<Queue, Error> {
        self.socket.repair(TCP_REPAIR_QUEUE, &which)?;
        loop {
            let next = self.get(sys::QUEUE_SEQ)?;
            let expected = self.queued(request)?;
            let acknowledged = if which == TCP_SEND_QUEUE as u32 { LARGEST_SEGMENT } else { 0 };
            let mut octets = vec![0; expected + acknowledged];
            // Peeking at an empty queue is an error.
            let read = if expected == 0 { 0 } else { sys::peek(self.socket.fd(), &mut octets)? };
            octets.truncate(read);
            let surplus = read.checked_sub(expected).filter(|surplus| *surplus <= acknowledged);
            if let Some(surplus) = surplus
                && next == self.get(sys::QUEUE_SEQ)?
            {
                octets.drain(..surplus);
                return Ok(Queue { next, octets });
            }
        }
    }

    fn queued(&self, request: c_ulong) -> Result<usize, Error> {
        Ok(sys::queued(self.socket.fd(), request)?)
    }

    fn get<T: sys::Plain>(&self, option: sys::Readable<T>) -> Result<T, Error> {
        sys::get(self.socket.fd(), option).map_err(|error| self.socket.error(&Request::Repair, error))
    }
}

/// Attaches a socket filter of one instruction, which returns a length of 0.
fn drop_all_segments(fd: BorrowedFd<'_>) -> io::Result<()> {
    const RETURN_CONSTANT: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    SockRef::from(&fd).attach_filter(&[SockFilter::new(RETURN_CONSTANT, 0, 0, 0)])
}

/// Makes the next `connect` of a closed socket start at this sequence number (`TCP_QUEUE_SEQ`); 0 leaves the choice to the kernel.
///
/// Use it only in tests in which sequence numbers wrap. Elsewhere leave the choice to the kernel: an ISN that can be guessed lets anyone
/// forge unsigned segments.
///
/// # Errors
/// [`Error::NoPermission`] without CAP_NET_ADMIN, and on a socket that listens or is connected; nothing has changed then.
pub fn choose_isn(socket: &(impl AsFd + ?Sized), isn: Isn) -> Result<(), Error> {
    let socket = TcpAoSocket::new(socket);
    let fd = socket.fd();
    let view = SockRef::from(&fd);
    let reuse_address = view.reuse_address()?;
    socket.repair(TCP_REPAIR, &TCP_REPAIR_ON)?;
    let chosen = socket
        .repair(TCP_REPAIR_QUEUE, &(TCP_SEND_QUEUE as u32))
        .and_then(|()| socket.repair(TCP_QUEUE_SEQ, &isn.0));
    socket.repair(TCP_REPAIR, &TCP_REPAIR_OFF_NO_WP)?;
    // Repair sets SO_REUSEADDR, and the end of repair clears it.
    view.set_reuse_address(reuse_address)?;
    chosen
}
