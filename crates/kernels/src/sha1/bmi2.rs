//! SHA-1 by rotations of BMI2: the message schedule in vectors, four words at a time, beside the rounds of the four before.

use core::arch::x86_64::*;

use super::Sha1;
use crate::cpu::Bmi2;
use crate::hmac::one::{Block, OneMessageHash};
use crate::hmac::schedule::{Words, tied, tied_vector};

impl OneMessageHash<Bmi2, 5> for Sha1 {
    const ORDER: [u8; 16] = [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12];

    type State = [u32; 5];

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn state(words: &[u32; 5]) -> [u32; 5] {
        *words
    }

    // FIPS 180-4 §6.1.2. One copy for all calls: it has more than 1000 instructions.
    #[inline(never)]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn compress(state: &mut [u32; 5], mut w: Block) {
        leak!("HMAC-SHA-1: one block", *state);
        let mut words = Words::new();
        for (at, w) in w.into_iter().enumerate() {
            words.write(at, _mm_add_epi32(w, constants(0)));
        }
        let [mut a, mut b, mut c, mut d, mut e] = *state;
        macro_rules! round {
            ($f:ident $a:ident $b:ident $c:ident $d:ident $e:ident, $word:expr) => {
                $e = $e.wrapping_add($word).wrapping_add($f($b, $c, $d)).wrapping_add($a.rotate_left(5));
                $b = $b.rotate_left(30);
            };
        }
        macro_rules! four_rounds {
            ($at:literal, $f:ident $a:ident $b:ident $c:ident $d:ident $e:ident) => {
                // The words of the rounds sixteen further on.
                if $at < 16 {
                    w[$at % 4] = tied_vector(w[$at % 4]);
                    w[$at % 4] = next([0, 1, 2, 3].map(|step| w[($at + step) % 4]));
                }
                round!($f $a $b $c $d $e, words.read($at % 4 * 4));
                round!($f $e $a $b $c $d, words.read($at % 4 * 4 + 1));
                round!($f $d $e $a $b $c, words.read($at % 4 * 4 + 2));
                round!($f $c $d $e $a $b, words.read($at % 4 * 4 + 3));
                if $at < 16 {
                    words.write($at % 4, _mm_add_epi32(w[$at % 4], constants(4 * ($at + 4))));
                }
                [a, b, c, d, e] = [a, b, c, d, e].map(tied);
            };
        }
        macro_rules! twenty_rounds {
            ($f:ident: $($at:literal)*) => {
                twenty_rounds!(@ $f $($at)*);
            };
            (@ $f:ident $first:literal $second:literal $third:literal $fourth:literal $fifth:literal) => {
                four_rounds!($first, $f a b c d e);
                four_rounds!($second, $f b c d e a);
                four_rounds!($third, $f c d e a b);
                four_rounds!($fourth, $f d e a b c);
                four_rounds!($fifth, $f e a b c d);
            };
        }
        twenty_rounds!(ch: 0 1 2 3 4);
        twenty_rounds!(parity: 5 6 7 8 9);
        twenty_rounds!(maj: 10 11 12 13 14);
        twenty_rounds!(parity: 15 16 17 18 19);
        let after = [a, b, c, d, e];
        for (word, after) in state.iter_mut().zip(after) {
            *word = word.wrapping_add(after);
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn words(state: [u32; 5]) -> [__m128i; 2] {
        let [a, b, c, d, e] = state.map(u32::cast_signed);
        [_mm_setr_epi32(a, b, c, d), _mm_setr_epi32(e, 0, 0, 0)]
    }
}

/// The constant of a round (FIPS 180-4 §4.2.1), four times.
#[inline]
#[target_feature(enable = "avx2")]
fn constants(round: usize) -> __m128i {
    let constant: u32 = match round / 20 {
        0 => 0x5a827999,
        1 => 0x6ed9eba1,
        2 => 0x8f1bbcdc,
        _ => 0xca62c1d6,
    };
    _mm_set1_epi32(constant.cast_signed())
}

// The functions of FIPS 180-4 §4.1.1. The two parts of Ch and of Maj have no bit in common.
#[inline]
fn ch(b: u32, c: u32, d: u32) -> u32 {
    (b & c).wrapping_add(!b & d)
}

#[inline]
fn parity(b: u32, c: u32, d: u32) -> u32 {
    b ^ c ^ d
}

#[inline]
fn maj(b: u32, c: u32, d: u32) -> u32 {
    (b & c).wrapping_add((b ^ c) & d)
}

/// The four words of the schedule behind sixteen.
#[inline]
#[target_feature(enable = "avx2")]
fn next([a, b, c, d]: Block) -> __m128i {
    let sum = _mm_xor_si128(_mm_srli_si128::<4>(d), c);
    let sum = _mm_xor_si128(sum, _mm_xor_si128(_mm_alignr_epi8::<8>(b, a), a));
    let rotated = _mm_or_si128(_mm_add_epi32(sum, sum), _mm_srli_epi32::<31>(sum));
    // The last word needs the first, rotated once more.
    let first = _mm_slli_si128::<12>(sum);
    let last = _mm_xor_si128(_mm_slli_epi32::<2>(first), _mm_srli_epi32::<30>(first));
    _mm_xor_si128(rotated, last)
}
