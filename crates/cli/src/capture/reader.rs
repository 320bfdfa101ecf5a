//! The packets of a capture file, in order.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::formats::{Pcap, Pcapng};
use super::source::{Buffer, Found, MAGIC_LENGTH, Progress, Source};
use super::{CaptureError, Damage, Packet};

/// A capture: pcap in either byte order with microseconds or nanoseconds, or pcapng, plain or compressed with gzip or zstd.
///
/// It is read from start to end, with at most 1 MiB of it in memory besides what decompression needs.
pub struct Reader {
    buffer: Buffer,
    format: Format,
    /// How many packets were delivered.
    packets: u64,
    /// The end or damage was reached.
    is_over: bool,
}

/// A format, read up to its first packet.
pub(super) enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

impl Format {
    /// Detects the format of a capture in `input`, whose length in octets is `total`, if known.
    pub(super) fn of(
        input: impl Read + Send + 'static,
        total: Option<u64>,
    ) -> Result<(Buffer, Self), CaptureError> {
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
            Self::Pcapng(Pcapng::default())
        } else if Pcap::begins_with(start) {
            Self::Pcap(Pcap::new(&mut buffer).map_err(damaged)?)
        } else {
            return Err(CaptureError::UnknownFormat { start });
        };
        Ok((buffer, format))
    }
}

impl Reader {
    /// Opens a file, or standard input for `-`.
    ///
    /// # Errors
    /// [`CaptureError`] if the file cannot be opened or does not begin like a capture.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        if path == Path::new("-") {
            return Self::new(io::stdin(), None);
        }
        let error = |source| CaptureError::Open { path: path.into(), source };
        let file = File::open(path).map_err(error)?;
        let metadata = file.metadata().map_err(error)?;
        // A pipe has a length of 0.
        Self::new(file, metadata.is_file().then_some(metadata.len())).map_err(|refusal| match refusal {
            // A directory can be opened but not read.
            CaptureError::Damaged { damage: Damage::Read(source), .. } => error(source),
            refusal => refusal,
        })
    }

    /// Reads a capture from `input`; `total` is its length in octets, if known.
    ///
    /// # Errors
    /// [`CaptureError`] if it does not begin like a capture.
    pub fn new(input: impl Read + Send + 'static, total: Option<u64>) -> Result<Self, CaptureError> {
        let (buffer, format) = Format::of(input, total)?;
        Ok(Self { buffer, format, packets: 0, is_over: false })
    }

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// [`CaptureError::Damaged`] once, then `None`.
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

    /// Whether the next packet is in memory already, so that reading it does not wait for a program that still writes.
    #[must_use]
    #[inline]
    pub fn is_ahead(&self) -> bool {
        match &self.format {
            Format::Pcap(pcap) => pcap.is_in(self.buffer.ready()),
            Format::Pcapng(pcapng) => pcapng.is_in(self.buffer.ready()),
        }
    }

    /// How far the file was read.
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
