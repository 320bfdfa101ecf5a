//! Up to eight messages side by side, each under its own key.

use core::arch::x86_64::*;
use core::ops::Range;
use core::sync::atomic::{Ordering, compiler_fence};

use zeroize::Zeroizing;

use super::key::Key;
use crate::groups::Job;
use crate::partial_block::store;

/// As many as keep AES busy: a round takes three or four cycles, and two start in each cycle.
pub(super) const LANES: usize = 8;

/// The block for states that have their last block added already.
static ZEROS: [u8; 16] = [0; 16];

/// Computes the MACs of a group of at most [`LANES`] jobs, the longest first.
#[target_feature(enable = "aes,sse4.1,ssse3")]
pub(super) fn macs(group: &[Job<'_, &Key>], done: &mut impl FnMut(usize, &[u8; 16])) {
    let Some(last) = group.last() else { return };
    // Lanes without a job repeat the last one's.
    let jobs: [_; LANES] = core::array::from_fn(|lane| group.get(lane).unwrap_or(last));
    let keys = core::array::from_fn(|lane| jobs[lane].key);
    leak!("CMAC: eight messages", jobs[0].key.k1);
    let mut states = Zeroizing::new([_mm_setzero_si128(); LANES]);
    let heads = core::array::from_fn(|lane| jobs[lane].head.as_ptr());
    // SAFETY: all heads have the same length.
    unsafe { advance(&mut states, &keys, &heads, 0..jobs[0].head.len() / 16) };

    let mut tails = core::array::from_fn(|lane| jobs[lane].tail.as_ptr());
    let mut ended = states.clone();
    let mut taken = 0;
    // From the shortest on. A lane whose message has ended reads the first one's octets, and its state no longer matters.
    for lane in (0..LANES).rev() {
        let blocks = jobs[lane].tail.len().saturating_sub(1) / 16;
        if blocks > taken {
            // SAFETY: this lane and those before have so many blocks, and the ones behind read the first one's.
            unsafe { advance(&mut states, &keys, &tails, taken..blocks) };
            taken = blocks;
            // Lanes that end later set theirs again.
            ended[..=lane].copy_from_slice(&states[..=lane]);
        }
        tails[lane] = tails[0];
    }

    for (state, job) in ended.iter_mut().zip(jobs) {
        *state = _mm_xor_si128(*state, job.key.last_block(job.tail));
    }
    // SAFETY: it is one block.
    unsafe { advance(&mut ended, &keys, &[ZEROS.as_ptr(); LANES], 0..1) };
    for (job, state) in group.iter().zip(*ended) {
        done(job.number, &store(state));
    }
}

/// Takes the blocks with these indices into the states.
///
/// # Safety
/// Each pointer is valid for reads of all these blocks.
#[target_feature(enable = "aes,sse4.1,ssse3")]
unsafe fn advance(
    states: &mut [__m128i; LANES],
    keys: &[&Key; LANES],
    starts: &[*const u8; LANES],
    blocks: Range<usize>,
) {
    let mut now = *states;
    for block in blocks {
        // Keeps the compiler from copying all round keys to the stack first.
        compiler_fence(Ordering::SeqCst);
        for ((state, start), key) in now.iter_mut().zip(starts).zip(keys) {
            // SAFETY: the block is there, and it needs no alignment.
            let octets = unsafe { _mm_loadu_si128(start.add(16 * block).cast()) };
            *state = _mm_xor_si128(*state, _mm_xor_si128(octets, key.round_keys[0]));
        }
        for round in 1..10 {
            for (state, key) in now.iter_mut().zip(keys) {
                *state = _mm_aesenc_si128(*state, key.round_keys[round]);
            }
        }
        for (state, key) in now.iter_mut().zip(keys) {
            *state = _mm_aesenclast_si128(*state, key.round_keys[10]);
        }
    }
    *states = now;
}
