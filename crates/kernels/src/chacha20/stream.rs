//! Consecutive blocks of key stream (RFC 8439 §2.4): 4, 6, 8, 10, 16 or 20 at once.
//!
//! 16 blocks lie in the lanes of vectors that hold one word each. The 4 that may come with them lie in vectors that hold one row of
//! the state each, and keep the processor busy while it would wait for the 16. Fewer blocks lie two by two in shorter vectors,
//! which have their results earlier.

use core::arch::x86_64::*;

use super::state::{CONSTANTS, initial_state};
use super::x86::avx512::{rotate_7, rotate_8, rotate_12, rotate_16};
use super::x86::quarter_rounds;

/// As many blocks, the first with this counter.
#[target_feature(enable = "avx512f,avx512vl")]
pub(crate) fn blocks<const BLOCKS: usize>(
    stream: &mut [[u8; 64]; BLOCKS],
    key: &[u32; 8],
    nonce: &[u8; 12],
    counter: u32,
) {
    const { assert!(matches!(BLOCKS, 4 | 6 | 8 | 10 | 16 | 20)) };
    leak!("ChaCha20-Poly1305: key stream", *key);
    let nonce = nonce.as_chunks().0;
    let nonce = [u32::from_le_bytes(nonce[0]), u32::from_le_bytes(nonce[1]), u32::from_le_bytes(nonce[2])];
    match BLOCKS {
        4 => pairs::<2>(stream, key, nonce, counter),
        6 => pairs::<3>(stream, key, nonce, counter),
        8 => pairs::<4>(stream, key, nonce, counter),
        10 => pairs::<5>(stream, key, nonce, counter),
        _ => many(stream, key, nonce, counter),
    }
}

/// 16 or 20 blocks.
#[inline]
#[target_feature(enable = "avx512f")]
fn many(stream: &mut [[u8; 64]], key: &[u32; 8], nonce: [u32; 3], counter: u32) {
    let (stream, more) = stream.split_at_mut(16);
    let rows = !more.is_empty();

    let counters = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let counters = _mm512_add_epi32(counters, splat(counter));
    let mut x = initial_state!(splat, key, [counters, splat(nonce[0]), splat(nonce[1]), splat(nonce[2])]);

    let numbers = _mm512_setr_epi32(0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0);
    let start = [
        row(CONSTANTS),
        row([key[0], key[1], key[2], key[3]]),
        row([key[4], key[5], key[6], key[7]]),
        _mm512_add_epi32(row([counter.wrapping_add(16), nonce[0], nonce[1], nonce[2]]), numbers),
    ];
    let mut y = start;

    for _ in 0..10 {
        quarter_rounds!(x, _mm512_add_epi32, _mm512_xor_si512, [0, 4, 8, 12] [1, 5, 9, 13] [2, 6, 10, 14] [3, 7, 11, 15]);
        if rows {
            quarter_rounds!(y, _mm512_add_epi32, _mm512_xor_si512, [0, 1, 2, 3]);
            y = diagonals_as_columns(y);
        }
        quarter_rounds!(x, _mm512_add_epi32, _mm512_xor_si512, [0, 5, 10, 15] [1, 6, 11, 12] [2, 7, 8, 13] [3, 4, 9, 14]);
        if rows {
            quarter_rounds!(y, _mm512_add_epi32, _mm512_xor_si512, [0, 1, 2, 3]);
            y = columns_again(y);
        }
    }

    let add = |at: usize, word| _mm512_add_epi32(x[at], splat(word));
    let last = _mm512_add_epi32(x[12], counters);
    let words = [
        [add(0, CONSTANTS[0]), add(1, CONSTANTS[1]), add(2, CONSTANTS[2]), add(3, CONSTANTS[3])],
        [add(4, key[0]), add(5, key[1]), add(6, key[2]), add(7, key[3])],
        [add(8, key[4]), add(9, key[5]), add(10, key[6]), add(11, key[7])],
        [last, add(13, nonce[0]), add(14, nonce[1]), add(15, nonce[2])],
    ];
    // Each vector of a part holds one row of four blocks: blocks 0, 4, 8 and 12 in the first part, 1, 5, 9 and 13 in the second.
    let mut parts = [words[0]; 4];
    for (group, [a, b, c, d]) in words.into_iter().enumerate() {
        let (low_ab, low_cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
        let (high_ab, high_cd) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
        parts[0][group] = _mm512_unpacklo_epi64(low_ab, low_cd);
        parts[1][group] = _mm512_unpackhi_epi64(low_ab, low_cd);
        parts[2][group] = _mm512_unpacklo_epi64(high_ab, high_cd);
        parts[3][group] = _mm512_unpackhi_epi64(high_ab, high_cd);
    }
    for (place, rows) in parts.into_iter().enumerate() {
        let blocks = transposed(rows);
        store(&mut stream[place], blocks[0]);
        store(&mut stream[4 + place], blocks[1]);
        store(&mut stream[8 + place], blocks[2]);
        store(&mut stream[12 + place], blocks[3]);
    }
    if rows {
        more.iter_mut().zip(transposed(sum(y, start))).for_each(|(place, block)| store(place, block));
    }
}

/// Twice `PAIRS` blocks, two in a vector.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn pairs<const PAIRS: usize>(stream: &mut [[u8; 64]], key: &[u32; 8], nonce: [u32; 3], counter: u32) {
    let start = [
        short_row(CONSTANTS),
        short_row([key[0], key[1], key[2], key[3]]),
        short_row([key[4], key[5], key[6], key[7]]),
        _mm256_add_epi32(
            short_row([counter, nonce[0], nonce[1], nonce[2]]),
            _mm256_setr_epi32(0, 0, 0, 0, 1, 0, 0, 0),
        ),
    ];
    let mut starts = [start; PAIRS];
    for (pair, start) in (0..).zip(&mut starts) {
        start[3] = _mm256_add_epi32(start[3], short_row([2 * pair, 0, 0, 0]));
    }
    let mut x = starts;
    for _ in 0..10 {
        for x in &mut x {
            short::quarter_round(x);
        }
        for [_, b, c, d] in &mut x {
            *b = _mm256_shuffle_epi32::<0b00_11_10_01>(*b);
            *c = _mm256_shuffle_epi32::<0b01_00_11_10>(*c);
            *d = _mm256_shuffle_epi32::<0b10_01_00_11>(*d);
        }
        for x in &mut x {
            short::quarter_round(x);
        }
        for [_, b, c, d] in &mut x {
            *b = _mm256_shuffle_epi32::<0b10_01_00_11>(*b);
            *c = _mm256_shuffle_epi32::<0b01_00_11_10>(*c);
            *d = _mm256_shuffle_epi32::<0b00_11_10_01>(*d);
        }
    }
    let pairs = stream.as_chunks_mut::<2>().0;
    for ((pair, [a, b, c, d]), start) in pairs.iter_mut().zip(x).zip(starts) {
        let [a, b] = [_mm256_add_epi32(a, start[0]), _mm256_add_epi32(b, start[1])];
        let [c, d] = [_mm256_add_epi32(c, start[2]), _mm256_add_epi32(d, start[3])];
        let at: *mut __m256i = pair.as_mut_ptr().cast();
        // SAFETY: two blocks are 128 octets, at any alignment.
        unsafe {
            _mm256_storeu_si256(at, _mm256_permute2x128_si256::<0x20>(a, b));
            _mm256_storeu_si256(at.add(1), _mm256_permute2x128_si256::<0x20>(c, d));
            _mm256_storeu_si256(at.add(2), _mm256_permute2x128_si256::<0x31>(a, b));
            _mm256_storeu_si256(at.add(3), _mm256_permute2x128_si256::<0x31>(c, d));
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sum([a, b, c, d]: [__m512i; 4], others: [__m512i; 4]) -> [__m512i; 4] {
    [
        _mm512_add_epi32(a, others[0]),
        _mm512_add_epi32(b, others[1]),
        _mm512_add_epi32(c, others[2]),
        _mm512_add_epi32(d, others[3]),
    ]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn diagonals_as_columns([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    [
        a,
        _mm512_shuffle_epi32::<0b00_11_10_01>(b),
        _mm512_shuffle_epi32::<0b01_00_11_10>(c),
        _mm512_shuffle_epi32::<0b10_01_00_11>(d),
    ]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn columns_again([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    [
        a,
        _mm512_shuffle_epi32::<0b10_01_00_11>(b),
        _mm512_shuffle_epi32::<0b01_00_11_10>(c),
        _mm512_shuffle_epi32::<0b00_11_10_01>(d),
    ]
}

/// Turns the rows of four blocks into the four blocks.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (even_ab, even_cd) = (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0x88>(c, d));
    let (odd_ab, odd_cd) = (_mm512_shuffle_i32x4::<0xdd>(a, b), _mm512_shuffle_i32x4::<0xdd>(c, d));
    [
        _mm512_shuffle_i32x4::<0x88>(even_ab, even_cd),
        _mm512_shuffle_i32x4::<0x88>(odd_ab, odd_cd),
        _mm512_shuffle_i32x4::<0xdd>(even_ab, even_cd),
        _mm512_shuffle_i32x4::<0xdd>(odd_ab, odd_cd),
    ]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(word: u32) -> __m512i {
    _mm512_set1_epi32(word.cast_signed())
}

/// The same row in four blocks.
#[inline]
#[target_feature(enable = "avx512f")]
fn row(words: [u32; 4]) -> __m512i {
    let [a, b, c, d] = words.map(u32::cast_signed);
    _mm512_broadcast_i32x4(_mm_setr_epi32(a, b, c, d))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(place: &mut [u8; 64], block: __m512i) {
    // SAFETY: these are 64 octets, at any alignment.
    unsafe { _mm512_storeu_si512(place.as_mut_ptr().cast(), block) };
}

/// The same row in two blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn short_row(words: [u32; 4]) -> __m256i {
    let [a, b, c, d] = words.map(u32::cast_signed);
    _mm256_broadcastsi128_si256(_mm_setr_epi32(a, b, c, d))
}

/// Quarter rounds of two blocks. The macro finds its rotations by their names.
mod short {
    use core::arch::x86_64::*;

    use super::quarter_rounds;

    /// Four quarter rounds in each block.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    pub(super) fn quarter_round(x: &mut [__m256i; 4]) {
        quarter_rounds!(x, _mm256_add_epi32, _mm256_xor_si256, [0, 1, 2, 3]);
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    fn rotate_16(word: __m256i) -> __m256i {
        _mm256_rol_epi32::<16>(word)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    fn rotate_12(word: __m256i) -> __m256i {
        _mm256_rol_epi32::<12>(word)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    fn rotate_8(word: __m256i) -> __m256i {
        _mm256_rol_epi32::<8>(word)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl")]
    fn rotate_7(word: __m256i) -> __m256i {
        _mm256_rol_epi32::<7>(word)
    }
}
