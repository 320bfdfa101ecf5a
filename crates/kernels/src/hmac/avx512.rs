//! HMAC of up to sixteen messages side by side with AVX-512. A vector has one word of every message.

use core::arch::asm;
use core::arch::x86_64::*;
use core::ops::Range;

use zeroize::optimization_barrier;

use super::frame::{KeyedJob, last_block};
use super::message::{BLOCK, K};
use crate::groups::each_tail;
use crate::partial_block;

/// The HMAC-SHA-1s of a group of at most [`LANES`] jobs.
///
/// # Safety
/// As for [`hmacs`].
#[target_feature(enable = "sse4.1,ssse3,avx2,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn hmac_sha1(group: &[KeyedJob<'_, 5>], macs: &mut [[u8; 20]; LANES]) {
    // SAFETY: the caller guarantees the group.
    unsafe { hmacs(group, macs, |h, w| sha1(h, w)) };
}

/// The HMAC-SHA-256s of a group of at most [`LANES`] jobs.
///
/// # Safety
/// As for [`hmacs`].
#[target_feature(enable = "sse4.1,ssse3,avx2,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn hmac_sha256(group: &[KeyedJob<'_, 8>], macs: &mut [[u8; 32]; LANES]) {
    // SAFETY: the caller guarantees the group.
    unsafe { hmacs(group, macs, |h, w| sha256(h, w)) };
}

/// Processes a block of each lane into its chaining value (FIPS 180-4 §6.1.2).
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
fn sha1(h: [__m512i; 5], mut w: [__m512i; 16]) -> [__m512i; 5] {
    leak!("HMAC-SHA-1: sixteen blocks", h);
    let [mut a, mut b, mut c, mut d, mut e] = h;
    macro_rules! rounds {
        ($f:literal, $k:literal, $($at:literal)*) => {$(
            if $at >= 16 {
                let sum = _mm512_ternarylogic_epi32::<0x96>(w[($at + 13) % 16], w[($at + 8) % 16], w[($at + 2) % 16]);
                w[$at % 16] = _mm512_rol_epi32::<1>(_mm512_xor_si512(w[$at % 16], sum));
            }
            let f = _mm512_ternarylogic_epi32::<$f>(b, c, d);
            let sum = add(tied(add(e, add(w[$at % 16], _mm512_set1_epi32($k as u32 as i32)))), f);
            let sum = add(tied(sum), _mm512_rol_epi32::<5>(a));
            (e, d, c, b, a) = (d, c, _mm512_rol_epi32::<30>(b), a, sum);
        )*};
    }
    // Ch, Parity, Maj, Parity.
    rounds!(0xca, 0x5a827999, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);
    rounds!(0x96, 0x6ed9eba1, 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39);
    rounds!(0xe8, 0x8f1bbcdc_u32, 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59);
    rounds!(0x96, 0xca62c1d6_u32, 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79);
    let after = [a, b, c, d, e];
    core::array::from_fn(|word| add(h[word], after[word]))
}

/// Processes a block of each lane into its chaining value (FIPS 180-4 §6.2.2).
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
fn sha256(h: [__m512i; 8], mut w: [__m512i; 16]) -> [__m512i; 8] {
    macro_rules! ror {
        ($word:expr, $by:literal) => {
            _mm512_ror_epi32::<$by>($word)
        };
    }
    leak!("HMAC-SHA-256: sixteen blocks", h);
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut last] = h;
    macro_rules! rounds {
        ($k:expr, $then:ident, $($at:literal)*) => {$(
            let k = _mm512_set1_epi32($k[$at] as i32);
            let sum1 = xor3(ror!(e, 6), ror!(e, 11), ror!(e, 25));
            let ch = _mm512_ternarylogic_epi32::<0xca>(e, f, g);
            let early = tied(add(last, add(w[$at], k)));
            let next = tied(add(tied(add(add(early, d), ch)), sum1));
            let sum = tied(_mm512_sub_epi32(next, d));
            let sum0 = xor3(ror!(a, 2), ror!(a, 13), ror!(a, 22));
            let maj = _mm512_ternarylogic_epi32::<0xe8>(a, b, c);
            (last, g, f, e, d, c, b, a) = (g, f, e, next, c, b, a, add(tied(add(sum, maj)), sum0));
            $then!($at);
        )*};
    }
    // The word for the round sixteen later: the processor computes it while this round waits for the one before.
    macro_rules! schedule {
        ($at:literal) => {
            let (early, late) = (w[($at + 1) % 16], w[($at + 14) % 16]);
            let sigma0 = xor3(ror!(early, 7), ror!(early, 18), _mm512_srli_epi32::<3>(early));
            let sigma1 = xor3(ror!(late, 17), ror!(late, 19), _mm512_srli_epi32::<10>(late));
            w[$at] = add(add(w[$at], w[($at + 9) % 16]), add(sigma0, sigma1));
        };
    }
    macro_rules! nothing {
        ($at:literal) => {};
    }
    let ([first @ .., last_part], _) = K.as_chunks::<16>() else { return h };
    for k in first {
        rounds!(k, schedule, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    }
    rounds!(last_part, nothing, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    let after = [a, b, c, d, e, f, g, last];
    core::array::from_fn(|word| add(h[word], after[word]))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0x96>(a, b, c)
}

/// Returns the value unchanged, but keeps the compiler from reordering additions: the value that is known last must be added last.
#[inline]
#[target_feature(enable = "avx512f")]
fn tied(mut vector: __m512i) -> __m512i {
    // SAFETY: the assembly is empty.
    unsafe { asm!("/* {0} */", inout(zmm_reg) vector, options(pure, nomem, nostack, preserves_flags)) };
    vector
}

/// The lanes' data in memory, wiped on drop.
struct Memory<const WORDS: usize> {
    states: States<WORDS>,
    /// The states of the lanes when their messages ended.
    ended: States<WORDS>,
    /// The chaining values after the inner and the outer key block, then the words of the outer block.
    words: [__m512i; 16],
    /// The ends of the messages with their padding, one block or two each.
    ends: [[[u8; BLOCK]; 2]; LANES],
}

impl<const WORDS: usize> Drop for Memory<WORDS> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: all fields are numbers, for which zero is valid.
        unsafe { core::ptr::from_mut(self).write_bytes(0, 1) };
        optimization_barrier(self);
    }
}

/// Computes the HMACs of a group of at most [`LANES`] jobs.
///
/// # Safety
/// The group is one of [`each_group`](crate::groups::each_group): its heads have the same length, and its longest tail is first.
#[target_feature(enable = "sse4.1,ssse3,avx2,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn hmacs<const WORDS: usize, const OCTETS: usize>(
    group: &[KeyedJob<'_, WORDS>],
    macs: &mut [[u8; OCTETS]; LANES],
    compress: impl Fn([__m512i; WORDS], [__m512i; 16]) -> [__m512i; WORDS],
) {
    let Some(last) = group.last() else { return };
    // Lanes without a job repeat the last job.
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
        // SAFETY: only the words in the mask are read; those of the outer value go to the eighth place and after.
        *row = unsafe {
            let row = _mm512_maskz_loadu_epi32(mask, inner.as_ptr().cast());
            _mm512_mask_loadu_epi32(row, mask << 8, outer.as_ptr().wrapping_sub(8).cast())
        };
    }
    *words = transpose(*words);
    leak!("HMAC: sixteen keys", words[0]);
    store(states, &words[..8]);
    // SAFETY: the caller guarantees that all heads have the same length.
    unsafe { advance(states, &jobs.map(|job| job.head.as_ptr()), 0..jobs[0].head.len() / BLOCK, &compress) };

    *ended = *states;
    each_tail(
        jobs,
        |octets| octets / BLOCK,
        |starts, blocks, lanes| {
            // SAFETY: the caller guarantees the order, so `each_tail` passes only blocks that these tails have.
            unsafe { advance(states, starts, blocks, &compress) };
            // Lanes that end later overwrite theirs.
            for (ended, states) in ended.iter_mut().zip(&*states) {
                ended[..lanes].copy_from_slice(&states[..lanes]);
            }
        },
    );

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
    // SAFETY: each start has two blocks.
    unsafe { advance(states, &starts, 0..1, &compress) };
    if needs_two.contains(&true) {
        *ended = *states;
        // SAFETY: each start has two blocks.
        unsafe { advance(states, &starts, 1..2, &compress) };
        for (states, ended) in states.iter_mut().zip(ended) {
            for lane in (0..LANES).filter(|lane| !needs_two[*lane]) {
                states[lane] = ended[lane];
            }
        }
    }

    // The inner hashes are the first words of the outer blocks, without any reordering.
    let mut block = [zero; 16];
    block[..WORDS].copy_from_slice(&load(states));
    block[WORDS] = _mm512_set1_epi32(i32::MIN);
    block[15] = _mm512_set1_epi32(8 * (BLOCK + 4 * WORDS) as i32);
    store(states, &words[8..]);
    *words = block;
    store(states, &compress(load(states), *words));
    for (lane, mac) in macs[..group.len()].iter_mut().enumerate() {
        for (octets, word) in mac.as_chunks_mut().0.iter_mut().zip(&*states) {
            *octets = word[lane].to_be_bytes();
        }
    }
}

/// Processes the blocks with these indices into the chaining values.
///
/// # Safety
/// Each pointer is valid for reads of all these blocks.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn advance<const WORDS: usize>(
    states: &mut States<WORDS>,
    starts: &[*const u8; LANES],
    blocks: Range<usize>,
    compress: &impl Fn([__m512i; WORDS], [__m512i; 16]) -> [__m512i; WORDS],
) {
    let mut now = load(states);
    for block in blocks {
        // SAFETY: the caller guarantees the block.
        now = compress(now, unsafe { words_of_lanes(starts, block) });
    }
    store(states, &now);
}

/// The number of messages side by side: as many as a vector of 64 octets has words.
const LANES: usize = 16;

/// The chaining values of all lanes: their first words, then their second words, and so on.
type States<const WORDS: usize> = [[u32; LANES]; WORDS];

/// The chaining values as vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn load<const WORDS: usize>(states: &States<WORDS>) -> [__m512i; WORDS] {
    // SAFETY: a word of each lane is 64 octets; the access needs no alignment.
    core::array::from_fn(|word| unsafe { _mm512_loadu_si512(states[word].as_ptr().cast()) })
}

/// Sets the chaining values to the first of `words`.
#[inline]
#[target_feature(enable = "avx512f")]
fn store<const WORDS: usize>(states: &mut States<WORDS>, words: &[__m512i]) {
    for (state, word) in states.iter_mut().zip(words) {
        // SAFETY: a word of each lane is 64 octets; the access needs no alignment.
        unsafe { _mm512_storeu_si512(state.as_mut_ptr().cast(), *word) };
    }
}

/// The words of a block of each lane: the first words of all lanes, then the second words, and so on.
///
/// # Safety
/// Each start is followed by the block with this index.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn words_of_lanes(starts: &[*const u8; LANES], block: usize) -> [__m512i; 16] {
    let big_endian = _mm512_set4_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203);
    let lanes: [__m512i; LANES] = core::array::from_fn(|lane| {
        // SAFETY: the caller guarantees the 64 octets; the load needs no alignment.
        let octets = unsafe { _mm512_loadu_si512(starts[lane].add(64 * block).cast()) };
        _mm512_shuffle_epi8(octets, big_endian)
    });
    transpose(lanes)
}

/// Transposes: sixteen vectors of the first elements, of the second elements, and so on.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: [__m512i; 16]) -> [__m512i; 16] {
    // First within quarters of vectors, by pairs of rows and then pairs of pairs; then whole quarters.
    let pairs: [__m512i; 16] = core::array::from_fn(|at| match at % 2 {
        0 => _mm512_unpacklo_epi32(rows[at], rows[at + 1]),
        _ => _mm512_unpackhi_epi32(rows[at - 1], rows[at]),
    });
    let fours: [__m512i; 16] = core::array::from_fn(|at| {
        let from = at / 4 * 4 + at % 4 / 2;
        match at % 2 {
            0 => _mm512_unpacklo_epi64(pairs[from], pairs[from + 2]),
            _ => _mm512_unpackhi_epi64(pairs[from], pairs[from + 2]),
        }
    });
    let halves: [__m512i; 16] = core::array::from_fn(|at| {
        let (first, second) = (fours[at / 8 * 8 + at % 4], fours[at / 8 * 8 + at % 4 + 4]);
        match at / 4 % 2 {
            0 => _mm512_shuffle_i32x4::<0x88>(first, second),
            _ => _mm512_shuffle_i32x4::<0xdd>(first, second),
        }
    });
    core::array::from_fn(|at| {
        let (first, second) = (halves[at % 8], halves[8 + at % 8]);
        match at / 8 {
            0 => _mm512_shuffle_i32x4::<0x88>(first, second),
            _ => _mm512_shuffle_i32x4::<0xdd>(first, second),
        }
    })
}
