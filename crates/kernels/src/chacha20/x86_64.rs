//! ChaCha20 on x86-64: many masks at once, and consecutive blocks of key stream.

use core::arch::x86_64::*;

use super::portable::{CONSTANTS, double_round, initial_state};

/// Four independent quarter rounds (RFC 8439 §2.1), step by step. A function would not be inlined.
macro_rules! quarter_rounds {
    ($x:ident, $add:ident, $xor:ident, [$by16:expr, $by12:expr, $by8:expr, $by7:expr],
        $([$a:literal, $b:literal, $c:literal, $d:literal])*) => {
        $($x[$a] = $add($x[$a], $x[$b]);)*
        $($x[$d] = $by16($xor($x[$d], $x[$a]));)*
        $($x[$c] = $add($x[$c], $x[$d]);)*
        $($x[$b] = $by12($xor($x[$b], $x[$c]));)*
        $($x[$a] = $add($x[$a], $x[$b]);)*
        $($x[$d] = $by8($xor($x[$d], $x[$a]));)*
        $($x[$c] = $add($x[$c], $x[$d]);)*
        $($x[$b] = $by7($xor($x[$b], $x[$c]));)*
    };
    (masks $x:ident, $add:ident, $xor:ident, $($quarter:tt)*) => {
        quarter_rounds!($x, $add, $xor, [rotate_16, rotate_12, rotate_8, rotate_7], $($quarter)*)
    };
    (wide $x:ident, $($quarter:tt)*) => {
        quarter_rounds!(
            $x, _mm512_add_epi32, _mm512_xor_si512,
            [_mm512_rol_epi32::<16>, _mm512_rol_epi32::<12>, _mm512_rol_epi32::<8>, _mm512_rol_epi32::<7>], $($quarter)*
        )
    };
    (short $x:ident) => {
        quarter_rounds!(
            $x, _mm256_add_epi32, _mm256_xor_si256,
            [_mm256_rol_epi32::<16>, _mm256_rol_epi32::<12>, _mm256_rol_epi32::<8>, _mm256_rol_epi32::<7>], [0, 1, 2, 3]
        )
    };
}

/// A module with `masks` for one vector type of `$lanes` words and its instructions.
macro_rules! masks_in_lanes {
    (
        $module:ident, $lanes:literal, $features:literal, $vector:ident,
        load: $load:ident, store: $store:ident, splat: $splat:ident, zero: $zero:ident, add: $add:ident, xor: $xor:ident,
        unpack: $low32:ident, $high32:ident, $low64:ident, $high64:ident,
        rotate: |$word:ident| $by16:expr, $by12:expr, $by8:expr, $by7:expr,
    ) => {
        /// A vector holds the same word of the states of all lanes, or a sample in each 16 octets. Four vectors of samples, transposed in
        /// parts of 16 octets, are the last row of the states.
        pub(super) mod $module {
            use core::arch::x86_64::*;

            use crate::chacha20::portable::{CONSTANTS, initial_state};

            /// The number of samples in a vector.
            const SAMPLES: usize = $lanes / 4;

            /// Replaces each sample by the first eight octets of its key stream, and zeros.
            #[target_feature(enable = $features)]
            pub(crate) fn masks(key: &[u32; 8], samples: &mut [[u8; 16]; $lanes]) {
                leak!("ChaCha20: masks in lanes", *key);
                let [s0, s1, s2, s3] = load(samples);
                let (low_01, low_23) = ($low32(s0, s1), $low32(s2, s3));
                let (high_01, high_23) = ($high32(s0, s1), $high32(s2, s3));
                let last_row = [
                    $low64(low_01, low_23),
                    $high64(low_01, low_23),
                    $low64(high_01, high_23),
                    $high64(high_01, high_23),
                ];
                let mut x = initial_state!(splat, key, last_row);
                for _ in 0..9 {
                    quarter_rounds!(masks x, $add, $xor, [0, 4, 8, 12] [1, 5, 9, 13] [2, 6, 10, 14] [3, 7, 11, 15]);
                    quarter_rounds!(masks x, $add, $xor, [0, 5, 10, 15] [1, 6, 11, 12] [2, 7, 8, 13] [3, 4, 9, 14]);
                }
                quarter_rounds!(masks x, $add, $xor, [0, 4, 8, 12] [1, 5, 9, 13] [2, 6, 10, 14] [3, 7, 11, 15]);
                let word_0 = $add(first_word(&x, [0, 5, 10, 15]), splat(CONSTANTS[0]));
                let word_1 = $add(first_word(&x, [1, 6, 11, 12]), splat(CONSTANTS[1]));

                let (streams_01, streams_23) = ($low32(word_0, word_1), $high32(word_0, word_1));
                let zero = $zero();
                store(
                    samples,
                    [
                        $low64(streams_01, zero),
                        $high64(streams_01, zero),
                        $low64(streams_23, zero),
                        $high64(streams_23, zero),
                    ],
                );
            }

            /// The first word of a quarter round.
            #[inline]
            #[target_feature(enable = $features)]
            fn first_word(x: &[$vector; 16], [a, b, c, d]: [usize; 4]) -> $vector {
                let first = $add(x[a], x[b]);
                let third = $add(x[c], rotate_16($xor(x[d], first)));
                $add(first, rotate_12($xor(x[b], third)))
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn rotate_16($word: $vector) -> $vector {
                $by16
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn rotate_12($word: $vector) -> $vector {
                $by12
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn rotate_8($word: $vector) -> $vector {
                $by8
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn rotate_7($word: $vector) -> $vector {
                $by7
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn splat(word: u32) -> $vector {
                $splat(word.cast_signed())
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn load(samples: &[[u8; 16]; $lanes]) -> [$vector; 4] {
                let at = samples.as_ptr();
                // SAFETY: the pointer has 4 * SAMPLES samples; any alignment will do.
                unsafe {
                    [
                        $load(at.cast()),
                        $load(at.add(SAMPLES).cast()),
                        $load(at.add(2 * SAMPLES).cast()),
                        $load(at.add(3 * SAMPLES).cast()),
                    ]
                }
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn store(samples: &mut [[u8; 16]; $lanes], vectors: [$vector; 4]) {
                let at = samples.as_mut_ptr();
                // SAFETY: the pointer has 4 * SAMPLES samples; any alignment will do.
                unsafe {
                    $store(at.cast(), vectors[0]);
                    $store(at.add(SAMPLES).cast(), vectors[1]);
                    $store(at.add(2 * SAMPLES).cast(), vectors[2]);
                    $store(at.add(3 * SAMPLES).cast(), vectors[3]);
                }
            }
        }
    };
}

masks_in_lanes! {
    sse2, 4, "sse2", __m128i,
    load: _mm_loadu_si128, store: _mm_storeu_si128, splat: _mm_set1_epi32, zero: _mm_setzero_si128,
    add: _mm_add_epi32, xor: _mm_xor_si128,
    unpack: _mm_unpacklo_epi32, _mm_unpackhi_epi32, _mm_unpacklo_epi64, _mm_unpackhi_epi64,
    rotate: |word|
        _mm_shufflehi_epi16::<0b10_11_00_01>(_mm_shufflelo_epi16::<0b10_11_00_01>(word)),
        _mm_or_si128(_mm_slli_epi32::<12>(word), _mm_srli_epi32::<20>(word)),
        _mm_or_si128(_mm_slli_epi32::<8>(word), _mm_srli_epi32::<24>(word)),
        _mm_or_si128(_mm_slli_epi32::<7>(word), _mm_srli_epi32::<25>(word)),
}

masks_in_lanes! {
    avx2, 8, "avx2", __m256i,
    load: _mm256_loadu_si256, store: _mm256_storeu_si256, splat: _mm256_set1_epi32, zero: _mm256_setzero_si256,
    add: _mm256_add_epi32, xor: _mm256_xor_si256,
    unpack: _mm256_unpacklo_epi32, _mm256_unpackhi_epi32, _mm256_unpacklo_epi64, _mm256_unpackhi_epi64,
    rotate: |word|
        _mm256_shuffle_epi8(word, _mm256_broadcastsi128_si256(
            _mm_setr_epi8(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13))),
        _mm256_or_si256(_mm256_slli_epi32::<12>(word), _mm256_srli_epi32::<20>(word)),
        _mm256_shuffle_epi8(word, _mm256_broadcastsi128_si256(
            _mm_setr_epi8(3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14))),
        _mm256_or_si256(_mm256_slli_epi32::<7>(word), _mm256_srli_epi32::<25>(word)),
}

masks_in_lanes! {
    avx512, 16, "avx512f", __m512i,
    load: _mm512_loadu_si512, store: _mm512_storeu_si512, splat: _mm512_set1_epi32, zero: _mm512_setzero_si512,
    add: _mm512_add_epi32, xor: _mm512_xor_si512,
    unpack: _mm512_unpacklo_epi32, _mm512_unpackhi_epi32, _mm512_unpacklo_epi64, _mm512_unpackhi_epi64,
    rotate: |word|
        _mm512_rol_epi32::<16>(word),
        _mm512_rol_epi32::<12>(word),
        _mm512_rol_epi32::<8>(word),
        _mm512_rol_epi32::<7>(word),
}

/// Consecutive blocks of key stream (RFC 8439 §2.4), starting with this counter: 4, 6, 8, 10, 16 or 24 at once.
///
/// 16 blocks share vectors that hold the same word of each block. Further blocks come in groups of four, whose vectors hold one row of
/// each block's state; they use the time that the processor would spend waiting for the 16. Fewer than 16 blocks go in pairs in shorter
/// vectors, whose results are ready earlier.
#[target_feature(enable = "avx512f,avx512vl")]
pub(crate) fn blocks<const BLOCKS: usize>(
    stream: &mut [[u8; 64]; BLOCKS],
    key: &[u32; 8],
    nonce: &[u8; 12],
    counter: u32,
) {
    const { assert!(matches!(BLOCKS, 4 | 6 | 8 | 10 | 16 | 24)) };
    leak!("ChaCha20-Poly1305: key stream", *key);
    let nonce = words(nonce);
    match BLOCKS {
        4 => pairs::<2>(stream, key, nonce, counter),
        6 => pairs::<3>(stream, key, nonce, counter),
        8 => pairs::<4>(stream, key, nonce, counter),
        10 => pairs::<5>(stream, key, nonce, counter),
        _ => many(stream, key, nonce, counter, ()),
    }
}

/// Blocks 1 to `BLOCKS` of the key stream, with 16, 20 or 24 blocks, and block 0 computed beside them.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn blocks_beside_key<B: BesideKey, const BLOCKS: usize>(
    stream: &mut [[u8; 64]; BLOCKS],
    key: &[u32; 8],
    nonce: &[u8; 12],
    beside: B,
) -> B {
    const { assert!(matches!(BLOCKS, 16 | 20 | 24)) };
    leak!("ChaCha20-Poly1305: key stream beside the one-time key", *key);
    let nonce = words(nonce);
    let x = initial_state!(u32::from, key, [0, nonce[0], nonce[1], nonce[2]]);
    many(stream, key, nonce, 1, KeyBlock { x, start: x, beside }).beside
}

#[inline]
fn words(nonce: &[u8; 12]) -> [u32; 3] {
    let nonce = nonce.as_chunks().0;
    [u32::from_le_bytes(nonce[0]), u32::from_le_bytes(nonce[1]), u32::from_le_bytes(nonce[2])]
}

/// Work in general registers that fills the time in which the rounds of 16 or more blocks wait for one another. All of it is
/// `inline(always)`: a call would save and restore all vectors, which costs more than is gained (1200 octets: 383 ns instead of 264).
trait Beside {
    /// Called twice in each of the first five double rounds.
    fn early(&mut self);
    /// Called in each of the last five double rounds, with its number from 0 on.
    fn late(&mut self, number: usize);
}

impl Beside for () {
    #[inline(always)]
    fn early(&mut self) {}
    #[inline(always)]
    fn late(&mut self, _: usize) {}
}

/// Work on the one-time key, the first half of block 0, while the other blocks are still being computed.
pub(crate) trait BesideKey {
    fn key(&mut self, key: [u32; 8]);
    /// Called five times, with a number from 0 on.
    fn step(&mut self, number: usize);
}

/// Block 0. General registers compute a single block faster than vectors.
struct KeyBlock<B> {
    x: [u32; 16],
    start: [u32; 16],
    beside: B,
}

impl<B: BesideKey> Beside for KeyBlock<B> {
    #[inline(always)]
    fn early(&mut self) {
        double_round(&mut self.x);
    }

    #[inline(always)]
    fn late(&mut self, number: usize) {
        if number == 0 {
            let mut key = [0; 8];
            for (word, (x, start)) in key.iter_mut().zip(self.x.iter().zip(self.start)) {
                *word = x.wrapping_add(start);
            }
            self.beside.key(key);
        }
        self.beside.step(number);
    }
}

/// 16, 20 or 24 blocks.
#[inline]
#[target_feature(enable = "avx512f")]
fn many<B: Beside, const BLOCKS: usize>(
    stream: &mut [[u8; 64]; BLOCKS],
    key: &[u32; 8],
    nonce: [u32; 3],
    counter: u32,
    mut beside: B,
) -> B {
    let (stream, more) = stream.split_at_mut(16);

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
    let next = [start[0], start[1], start[2], _mm512_add_epi32(start[3], row([4, 0, 0, 0]))];
    let (mut y, mut z) = (start, next);

    macro_rules! columns {
        () => {
            quarter_rounds!(wide x, [0, 4, 8, 12] [1, 5, 9, 13] [2, 6, 10, 14] [3, 7, 11, 15]);
            if BLOCKS >= 20 {
                quarter_rounds!(wide y, [0, 1, 2, 3]);
                y = diagonals_as_columns(y);
            }
            if BLOCKS >= 24 {
                quarter_rounds!(wide z, [0, 1, 2, 3]);
                z = diagonals_as_columns(z);
            }
        };
    }
    macro_rules! diagonals {
        () => {
            quarter_rounds!(wide x, [0, 5, 10, 15] [1, 6, 11, 12] [2, 7, 8, 13] [3, 4, 9, 14]);
            if BLOCKS >= 20 {
                quarter_rounds!(wide y, [0, 1, 2, 3]);
                y = columns_again(y);
            }
            if BLOCKS >= 24 {
                quarter_rounds!(wide z, [0, 1, 2, 3]);
                z = columns_again(z);
            }
        };
    }
    for _ in 0..5 {
        columns!();
        beside.early();
        diagonals!();
        beside.early();
    }
    for number in 0..5 {
        columns!();
        beside.late(number);
        diagonals!();
    }

    let add = |at: usize, word| _mm512_add_epi32(x[at], splat(word));
    let last = _mm512_add_epi32(x[12], counters);
    let words = [
        [add(0, CONSTANTS[0]), add(1, CONSTANTS[1]), add(2, CONSTANTS[2]), add(3, CONSTANTS[3])],
        [add(4, key[0]), add(5, key[1]), add(6, key[2]), add(7, key[3])],
        [add(8, key[4]), add(9, key[5]), add(10, key[6]), add(11, key[7])],
        [last, add(13, nonce[0]), add(14, nonce[1]), add(15, nonce[2])],
    ];
    // Each vector of a part holds one row of four blocks: 0, 4, 8 and 12 in the first part, 1, 5, 9 and 13 in the second, and so on.
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
    let rows = [sum(y, start), sum(z, next)];
    for (four, rows) in more.as_chunks_mut::<4>().0.iter_mut().zip(rows) {
        four.iter_mut().zip(transposed(rows)).for_each(|(place, block)| store(place, block));
    }
    beside
}

/// Twice `PAIRS` blocks, two in each vector.
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
            quarter_rounds!(short x);
        }
        for [_, b, c, d] in &mut x {
            *b = _mm256_shuffle_epi32::<0b00_11_10_01>(*b);
            *c = _mm256_shuffle_epi32::<0b01_00_11_10>(*c);
            *d = _mm256_shuffle_epi32::<0b10_01_00_11>(*d);
        }
        for x in &mut x {
            quarter_rounds!(short x);
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
        // SAFETY: two blocks are 128 octets; any alignment will do.
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
    // SAFETY: the place has 64 octets; any alignment will do.
    unsafe { _mm512_storeu_si512(place.as_mut_ptr().cast(), block) };
}

/// The same row in two blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn short_row(words: [u32; 4]) -> __m256i {
    let [a, b, c, d] = words.map(u32::cast_signed);
    _mm256_broadcastsi128_si256(_mm_setr_epi32(a, b, c, d))
}
