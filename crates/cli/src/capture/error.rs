//! Why a capture cannot be read, or not further.

use std::io;
use std::path::PathBuf;

/// The capture cannot be read, or not further. Packets delivered before stay valid.
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
        /// Its first four octets, zero where it has fewer.
        start: [u8; 4],
    },
    /// The file is truncated or broken at this packet.
    #[error("the capture is damaged at packet {packet} (octet {offset}): {damage}")]
    Damaged {
        /// The number the packet would have had, from 1.
        packet: u64,
        /// Octets of the file, decompressed, before the damage.
        offset: u64,
        /// What is broken.
        #[source]
        damage: Damage,
    },
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
