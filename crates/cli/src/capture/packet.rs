//! A packet of a capture.

use super::{Place, Time};

/// A packet of a capture file, as recorded.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Its number in the file, from 1.
    pub number: u64,
    /// When it was recorded, if the file says.
    pub time: Option<Time>,
    /// What its first octets are: a LINKTYPE number.
    pub link_type: u16,
    /// The octets that were recorded.
    pub octets: &'a [u8],
    /// How many octets it had on the wire.
    pub original_length: usize,
}

impl Packet<'_> {
    /// Where it is in the capture.
    #[must_use]
    pub const fn place(&self) -> Place {
        Place { packet: self.number, time: self.time }
    }
}
