//! Many messages by SHA-NI, two at a time. Each round of a message waits four to six cycles for the one before, which is time enough
//! for a round of another message.

use core::arch::x86_64::*;

use zeroize::optimization_barrier;

use super::one::{Block, OneMessageHash, bits, octets, outer_block, words_of};
use super::padding::{BLOCK, last_block};
use crate::cpu::ShaNi;
use crate::groups::Job;

/// A hash of two messages side by side.
pub(crate) trait PairHash<const WORDS: usize, const OCTETS: usize>:
    OneMessageHash<ShaNi, WORDS>
{
    /// Computes the HMACs of two messages: [`hmacs`] for this hash, compiled with this crate and not once for each caller.
    ///
    /// # Safety
    /// The processor has SHA-NI.
    unsafe fn hmac_pair(pair: &[Job<'_, [&[u32; WORDS]; 2]>; 2], macs: &mut [[u8; OCTETS]; 2]);

    /// Takes a block of each message into its chaining value.
    ///
    /// # Safety
    /// The processor has SHA-NI.
    unsafe fn compress_pair(states: &mut [Self::State; 2], blocks: [Block; 2]);
}

/// The end of a message with its padding, in one block or two; wiped on drop.
struct End {
    blocks: [Block; 2],
    count: usize,
}

impl End {
    #[inline]
    #[target_feature(enable = "sse4.1,ssse3")]
    fn new<K>(job: &Job<'_, K>) -> Self {
        let left = job.tail.len() % BLOCK;
        let count = 1 + usize::from(left >= BLOCK - 8);
        // Padding (FIPS 180-4 §5.1.1).
        let mut last = last_block(job.tail);
        let bits = bits(BLOCK + job.head.len() + job.tail.len());
        if count == 1 {
            last[3] = _mm_or_si128(last[3], bits);
        }
        let zero = _mm_setzero_si128();
        Self { blocks: [last, [zero, zero, zero, bits]], count }
    }

    #[inline]
    fn as_octets(&self) -> &[[u8; BLOCK]] {
        // SAFETY: both are as many octets, and all values are allowed.
        let octets: &[[u8; BLOCK]; 2] = unsafe { &*(&raw const self.blocks).cast() };
        &octets[..self.count]
    }
}

impl Drop for End {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: zero is a value of a vector.
        unsafe { (&raw mut self.blocks).write_bytes(0, 1) };
        optimization_barrier(&self.blocks);
    }
}

/// Computes the HMACs of two messages.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
pub(crate) fn hmacs<H: PairHash<WORDS, OCTETS>, const WORDS: usize, const OCTETS: usize>(
    [first, second]: &[Job<'_, [&[u32; WORDS]; 2]>; 2],
    macs: &mut [[u8; OCTETS]; 2],
) {
    let (first_end, second_end) = (End::new(first), End::new(second));
    let blocks = [Blocks::new(first, &first_end), Blocks::new(second, &second_end)];
    let count = blocks[0].count.max(blocks[1].count);
    // SAFETY: this function is compiled for all that the functions of the hash need.
    unsafe {
        let mut states = [H::state(first.key[0]), H::state(second.key[0])];
        for at in 0..=count {
            let before = states;
            let block = if at < count {
                [
                    words_of::<H, ShaNi, WORDS>(blocks[0].get(at)),
                    words_of::<H, ShaNi, WORDS>(blocks[1].get(at)),
                ]
            } else {
                let hashes = [H::words(states[0]), H::words(states[1])];
                leak!("HMAC: inner hashes of two", hashes[0][0]);
                states = [H::state(first.key[1]), H::state(second.key[1])];
                let [first, second] = hashes;
                [
                    outer_block::<H, ShaNi, WORDS, OCTETS>(first),
                    outer_block::<H, ShaNi, WORDS, OCTETS>(second),
                ]
            };
            H::compress_pair(&mut states, block);
            // A message that has ended waits for the other one.
            if at < count && at >= blocks[0].count {
                states[0] = before[0];
            }
            if at < count && at >= blocks[1].count {
                states[1] = before[1];
            }
        }
        *macs = [
            octets::<H, ShaNi, WORDS, OCTETS>(H::words(states[0])),
            octets::<H, ShaNi, WORDS, OCTETS>(H::words(states[1])),
        ];
    }
}

/// The blocks of a message.
struct Blocks<'a> {
    head: &'a [[u8; BLOCK]],
    tail: &'a [[u8; BLOCK]],
    end: &'a [[u8; BLOCK]],
    count: usize,
}

impl<'a> Blocks<'a> {
    #[inline]
    fn new<K>(job: &Job<'a, K>, end: &'a End) -> Self {
        let (head, tail, end) = (job.head.as_chunks().0, job.tail.as_chunks().0, end.as_octets());
        Self { head, tail, end, count: head.len() + tail.len() + end.len() }
    }

    /// A block, or the last one if there are fewer.
    #[inline]
    fn get(&self, at: usize) -> &[u8; BLOCK] {
        if at < self.head.len() {
            return &self.head[at];
        }
        let at = at - self.head.len();
        if at < self.tail.len() {
            return &self.tail[at];
        }
        &self.end[(at - self.tail.len()).min(self.end.len() - 1)]
    }
}
