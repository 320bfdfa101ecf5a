//! Why nothing can be derived.

use wireseal_tcp_ao::{Isn, OptionError, ParseError};

use crate::capture::Unreadable;

/// Why nothing can be derived. Caller error: the packet or the ISNs are wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DeriveError {
    /// The packet's headers cannot be read.
    #[error("packet: {0}")]
    Unreadable(Unreadable),
    /// The packet is an IP fragment.
    #[error("packet: it is a fragment, but the MAC covers the whole segment")]
    Fragment,
    /// The packet is not TCP.
    #[error("packet: it is not TCP")]
    NotTcp,
    /// The packet ends before its segment.
    #[error("packet: {missing} octets are missing at its end, but the MAC covers all of them")]
    CutOff {
        /// How many octets are missing.
        missing: usize,
    },
    /// The TCP header cannot be read.
    #[error("packet: {0}")]
    Segment(ParseError),
    /// The TCP options cannot be read.
    #[error("packet: {0}")]
    Options(OptionError),
    /// The segment has no TCP-AO option.
    #[error("packet: the segment has no TCP-AO option")]
    NoOption,
    /// The TCP-AO option has a MAC of this many octets.
    #[error("packet: the TCP-AO option has a MAC of {0} octets; it must have 4 to 16")]
    MacLength(usize),
    /// The segment does not show the ISNs, and they were not given.
    #[error(
        "--isns: a segment without SYN does not show the ISNs of its connection; give those of its source and \
         destination as --isns SRC,DST"
    )]
    NoIsns,
    /// The ISNs that were given are not those of the segment.
    #[error("--isns: the segment has SYN and shows that they are {:#010x},{:#010x}", .own.0, .other.0)]
    Isns {
        /// The ISN of its source.
        own: Isn,
        /// The ISN of its destination.
        other: Isn,
    },
}
