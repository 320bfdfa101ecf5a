//! HMACs of sixteen messages of one shape side by side, in step.

use core::arch::x86_64::*;

use zeroize::optimization_barrier;

use super::Job;
use super::lanes::{Advance, LANES, States, load, store, transpose};
use super::last::{BLOCK, last_block};
use crate::cut;
use crate::worth::octets;

/// Takes a block of each lane, given by its words, into the chaining values of the lanes.
///
/// # Safety
/// The processor has the path.
pub(crate) type Compress<const WORDS: usize> = unsafe fn(&mut States<WORDS>, &[__m512i; 16]);

/// What the lanes keep in memory, wiped on drop.
struct Registers<const WORDS: usize> {
    states: States<WORDS>,
    /// The chaining values behind the inner and the outer keys, then the words of the outer block.
    words: [__m512i; 16],
    /// The ends of the messages with their padding.
    last: [[u8; BLOCK]; LANES],
}

impl<const WORDS: usize> Drop for Registers<WORDS> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: all of it are numbers, which may be zero.
        unsafe { core::ptr::from_mut(self).write_bytes(0, 1) };
        optimization_barrier(self);
    }
}

/// Computes the HMACs of a group, and tells `each` the numbers of its jobs with them.
///
/// # Safety
/// The processor has the path of `advance` and `compress`.
#[target_feature(enable = "sse4.1,ssse3,avx2,avx512f,avx512bw")]
pub(crate) unsafe fn run<const WORDS: usize>(
    jobs: &[Job<'_, WORDS>; LANES],
    advance: Advance<WORDS>,
    compress: Compress<WORDS>,
    each: &mut impl FnMut(usize, [u32; WORDS]),
) {
    let zero = _mm512_setzero_si512();
    let mut registers =
        Registers { states: [[0; LANES]; WORDS], words: [zero; 16], last: [[0; BLOCK]; LANES] };
    let Registers { states, words, last } = &mut registers;
    for (row, (_, [inner, outer], _)) in words.iter_mut().zip(jobs) {
        let mask = (1 << WORDS) - 1;
        // SAFETY: what the mask leaves out is not read; the outer words come to stand from the eighth on.
        *row = unsafe {
            let row = _mm512_maskz_loadu_epi32(mask, inner.as_ptr().cast());
            _mm512_mask_loadu_epi32(row, mask << 8, outer.as_ptr().wrapping_sub(8).cast())
        };
    }
    *words = transpose(*words);
    store(states, &words[..8]);
    let shape = jobs[0].2;
    for (at, slice) in shape.iter().enumerate() {
        let mut starts = [core::ptr::null(); LANES];
        for (start, (_, _, message)) in starts.iter_mut().zip(jobs) {
            *start = message[at].as_ptr().cast();
        }
        // SAFETY: every lane's slice is as long as the first one's, and has so many blocks; the caller vouches for the path.
        unsafe { advance(states, &starts, slice.len() / BLOCK) };
    }
    let left = shape.last().map_or(0, |slice| slice.len() % BLOCK);
    let length = 8 * (BLOCK + octets(shape)) as u64;
    let mut starts = [core::ptr::null(); LANES];
    for ((start, own), (_, _, message)) in starts.iter_mut().zip(&mut *last).zip(jobs) {
        let (parts, _) = own.as_chunks_mut();
        let whole = message.last().copied().unwrap_or_default();
        for (part, octets) in parts.iter_mut().zip(last_block(whole, left)) {
            *part = cut::store(octets);
        }
        *start = &raw const *own;
    }
    if left >= BLOCK - 8 {
        // SAFETY: there is a block at each start; the caller vouches for the path.
        unsafe { advance(states, &starts, 1) };
        *last = [[0; BLOCK]; LANES];
    }
    for own in &mut *last {
        own[BLOCK - 8..].copy_from_slice(&length.to_be_bytes());
    }
    let starts = core::array::from_fn(|lane| &raw const last[lane]);
    // SAFETY: there is a block at each start; the caller vouches for the path.
    unsafe { advance(states, &starts, 1) };
    // The inner hashes are the first words of the outer blocks as they are, lane by lane.
    let mut block = [zero; 16];
    block[..WORDS].copy_from_slice(&load(states));
    block[WORDS] = _mm512_set1_epi32(i32::MIN);
    block[15] = _mm512_set1_epi32(8 * (BLOCK + 4 * WORDS) as i32);
    store(states, &words[8..]);
    *words = block;
    // SAFETY: the caller vouches for the path.
    unsafe { compress(states, words) };
    for (at, (number, ..)) in jobs.iter().enumerate() {
        each(*number, core::array::from_fn(|word| states[word][at]));
    }
}
