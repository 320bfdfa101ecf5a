//! Capture files as packets, and packets as segments and datagrams.

mod buffer;
mod clock;
mod content;
mod error;
mod pcap;
mod pcapng;
mod reader;
mod source;
mod time;

pub use content::{Content, Datagram, Segment, Unreadable};
pub use error::{CaptureError, Damage};
pub use reader::{Progress, Reader};
pub use time::Time;

/// A packet of a capture file, as it was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Its number in the file, from 1, as every other program counts.
    pub number: u64,
    /// When it was recorded, if the file says.
    pub time: Option<Time>,
    /// What stands at its start (the file format's LINKTYPE number).
    pub link_type: u16,
    /// The octets that were recorded.
    pub octets: &'a [u8],
    /// The octets that it had on the wire.
    pub original_length: usize,
}
