//! Consecutive blocks of key stream (RFC 8439 §2.4): 4, 8, 16 or 20 at once.
//!
//! 16 blocks lie in the lanes of vectors that hold one word each; 4 blocks lie in vectors that hold one row of the state each. The
//! 20 are both at once: the 4 keep the processor busy while it would wait for the 16.

use core::arch::x86_64::*;

use super::state::{CONSTANTS, initial_state};
use super::x86::quarter_rounds;

/// 4, 8, 16 or 20 blocks, the first with this counter.
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn blocks<const BLOCKS: usize>(
    key: &[u32; 8],
    nonce: &[u8; 12],
    counter: u32,
) -> [[u8; 64]; BLOCKS] {
    const { assert!(matches!(BLOCKS, 4 | 8 | 16 | 20)) };
    leak!("ChaCha20-Poly1305: key stream", *key);
    let lanes = BLOCKS >= 16;
    let rows = !BLOCKS.is_multiple_of(16);
    let more_rows = BLOCKS == 8;
    let nonce = nonce.as_chunks().0;
    let nonce = [u32::from_le_bytes(nonce[0]), u32::from_le_bytes(nonce[1]), u32::from_le_bytes(nonce[2])];

    let counters = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let counters = _mm512_add_epi32(counters, splat(counter));
    let mut x = initial_state!(splat, key, [counters, splat(nonce[0]), splat(nonce[1]), splat(nonce[2])]);

    let first = if lanes { counter.wrapping_add(16) } else { counter };
    let numbers = _mm512_setr_epi32(0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0);
    let start = [
        row(CONSTANTS),
        row([key[0], key[1], key[2], key[3]]),
        row([key[4], key[5], key[6], key[7]]),
        _mm512_add_epi32(row([first, nonce[0], nonce[1], nonce[2]]), numbers),
    ];
    let four_later = _mm512_add_epi32(start[3], row([4, 0, 0, 0]));
    let mut y = start;
    let mut z = [start[0], start[1], start[2], four_later];

    for _ in 0..10 {
        if lanes {
            quarter_rounds!(x, _mm512_add_epi32, _mm512_xor_si512, [0, 4, 8, 12] [1, 5, 9, 13] [2, 6, 10, 14] [3, 7, 11, 15]);
        }
        if rows {
            quarter_rounds!(y, _mm512_add_epi32, _mm512_xor_si512, [0, 1, 2, 3]);
            y = diagonals_as_columns(y);
        }
        if more_rows {
            quarter_rounds!(z, _mm512_add_epi32, _mm512_xor_si512, [0, 1, 2, 3]);
            z = diagonals_as_columns(z);
        }
        if lanes {
            quarter_rounds!(x, _mm512_add_epi32, _mm512_xor_si512, [0, 5, 10, 15] [1, 6, 11, 12] [2, 7, 8, 13] [3, 4, 9, 14]);
        }
        if rows {
            quarter_rounds!(y, _mm512_add_epi32, _mm512_xor_si512, [0, 1, 2, 3]);
            y = columns_again(y);
        }
        if more_rows {
            quarter_rounds!(z, _mm512_add_epi32, _mm512_xor_si512, [0, 1, 2, 3]);
            z = columns_again(z);
        }
    }

    let mut stream = [[0; 64]; BLOCKS];
    if lanes {
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
    }
    if rows {
        let blocks = transposed(sum(y, start));
        let at = if lanes { 16 } else { 0 };
        stream[at..][..4].iter_mut().zip(blocks).for_each(|(place, block)| store(place, block));
    }
    if more_rows {
        let blocks = transposed(sum(z, [start[0], start[1], start[2], four_later]));
        stream[4..].iter_mut().zip(blocks).for_each(|(place, block)| store(place, block));
    }
    stream
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

#[inline]
#[target_feature(enable = "avx512f")]
fn rotate_16(word: __m512i) -> __m512i {
    _mm512_rol_epi32::<16>(word)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn rotate_12(word: __m512i) -> __m512i {
    _mm512_rol_epi32::<12>(word)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn rotate_8(word: __m512i) -> __m512i {
    _mm512_rol_epi32::<8>(word)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn rotate_7(word: __m512i) -> __m512i {
    _mm512_rol_epi32::<7>(word)
}
