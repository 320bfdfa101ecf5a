//! What a packet carries in the end.

use std::net::IpAddr;

use super::scope::Scope;
use super::skipped::{Skipped, Unreadable};

/// What a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// A TCP segment.
    Tcp(CapturedSegment<'a>),
    /// An IP fragment. From a [`Decoder`](super::Decoder): one that waits for the rest of its packet, or was given up.
    Fragment {
        /// The IP protocol number of the whole packet.
        protocol: u8,
    },
    /// Anything else, such as ARP, ICMP or UDP that is no tunnel.
    Other(Skipped),
    /// Headers that cannot be read.
    Unreadable(Unreadable),
}

/// A TCP segment as recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapturedSegment<'a> {
    /// The source address.
    pub source: IpAddr,
    /// The final destination, after any routing header.
    pub destination: IpAddr,
    /// The virtual network it was in.
    pub scope: Scope,
    /// The recorded octets from the TCP header on; possibly less than a header.
    pub octets: &'a [u8],
    /// How many more octets it had on the wire; 0 unless the capture cut it off.
    pub missing: usize,
}
