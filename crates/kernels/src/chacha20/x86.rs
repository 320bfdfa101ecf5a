//! Masks in the lanes of vectors: one source for SSE2, AVX2 and AVX-512.
//!
//! A vector holds the same word of the states of all lanes. A vector of samples has a sample in each 16 octets, so four of them,
//! transposed in parts of 16 octets, are the last row of the states.

/// Four quarter rounds that do not depend on each other (RFC 8439 §2.1), step by step. A function would not be inlined.
macro_rules! quarter_rounds {
    ($x:ident, $add:ident, $xor:ident, $([$a:literal, $b:literal, $c:literal, $d:literal])*) => {
        $($x[$a] = $add($x[$a], $x[$b]);)*
        $($x[$d] = rotate_16($xor($x[$d], $x[$a]));)*
        $($x[$c] = $add($x[$c], $x[$d]);)*
        $($x[$b] = rotate_12($xor($x[$b], $x[$c]));)*
        $($x[$a] = $add($x[$a], $x[$b]);)*
        $($x[$d] = rotate_8($xor($x[$d], $x[$a]));)*
        $($x[$c] = $add($x[$c], $x[$d]);)*
        $($x[$b] = rotate_7($xor($x[$b], $x[$c]));)*
    };
}

pub(super) use quarter_rounds;

/// A module with `masks` for one type of vector, of `$lanes` words, and its instructions.
macro_rules! masks_in_lanes {
    (
        $module:ident, $lanes:literal, $features:literal, $vector:ident,
        load: $load:ident, store: $store:ident, splat: $splat:ident, zero: $zero:ident, add: $add:ident, xor: $xor:ident,
        unpack: $low32:ident, $high32:ident, $low64:ident, $high64:ident,
        rotate: |$word:ident| $by16:expr, $by12:expr, $by8:expr, $by7:expr,
    ) => {
        pub(super) mod $module {
            use core::arch::x86_64::*;

            use crate::chacha20::state::{CONSTANTS, initial_state};

            /// Samples in a vector.
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
                    quarter_rounds!(x, $add, $xor, [0, 4, 8, 12] [1, 5, 9, 13] [2, 6, 10, 14] [3, 7, 11, 15]);
                    quarter_rounds!(x, $add, $xor, [0, 5, 10, 15] [1, 6, 11, 12] [2, 7, 8, 13] [3, 4, 9, 14]);
                }
                quarter_rounds!(x, $add, $xor, [0, 4, 8, 12] [1, 5, 9, 13] [2, 6, 10, 14] [3, 7, 11, 15]);
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
            pub(crate) fn rotate_16($word: $vector) -> $vector {
                $by16
            }

            #[inline]
            #[target_feature(enable = $features)]
            pub(crate) fn rotate_12($word: $vector) -> $vector {
                $by12
            }

            #[inline]
            #[target_feature(enable = $features)]
            pub(crate) fn rotate_8($word: $vector) -> $vector {
                $by8
            }

            #[inline]
            #[target_feature(enable = $features)]
            pub(crate) fn rotate_7($word: $vector) -> $vector {
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
                // SAFETY: there are 4 * SAMPLES samples, and any alignment will do.
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
                // SAFETY: as in `load`.
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
