//! Up to sixteen messages side by side by AVX-512.

use core::arch::x86_64::*;
use core::ops::Range;

use zeroize::optimization_barrier;

use super::Job;
use super::in_network_order;
use super::padding::{BLOCK, last_block};
use super::pairs::PairHash;
use super::vectors::{LANES, States, load, store, transpose, words_of_lanes};
use crate::cpu::{Avx512, Bmi2, ShaNi};
use crate::groups::{self, Cost, each_group};
use crate::partial_block;

/// A hash by AVX-512.
pub(crate) trait Avx512Hash<const WORDS: usize> {
    /// What a group costs, in blocks of messages by SHA-NI, two at a time; `None` if it never pays.
    const COST: Option<Cost>;
    /// The same in blocks by BMI2. Not measured: scaled from the next by what a block takes on Zen 3.
    const COST_BMI2: Cost;
    /// The same in blocks by a library without either.
    const COST_WITHOUT_EITHER: Cost;

    /// Takes a block of each lane into its chaining value. A vector has one word of every lane.
    ///
    /// # Safety
    /// The processor has AVX-512 F, BW, DQ and VL.
    unsafe fn compress(state: [__m512i; WORDS], block: [__m512i; 16]) -> [__m512i; WORDS];
}

/// What the lanes keep in memory, wiped on drop.
struct Memory<const WORDS: usize> {
    states: States<WORDS>,
    /// The states of the lanes as their messages ended.
    ended: States<WORDS>,
    /// The chaining values after the inner and the outer key block, then the words of the outer block.
    words: [__m512i; 16],
    /// The ends of the messages with their padding, in one block or two.
    ends: [[[u8; BLOCK]; 2]; LANES],
}

impl<const WORDS: usize> Drop for Memory<WORDS> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: all of it is numbers, and zero is a value of each.
        unsafe { core::ptr::from_mut(self).write_bytes(0, 1) };
        optimization_barrier(self);
    }
}

/// Computes the HMACs of the messages that gain by going side by side, and returns how many.
pub(crate) fn hmac_many<'a, H, const WORDS: usize, const OCTETS: usize>(
    jobs: impl Iterator<Item = Job<'a, WORDS>>,
    mut done: impl FnMut(usize, &[u8; OCTETS]),
) -> usize
where
    H: PairHash<WORDS, OCTETS> + Avx512Hash<WORDS>,
{
    let sha_ni = ShaNi::detect();
    let cost = Avx512::detect().and_then(|_| match (sha_ni, Bmi2::detect()) {
        (Some(_), _) => H::COST,
        (None, Some(_)) => Some(H::COST_BMI2),
        (None, None) => Some(H::COST_WITHOUT_EITHER),
    });
    let mut count = 0;
    let mut macs = [[0; OCTETS]; 2];
    each_group::<_, BLOCK>(jobs, |group| {
        if cost.as_ref().is_some_and(|cost| cost.is_worth(group, BLOCK)) {
            // SAFETY: there is a cost only with the token that proves the path.
            unsafe { hmacs::<H, WORDS>(group, &mut |number, words| done(number, &in_network_order(words))) };
            count += group.len();
        } else if sha_ni.is_some() {
            let (pairs, _) = group.as_chunks();
            for pair in pairs {
                // SAFETY: the token proves the path.
                unsafe { H::hmac_pair(pair, &mut macs) };
                pair.iter().zip(&macs).for_each(|(job, mac)| done(job.number, mac));
            }
            count += 2 * pairs.len();
        }
    });
    count
}

/// Computes the HMACs of a group of at most [`LANES`] jobs, the longest first.
#[target_feature(enable = "sse4.1,ssse3,avx2,avx512f,avx512bw,avx512dq,avx512vl")]
fn hmacs<H: Avx512Hash<WORDS>, const WORDS: usize>(
    group: &[groups::Job<'_, [&[u32; WORDS]; 2]>],
    done: &mut impl FnMut(usize, [u32; WORDS]),
) {
    let Some(last) = group.last() else { return };
    // Lanes without a job repeat the last one's.
    let jobs: [_; LANES] = core::array::from_fn(|lane| group.get(lane).unwrap_or(last));
    let zero = _mm512_setzero_si512();
    let mut memory = Memory {
        states: [[0; LANES]; WORDS],
        ended: [[0; LANES]; WORDS],
        words: [zero; 16],
        ends: [[[0; BLOCK]; 2]; LANES],
    };
    let Memory { states, ended, words, ends } = &mut memory;
    for (row, job) in words.iter_mut().zip(jobs) {
        let mask = (1 << WORDS) - 1;
        let [inner, outer] = job.key;
        // SAFETY: only words in the mask are read; those of the outer value go to the eighth place and on.
        *row = unsafe {
            let row = _mm512_maskz_loadu_epi32(mask, inner.as_ptr().cast());
            _mm512_mask_loadu_epi32(row, mask << 8, outer.as_ptr().wrapping_sub(8).cast())
        };
    }
    *words = transpose(*words);
    leak!("HMAC: sixteen keys", words[0]);
    store(states, &words[..8]);
    // SAFETY: all heads have the same length.
    unsafe { advance::<H, WORDS>(states, &jobs.map(|job| job.head.as_ptr()), 0..jobs[0].head.len() / BLOCK) };

    let mut tails = jobs.map(|job| job.tail.as_ptr());
    *ended = *states;
    let mut taken = 0;
    // From the shortest on. A lane whose message has ended reads the first one's octets, and its state no longer matters.
    for lane in (0..LANES).rev() {
        let blocks = jobs[lane].tail.len() / BLOCK;
        if blocks > taken {
            // SAFETY: this lane and those before have so many blocks, and the ones behind read the first one's.
            unsafe { advance::<H, WORDS>(states, &tails, taken..blocks) };
            taken = blocks;
            // Lanes that end later set theirs again.
            for (ended, states) in ended.iter_mut().zip(&*states) {
                ended[..=lane].copy_from_slice(&states[..=lane]);
            }
        }
        tails[lane] = tails[0];
    }

    // Padding (FIPS 180-4 §5.1.1).
    let left = jobs.map(|job| job.tail.len() % BLOCK);
    let needs_two = left.map(|left| left >= BLOCK - 8);
    for (lane, (job, end)) in jobs.iter().zip(&mut *ends).enumerate() {
        for (part, octets) in end[0].as_chunks_mut().0.iter_mut().zip(last_block(job.tail)) {
            *part = partial_block::store(octets);
        }
        let bits = 8 * (BLOCK + job.head.len() + job.tail.len()) as u64;
        end[usize::from(needs_two[lane])][BLOCK - 8..].copy_from_slice(&bits.to_be_bytes());
    }
    *states = *ended;
    let starts = core::array::from_fn(|lane| ends[lane].as_flattened().as_ptr());
    // SAFETY: there are two blocks at every start.
    unsafe { advance::<H, WORDS>(states, &starts, 0..1) };
    if needs_two.contains(&true) {
        *ended = *states;
        // SAFETY: as above.
        unsafe { advance::<H, WORDS>(states, &starts, 1..2) };
        for (states, ended) in states.iter_mut().zip(ended) {
            for lane in (0..LANES).filter(|lane| !needs_two[*lane]) {
                states[lane] = ended[lane];
            }
        }
    }

    // The inner hashes are the first words of the outer blocks, just as they lie.
    let mut block = [zero; 16];
    block[..WORDS].copy_from_slice(&load(states));
    block[WORDS] = _mm512_set1_epi32(i32::MIN);
    block[15] = _mm512_set1_epi32(8 * (BLOCK + 4 * WORDS) as i32);
    store(states, &words[8..]);
    *words = block;
    // SAFETY: this function is compiled for all that the hash needs.
    store(states, &unsafe { H::compress(load(states), *words) });
    for (lane, job) in group.iter().enumerate() {
        done(job.number, core::array::from_fn(|word| states[word][lane]));
    }
}

/// Takes the blocks with these indices into the chaining values.
///
/// # Safety
/// Each pointer is valid for reads of all these blocks.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn advance<H: Avx512Hash<WORDS>, const WORDS: usize>(
    states: &mut States<WORDS>,
    starts: &[*const u8; LANES],
    blocks: Range<usize>,
) {
    let mut now = load(states);
    for block in blocks {
        // SAFETY: the block is there, and this function is compiled for all that the hash needs.
        now = unsafe { H::compress(now, words_of_lanes(starts, block)) };
    }
    store(states, &now);
}
