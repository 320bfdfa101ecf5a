//! Why nothing can be derived.

use std::fmt;

use wireseal_tcp_ao::{Isn, OptionError, ParseError};

use crate::capture::Unreadable;

/// Why nothing can be derived. Caller error: the packet or the ISNs are wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeriveError {
    /// The packet's headers cannot be read.
    Unreadable(Unreadable),
    /// The packet is an IP fragment.
    Fragment,
    /// The packet is not TCP.
    NotTcp,
    /// The packet ends before its segment.
    CutOff {
        /// How many octets are missing.
        missing: usize,
    },
    /// The TCP header cannot be read.
    Segment(ParseError),
    /// The TCP options cannot be read.
    Options(OptionError),
    /// The segment has no TCP-AO option.
    NoOption,
    /// The TCP-AO option has a MAC of this many octets.
    MacLength(usize),
    /// The segment does not show the ISNs, and they were not given.
    NoIsns,
    /// The ISNs that were given are not those of the segment.
    Isns {
        /// The ISN of its source.
        own: Isn,
        /// The ISN of its destination.
        other: Isn,
    },
}

impl fmt::Display for DeriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "packet: {error}"),
            Self::Fragment => f.write_str("packet: it is a fragment, but the MAC covers the whole segment"),
            Self::NotTcp => f.write_str("packet: it is not TCP"),
            Self::CutOff { missing } => {
                write!(f, "packet: {missing} octets are missing at its end, but the MAC covers all of them")
            }
            Self::Segment(error) => write!(f, "packet: {error}"),
            Self::Options(error) => write!(f, "packet: {error}"),
            Self::NoOption => f.write_str("packet: the segment has no TCP-AO option"),
            Self::MacLength(length) => {
                write!(f, "packet: the TCP-AO option has a MAC of {length} octets; it must have 4 to 16")
            }
            Self::NoIsns => f.write_str(
                "--isns: a segment without SYN does not show the ISNs of its connection; give those of its source and \
                 destination as --isns SRC,DST",
            ),
            Self::Isns { own, other } => write!(
                f,
                "--isns: the segment has SYN and shows that they are {:#010x},{:#010x}",
                own.0, other.0
            ),
        }
    }
}

impl std::error::Error for DeriveError {}
