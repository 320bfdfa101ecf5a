//! Up to eight messages side by side, each under its own key.

use core::arch::aarch64::*;
use core::ops::Range;
use core::sync::atomic::{Ordering, compiler_fence};

use zeroize::Zeroizing;

use super::{Key, number, vector};
use crate::aes::octets_of_number;
use crate::groups::Job;

/// As many as keep AES busy in llvm-mca's model of Neoverse V2, which starts four instructions for it in each cycle.
pub(super) const LANES: usize = 8;

/// Computes the MACs of a group of at most [`LANES`] jobs, the longest first.
#[target_feature(enable = "neon,aes")]
pub(super) fn macs(group: &[Job<'_, &Key>], done: &mut impl FnMut(usize, &[u8; 16])) {
    let Some(last) = group.last() else { return };
    // Lanes without a job repeat the last one's.
    let jobs: [_; LANES] = core::array::from_fn(|lane| group.get(lane).unwrap_or(last));
    let keys = jobs.map(|job| job.key);
    leak!("CMAC: eight messages", keys[0].k1);
    let mut states = Zeroizing::new(keys.map(|key| key.start()));
    let heads = jobs.map(|job| job.head.as_ptr());
    // SAFETY: all heads have the same length.
    unsafe { advance(&mut states, &keys, &heads, 0..jobs[0].head.len() / 16) };

    let mut tails = jobs.map(|job| job.tail.as_ptr());
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

    let last_blocks = Zeroizing::new(jobs.map(|job| {
        leak!("CMAC: last block of one of many", job.key.k1);
        job.key.last_block(&job.tail[job.tail.len().saturating_sub(1) / 16 * 16..])
    }));
    let lasts = last_blocks.each_ref().map(|last| core::ptr::from_ref(last).cast());
    // SAFETY: each is one block.
    unsafe { advance(&mut ended, &keys, &lasts, 0..1) };
    for (job, state) in group.iter().zip(&*ended) {
        done(job.number, &job.key.finish(*state));
    }
}

/// Takes the blocks with these indices into the states.
///
/// # Safety
/// Each pointer is valid for reads of all these blocks.
#[target_feature(enable = "neon,aes")]
unsafe fn advance(
    states: &mut [u128; LANES],
    keys: &[&Key; LANES],
    starts: &[*const u8; LANES],
    blocks: Range<usize>,
) {
    let mut now = states.map(|state| octets_of_number(state));
    for block in blocks {
        // Keeps the compiler from copying all round keys to the stack first.
        compiler_fence(Ordering::SeqCst);
        for ((state, start), key) in now.iter_mut().zip(starts).zip(keys) {
            // SAFETY: the block is there, and it needs no alignment.
            let octets = unsafe { vld1q_u8(start.add(16 * block)) };
            *state = vaesmcq_u8(vaeseq_u8(*state, veorq_u8(octets, vector(&key.between))));
        }
        for round in 1..9 {
            for (state, key) in now.iter_mut().zip(keys) {
                *state = vaesmcq_u8(vaeseq_u8(*state, vector(&key.round_keys[round])));
            }
        }
        for (state, key) in now.iter_mut().zip(keys) {
            *state = vaeseq_u8(*state, vector(&key.round_keys[9]));
        }
    }
    *states = now.map(|state| number(state));
}
