//! Moving a live connection to another socket, process or machine (`TCP_REPAIR` and `TCP_AO_REPAIR`): its state between two sockets, and
//! the encoding of that state.

mod export;
mod restore;

use std::fmt;

use wireseal_tcp_ao::{ConnectionState, SeqNum};

use crate::ExportedError;

pub use export::{Frozen, choose_isn};
pub(crate) use restore::can_restore;
pub use restore::restore;

/// The first octet: the version of the encoding.
const VERSION: u8 = 1;

/// An established connection read from one socket, for [`restore`](crate::restore) to put on another. It holds no key, so move the keys
/// separately, but it does hold the data in the queues. [`Self::to_octets`] encodes it.
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
    /// Octets written and not acknowledged, oldest first; the last `unsent` of them were never sent.
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
    /// Octets that the peer lets this end send.
    pub send: u32,
    /// The most octets that it ever let this end send.
    pub send_max: u32,
    /// The sequence number of the segment that last updated `send`.
    pub send_update: SeqNum,
    /// Octets that this end lets the peer send.
    pub receive: u32,
    /// The next sequence number expected when this end last announced `receive`.
    pub receive_update: SeqNum,
}

impl Exported {
    /// The connection as octets. Later versions of this crate read them.
    ///
    /// **They hold no key, but the data in both queues as it is.** Keep and send them as you would the data; move the keys
    /// separately, and protect the octets from changes as well: they say where sequence numbers continue.
    ///
    /// Numbers have their highest octet first. In this order:
    ///
    /// | octets | field |
    /// |---|---|
    /// | 1 | the version, 1 |
    /// | 1 each | `required`, `accept_icmps`, `sack`: 0 or 1 |
    /// | 4 | `send_next` |
    /// | 8 | `unsent` |
    /// | 4 | `receive_next` |
    /// | 4 | `mss` |
    /// | 1, and 2 if that is 1 | `window_scale`: whether there is one; `send`, `receive` |
    /// | 1, and 4 if that is 1 | `timestamp`: whether there is one; its value |
    /// | 4 each | `window`: `send`, `send_max`, `send_update`, `receive`, `receive_update` |
    /// | 8, and as many as that says | `send_queue` |
    /// | 8, and as many as that says | `receive_queue` |
    /// | the rest | `authentication`, as [`ConnectionState::to_octets`] gives it |
    #[must_use]
    pub fn to_octets(&self) -> Vec<u8> {
        let Self { tcp, authentication, required, accept_icmps } = self;
        let TcpState { send_next, send_queue, unsent, receive_next, receive_queue, .. } = tcp;
        let TcpState { mss, window_scale, sack, timestamp, window, .. } = tcp;
        let mut octets = vec![VERSION, (*required).into(), (*accept_icmps).into(), (*sack).into()];
        octets.extend(send_next.0.to_be_bytes());
        octets.extend((*unsent as u64).to_be_bytes());
        octets.extend(receive_next.0.to_be_bytes());
        octets.extend(mss.to_be_bytes());
        octets.push(window_scale.is_some().into());
        octets.extend(window_scale.iter().flat_map(|scale| [scale.send, scale.receive]));
        octets.push(timestamp.is_some().into());
        octets.extend(timestamp.iter().flat_map(|value| value.to_be_bytes()));
        let Window { send, send_max, send_update, receive, receive_update } = *window;
        let window = [send, send_max, send_update.0, receive, receive_update.0];
        octets.extend(window.iter().flat_map(|number| number.to_be_bytes()));
        for queue in [send_queue, receive_queue] {
            octets.extend((queue.len() as u64).to_be_bytes());
            octets.extend(queue);
        }
        octets.extend(authentication.to_octets());
        octets
    }

    /// Reads what [`Self::to_octets`] has written. [`restore`](crate::restore) checks that the fields are consistent.
    ///
    /// # Errors
    /// All of [`ExportedError`].
    pub fn from_octets(octets: &[u8]) -> Result<Self, ExportedError> {
        let mut rest = Rest(octets);
        let version = octets.first().copied().unwrap_or_default();
        if version != VERSION {
            return Err(ExportedError::Version(version));
        }
        let [_] = rest.take("version")?;
        let (required, accept_icmps) = (rest.flag("required")?, rest.flag("accept_icmps")?);
        let tcp = TcpState {
            sack: rest.flag("sack")?,
            send_next: SeqNum(rest.number("send_next")?),
            unsent: rest.length("unsent")?,
            receive_next: SeqNum(rest.number("receive_next")?),
            mss: rest.number("mss")?,
            window_scale: match rest.flag("window_scale")? {
                true => {
                    let [send, receive] = rest.take("window_scale")?;
                    Some(WindowScale { send, receive })
                }
                false => None,
            },
            timestamp: match rest.flag("timestamp")? {
                true => Some(rest.number("timestamp")?),
                false => None,
            },
            window: Window {
                send: rest.number("window.send")?,
                send_max: rest.number("window.send_max")?,
                send_update: SeqNum(rest.number("window.send_update")?),
                receive: rest.number("window.receive")?,
                receive_update: SeqNum(rest.number("window.receive_update")?),
            },
            send_queue: rest.queue("send_queue")?,
            receive_queue: rest.queue("receive_queue")?,
        };
        let authentication = ConnectionState::from_octets(rest.0)?;
        Ok(Self { tcp, authentication, required, accept_icmps })
    }
}

/// The octets not read yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], ExportedError> {
        let length = ExportedError::Length { field, expected: N, got: self.0.len() };
        let (taken, behind) = self.0.split_first_chunk().ok_or(length)?;
        self.0 = behind;
        Ok(*taken)
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, ExportedError> {
        match self.take(field)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [got] => Err(ExportedError::Flag { field, got }),
        }
    }

    fn number(&mut self, field: &'static str) -> Result<u32, ExportedError> {
        self.take(field).map(u32::from_be_bytes)
    }

    fn length(&mut self, field: &'static str) -> Result<usize, ExportedError> {
        let got = self.take(field).map(u64::from_be_bytes)?;
        usize::try_from(got).map_err(|_| ExportedError::TooLarge { field, got })
    }

    fn queue(&mut self, field: &'static str) -> Result<Vec<u8>, ExportedError> {
        let expected = self.length(field)?;
        let length = ExportedError::Length { field, expected, got: self.0.len() };
        let (queue, behind) = self.0.split_at_checked(expected).ok_or(length)?;
        self.0 = behind;
        Ok(queue.to_vec())
    }
}

#[cfg(test)]
mod tests;
