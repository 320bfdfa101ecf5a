//! Why nothing can be derived.

use std::fmt;

use wireseal_tcp_ao::{Isn, OptionError, ParseError};

use crate::capture::Unreadable;

/// Why nothing can be derived; whoever gave the packet or the ISNs is to blame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeriveError {
    /// The packet's headers.
    Unreadable(Unreadable),
    /// The packet is part of one.
    Fragment,
    /// The packet carries no TCP.
    NotTcp,
    /// The packet ends before its segment does.
    CutOff {
        /// How many octets are missing.
        missing: usize,
    },
    /// The segment.
    Segment(ParseError),
    /// The segment's options.
    Options(OptionError),
    /// The segment has no AO option.
    NoOption,
    /// The AO option has a MAC of this many octets.
    MacLength(usize),
    /// The segment says neither ISN, and they were not given.
    NoIsns,
    /// The ISNs that were given are not those that the segment says.
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
            Self::Fragment => f.write_str("packet: it is a fragment, and the MAC covers the whole segment"),
            Self::NotTcp => f.write_str("packet: it carries no TCP"),
            Self::CutOff { missing } => {
                write!(f, "packet: {missing} octets are missing at its end, and the MAC covers all of them")
            }
            Self::Segment(error) => write!(f, "packet: {error}"),
            Self::Options(error) => write!(f, "packet: {error}"),
            Self::NoOption => f.write_str("packet: the segment has no TCP-AO option"),
            Self::MacLength(length) => {
                write!(f, "packet: the TCP-AO option has a MAC of {length} octets, it must be 4 to 16")
            }
            Self::NoIsns => f.write_str(
                "--isns: a segment without SYN does not say the connection's ISNs; give that of its source and that \
                 of its destination, as --isns SRC,DST",
            ),
            Self::Isns { own, other } => write!(
                f,
                "--isns: the segment has SYN, and says that they are {:#010x},{:#010x}",
                own.0, other.0
            ),
        }
    }
}

impl std::error::Error for DeriveError {}
