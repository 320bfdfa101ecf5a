//! Reading a frozen connection.

use std::ffi::{c_int, c_ulong};
use std::io;

use socket2::{SockAddr, SockRef};
use wireseal_tcp_ao::{ConnectionState, Endpoint, Isn, SeqNum, Sne, SocketPair};

use super::{Exported, Frozen, TcpState, Window, WindowScale};
use crate::errno::Asked;
use crate::error::Error;
use crate::layout::{AoRepair, RepairWindow, TcpInfo};
use crate::sys;

/// Octets of the largest segment. One that the peer has acknowledged in part stays in the send queue as a whole, and
/// peeking at that queue with less room than it has fails.
const LARGEST_SEGMENT: usize = 64 * 1024;

/// One direction's octets in the kernel, and where they end.
#[derive(PartialEq, Eq)]
struct Queue {
    /// The sequence number behind the last octet.
    next: u32,
    octets: Vec<u8>,
}

/// What may change between two readings.
#[derive(PartialEq, Eq)]
struct Queues {
    send: Queue,
    /// Octets at the end of `send` that were never sent.
    unsent: usize,
    receive: Queue,
}

impl Frozen<'_> {
    /// Reads the whole connection. The socket stays as it is, frozen.
    ///
    /// Of the receive queue only what comes before an urgent octet (RFC 9293 §3.8.5) not read yet can be told from it: do not
    /// move a connection whose protocol has urgent data.
    ///
    /// # Errors
    /// [`Error::NotEstablished`]; [`Error::Connected`] when it is a connection without TCP-AO; [`Error::NoPermission`].
    pub fn export(&self) -> Result<Exported, Error> {
        let mut queues = self.read_queues()?;
        loop {
            let exported = self.read(&queues)?;
            let again = self.read_queues()?;
            // A segment that was past the filter's place as the connection froze may have come in between, and one that the
            // window has room for may have gone out.
            if again == queues {
                return Ok(exported);
            }
            queues = again;
        }
    }

    fn read(&self, Queues { send, unsent, receive }: &Queues) -> Result<Exported, Error> {
        let socket = self.socket;
        let tcp = self.get(sys::INFO, TcpInfo::default())?;
        if tcp.state != TcpInfo::ESTABLISHED {
            return Err(Error::NotEstablished);
        }
        let info = socket.info()?.ok_or(Error::Connected)?;
        let (Some(current_key), Some(rnext_key)) = (info.current_key, info.rnext_key) else {
            return Err(Error::Connected);
        };
        let ao = self.get(sys::AO_REPAIR, AoRepair::ZERO)?;
        let window = self.get(sys::REPAIR_WINDOW, RepairWindow::default())?;
        let option = |flag| tcp.options & flag != 0;
        let (send_scale, receive_scale) = tcp.window_scales();
        let scales = WindowScale { send: send_scale, receive: receive_scale };
        Ok(Exported {
            authentication: ConnectionState {
                pair: self.pair()?,
                local_isn: Isn(u32::from_be_bytes(ao.snt_isn)),
                remote_isn: Isn(u32::from_be_bytes(ao.rcv_isn)),
                send_sne: Sne(ao.snd_sne),
                // The kernel's SNEs belong to what is not acknowledged (snd_una) and what is expected (rcv_nxt).
                send_sequence: SeqNum(send.next.wrapping_sub(send.octets.len() as u32)),
                receive_sne: Sne(ao.rcv_sne),
                receive_sequence: SeqNum(receive.next),
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
                mss: self.get(sys::MAXSEG, 0)?,
                window_scale: option(TcpInfo::WINDOW_SCALE).then_some(scales),
                sack: option(TcpInfo::SACK),
                timestamp: match option(TcpInfo::TIMESTAMPS) {
                    true => Some(self.get(sys::TIMESTAMP, 0)?),
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

    /// The send queue last, and it stays chosen: the kernel then only takes for sent what it would send. A frozen socket
    /// sends on as far as the peer's window reaches, and whoever restores it as unsent would not take its acknowledgment.
    fn read_queues(&self) -> Result<Queues, Error> {
        let receive = self.read_queue(sys::TCP_RECV_QUEUE, sys::SIOCINQ)?;
        let send = self.read_queue(sys::TCP_SEND_QUEUE, sys::SIOCOUTQ)?;
        Ok(Queues { send, unsent: self.queued(sys::SIOCOUTQNSD)?, receive })
    }

    fn read_queue(&self, which: c_int, request: c_ulong) -> Result<Queue, Error> {
        self.socket.repair(libc::TCP_REPAIR_QUEUE, &which)?;
        loop {
            let next = self.get(sys::QUEUE_SEQ, 0)?;
            let expected = self.queued(request)?;
            let acknowledged = if which == sys::TCP_SEND_QUEUE { LARGEST_SEGMENT } else { 0 };
            let mut octets = vec![0; expected + acknowledged];
            // Peeking at nothing would be an error where there is nothing.
            let read = if expected == 0 { 0 } else { sys::peek(self.socket.fd(), &mut octets)? };
            octets.truncate(read);
            let surplus = read.checked_sub(expected).filter(|surplus| *surplus <= acknowledged);
            if let Some(surplus) = surplus
                && next == self.get(sys::QUEUE_SEQ, 0)?
            {
                octets.drain(..surplus);
                return Ok(Queue { next, octets });
            }
        }
    }

    fn queued(&self, request: c_ulong) -> Result<usize, Error> {
        Ok(sys::queued(self.socket.fd(), request)?)
    }

    fn get<T: sys::Plain>(&self, option: sys::Readable<T>, value: T) -> Result<T, Error> {
        sys::get(self.socket.fd(), option, value).map_err(|error| self.socket.error(&Asked::Repair, error))
    }
}
