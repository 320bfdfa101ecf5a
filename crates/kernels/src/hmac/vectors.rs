//! Chaining values and blocks of sixteen messages, as vectors that hold one word of each.

use core::arch::x86_64::*;

/// How many messages go side by side: as many as a vector of 64 octets has words.
pub(crate) const LANES: usize = 16;

/// The chaining values of all lanes: their first words, then their second words, and so on.
pub(super) type States<const WORDS: usize> = [[u32; LANES]; WORDS];

/// The chaining values as vectors.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load<const WORDS: usize>(states: &States<WORDS>) -> [__m512i; WORDS] {
    // SAFETY: a word of each lane is 64 octets, and they need no alignment.
    core::array::from_fn(|word| unsafe { _mm512_loadu_si512(states[word].as_ptr().cast()) })
}

/// Sets the chaining values to the first of `words`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store<const WORDS: usize>(states: &mut States<WORDS>, words: &[__m512i]) {
    for (state, word) in states.iter_mut().zip(words) {
        // SAFETY: a word of each lane is 64 octets, and they need no alignment.
        unsafe { _mm512_storeu_si512(state.as_mut_ptr().cast(), *word) };
    }
}

/// The words of a block of each lane: the first words of all lanes, then the second words, and so on.
///
/// # Safety
/// Each start has the block with this index behind it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn words_of_lanes(starts: &[*const u8; LANES], block: usize) -> [__m512i; 16] {
    let big_endian = _mm512_set4_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203);
    let lanes: [__m512i; LANES] = core::array::from_fn(|lane| {
        // SAFETY: there are 64 octets, and they need no alignment.
        let octets = unsafe { _mm512_loadu_si512(starts[lane].add(64 * block).cast()) };
        _mm512_shuffle_epi8(octets, big_endian)
    });
    transpose(lanes)
}

/// Sixteen vectors of the first elements, of the second elements, and so on.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn transpose(rows: [__m512i; 16]) -> [__m512i; 16] {
    // First within quarters of vectors, by pairs of rows and then of pairs; after that whole quarters.
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
