//! Why a capture cannot be read, or not any further.

use std::path::PathBuf;
use std::{error, fmt, io};

/// A capture that cannot be read, or not any further; its file is to blame. What was delivered before it stays good.
#[derive(Debug)]
pub enum CaptureError {
    /// The file cannot be opened.
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file has no octets.
    Empty,
    /// The file begins like no capture.
    UnknownFormat {
        /// Its first four octets; those that it lacks are zero.
        start: [u8; 4],
    },
    /// The file ends or is broken before this packet could be read.
    Damaged {
        /// The number, from 1, that the packet would have had.
        packet: u64,
        /// Octets of the capture, decompressed, before what is broken.
        offset: u64,
        /// What is broken.
        damage: Damage,
    },
}

/// What is broken in a capture.
#[derive(Debug)]
pub enum Damage {
    /// The file ends within a packet or block.
    Truncated {
        /// How many octets of it there are.
        got: usize,
        /// The least that there should have been.
        expected: usize,
    },
    /// A packet or block has a length that none can have.
    Length(u64),
    /// A block contradicts itself; the type of the block.
    Block(u32),
    /// A section of another major version than 1.
    Version(u16),
    /// A packet of an interface that the section has not described.
    Interface(u32),
    /// What is compressed cannot be decompressed, or is not what was compressed.
    Compression(String),
    /// The file cannot be read any further.
    Read(io::Error),
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Empty => f.write_str("the capture is empty: it has no octets at all"),
            Self::UnknownFormat { start: [a, b, c, d] } => write!(
                f,
                "not a capture: it begins with {a:02x} {b:02x} {c:02x} {d:02x}, and neither pcap nor pcapng does, nor gzip nor zstd"
            ),
            Self::Damaged { packet, offset, damage } => {
                write!(f, "the capture is damaged at packet {packet} (octet {offset}): {damage}")
            }
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { got, expected } => {
                write!(f, "the file ends {got} octets into what should have at least {expected}")
            }
            Self::Length(length) => write!(f, "a length of {length} octets is impossible"),
            Self::Block(kind) => write!(f, "a block of type 0x{kind:08x} contradicts itself"),
            Self::Version(major) => write!(f, "a pcapng section of version {major} is unknown"),
            Self::Interface(id) => write!(f, "the packet names interface {id}, which is not described"),
            Self::Compression(reason) => write!(f, "the compressed data are broken: {reason}"),
            Self::Read(error) => error.fmt(f),
        }
    }
}

impl error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Open { source, .. } => Some(source),
            Self::Damaged { damage: Damage::Read(error), .. } => Some(error),
            Self::Empty | Self::UnknownFormat { .. } | Self::Damaged { .. } => None,
        }
    }
}
