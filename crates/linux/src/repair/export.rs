//! Reading a frozen connection.

use std::ffi::c_ulong;
use std::io;

use linux_raw_sys::net::{
    TCP_RECV_QUEUE, TCP_REPAIR_QUEUE, TCP_SEND_QUEUE, TCPI_OPT_SACK, TCPI_OPT_TIMESTAMPS, TCPI_OPT_WSCALE,
};
use socket2::{SockAddr, SockRef};
use wireseal_tcp_ao::{ConnectionState, Endpoint, HeardKeys, Isn, SeqNum, Sne, SocketPair};

use crate::errno::Request;
use crate::error::Error;
use crate::repair::frozen::Frozen;
use crate::repair::state::{Exported, TcpState, Window, WindowScale};
use crate::sys;

/// `TCP_ESTABLISHED` of the kernel's states.
const ESTABLISHED: u8 = 1;

/// Octets of the largest segment. A segment that is acknowledged in part stays in the send queue as a whole, and peeking at
/// the queue with less room than that fails.
const LARGEST_SEGMENT: usize = 64 * 1024;

/// One direction's octets in the kernel, and where they end.
#[derive(PartialEq, Eq)]
struct Queue {
    /// The sequence number after the last octet.
    next: u32,
    octets: Vec<u8>,
}

/// What may change between two readings.
#[derive(PartialEq, Eq)]
struct Queues {
    send: Queue,
    /// How many octets at the end of `send` were never sent.
    unsent: usize,
    receive: Queue,
}

impl Frozen<'_> {
    /// Reads the whole connection. From now on it lives in what is returned: the socket stays frozen even when this is dropped. To
    /// [`restore`](crate::restore) it, ask [`Support::can_restore`](crate::Support::can_restore) there first.
    ///
    /// Do not move a connection whose protocol has urgent data: the receive queue can be read only up to an unread urgent
    /// octet (RFC 9293 §3.8.5).
    ///
    /// # Errors
    /// [`Error::NotEstablished`]; [`Error::Connected`] for a connection without TCP-AO; [`Error::NoPermission`]. The connection then
    /// continues when this is dropped.
    pub fn export(&mut self) -> Result<Exported, Error> {
        let mut queues = self.read_queues()?;
        loop {
            let exported = self.read(&queues)?;
            let again = self.read_queues()?;
            // Meanwhile a segment that was already past the filter may have arrived, and one that fits the window may have left.
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
                // The kernel keeps the SNEs of the first octet not acknowledged (snd_una) and the next expected (rcv_nxt).
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

    /// Reads the send queue last and leaves it selected: then the kernel counts what it would send as sent, but does not send
    /// it. Otherwise a frozen socket keeps sending within the peer's window, and a restored connection that took this for unsent
    /// would not accept its acknowledgment.
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
