//! A connection between two sockets.

use std::fmt;

use wireseal_tcp_ao::{ConnectionState, SeqNum};

/// An established connection read from one socket, for [`restore`](crate::restore) to put on another. It holds no key: move the
/// keys separately. It does hold the data in the queues. [`Self::to_octets`] is the form to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exported {
    /// TCP's state.
    pub tcp: TcpState,
    /// TCP-AO's state, without the keys. `send_sequence` is the first octet not acknowledged and `receive_sequence` the next
    /// octet expected, because the kernel keeps the SNEs of these two.
    pub authentication: ConnectionState,
    /// Whether unsigned segments were refused from peers without a key, too.
    pub required: bool,
    /// Whether hard ICMP errors were obeyed.
    pub accept_icmps: bool,
}

/// TCP's state of an established connection (RFC 9293 §3.3.1). Debug shows the queues' lengths, not their contents.
#[derive(Clone, PartialEq, Eq)]
pub struct TcpState {
    /// The sequence number of the next octet to be written: one past the end of `send_queue`.
    pub send_next: SeqNum,
    /// Octets written and not acknowledged, oldest first; the last `unsent` of them were not sent either.
    pub send_queue: Vec<u8>,
    /// How many octets at the end of `send_queue` were never sent.
    pub unsent: usize,
    /// The sequence number of the next octet expected: one past the end of `receive_queue`.
    pub receive_next: SeqNum,
    /// Octets received, acknowledged and not read, oldest first.
    pub receive_queue: Vec<u8>,
    /// Octets of data in the largest segment to send, from the peer's MSS option.
    pub mss: u32,
    /// The shifts of the announced windows, if window scaling (RFC 7323) was negotiated.
    pub window_scale: Option<WindowScale>,
    /// Whether selective acknowledgments (RFC 2018) were negotiated.
    pub sack: bool,
    /// The timestamp to continue from, in the kernel's ticks, if timestamps (RFC 7323) were negotiated.
    pub timestamp: Option<u32>,
    /// The windows.
    pub window: Window,
}

impl fmt::Debug for TcpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { send_next, send_queue, unsent, receive_next, receive_queue, .. } = self;
        let Self { mss, window_scale, sack, timestamp, window, .. } = self;
        f.debug_struct("TcpState")
            .field("send_next", send_next)
            .field("send_queue", &format_args!("{} octets", send_queue.len()))
            .field("unsent", unsent)
            .field("receive_next", receive_next)
            .field("receive_queue", &format_args!("{} octets", receive_queue.len()))
            .field("mss", mss)
            .field("window_scale", window_scale)
            .field("sack", sack)
            .field("timestamp", timestamp)
            .field("window", window)
            .finish()
    }
}

/// The shifts of the windows that the two ends announce: 0 to 14 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowScale {
    /// For the peer's windows.
    pub send: u8,
    /// For this end's windows.
    pub receive: u8,
}

/// A connection's windows, in octets (`struct tcp_repair_window` in `linux/tcp.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// How much the peer lets this end send.
    pub send: u32,
    /// The most it ever let this end send.
    pub send_max: u32,
    /// The sequence number of the segment that last updated `send`.
    pub send_update: SeqNum,
    /// How much this end lets the peer send.
    pub receive: u32,
    /// The next sequence number expected when this end last announced `receive`.
    pub receive_update: SeqNum,
}
