//! A window over the octets of a capture file.

use std::io::{self, Read};

use super::source::Source;
use super::{Damage, Time};

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

    /// The octets that were read and not taken.
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
