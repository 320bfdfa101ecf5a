//! The packets of a capture file, one after another.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::buffer::{Buffer, Found};
use super::pcap::Pcap;
use super::pcapng::Pcapng;
use super::source::{MAGIC_LENGTH, Source};
use super::{CaptureError, Damage, Packet};

/// A capture: pcap of either byte order with micro- or nanoseconds, or pcapng, plain or compressed by gzip or zstd.
///
/// It is read from start to end, and never more of it is in memory than a buffer of at most 1 MiB holds, and what the
/// decompression needs.
pub struct Reader {
    buffer: Buffer,
    format: Format,
    /// Packets that were delivered.
    packets: u64,
    /// There is nothing behind.
    is_over: bool,
}

enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

/// How far a capture is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Octets of the file, compressed as it may be, that were read.
    pub read: u64,
    /// Octets of the whole file, if that is known.
    pub total: Option<u64>,
}

impl Reader {
    /// Opens a file, or standard input if `path` is `-`.
    ///
    /// # Errors
    /// [`CaptureError`]: the file cannot be opened, or does not begin like a capture.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        if path == Path::new("-") {
            return Self::new(io::stdin(), None);
        }
        let error = |source| CaptureError::Open { path: path.into(), source };
        let file = File::open(path).map_err(error)?;
        let metadata = file.metadata().map_err(error)?;
        // A pipe has a length of 0.
        Self::new(file, metadata.is_file().then_some(metadata.len())).map_err(|refusal| match refusal {
            // A directory can be opened, and then it cannot be read.
            CaptureError::Damaged { damage: Damage::Read(source), .. } => error(source),
            refusal => refusal,
        })
    }

    /// Reads a capture from anywhere; `total` is how many octets `input` has, if that is known.
    ///
    /// # Errors
    /// [`CaptureError`]: it does not begin like a capture.
    pub fn new(input: impl Read + 'static, total: Option<u64>) -> Result<Self, CaptureError> {
        let damaged = |damage| CaptureError::Damaged { packet: 1, offset: 0, damage };
        let source = Source::new(Box::new(input), total).map_err(|error| damaged(Damage::Read(error)))?;
        let mut buffer = Buffer::new(source);
        match buffer.fill(MAGIC_LENGTH) {
            Ok(true) => {}
            Ok(false) => return Err(CaptureError::Empty),
            // Too short for any capture.
            Err(Damage::Truncated { .. }) => {
                let mut start = [0; 4];
                start[..buffer.ready().len()].copy_from_slice(buffer.ready());
                return Err(CaptureError::UnknownFormat { start });
            }
            Err(damage) => return Err(damaged(damage)),
        }
        let start = buffer.ready().first_chunk().copied().unwrap_or_default();
        let format = if Pcapng::begins_with(start) {
            Format::Pcapng(Pcapng::default())
        } else if Pcap::begins_with(start) {
            Format::Pcap(Pcap::new(&mut buffer).map_err(damaged)?)
        } else {
            return Err(CaptureError::UnknownFormat { start });
        };
        Ok(Self { buffer, format, packets: 0, is_over: false })
    }

    /// The next packet, until there is none.
    ///
    /// # Errors
    /// [`CaptureError::Damaged`], once, and then `None`.
    #[inline]
    pub fn next_packet(&mut self) -> Option<Result<Packet<'_>, CaptureError>> {
        if self.is_over {
            return None;
        }
        let number = self.packets + 1;
        let found = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.buffer),
            Format::Pcapng(pcapng) => pcapng.next(&mut self.buffer),
        };
        match found {
            Ok(Some(found)) => {
                self.packets = number;
                let octets = self.buffer.octets(&found);
                let Found { time, link_type, original_length, .. } = found;
                Some(Ok(Packet { number, time, link_type, octets, original_length }))
            }
            Ok(None) => {
                self.is_over = true;
                None
            }
            Err(damage) => {
                self.is_over = true;
                Some(Err(CaptureError::Damaged { packet: number, offset: self.buffer.offset(), damage }))
            }
        }
    }

    /// How far the file is read.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.buffer.source().progress()
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("packets", &self.packets).finish_non_exhaustive()
    }
}
