//! Capture files as packets and back, and packets as TCP segments.
//!
//! ```text
//! file -> Reader -> Packet -> Decoder -> link -> layers, tunnels -> TCP segment, or what was skipped
//!                                                     fragments <-> (IP fragments wait for the rest)
//! ```

mod annotate;
mod content;
mod decoder;
mod formats;
mod fragments;
mod layers;
mod link;
mod reader;
mod scope;
mod skipped;
mod source;
mod tunnels;
mod write;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::{fmt, io};

use serde::{Serialize, Serializer};
use wireseal_keys::Timestamp;

pub use annotate::{Copied, annotate};
pub use content::{CapturedSegment, Content};
pub use decoder::Decoder;
pub use fragments::GivenUp;
pub use reader::Reader;
pub use scope::{Network, Scope};
pub use skipped::{Incomplete, Skipped, SkippedCounts, Unreadable};
pub use source::Progress;
pub use write::{InterfaceDescription, Statistics, Writer};

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

/// A point in a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Place {
    /// The packet's number in the file, from 1.
    pub packet: u64,
    /// Its time, if the file has times.
    pub time: Option<Time>,
}

/// The time of a packet, to the nanosecond, until the year 2554.
///
/// It is one more than it says, so that `Option<Time>` takes eight octets: a connection keeps many.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Time(NonZeroU64);

impl Time {
    /// The time this many nanoseconds after 1970-01-01T00:00:00Z; `u64::MAX` counts as one less.
    #[must_use]
    pub const fn from_unix_nanoseconds(nanoseconds: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanoseconds))
    }

    /// Nanoseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn unix_nanoseconds(self) -> u64 {
        self.0.get() - 1
    }

    /// The same in whole seconds, as key chains count.
    #[must_use]
    pub const fn timestamp(self) -> Timestamp {
        Timestamp::from_unix_seconds((self.unix_nanoseconds() / 1_000_000_000) as i64)
    }
}

/// RFC 3339 in UTC with microseconds: `2026-01-01T00:00:00.000000Z`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.timestamp().to_string();
        write!(f, "{}.{:06}Z", seconds.trim_end_matches('Z'), self.unix_nanoseconds() % 1_000_000_000 / 1000)
    }
}

/// As [`Display`](fmt::Display) writes it.
impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The capture cannot be read, or only up to some point. Packets delivered before stay valid.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened.
    #[error("{}: {source}", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is empty.
    #[error("the capture is empty")]
    Empty,
    /// The file does not begin like a capture.
    #[error(
        "not a capture: it begins with {:02x} {:02x} {:02x} {:02x}, which is not pcap, pcapng, gzip or zstd",
        .start[0], .start[1], .start[2], .start[3]
    )]
    UnknownFormat {
        /// Its first four octets, padded with zeros if it has fewer.
        start: [u8; 4],
    },
    /// The file is truncated or broken at this packet.
    #[error("the capture is damaged at packet {packet} (octet {offset}): {damage}")]
    Damaged {
        /// The number that the packet would have had, from 1.
        packet: u64,
        /// Octets of the file, decompressed, before the damage.
        offset: u64,
        /// What is broken.
        #[source]
        damage: Damage,
    },
}

impl CaptureError {
    /// How many octets of the file, decompressed, come before the damage.
    #[must_use]
    pub const fn offset(&self) -> Option<u64> {
        match self {
            Self::Damaged { offset, .. } => Some(*offset),
            _ => None,
        }
    }
}

/// What is broken in a capture.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// The file ends within a packet, block or header.
    #[error("the file ends after {got} of at least {expected} octets")]
    Truncated {
        /// How many octets of it there are.
        got: usize,
        /// At least how many there should be.
        expected: usize,
    },
    /// A packet or block has an impossible length.
    #[error("impossible length of {0} octets")]
    Length(u64),
    /// A block of this type is inconsistent.
    #[error("inconsistent block of type 0x{0:08x}")]
    Block(u32),
    /// A section has a major version other than 1.
    #[error("unknown version {0} of a pcapng section")]
    Version(u16),
    /// A packet is of an interface that the section does not describe.
    #[error("the packet is of interface {0}, which the file does not describe")]
    Interface(u32),
    /// The file cannot be decompressed, or a checksum is wrong.
    #[error("damaged compression: {0}")]
    Compression(String),
    /// The file cannot be read further.
    #[error("{0}")]
    Read(io::Error),
}
