//! The octets of a capture file, decompressed, and the part of them that is in memory.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use flate2::{Decompress, FlushDecompress, Status};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::{Damage, Time};

/// How many octets of the file are read at a time.
const CHUNK: usize = 1 << 17;

/// How far a capture was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Octets read of the file, before decompression.
    pub read: u64,
    /// Octets of the whole file, if known.
    pub total: Option<u64>,
}

/// A file, and how far it was read.
struct File {
    input: Box<dyn Read + Send>,
    read: u64,
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.read += read as u64;
        Ok(read)
    }
}

/// A file, compressed or not.
pub(super) struct Source {
    packing: Packing,
    total: Option<u64>,
}

enum Packing {
    None(Peeked),
    Gzip(Box<Gzip>),
    Zstd(Box<Zstd>),
}

/// A file whose first octets were inspected and are read again.
type Peeked = io::Chain<io::Cursor<Vec<u8>>, File>;

/// The octets that identify a format.
pub(super) const MAGIC_LENGTH: usize = 4;
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();

impl Source {
    /// Detects from the first octets how the file is compressed.
    pub(super) fn new(input: Box<dyn Read + Send>, total: Option<u64>) -> io::Result<Self> {
        let mut file = File { input, read: 0 };
        let mut magic = Vec::with_capacity(MAGIC_LENGTH);
        (&mut file).take(MAGIC_LENGTH as u64).read_to_end(&mut magic)?;
        let is_gzip = magic.starts_with(GZIP_MAGIC);
        // pzstd writes a skippable frame first.
        let is_zstd =
            magic.first_chunk().is_some_and(|magic| *magic == ZSTD_MAGIC || is_skippable_frame(*magic));
        let start = io::Cursor::new(magic).chain(file);
        let packing = if is_gzip {
            Packing::Gzip(Box::new(Gzip::new(start)))
        } else if is_zstd {
            Packing::Zstd(Box::new(Zstd::new(start)))
        } else {
            Packing::None(start)
        };
        Ok(Self { packing, total })
    }

    pub(super) fn progress(&self) -> Progress {
        let start = match &self.packing {
            Packing::None(start) => start,
            Packing::Gzip(gzip) => gzip.input.get_ref(),
            Packing::Zstd(zstd) => zstd.input.get_ref(),
        };
        Progress { read: start.get_ref().1.read, total: self.total }
    }
}

impl Read for Source {
    /// Returns everything that can be decompressed before an error. Errors in the compressed data are
    /// [`io::ErrorKind::InvalidData`].
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.packing {
            Packing::None(start) => start.read(buffer),
            Packing::Gzip(gzip) => gzip.read(buffer),
            Packing::Zstd(zstd) => zstd.read(buffer),
        }
    }
}

fn invalid(reason: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_string())
}

/// Gzip, in any number of members (RFC 1952 §2.2).
struct Gzip {
    input: BufReader<Peeked>,
    /// `None` between members.
    member: Option<Decompress>,
    /// The error to return after everything decompressed before it.
    broken: Option<io::Error>,
}

impl Gzip {
    fn new(start: Peeked) -> Self {
        Self { input: BufReader::with_capacity(CHUNK, start), member: None, broken: None }
    }

    /// Decompresses once; `None` if that yielded nothing yet. Uses `Decompress` itself, because flate2's readers drop what came before an
    /// error.
    fn step(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        let input = self.input.fill_buf()?;
        let is_end = input.is_empty();
        if is_end && self.member.is_none() {
            return Ok(Some(0));
        }
        let member = self.member.get_or_insert_with(|| Decompress::new_gzip(15));
        let before = (member.total_in(), member.total_out());
        let result = member.decompress(input, buffer, FlushDecompress::None);
        let (read, given) = (member.total_in() - before.0, member.total_out() - before.1);
        self.input.consume(read as usize);
        match result {
            Ok(Status::StreamEnd) => self.member = None,
            Ok(_) if is_end && given == 0 => {
                self.broken = Some(invalid("truncated gzip file"));
            }
            Ok(_) => {}
            // Replaced, because the library's message depends on how much input it was given.
            Err(_) => self.broken = Some(invalid("corrupt gzip data")),
        }
        Ok((given != 0).then_some(given as usize))
    }
}

impl Read for Gzip {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(read) = self.step(buffer)? {
                return Ok(read);
            }
        }
    }
}

/// Zstandard, in any number of frames (RFC 8878 §3.1).
struct Zstd {
    input: BufReader<Peeked>,
    frame: FrameDecoder,
    /// Whether a frame has begun.
    is_open: bool,
    /// The error to return after everything decompressed before it.
    broken: Option<io::Error>,
}

const fn is_skippable_frame(magic: [u8; 4]) -> bool {
    u32::from_le_bytes(magic) & 0xffff_fff0 == 0x184d_2a50
}

/// A raw, empty last block, and a checksum that is not verified.
const END_OF_FRAME: &[u8] = &[1, 0, 0, 0, 0, 0, 0];

impl Zstd {
    fn new(start: Peeked) -> Self {
        let input = BufReader::with_capacity(CHUNK, start);
        Self { input, frame: FrameDecoder::new(), is_open: false, broken: None }
    }

    /// Moves to the next frame with data; `false` at the end of the file.
    fn open_frame(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.frame.reset(&mut self.input) {
                Ok(()) => {
                    self.is_open = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    if io::copy(&mut (&mut self.input).take(length), &mut io::sink())? != length {
                        return Err(invalid("truncated zstd file"));
                    }
                }
                Err(error) => return Err(invalid(error)),
            }
        }
        Ok(false)
    }

    /// Compares the frame's checksum.
    fn check(&self) -> io::Result<()> {
        match (self.frame.get_checksum_from_data(), self.frame.get_calculated_checksum()) {
            (Some(said), Some(calculated)) if said != calculated => {
                Err(invalid("the checksum of a zstd frame does not match its data"))
            }
            _ => Ok(()),
        }
    }
}

impl Read for Zstd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.is_open && self.frame.can_collect() != 0 {
                return self.frame.read(buffer);
            }
            if let Some(error) = self.broken.take() {
                self.is_open = false;
                return Err(error);
            }
            if !self.is_open {
                if !self.open_frame()? {
                    return Ok(0);
                }
            } else if self.frame.is_finished() {
                self.check()?;
                self.is_open = false;
            } else if let Err(error) =
                self.frame.decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1))
            {
                self.broken = Some(invalid(error));
                // The decoder holds back a window's worth until a frame ends.
                let _ = self.frame.decode_blocks(END_OF_FRAME, BlockDecodingStrategy::UptoBlocks(1));
            }
        }
    }
}

/// The part of a capture file that is in memory: room for the longest packet, or many short ones.
pub(super) struct Buffer {
    source: Source,
    octets: Vec<u8>,
    start: usize,
    end: usize,
    /// How many octets of the file precede `octets`.
    offset: u64,
}

/// A packet whose octets are in the buffer.
pub(super) struct Found {
    pub(super) time: Option<Time>,
    pub(super) link_type: u16,
    /// How many octets before the unread part it begins.
    pub(super) back: usize,
    pub(super) length: usize,
    pub(super) original_length: usize,
}

/// Octets of the longest packet; no program records longer ones from a network.
pub(super) const LONGEST_PACKET: usize = 262_144;
/// Octets of the longest packet or block kept in memory.
pub(super) const LONGEST: usize = 1 << 20;
/// Large enough for few reads, small enough for a processor's cache.
const CAPACITY: usize = 1 << 18;

impl Buffer {
    pub(super) fn new(source: Source) -> Self {
        Self { source, octets: vec![0; CAPACITY], start: 0, end: 0, offset: 0 }
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// How many octets of the file were taken.
    pub(super) fn offset(&self) -> u64 {
        self.offset + self.start as u64
    }

    /// The octets that were read but not taken.
    #[inline]
    pub(super) fn ready(&self) -> &[u8] {
        &self.octets[self.start..self.end]
    }

    /// Reads until at least `count` octets are ready, at most `LONGEST`. Returns `false` at the end of the file.
    ///
    /// # Errors
    /// The file ends before `count` octets but not at once, or cannot be read.
    #[inline]
    pub(super) fn fill(&mut self, count: usize) -> Result<bool, Damage> {
        if self.end - self.start < count { self.fill_slowly(count) } else { Ok(true) }
    }

    #[cold]
    fn fill_slowly(&mut self, count: usize) -> Result<bool, Damage> {
        debug_assert!(count <= LONGEST);
        self.octets.copy_within(self.start..self.end, 0);
        self.offset += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        if self.octets.len() < count {
            self.octets.resize(LONGEST, 0);
        }
        while self.end < count {
            match self.source.read(&mut self.octets[self.end..]) {
                Ok(0) if self.end == 0 => return Ok(false),
                Ok(0) => return Err(Damage::Truncated { got: self.end, expected: count }),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(Damage::Compression(error.to_string()));
                }
                Err(error) => return Err(Damage::Read(error)),
            }
        }
        Ok(true)
    }

    /// Takes `count` octets that are ready.
    #[inline]
    pub(super) fn take(&mut self, count: usize) {
        self.start += count;
    }

    /// The octets of a packet that was just taken.
    #[inline]
    pub(super) fn octets(&self, found: &Found) -> &[u8] {
        &self.octets[self.start - found.back..][..found.length]
    }

    /// Skips `count` octets, ready or not.
    ///
    /// # Errors
    /// Those of [`fill`](Self::fill); the offset is then that of the first skipped octet.
    pub(super) fn skip(&mut self, count: u64) -> Result<(), Damage> {
        let first = self.offset();
        let mut left = count;
        while left != 0 {
            let damage = match self.fill(1) {
                Ok(true) => {
                    let step = left.min(self.ready().len() as u64);
                    self.take(step as usize);
                    left -= step;
                    continue;
                }
                Ok(false) => {
                    let [got, expected] = [count - left, count].map(|octets| octets as usize);
                    Damage::Truncated { got, expected }
                }
                Err(damage) => damage,
            };
            (self.start, self.end, self.offset) = (0, 0, first);
            return Err(damage);
        }
        Ok(())
    }
}
